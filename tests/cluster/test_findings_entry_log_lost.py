"""An entry log that is missing on a real DbLedgerStorage bookie: the lister reports it, reads on
the bookie fail, and the run reports the bookie.

b2 is started twice more. Each start begins a new entry log, and the first one is removed while it
is stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, replay_run
from support.listers import await_listed, listers_of
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.long]

ENTRIES = 60
IN_LOST_LOG, IN_LATER_LOG = (520, 521, 522), (530, 531)
ELSEWHERE = (540,)
OF_B2 = "e2 w2 a1 0:[b1 b2] closed 59"
NOT_OF_B2 = "e2 w2 a2 0:[b1 b3] closed 59"


def end_and_forget_journal(cluster: RealCluster) -> Path:
    """End b2 in an orderly way, which flushes it, and keep its next start from rewriting everything
    from the journal.
    """
    directory = cluster.end_bookie("b2")
    for path in (*directory.rglob("*.txn"), *directory.rglob("lastMark*")):
        path.unlink()
    return directory


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield three bookies; the entry log with b2's oldest ledgers is missing."""
    with RealCluster(
        tmp_path_factory.mktemp("lost-log"), bookies=3, storage="DbLedgerStorage"
    ) as cluster:
        for ledger_id in IN_LOST_LOG:
            cluster.place(ledger_id, cluster.ledger(OF_B2))
        for ledger_id in ELSEWHERE:
            cluster.place(ledger_id, cluster.ledger(NOT_OF_B2))
        directory = end_and_forget_journal(cluster)
        logs = set((directory / "ledgers" / "current").glob("*.log"))
        cluster.start_bookie("b2")
        for ledger_id in IN_LATER_LOG:
            cluster.place(ledger_id, cluster.ledger(OF_B2))
        end_and_forget_journal(cluster)
        assert logs, "b2 wrote no entry log"
        for path in logs:
            path.unlink()
        cluster.start_bookie("b2")
        yield cluster


@pytest.fixture(scope="module")
def outcome(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return one run with listers, after the bookies have flushed."""
    workdir = tmp_path_factory.mktemp("run")
    with listers_of(cluster, workdir) as listers:
        where = dict(line.split() for line in listers.read_text().splitlines())
        for bookie, ledger_id in (
            ("b1", IN_LATER_LOG[-1]),
            ("b2", IN_LATER_LOG[-1]),
            ("b3", ELSEWHERE[-1]),
        ):
            await_listed(where[bookie], ledger_id)
        return accounted(audit(cluster, workdir, lister_map=str(listers)))


def test_a_lost_entry_log_is_found_on_its_bookie_and_nothing_else_is(outcome: Outcome) -> None:
    """It names the file, the ledgers and the entries. Their copies on b2 are unknown, those of all
    other ledgers are present.
    """
    found = outcome.one("b2")
    assert (Kind.ENTRY_LOG_LOST.value, "critical") == (found["kind"], found["severity"])
    facts = found["facts"]
    (log,) = facts["some_logs"]
    lost = [ledger_id for ledger_id, _, _ in log["some"]]
    assert list(IN_LOST_LOG) == lost and [IN_LOST_LOG[0], 0, ENTRIES - 1] == log["some"][0]
    assert (1, len(lost), log["entries"]) == (facts["logs"], facts["ledgers"], facts["entries"])
    assert ENTRIES * (len(lost) - 1) < facts["entries"] <= ENTRIES * len(lost)
    assert log["path"].endswith(".log") and not Path(log["path"]).exists()
    assert [Kind.ENTRY_LOG_LOST] == outcome.kinds
    assert ["indeterminate: bookie_refused"] * len(lost) == outcome.standings(*lost)
    others = [*IN_LOST_LOG[len(lost) :], *IN_LATER_LOG, *ELSEWHERE]
    assert ["sound"] * len(others) == outcome.standings(*others)
    assert {"listed": 3, "silent": [], "not_believed": [], "unindexed": []} == outcome.summary[
        "listers"
    ]


def test_judged_again_the_finding_is_the_same(outcome: Outcome) -> None:
    """The stored evidence is enough."""
    assert outcome.run_dir is not None
    again = replay_run(outcome.run_dir)
    assert outcome.findings == again.findings
