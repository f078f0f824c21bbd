"""How often a run over few ledgers decodes its files, and which rows it keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from support.audits import accounted, audit

from auditor.evidence.ids import Shard
from auditor.evidence.small_files import _decoded
from auditor.evidence.table_scan import TableScan
from auditor.sandbox.cluster import SandboxCluster
from auditor.stages.kept_rows import KeptRows

DECODINGS_OF_FILE_MAX = 3
"""Once with all texts, and with some of them as numbers of a dictionary."""


def noted(read: Callable[..., Any], scanned: list[str]) -> Callable[..., Any]:
    """Return a method of TableScan that adds the names of tables in files to `scanned`."""

    def read_and_note(scan: TableScan, *given: Any, **named: Any) -> Any:
        if isinstance(scan.rows, ds.FileSystemDataset):
            scanned.append(scan.name)
        return read(scan, *given, **named)

    return read_and_note


def test_a_run_over_few_ledgers_scans_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It decodes each file a few times, however often it reads it."""
    scanned: list[str] = []
    for name in ("batches", "table_within", "whole_within", "count"):
        monkeypatch.setattr(TableScan, name, noted(getattr(TableScan, name), scanned))
    with SandboxCluster(tmp_path / "cluster", 3, named=True) as made:
        for ledger_id in (1, 2):
            made.place(ledger_id, made.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"))
        made.hold("b2", 2, "")
        before = _decoded.cache_info().misses
        outcome = accounted(audit(made, tmp_path))
    assert outcome.run_dir is not None and not scanned
    files = [*outcome.run_dir.rglob("*.parquet")]
    assert 0 < _decoded.cache_info().misses - before <= DECODINGS_OF_FILE_MAX * len(files)


def test_rows_of_suspects_wait_for_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first look those of every shard wait, after the second those of both together."""
    waiting: list[list[int]] = []
    set_aside = KeptRows.set_aside

    def noted_aside(kept: KeptRows, shard: Shard, ids: Sequence[int]) -> None:
        set_aside(kept, shard, ids)
        waiting.append(sorted(one for part in kept._aside for one in part.ids.tolist()))

    monkeypatch.setattr(KeptRows, "set_aside", noted_aside)
    with SandboxCluster(tmp_path / "cluster", 3, named=True) as made:
        for ledger_id in (1, 2):
            made.place(ledger_id, made.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"))
            made.hold("b2", ledger_id, "")
        accounted(audit(made, tmp_path, shard_ledgers=1))
    assert [[1], [1, 2], [1, 2]] == waiting[:3]
