"""Find healthy ledgers in the columns of the evidence, before any ledger becomes a Python value.

Almost every ledger is healthy, and the lists that its bookies should give are known: the canonical
form of what striping puts on each. Most lists were compared when they came. A healthy ledger costs
one comparison for each bookie.

A ledger is found healthy when all of this is certain:

1. No placement policy is set. The ledger was looked at once, at the first look
   (`healthy_ledgers`).
2. Its metadata was read. It is closed and unmarked, has entries, one segment, and quorums that make
   sense (`is_clear`).
3. The segment begins at entry 0, and names as many bookies as the ensemble size, each once
   (`clear_ledgers`). They all answered, and nobody else; each gave the list that it should give,
   which is empty for one that should hold no entry (`_is_as_expected`).
4. Nothing else was said with these lists (`_lists_given`).
5. Each read of its entries brought the entry, from a bookie that should hold it, and none was of
   the last entry (`_count_spots`).

For such a ledger `auditor.judging.settle` returns `healthy_verdict`, and nothing is left to do.
`settle` is the reference: it judges every other ledger, and a sample of the healthy ones
(docs/decisions/0040).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from auditor.first_checker.placement import has_no_rule
from auditor.first_checker.schedule import expected_groups
from auditor.model.availability import AnswerStatus, ReadStatus
from auditor.model.evidence import Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerState, RecordStatus
from auditor.model.verdict import CopyCounts, Standing, Verdict

_NO_LIST = b"?"
"""Stands for a list that does not count. It equals no list: those have multiples of 24 bytes."""
_AS_EXPECTED = b"as expected"
"""Stands for a list that was as expected when it came. It equals no list."""
_FIRST_LOOK = 1


class Healthy(NamedTuple):
    """How many copies a healthy ledger promises, and how many of them were read."""

    copies: int
    read: int


def healthy_verdict(ledger_id: LedgerId, found: Healthy) -> Verdict:
    """Return the verdict on a healthy ledger: all copies that it promises are listed or read."""
    copies = CopyCounts(found.copies, found.copies - found.read, found.read, 0)
    return Verdict(ledger_id, Standing.SOUND, copies=copies)


def healthy_ledgers(batch: pa.RecordBatch, terms: Terms) -> dict[int, Healthy]:
    """Return the row numbers of the healthy ledgers in a batch of SEEN rows, each with its copies.

    Costs some operations on whole columns, and one comparison for each bookie of a clear ledger.
    """
    if not has_no_rule(terms.placement):
        return {}
    clear = clear_ledgers(batch)
    rows = batch.take(pa.array(list(clear), pa.int64()))
    seen = zip(
        clear.items(), _lists_given(rows["answers"]), _spots_made(rows["reads"]), strict=True
    )
    found = {}
    for (number, ledger), lists, made in seen:
        read = _count_spots(ledger, made) if made else 0
        if read is not None and _is_as_expected(ledger, lists):
            found[number] = Healthy(ledger.copies, read)
    return found


class ClearLedger(NamedTuple):
    """A closed and unmarked ledger of one segment, which begins at entry 0.

    Its ensemble names `ensemble_size` bookies, each once.
    """

    last: EntryId
    ensemble_size: int
    write_quorum: int
    ensemble: Sequence[BookieId]

    @property
    def copies(self) -> int:
        """How many copies it promises."""
        return (self.last + 1) * self.write_quorum


def clear_ledgers(batch: pa.RecordBatch) -> dict[int, ClearLedger]:
    """Return the row numbers of the clear ledgers in a batch of SEEN rows, ascending.

    They were looked at once, and their metadata was read. Costs some operations on whole columns.
    """
    seen_once = all_true(pc.equal(pc.list_value_length(batch["records"]), 1))
    numbers, records = pc.indices_nonzero(seen_once), batch["records"].filter(seen_once).flatten()
    clear = is_clear(records)
    numbers, records = numbers.filter(clear).to_pylist(), records.filter(clear)
    segments = pc.struct_field(records, "segments").flatten()
    first = pc.struct_field(segments, "first_entry_id").to_pylist()
    last, size, quorum = (
        pc.struct_field(records, name).to_pylist()
        for name in ("last_entry_id", "ensemble_size", "write_quorum")
    )
    ensembles = _cells(pc.struct_field(segments, "ensemble"))
    return {
        number: ClearLedger(last_entry, e, w, ensemble)
        for number, first_entry, last_entry, e, w, ensemble in zip(
            numbers, first, last, size, quorum, ensembles, strict=True
        )
        if first_entry == 0 and len(set(ensemble)) == len(ensemble) == e
    }


def is_clear(records: pa.StructArray) -> pa.BooleanArray:
    """Return which records are clear. They have the CLEAR_COLUMNS.

    A clear ledger is closed and unmarked, and has entries, one segment and sensible quorums.
    """
    cells = {name: pc.struct_field(records, name) for name in records.type.names}
    return all_true(
        pc.equal(cells["look"], _FIRST_LOOK),
        pc.equal(cells["status"], RecordStatus.FOUND.value),
        pc.equal(cells["state"], LedgerState.CLOSED.value),
        pc.is_null(cells["mark"]),
        pc.is_null(cells["malformed"]),
        pc.is_valid(cells["format_version"]),
        pc.greater_equal(cells["last_entry_id"], 0),
        pc.equal(pc.list_value_length(cells["segments"]), 1),
        pc.greater_equal(cells["ack_quorum"], 1),
        pc.greater_equal(cells["write_quorum"], cells["ack_quorum"]),
        pc.greater_equal(cells["ensemble_size"], cells["write_quorum"]),
    )


def _is_as_expected(ledger: ClearLedger, lists: Mapping[BookieId, bytes]) -> bool:
    """Return whether each bookie of the ensemble listed what it should hold.

    No other bookie may have given a list.
    """
    last, size, quorum, ensemble = ledger
    expected = {
        bookie: (
            _AS_EXPECTED
            if lists.get(bookie) == _AS_EXPECTED
            else expected_groups(0, last, position, size, quorum)
        )
        for position, bookie in enumerate(ensemble)
    }
    return lists == expected


_NOT_SENT = -1
"""Stands for the entry of a read that did not bring it. No ledger has this entry."""
Spots = Sequence[tuple[BookieId, EntryId]]


def _spots_made(reads: pa.ListArray) -> Iterator[Spots]:
    """Yield the reads of each ledger: their bookies, and their entries or _NOT_SENT."""
    rows = reads.flatten()
    was_sent = pc.equal(pc.struct_field(rows, "status"), ReadStatus.PRESENT.value)
    entries = pc.if_else(was_sent, pc.struct_field(rows, "entry_id"), _NOT_SENT).to_pylist()
    made = list(zip(pc.struct_field(rows, "bookie_id").to_pylist(), entries, strict=True))
    for start, end in pairwise(_cell_bounds(reads)):
        yield made[start:end]


def _count_spots(ledger: ClearLedger, made: Spots) -> int | None:
    """Return how many copies were read; None unless each read brought a promised copy.

    Also None if the last entry was read: its header may contradict the ledger's length.
    """
    last, size, quorum, ensemble = ledger
    for bookie, entry in made:
        if not 0 <= entry < last or bookie not in ensemble:
            return None
        if (ensemble.index(bookie) - entry) % size >= quorum:
            return None
    return len(made)


def _lists_given(answers: pa.ListArray) -> Iterator[dict[BookieId, bytes]]:
    """Yield the lists of each ledger, by bookie.

    b"" stands for a bookie without an entry, whether it knows the ledger or not. _AS_EXPECTED
    stands for a list that was as expected when it came, whether it is stored or not: where it is,
    the ledger is in the sample, and both checkers judge what is stored. _NO_LIST stands for an
    answer without a list, or with more than a list. If a bookie answered twice on a ledger, no list
    of that ledger counts.
    """
    rows = answers.flatten()
    status = pc.struct_field(rows, "status")
    is_plain = all_true(
        pc.equal(pc.struct_field(rows, "look"), _FIRST_LOOK),
        pc.invert(pc.struct_field(rows, "non_canonical")),
        pc.is_null(pc.struct_field(rows, "missing_logs")),
        pc.is_null(pc.struct_field(rows, "read_unlisted")),
    )
    is_stored = pc.is_valid(pc.struct_field(rows, "groups"))
    listed = all_true(is_plain, pc.equal(status, AnswerStatus.HELD.value))
    unknown = all_true(is_plain, is_stored, pc.equal(status, AnswerStatus.NO_SUCH_LEDGER.value))
    compared = all_true(pc.or_(listed, unknown), pc.struct_field(rows, "is_as_expected"))
    of_others = pc.if_else(compared, _AS_EXPECTED, pc.if_else(unknown, b"", _NO_LIST))
    is_list = all_true(listed, is_stored, pc.invert(compared))
    groups = pc.if_else(is_list, pc.struct_field(rows, "groups"), of_others).to_pylist()
    bookies = pc.struct_field(rows, "bookie_id").to_pylist()
    for start, end in pairwise(_cell_bounds(answers)):
        lists = dict(zip(bookies[start:end], groups[start:end], strict=True))
        yield lists if len(lists) == end - start else {}


def _cells(column: pa.ListArray) -> Iterator[list[Any]]:
    """Yield each cell of a column of lists."""
    values = column.flatten().to_pylist()
    for start, end in pairwise(_cell_bounds(column)):
        yield values[start:end]


def _cell_bounds(column: pa.ListArray) -> list[int]:
    """Return 0, and the end of each cell among the flattened values."""
    return [0, *accumulate(pc.fill_null(pc.list_value_length(column), 0).to_pylist())]


def all_true(*conditions: pa.BooleanArray) -> pa.BooleanArray:
    """Return a mask: true where all conditions are true. Null is not true."""
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = pc.and_(whole, condition)
    return pc.fill_null(whole, False)
