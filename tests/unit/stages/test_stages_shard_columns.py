"""What this process reads of a shard in columns: of its files alone, and what Spark would draw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from auditor.config import JudgingLimits
from auditor.evidence import shard_files
from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.rows import answer_row, expected_answer_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.run_tables import SEEN_TABLES, read_seen_rows
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.evidence.table_scan import TableScan, are_of
from auditor.first_checker.circle import Starts, arc_of
from auditor.first_checker.probing import Draw
from auditor.first_checker.spot_reads import Density, ListTests
from auditor.judging.clear_columns import ClearColumns
from auditor.judging.tested_ledgers import TESTED_COLUMNS
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.stages import local
from auditor.stages.asking import WANTED
from auditor.stages.kept_rows import KeptRows
from auditor.stages.local import LocalExecutor
from auditor.stages.selection import SHARDS_HELD, Ledgers, Suspects
from auditor.stages.steps import spots_of
from auditor.stop import StopRequest
from auditor.zookeeper.metadata_store import StoreAddress
from auditor.zookeeper.session import ReadCounts

SHARDS = [Shard(0, 0, 99), Shard(1, 100, 299)]
BOOKIES = ("b1", "b2", "b3")
SHAPE = ledger("e3 w2 a2 0:[b1 b2 b3] closed 29")
OTHER = ledger("e3 w2 a2 0:[b1 b2 b3] 17:[b2 b1 b4] closed 40")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return a run with a file of answers for each shard and bookie, some reads, and a second
    look.
    """
    run = place(str(tmp_path_factory.mktemp("run")))
    for shard in SHARDS:
        ids = range(shard.first, shard.last + 1)
        records = [
            LedgerRecord(
                i, 1, 0, RecordStatus.FOUND, ZnodeStamp(i, 0, 0, 0), OTHER if i % 7 == 0 else SHAPE
            )
            for i in ids
        ]
        name = f"shard-{shard.number}"
        run.write_table("evidence/ledgers", table(LEDGERS, map(ledger_row, records)), name)
        for bookie in BOOKIES:
            said = (Answer(bookie, i, 1, 0, AnswerStatus.HELD, b"") for i in ids)
            rows = (
                answer_row(one)
                if one.ledger_id % 7 == 0
                else expected_answer_row(one, is_kept=False)
                for one in said
            )
            run.write_table("evidence/answers", table(ANSWERS, rows), f"{name}-{bookie}")
        reads = (EntryRead("b1", i, 0, 1, 0, ReadStatus.PRESENT) for i in ids if i % 5 == 0)
        run.write_table("evidence/reads", table(READS, map(read_row, reads)), name)
    again = LedgerRecord(150, 2, 0, RecordStatus.GONE)
    run.write_table("evidence/ledgers", table(LEDGERS, [ledger_row(again)]), "look-2")
    return run


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the names of the files that datasets are made of."""
    names: list[str] = []
    right = ds.dataset

    def recorded(source: Any, *args: Any, **options: Any) -> Any:
        if isinstance(source, list):
            names.extend(Path(getattr(one, "path", one)).stem for one in source)
        return right(source, *args, **options)

    monkeypatch.setattr(ds, "dataset", recorded)
    yield names


def test_the_answers_about_a_shard_are_counted_from_its_files(
    run: Place, opened: list[str]
) -> None:
    """Each is opened once."""
    counted = Suspects(run).counted(SHARDS[1])
    assert list(range(100, 300)) == counted["ledger_id"].to_pylist()
    healthy = counted.filter(counted["copies"].is_valid())["ledger_id"].to_pylist()
    # No bookie should hold the last two entries of a ledger of which all listed what they should.
    assert healthy == [i for i in range(100, 300) if i % 7]
    expected = ["shard-1", "look-2", *(f"shard-1-{bookie}" for bookie in BOOKIES), "shard-1"]
    assert sorted(expected) == sorted(opened)


def evidence_by(suspects: Suspects, run: Place, ids: list[int]) -> list[dict[str, Any]]:
    here = LocalExecutor(StopRequest(), run, suspects, cast(StoreAddress, None), ReadCounts())
    rows: list[dict[str, Any]] = here.collect(
        here.evidence_of(ids, SHARDS[1], answered=True)
    ).to_pylist()
    return rows


def test_all_stages_of_a_shard_open_its_files_once(
    run: Place, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they find is what they find in files that are not held."""

    def found() -> list[Any]:
        suspects, ids = Suspects(run), [105, 110, 299]
        return [
            suspects.clear(SHARDS[1])[1],
            suspects.tested(SHARDS[1], TESTS["lists"]),
            evidence_by(suspects, run, ids),
            suspects.counted(SHARDS[1]).to_pylist(),
            suspects.recorded_ledgers(SHARDS[1]),
            suspects.listed_by(["b2"], SHARDS[1]),
            evidence_by(suspects, run, ids),
        ]

    held = found()
    files = ["shard-1", "look-2", *(f"shard-1-{bookie}" for bookie in BOOKIES), "shard-1"]
    assert sorted(files) == sorted(opened)
    monkeypatch.setattr(shard_files, "HELD_BYTES_MAX", 0)
    assert held == found()
    assert len(opened) > 3 * len(files)


