"""Questions and answers about clear ledgers in blocks: a row for thousands of them.

What bookies should list of a clear ledger follows from its metadata (docs/decisions/0062). This
process makes the questions about the clear ledgers of a shard in columns. The executor, which is
Spark or this process, moves a row for each block to the bookie's lane, and a row for the answers
that came as expected back. They are unpacked here before they become evidence, where each answer
has a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.bookie.list_blocks import ExpectedAnswers, ListBlock
from auditor.evidence.rows import RepeatedRow, expected_answer_row, row_groups
from auditor.evidence.schemas import ANSWERS
from auditor.judging.clear_columns import ClearColumns, Numbers
from auditor.model.availability import Answer, AnswerStatus
from auditor.model.evidence import Terms
from auditor.model.identity import BookieId
from auditor.second_checker.agreement import are_in_sample

BLOCK_QUESTIONS_MAX = 10_000
"""Questions in one block: 170 kilobytes, a row that Spark moves at once."""
ROWS_AT_ONCE = 131_072
"""Answers of blocks that are unpacked into one batch of rows."""

LIST_BLOCK = pa.struct(
    [
        ("ensemble_size", pa.int32()),
        ("write_quorum", pa.int32()),
        ("position", pa.int32()),
        ("ledger_ids", pa.binary()),
        ("last_entries", pa.binary()),
        ("is_kept", pa.binary()),
    ]
)
"""A `ListBlock`. Numbers are packed as int64, little-endian, and `is_kept` as a byte each."""
ANSWERED_BLOCK = pa.struct(
    [("ledger_ids", pa.binary()), ("asked_at_ms", pa.binary()), ("received_bytes", pa.binary())]
)
"""`ExpectedAnswers` of one bookie, packed in the same way."""

_NUMBER = np.dtype("<i8")


class PackedQuestions(TypedDict):
    """A cell of a LIST_BLOCK column."""

    ensemble_size: int
    write_quorum: int
    position: int
    ledger_ids: bytes
    last_entries: bytes
    is_kept: bytes


class PackedAnswers(TypedDict):
    """A cell of an ANSWERED_BLOCK column."""

    ledger_ids: bytes
    asked_at_ms: bytes
    received_bytes: bytes


def pack_questions(block: ListBlock) -> PackedQuestions:
    """Return the cell of a LIST_BLOCK column."""
    return {
        "ensemble_size": block.ensemble_size,
        "write_quorum": block.write_quorum,
        "position": block.position,
        "ledger_ids": _pack(block.ledger_ids),
        "last_entries": _pack(block.last_entries),
        "is_kept": block.is_kept,
    }


def unpack_questions(cell: PackedQuestions) -> ListBlock:
    """Return the block of a cell of a LIST_BLOCK column."""
    return ListBlock(
        _unpack(cell["ledger_ids"]),
        _unpack(cell["last_entries"]),
        cell["ensemble_size"],
        cell["write_quorum"],
        cell["position"],
        cell["is_kept"],
    )


def pack_answers(answers: ExpectedAnswers) -> PackedAnswers:
    """Return the cell of an ANSWERED_BLOCK column."""
    return {
        "ledger_ids": _pack(answers.ledger_ids),
        "asked_at_ms": _pack(answers.asked_at_ms),
        "received_bytes": _pack(answers.received_bytes),
    }


def _pack(numbers: Numbers) -> bytes:
    return numbers.astype(_NUMBER).tobytes()


def _unpack(data: bytes) -> Numbers:
    return np.frombuffer(data, _NUMBER)


def list_blocks(clear: ClearColumns, terms: Terms) -> Iterator[tuple[BookieId, ListBlock]]:
    """Yield the questions of the first look about clear ledgers, bookie by bookie.

    Each has at most BLOCK_QUESTIONS_MAX questions, by ascending ledger id. The lists of the sample
    that both checkers judge are kept. Costs a sort of the questions.
    """
    if not len(clear.ids):
        return
    is_kept = are_in_sample(clear.ids, terms)
    owners = np.repeat(np.arange(len(clear.ids)), clear.sizes)
    positions = np.arange(len(owners)) - clear.starts[owners]
    positions[(clear.quorums == clear.sizes)[owners]] = 0  # each should hold every entry
    sizes, quorums = clear.sizes[owners], clear.quorums[owners]
    base = int(clear.sizes.max()) + 1
    shapes = ((clear.ensembles.astype(np.int64) * base + sizes) * base + quorums) * base + positions
    order = np.argsort(shapes, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(shapes[order])) + 1, len(order)).tolist()
    for start, end in pairwise([0, *ends]):
        one = order[start]
        bookie = int(clear.ensembles[one])
        size, quorum, position = int(sizes[one]), int(quorums[one]), int(positions[one])
        for first in range(start, end, BLOCK_QUESTIONS_MAX):
            mine = owners[order[first : min(end, first + BLOCK_QUESTIONS_MAX)]]
            yield (
                clear.bookies[bookie],
                ListBlock(
                    clear.ids[mine],
                    clear.last[mine],
                    size,
                    quorum,
                    position,
                    is_kept[mine].tobytes(),
                ),
            )


class _Answered(NamedTuple):
    """The answers in a block, in columns."""

    bookie: BookieId
    look: int
    ledger_ids: Numbers
    asked_at_ms: Numbers
    received_bytes: Numbers


def unpack_answers(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield rows of `schema`, ANSWERS and more columns, from batches that have `block` besides.

    Rows without a block are first, gathered in batches that are worth a row group. Each answer of a
    block becomes a row; these come last, by ascending ledger id. Memory: 50 bytes for each answer
    in blocks.
    """
    blocks: list[_Answered] = []

    def others() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            is_block = pc.is_valid(batch["block"])
            yield batch.filter(pc.invert(is_block)).select(schema.names)
            blocks.extend(_answered(batch.filter(is_block)))

    yield from row_groups(others())
    yield from _unpacked(blocks, schema)


