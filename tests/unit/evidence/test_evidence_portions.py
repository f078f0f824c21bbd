"""Reading a table a range of ledger ids at a time."""

from __future__ import annotations

import random
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.portions import FEW_ROWS, LedgerTable, id_ranges
from auditor.evidence.run_directory import MemoryDirectory, Place, place
from auditor.evidence.table_scan import scan_rows, with_dictionaries
from auditor.model.identity import LEDGER_ID_MAX

SCHEMA = pa.schema([("ledger_id", pa.int64()), ("status", pa.string())])
SHARD_ROWS = FEW_ROWS


def rows_of(ids: np.ndarray) -> pa.Table:
    words = pa.array(["found", "gone"]).take(pa.array(ids % 2))
    return pa.table({"ledger_id": pa.array(ids, pa.int64()), "status": words}, SCHEMA)


def write_shards(run: Place, shards: int) -> None:
    """Write two files for each shard, and one with a few ledgers of all shards."""
    for number in range(shards):
        ids = np.arange(number * SHARD_ROWS * 2, (number + 1) * SHARD_ROWS * 2)
        for part in range(2):  # their ids overlap
            run.write_table("t", rows_of(ids[part::2]), f"{number}-{part}")
    run.write_table("t", rows_of(np.arange(0, shards * SHARD_ROWS * 2, SHARD_ROWS)), "later")


def whole(table: LedgerTable, portions: list[Shard]) -> list[int]:
    parts = [table.table(["ledger_id"], one)["ledger_id"].to_pylist() for one in portions]
    for one, ids in zip(portions, parts, strict=True):
        assert all(one.first <= ledger_id <= one.last for ledger_id in ids)
    return sorted(ledger_id for ids in parts for ledger_id in ids)


def test_portions_end_where_shards_end_and_have_every_row_once(tmp_path: Path):
    run = place(str(tmp_path))
    write_shards(run, 4)
    table = LedgerTable.of(run.scan("t", SCHEMA))
    portions = table.portions(SHARD_ROWS * 4)
    firsts = [0, SHARD_ROWS * 4]
    assert firsts == [one.first for one in portions]
    assert LEDGER_ID_MAX == portions[-1].last
    stored = run.read_table("t", SCHEMA)["ledger_id"].to_pylist()
    assert sorted(stored) == whole(table, portions)


def test_files_that_overlap_are_cut_by_their_ids(tmp_path: Path):
    run = place(str(tmp_path))
    ids = np.arange(SHARD_ROWS * 4)
    random.Random(1).shuffle(ids)
    for part in range(2):
        run.write_table("t", rows_of(ids[part::2]), f"{part}")
    table = LedgerTable.of(run.scan("t", SCHEMA))
    portions = table.portions(SHARD_ROWS)
    assert 4 == len(portions)
    assert sorted(ids.tolist()) == whole(table, portions)


@pytest.mark.parametrize("step", [1, 40])
def test_small_files_are_cut_like_large_ones(tmp_path: Path, step: int):
    """They are as many as a Spark job with many tasks writes. With a step of 1 each has a range of
    ids, otherwise the files of a shard overlap.
    """
    run = place(str(tmp_path))
    file_rows = FEW_ROWS // 10
    for number in range(120):
        base, offset = divmod(number, step)
        ids = base * step * file_rows + offset + np.arange(file_rows) * step
        run.write_table("t", rows_of(ids), f"{number:03}")
    run.write_table("t", rows_of(np.arange(0, 120 * file_rows, 300)), "later")
    table = LedgerTable.of(run.scan("t", SCHEMA))
    portions = table.portions(SHARD_ROWS)
    stored = run.read_table("t", SCHEMA)["ledger_id"].to_pylist()
    assert sorted(stored) == whole(table, portions)
    sizes = [len(table.table(["ledger_id"], one)) for one in portions]
    assert max(sizes) <= SHARD_ROWS * 1.5
    assert 10 <= len(portions) <= 20


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_a_table_without_rows_is_one_portion(tmp_path: Path, is_in_memory: bool):
    run = MemoryDirectory() if is_in_memory else place(str(tmp_path))
    run.write_table("t", SCHEMA.empty_table(), "all")
    table = LedgerTable.of(run.scan("t", SCHEMA, ["status"]))
    (portion,) = table.portions(10)
    assert portion.is_all
    assert 0 == len(table.table(["ledger_id", "status"], portion))


def test_rows_in_memory_are_read_like_those_of_files():
    run = MemoryDirectory()
    run.write_table("t", rows_of(np.arange(100)), "all")
    table = LedgerTable.of(run.scan("t", SCHEMA))
    assert list(range(100)) == whole(table, table.portions(30))


