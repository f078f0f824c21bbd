"""A Python that is too old gets a sentence, from what it can still read."""

from __future__ import annotations

import sys

import pytest

import auditor
from auditor import __main__ as entry


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 11, 0, "final", 0), (3, 13, 1), (4, 0, 0)])
def test_a_python_that_is_new_enough_has_no_problem(version: tuple[object, ...]) -> None:
    """From 3.11.0 on."""
    assert "" == auditor.python_problem(version)


@pytest.mark.parametrize("version", [(3, 10, 99), (3, 8, 18, "final", 0), (2, 7, 18)])
def test_an_older_python_is_named_with_what_is_needed(version: tuple[object, ...]) -> None:
    """Its version, its path, and the oldest that will do."""
    problem = auditor.python_problem(version)
    assert "needs Python 3.11 or newer" in problem
    assert f"{sys.executable} is {version[0]}.{version[1]}.{version[2]}: " in problem


def test_commands_of_an_older_python_end_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, before anything else is imported."""
    monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert 2 == ended.value.code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("auditor: the auditor needs Python 3.11")


def test_notebooks_of_an_older_python_get_the_same_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an ImportError; unknown names are unknown all the same."""
    monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))
    with pytest.raises(ImportError, match=r"needs Python 3\.11 or newer"):
        auditor.__getattr__("open_run")
    with pytest.raises(AttributeError):
        auditor.__getattr__("close_run")
