"""Find healthy ledgers by counting the answers about them, in columns of a whole shard.

Almost every answer was as expected when it came (docs/decisions/0062). Counting finds each healthy
ledger that `auditor.judging.healthy_ledgers` finds in gathered evidence, and gathers nothing. A
ledger is healthy by the counts if it is clear, and this law holds:

- as many answers came as its ensemble has bookies, all of them at the first look and as expected,
  and nothing else was said with them;
- the XOR of the hashes of the bookies that answered equals the XOR of those of the ensemble;
- each read of its entries brought a promised copy, and none was of the last entry.

An answer that was lost lowers the count, and one that was doubled raises it. If one is lost and
another doubled, the XOR differs, except with a probability of 2^-64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import AccountingError
from auditor.evidence.ids import Ids
from auditor.judging.clear_columns import ClearColumns, Numbers
from auditor.judging.healthy_ledgers import all_true
from auditor.model.availability import VALID_ANSWERS, ReadStatus
from auditor.model.identity import BookieId
from auditor.model.verdict import COPIES_MAX

COUNTED = pa.schema(
    [("ledger_id", pa.int64()), ("copies", pa.int64()), ("copies_read", pa.int64())]
)
"""A ledger of a shard, and whether it is healthy by the counts of its answers. Key: ledger_id.