def test_words_are_read_as_numbers_of_a_dictionary(tmp_path: Path):
    """So are those of files that name the parts of their lists otherwise, or have no dictionary."""
    schema = pa.schema([("ledger_id", pa.int64()), ("names", pa.list_(pa.string()))])
    rows = pa.table({"ledger_id": [1, 2], "names": [["a", "b"], ["b"]]}, schema)
    for number, options in enumerate(
        ({}, {"use_compliant_nested_type": False}, {"use_dictionary": False})
    ):
        pq.write_table(rows, tmp_path / f"{number}.parquet", **options)
        numbered, form = with_dictionaries(schema, ["names"])
        file = str(tmp_path / f"{number}.parquet")
        found = ds.dataset([file], schema=numbered, format=form).to_table()
        assert pa.types.is_dictionary(found.schema.field("names").type.value_type)
        assert rows["names"].to_pylist() == found["names"].to_pylist()


def test_rows_without_a_ledger_are_in_no_range(tmp_path: Path):
    """Otherwise ids become floating-point numbers, in which neighbours above 2^53 are the same."""
    run = place(str(tmp_path))
    ids = [LEDGER_ID_MAX - 2, LEDGER_ID_MAX - 1]
    rows = {"ledger_id": [*ids, None], "status": ["found", "gone", "found"]}
    run.write_table("t", pa.table(rows, SCHEMA), "one")
    table = LedgerTable.of(run.scan("t", SCHEMA))
    for shard in (EVERYTHING, Shard(0, ids[0]), Shard(0, 0, ids[0])):
        found = table.table(["ledger_id"], shard)["ledger_id"].to_numpy()
        batches = [rows["ledger_id"].to_numpy() for rows in table.batches(["ledger_id"], shard)]
        assert found.tolist() == np.concatenate(batches).tolist()
        assert np.int64 == found.dtype
        assert [one for one in ids if one <= shard.last] == found.tolist()
    status = pc.field("status") == "found"
    assert ids[:1] == table.table(["ledger_id"], EVERYTHING, status)["ledger_id"].to_pylist()


@pytest.mark.parametrize("shards", [2, 8])
def test_each_file_is_read_once_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int
):
    """The small file is read for each portion."""
    run = place(str(tmp_path))
    write_shards(run, shards)
    table = LedgerTable.of(run.scan("t", SCHEMA))
    portions = table.portions(SHARD_ROWS * 2)
    read = Counter[str]()
    dataset = ds.FileSystemDataset

    def recording(parts: list[ds.ParquetFileFragment], *others: object) -> ds.Dataset:
        read.update(Path(one.path).name for one in parts)
        return dataset(parts, *others)

    monkeypatch.setattr(ds, "FileSystemDataset", recording)
    assert shards == len(portions)
    whole(table, portions)
    each = {f"{number}-{part}.parquet": 1 for number in range(shards) for part in range(2)}
    assert each | {"later.parquet": shards} == read


@pytest.mark.parametrize("ledgers_max", [1, 7, 999, 2_000, 5_000])
@pytest.mark.parametrize("in_order", [True, False])
def test_ranges_cover_all_ids_and_have_about_as_many(*, ledgers_max: int, in_order: bool) -> None:
    """Also if some ids occur twice, or come in any order."""
    ids = [*range(0, 3_000, 3), *range(9_000, 10_000), 7, 7]
    if not in_order:
        random.Random(3).shuffle(ids)
    ranges = id_ranges(scan_rows(pa.table({"ledger_id": pa.array(ids)})), ledgers_max)
    assert 0 == ranges[0].first
    assert LEDGER_ID_MAX == ranges[-1].last
    assert [one.last + 1 for one in ranges[:-1]] == [one.first for one in ranges[1:]]
    counts = [sum(one.first <= i <= one.last for i in ids) for one in ranges]
    assert max(counts) <= ledgers_max + 3
    assert [EVERYTHING] == id_ranges(scan_rows(pa.table({"ledger_id": [0] * 9})), 9)


class Batches:
    """Batches of 10,000 ids of which it is known how many are still in memory."""

    def __init__(self, batches: int) -> None:
        self.number = batches
        self.held: list[int] = []

    def count(self) -> int:
        return self.number * 10_000

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        known: list[weakref.ref[np.ndarray]] = []
        for number in range(self.number):
            ids = np.arange(10_000) + number * 10_000
            known.append(weakref.ref(ids))
            yield pa.record_batch({columns[0]: pa.array(ids)})
            del ids
            self.held.append(sum(one() is not None for one in known))


def test_a_sample_holds_no_other_ids() -> None:
    """However many there are."""
    ids = Batches(20)
    assert 4 == len(id_ranges(ids, 50_000))
    assert 20 == len(ids.held)
    assert max(ids.held) <= 2
