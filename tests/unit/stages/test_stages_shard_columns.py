"""What this process reads of a shard in columns: of its files alone, and what Spark would draw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from auditor.config import JudgingLimits
from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.rows import answer_row, expected_answer_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.run_tables import read_seen_rows
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.evidence.table_scan import are_of
from auditor.first_checker.circle import Starts, arc_of
from auditor.first_checker.probing import Draw
from auditor.first_checker.spot_reads import Density, ListTests
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.stages.asking import WANTED
from auditor.stages.local import LocalExecutor
from auditor.stages.selection import Suspects
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
    records = suspects.tested(shard, tests)
    of_shard = {"shard-0", "shard-1"} if shard.is_all else {f"shard-{shard.number}"}
    assert of_shard == {one for one in opened if one.startswith("shard")}
    assert 0 < len(records) < len(range(shard.first, min(shard.last, 299))) / 2
    seen = here.tested(records, shard, answered=tests.of_lists)
    drawn = here.collect(here.derive(seen, spots_of(tests, JudgingLimits()), WANTED))
    ids = list(range(shard.first, min(shard.last, 299) + 1))
    first = [i for i in ids if i != 150]
    (whole,) = read_seen_rows(run, are_of(first))
    work = spots_of(tests, JudgingLimits())
    wanted = pa.Table.from_batches(list(work(iter([whole]))), schema=WANTED)
    mine = drawn.filter(pa.compute.not_equal(drawn["ledger_id"], 150))
    assert wanted.num_rows and mine.to_pylist() == wanted.to_pylist()
