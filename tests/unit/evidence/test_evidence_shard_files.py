"""Which files of a table are opened for a shard: all that may have its rows, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.evidence import shard_files
from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.run_directory import Place, place
from auditor.evidence.shard_files import ShardFiles, share_nulls, span_of
from auditor.evidence.table_scan import HeldRows, TableScan, are_of

ROWS = pa.schema([("bookie_id", pa.string()), ("ledger_id", pa.int64())])
TABLE = "evidence/answers"


def rows_of(*ledgers: int | None) -> pa.Table:
    return pa.Table.from_pylist([{"bookie_id": "b", "ledger_id": i} for i in ledgers], ROWS)


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """Return a run with files for ledgers 0 to 9, 10 to 19 and both, and files without ledgers."""
    directory = place(str(tmp_path / "run"))
    files = {"low": (9, 0), "high": (10, 19), "both": (5, 15), "greeting": (None,), "none": ()}
    for name, ledgers in files.items():
        directory.write_table(TABLE, rows_of(*ledgers), name)
    return directory


@pytest.mark.parametrize(
    ("shard", "files"),
    [
        (Shard(0, 0, 9), ["both", "low"]),
        (Shard(1, 10, 19), ["both", "high"]),
        (Shard(1, 16, 19), ["high"]),
        (Shard(2, 20, 99), []),
        (EVERYTHING, ["both", "high", "low"]),
    ],
)
def test_files_that_may_have_rows_of_a_shard(run: Place, shard: Shard, files: list[str]) -> None:
    """A shard's bounds are inclusive. A file without a ledger has no row of a shard."""
    assert [f"{TABLE}/{name}.parquet" for name in files] == ShardFiles(run).of(TABLE, shard)


def test_what_spark_has_not_committed_is_no_file_of_the_table(run: Place) -> None:
    """A task that died leaves its file below `_temporary`."""
    run.write_table(f"{TABLE}/_temporary/0", rows_of(1), "part")
    assert [f"{TABLE}/{name}.parquet" for name in ("both", "low")] == ShardFiles(run).of(
        TABLE, Shard(0, 0, 9)
    )


