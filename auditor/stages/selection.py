"""Choose the ledgers that a stage takes, from the listing and the tables of judgings (`steps/`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.errors import AccountingError
from auditor.evidence.ids import EVERYTHING, Ids, Shard, distinct_numbers, missing_numbers
from auditor.evidence.rows import structs
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, CLEAR_COLUMNS, LEDGERS, LISTING, READS
from auditor.evidence.shard_files import ShardFiles
from auditor.first_checker.spot_reads import ListTests
from auditor.judging.clear_columns import ClearColumns
from auditor.judging.counted_answers import (
    ANSWER_COLUMNS,
    SPOT_COLUMNS,
    answer_columns,
    count_answers,
)
from auditor.judging.settle import Todo
from auditor.judging.tested_ledgers import TESTED_COLUMNS, may_have_reads
from auditor.model.availability import AnswerStatus
from auditor.model.identity import BookieId, LedgerId
from auditor.stages.asking import WANTED
from auditor.stages.steps import STEPS, Unchanged, steps_name, steps_prefix


@dataclass(frozen=True, slots=True)
class Ledgers:
    """The ledgers that a stage takes.

    By default they are those with which a look at a shard begins: all at the first look, later
    those for which the look before demanded another one. With `left_by` they are those that this
    judging of the look left with `todo`. At the first look they may be those that one of the
    bookies in `listed_by` listed, those `are_retested` of which more was read after the look
    had settled them, or those in `named`.
    """

    look: int
    shard: Shard = EVERYTHING
    left_by: int | None = None
    todo: Todo = Todo.LOOK
    listed_by: frozenset[BookieId] | None = None
    are_retested: bool = False
    named: frozenset[LedgerId] | None = None

    @property
    def are_first(self) -> bool:
        """Whether they are of the first look, and no judging left them."""
        return self.look == 1 and self.left_by is None

    @property
    def are_all(self) -> bool:
        """Whether they are all ledgers of the shard."""
        is_chosen = self.listed_by is not None or self.are_retested or self.named is not None
        return self.are_first and not is_chosen

    @property
    def may_be_healthy(self) -> bool:
        """Whether nothing was found yet that speaks against any of them."""
        return self.look == 1 and (self.left_by is None or self.todo is Todo.EVIDENCE)

    @property
    def are_mostly_sound(self) -> bool:
        """Whether suspects are few among them: most are of the sample, or were read once more."""
        return self.look == 1 and (self.are_retested or self.todo is Todo.EVIDENCE)

    @property
    def were_asked_about(self) -> bool:
        """Whether this look asked bookies about each of them whose lists are needed."""
        return self.look == 1 or self.left_by is not None


DUE_LISTING = "steps/due"
"""The listed ledgers that a run with a period asks about. Other runs ask about all."""


def first_asked(run: Place) -> str:
    """Return the table of the ledgers that the first look reads and asks about."""
    return DUE_LISTING if run.has_table(DUE_LISTING) else "evidence/listing"


SHARDS_HELD = 2
"""Shards of which the clear ledgers stay in memory: questions about them are made, and later their
answers are counted. 130 bytes a ledger."""


class _ShardColumns(NamedTuple):
    """The ledgers of a shard that the first look read, from these files.

    `ids` are all of them, ascending; `clear` are those that are clear.
    """

    files: list[str]
    ids: Ids
    clear: ClearColumns


class _OpenLedgers(NamedTuple):
    """The ledgers with Todo.LOOK in these files, with their sizes. `asking`: those that say
    `asks_next`.
    """

    files: list[tuple[str, int]]
    ids: Ids
    asking: Ids


@dataclass(frozen=True, slots=True)
class Suspects:
    """The ledgers that each stage handles. Each method costs a scan of two columns."""

    run: Place
    files: ShardFiles = field(init=False)
    _columns: dict[Shard, _ShardColumns] = field(init=False)
    _open: dict[str, _OpenLedgers] = field(init=False)
    """By table of `steps/`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", ShardFiles(self.run, holds=True))
        object.__setattr__(self, "_columns", {})
        object.__setattr__(self, "_open", {})

    def release(self) -> None:
        """Hold no evidence in memory any more, until it is read again."""
        self.files.release()
        self._columns.clear()

    def count_listed(self) -> int:
        """Return how many listed ledgers the run asks about. Costs the footers of the files."""
        return self.run.count(first_asked(self.run), LISTING)

    def ledgers(self, which: Ledgers) -> list[LedgerId]:
        """Return the ledgers that a stage takes, ascending."""
        if which.left_by is not None:
            return self.ledgers_left(which.look, which.left_by, which.todo)
        if which.named is not None:
            return sorted(which.named)
        if which.listed_by is not None:
            return self.listed_by(which.listed_by, which.shard)
        if which.are_retested:
            return self.retested_ledgers(which.shard)
        if which.look == 1:
            return self.recorded_ledgers(which.shard)
        return self.open_ledgers(which.look - 1, which.shard)

    def listed_ledgers(self, shard: Shard) -> list[LedgerId]:
        """Return the listed ledgers of a shard, ascending: those that the first look reads."""
        listed = self.run.read_table(first_asked(self.run), LISTING, _is_within(shard))
        return sorted(listed["ledger_id"].to_pylist())

    def recorded_ledgers(self, shard: Shard) -> list[LedgerId]:
        """Return the ledgers of a shard that the first look read, ascending.

        They are not taken from the listing: a ledger that was lost or doubled in between would not
        be noticed. Raises AccountingError if one was read twice.
        """
        keep = pc.field("look") == 1
        found = self._read("evidence/ledgers", LEDGERS, shard, keep)["ledger_id"]
        ids: list[LedgerId] = sorted(found.to_pylist())
        twice = next((one for one, other in pairwise(ids) if one == other), None)
        if twice is not None:
            raise AccountingError(f"ledger {twice} was read twice at the first look")
        return ids

    def clear(self, shard: Shard) -> tuple[ClearColumns, list[LedgerId]]:
        """Return the clear ledgers of a shard that the first look read, and the ids of the others.

        Costs a scan of the shard's files. Memory: 200 bytes a ledger of the shard.
        """
        columns = self._shard_columns(shard)
        return columns.clear, missing_numbers(columns.ids, columns.clear.ids).tolist()

    def counted(self, shard: Shard) -> pa.RecordBatch:
        """Return a COUNTED row for each ledger of a shard that the first look read, ascending.

        Costs a scan of the shard's files. Memory: 200 bytes a ledger of the shard. Raises
        AccountingError if a ledger was read twice.
        """
        columns = self._shard_columns(shard)
        tables = zip(("answers", "reads"), (ANSWERS, READS), strict=True)
        answers, reads = (
            self.files.scan(f"evidence/{name}", schema, shard) for name, schema in tables
        )
        return count_answers(
            columns.ids,
            columns.clear,
            answer_columns(answers.batches(ANSWER_COLUMNS)),
            reads.batches(SPOT_COLUMNS),
        )

    def _shard_columns(self, shard: Shard) -> _ShardColumns:
        """Return the ledgers of a shard that the first look read.

        They are made once of the same files, and again if a file was added.
        """
        files = self.files.of("evidence/ledgers", shard)
        found = self._columns.get(shard)
        if found is None or found.files != files:
            keep = _is_within(shard) & (pc.field("look") == 1)
            records = self.files.scan("evidence/ledgers", LEDGERS, shard)
            rows = records.table(["ledger_id", *CLEAR_COLUMNS], keep)
            ids = np.sort(rows["ledger_id"].to_numpy())
            found = _ShardColumns(files, ids, ClearColumns.of(rows))
            while len(self._columns) >= SHARDS_HELD:
                del self._columns[next(iter(self._columns))]
            self._columns[shard] = found
        return found

    def tested(self, shard: Shard, tests: ListTests) -> list[LedgerId]:
        """Return the ledgers of a shard of which the tests may read an entry, ascending.

        Costs a scan of the shard's files. Holds no other columns than the tests need: custom
        metadata may have 100 times as many bytes.
        """
        keep = _is_within(shard) & (pc.field("look") == 1)
        records = self.files.scan("evidence/ledgers", LEDGERS, shard)
        rows = records.table(TESTED_COLUMNS, keep)
        found = rows["ledger_id"].filter(pa.array(may_have_reads(structs(rows), tests)))
        return sorted(found.to_pylist())

    def open_ledgers(self, look: int, shard: Shard) -> list[LedgerId]:
        """Return the ledgers of a shard for which a look requested another look, ascending."""
        parts = (shard.part_of(table.ids).tolist() for table in self._open_tables(look))
        return sorted(chain.from_iterable(parts))

    def asked_again(self, look: int, shard: Shard) -> Unchanged:
        """Return the ledgers of a shard of which this look demands lists unless it read other
        metadata, by the look before.
        """
        parts = (shard.part_of(table.asking).tolist() for table in self._open_tables(look - 1))
        return Unchanged(look, frozenset(chain.from_iterable(parts)))

    def _open_tables(self, look: int) -> list[_OpenLedgers]:
        """Return the open ledgers of each judging of a look.

        A look has a judging or more for each shard. Each is read once, and again if it was done
        again. Memory: 8 to 16 bytes an open ledger of the look.
        """
        sizes = self.run.file_sizes("steps")
        tables: dict[str, list[tuple[str, int]]] = {}
        for file in sorted(sizes):
            name = file.rpartition("/")[0]
            if name.startswith(steps_prefix(look)):
                tables.setdefault(name, []).append((file, sizes[file]))
        is_open, columns = pc.field("todo") == Todo.LOOK.value, ["ledger_id", "asks_next"]
        for name, files in tables.items():
            if name not in self._open or self._open[name].files != files:
                rows = self.run.read_table(name, STEPS, is_open, columns)
                asking = rows.filter(rows["asks_next"])
                ids = (np.sort(some["ledger_id"].to_numpy()) for some in (rows, asking))
                self._open[name] = _OpenLedgers(files, *ids)
        return [self._open[name] for name in tables]

    def listed_by(self, bookies: Iterable[BookieId], shard: Shard) -> list[LedgerId]:
        """Return the ledgers of a shard that one of these bookies listed at the first look,
        ascending.
        """
        is_list = (pc.field("look") == 1) & (pc.field("status") == AnswerStatus.HELD.value)
        theirs = pc.field("bookie_id").isin(sorted(bookies))
        return _distinct(self._read("evidence/answers", ANSWERS, shard, is_list & theirs))

    def retested_ledgers(self, shard: Shard) -> list[LedgerId]:
        """Return the ledgers of a shard of which more was read after the first look had settled
        them, ascending: on bookies in doubt, or because a scrub named entries.
        """
        is_more = pc.field("is_denser") | pc.field("is_named")
        read = _distinct(self._read("evidence/reads", READS, shard, is_more))
        return sorted(set(read).difference(self.open_ledgers(1, shard)))

    def _read(self, name: str, schema: pa.Schema, shard: Shard, keep: ds.Expression) -> pa.Table:
        """Return the ledger ids of the rows of a shard that `keep` selects, from its files."""
        columns = ["ledger_id"]
        if shard.is_all:
            return self.run.read_table(name, schema, keep, columns)
        return self.files.scan(name, schema, shard).table(columns, _is_within(shard) & keep)

    def ledgers_left(self, look: int, judging: int, todo: Todo) -> list[LedgerId]:
        """Return the ledgers that a judging left with that todo, ascending."""
        return sorted(self._ids(steps_name(look, judging), pc.field("todo") == todo.value))

    def wanted_reads(self, look: int, judging: int) -> pa.RecordBatch:
        """Return the WANTED rows of a judging: the reads it requested."""
        keep = pc.field("todo") == Todo.READS.value
        wanted = self.run.read_table(steps_name(look, judging), STEPS, keep, ["wanted"])["wanted"]
        rows = [row for cell in wanted.to_pylist() for row in cell]
        return pa.RecordBatch.from_pylist(rows, schema=WANTED)

    def _ids(self, name: str, keep: ds.Expression) -> list[LedgerId]:
        ids: list[LedgerId] = self.run.read_table(name, STEPS, keep, ["ledger_id"])[
            "ledger_id"
        ].to_pylist()
        return ids


def _distinct(rows: pa.Table) -> list[LedgerId]:
    """Return the different ids of a table of ledgers, ascending."""
    ids: list[LedgerId] = distinct_numbers(rows["ledger_id"].to_numpy()).tolist()
    return ids


def _is_within(shard: Shard) -> ds.Expression:
    """Return a filter for the rows of a shard's ledgers."""
    return (pc.field("ledger_id") >= shard.first) & (pc.field("ledger_id") <= shard.last)
