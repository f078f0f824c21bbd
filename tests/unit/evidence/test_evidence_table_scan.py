"""A scan reads a table in parts and never holds it whole."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.counted_memory import counted_memory

from auditor.errors import OutputError
from auditor.evidence import table_scan
from auditor.evidence.rows import table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LISTING
from auditor.evidence.table_scan import BATCH_ROWS, TableScan, are_of, iterate_rows, scan_rows

ROWS = 2 * BATCH_ROWS + 1
ODD = pc.bit_wise_and(pc.field("ledger_id"), 1) == 1


@pytest.fixture
def run(tmp_path: Path) -> Place:
    return place(str(tmp_path))


@pytest.fixture(params=["written", "in memory"])
def scan(request: pytest.FixtureRequest, run: Place) -> TableScan:
    """The same rows in one file and in memory."""
    rows = table(LISTING, [(i,) for i in range(ROWS)])
    if request.param == "in memory":
        return scan_rows(pa.Table.from_batches([rows]))
    run.write_table("listing", rows, "all")
    return run.scan("listing", LISTING)


def test_no_batch_is_larger_than_the_bound(scan: TableScan) -> None:
    """Whatever the file's row groups, and every row comes once."""
    batches = list(scan.batches(["ledger_id"]))
    assert BATCH_ROWS >= max(batch.num_rows for batch in batches)
    assert list(range(ROWS)) == sorted(
        i for batch in batches for i in batch["ledger_id"].to_pylist()
    )


