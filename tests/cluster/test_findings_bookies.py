"""Real bookies that were wiped or cannot list, and what one audit says of all their ledgers."""

from __future__ import annotations

import re

import pyarrow.compute as pc
import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers
from support.real_cluster import RealCluster

from auditor.commands.ledger_ids import read_ledger_ids
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS
from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.long]

CONFIRMING_READS_MAX = 16
"""The product's default: reads of one ledger on one bookie at one look."""
ASKED_LOOKS = 2

NAMING_WIPED = {
    1: ("e1 w1 a1 0:[b2] closed 9", Kind.ENTRY_WITHOUT_REPLICA, [[0, 9]]),
    2: ("e2 w2 a2 0:[b1 b2] closed 9", Kind.ENTRY_BELOW_ACK_QUORUM, [[0, 9]]),
    3: ("e3 w3 a2 0:[b1 b2 b3] closed 9", Kind.ENTRY_BELOW_WRITE_QUORUM, [[0, 9]]),
    4: ("e3 w2 a1 0:[b3 b1 b2] closed 5", Kind.ENTRY_BELOW_WRITE_QUORUM, [[1, 2], [4, 5]]),
    5: ("e2 w2 a1 0:[b1 b3] 40:[b1 b2] closed 49", Kind.ENTRY_BELOW_WRITE_QUORUM, [[40, 49]]),
    6: ("e2 w2 a2 0:[b2 b3] closed 1024 v2", Kind.ENTRY_BELOW_ACK_QUORUM, [[0, 1024]]),
}
BESIDE_WIPED = {101: "e2 w2 a2 0:[b1 b3] closed 9", 102: "e3 w1 a1 0:[b1 b3 b2] closed 1"}
"""Ledgers without it, and one in which it should hold none of the existing entries."""
TWIN, ON_TWIN = 111, "e2 w2 a1 0:[b1 b3] closed 9"
"""b3 never got entry 4 of this ledger, and has everything else that it should."""
MANY_ON_WIPED = range(7_000_000, 7_000_030)
ON_WIPED = frozenset({*NAMING_WIPED, *MANY_ON_WIPED})
ENTRIES_ON_WIPED = 10 + 10 + 10 + 4 + 10 + 1025 + 30 * 100
"""Entries that b2 should hold."""

ON_UNABLE = range(1, 31)
BESIDE_UNABLE, LOST_BESIDE_UNABLE, LOST_DESPITE_UNABLE = 101, 102, 103


