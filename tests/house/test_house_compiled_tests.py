"""Tests are compiled once, before the processes start that run them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import compiled_tests
from support.compiled_tests import compile_all_tests, rewrite


@pytest.fixture(autouse=True)
def _keeps_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def write_modules(directory: Path) -> list[Path]:
    """Write modules that leave a file where they are executed; the last cannot be compiled."""
    directory.mkdir(parents=True)
    code = "import pathlib\npathlib.Path(__file__).with_suffix('.executed').touch()\nassert 1 + 1\n"
    modules = [directory / f"test_{name}.py" for name in ("a", "b", "c", "wrong")]
    for module in modules:
        module.write_text(code)
    modules[-1].write_text("assert (\n")
    return modules


def compiled(directory: Path) -> set[str]:
    """Return the modules that pytest has compiled, none of them executed."""
    assert not [*directory.glob("*.executed")]
    return {path.name.partition(".")[0] for path in directory.glob("__pycache__/*-pytest-*.pyc")}


def test_modules_are_compiled_as_pytest_does_and_not_executed(tmp_path: Path) -> None:
    """What cannot be compiled is left to who imports it. What is compiled stays as it is."""
    modules = write_modules(tmp_path / "tests")
    rewrite(modules)
    assert {"test_a", "test_b", "test_c"} == compiled(tmp_path / "tests")
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*.pyc")}
    rewrite(modules)
    assert before == {path: path.stat().st_ino for path in tmp_path.rglob("*.pyc")}


def test_each_module_is_compiled_by_one_of_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the plain modules that they import."""
    write_modules(tmp_path / "tests" / "some")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "module.py").write_text("raise ValueError")
    monkeypatch.setattr(compiled_tests, "ROOT", tmp_path)
    monkeypatch.setattr(compiled_tests, "PLAIN", ("plain",))
    compile_all_tests()
    assert {"test_a", "test_b", "test_c"} == compiled(tmp_path / "tests" / "some")
    assert [*tmp_path.glob("plain/__pycache__/module.*.pyc")]


def test_nothing_is_compiled_where_nothing_may_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONDONTWRITEBYTECODE says so."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write_modules(tmp_path / "tests")
    write_modules(tmp_path / "plain")
    monkeypatch.setattr(compiled_tests, "ROOT", tmp_path)
    monkeypatch.setattr(compiled_tests, "PLAIN", ("plain",))
    compile_all_tests()
    assert not [*tmp_path.rglob("*.pyc")]


def test_nothing_is_rewritten_where_pytest_does_not_rewrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--assert=plain` says so."""
    monkeypatch.setattr(sys, "meta_path", [])
    rewrite(write_modules(tmp_path / "tests"))
    assert not compiled(tmp_path / "tests")