def test_few_batches_and_files_are_read_ahead() -> None:
    """What is read ahead is held in memory, and pyarrow's own bounds are those of a large
    machine.
    """
    asked: list[dict[str, object]] = []

    class Rows:
        def get_fragments(self) -> list[ds.Fragment]:
            return []

        def to_batches(self, **options: object) -> list[pa.RecordBatch]:
            asked.append(options)
            return []

    assert [] == list(TableScan("rows", Rows()).batches(("a", "b"), ODD))  # type: ignore[arg-type]
    bounds = {"batch_size": 16_384, "batch_readahead": 2, "fragment_readahead": 2}
    assert [{"columns": ["a", "b"], "filter": ODD, **bounds}] == asked


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_few_rows_of_many_files_take_no_more_memory_than_a_few_files(
    run: Place, is_whole: bool
) -> None:
    """A row group is decoded as a whole, whatever few rows of it are wanted."""
    size, files = 50_000, 16
    schema = pa.schema([(name, pa.int64()) for name in ("ledger_id", *"abcdefg")])
    for start in range(0, size * files, size):
        rows = pa.table([np.arange(start, start + size)] * len(schema), schema)
        run.write_table("numbers", rows, f"part-{start:07}")
    scan, wanted = run.scan("numbers", schema), list(range(0, size * files, size // 2))
    with counted_memory() as peak:
        if is_whole:
            found = scan.table(schema.names, are_of(wanted))["ledger_id"].to_pylist()
        else:
            batches = scan.batches(schema.names, are_of(wanted))
            found = [i for one in batches for i in one["ledger_id"].to_pylist()]
    assert wanted == found
    assert peak() < 3.5 * rows.nbytes


def test_a_condition_holds_for_rows_batches_and_counts_alike(scan: TableScan) -> None:
    """The three ways to read keep the same rows."""
    expected = list(range(1, ROWS, 2))
    assert expected == sorted(scan.table(["ledger_id"], ODD)["ledger_id"].to_pylist())
    assert expected == sorted(
        i for batch in scan.batches(["ledger_id"], ODD) for i in batch["ledger_id"].to_pylist()
    )
    assert len(expected) == scan.count(ODD)


def test_a_file_that_is_gone_is_said_with_its_name(run: Place) -> None:
    """What the file system raises, at whichever use, is an error for people."""
    run.write_table("listing", table(LISTING, [(1,)]), "all")
    scan = run.scan("listing", LISTING)
    run.remove("listing")
    for use in (
        lambda: scan.table(["ledger_id"]),
        lambda: list(scan.batches(["ledger_id"])),
        scan.count,
    ):
        with pytest.raises(OutputError, match=f"cannot read {run.uri}/listing"):
            use()


def test_a_table_that_is_larger_in_memory_than_any_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Nulls cost nothing on disk: 2 million rows in a few kilobytes. The bound is on what is held,
    not on the file.
    """
    pq.write_table(
        pa.table({"ledger_id": pa.nulls(2_000_000, pa.int64())}), tmp_path / "all.parquet"
    )
    assert (tmp_path / "all.parquet").stat().st_size < 100_000
    scan = TableScan("t", ds.dataset(tmp_path / "all.parquet"))
    assert 2_000_000 == scan.table(["ledger_id"]).num_rows
    monkeypatch.setattr(table_scan, "TABLE_BYTES_MAX", 2**20)
    with pytest.raises(OutputError, match="more than 1048576 bytes in memory"):
        scan.table(["ledger_id"])


def test_rows_come_in_their_order_and_become_values_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However the table is cut into batches."""
    monkeypatch.setattr(table_scan, "ROWS_AS_VALUES_MAX", 2)
    held: list[int] = []

    class Rows:
        def to_batches(self, max_chunksize: int) -> list[pa.RecordBatch]:
            held.append(max_chunksize)
            return pa.table({"a": pa.chunked_array([[1, 2, 3], [4]])}).to_batches(max_chunksize)

    assert [{"a": one} for one in (1, 2, 3, 4)] == list(iterate_rows(Rows()))
    assert [2] == held


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 5])
def test_ledgers_are_looked_up_a_bounded_number_at_a_time(
    scan: TableScan, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Each row comes once, and a ledger that the table lacks has none."""
    monkeypatch.setattr(table_scan, "LEDGERS_AT_ONCE", at_once)
    ids = [3, 5, 8, ROWS]
    parts = [one["ledger_id"].to_pylist() for one in scan.tables_of_ledgers(ids, ["ledger_id"])]
    expected = [[*filter(ROWS.__gt__, ids[at : at + at_once])] for at in range(0, 4, at_once)]
    assert expected == parts
    assert [] == list(scan.tables_of_ledgers([], ["ledger_id"]))


def test_the_bound_on_a_table_counts_all_its_batches(monkeypatch: pytest.MonkeyPatch):
    """A table of just so many bytes is read, one of a byte more is not, whatever its batches."""
    rows = pa.table({"ledger_id": pa.chunked_array([[1, 2], [3, 4], [5, 6]], pa.int64())})
    scan = TableScan("t", ds.dataset(rows))
    monkeypatch.setattr(table_scan, "TABLE_BYTES_MAX", 48)
    assert [1, 2, 3, 4, 5, 6] == sorted(scan.table(["ledger_id"])["ledger_id"].to_pylist())
    monkeypatch.setattr(table_scan, "TABLE_BYTES_MAX", 47)
    with pytest.raises(OutputError, match="more than 47 bytes in memory"):
        scan.table(["ledger_id"])


@pytest.mark.parametrize("separator", ["\n", "\\n"])
def test_a_fault_that_hdfs_raises_is_an_output_error_of_one_line(separator: str) -> None:
    """hdfs-native raises a plain RuntimeError with the Java stack trace of the name node."""
    trace = f"Permission denied: user=a{separator}\tat java.base/x.Y(Y.java){separator}"
    with pytest.raises(OutputError) as raised, table_scan.file_errors("write hdfs://nn/a"):
        raise RuntimeError(trace)
    assert "cannot write hdfs://nn/a: Permission denied: user=a" == str(raised.value)


@pytest.mark.parametrize("kind", [RecursionError, NotImplementedError])
def test_our_own_faults_are_not_taken_for_those_of_a_file_system(kind: type[Exception]) -> None:
    """Subclasses of RuntimeError come from Python."""
    with pytest.raises(kind), table_scan.file_errors("read it"):
        raise kind("ours")


TYPE_OF_A_NUMBER, TYPE_OF_A_TRUTH = b"\x15\x04", b"\x15\x00"
"""How the end of a Parquet file says INT64 and BOOLEAN."""


def test_a_row_group_of_another_type_than_its_file_ends_no_process(run: Place) -> None:
    """Arrow would end it, from a thread, where rows are filtered. The error names both types."""
    run.write_table("listing", table(LISTING, [(7,)]), "all")
    [path] = Path(run.path).rglob("*.parquet")
    content = path.read_bytes()
    for found in re.finditer(re.escape(TYPE_OF_A_NUMBER), content):
        path.write_bytes(content[: found.start()] + TYPE_OF_A_TRUTH + content[found.end() :])
        with contextlib.suppress(OSError):  # some other number was meant
            metadata = pq.read_metadata(path)
            if metadata.row_group(0).column(0).physical_type == "BOOLEAN":
                break
    scan = run.scan("listing", LISTING)
    for read in (scan.table, lambda _, keep: list(scan.batches(["ledger_id"], keep))):
        with pytest.raises(OutputError, match="says BOOLEAN and INT64 of its column ledger_id"):
            read(["ledger_id"], ODD)
    with pytest.raises(OutputError, match="says BOOLEAN and INT64"):
        scan.count(ODD)


def test_many_files_are_read_in_order_a_few_at_a_time(run: Place) -> None:
    """Each row comes once. A file that lacks a column has nulls in it."""
    for number in range(11):
        columns = {"ledger_id": [2 * number, 2 * number + 1], "other": [number, None]}
        rows = pa.table({name: columns[name] for name in list(columns)[: 1 + number % 2]})
        run.write_table("some", rows, f"{number:02}")
    scan = run.scan("some", pa.schema([("ledger_id", pa.int64()), ("other", pa.int64())]))
    batches = scan.batches(["ledger_id", "other"], pc.field("ledger_id") != 4)
    found = pa.Table.from_batches(list(batches))
    assert [one for one in range(22) if one != 4] == found["ledger_id"].to_pylist()
    assert [1, 3, 5, 7, 9] == [one for one in found["other"].to_pylist() if one is not None]
    assert [4, 4, 3] == [len(list(part.get_fragments())) for part in scan._portions()]


VALUES = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("words", pa.list_(pa.string())),
        ("mark", pa.struct([("created_ms", pa.int64()), ("lock", pa.struct([("a", pa.int64())]))])),
    ]
)
CELLS: list[tuple[list[str | None] | None, dict[str, Any] | None]] = [
    (None, None),
    ([], None),
    (["a", None], None),
    (None, {"created_ms": 7, "lock": None}),
    (None, {"created_ms": None, "lock": {"a": 1}}),
]


@pytest.mark.parametrize("with_statistics", [True, False])
@pytest.mark.parametrize("in_memory", [True, False])
def test_parts_of_files_without_a_value_are_not_read(
    tmp_path: Path, *, in_memory: bool, with_statistics: bool
) -> None:
    """No row with a value is left out, and no part is read that is known to have none."""
    rows = [{"ledger_id": n, "words": w, "mark": m} for n, (w, m) in enumerate(CELLS)]
    table_rows = pa.Table.from_pylist(rows, VALUES)
    for number in range(2):
        file = tmp_path / f"{number}.parquet"
        pq.write_table(table_rows, file, row_group_size=1, write_statistics=with_statistics)
    scan = TableScan("values", ds.dataset(tmp_path, schema=VALUES))
    if in_memory:
        scan = scan_rows(table_rows)
    for columns, known in ((["words"], [2]), (["mark"], [3, 4]), (["words", "mark"], [2, 3, 4])):
        found = scan.parts_with(*columns).table(["ledger_id"])["ledger_id"].to_pylist()
        if in_memory or not with_statistics:
            assert sorted(found) == sorted(list(range(5)) * (1 if in_memory else 2))
        else:
            assert sorted(found) == sorted(known * 2)
    kept = scan.parts_with("mark").table(["ledger_id"], pc.is_valid(pc.field("mark")))
    assert {3, 4} == set(kept["ledger_id"].to_pylist())
    assert list(scan.parts_with("mark").batches(["ledger_id", "mark"]))


def test_a_column_that_a_file_lacks_has_no_value(tmp_path: Path) -> None:
    """Runs of earlier versions lack a column."""
    pq.write_table(pa.table({"ledger_id": [1]}), tmp_path / "old.parquet")
    scan = TableScan("values", ds.dataset(tmp_path, schema=VALUES))
    assert not list(scan.parts_with("words").batches(["words"]))
    assert 0 == scan.parts_with("words").count(pc.is_valid(pc.field("words")))