def test_the_end_of_each_file_is_read_once(run: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of a stage does not grow with the shards before it. New files are seen."""
    read: list[str] = []
    end_of = pq.read_metadata

    def recording(path: str, **options: object) -> pq.FileMetaData:
        read.append(path)
        return end_of(path, **options)

    monkeypatch.setattr(pq, "read_metadata", recording)
    files = ShardFiles(run)
    for _ in range(3):
        files.of(TABLE, Shard(0, 0, 9))
    assert 5 == len(read)
    run.write_table(TABLE, rows_of(3), "new")
    assert f"{TABLE}/new.parquet" in files.of(TABLE, Shard(0, 0, 9))
    assert 6 == len(read)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the files that are decoded whole, to be held."""
    found: list[str] = []
    right = Place.scan

    def recorded(self: Place, name: str, *args: Any) -> TableScan:
        found.append(name.rpartition("/")[2].removesuffix(".parquet"))
        return right(self, name, *args)

    monkeypatch.setattr(Place, "scan", recorded)
    return found


LOW, HIGH, LAST = Shard(0, 0, 9), Shard(1, 10, 19), Shard(1, 16, 19)


def scanned_by(files: ShardFiles, shard: Shard, *wanted: int) -> list[int]:
    rows = files.scan(TABLE, ROWS, shard).table(["ledger_id"], are_of(wanted))
    found: list[int] = rows["ledger_id"].to_pylist()
    return sorted(found)


def test_each_file_is_decoded_once_for_all_stages_of_a_shard(
    run: Place, decoded: list[str]
) -> None:
    """New files are seen, and what is held says what the files say."""
    files, plain = ShardFiles(run, holds=True), ShardFiles(run)
    for _ in range(3):
        assert [0, 5, 9] == scanned_by(files, LOW, 0, 5, 9) == scanned_by(plain, LOW, 0, 5, 9)
    assert ["both", "low"] == decoded
    run.write_table(TABLE, rows_of(0, 3), "new")
    assert [0, 0, 3] == scanned_by(files, LOW, 0, 3)
    assert ["both", "low", "new"] == decoded
    files.release()
    assert [0, 0, 3] == scanned_by(files, LOW, 0, 3)
    assert ["both", "low", "new"] * 2 == decoded


def test_nothing_is_copied_of_rows_that_are_all_selected(tmp_path: Path) -> None:
    """Those of a shard that a stage takes are most often all that its files have."""
    run = place(str(tmp_path))
    run.write_table(TABLE, rows_of(*range(100)), "one")
    rows = ShardFiles(run, holds=True).scan(TABLE, ROWS, Shard(0, 0, 99))
    keep = are_of(range(100))
    first, second = (rows.table(["ledger_id"], keep)["ledger_id"].chunk(0) for _ in range(2))
    assert first.buffers()[1].address == second.buffers()[1].address
    assert [7] == rows.table(["ledger_id"], are_of([7]))["ledger_id"].to_pylist()
    assert rows.table_within(first.nbytes - 1, ["ledger_id"], keep) is None


def test_of_files_that_are_held_the_newest_stay(
    run: Place, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit holds for all of them together."""
    size = pq.read_table(f"{run.path}/{TABLE}/low.parquet").nbytes
    monkeypatch.setattr(shard_files, "HELD_BYTES_MAX", 3 * size - 1)
    monkeypatch.setattr(shard_files, "ROW_BYTES_MIN", 1)
    files = ShardFiles(run, holds=True)
    for shard in (LOW, HIGH, LAST, LAST, LOW):
        assert [] == scanned_by(files, shard, 99)
    assert ["both", "low", "high", "low"] == decoded


def test_only_as_many_rows_are_let_go_as_the_newest_need(
    run: Place, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards in work at the same time keep theirs."""
    size = pq.read_table(f"{run.path}/{TABLE}/low.parquet").nbytes
    monkeypatch.setattr(shard_files, "HELD_BYTES_MAX", 3 * size)
    monkeypatch.setattr(shard_files, "ROW_BYTES_MIN", 1)
    run.write_table(TABLE, rows_of(20, 29), "top")
    files = ShardFiles(run, holds=True)
    for shard in (LOW, HIGH, Shard(2, 20, 29), HIGH, LOW):
        assert [] == scanned_by(files, shard, 99)
    assert ["both", "low", "high", "top", "low"] == decoded


def test_rows_of_a_shard_are_let_go_before_those_of_the_next_but_one_are_decoded(
    run: Place, decoded: list[str]
) -> None:
    """Two shards are in work at a time. A file of both stays as long as one of them."""
    run.write_table(TABLE, rows_of(20, 29), "top")
    files, top = ShardFiles(run, holds=True), Shard(2, 20, 29)
    scanned = [scanned_by(files, shard, 9, 15, 29) for shard in (LOW, HIGH, LOW, HIGH)]
    assert [[9, 15], [15], [9, 15], [15]] == scanned
    assert ["both", "low", "high"] == decoded
    files.of("evidence/ledgers", top)
    assert [[15], [9, 15]] == [scanned_by(files, shard, 9, 15) for shard in (HIGH, LOW)]
    assert ["both", "low", "high", "low"] == decoded


@pytest.mark.parametrize("rows_max", [2, 1000])
def test_files_of_too_many_bytes_are_not_held(
    run: Place, decoded: list[str], monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    """Not even decoded if their rows are too many, else decoded once to find out. The scan reads
    the columns that it needs.
    """
    size = pq.read_table(f"{run.path}/{TABLE}/low.parquet").nbytes
    monkeypatch.setattr(shard_files, "HELD_BYTES_MAX", size)
    monkeypatch.setattr(shard_files, "ROW_BYTES_MIN", size / rows_max)
    files = ShardFiles(run, holds=True)
    for _ in range(3):
        assert [0, 5, 9] == scanned_by(files, LOW, 0, 5, 9)
    assert ([] if rows_max == 2 else ["both", "low"]) == decoded
    assert [10, 15] == scanned_by(files, HIGH, 10, 15)


@pytest.mark.parametrize("count", [0, 7, 8, 23])
def test_nulls_are_shared_and_every_value_stays(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A column with one value is not touched. Its parts may end elsewhere than those of others."""
    monkeypatch.setattr(shard_files, "NULLS_AT_ONCE", 7)
    kind = pa.struct([("name", pa.string()), ("ids", pa.list_(pa.int64()))])
    cells = [None] * max(0, count - 1) + [{"name": "b", "ids": [1]}][:count]
    columns = [pa.nulls(count, kind), pa.array(cells, kind), pa.array(range(count))]
    rows = pa.table(columns, pa.schema([("no", kind), ("one", kind), ("ledger_id", pa.int64())]))
    shared = share_nulls(pa.concat_tables([rows, rows.slice(0, 0)]))
    assert rows.schema == shared.schema
    assert rows.to_pylist() == shared.to_pylist()
    shared.validate(full=True)
    is_shared = shared.get_total_buffer_size() < rows.get_total_buffer_size()
    assert is_shared == (count == 23)


def test_held_rows_without_values_take_little(tmp_path: Path) -> None:
    """Most answers have no list of their own, and most ledgers no mark."""
    count, run = 5 * shard_files.NULLS_AT_ONCE, place(str(tmp_path))
    schema = pa.schema([("ledger_id", pa.int64()), *((name, pa.int64()) for name in "abcdefg")])
    run.write_table(TABLE, pa.table([range(count), *[pa.nulls(count)] * 7], schema), "one")
    rows = ShardFiles(run, holds=True).scan(TABLE, schema, Shard(0, 0, count))
    assert isinstance(rows, HeldRows)
    assert [count - 1] == rows.table(["ledger_id"], are_of([count - 1]))["ledger_id"].to_pylist()
    assert 8 * count < rows.held.get_total_buffer_size() < 24 * count


class RowGroup:
    """A part of a file, and how many of these were decoded."""

    schema = ROWS
    decoded = 0

    def get_fragments(self) -> list[RowGroup]:
        return [self] * 50

    def to_table(self, schema: pa.Schema) -> pa.Table:
        self.decoded += 1
        return rows_of(*range(1_000)).cast(schema)


def test_no_more_is_decoded_of_a_file_that_is_too_large() -> None:
    """Ledgers may have kilobytes of custom metadata: their row groups are not read ahead."""
    size = rows_of(*range(1_000)).nbytes
    for groups in (0, 1, 7):
        rows = RowGroup()
        assert TableScan("a file", rows).whole_within(groups * size) is None
        assert groups + 1 == rows.decoded
    found = TableScan("a file", RowGroup()).whole_within(50 * size)
    assert found is not None
    assert 50_000 == found.num_rows


def test_a_file_is_decoded_whole_a_row_group_at_a_time(tmp_path: Path) -> None:
    """It has the columns of the schema, also those that an earlier version did not write."""
    pq.write_table(rows_of(*range(1_000)), tmp_path / "one.parquet", row_group_size=100)
    schema = ROWS.append(pa.field("look", pa.int32()))
    rows = place(str(tmp_path)).scan("one.parquet", schema).whole_within(2**20)
    assert rows is not None
    assert schema.names == rows.schema.names
    assert list(range(1_000)) == rows["ledger_id"].to_pylist()
    assert 1_000 == rows["look"].null_count


def test_a_file_that_does_not_say_its_bounds_may_have_any_row(tmp_path: Path) -> None:
    """Another writer may leave out the statistics. A missed row would be a missed loss."""
    file = tmp_path / "plain.parquet"
    pq.write_table(rows_of(7), file, write_statistics=False)
    assert (0, 2**63 - 1) == span_of(pq.read_metadata(file))
    pq.write_table(rows_of(None, 7), file, row_group_size=1)
    assert (7, 7) == span_of(pq.read_metadata(file))


@given(
    st.lists(st.integers(0, 30), min_size=1, unique=True),
    st.lists(st.none() | st.integers(0, 30), max_size=20),
)
def test_the_filter_of_some_ledgers_keeps_exactly_their_rows(
    wanted: list[int], stored: list[int | None]
) -> None:
    """Its bounds are those of the ids, whatever their order."""
    kept = rows_of(*stored).filter(are_of(wanted))["ledger_id"].to_pylist()
    assert [one for one in stored if one in wanted] == kept
