"""Where tests run in several processes: which run in one of them, and which begin first."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REAL, SPARK = "tests/cluster/", "tests/spark/"
"""Directories of tests that need what is dear to start: real BookKeeper, Spark."""
SHARED = re.compile(r"\b(shared_cluster|policies)\b")
"""What tests on real BookKeeper share. Files that name neither start clusters of their own."""
DEAREST_FIRST = (
    *(SPARK, REAL, "tests/adapters/", "tests/runs/", "tests/model/"),
    *("tests/properties/", "tests/faults/"),
)
"""Directories by the time they take. What takes long begins first, so that no process waits long
for another at the end.
"""


@cache
def place(nodeid: str) -> str:
    """Return the name under which one process runs this test: that of all tests that share the
    Spark session, of all that share a cluster, or of the file.
    """
    path = nodeid.partition("::")[0]
    if path.startswith(SPARK):
        return SPARK
    if path.startswith(REAL) and _names_what_is_shared(path):
        return REAL
    return path


def turn(nodeid: str) -> tuple[int, bool]:
    """Return when this test begins, the first first: by its directory, and in this what is shared
    before what stands alone.
    """
    turns = (number for number, name in enumerate(DEAREST_FIRST) if nodeid.startswith(name))
    return next(turns, len(DEAREST_FIRST)), place(nodeid) == nodeid.partition("::")[0]


@cache
def _names_what_is_shared(path: str) -> bool:
    return SHARED.search((ROOT / path).read_text()) is not None
