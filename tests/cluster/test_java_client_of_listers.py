"""BookKeeper's own Java client takes a lister for a bookie, and has the same list from both."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.bookies_under_test import RealBookieUnderTest, real_bookie
from support.listers import ListerUnderTest, lister_in_process
from support.real_bookkeeper import list_with_client
from support.real_cluster import RealCluster
from support.real_jars import bookkeeper_jars

pytestmark = pytest.mark.real

FIRST_ID = 480_000
RUNS = {
    FIRST_ID: [(0, 9)],
    FIRST_ID + 1: [(0, 1), (3, 4), (6, 7), (9, 9)],
    FIRST_ID + 2: [(1200, 1202), (1205, 1999)],
    FIRST_ID + 3: [(entry, entry) for entry in range(0, 2000, 2)],
}


def told_by(bookie: ListerUnderTest | RealBookieUnderTest) -> list[str]:
    """What the client prints of it."""
    for ledger_id, runs in RUNS.items():
        bookie.hold(ledger_id, *runs)
    return list_with_client(bookkeeper_jars(), f"{bookie.host}:{bookie.port}", *RUNS).splitlines()


def test_the_java_client_has_the_same_lists_from_a_lister_as_from_a_bookie(
    shared_cluster: RealCluster, tmp_path: Path
) -> None:
    """The bookie has SortedLedgerStorage and the same entries; the client also reads the lister's
    GET_BOOKIE_INFO.
    """
    with lister_in_process(tmp_path) as lister:
        found = told_by(lister)
    expected = told_by(real_bookie(shared_cluster, "sorted"))
    assert "info 0" == expected[0] and len(RUNS) + 1 == len(expected)
    assert expected == found
