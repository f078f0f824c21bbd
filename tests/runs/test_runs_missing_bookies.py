"""Whole runs over bookies that are gone, missed, renamed, or up and failing every request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.audits import Outcome, Pauses, accounted, audit

from auditor.model.finding import Kind
from auditor.sandbox.bookie import LedgerFault, Storage
from auditor.sandbox.cluster import SandboxCluster

LEDGERS = range(1, 5)


@contextmanager
def five_ledgers(directory: Path) -> Iterator[SandboxCluster]:
    """Yield four ledgers on b1, b2 and b3, and one on b1 and b3; none names b4."""
    with SandboxCluster(directory, bookies=4, named=True) as cluster:
        for ledger_id in LEDGERS:
            cluster.place(ledger_id, cluster.ledger("e3 w2 a2  0:[b1 b2 b3]  closed 99"))
        cluster.place(9, cluster.ledger("e2 w2 a2  0:[b1 b3]  closed 9"))
        yield cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SandboxCluster]:
    """Yield a cluster that the test may change."""
    with five_ledgers(tmp_path / "cluster") as cluster:
        yield cluster


def on_bookies(outcome: Outcome) -> list[tuple[str, str]]:
    return [(found["kind"], found["bookie_id"]) for found in outcome.findings if found["bookie_id"]]


def test_while_the_cluster_marks_the_ledgers_of_a_lost_bookie_nobody_is_accused(
    cluster: SandboxCluster, tmp_path: Path
):
    """Three of four are marked between the looks: the cluster knows. If no more are marked, the
    fourth is missed, and both numbers are facts.
    """
    cluster.lose_bookie("b2")
    marking = accounted(
        audit(cluster, tmp_path, between=lambda _: [cluster.mark(i, ["b2"]) for i in (1, 2, 3)])
    )
    assert [] == on_bookies(marking)
    (sentence,) = marking.summary["withheld"]
    assert "bookie b2 is not registered" in sentence
    assert (
        "replication is being arranged: 3 of 4 ledgers are marked, 0 of them were at the first look"
        in sentence
    )
    marked = accounted(audit(cluster, tmp_path))
    (found,) = marked.of("b2")
    facts = found["facts"]
    assert Kind.BOOKIE_LOST_UNNOTICED.value == found["kind"]
    assert (1, [4], 3, 3) == tuple(
        facts[name]
        for name in (
            "unmarked_ledgers",
            "some_ledgers",
            "marked_ledgers_first",
            "marked_ledgers_last",
        )
    )


@pytest.fixture(scope="module")
def gone_for_good(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Remove b2's registration and cookie, and delete ledger 4 before the second look."""
    with five_ledgers(tmp_path_factory.mktemp("gone")) as cluster:
        cluster.lose_bookie("b2")
        home = tmp_path_factory.mktemp("audit")
        return accounted(audit(cluster, home, between=lambda _: cluster.delete_ledger(4)))


def test_a_bookie_that_is_gone_for_good_is_missed_although_its_ledgers_are_violated(
    gone_for_good: Outcome,
):
    """Without registration and cookie its copies are absent, which does not excuse the loss of the
    bookie. A ledger that was deleted meanwhile does not count.
    """
    assert [1, 2, 3] == gone_for_good.one("b2")["facts"]["some_ledgers"]


def test_without_a_bookie_that_holds_its_share_nothing_was_renamed(gone_for_good: Outcome):
    """b4's answers are still evidence."""
    renamed = gone_for_good.one("b2")["facts"]["renamed_to"]
    assert ([], None) == (gone_for_good.summary["bookies_renamed"], renamed)
    assert (
        gone_for_good.run_dir is not None
        and (gone_for_good.run_dir / "evidence" / "renames").is_dir()
    )


