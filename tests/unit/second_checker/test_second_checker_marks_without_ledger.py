"""The witness of marks without a ledger, and what to run next."""

from __future__ import annotations

from auditor.model.cluster import ClusterFacts
from auditor.model.facts import MarkWithoutLedgerFacts
from auditor.model.finding import Finding, Kind
from auditor.witness.finding_lines import ClusterLook, cluster_testimony

DAY_MS = 24 * 3600 * 1000
PATH = "/ledgers/underreplication/ledgers/0000/0000/0000/0046/urL0000000070"
ONE = MarkWithoutLedgerFacts(1, (70,), 10 * DAY_MS, PATH, 3 * DAY_MS, 0, 300_000, False)
CLUSTER = ClusterFacts(
    "zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None
)


def witness_of(facts: MarkWithoutLedgerFacts) -> str:
    looks = [
        ClusterLook(0, "marks", "1 without a ledger"),
        ClusterLook(300_000, "marks", "1 without a ledger"),
    ]
    testimony = cluster_testimony(Finding(Kind.MARK_WITHOUT_LEDGER, facts), looks, CLUSTER)
    assert [True, True] == [look.marked for look in testimony.looks]
    return testimony.witness


def test_one_mark_is_reported_with_its_age_and_its_place() -> None:
    """A person can check it by hand with these."""
    expected = (
        "Ledger 70 is marked under-replicated, and it has no metadata (NONODE after a sync). Both"
        f" were so at two looks, 5 min apart. The oldest mark is 10 days old ({PATH}); up to 3 days"
        " is acceptable."
    )
    assert expected == witness_of(ONE)