@pytest.fixture(scope="module")
def wiped(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return an audit: b2 is back with empty folders and answers ENOLEDGER to every question; b3
    lacks one entry of one ledger.
    """
    with RealCluster(tmp_path_factory.mktemp("wiped"), bookies=3) as cluster:
        texts = {ledger_id: text for ledger_id, (text, _, _) in NAMING_WIPED.items()} | BESIDE_WIPED
        texts |= dict.fromkeys(MANY_ON_WIPED, "e3 w3 a2 0:[b1 b2 b3] closed 99")
        for ledger_id, text in texts.items():
            metadata = cluster.ledger(text)
            cluster.place(ledger_id, metadata, format_version=metadata.format_version)
        cluster.place(TWIN, cluster.ledger(ON_TWIN), {"b3": "4"})
        cluster.wipe("b2")
        return accounted(audit(cluster, tmp_path_factory.mktemp("audit")))


@pytest.mark.parametrize("ledger_id", NAMING_WIPED)
def test_each_ledger_on_a_wiped_bookie_is_found(wiped: Outcome, ledger_id: int) -> None:
    """Exactly the entries that it should hold are missing, and only on it."""
    _, kind, entries = NAMING_WIPED[ledger_id]
    found = wiped.one(ledger_id)
    assert (kind.value, entries, {"b2": entries}) == (
        found["kind"],
        found["entries"],
        found["missing_on"],
    )
    assert ["no_such_ledger"] * ASKED_LOOKS == [
        look["answers"]["b2"] for look in found["looks"] if look["answers"]
    ]


def test_no_ledger_on_a_wiped_bookie_is_left_out(wiped: Outcome) -> None:
    """One run finds all of them, the bookie itself, the ledger of its twin, and nothing else."""
    assert {*ON_WIPED, TWIN} == {found["ledger_id"] for found in wiped.findings} - {None}
    assert len(ON_WIPED) + 2 == len(wiped.findings)
    assert {"sound"} == set(wiped.standings(*BESIDE_WIPED))
    assert 1 == wiped.exit_code


def test_a_bookie_that_lost_its_content_is_found(wiped: Outcome) -> None:
    """The finding is critical, with what the bookie was asked for and lacks, at both looks. It was
    also asked for the ledger of which it should hold none of the entries.
    """
    found = wiped.one("b2")
    assert (Kind.BOOKIE_LOST_CONTENT.value, "critical") == (found["kind"], found["severity"])
    ledgers = len(ON_WIPED)
    for words in (
        "registered as writable",
        f"answered for {ledgers + 1} ledgers",
        f"Of {ledgers} of them (1, 2, 3, 4, 5",
    ):
        assert words in found["witness"]
    assert f"together {ENTRIES_ON_WIPED} of {ENTRIES_ON_WIPED}." in found["witness"]
    assert f"The metadata of {ledgers} of these ledgers was last written before" in found["witness"]
    assert ["answered", "answered"] == [look["answers"]["b2"] for look in found["looks"]]


def test_its_twin_that_lost_an_entry_did_not_lose_its_content(wiped: Outcome) -> None:
    """Its lost entry is a finding on the ledger."""
    assert [[], []] == [wiped.of("b1"), wiped.of("b3")]
    assert Kind.ENTRY_BELOW_WRITE_QUORUM.value == wiped.one(TWIN)["kind"]


def test_a_wiped_bookie_is_the_cause_of_its_ledgers(wiped: Outcome) -> None:
    """There is one cause, with its ledgers in a file, before any count in the report."""
    (cause,) = wiped.summary["causes"]
    assert ("bookie", "b2", len(ON_WIPED)) == (cause["cause"], cause["subject"], cause["ledgers"])
    assert wiped.run_dir is not None
    assert sorted(ON_WIPED) == read_ledger_ids(wiped.run_dir / cause["file"])
    line = f"  1. bookie b2 lost content and lacks entries of {len(ON_WIPED)} ledgers"
    assert wiped.stdout.index(line) < wiped.stdout.index("\nLedgers\n")


def test_confirming_a_wiped_bookie_is_bounded(wiped: Outcome) -> None:
    """Every suspect is read, and none more often than the limit for a ledger and look."""
    ledgers = len(ON_WIPED) + 1
    reads = wiped.summary["requests"]["confirming_reads"]
    assert ledgers * ASKED_LOOKS <= reads <= ledgers * ASKED_LOOKS * CONFIRMING_READS_MAX


def test_a_wiped_bookie_is_few_lines_in_the_report(wiped: Outcome) -> None:
    """The report names the bookie and a few of its ledgers, however many are hit; findings.jsonl
    has all.
    """
    named = set(re.findall(r"\b70000\d\d\b", wiped.stdout.replace(",", "")))
    assert len(named) <= 10
    assert "b2" in wiped.stdout
    assert len(wiped.stdout.splitlines()) <= 130


@pytest.fixture(scope="module")
def unable(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return an audit: b3 has DbLedgerStorage, which never lists a ledger it holds; no entry is
    read instead.
    """
    storages = ["SortedLedgerStorage", "SortedLedgerStorage", "DbLedgerStorage"]
    with RealCluster(tmp_path_factory.mktemp("unable"), bookies=3, storage=storages) as cluster:
        striped, beside = (
            cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 9"),
            cluster.ledger("e2 w2 a2 0:[b1 b2] closed 9"),
        )
        for ledger_id in ON_UNABLE:
            cluster.place(ledger_id, striped)
        cluster.place(BESIDE_UNABLE, beside)
        cluster.place(LOST_BESIDE_UNABLE, beside, {"b1": "4"})
        cluster.place(LOST_DESPITE_UNABLE, striped, {"b1": "6", "b2": "6"})
        outcome = accounted(
            audit(cluster, tmp_path_factory.mktemp("audit"), rpc_timeout="4s", probe_entries=0)
        )
        ids = [ON_UNABLE[0], BESIDE_UNABLE, LOST_DESPITE_UNABLE]
        single = audit_ledgers(cluster, ids, rpc_timeout="4s", probe_entries=0)
        assert outcome.standings(*ids) == single.standings(*ids)
        return outcome


def test_ledgers_of_a_bookie_that_cannot_list_are_unknown(unable: Outcome) -> None:
    """Each is INDETERMINATE(bookie_unsupported), and there is no finding on the bookie."""
    assert {"indeterminate: bookie_unsupported"} == set(unable.standings(*ON_UNABLE))
    assert [] == unable.of("b3")
    assert 1 == unable.summary["bookies"]["unsupported"]
    assert len(ON_UNABLE) + 1 == unable.summary["indeterminate"]["bookie_unsupported"]


def test_others_are_judged_beside_a_bookie_that_cannot_list(unable: Outcome) -> None:
    """Ledgers without it are judged in full, and what the other bookies prove is found."""
    despite = unable.one(LOST_DESPITE_UNABLE)
    assert ["sound"] == unable.standings(BESIDE_UNABLE)
    assert Kind.ENTRY_BELOW_ACK_QUORUM.value == unable.one(LOST_BESIDE_UNABLE)["kind"]
    assert (Kind.ENTRY_WITHOUT_REPLICA.value, [[6, 6]]) == (despite["kind"], despite["entries"])
    assert ["violated: bookie_unsupported"] == unable.standings(LOST_DESPITE_UNABLE)
    assert 2 == len(unable.findings)


def test_no_time_out_is_paid_twice(unable: Outcome) -> None:
    """Its ledgers are not looked at again. If another bookie's word causes a second look, it is not
    asked any more.
    """
    assert unable.run_dir is not None
    mine = (pc.field("bookie_id") == "b3") & ~pc.field("ledger_id").is_null()
    answers = place(str(unable.run_dir)).read_table("evidence/answers", ANSWERS, mine)
    later = answers.filter(pc.field("look") > 1)
    assert {1} == {unable.verdicts[ledger_id].looks for ledger_id in ON_UNABLE}
    assert ([LOST_DESPITE_UNABLE], [0]) == (
        later["ledger_id"].to_pylist(),
        later["requests"].to_pylist(),
    )
    assert 0 == pc.sum(answers["retries"]).as_py()
