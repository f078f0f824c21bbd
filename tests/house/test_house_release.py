"""What a release is built from is pinned by hashes: packages, and the tools that build it."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
RELEASE = PROJECT / "deploy/release"
FILES = sorted(RELEASE.glob("*.txt"))
BUILDS = [
    *sorted((PROJECT / "deploy/docker").glob("*.Dockerfile")),
    PROJECT / ".github/workflows/release.yml",
]
LINE = re.compile(r"([\w.-]+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)")


def plain(name: str) -> str:
    """Return a package's name as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def versions(text: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)
    return {plain(name): version for name, version in found}


def pinning() -> Any:
    """Return the module that writes the files."""
    spec = importlib.util.spec_from_file_location("pin", RELEASE / "pin.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_package_has_a_version_and_hashes(path: Path) -> None:
    """And nothing else: no address of an index."""
    head, *lines = path.read_text().splitlines()
    assert head.startswith("# Made by deploy/release/pin.py") and lines
    assert [] == [line for line in lines if not LINE.fullmatch(line)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_versions_are_those_that_were_tried_together(path: Path) -> None:
    """Where constraints.txt has another version, pin.py was not run after it changed."""
    tried = versions((PROJECT / "constraints.txt").read_text())
    pinned = versions(path.read_text())
    assert {} == {
        name: (version, tried[name])
        for name, version in pinned.items()
        if tried.get(name, version) != version
    }


@pytest.mark.parametrize("file", ["runtime.txt", "lister.txt"])
def test_each_dependency_of_an_image_is_pinned(file: str) -> None:
    """Those of the package, and those of the extras in the image."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = pinning().EXTRAS[file]
    wanted = [*project["dependencies"]]
    wanted += [one for name in extras for one in project["optional-dependencies"][name]]
    names = {plain(re.split(r"[<>=]", one)[0]) for one in wanted}
    assert set() == names - versions((RELEASE / file).read_text()).keys()


@pytest.mark.parametrize("path", BUILDS, ids=lambda path: path.name)
def test_no_build_of_a_release_takes_a_package_without_its_hash(path: Path) -> None:
    """Each call of pip requires hashes, or has no index to take packages from and builds in no
    environment of its own, which pip would fill without hashes.
    """
    calls = re.findall(r"pip (?:install|wheel) [^&\n]+", path.read_text())
    assert len(calls) >= 3
    for call in calls:
        assert any(word in call for word in ("--require-hashes", "--no-deps")), call
        assert "wheel " not in call[:10] or "--no-build-isolation" in call, call
        assert "--no-deps" not in call or "--no-index" in call or "/src" in call, call
    assert "-m build" not in path.read_text() or "-m build --no-isolation" in path.read_text()


def test_a_package_has_the_hashes_of_each_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no wheel has the hash of its source alone."""
    pin = pinning()

    def resolve(words: Any) -> dict[str, set[str]]:
        given = list(words)
        if "--python-version" not in given:
            return {"a==1": {"0"}, "pyspark==4": {"5"}}
        assert "pyspark==4" not in given and "a==1" in given
        python = given[given.index("--python-version") + 1]
        processor = given[given.index("--platform") + 1].rpartition("_")[2]
        return {"a==1": {f"{python} {processor}"}}

    monkeypatch.setattr(pin, "resolve", resolve)
    pin.write(tmp_path / "x.txt", ["a"])
    _, first, second = (tmp_path / "x.txt").read_text().splitlines()
    assert 5 == first.count("--hash=sha256:") and "pyspark==4 --hash=sha256:5" == second
