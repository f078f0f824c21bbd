"""Tests of single modules stand for large clusters: they scan the files of tables, though theirs
are small. Whole runs, in other directories, hold such files.

`tests/unit/evidence/test_evidence_small_files.py` shows that both read the same.
"""

import sys

_kept: list[int] = []


def pytest_runtest_setup() -> None:
    """Take no table for small."""
    if small_files := sys.modules.get("auditor.evidence.small_files"):
        _kept.append(small_files.FILES_MAX)
        vars(small_files)["FILES_MAX"] = 0


def pytest_runtest_teardown() -> None:
    """Let the tests of other directories in this process hold small files."""
    if _kept:
        vars(sys.modules["auditor.evidence.small_files"])["FILES_MAX"] = _kept.pop()
