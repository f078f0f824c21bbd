"""Laws of whole runs about lists that reads contradict: a list is believed as long as reads agree
with it. `tests/spark/test_spark_suspects.py` has such lists too: Spark and the driver do the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import accounted, audit, audit_ledgers

from auditor.after.margin import losses_without
from auditor.after.margin_of_run import read_copies
from auditor.model.codec import encode
from auditor.model.finding import Kind
from auditor.model.summary import DoubtCounts
from auditor.sandbox.bookie import LedgerFault
from auditor.sandbox.cluster import SandboxCluster

SOUND, HIT = range(1, 41), 50
ENTRIES = 10
BOOKIES = ("b1", "b2", "b3")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield four bookies, with sound ledgers on three of them."""
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), bookies=4, named=True) as made:
        for ledger in (*SOUND, HIT):
            made.place(ledger, made.ledger(f"e3 w3 a2 0:[b1 b2 b3] closed {ENTRIES - 1}"))
        yield made
        for bookie in BOOKIES:
            made.bookie(bookie).faults.clear()


def inflict(cluster: SandboxCluster, fault: LedgerFault, *bookies: str) -> None:
    """Let these bookies, and no others, list ledger HIT and not serve it."""
    for bookie in BOOKIES:
        cluster.bookie(bookie).faults.pop(HIT, None)
    for bookie in bookies:
        cluster.fault(bookie, HIT, fault)


