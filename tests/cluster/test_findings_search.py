"""Entries without a copy, searched for on real bookies: by their lists, and by reading those that
cannot list.

b1 to b4 list; b5 has DbLedgerStorage, which cannot. Each ledger has two segments, and b5 stands in
the second one only: it is asked for a list of the ledger and has none to give, so it is read for
what the first segment lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.audits import Outcome, audit_ledgers
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = pytest.mark.real

TEXT = "e2 w2 a2 0:[b1 b2] 10:[b3 b5] closed 19"
NOWHERE, ON_MUTE, ON_LISTING, CORRUPT, GONE = 10, 20, 30, 40, 50
LOST = {"b1": "4", "b2": "4"}
UNKNOWN_BOOKIE = "b99:3181"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Entry 4 of each ledger is lost where the metadata says."""
    storages = [*["SortedLedgerStorage"] * 4, "DbLedgerStorage"]
    with RealCluster(tmp_path_factory.mktemp("search"), bookies=5, storage=storages) as cluster:
        for ledger_id in (NOWHERE, ON_MUTE, ON_LISTING, CORRUPT):
            cluster.place(ledger_id, cluster.ledger(TEXT), LOST)
        cluster.hold("b5", ON_MUTE, "4")
        cluster.hold("b3", ON_LISTING, "4")
        cluster.corrupt("b4", CORRUPT, 4)
        cluster.place(GONE, cluster.ledger(f"e3 w2 a2 0:[b1 {UNKNOWN_BOOKIE} b3] closed 8"))
        yield cluster


@pytest.fixture(scope="module")
def outcome(cluster: RealCluster) -> Outcome:
    return audit_ledgers(cluster, [NOWHERE, ON_MUTE, ON_LISTING, CORRUPT, GONE], rpc_timeout="2s")


def search(outcome: Outcome, ledger_id: int) -> dict[str, Any]:
    """How far the search of a ledger went; its finding is a loss."""
    found = outcome.one(ledger_id)
    assert (Kind.ENTRY_WITHOUT_REPLICA.value, [[4, 4]]) == (found["kind"], found["entries"])
    result: dict[str, Any] = found["facts"]["search"]
    return result


def test_a_bookie_of_another_segment_that_cannot_list_is_read(outcome: Outcome) -> None:
    """Each registered bookie outside the write set of the entry was searched, and none has it."""
    found = search(outcome, NOWHERE)
    assert (["b3", "b4", "b5"], [], []) == (found["searched"], found["found_on"], found["unheard"])
    assert "none has it" in outcome.one(NOWHERE)["witness"]


@pytest.mark.parametrize(("ledger_id", "holder"), [(ON_MUTE, "b5"), (ON_LISTING, "b3")])
def test_a_copy_on_a_bookie_of_another_segment_is_found(
    outcome: Outcome, ledger_id: int, holder: str
) -> None:
    """By reading, or by its list. A segment names it, so nobody collects it: the entry is lost
    where the metadata says.
    """
    found = search(outcome, ledger_id)
    assert ([holder], []) == (found["found_on"], found["found_unnamed"])
    assert holder in outcome.one(ledger_id)["witness"]
    assert f"-b {holder}" in outcome.one(ledger_id)["next"][0], (
        "what to do begins with reading from the holder"
    )


def test_a_copy_with_a_wrong_digest_is_named_and_is_not_none(outcome: Outcome) -> None:
    """b4 sent the entry, and its bytes do not match: neither a holder nor a bookie that has
    nothing.
    """
    found = search(outcome, CORRUPT)
    assert (["b4"], []) == (found["corrupt_on"], found["found_on"])
    assert "b4 sent a copy with a wrong digest" in outcome.one(CORRUPT)["witness"]


def test_a_bookie_that_nobody_knows_has_lost_its_copies(outcome: Outcome) -> None:
    """Neither registered nor known by a cookie: of each of its entries one copy is left, below the
    ack quorum of two.
    """
    found = outcome.one(GONE)
    assert Kind.ENTRY_BELOW_ACK_QUORUM.value == found["kind"]
    assert [UNKNOWN_BOOKIE] == found["facts"]["gone"]
    assert [UNKNOWN_BOOKIE] == list(found["missing_on"])
    assert ["violated"] == outcome.standings(GONE)
