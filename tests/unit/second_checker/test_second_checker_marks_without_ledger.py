"""The witness of marks without a ledger, and what to run next."""

from __future__ import annotations

from dataclasses import replace

from auditor.model.cluster import ClusterFacts
from auditor.model.facts import MarkWithoutLedgerFacts
from auditor.model.finding import Finding, Kind
from auditor.witness.finding_lines import ClusterLook, cluster_testimony
from auditor.witness.next_commands import CHANGES, next_commands

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


def test_many_marks_are_counted_and_what_was_not_looked_at_is_said() -> None:
    """Ids beyond the first are counted. If auto-recovery is off, the witness says it."""
    said = witness_of(
        replace(
            ONE, marks=500, some_ledgers=tuple(range(20)), unchecked=7, replication_disabled=True
        )
    )
    assert (
        said.startswith("500 ledgers (0, 1, 2,")
        and "more) are marked under-replicated, and they have no metadata" in said
    )
    assert "7 more marks of ledgers that were not listed were not looked at." in said
    assert said.endswith("Auto-recovery is disabled (underreplication/disable exists).")


def test_a_mark_is_removed_only_behind_every_look() -> None:
    """The commands first ask for the ledger's metadata. If auto-recovery is off, it is enabled
    before anything is removed.
    """
    finding = Finding(Kind.MARK_WITHOUT_LEDGER, replace(ONE, some_ledgers=(70, 71, 72, 73)))
    commands = next_commands(finding, replication_disabled=False)
    assert (
        "bookkeeper shell ledgermetadata -l 70" in commands
        and "bookkeeper shell ledgermetadata -l 73" not in commands
    )
    assert [f"{CHANGES}zkCli.sh -server ZOOKEEPER delete {PATH}"] == [
        c for c in commands if c.startswith(CHANGES)
    ]
    off = next_commands(finding, replication_disabled=True)
    assert f"{CHANGES}bookkeeper shell autorecovery -e" == next(
        c for c in off if c.startswith(CHANGES)
    )
