"""Reading ledgers in columns: the rows are those of the records that are read one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.zookeeper_many_znodes import Server
from support.zookeeper_znodes import STEADY, Znodes, closed_ledger, ledger_bytes, uri

import auditor
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import LEDGERS
from auditor.model.ledger import Mark
from auditor.wire import znode_paths
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper import ledger_batches
from auditor.zookeeper.ledger_batches import ROWS_PER_BATCH
from auditor.zookeeper.metadata_store import MetadataStore, open_store

H = LedgerLayout.HIERARCHICAL
NOW_MS = 1_700_000_000_000
CALLS_MAX = 0.5
"""Calls of functions of the auditor for each plain ledger. Read one by one it takes some 30."""


def in_columns(
    store: MetadataStore, ids: list[int], marks: dict[int, Mark] | None = None
) -> pa.Table:
    parts = (np.array(part, np.int64) for part in (ids[:5], [], ids[5:]))
    batches = list(store.read_ledger_batches(parts, 1, lambda: NOW_MS, marks or {}))
    assert all(batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches, schema=LEDGERS)


def one_by_one(
    store: MetadataStore, ids: list[int], marks: dict[int, Mark] | None = None
) -> pa.Table:
    records = store.read_ledgers(ids, 1, lambda: NOW_MS, with_marks=False)
    rows = (ledger_row(replace(one, mark=(marks or {}).get(one.ledger_id))) for one in records)
    return pa.Table.from_batches([table(LEDGERS, rows)])


@pytest.mark.also_in_memory
@pytest.mark.parametrize("layout", list(LedgerLayout))
@pytest.mark.parametrize("multi_read", [True, False])
def test_all_kinds_of_ledgers_have_the_rows_of_their_records(
    server: Server, tree: Znodes, layout: LedgerLayout, multi_read: bool
) -> None:
    """Plain and not, gone, malformed and shut, with and without multiRead: in order, and each id
    as often as it is given.
    """
    root = f"/columns-{layout.value}-{multi_read}/ledgers"
    tree.layout(root, layout)
    contents: dict[int, bytes] = {
        1: ledger_bytes(),
        3: b"not metadata",
        4: b"BookieMetadataFormatVersion\t4\nwhatever",
        6: b"",
        7: ledger_bytes(version=2),
        8: ledger_bytes(version=1),
        2**31 - 2: ledger_bytes(closed_ledger(7)),
        2**31: ledger_bytes(closed_ledger(8)),
    }
    for ledger_id, data in contents.items():
        tree.ledgers(root, layout, [ledger_id], data)
    tree.put(root + znode_paths.ledger_path(layout, 5), ledger_bytes(), shut=True)
    ids = [1, 2, 3, 4, 5, 6, 2**31, 7, 8, 1, 2**31 - 2, 9]
    marks = {one: Mark(one, None, ("b1",), None) for one in (1, 2, 7)}
    with open_store(uri(server.hosts, root), replace(STEADY, zookeeper_batch_paths=4)) as store:
        if not multi_read:
            store._session.multi_read = False
        before = store.counts.reads, store.counts.reads_ok, store.counts.received_bytes
        columns = in_columns(store, ids, marks)
        counted = store.counts.reads, store.counts.reads_ok, store.counts.received_bytes
        assert one_by_one(store, ids, marks).to_pylist() == columns.to_pylist()
    read, answered, received = (after - one for after, one in zip(counted, before, strict=True))
    assert (12, 11) == (read, answered)
    assert received == sum(map(len, contents.values())) + len(contents[1])


@pytest.mark.also_in_memory
def test_ids_without_a_place_come_last(server: Server, tree: Znodes) -> None:
    """They are gone, and nothing is requested for them."""
    root = "/columns-unplaced/ledgers"
    layout = LedgerLayout.LEGACY_HIERARCHICAL
    tree.layout(root, layout)
    tree.ledgers(root, layout, [1])
    ids = [10**10, 1, -1]
    with open_store(uri(server.hosts, root), STEADY) as store:
        columns, rows = in_columns(store, ids), one_by_one(store, ids)
        assert 0 == in_columns(store, []).num_rows
    assert [1, 10**10, -1] == columns["ledger_id"].to_pylist()
    assert sorted(rows.to_pylist(), key=str) == sorted(columns.to_pylist(), key=str)


@pytest.mark.also_in_memory
def test_a_large_request_is_cut(server: Server, tree: Znodes) -> None:
    """A server refuses requests of more than a mebibyte, also where the paths are long."""
    root = "/" + "/".join(["p" * 200] * 10) + "/ledgers"
    tree.layout(root, H)
    ids = list(range(1_000))
    with open_store(uri(server.hosts, root), replace(STEADY, zookeeper_batch_paths=1_000)) as store:
        rows = in_columns(store, ids)
        assert 0 == store.counts.reads_failed
    assert {"gone"} == set(rows["status"].to_pylist())
    assert ids == rows["ledger_id"].to_pylist()


def test_batches_are_bounded(server: Server, tree: Znodes) -> None:
    """Rows are made of some requests at a time, and a plain ledger costs next to no call."""
    root = "/columns-many/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, range(5_000))
    calls = _CallsOfTheAuditor()
    with open_store(uri(server.hosts, root), STEADY) as store:
        read = store.read_ledger_batches([np.arange(5_000)], 1, lambda: NOW_MS, {})
        sys.setprofile(calls)
        try:
            sizes = [batch.num_rows for batch in read]
        finally:
            sys.setprofile(None)
    assert 5_000 == sum(sizes)
    assert max(sizes) < ROWS_PER_BATCH + STEADY.zookeeper_batch_paths
    assert calls.made <= CALLS_MAX * 5_000, f"{calls.made} calls for 5,000 ledgers"


def changed_of(store: MetadataStore, known: list[tuple[int, int, int]]) -> list[int]:
    """Compare in columns."""
    ids, czxids, versions = (np.array(cells, np.int64) for cells in zip(*known, strict=True))
    return store.changed_ids(ids, czxids, versions).tolist()


@pytest.mark.also_in_memory
@pytest.mark.parametrize("layout", list(LedgerLayout))
@pytest.mark.parametrize("multi_read", [True, False])
def test_the_changed_ledgers_are_those_that_are_found_one_by_one(
    server: Server, tree: Znodes, layout: LedgerLayout, multi_read: bool
) -> None:
    """Written again, made again, shut, gone, never read before, and without a place."""
    root = f"/changed-{layout.value}-{multi_read}/ledgers"
    paths = {number: root + znode_paths.ledger_path(layout, number) for number in range(1, 13)}
    tree.layout(root, layout)
    tree.ledgers(root, layout, paths)
    with open_store(uri(server.hosts, root), replace(STEADY, zookeeper_batch_paths=4)) as store:
        if not multi_read:
            store._session.multi_read = False
        stamps = [one.stamp for one in store.read_ledgers(paths, 1, lambda: NOW_MS, False)]
        known = [
            (number, stamp.czxid, stamp.version)
            for number, stamp in zip(paths, stamps, strict=True)
            if stamp is not None
        ]
        known = [(-1, 0, 0), *known, (13, 0, 0), (2**62, 0, 0)]
        assert [-1, 13] == [one for one in changed_of(store, known) if one < 2**62]
        tree.put(paths[2], ledger_bytes(closed_ledger(7)))
        tree.delete(paths[3])
        tree.put(paths[3], ledger_bytes())
        tree.delete(paths[5])
        tree.put(paths[8], ledger_bytes(), shut=True)
        records = store.read_changed(known, 1, lambda: NOW_MS)
        read, bytes_read = store.counts.reads, store.counts.received_bytes
        expected = [record.ledger_id for record in records]
        read_one_by_one = store.counts.reads - read, store.counts.received_bytes - bytes_read
        read, bytes_read = store.counts.reads, store.counts.received_bytes
        assert expected == changed_of(store, known)
        assert read_one_by_one == (
            store.counts.reads - read,
            store.counts.received_bytes - bytes_read,
        )
    assert [-1, 2, 3, 5, 8, 13] == [one for one in expected if one < 2**62]


def test_comparing_znodes_makes_next_to_no_call_for_each(server: Server, tree: Znodes) -> None:
    """Neither for those that are as they were, nor for those that are not."""
    root = "/changed-many/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, range(5_000))
    calls = _CallsOfTheAuditor()
    with open_store(uri(server.hosts, root), STEADY) as store:
        sys.setprofile(calls)
        try:
            changed = changed_of(store, [(number, 0, number % 2) for number in range(5_000)])
        finally:
            sys.setprofile(None)
    assert list(range(5_000)) == changed
    assert calls.made <= CALLS_MAX * 5_000, f"{calls.made} calls for 5,000 ledgers"


@pytest.mark.also_in_memory
def test_large_metadata_makes_small_batches(
    server: Server, tree: Znodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of a batch are bounded, too."""
    monkeypatch.setattr(ledger_batches, "BYTES_PER_BATCH", 20_000)
    large = ledger_bytes(replace(closed_ledger(), custom_metadata=(("k", bytes(3_000)),)))
    root = "/columns-large/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, range(40), large)
    limits = replace(STEADY, zookeeper_batch_paths=2)
    with open_store(uri(server.hosts, root), limits) as store:
        read = list(store.read_ledger_batches([np.arange(40)], 1, lambda: NOW_MS, {}))
    assert [8] * 5 == [batch.num_rows for batch in read]
    assert {"found"} == {status for batch in read for status in batch["status"].to_pylist()}


class _CallsOfTheAuditor:
    """Counts the calls of functions of the auditor in this thread."""

    def __init__(self) -> None:
        self.made = 0
        self._sources = str(Path(auditor.__file__).parent)

    def __call__(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        self.made += event == "call" and frame.f_code.co_filename.startswith(self._sources)
        return None