def _answered(packed: pa.RecordBatch) -> Iterator[_Answered]:
    """Yield the blocks of rows that all have one. Nothing is copied."""
    names = ("ledger_ids", "asked_at_ms", "received_bytes")
    columns = [_cells_of(pc.struct_field(packed["block"], name)) for name in names]
    heads = zip(packed["bookie_id"].to_pylist(), packed["look"].to_pylist(), strict=True)
    for head, numbers in zip(heads, zip(*columns, strict=True), strict=True):
        assert len({len(column) for column in numbers}) == 1, "a block of answers is incomplete"
        yield _Answered(*head, *numbers)


def _cells_of(column: pa.BinaryArray) -> Iterator[Numbers]:
    """Yield the packed numbers of each cell, which is not null."""
    data = column.buffers()[2]
    for cell in pairwise(_offsets_of(column)):
        start, end = cell
        yield np.frombuffer(data, _NUMBER, (end - start) // _NUMBER.itemsize, start)


def _offsets_of(column: pa.BinaryArray) -> list[int]:
    """Return where the bytes of each cell begin in the column's buffer, and where the last ends."""
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset)
    found: list[int] = offsets.tolist()
    return found


def _unpacked(blocks: Sequence[_Answered], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if not blocks:
        return
    (look,) = {block.look for block in blocks}
    bookies = sorted({block.bookie for block in blocks})
    number_of = {bookie: number for number, bookie in enumerate(bookies)}
    ids = np.concatenate([block.ledger_ids for block in blocks])
    asked_at_ms = np.concatenate([block.asked_at_ms for block in blocks])
    received = np.concatenate([block.received_bytes for block in blocks])
    numbers = np.array([number_of[block.bookie] for block in blocks], np.int32)
    of_bookie = np.repeat(numbers, [len(block.ledger_ids) for block in blocks])
    order = np.lexsort((of_bookie, ids))
    answer = Answer("", 0, look, 0, AnswerStatus.HELD, requests=1)
    row = expected_answer_row(answer, is_kept=False)
    row += (None,) * (len(schema) - len(ANSWERS))
    repeated = RepeatedRow(schema, row, min(ROWS_AT_ONCE, len(order)))
    names = pa.array(bookies, pa.string())
    for start in range(0, len(order), ROWS_AT_ONCE):
        mine: npt.NDArray[np.intp] = order[start : start + ROWS_AT_ONCE]
        columns = {
            "bookie_id": names.take(pa.array(of_bookie[mine])),
            "ledger_id": ids[mine],
            "asked_at_ms": asked_at_ms[mine],
            "received_bytes": received[mine],
        }
        yield repeated.batch(columns)
