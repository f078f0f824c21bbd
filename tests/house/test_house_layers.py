"""The house rules that a machine can check: layers, homes of foreign libraries, words."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PRODUCT = PROJECT / "auditor"
LINT_TIMEOUT_S = 120

HOMES = {
    "kazoo": (
        "auditor/zookeeper/",
        "auditor/sandbox/seeder.py",
    ),  # the seeder writes; the auditor's own access cannot
    "socket": (
        "auditor/bookie/",
        "auditor/evidence/output_lock.py",
        "auditor/lister/server.py",
        "auditor/local_faults.py",
        "auditor/sandbox/",
        "auditor/topology/locating.py",
    ),  # the two locks name the host that holds them; the faults are those of its resolver
    "ssl": ("auditor/bookie/", "auditor/credentials/", "auditor/lister/", "auditor/zookeeper/"),
    "pyspark": ("auditor/spark/",),
    "prometheus_client": ("auditor/telemetry/",),
    "google": ("auditor/wire/", "auditor/pulsar/metadata.py"),
    "jinja2": ("auditor/after/page/",),
    "markupsafe": ("auditor/after/page/",),
    "subprocess": (
        "auditor/credentials/secret_reading.py",
        "auditor/java.py",
        "auditor/lister/directory_reader.py",
        "auditor/lister/scrub.py",
        "auditor/run/notifying.py",
        "auditor/sandbox/zookeeper_server.py",
        "auditor/spark/class_archive.py",
        "auditor/spark/private_spark.py",
        "auditor/topology/sources.py",
    ),
}
"""Where each foreign library may be imported."""

PLANTS = {
    "floors": [
        ("auditor/model/ledger.py", "auditor.wire.znode_paths"),
        ("auditor/first_checker/ledger.py", "auditor.second_checker.agreement"),
        ("auditor/second_checker/agreement.py", "auditor.first_checker.coverage"),
        ("auditor/second_checker/blocks.py", "auditor.witness.phrases"),
        ("auditor/report/text.py", "auditor.spark.store"),
        ("auditor/stages/stages.py", "auditor.spark.executor"),
        ("auditor/report/text.py", "auditor.after.page.rendering"),
        ("auditor/zookeeper/session.py", "auditor.bookie.exchange"),
        ("auditor/credentials/tls.py", "auditor.bookie.exchange"),
        ("auditor/topology/locating.py", "auditor.zookeeper.metadata_store"),
        ("auditor/run/single_ledgers.py", "auditor.sandbox.bookie"),
        ("auditor/spark/store.py", "auditor.run.pipeline"),
        ("auditor/judging/settle.py", "auditor.summary.counts"),
        ("auditor/evidence/run_directory.py", "auditor.summary.run_summary"),
        ("auditor/sandbox/bookie.py", "auditor.commands.run"),
    ],
    "run": [
        ("auditor/run/closing_looks.py", "auditor.run.pipeline"),
        ("auditor/run/request_counts.py", "auditor.run.conclusion"),
    ],
    "after": [
        ("auditor/after/causes.py", "auditor.judging.settle"),
        ("auditor/after/page/rendering.py", "auditor.zookeeper.session"),
    ],
    "no-spark": [
        ("auditor/run/single_ledgers.py", "auditor.spark.store"),
        ("auditor/run/replay.py", "auditor.spark.store"),
        ("auditor/run/pipeline.py", "auditor.spark.on_demand"),
        ("auditor/stages/local.py", "pyspark"),
        ("auditor/sandbox/cluster.py", "pyspark"),
        ("auditor/after/page/rendering.py", "auditor.spark.store"),
    ],
    "pure-core": [
        (module, f"{name}")
        for module, name in (
            ("auditor/model/ledger.py", "time"),
            ("auditor/wire/frames.py", "socket"),
            ("auditor/wire/znode_paths.py", "kazoo"),
            ("auditor/first_checker/coverage.py", "pyspark"),
            ("auditor/first_checker/schedule.py", "random"),
            ("auditor/witness/finding_lines.py", "structlog"),
            ("auditor/first_checker/recheck.py", "asyncio"),
            ("auditor/model/finding.py", "prometheus_client"),
            ("auditor/first_checker/coverage.py", "os"),
        )
    ],
}
"""For each contract of pyproject.toml, by id: a module and an import that break it."""


def contracts() -> dict[str, str]:
    """Return the name of every import-linter contract, by id."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    return {one["id"]: one["name"] for one in settings["tool"]["importlinter"]["contracts"]}


