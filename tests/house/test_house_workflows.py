"""Workflows, issue forms and hooks: they have the form that their readers require, and their
commands exist.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
GITHUB = PROJECT / ".github"
WAIT_S = 120
SCHEMAS = {
    "vendor.github-workflows": sorted((GITHUB / "workflows").glob("*.yml")),
    "vendor.github-issue-forms": sorted(
        set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE/config.yml"}
    ),
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE/config.yml"],
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
}
HOOKS = PROJECT / ".pre-commit-config.yaml"
LINTED = [
    *(path for paths in SCHEMAS.values() for path in paths),
    HOOKS,
    PROJECT / ".yamllint.yaml",
]


def program(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that is installed beside this Python."""
    words = [str(Path(sys.executable).parent / name), *arguments]
    return subprocess.run(
        words, cwd=PROJECT, capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def validated(schema: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    return program("check-jsonschema", "--builtin-schema", schema, *map(str, paths))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_file_has_the_form_of_its_schema(schema: str):
    """The schemas come with check-jsonschema: nothing is fetched."""
    assert SCHEMAS[schema]
    done = validated(schema, *SCHEMAS[schema])
    assert 0 == done.returncode, done.stdout + done.stderr


def test_the_schema_bites(tmp_path: Path):
    """A step that is neither a command nor an action is refused."""
    text = (GITHUB / "workflows/ci.yml").read_text()
    (tmp_path / "ci.yml").write_text(text.replace("run: .ci/run", "runs: .ci/run"))
    assert 0 != validated("vendor.github-workflows", tmp_path / "ci.yml").returncode


def test_yamllint_has_nothing_to_say():
    """It would report doubled keys, indents, and words that YAML takes for booleans."""
    done = program("yamllint", "--strict", *map(str, LINTED))
    assert (0, "") == (done.returncode, done.stdout + done.stderr)


def test_hooks_are_those_of_make_check():
    """The commands are the same, in the same order, and local: a commit fetches nothing."""
    makefile = (PROJECT / "Makefile").read_text()
    recipe = re.search(r"^check: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]
    (local,) = yaml.safe_load(HOOKS.read_text())["repos"]
    assert ("local", commands) == (local["repo"], [hook["entry"] for hook in local["hooks"]])
    assert all(
        (hook["language"], hook["pass_filenames"]) == ("system", False) for hook in local["hooks"]
    )


def workflow(name: str) -> dict[str, object]:
    return yaml.safe_load((GITHUB / "workflows" / name).read_text())


def test_every_supported_python_is_tested():
    """They are the versions of the package's classifiers, each with the oldest Java and a newer
    one.
    """
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    supported = [
        line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)
    ]
    matrix = workflow("ci.yml")["jobs"]["test"]["strategy"]["matrix"]  # type: ignore[index]
    assert {"python": supported, "java": ["17", "21"]} == matrix


def test_what_runs_at_night_are_targets_of_the_makefile():
    """Each one exists."""
    makefile = (PROJECT / "Makefile").read_text()
    targets = workflow("nightly.yml")["jobs"]["long"]["strategy"]["matrix"]["target"]  # type: ignore[index]
    assert [] == [
        target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)
    ]
    assert "fuzz" in targets


UNPINNED = "pypa/gh-action-pypi-publish@release/v1"
"""The one action that is named by a branch: docs/decisions/0006-constraints-without-hosts.md."""
PINNED = re.compile(rf"^{re.escape(UNPINNED)}$|@[0-9a-f]{{40}}$")
OF_RUNNER = {"chromium", "python3-dev"}
"""Programs of GitHub's runners: Chrome, and a Python with its headers from setup-python."""


@pytest.mark.parametrize(("name", "job"), [("ci.yml", "test"), ("nightly.yml", "long")])
def test_tests_have_the_programs_they_need(name: str, job: str):
    """.ci/run installs them. Without them tests fail or are skipped."""
    script = (PROJECT / ".ci/run").read_text()
    needed = set(re.findall(r"missing\+=\(([\w-]+)\)", script)) - OF_RUNNER
    steps = workflow(name)["jobs"][job]["steps"]  # type: ignore[index]
    installed = [step["run"] for step in steps if "apt-get install" in step.get("run", "")]
    assert needed and needed <= set(" ".join(installed).split())


@pytest.mark.parametrize("path", SCHEMAS["vendor.github-workflows"], ids=lambda path: path.name)
def test_a_workflow_may_do_little_and_ends(path: Path):
    """It has read permission by default, a time limit for each job, no value of an event inside a
    command, and a commit for each action but one.
    """
    found = yaml.safe_load(path.read_text())
    assert {"contents": "read"} == found["permissions"]
    for job in found["jobs"].values():
        assert job["timeout-minutes"] <= 350
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), step
            assert PINNED.search(step.get("uses", UNPINNED)), step


@pytest.mark.parametrize("path", SCHEMAS["vendor.github-workflows"], ids=lambda path: path.name)
def test_a_commit_of_an_action_has_its_version_beside_it(path: Path):
    """A person reads it there, and Dependabot keeps both."""
    lines = [line for line in path.read_text().splitlines() if re.search(r"@[0-9a-f]{40}", line)]
    assert lines and [] == [line for line in lines if not re.search(r"  # v\d+\.\d+\.\d+$", line)]


def test_the_release_is_of_files_that_exist():
    """They are the recipe of the image, the files with hashes, and the line with the version."""
    text = (GITHUB / "workflows/release.yml").read_text()
    named = re.findall(r"--(?:file|requirement) (\S+)", text)
    assert 3 == len(named) and all((PROJECT / name).is_file() for name in named)
    assert re.search(
        r'^__version__ = "\d+\.\d+\.\d+"$',
        (PROJECT / "auditor/__init__.py").read_text(),
        re.MULTILINE,
    )


def test_the_code_owners_own_paths_that_exist():
    """Each rule, which is a comment until a team is named in it, has a path of the project and one
    owner.
    """
    text = (GITHUB / "CODEOWNERS").read_text()
    rules = re.findall(r"^(?:# )?([/*]\S*) +(@\S+)$", text, re.MULTILINE)
    assert len(rules) >= 5 and {owner.split("/")[0] for _, owner in rules} == {"@OWNER"}
    assert [] == [path for path, _ in rules if path != "*" and not (PROJECT / path[1:]).exists()]
