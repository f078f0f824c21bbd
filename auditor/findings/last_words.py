"""Read what each bookie last said of each ledger, from the stored answers, batch by batch.

Most ledgers have answers of one look only, and are only counted. Memory holds the answers on all
other ledgers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, distinct_numbers
from auditor.evidence.table_scan import TableScan
from auditor.model.availability import ANSWERED_READS, VALID_ANSWERS, AnswerStatus
from auditor.model.identity import BookieId
from auditor.model.verdict import Unknown

SPOKEN = ["bookie_id", "ledger_id", "look", "status"]
"""The columns of ANSWERS and READS that say which bookie said what of which ledger."""
UNHEARD = (
    AnswerStatus.SILENT,
    AnswerStatus.UNREGISTERED,
    AnswerStatus.REFUSED,
    AnswerStatus.FAILED,
    AnswerStatus.ADDRESS_UNKNOWN,
    AnswerStatus.AUDITOR_LIMITED,
)
"""Answers with which the bookie itself prevents judging a ledger."""
SILENCES = (Unknown.BOOKIE_SILENT, Unknown.BOOKIE_REFUSED, Unknown.ADDRESS_UNKNOWN)
"""Reasons that blame a bookie as a whole for what is unknown."""

_VALID = pa.array([status.value for status in VALID_ANSWERS])
_UNHEARD = pa.array([status.value for status in UNHEARD])
_ANSWERED = pa.array(sorted(ANSWERED_READS))
_NONE: Ids = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class LastWords:
    """Counts and ledgers from each bookie's last answers.

    `asked` counts the ledgers for which the last answer is valid. `unheard` has the ledgers that
    could not be judged because of the bookie.
    """

    asked: Mapping[BookieId, int]
    unheard: Mapping[BookieId, Ids]


def last_words(
    answers: Iterable[pa.RecordBatch],
    again: pa.Array,
    unjudged: pa.Array,
    probed: Mapping[BookieId, Ids],
) -> LastWords:
    """Return counts from each bookie's last answers. `answers` have the columns SPOKEN.

    `again`: ledgers with answers at a later look. `unjudged`: ledgers that some bookie's silence
    left unjudged. `probed`: by bookie that cannot list, the ledgers in which it answered a read.
    Costs one scan. Holds the answers on the ledgers in `again`, some 20 bytes each.
    """
    words = _Tally(unjudged, probed)
    kept: list[pa.RecordBatch] = []
    for batch in answers:
        about = batch.filter(pc.is_valid(batch["ledger_id"]))
        late = pc.is_in(about["ledger_id"], again)
        words.add(about.filter(pc.invert(late)))
        kept.append(about.filter(late))
    if kept:
        words.add(newest_words(pa.Table.from_batches(kept)))
    return words.result()


def unjudged_by_reason(verdicts: TableScan) -> dict[str, Ids]:
    """Return the ledgers that a bookie's silence left unjudged, by the reason in SILENCES."""
    found: dict[str, Ids] = {}
    for batch in verdicts.batches(["ledger_id", "unknowns"]):
        ids = batch["ledger_id"].take(pc.list_parent_indices(batch["unknowns"]))
        for reason, hit in by_word(batch["unknowns"].flatten(), ids):
            if reason in SILENCES:
                found[reason] = np.union1d(found.get(reason, _NONE), hit)
    return found


def probed_ledgers(
    reads: Iterable[pa.RecordBatch], unsupported: Iterable[BookieId]
) -> dict[BookieId, Ids]:
    """Return, by bookie that cannot list, the ledgers for which it answered a read.

    `reads` have the columns SPOKEN. Searches for entries that it should not hold count too, which
    makes a finding on the bookie less likely.
    """
    bookies = sorted(unsupported)
    found: dict[BookieId, Ids] = dict.fromkeys(bookies, _NONE)
    for batch in reads if bookies else ():
        mine = batch.filter(
            pc.and_(
                pc.is_in(batch["bookie_id"], pa.array(bookies)),
                pc.is_in(batch["status"], _ANSWERED),
            )
        )
        for bookie, ids in _by_bookie(mine):
            found[bookie] = np.union1d(found[bookie], ids)
    return found


def newest_words(rows: pa.Table) -> pa.Table:
    """Return the row of the newest look of each (bookie, ledger)."""
    grouped = rows.sort_by("look").group_by(["bookie_id", "ledger_id"], use_threads=False)
    return grouped.aggregate([("status", "last")]).rename_columns(
        ["bookie_id", "ledger_id", "status"]
    )


@dataclass(slots=True)
class _Tally:
    """Counts rows as they come. Each (bookie, ledger) must come once."""

    unjudged: pa.Array
    probed: Mapping[BookieId, Ids]
    asked: Counter[BookieId] = field(default_factory=Counter)
    listed: dict[BookieId, list[Ids]] = field(default_factory=lambda: defaultdict(list))
    """By probed bookie, the ledgers for which its last answer is valid."""
    unheard: dict[BookieId, list[Ids]] = field(default_factory=lambda: defaultdict(list))

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        valid = rows.filter(pc.is_in(rows["status"], _VALID))
        for count in pc.value_counts(valid["bookie_id"]).to_pylist():
            self.asked[count["values"]] += count["counts"]
        if self.probed:
            for bookie, ids in _by_bookie(
                valid.filter(pc.is_in(valid["bookie_id"], pa.array(list(self.probed))))
            ):
                self.listed[bookie].append(ids)
        unheard = rows.filter(
            pc.and_(pc.is_in(rows["status"], _UNHEARD), pc.is_in(rows["ledger_id"], self.unjudged))
        )
        for bookie, ids in _by_bookie(unheard):
            self.unheard[bookie].append(ids)

    def result(self) -> LastWords:
        read = {
            bookie: len(np.union1d(_join_ids(self.listed.get(bookie, [])), ids))
            for bookie, ids in self.probed.items()
        }
        unheard = {
            bookie: distinct_numbers(_join_ids(parts)) for bookie, parts in self.unheard.items()
        }
        return LastWords({**self.asked, **{bookie: n for bookie, n in read.items() if n}}, unheard)


def _by_bookie(rows: pa.RecordBatch | pa.Table) -> Iterator[tuple[BookieId, Ids]]:
    """Yield the ledgers of each bookie's rows, in order of bookie id."""
    return by_word(rows["bookie_id"], rows["ledger_id"])


def by_word(
    words: pa.Array | pa.ChunkedArray, ledger_ids: pa.Array | pa.ChunkedArray
) -> Iterator[tuple[str, Ids]]:
    """Yield each distinct word with its ledgers, in order of the words, from two parallel columns.

    Costs a sort of small numbers.
    """
    chunks = words.chunks if isinstance(words, pa.ChunkedArray) else [words]
    encoded = pa.concat_arrays([pa.array([], pa.string()), *chunks]).dictionary_encode()
    names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)
    ids: Ids = np.asarray(ledger_ids, dtype=np.int64)[np.argsort(codes, kind="stable")]
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    for code in sorted(range(len(names)), key=names.__getitem__):
        yield names[code], ids[ends[code - 1] if code else 0 : ends[code]]


def _join_ids(parts: list[Ids]) -> Ids:
    return np.concatenate(parts) if parts else _NONE
