"""Open ledgers in whole runs: whether their recovery would be blocked takes two looks at their
bookies, though the ledgers themselves need one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import accounted, audit

from auditor.sandbox.cluster import SandboxCluster

OPEN, SOUND = 1, 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SandboxCluster]:
    """Yield an open ledger, and a closed one that does not name b3."""
    with SandboxCluster(tmp_path / "cluster", 3, named=True) as made:
        made.place(OPEN, made.ledger("e2 w2 a1 0:[b1 b3] open"), written=4)
        made.place(SOUND, made.ledger("e2 w2 a1 0:[b1 b2] closed 9"))
        yield made


@pytest.mark.parametrize("is_back", [False, True])
def test_a_second_look_at_the_bookies_decides(
    cluster: SandboxCluster, tmp_path: Path, is_back: bool
) -> None:
    """b3 may be restarting. The run waits once, and nothing else changes."""
    cluster.lose_bookie("b3", cookie=True)

    def between(_pause: int) -> None:
        if is_back:
            cluster.start_bookie("b3")

    outcome = accounted(audit(cluster, tmp_path / "out", between=between))
    assert (["exempt: open", "sound"], [], 0, 1) == (
        outcome.standings(OPEN, SOUND),
        outcome.findings,
        outcome.exit_code,
        len(outcome.pauses_s),
    )
    expected = {"ledgers": 0, "some": [], "bookies": []}
    if not is_back:
        expected = {"ledgers": 1, "some": [OPEN], "bookies": ["b3"]}
    assert expected == outcome.summary["open_recovery_blocked"]
    assert outcome.run_dir is not None
    assert is_back is not (outcome.run_dir / "open").exists()


def test_a_cluster_without_such_a_ledger_needs_no_second_look(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Where every bookie of an open ledger is registered, its bookies are asked nothing more."""
    outcome = accounted(audit(cluster, tmp_path / "out"))
    assert ([], 0) == (outcome.pauses_s, outcome.summary["open_recovery_blocked"]["ledgers"])
