"""Where tests run in several processes: which tests run in the same process, and which begin
first.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REAL, SPARK = "tests/cluster/", "tests/spark/"
"""Directories of tests that need what is slow to start: real BookKeeper, Spark."""
SHARED = re.compile(r"\b(shared_cluster|policies)\b")
"""Fixtures that tests on real BookKeeper share. Files that name neither start clusters of their
own.
"""
DEAREST_FIRST = (
    *(SPARK, REAL, "tests/adapters/", "tests/runs/", "tests/model/"),
    *("tests/properties/", "tests/faults/"),
)
"""Directories, the slowest first, so that no process waits long for another at the end."""


@cache
def place(nodeid: str) -> str:
    """Return the name under which one process runs this test.

    All tests that share the Spark session have one name, and so have all that share a cluster;
    other tests have the name of their file.
    """
    path = nodeid.partition("::")[0]
    if path.startswith(SPARK):
        return SPARK
    if path.startswith(REAL) and _names_what_is_shared(path):
        return REAL
    return path


def turn(nodeid: str) -> tuple[int, bool]:
    """Return the rank of this test, the first to begin first: by its directory; within a directory
    shared resources come before files that stand alone.
    """
    turns = (number for number, name in enumerate(DEAREST_FIRST) if nodeid.startswith(name))
    return next(turns, len(DEAREST_FIRST)), place(nodeid) == nodeid.partition("::")[0]


@cache
def _names_what_is_shared(path: str) -> bool:
    return SHARED.search((ROOT / path).read_text()) is not None