def test_clear_ledgers_of_a_shard_are_found_once_for_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is added is seen. No more shards are held than may be in work."""
    run, made = place(str(tmp_path)), []
    right = ClearColumns.of

    def recorded(rows: pa.Table) -> ClearColumns:
        made.append(rows.num_rows)
        return right(rows)

    def add(*ids: int) -> None:
        records = (LedgerRecord(i, 1, 0, RecordStatus.FOUND, None, SHAPE) for i in ids)
        run.write_table("evidence/ledgers", table(LEDGERS, map(ledger_row, records)), f"{ids[0]}")

    monkeypatch.setattr(ClearColumns, "of", recorded)
    suspects = Suspects(run)
    add(1, 2)
    for _ in range(2):
        assert [1, 2] == suspects.clear(SHARDS[0])[0].ids.tolist()
        assert [1, 2] == suspects.counted(SHARDS[0])["ledger_id"].to_pylist()
    assert [2] == made
    add(3)
    assert [1, 2, 3] == suspects.clear(SHARDS[0])[0].ids.tolist()
    assert [2, 3] == made
    add(101)
    for number, shard in enumerate((SHARDS[1], Shard(7, 90, 101), SHARDS[0], SHARDS[0])):
        suspects.clear(shard)
        assert min(number + 2, SHARDS_HELD) >= len(suspects._columns)
    assert [2, 3, 1, 1, 3] == made
    suspects.release()
    suspects.clear(SHARDS[0])
    assert [2, 3, 1, 1, 3, 3] == made


TESTS = {
    "an arc": ListTests(Starts(3), dict.fromkeys(BOOKIES, Density(arc_of(Draw(512, 5))))),
    "lists": ListTests(
        Starts(4),
        {"b1": Density(arc_of(Draw(256, 0)), 20), "b4": Density(arc_of(Draw(1, 0)), 1)},
        of_lists=True,
        is_denser=True,
    ),
}


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("shard", [*SHARDS, EVERYTHING])
def test_what_is_drawn_here_is_what_each_ledger_says(
    run: Place, name: str, shard: Shard, opened: list[str]
) -> None:
    """Only some ledgers become values: those that may have an entry to read."""
    tests, suspects = TESTS[name], Suspects(run)
    address = cast(StoreAddress, None)
    here = LocalExecutor(StopRequest(), run, suspects, address, ReadCounts())
    tested = suspects.tested(shard, tests)
    of_shard = {"shard-0", "shard-1"} if shard.is_all else {f"shard-{shard.number}"}
    assert of_shard == {one for one in opened if one.startswith("shard")}
    assert 0 < len(tested) < len(range(shard.first, min(shard.last, 299))) / 2
    seen = here.evidence_of(tested, shard, answered=tests.of_lists)
    drawn = here.collect(here.derive(seen, spots_of(tests, JudgingLimits()), WANTED))
    ids = list(range(shard.first, min(shard.last, 299) + 1))
    first = [i for i in ids if i != 150]
    (whole,) = read_seen_rows(run, are_of(first))
    work = spots_of(tests, JudgingLimits())
    wanted = pa.Table.from_batches(list(work(iter([whole]))), schema=WANTED)
    mine = drawn.filter(pa.compute.not_equal(drawn["ledger_id"], 150))
    assert wanted.num_rows and mine.to_pylist() == wanted.to_pylist()


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[frozenset[str], int]]]:
    """Yield which columns each scan returned, and of how many rows."""
    found: list[tuple[frozenset[str], int]] = []
    right = TableScan.table_within

    def recorded(self: TableScan, *args: Any) -> pa.Table | None:
        rows = right(self, *args)
        if rows is not None:
            found.append((frozenset(rows.column_names), rows.num_rows))
        return rows

    monkeypatch.setattr(TableScan, "table_within", recorded)
    yield found


@pytest.fixture
def nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all files have too many rows to be held in memory."""
    monkeypatch.setattr(shard_files, "HELD_BYTES_MAX", 0)


