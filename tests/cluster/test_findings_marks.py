"""Marks of ledgers that were deleted, on real BookKeeper: an old one beside the twin that was made
just now.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import accounted, audit
from support.printed_commands import harm_of, harmless, run_printed
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.long]

SOUND, OLD, YOUNG, STALE = 1, 70, 71, 72
MALFORMED = "/ledgers/underreplication/ledgers/e58b/1b8d/0c7c/5f70/urL-1907126707656498384"
"""A mark as a BookKeeper wrote that took a negative number for a ledger's id."""
TEN_DAYS_MS = 10 * 24 * 3600 * 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield three marked ledgers, two of which are deleted: their marks stay, because no worker
    runs.
    """
    with RealCluster(tmp_path_factory.mktemp("marks"), bookies=2) as made:
        long_ago = int(time.time() * 1000) - TEN_DAYS_MS
        for ledger_id, ctime_ms in ((SOUND, 0), (OLD, long_ago), (YOUNG, None), (STALE, None)):
            made.place(ledger_id, made.ledger("e2 w2 a2 0:[b1 b2] closed 9"))
            if ledger_id != SOUND:
                made.mark(ledger_id, ["b2"], ctime_ms)
        for ledger_id in (OLD, YOUNG):
            made.delete_ledger(ledger_id)
        made.set_raw(MALFORMED, b"")
        yield made


def test_the_mark_of_a_deleted_ledger_is_found(cluster: RealCluster, tmp_path: Path) -> None:
    """It is beyond its grace, at two looks; the young one is counted, and so is the stale one,
    whose copies real bookies list and send.
    """
    outcome = accounted(audit(cluster, tmp_path))
    assert [Kind.MARK_WITHOUT_LEDGER] == outcome.kinds
    (found,) = outcome.findings
    assert ([OLD], "warning") == (found["facts"]["some_ledgers"], found["severity"])
    expected = {"total": 3, "within_grace": 2, "beyond_grace": 1, "stale": 1, "without_ledger": 2}
    assert expected == outcome.summary["marks"]
    assert {"expected": 20, "listed": 0, "read": 20, "assumed": 0} == outcome.summary["copies"]
    assert ["sound", "exempt: marked_underreplicated"] == outcome.standings(SOUND, STALE)


def test_a_malformed_mark_is_named_and_no_command_fails_at_it(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """`listunderreplicated` fails at it and lists nothing: it is not among the commands."""
    outcome = accounted(audit(cluster, tmp_path))
    assert [MALFORMED] == outcome.summary["malformed_marks"]
    assert MALFORMED in "".join(outcome.stdout.split())
    with pytest.raises(RuntimeError, match="ListUnderReplicated"):
        cluster.shell("listunderreplicated")
    (found,) = outcome.findings
    first, *_ = harmless(found["next"])
    assert 0 == run_printed(cluster, first, tmp_path).code
    assert not [command for command in found["next"] if "listunderreplicated" in command]


def test_what_it_says_to_save_and_to_look_at_changes_nothing(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """Not a znode and not a ledger differs after any of the commands."""
    outcome = accounted(audit(cluster, tmp_path))
    assert [] == harm_of(cluster, outcome.findings, tmp_path, 100)
