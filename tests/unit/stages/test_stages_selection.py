"""Which ledgers are left, by the tables of listings and judgings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from support.counted_memory import counted_memory

from auditor.errors import AccountingError
from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LEDGERS, LISTING
from auditor.judging.settle import Todo
from auditor.stages.asking import WANTED
from auditor.stages.selection import Suspects
from auditor.stages.steps import STEPS, steps_name

WANTS = [
    {
        "bookie_id": "b1",
        "ledger_id": 5,
        "entry_id": 42,
        "digest_type": 3,
        "is_search": False,
        "is_spot": False,
        "is_denser": False,
        "is_named": False,
    },
    {
        "bookie_id": "b2",
        "ledger_id": 5,
        "entry_id": 42,
        "digest_type": 3,
        "is_search": False,
        "is_spot": False,
        "is_denser": False,
        "is_named": False,
    },
]


def run_with(root: Path, *judgings: tuple[int, int, dict[int, Todo]]) -> Place:
    """Return a run with these judgings, each (look, number, what is left to do by ledger)."""
    run = place(str(root))
    for look, number, left in judgings:
        rows = [row(ledger_id, todo) for ledger_id, todo in left.items()]
        run.write_table(steps_name(look, number), pa.Table.from_pylist(rows, STEPS), "part")
    return run


def row(ledger_id: int, todo: Todo) -> dict[str, object]:
    wanted = WANTS if todo is Todo.READS else []
    return {
        **dict.fromkeys(STEPS.names),
        "ledger_id": ledger_id,
        "todo": todo.value,
        "wanted": wanted,
    }


def test_listed_are_those_of_the_shard_ascending(tmp_path: Path) -> None:
    """A ledger that is listed twice comes twice, and is found to be wrong later. The count is over
    all shards.
    """
    run = place(str(tmp_path))
    run.write_table(
        "evidence/listing", pa.Table.from_pydict({"ledger_id": [9, 4, 5, 2]}, LISTING), "one"
    )
    run.write_table(
        "evidence/listing", pa.Table.from_pydict({"ledger_id": [3, 4, 6]}, LISTING), "other"
    )
    assert [3, 4, 4, 5] == Suspects(run).listed_ledgers(Shard(1, 3, 5))
    assert 7 == Suspects(run).count_listed()


def suspects_of(root: Path, *rows: tuple[int, int]) -> Suspects:
    """Return the suspects of a run with records of (ledger, look)."""
    run = place(str(root))
    cells = [
        {**dict.fromkeys(LEDGERS.names), "ledger_id": ledger_id, "look": look}
        for ledger_id, look in rows
    ]
    run.write_table("evidence/ledgers", pa.Table.from_pylist(cells, LEDGERS), "one")
    return Suspects(run)


def test_recorded_are_those_that_the_first_look_read(tmp_path: Path) -> None:
    """They are the ledgers of the shard, ascending. A record of a later look does not count."""
    suspects = suspects_of(tmp_path, (5, 1), (3, 1), (9, 1), (3, 2), (4, 2))
    assert [3, 5] == suspects.recorded_ledgers(Shard(1, 3, 5))


def test_a_ledger_that_was_read_twice_does_not_pass_for_one(tmp_path: Path) -> None:
    """Otherwise its rows would be gathered into one, and the error would go unnoticed."""
    with pytest.raises(AccountingError, match="ledger 3 was read twice"):
        suspects_of(tmp_path, (5, 1), (3, 1), (3, 1)).recorded_ledgers(EVERYTHING)


def test_open_are_those_that_any_judging_of_the_look_left_wanting_another(tmp_path: Path) -> None:
    """Judgings of other looks do not count."""
    run = run_with(
        tmp_path,
        (1, 0, {7: Todo.LOOK, 3: Todo.READS, 1: Todo.NOTHING}),
        (1, 1, {3: Todo.LOOK}),
        (2, 0, {9: Todo.LOOK}),
        (11, 0, {8: Todo.LOOK}),
    )
    assert [3, 7] == Suspects(run).open_ledgers(1, EVERYTHING)


def test_open_are_those_of_the_shard_alone(tmp_path: Path) -> None:
    """The first and the last ledger of the shard are included."""
    run = run_with(tmp_path, (1, 0, dict.fromkeys(range(1, 9), Todo.LOOK)))
    assert [3, 4, 5] == Suspects(run).open_ledgers(1, Shard(1, 3, 5))


def test_left_are_those_of_one_judging(tmp_path: Path) -> None:
    """Only ledgers with the given todo are returned."""
    run = run_with(
        tmp_path, (2, 0, {4: Todo.LISTS, 2: Todo.LISTS, 3: Todo.LOOK}), (2, 1, {9: Todo.LISTS})
    )
    assert [2, 4] == Suspects(run).ledgers_left(2, 0, Todo.LISTS)


def test_wanted_are_the_reads_of_one_judging(tmp_path: Path) -> None:
    """Each read of each ledger that wants reads is returned."""
    run = run_with(tmp_path, (1, 0, {5: Todo.READS, 6: Todo.LOOK}))
    wanted = Suspects(run).wanted_reads(1, 0)
    assert (WANTED, WANTS) == (wanted.schema, wanted.to_pylist())


def test_a_judging_of_no_ledger_left_nothing(tmp_path: Path) -> None:
    """Spark writes no file for a table without rows."""
    run = run_with(tmp_path)
    run.files.create_dir(f"{run.path}/{steps_name(1, 0)}", recursive=True)
    suspects = Suspects(run)
    assert [] == suspects.ledgers_left(1, 0, Todo.LOOK)
    assert (WANTED, 0) == (suspects.wanted_reads(1, 0).schema, suspects.wanted_reads(1, 0).num_rows)


def test_lists_are_demanded_of_those_that_the_look_before_said(tmp_path: Path) -> None:
    """Of the shard, by any judging of that look. A judging that was made by an earlier release does
    not say it.
    """
    run = run_with(tmp_path, (1, 0, dict.fromkeys(range(3, 7), Todo.LOOK)), (2, 0, {4: Todo.LOOK}))
    says = [{**row(one, Todo.LOOK), "asks_next": one != 9} for one in range(7, 12)]
    run.write_table(steps_name(1, 1), pa.Table.from_pylist(says, STEPS), "part")
    earlier = pa.Table.from_pylist([row(20, Todo.LOOK)], STEPS).drop_columns("asks_next")
    run.write_table(steps_name(1, 2), earlier, "part")
    suspects = Suspects(run)
    assert (2, {7, 8, 10}) == suspects.asked_again(2, Shard(0, 0, 10))
    assert (2, {7, 8, 10, 11}) == suspects.asked_again(2, EVERYTHING)
    assert [*range(3, 12), 20] == suspects.open_ledgers(1, EVERYTHING)


def test_open_ledgers_take_little_memory(tmp_path: Path) -> None:
    """They are those of all shards: of a cluster without a rack, most of its ledgers."""
    count = 100_000
    columns = {
        "ledger_id": range(count),
        "todo": [Todo.LOOK.value] * count,
        "asks_next": [True] * count,
    }
    rows = {name: columns.get(name, pa.nulls(count)) for name in STEPS.names}
    run = place(str(tmp_path))
    run.write_table(steps_name(1, 0), pa.Table.from_pydict(rows, STEPS), "part")
    suspects = Suspects(run)
    with counted_memory() as peak:
        assert [7, 8] == suspects.open_ledgers(1, Shard(0, 7, 8))
    assert peak() < 50 * count


class Scanned:
    """A run that records the columns and the number of the rows that were read into memory."""

    def __init__(self, run: Place) -> None:
        self._run = run
        self.scans: list[tuple[list[str], int]] = []

    def file_sizes(self, *names: str) -> dict[str, int]:
        return self._run.file_sizes(*names)

    def read_table(self, *given: Any) -> pa.Table:
        rows = self._run.read_table(*given)
        self.scans.append((rows.column_names, rows.num_rows))
        return rows


def test_only_the_rows_and_columns_asked_for_are_read_into_memory(tmp_path: Path) -> None:
    """The first judging of a first look has a row for each ledger of the cluster."""
    sound = dict.fromkeys(range(10, 60), Todo.NOTHING)
    run = Scanned(run_with(tmp_path, (1, 0, {5: Todo.READS, 6: Todo.LOOK, **sound})))
    suspects = Suspects(cast(Place, run))
    assert [6] == suspects.open_ledgers(1, EVERYTHING)
    assert [5] == suspects.ledgers_left(1, 0, Todo.READS)
    assert WANTS == suspects.wanted_reads(1, 0).to_pylist()
    assert [(["ledger_id", "asks_next"], 1), (["ledger_id"], 1), (["wanted"], 1)] == run.scans


def test_each_judging_is_read_once_for_all_shards(tmp_path: Path) -> None:
    """A look has a judging for each shard. One that was done again is read again."""
    run = run_with(tmp_path, *((1, number, {number: Todo.LOOK}) for number in range(5)))
    scanned = Scanned(run)
    suspects = Suspects(cast(Place, scanned))
    for number in range(5):
        assert [number] == suspects.open_ledgers(1, Shard(number, number, number))
    assert 5 == len(scanned.scans)
    run.remove(steps_name(1, 3))
    assert [0, 1, 2, 4] == suspects.open_ledgers(1, EVERYTHING)
    run_with(tmp_path, (1, 3, {3: Todo.NOTHING, **dict.fromkeys(range(30, 90), Todo.LOOK)}))
    assert [0, 1, 2, 4, *range(30, 90)] == suspects.open_ledgers(1, EVERYTHING)
    assert 6 == len(scanned.scans)


def test_recorded_ledgers_are_read_without_their_metadata(tmp_path: Path) -> None:
    """The record of a ledger may have kilobytes, and there is one for each ledger of the shard."""
    run = Scanned(suspects_of(tmp_path, (5, 1), (3, 1), (3, 2)).run)
    assert [3, 5] == Suspects(cast(Place, run)).recorded_ledgers(EVERYTHING)
    assert [(["ledger_id"], 2)] == run.scans


def test_tables_that_may_be_missing_have_no_ledgers(tmp_path: Path) -> None:
    """Without a file the columns are those of the schema."""
    suspects = Suspects(replace(place(str(tmp_path)), missing_is_empty=True))
    assert (0, []) == (suspects.count_listed(), suspects.recorded_ledgers(EVERYTHING))