`copies` is how many copies it promises, and `copies_read` how many of them were read. Both are null
unless it is healthy."""
ANSWER_COLUMNS = [
    *("bookie_id", "ledger_id", "look", "status", "non_canonical", "missing_logs"),
    *("read_unlisted", "is_as_expected"),
]
"""The columns of ANSWERS that say whether an answer is as expected and says nothing else."""
SPOT_COLUMNS = ["ledger_id", "bookie_id", "entry_id", "status"]
"""The columns of READS that say whether a copy was read."""


class AnswerColumns(NamedTuple):
    """Answers about ledgers, one in each place of the arrays.

    `bookies` are the bookies of all, and `numbers` says which of them answered. `is_expected`: the
    answer is as expected. That of an unknown bookie never is.
    """

    bookies: list[BookieId]
    numbers: npt.NDArray[np.int32]
    ledger_ids: Ids
    is_expected: npt.NDArray[np.bool_]


def answer_columns(batches: Iterable[pa.RecordBatch]) -> Iterator[AnswerColumns]:
    """Yield the answers in batches of ANSWERS rows. Greetings are left out.

    The batches have the ANSWER_COLUMNS.
    """
    for batch in batches:
        answers = batch.filter(pc.is_valid(batch["ledger_id"]))
        names = answers["bookie_id"].fill_null("").dictionary_encode()
        is_expected = all_true(
            answers["is_as_expected"],
            pc.equal(answers["look"], 1),
            pc.is_in(answers["status"], _VALID),
            pc.invert(answers["non_canonical"]),
            pc.is_null(answers["missing_logs"]),
            pc.is_null(answers["read_unlisted"]),
            pc.is_valid(answers["bookie_id"]),
        )
        yield AnswerColumns(
            names.dictionary.to_pylist(),
            names.indices.to_numpy(),
            answers["ledger_id"].to_numpy(),
            is_expected.to_numpy(zero_copy_only=False),
        )


_VALID = pa.array(sorted(status.value for status in VALID_ANSWERS))


def count_answers(
    ids: Ids,
    ledgers: ClearColumns,
    answers: Iterable[AnswerColumns],
    reads: Iterable[pa.RecordBatch],
) -> pa.RecordBatch:
    """Return a COUNTED row for each ledger that the first look read, by ascending id.

    `ids` are these ledgers, ascending, and `ledgers` the clear ones among them. `reads` have the
    SPOT_COLUMNS. Answers and reads of other ledgers do not count. Raises AccountingError if a
    ledger was read twice. Costs for each answer a search among the ledgers.
    """
    twice = ids[1:][ids[1:] == ids[:-1]]
    if len(twice):
        raise AccountingError(f"ledger {twice[0]} was read twice at the first look")
    is_healthy = _has_all_answers(ledgers, answers)
    is_healthy &= ledgers.last < COPIES_MAX // ledgers.quorums
    read = np.zeros(len(ledgers.ids), np.int64)
    for batch in reads:
        rows, is_promised = _promised_reads(ledgers, batch)
        is_healthy[rows[~is_promised]] = False
        np.add.at(read, rows, 1)
    at = np.searchsorted(ids, ledgers.ids[is_healthy])
    is_null = np.ones(len(ids), np.bool_)
    is_null[at] = False
    columns = [ids]
    for values in ((ledgers.last + 1) * ledgers.quorums, read):
        cells = np.zeros(len(ids), np.int64)
        cells[at] = values[is_healthy]
        columns.append(pa.array(cells, mask=is_null))
    return pa.RecordBatch.from_arrays([pa.array(columns[0]), *columns[1:]], schema=COUNTED)


def _has_all_answers(
    ledgers: ClearColumns, answers: Iterable[AnswerColumns]
) -> npt.NDArray[np.bool_]:
    """Return for which ledgers each bookie of the ensemble answered once as expected, and nobody
    gave another answer.

    Costs a hash for each bookie of a batch, and some operations on whole columns.
    """
    expected, others = (np.zeros(len(ledgers.ids), np.int64) for _ in range(2))
    answered_hashes = np.zeros(len(ledgers.ids), np.uint64)
    for batch in answers:
        hashes = np.array([_hash_of(bookie) for bookie in batch.bookies], np.uint64)
        rows = ledgers.rows_of(batch.ledger_ids)
        is_expected = batch.is_expected & (rows >= 0)
        np.add.at(expected, rows[is_expected], 1)
        np.bitwise_xor.at(answered_hashes, rows[is_expected], hashes[batch.numbers[is_expected]])
        np.add.at(others, rows[~batch.is_expected & (rows >= 0)], 1)
    found: npt.NDArray[np.bool_] = (expected == ledgers.sizes) & (others == 0)
    found &= answered_hashes == _ensemble_hashes(ledgers)
    return found


def _ensemble_hashes(ledgers: ClearColumns) -> npt.NDArray[np.uint64]:
    if not len(ledgers.ids):
        return np.zeros(0, np.uint64)
    hashes = np.array([_hash_of(bookie) for bookie in ledgers.bookies], np.uint64)
    found: npt.NDArray[np.uint64] = np.bitwise_xor.reduceat(
        hashes[ledgers.ensembles], ledgers.starts
    )
    return found


def _hash_of(bookie: BookieId) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(bookie.encode(), digest_size=8).digest()))


def _promised_reads(
    ledgers: ClearColumns, reads: pa.RecordBatch
) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return the row number of the ledger of each read of a clear ledger, and whether the read
    brought a promised copy.

    The last entry does not count: its header may contradict the ledger's length.
    """
    rows = ledgers.rows_of(reads["ledger_id"].fill_null(-1).to_numpy(zero_copy_only=False))
    is_clear = rows >= 0
    reads, rows = reads.filter(pa.array(is_clear)), rows[is_clear]
    was_sent = pc.fill_null(pc.equal(reads["status"], ReadStatus.PRESENT.value), False)
    entries = reads["entry_id"].fill_null(-1).to_numpy(zero_copy_only=False)
    numbers = pc.index_in(reads["bookie_id"], pa.array(ledgers.bookies, pa.string()))
    positions = ledgers.positions_of(
        rows, numbers.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    is_promised = was_sent.to_numpy(zero_copy_only=False) & (positions >= 0)
    is_promised &= (entries >= 0) & (entries < ledgers.last[rows])
    is_promised &= (positions - entries) % ledgers.sizes[rows] < ledgers.quorums[rows]
    return rows, is_promised
