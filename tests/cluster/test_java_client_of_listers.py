"""BookKeeper's own Java client takes a lister for a bookie, and gets the same list from both."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.bookies_under_test import real_bookie
from support.contract_of_listers import RUNS, lists_of_java_client
from support.listers import lister_in_process
from support.real_cluster import RealCluster

pytestmark = pytest.mark.real


def test_the_java_client_has_the_same_lists_from_a_lister_as_from_a_bookie(
    shared_cluster: RealCluster, tmp_path: Path
) -> None:
    """The bookie has SortedLedgerStorage and the same entries; the client also reads the lister's
    GET_BOOKIE_INFO.
    """
    with lister_in_process(tmp_path) as lister:
        found = lists_of_java_client(lister)
    expected = lists_of_java_client(real_bookie(shared_cluster, "sorted"))
    assert "info 0" == expected[0] and len(RUNS) + 1 == len(expected)
    assert expected == found