def test_whole_rows_are_in_memory_only_of_what_is_tested(
    run: Place, scanned: list[tuple[frozenset[str], int]], nothing_held: None
) -> None:
    """Custom metadata of a shard may have gigabytes."""
    tests, suspects = TESTS["an arc"], Suspects(run)
    tested = suspects.tested(SHARDS[0], tests)
    assert [(frozenset(TESTED_COLUMNS), 100)] == scanned
    here = LocalExecutor(StopRequest(), run, suspects, cast(StoreAddress, None), ReadCounts())
    rows = here.collect(here.evidence_of(tested, SHARDS[0], answered=False))
    assert [len(tested)] == [count for _, count in scanned[1:]]
    assert tested == rows["ledger_id"].to_pylist()


def test_evidence_of_many_bytes_is_read_in_smaller_parts(
    run: Place,
    scanned: list[tuple[frozenset[str], int]],
    monkeypatch: pytest.MonkeyPatch,
    nothing_held: None,
) -> None:
    """Parts are halved, but not below a batch. Each ledger comes once, with all its evidence."""
    suspects = Suspects(run)
    here = LocalExecutor(StopRequest(), run, suspects, cast(StoreAddress, None), ReadCounts())
    which = Ledgers(1, SHARDS[0])
    expected = here.collect(here.evidence(which, answered=True)).to_pylist()
    whole = sum(
        suspects.files.scan(name, schema, SHARDS[0]).table(schema.names).nbytes
        for name, schema in SEEN_TABLES
    )
    monkeypatch.setattr(KeptRows, "of", lambda *_: None)
    monkeypatch.setattr(local, "LEDGERS_AT_ONCE", 25)
    for bytes_max, parts in ((2 * whole, [100]), (whole * 3 // 4, [50, 50]), (0, [25] * 4)):
        scanned.clear()
        monkeypatch.setattr(local, "BYTES_READ_AT_ONCE", bytes_max)
        assert expected == here.collect(here.evidence(which, answered=True)).to_pylist()
        taken = [count for columns, count in scanned if "custom_metadata" in columns]
        assert parts == taken[-len(parts) :]


def test_parts_are_large_again_after_one_with_many_bytes(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first 20 ledgers have too many bytes to be read together with others."""
    suspects = Suspects(run)
    here = LocalExecutor(StopRequest(), run, suspects, cast(StoreAddress, None), ReadCounts())
    which = Ledgers(1, EVERYTHING)
    expected = here.collect(here.evidence(which, answered=True)).to_pylist()
    ids = suspects.ledgers(which)
    right, parts = LocalExecutor._read, []

    def read(self: LocalExecutor, shard: Shard, some: pa.Array, *args: Any, **others: Any) -> Any:
        if len(some) > 25 and some[0].as_py() < ids[20]:
            return None
        parts.append(len(some))
        return right(self, shard, some, *args, **others)

    monkeypatch.setattr(local, "LEDGERS_AT_ONCE", 20)
    monkeypatch.setattr(local, "LEDGERS_READ_AT_ONCE", 100)
    monkeypatch.setattr(LocalExecutor, "_read", read)
    assert expected == here.collect(here.evidence(which, answered=True)).to_pylist()
    assert [25, 50, 100, 100] == parts[:4]
    assert len(ids) == sum(parts)