def test_what_each_bookie_lists_and_denies_is_lost(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Every list names all entries, and every read says that there is no such ledger."""
    inflict(cluster, LedgerFault.READS_DENIED, *BOOKIES)
    outcome = accounted(audit(cluster, tmp_path))
    found = outcome.one(HIT)
    assert (Kind.ENTRY_WITHOUT_REPLICA.value, [[0, ENTRIES - 1]]) == (
        found["kind"],
        found["entries"],
    )
    assert "b1 lists it and has no such ledger (READ_ENTRY: ENOLEDGER)." in found["witness"]
    assert ["sound"] * len(SOUND) == outcome.standings(*SOUND)


def test_what_each_bookie_lists_and_cannot_send_is_not_verified(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Each of the bookies has a critical finding, with what the spot reads showed."""
    inflict(cluster, LedgerFault.READS_FAIL, *BOOKIES)
    outcome = accounted(audit(cluster, tmp_path))
    facts = {
        one["bookie_id"]: (one["severity"], one["facts"]["failed"], one["facts"]["read"])
        for one in outcome.findings
        if one["kind"] == Kind.BOOKIE_UNREADABLE_ENTRIES.value
    }
    held = ENTRIES * (len(SOUND) + 1)
    assert dict.fromkeys(BOOKIES, ("critical", ENTRIES, held)) == facts
    assert "sound" != outcome.verdicts[HIT].standing
    assert 1 == outcome.exit_code


def test_what_one_bookie_lists_and_denies_has_a_copy_less(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """The other bookies send every entry."""
    inflict(cluster, LedgerFault.READS_DENIED, "b2")
    found = accounted(audit(cluster, tmp_path)).one(HIT)
    assert Kind.ENTRY_BELOW_WRITE_QUORUM.value == found["kind"]
    assert {"b2": [[0, ENTRIES - 1]]} == found["missing_on"]


def test_a_list_out_of_order_is_no_proof_and_no_loss(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """The ledger is named among those that could not be judged, and nobody is accused."""
    inflict(cluster, LedgerFault.LIST_OUT_OF_ORDER, *BOOKIES)
    outcome = accounted(audit(cluster, tmp_path))
    verdict = outcome.verdicts[HIT]
    assert ("indeterminate", ("answer_invalid",)) == (verdict.standing, tuple(verdict.unknowns))
    assert ([], 3) == (outcome.findings, outcome.exit_code)
    assert ["sound"] * len(SOUND) == outcome.standings(*SOUND)


def test_auditor_ledger_says_why_a_list_is_no_proof(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """The sentence names the bookie and the group, in the report and in its JSON."""
    inflict(cluster, LedgerFault.LIST_OUT_OF_ORDER, "b2")
    settings = {"output": str(tmp_path / "audits")}
    odd = audit_ledgers(cluster, [HIT], **settings).verdicts[HIT].report["odd_lists"]
    why = (
        "sequence group 1 begins at entry 0, and a group before it ends at entry 9: groups overlap"
    )
    assert {"b2"} == odd.keys()
    assert f"cannot be used: {why}" in odd["b2"]
    text = " ".join(audit_ledgers(cluster, [HIT], format="text", **settings).stdout.split())
    assert f"the list of b2 cannot be used: {why}" in text


def test_a_read_that_fails_at_one_look_only_accuses_nobody(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """The entry was sent at the second look."""
    inflict(cluster, LedgerFault.READS_FAIL, "b2")
    outcome = accounted(
        audit(cluster, tmp_path, between=lambda _: inflict(cluster, LedgerFault.READS_FAIL))
    )
    assert [] == outcome.findings
    assert ["sound"] == outcome.standings(HIT)


def test_without_spot_reads_a_list_is_believed_and_said_to_be_one(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """The outcome names how many copies only a list names."""
    inflict(cluster, LedgerFault.READS_FAIL, *BOOKIES)
    outcome = accounted(audit(cluster, tmp_path, spot_reads="0"))
    copies = 3 * ENTRIES * (len(SOUND) + 1)
    assert {"expected": copies, "listed": copies, "read": 0, "assumed": 0} == outcome.summary[
        "copies"
    ]
    assert "every acknowledged entry listed where the metadata says" in " ".join(
        outcome.stdout.split()
    )
    assert 0 == outcome.summary["requests"]["spot_reads"]


def test_spot_reads_stay_within_their_bound(cluster: SandboxCluster, tmp_path: Path) -> None:
    """At most so many entries of each bookie are read, and a bookie that holds more has others that
    are only listed.
    """
    inflict(cluster, LedgerFault.READS_FAIL)
    outcome = accounted(audit(cluster, tmp_path, spot_reads="100"))
    assert 0 < outcome.summary["requests"]["spot_reads"] <= 100 * len(BOOKIES)
    assert outcome.summary["copies"]["read"] == outcome.summary["requests"]["spot_reads"]


@pytest.mark.parametrize("fault", [LedgerFault.READS_FAIL, LedgerFault.READS_DENIED])
def test_what_only_a_bookie_in_doubt_lists_is_not_verified(
    cluster: SandboxCluster, tmp_path: Path, fault: LedgerFault
) -> None:
    """It lists all its ledgers, and one of them it cannot serve. The first screen says how many
    copies rest on its word alone, and how many of its copies were read.
    """
    inflict(cluster, fault, "b2")
    outcome = accounted(audit(cluster, tmp_path, spot_reads="150", doubt_reads="60"))
    copies, doubt = outcome.summary["copies"], outcome.summary["doubt"]
    assert (1, ["b2"]) == (doubt["bookies"], doubt["some_bookies"])
    lost = ENTRIES if fault is LedgerFault.READS_DENIED else 0
    assert copies["expected"] == copies["listed"] + copies["read"] + doubt["copies"] + lost
    assert ENTRIES * len(SOUND) - 210 <= doubt["copies"] <= ENTRIES * len(SOUND)
    judged = SOUND if fault is LedgerFault.READS_FAIL else (*SOUND, HIT)
    assert (ENTRIES * len(judged), doubt["due"] - doubt["copies"] - lost) == (
        doubt["due"],
        doubt["read"],
    )
    said = " ".join(outcome.stdout.split())
    assert f"{doubt['copies']} copies are only listed by b2" in said
    assert f"({doubt['read']} of {doubt['due']} copies there were read)" in said
    assert 0 < outcome.summary["requests"]["doubt_reads"] <= 60
    inflict(cluster, fault)
    again = accounted(audit(cluster, tmp_path / "again", spot_reads="150"))
    assert encode(DoubtCounts()) == again.summary["doubt"]
    assert 0 == again.summary["requests"]["doubt_reads"]


def test_no_margin_rests_on_a_bookie_that_cannot_send_what_it_lists(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """A restart of the other two bookies might leave no copy of any ledger, also of those that no
    read has tested.
    """
    inflict(cluster, LedgerFault.READS_FAIL, "b2")
    outcome = audit(cluster, tmp_path, spot_reads="150")
    inflict(cluster, LedgerFault.READS_FAIL)
    losses = losses_without(read_copies(str(outcome.run_dir)).copies, ["b1", "b3"])
    assert (0, len(SOUND) + 1) == (losses.no_copy.ledgers, losses.may_have_no_copy.ledgers)


def test_single_ledgers_are_tested_at_the_ends_of_their_segments(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """`auditor ledger` finds what each bookie lists and denies, with two reads a bookie allowed."""
    inflict(cluster, LedgerFault.READS_DENIED, *BOOKIES)
    outcome = audit_ledgers(cluster, [HIT, 1], spot_reads="4", doubt_reads="0")
    assert Kind.ENTRY_WITHOUT_REPLICA.value == outcome.one(HIT)["kind"]
    assert ["sound"] == outcome.standings(1)
    assert 2 * len(BOOKIES) == outcome.summary["copies"]["read"]


def test_single_ledgers_are_read_more_densely_on_bookies_in_doubt(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Only b2 denied a listed entry: all is read there, and both ends on the others."""
    inflict(cluster, LedgerFault.READS_DENIED, "b2")
    outcome = audit_ledgers(cluster, [HIT, 1], spot_reads="4", doubt_reads="44")
    assert Kind.ENTRY_BELOW_WRITE_QUORUM.value == outcome.one(HIT)["kind"]
    assert ENTRIES + 2 + 2 == outcome.verdicts[1].report["copies"]["read"]


def test_single_ledgers_are_not_tested_where_spot_reads_are_off(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Every copy is only listed."""
    inflict(cluster, LedgerFault.READS_DENIED, *BOOKIES)
    outcome = audit_ledgers(cluster, [HIT], spot_reads="0")
    assert ["sound"] == outcome.standings(HIT)
    assert (3 * ENTRIES, 0) == (
        outcome.summary["copies"]["listed"],
        outcome.summary["copies"]["read"],
    )


IN_DOUBT = range(101, 124)
UNREADABLE = (103, 111, 119)
LARGE, FEW, MANY = 103, 100, 10_000
"""One ledger with most of the entries: a spot read meets it, and hardly the others."""


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield bookies of which b1 lists 23 ledgers and cannot serve three of them."""
    with SandboxCluster(tmp_path_factory.mktemp("spread"), bookies=3, named=True) as made:
        for ledger in IN_DOUBT:
            made.place(ledger, made.ledger(f"e3 w3 a2 0:[b1 b2 b3] closed {size_of(ledger) - 1}"))
        yield made


def size_of(ledger: int) -> int:
    return MANY if ledger == LARGE else FEW


@pytest.mark.parametrize("fault", [LedgerFault.READS_DENIED, LedgerFault.READS_FAIL])
def test_one_read_in_vain_has_the_other_ledgers_of_its_bookie_read(
    spread: SandboxCluster, tmp_path: Path, fault: LedgerFault
) -> None:
    """A few spot reads meet the large ledger that b1 lists and cannot serve, and the reads in doubt
    both small ones. Every ledger that b1 cannot serve is found, and no other one.
    """
    for ledger in UNREADABLE:
        spread.fault("b1", ledger, fault)
    outcome = accounted(audit(spread, tmp_path, spot_reads="60", doubt_reads="200"))
    good = [ledger for ledger in IN_DOUBT if ledger not in UNREADABLE]
    assert ["sound"] * len(good) == outcome.standings(*good)
    assert not [one for one in outcome.standings(*UNREADABLE) if one == "sound"]
    if fault is LedgerFault.READS_DENIED:
        assert [{"b1": [[0, size_of(ledger) - 1]]} for ledger in UNREADABLE] == [
            outcome.one(ledger)["missing_on"] for ledger in UNREADABLE
        ]
    assert len(IN_DOUBT) < outcome.summary["requests"]["doubt_reads"] <= 200
