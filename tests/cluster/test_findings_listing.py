"""Entries that bookies omit from their lists but return are copies, and real losses are found.

InterleavedLedgerStorage omits the last entry if its id is a multiple of 1024 and its index page is
not flushed yet (IndexInMemPageMgr). The page is flushed with the next entry log, hours later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers
from support.bookie_contract import groups
from support.raw_bookie import list_request
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = pytest.mark.real

ONE_ENTRY, ONE_ENTRY_TWICE, PAGE_AND_ONE, TWO_PAGES_AND_ONE, MIXED = range(410_000, 410_005)
LOST_ONE_ENTRY, LOST_LAST, LOST_BESIDE = range(410_010, 410_013)


class Defect(NamedTuple):
    """A sound ledger, its last entry, and the bookies that omit it from their lists."""

    text: str
    last: int
    bookies: tuple[str, ...]


DEFECTS = {
    ONE_ENTRY: Defect("e1 w1 a1 0:[b4] closed 0", 0, ("b4",)),
    ONE_ENTRY_TWICE: Defect("e2 w2 a2 0:[b4 b5] closed 0", 0, ("b4", "b5")),
    PAGE_AND_ONE: Defect("e1 w1 a1 0:[b5] closed 1024", 1024, ("b5",)),
    TWO_PAGES_AND_ONE: Defect("e2 w2 a2 0:[b4 b5] closed 2048", 2048, ("b4", "b5")),
    MIXED: Defect("e3 w3 a2 0:[b1 b4 b5] closed 1024", 1024, ("b4", "b5")),
}
LOSSES = {
    LOST_ONE_ENTRY: ("e2 w2 a2 0:[b4 b5] closed 0", {"b4": "0", "b5": "0"}),
    LOST_LAST: ("e1 w1 a1 0:[b5] closed 1024", {"b5": "1024"}),
    LOST_BESIDE: ("e2 w2 a1 0:[b4 b5] closed 1024", {"b4": "500"}),
}
"""Real losses where the defect could be: the only entries of a ledger, the last one, and one beside
an omitted last one.
"""


@pytest.fixture(scope="module")
def outcome(
    shared_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcome]:
    """Yield one audit of all of them, before any index page is flushed."""
    for ledger_id, defect in DEFECTS.items():
        shared_cluster.place(ledger_id, shared_cluster.ledger(defect.text))
    for ledger_id, (text, lose) in LOSSES.items():
        shared_cluster.place(ledger_id, shared_cluster.ledger(text), lose)
    yield accounted(
        audit(shared_cluster, tmp_path_factory.mktemp("listing"), ledger_ids=[*DEFECTS, *LOSSES])
    )


@pytest.mark.parametrize("ledger_id", DEFECTS)
def test_bookies_leave_the_entry_out(
    shared_cluster: RealCluster, outcome: Outcome, ledger_id: int
) -> None:
    """Each of these bookies lists everything except the last entry."""
    defect = DEFECTS[ledger_id]
    for bookie in defect.bookies:
        with shared_cluster.connect(bookie) as connection:
            listed = groups(connection.ask(list_request(ledger_id, 1))) or []
        assert [(0, 0, defect.last, 0)] * (defect.last > 0) == [tuple(group) for group in listed]


@pytest.mark.parametrize("ledger_id", DEFECTS)
def test_what_reads_back_is_a_copy(outcome: Outcome, ledger_id: int) -> None:
    """The ledger is SOUND without a second look, and each copy that a list omits is counted."""
    verdict = outcome.verdicts[ledger_id]
    assert ("sound", len(DEFECTS[ledger_id].bookies), 1) == (
        verdict.standing,
        verdict.listing_false_negatives,
        verdict.looks,
    )
    assert outcome.of(ledger_id) == []


def test_they_are_counted_in_the_summary(outcome: Outcome) -> None:
    """listing_false_negatives is the sum over ledgers, including the one beside a real loss."""
    sound = sum(len(defect.bookies) for defect in DEFECTS.values())
    beside = outcome.verdicts[LOST_BESIDE].listing_false_negatives
    assert beside == 2
    assert outcome.summary["requests"]["listing_false_negatives"] == sound + beside


def test_the_only_entry_lost_is_found(outcome: Outcome) -> None:
    """By its lists a ledger of one entry that no bookie ever got looks like the defect; reads
    distinguish them.
    """
    found = outcome.one(LOST_ONE_ENTRY)
    assert (Kind.ENTRY_WITHOUT_REPLICA.value, [[0, 0]]) == (found["kind"], found["entries"])
    assert {"b4": [[0, 0]], "b5": [[0, 0]]} == found["missing_on"]
    assert 0 == outcome.verdicts[LOST_ONE_ENTRY].listing_false_negatives


def test_the_last_entry_lost_is_found(outcome: Outcome) -> None:
    """Entry 1024 is not on its only bookie, and nothing else is missing."""
    found = outcome.one(LOST_LAST)
    assert (Kind.ENTRY_WITHOUT_REPLICA.value, [[1024, 1024]], 1) == (
        found["kind"],
        found["entries"],
        found["entries_total"],
    )


def test_a_loss_beside_the_defect_is_found_alone(outcome: Outcome) -> None:
    """The entry in the middle is absent; the last one, which the list also omits, is not
    reported.
    """
    found = outcome.one(LOST_BESIDE)
    assert (Kind.ENTRY_BELOW_WRITE_QUORUM.value, [[500, 500]], 1) == (
        found["kind"],
        found["entries"],
        found["entries_total"],
    )
    assert {"b4": [[500, 500]]} == found["missing_on"]


def test_single_ledgers_get_the_same_verdicts(
    shared_cluster: RealCluster, outcome: Outcome
) -> None:
    """`auditor ledger` reads the same entries."""
    ids = [*DEFECTS, *LOSSES]
    single = audit_ledgers(shared_cluster, ids)
    assert outcome.standings(*ids) == single.standings(*ids)
    counted = [
        [by.verdicts[one].listing_false_negatives for one in ids] for by in (outcome, single)
    ]
    assert counted[0] == counted[1]
