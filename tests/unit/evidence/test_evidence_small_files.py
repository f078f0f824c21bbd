"""Small files are decoded once and held, and what is read of them is what a scan reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.counted_memory import counted_memory

from auditor.errors import OutputError
from auditor.evidence import small_files
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, READS, VERDICTS
from auditor.evidence.small_files import SmallRows, scan_small_files
from auditor.evidence.table_scan import TableScan, are_of

TABLES = {"ledgers": LEDGERS, "answers": ANSWERS, "reads": READS, "verdicts": VERDICTS}
WORDS = {"ledgers": ["segments", "status"], "answers": ["bookie_id"], "reads": ["bookie_id"]}
SEEDS = range(5)
KEPT = (
    None,
    pc.field("ledger_id") > 3,
    pc.field("ledger_id").is_null() | are_of([1, 5]),
    pc.field("ledger_id") < 0,
)


@pytest.fixture(autouse=True)
def decodings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Hold small files, none of another test. Yield a list that gets the size of each file that is
    decoded.
    """
    monkeypatch.setattr(small_files, "FILES_MAX", 16)
    small_files._decoded.cache_clear()
    decoded: list[int] = []
    opened = pq.ParquetFile

    def open_file(content: pa.Buffer, **options: Any) -> pq.ParquetFile:
        decoded.append(content.size)
        return opened(content, **options)

    monkeypatch.setattr(small_files.pq, "ParquetFile", open_file)
    yield decoded
    small_files._decoded.cache_clear()


@pytest.fixture
def run(tmp_path: Path) -> Place:
    return place(str(tmp_path))


def draw(dice: Random, kind: pa.DataType, depth: int = 0) -> Any:
    """Return a value of a type, or None."""
    if dice.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {one.name: draw(dice, one.type, depth) for one in kind}
    if pa.types.is_map(kind):
        return [(f"k{number}", draw(dice, kind.item_type)) for number in range(dice.randint(0, 2))]
    if pa.types.is_list(kind):
        return [draw(dice, kind.value_type) for _ in range(dice.randint(0, 3))]
    if pa.types.is_string(kind):
        return dice.choice(["", "b1", "b2", "b3", "a longer text"])
    if pa.types.is_binary(kind):
        return dice.choice([b"", b"x", b"\x00\xff"])
    if pa.types.is_boolean(kind):
        return dice.random() < 0.5
    return dice.randint(0, 7)


def write_files(run: Place, name: str, schema: pa.Schema, dice: Random) -> None:
    """Write up to three files, some with columns that are not asked for, or without rows."""
    more = [*schema, pa.field("more", pa.list_(pa.string()))]
    for number in range(dice.randint(1, 3)):
        written = pa.schema(dice.sample(more, len(more))) if number else schema
        rows = [
            {one.name: draw(dice, one.type) for one in written} for _ in range(dice.randint(0, 9))
        ]
        run.write_table(name, pa.Table.from_pylist(rows, schema=written), f"part-{number}")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TABLES)