def lint(copy: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter over the copy alone: its directory comes first on the path."""
    program = (
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command;"
        " lint_imports_command()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--no-logo"],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        timeout=LINT_TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the product in which imports may be planted."""
    root = tmp_path_factory.mktemp("house")
    shutil.copytree(PRODUCT, root / "auditor", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", root)
    return root


def test_the_product_keeps_every_contract(copy: Path):
    """Imports only go down, and the core is arithmetic."""
    done = lint(copy)
    assert 0 == done.returncode, done.stdout + done.stderr
    for name in contracts().values():
        assert f"{name} KEPT" in " ".join(done.stdout.split()), done.stdout


def test_every_contract_has_a_plant():
    """A contract that no test tries to break may check nothing."""
    assert set(PLANTS) == set(contracts())


@pytest.mark.parametrize("contract", PLANTS)
def test_each_contract_bites(copy: Path, contract: str):
    """With imports against a contract, import-linter fails, and names the contract and each of the
    imports.
    """
    befores = {module: (copy / module).read_text() for module, _ in PLANTS[contract]}
    try:
        for module, library in PLANTS[contract]:
            (copy / module).write_text(f"{(copy / module).read_text()}\nimport {library}\n")
        done = lint(copy)
    finally:
        for module, before in befores.items():
            (copy / module).write_text(before)
    assert 1 == done.returncode, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert f"{contracts()[contract]} BROKEN" in said, said
    for module, library in PLANTS[contract]:
        assert f"{module.removesuffix('.py').replace('/', '.')} -> {library} " in said, (
            module,
            library,
            done.stdout,
        )


def test_every_part_of_the_product_has_a_floor():
    """No contract applies to a module that no layer names."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    floors = next(
        one for one in settings["tool"]["importlinter"]["contracts"] if one["id"] == "floors"
    )
    named = {
        name.strip().removeprefix("auditor.")
        for layer in floors["layers"]
        for name in layer.split("|")
    }
    there = {
        path.stem
        for path in PRODUCT.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert set() == there - {"__init__"} - named


@cache
def modules() -> list[tuple[str, str, ast.Module]]:
    """Return name, text and syntax tree of every hand-written module of the product; they are read
    once.
    """
    paths = [path for path in sorted(PRODUCT.rglob("*.py")) if "generated" not in path.parts]
    texts = [(str(path.relative_to(PROJECT)), path.read_text()) for path in paths]
    return [(name, text, ast.parse(text)) for name, text in texts]


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the top-level names of everything that a module imports, at any place in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("library", HOMES)
def test_each_foreign_library_has_one_home(library: str):
    """A library with a home is imported only there."""
    users = [name for name, _, tree in modules() if library in imported(tree)]
    assert [] == [name for name in users if not name.startswith(HOMES[library])]
    if library != "ssl":  # TLS has a home before it has a user
        assert users, f"nobody imports {library}: its home is out of date"


def test_private_attributes_of_spark_are_named_in_one_module():
    """The module gives the reason for each."""
    names = {"_gateway", "_jvm", "_jsc", "_jdf", "_jsparkSession", "_accumulatorServer", "_sc"}
    found = {
        file.relative_to(PROJECT).as_posix()
        for file in (PRODUCT / "spark").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if getattr(node, "attr", getattr(node, "value", None)) in names
    }
    assert {"auditor/spark/private_spark.py"} == found


def test_protobuf_classes_stay_with_the_codecs():
    """Generated classes are imported only where bytes become values."""
    users = [name for name, text, _ in modules() if re.search(r"wire\.generated|_pb2", text)]
    homes = ("auditor/wire/", "auditor/pulsar/metadata.py")
    assert [] == [name for name in users if not name.startswith(homes)]


def test_no_module_is_called_after_nothing():
    """No module is called utils, helpers or common: a module has a layer and a name."""
    names = (*PRODUCT.rglob("*"), *(PROJECT / "tests").rglob("*"))
    assert [] == [
        str(path)
        for path in names
        if path.stem.strip("_").lower() in {"utils", "util", "helpers", "helper", "common", "misc"}
    ]


def test_every_module_says_what_it_is():
    """Each module that has code begins with a docstring."""
    assert [] == [
        name for name, text, tree in modules() if text.strip() and not ast.get_docstring(tree)
    ]


def test_no_two_test_modules_share_a_name():
    """Test modules are imported by their bare names, so a second one of the same name would hide
    the first.
    """
    names = [path.name for path in (PROJECT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)


NOT_OURS = {"build", "dist", "audits", "target", "spark-warehouse", "__pycache__", "node_modules"}
BYTES_READ_MAX = 2**20


def texts() -> Iterator[tuple[str, str]]:
    """Yield every text file that git has of the project: what else lies in the checkout is its
    user's. Without git (an unpacked archive) that is every file but those that begin with a dot.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True)
    paths = listed.stdout.split("\0") if listed.returncode == 0 else _files_without_git()
    for name in filter(None, paths):
        path = PROJECT / name
        data = path.read_bytes()[:BYTES_READ_MAX] if path.is_file() else b"\0"
        if b"\0" not in data:
            yield name, data.decode(errors="replace")


def _files_without_git() -> Iterator[str]:
    for folder, folders, files in os.walk(PROJECT):
        folders[:] = [
            name
            for name in folders
            if name not in NOT_OURS and (not name.startswith(".") or name == ".github")
        ]
        yield from (str(Path(folder, name).relative_to(PROJECT)) for name in files)


def registry_hosts() -> set[str]:
    """Return the hosts of package registries: the public ones, and those that this machine uses."""
    public = [
        "pypi|org",
        "files.pythonhosted|org",
        "repo1.maven|org",
        "repo.maven.apache|org",
        "registry.npmjs|org",
    ]
    public += ["proxy.golang|org", "static.crates|io", "deb.debian|org", "conda.anaconda|org"]
    hosts = {name.replace("|", ".") for name in public}
    for variable, value in os.environ.items():
        if re.search("INDEX_URL|DEFAULT_INDEX|REGISTRY|GOPROXY|PROXY$", variable.upper()):
            hosts |= {urlsplit(word).hostname or "" for word in value.split(",")}
    return {host for host in hosts if "." in host and not re.fullmatch(r"[0-9.]+", host)}


def test_the_repository_speaks_of_the_project_alone():
    """No file has a path of a workplace or a package registry."""
    workplace = re.compile(
        r"(?<![\w./-])/"
        + r"work/(?:main|shared)\b|(?<![\w./-])shared"
        + r"/(?:design|contract|stack|reference)\b"
    )
    hosts = re.compile("|".join(re.escape(host) for host in sorted(registry_hosts())))
    found = [
        f"{name}: {match[0]}"
        for name, text in texts()
        for rule in (workplace, hosts)
        for match in rule.finditer(text)
    ]
    assert [] == found
