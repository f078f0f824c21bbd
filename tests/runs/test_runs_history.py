"""Nights of one cluster: since when a finding is seen, what changed, and what is muted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit
from support.command_line import command_here

from auditor.after.mutes import Mute, state_of
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.sandbox.cluster import SandboxCluster

LOST, SOUND = 1, 2
WHOLE, LOSS = [(0, 9)], [(0, 3), (5, 9)]
TWO = "e2 w2 a2  0:[b1 b2]  closed 9"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SandboxCluster]:
    """Two bookies and two sound ledgers."""
    with SandboxCluster(tmp_path / "cluster", 2, named=True) as made:
        for ledger_id in (LOST, SOUND):
            made.place(ledger_id, made.ledger(TWO))
        yield made


class Nights:
    """Runs into one OUTPUT, one after another."""

    def __init__(self, cluster: SandboxCluster, home: Path) -> None:
        self.cluster, self.home = cluster, home

    def run(self, **settings: object) -> Outcome:
        return accounted(audit(self.cluster, self.home, **settings))

    def has(self, ledger_id: int, *entries: tuple[int, int]) -> None:
        """Make b2 hold these entries of a ledger from now on."""
        self.cluster.hold("b2", ledger_id, list(entries))


@pytest.fixture
def nights(cluster: SandboxCluster, tmp_path: Path) -> Nights:
    return Nights(cluster, tmp_path)


def chain(outcome: Outcome, ledger_id: int = LOST) -> tuple[str | None, int | None]:
    found = outcome.one(ledger_id)
    return found["first_seen"], found["runs_seen"]


def changed(outcome: Outcome) -> dict[str, int]:
    return {
        name: number
        for name, number in outcome.summary["changes"].items()
        if isinstance(number, int) and number and name != "new_ledgers"
    }


def test_a_finding_keeps_its_beginning_until_a_run_checks_it_and_finds_nothing(nights: Nights):
    """A night on which its bookie is silent does not count as seen, and does not break the
    chain.
    """
    nights.has(LOST, *LOSS)
    first = nights.run()
    began = first.summary["started_at"]
    assert ((began, 1), None) == (chain(first), first.summary["changes"])
    second = nights.run()
    assert ((began, 2), {"still": 1}) == (chain(second), changed(second))
    nights.cluster.stop_bookie("b2")
    deaf = nights.run(maintenance="b2")
    assert ([], {"not_checked_again": 1}) == (deaf.of(LOST), changed(deaf))
    nights.cluster.start_bookie("b2")
    fourth = nights.run()
    assert ((began, 3), {"still": 1}) == (chain(fourth), changed(fourth))
    assert 1 == fourth.summary["totals"]["ENTRY_BELOW_ACK_QUORUM"], (
        "what is found again after such a night is not new"
    )
    nights.has(LOST, *WHOLE)
    assert {"resolved": 1} == changed(nights.run())
    nights.has(LOST, *LOSS)
    again = nights.run()
    assert ((again.summary["started_at"], 1), {"new": 1}) == (chain(again), changed(again))
    since = again.summary["changes"]["since"]["started_at"]
    assert f"Changed: 1 new since the run of {since[:10]} {since[11:16]} UTC." in " ".join(
        again.stdout.split()
    )


def test_a_run_of_named_ledgers_belongs_to_no_chain(nights: Nights):
    """It has the history of the ledgers it names, says nothing of the others, and the next whole
    run does not count it.
    """
    nights.has(LOST, *LOSS)
    nights.has(SOUND, *LOSS)
    began = nights.run().summary["started_at"]
    part = accounted(audit(nights.cluster, nights.home, ledger_ids=[LOST]))
    assert ((began, 2), {"partial": True, "still": 1}) == (chain(part), changed(part))
    whole = nights.run()
    assert ((began, 2), (began, 2), {"still": 2}) == (
        chain(whole),
        chain(whole, SOUND),
        changed(whole),
    )


def test_a_run_counts_its_changes_as_a_diff_does(nights: Nights):
    """The first screen and `auditor diff` of both runs agree. With --fail-on new a night on which
    nothing is new ends with 0, and --notify gets the news alone, if it failed a night later.
    """
    sent = nights.home / "sent.json"
    morning = {"fail_on": "new", "notify": f"sh -c 'cat > {sent}'"}
    nights.has(LOST, *LOSS)
    first = nights.run()
    nights.has(LOST, *WHOLE)
    nights.has(SOUND, (0, 3))
    second = nights.run(**morning | {"notify": "false"})
    late = nights.run(**morning)
    assert [(SOUND, "still", second.summary["run_id"])] == [
        (one["ledger_id"], one["change"], one["news_since"])
        for one in json.loads(sent.read_text())["findings"]
    ]
    sent.unlink()
    third = nights.run(**morning)
    assert (1, 1, 0) == (second.exit_code, late.exit_code, third.exit_code)
    assert "VIOLATED" == third.summary["outcome"]
    assert {"still": 1} == changed(third) and not sent.exists()
    done = command_here("diff", str(first.run_dir), str(second.run_dir), "--format", "json")
    counts = {name: number for name, number in json.loads(done.stdout)["counts"].items() if number}
    assert {"new": 1, "resolved": 1} == counts == changed(second)


def test_a_ledger_that_was_deleted_is_not_resolved_and_is_forgotten(nights: Nights):
    """The run says that it is gone, once."""
    nights.has(LOST, *LOSS)
    nights.run()
    nights.cluster.delete_ledger(LOST)
    assert {"not_checked_again": 1, "gone": 1} == changed(nights.run())
    assert {} == changed(nights.run())


def test_after_a_run_that_was_lost_nothing_is_claimed_of_the_past(nights: Nights):
    """Unknown is null, and stays so as long as the finding is there."""
    nights.has(LOST, *LOSS)
    first = nights.run()
    assert first.run_dir is not None
    (first.run_dir / "findings.jsonl").write_text("")
    blind = nights.run()
    assert ((None, None), None) == (chain(blind), blind.summary["changes"]["since"])
    assert (None, None) == chain(nights.run())


def test_a_muted_finding_is_shown_and_does_not_fail_the_run(nights: Nights):
    """The outcome stays. A further loss, or a worse one, fails the run again, and the report says
    why the mute does not apply.
    """
    nights.has(LOST, *LOSS)
    first = nights.run()
    found, file = first.one(LOST), nights.home / "audits" / "mutes.jsonl"
    mute = Mute(
        found["id"],
        date(2999, 1, 1),
        "known",
        Kind(found["kind"]),
        "ledger 1",
        "r",
        state_of(FindingRecord.from_json(found)),
    )
    file.write_text(mute.line() + "\n")
    muted = nights.run()
    assert (0, "VIOLATED", {"until": "2999-01-01", "why": "known"}) == (
        muted.exit_code, muted.summary["outcome"], muted.one(LOST)["muted"],
    )  # fmt: skip
    assert {found["kind"]: 1} == muted.summary["mutes"]["by_kind"]
    assert (
        "muted until 2999-01-01" in muted.stdout
        and "1 finding is muted and does not count" in muted.stdout
    )
    nights.has(SOUND, *LOSS)
    assert 1 == nights.run().exit_code
    nights.has(SOUND, *WHOLE)
    nights.has(LOST, (0, 2), (5, 9))
    worse = nights.run()
    assert (1, None) == (worse.exit_code, worse.one(LOST)["muted"])
    assert ["it has 2 entries now and had 1"] == [
        one["why"] for one in worse.summary["mutes"]["outgrown"]
    ]
    file.write_text("{\n")
    nights.has(LOST, *LOSS)
    bad = nights.run()
    assert 1 == bad.exit_code and "line 1 is not a mute" in bad.summary["mutes"]["problem"]
    assert 0 == bad.summary["mutes"]["findings"]