def test_what_is_held_is_what_a_scan_reads(
    name: str, seed: int, run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in their order, types, batches and counts, with words as texts and as numbers."""
    dice, schema = Random(seed), TABLES[name]
    write_files(run, name, schema, dice)
    for words in ([], WORDS.get(name, [])):
        held = run.scan(name, schema, words)
        with monkeypatch.context() as patch:
            patch.setattr(small_files, "FILES_MAX", 0)
            scanned = run.scan(name, schema, words)
        assert (SmallRows, TableScan) == (type(held), type(scanned))
        for keep in KEPT:
            columns = dice.sample(schema.names, dice.randint(1, len(schema)))
            rows = scanned.table(columns, keep)
            assert rows.schema == held.table(columns, keep).schema
            assert rows.to_pylist() == held.table(columns, keep).to_pylist()
            batches = pa.Table.from_batches(held.batches(columns, keep), rows.schema)
            assert rows.to_pylist() == batches.to_pylist()
            assert len(rows) == held.count(keep) == scanned.count(keep)
            size = held.table(columns, keep).nbytes
            assert held.table_within(size, columns, keep) is not None
            assert held.table_within(size - 1, columns, keep) is None or size == 0
        whole = scanned.whole_within(2**20)
        also_whole = held.whole_within(2**20)
        assert whole is not None and also_whole is not None
        assert (whole.schema, whole.to_pylist()) == (also_whole.schema, also_whole.to_pylist())
        assert held.whole_within(also_whole.nbytes - 1) is None or not also_whole.nbytes
        held.check_types()
        assert held.parts_with("ledger_id") is held


def test_a_file_is_decoded_once(run: Place, decodings: list[int]) -> None:
    """Whatever is read of it, and by whichever Place; once more with words as numbers."""
    run.write_table("listing", pa.table({"ledger_id": [1, 2]}, LISTING), "all")
    for _ in range(3):
        assert 2 == place(run.path).count("listing", LISTING)
        assert [1] == run.read_table("listing", LISTING, are_of([1]))["ledger_id"].to_pylist()
        assert 2 == run.scan("listing/all.parquet", LISTING).count()
    assert 1 == len(decodings)


def test_a_file_that_is_written_again_is_read_again(run: Place) -> None:
    """Even with the size, the time and the inode that it had."""
    file = Path(run.path) / "listing" / "all.parquet"
    for ids in ([1, 2], [3, 4]):
        run.write_table("listing", pa.table({"ledger_id": ids}, LISTING), "all")
        os.utime(file, (1, 1))
        assert ids == run.read_table("listing", LISTING)["ledger_id"].to_pylist()


@pytest.mark.parametrize(
    "limit", ["FILES_MAX", "FILE_BYTES_MAX", "ROWS_MAX", "PAGES_BYTES_MAX", "DECODED_BYTES_MAX"]
)
def test_what_is_larger_than_a_limit_is_scanned(
    limit: str, run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits are of a table's files, of a file's bytes, of its rows and of their bytes in pages
    and in memory.
    """
    for number in range(2):
        run.write_table("listing", pa.table({"ledger_id": [1, 2]}, LISTING), f"part-{number}")
    size = Path(run.path, "listing", "part-0.parquet").stat().st_size
    limits = {"FILES_MAX": 2, "FILE_BYTES_MAX": size, "ROWS_MAX": 2}
    pages = pq.read_metadata(Path(run.path, "listing", "part-0.parquet")).row_group(0)
    limits["PAGES_BYTES_MAX"] = pages.total_byte_size
    limits["DECODED_BYTES_MAX"] = run.read_table("listing/part-0.parquet", LISTING).nbytes
    small_files._decoded.cache_clear()
    monkeypatch.setattr(small_files, limit, limits[limit])
    assert isinstance(run.scan("listing", LISTING), SmallRows)
    small_files._decoded.cache_clear()
    monkeypatch.setattr(small_files, limit, limits[limit] - 1)
    assert type(run.scan("listing", LISTING)) is TableScan
    assert 4 == run.count("listing", LISTING)


def test_rows_that_take_few_bytes_on_disk_alone_are_not_decoded(run: Place) -> None:
    """A znode may have a megabyte of zeros."""
    some = {**dict.fromkeys(LEDGERS.names), "custom_metadata": [{"key": "", "value": bytes(10**5)}]}
    rows = pa.Table.from_pylist([some], LEDGERS).take(pa.array([0] * 100))
    run.write_table("ledgers", rows, "all")
    size = Path(run.path, "ledgers", "all.parquet").stat().st_size
    assert size < small_files.FILE_BYTES_MAX
    with counted_memory() as peak:
        assert type(run.scan("ledgers", LEDGERS)) is TableScan
    assert peak() < rows.nbytes / 10


def test_few_files_are_held_at_once(run: Place, decodings: list[int]) -> None:
    """Those that were read last."""
    for number in range(small_files.HELD_FILES_MAX + 1):
        run.write_table("listing", pa.table({"ledger_id": [number]}, LISTING), f"{number}")
        assert 1 == run.scan(f"listing/{number}.parquet", LISTING).count()
    before = len(decodings)
    for number, more in ((small_files.HELD_FILES_MAX, 0), (0, 1), (1, 2)):
        assert 1 == run.scan(f"listing/{number}.parquet", LISTING).count()
        assert before + more == len(decodings)


def test_no_file_of_another_file_system_is_held(run: Place) -> None:
    """Reading it costs a request, and is done by Arrow."""
    run.write_table("listing", pa.table({"ledger_id": [1]}, LISTING), "all")
    whole, under = f"{run.path}/listing/all.parquet", pa.fs.SubTreeFileSystem("/", run.files)
    assert scan_small_files("listing", run.files, [whole], LISTING) is not None
    assert scan_small_files("listing", under, [whole], LISTING) is None


@pytest.mark.parametrize("damage", ["cut short", "no Parquet", "empty", "unreadable"])
def test_a_damaged_file_is_left_to_the_scan(damage: str, run: Place) -> None:
    """It says what is wrong, and with which table."""
    run.write_table("listing", pa.table({"ledger_id": [1, 2]}, LISTING), "all")
    file = Path(run.path) / "listing" / "all.parquet"
    content = file.read_bytes()
    said = {"cut short": content[:-9], "no Parquet": b"x" * 99, "empty": b"", "unreadable": content}
    file.write_bytes(said[damage])
    if damage == "unreadable":
        file.unlink()
        assert scan_small_files("listing", run.files, [str(file)], LISTING) is None
        return
    with pytest.raises(OutputError, match=r"cannot read file:.*/listing"):
        run.read_table("listing", LISTING)


def test_a_file_with_damaged_rows_is_not_asked_for_the_types_of_its_columns(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some damaged columns pyarrow cannot say the type, and ends the process."""
    run.write_table("listing", pa.table({"ledger_id": [1, 2]}, LISTING), "all")
    file = Path(run.path) / "listing" / "all.parquet"
    content = file.read_bytes()
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    file.write_bytes(content[:4] + b"\xff" * (end - 4) + content[end:])
    assert 2 == pq.read_metadata(file).num_rows
    with monkeypatch.context() as patch:
        patch.delattr(small_files, "other_types")
        assert type(run.scan("listing", LISTING)) is TableScan
    with pytest.raises(OutputError, match=r"cannot read file:.*/listing"):
        run.read_table("listing", LISTING)


def test_a_file_without_a_column_is_left_to_the_scan(run: Place) -> None:
    """Its rows have nothing in that column."""
    run.write_table("listing", pa.table({"other": [1, 2]}), "all")
    scan = run.scan("listing", LISTING)
    assert type(scan) is TableScan
    assert [None, None] == scan.table(["ledger_id"])["ledger_id"].to_pylist()


def test_a_column_of_another_type_is_left_to_the_scan(run: Place) -> None:
    """Arrow converts it where it can."""
    run.write_table("listing", pa.table({"ledger_id": pa.array([1, 2], pa.int32())}), "all")
    scan = run.scan("listing", LISTING)
    assert type(scan) is TableScan
    assert [1, 2] == scan.table(["ledger_id"])["ledger_id"].to_pylist()


def test_a_filter_that_cannot_be_applied_is_an_error(run: Place) -> None:
    """As a scan's is."""
    run.write_table("listing", pa.table({"ledger_id": [1, 2]}, LISTING), "all")
    wrong: ds.Expression = pc.field("ledger_id") == pc.scalar([1])
    with pytest.raises(OutputError, match=r"cannot read file:.*/listing"):
        run.read_table("listing", LISTING, wrong)