def test_runs_remember_since_when_a_bookie_is_unregistered(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With a delay longer than a run may wait the finding is withheld, until a later run finds that
    it has passed. A run over named ledgers hands nothing on, and a bookie that registers again is
    forgotten.
    """
    stop = Pauses()
    monkeypatch.setattr("auditor.run.bookie_register.now_ms", stop.skipped_clock())
    cluster.set_lost_bookie_recovery_delay(7200)
    cluster.lose_bookie("b2", cookie=True)

    def runs(hours: float, ledger_ids: list[int] | None = None) -> Outcome:
        stop.seconds.append(hours * 3600)
        return accounted(audit(cluster, tmp_path, stop=stop, ledger_ids=ledger_ids))

    first = runs(0)
    (since,) = first.summary["bookies_unregistered"]
    assert ([], "b2") == (first.kinds, since["bookie_id"])
    part = runs(0.5, [9])
    assert [] == part.kinds
    again = runs(0.5)
    assert ([], [since]) == (again.kinds, again.summary["bookies_unregistered"])
    found = runs(1.5).one("b2")
    assert Kind.BOOKIE_LOST_UNNOTICED.value == found["kind"]
    assert 7_210_000 < found["facts"]["unregistered_ms"] > found["facts"]["apart_ms"]
    cluster.start_bookie("b2")
    assert [] == runs(1).summary["bookies_unregistered"]
    cluster.lose_bookie("b2", cookie=True)
    fresh = runs(1)
    assert [] == fresh.kinds and since != fresh.summary["bookies_unregistered"][0]


@pytest.mark.parametrize(("refusal", "reads"), [("eio", 4), ("eua", 0)])
def test_a_bookie_that_fails_every_request_is_found(
    cluster: SandboxCluster, tmp_path: Path, refusal: str, reads: int
):
    """Its storage fails, or it refuses this client; its twin fails only one ledger.

    Entries are read where a list failed, but not where this client was refused.
    """
    if refusal == "eua":
        cluster.bookie("b2").behaviour.refuses = True
    for ledger_id in LEDGERS if refusal == "eio" else ():
        cluster.fault("b2", ledger_id, LedgerFault.EIO)
    cluster.fault("b3", 1, LedgerFault.EIO)
    outcome = accounted(audit(cluster, tmp_path))
    assert [(Kind.BOOKIE_FAILING_REQUESTS.value, "b2")] == on_bookies(outcome)
    facts = outcome.one("b2")["facts"]
    assert (4, 8, reads, [[refusal.upper(), 8 + reads]]) == tuple(
        facts[name] for name in ("ledgers", "lists_refused", "reads_refused", "statuses")
    )


def test_where_every_bookie_refuses_none_is_found(cluster: SandboxCluster, tmp_path: Path):
    """Our credentials are wrong."""
    for bookie in cluster.bookie_ids:
        cluster.bookie(bookie).behaviour.refuses = True
    outcome = accounted(audit(cluster, tmp_path))
    assert ([], True) == (outcome.kinds, outcome.summary["nobody_answered"])


@pytest.mark.parametrize("storage", [Storage.SORTED, Storage.DB])
def test_a_renamed_bookie_is_recognised(tmp_path: Path, storage: Storage):
    """b2 is gone, and b4 has what b2 should have, listed or read; b5 has some of it. The kinds
    stay; the finding, the summary, the cause and the report have the new name.
    """
    with SandboxCluster(
        tmp_path / "cluster", bookies=5, named=True, storage=[Storage.SORTED] * 3 + [storage] * 2
    ) as cluster:
        for ledger_id in LEDGERS:
            metadata = cluster.ledger("e3 w2 a2  0:[b1 b2 b3]  closed 99")
            cluster.place(ledger_id, metadata)
            held = [entry for entry in range(100) if 1 in (entry % 3, (entry + 1) % 3)]
            cluster.hold("b4", ledger_id, [(entry, entry) for entry in held])
            cluster.hold("b5", ledger_id, [(entry, entry) for entry in held[5:]])
        cluster.lose_bookie("b2")
        outcome = accounted(audit(cluster, tmp_path))
    assert [{"bookie_id": "b2", "renamed_to": "b4", "ledgers": [1, 2, 3]}] == outcome.summary[
        "bookies_renamed"
    ]
    assert "b4" == outcome.one("b2")["facts"]["renamed_to"]
    assert [Kind.ENTRY_BELOW_ACK_QUORUM.value] * 4 == [
        one["kind"] for i in LEDGERS for one in outcome.of(i)
    ]
    text = " ".join(outcome.stdout.split())
    assert (
        "b2 was probably renamed to b4, which holds what b2 should hold of ledgers 1, 2, 3." in text
    )
