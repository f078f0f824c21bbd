"""Count verdicts and marks, and name the ledgers that were not judged.

Every listed ledger has exactly one standing; otherwise there is no report. Counted are copies that
were verified, and marks of under-replication by age, with how many of them are stale (contract
8.3). Named are ledgers that could not be judged, or not in full, by reason, and those that a fault
of the auditor left unjudged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import AccountingError
from auditor.evidence.ids import Ids, Shard
from auditor.evidence.portions import LedgerTable, id_ranges
from auditor.evidence.table_scan import TableScan
from auditor.model.summary import LedgerDetail, MarkCounts, UnjudgedCounts
from auditor.model.verdict import JUDGED, CopyCounts, Exempt, Standing, Unknown

LEDGERS_NAMED_MAX = 5
"""At most this many ledgers are named in an accounting error."""


ACCOUNTED_AT_ONCE = 1_000_000
"""Ledgers whose ids are in memory at a time: some 40 MB with their copies, however many there are.
Files with ids of several ranges are read once for each."""


def account(listed: TableScan, judged: TableScan) -> int:
    """Return the number of ledgers if exactly those of `listed` are judged, each once.

    Both have the column `ledger_id`. Otherwise raises AccountingError with the ids of some of the
    ledgers. Costs two scans of the listing and one of the verdicts, and a sort of both.
    """
    tables = [LedgerTable.of(listed), LedgerTable.of(judged)]
    wrong = {what: (0, np.empty(0, np.int64)) for what in _WRONG}
    read = [0, 0]
    for shard in _ranges_of(listed):
        columns = [one.table(["ledger_id"], shard)["ledger_id"] for one in tables]
        read = [before + len(column) for before, column in zip(read, columns, strict=True)]
        for what, found in _wrong_ids(*columns):
            count, some = wrong[what]
            named = np.concatenate([some, found[:LEDGERS_NAMED_MAX]])[:LEDGERS_NAMED_MAX]
            wrong[what] = count + len(found), named
    for what, (count, named) in wrong.items():
        if count:
            raise _accounting_error(f"{count} {what} (such as {', '.join(map(str, named))})")
    if read != (rows := [listed.count(), judged.count()]):
        raise _accounting_error(f"{read} ids were found in {rows} rows of listing and verdicts")
    return read[0]


_WRONG = (
    "listed more than once",
    "judged more than once",
    "listed and never judged",
    "judged and never listed",
)


def _wrong_ids(listed: pa.ChunkedArray, judged: pa.ChunkedArray) -> Iterator[tuple[str, Ids]]:
    """Yield what is wrong with some of these ledgers, as in `_WRONG`, with all of them."""
    ids, rows = (np.sort(column.to_numpy()) for column in (listed, judged))
    if np.array_equal(ids, rows) and not (ids[1:] == ids[:-1]).any():
        return
    ids, id_counts = np.unique(ids, return_counts=True)
    rows, row_counts = np.unique(rows, return_counts=True)
    found = (
        ids[id_counts > 1],
        rows[row_counts > 1],
        np.setdiff1d(ids, rows, assume_unique=True),
        np.setdiff1d(rows, ids, assume_unique=True),
    )
    yield from zip(_WRONG, found, strict=True)


def _accounting_error(what: str) -> AccountingError:
    return AccountingError(
        f"the ledgers do not add up: {what}; no counts are published. This is a fault of the"
        " auditor: please report it with the run's directory"
    )


def _ranges_of(ids: TableScan) -> list[Shard]:
    """Return ranges that cover all numbers, each with about ACCOUNTED_AT_ONCE of the ids."""
    ranges = id_ranges(ids, ACCOUNTED_AT_ONCE)
    ranges[0] = replace(ranges[0], first=_ANY_NUMBER[0])
    ranges[-1] = replace(ranges[-1], last=_ANY_NUMBER[1])
    return ranges


_ANY_NUMBER = (-(2**63), 2**63 - 1)
"""A fault of the auditor may write an id that no ledger has."""


_JUDGED = pa.array([standing.word for standing in JUDGED])
_WIDE = pa.decimal128(38, 0)
"""The type of sums of copies that may exceed 2^63: metadata may claim any number."""


def copies_of_verdicts(verdicts: TableScan) -> CopyCounts:
    """Return the copies of the judged rows of VERDICTS that promise any copy."""
    names = ("copies_expected", "copies_listed", "copies_read", "copies_assumed")
    totals = dict.fromkeys(names, 0)
    for batch in verdicts.batches(names, pc.field("standing").isin(_JUDGED)):
        for name in names:
            totals[name] += _total(batch[name])
    return CopyCounts(*totals.values())


def _total(values: pa.Array) -> int:
    low, high = (bound.as_py() or 0 for bound in pc.min_max(values).values())
    is_small = max(-low, high) * len(values) < 2**63
    return int(pc.sum(values if is_small else values.cast(_WIDE)).as_py() or 0)


MARK_STATES = ("total", "within_grace", "beyond_grace", "stale", "without_ledger")
"""The counts of marks. `within_grace` and `beyond_grace` add up to `total`; the others do not."""
_HOUR_MS = 3_600_000
AGES_MS = {"under_1h": _HOUR_MS, "under_1d": 24 * _HOUR_MS, "under_1w": 7 * 24 * _HOUR_MS}
"""Age classes and their exclusive upper bounds. A mark counts in the first class that it fits."""
OLDER = "older"


class UnlistedMark(NamedTuple):
    """A mark whose ledger was not listed.

    `has_metadata` is as it was read last, or None if unknown.
    """

    age_ms: int
    has_metadata: bool | None


def marks_of(
    verdicts: TableScan, unlisted: Sequence[UnlistedMark], grace_ms: int
) -> tuple[MarkCounts, dict[str, int]]:
    """Return the marks by their state and by their age. `verdicts` has the schema VERDICTS."""
    listed = verdicts.table(["mark_age_ms"], _IS_MARKED)["mark_age_ms"].to_numpy()
    ages = np.concatenate([listed, np.array([mark.age_ms for mark in unlisted], np.int64)])
    beyond = int((ages > grace_ms).sum())
    gone = verdicts.count(_IS_GONE & _IS_MARKED)
    marks = MarkCounts(
        total=len(ages),
        within_grace=len(ages) - beyond,
        beyond_grace=beyond,
        stale=len(stale_ledgers(verdicts)),
        without_ledger=gone + sum(mark.has_metadata is False for mark in unlisted),
    )
    return marks, _by_age(ages)


def stale_ledgers(verdicts: TableScan) -> Ids:
    """Return the marked ledgers whose copies are all where the metadata says, sorted."""
    ids: Ids = np.sort(
        verdicts.table(["ledger_id"], pc.field("is_mark_stale"))["ledger_id"].to_numpy()
    )
    return ids


def oldest_mark_s(verdicts: TableScan) -> float:
    """Return the age in seconds of the oldest mark of a ledger with metadata; 0 without marks."""
    oldest: int | None = pc.max(
        verdicts.table(["mark_age_ms"], ~_IS_GONE & _IS_MARKED)["mark_age_ms"]
    ).as_py()
    return 0.0 if oldest is None else float(oldest / 1000)


_IS_MARKED = pc.is_valid(pc.field("mark_age_ms"))
_IS_GONE = pc.coalesce(pc.field("exempt"), pc.scalar("")) == Exempt.DELETED.value
"""Selects the rows of VERDICTS of ledgers that were listed but no longer have metadata."""


def _by_age(ages: Ids) -> dict[str, int]:
    below = [0, *(int((ages < end).sum()) for end in AGES_MS.values()), len(ages)]
    return {name: below[place + 1] - below[place] for place, name in enumerate((*AGES_MS, OLDER))}


POISONED_NAMED_MAX = 10
"""At most this many ledgers are named in the summary. The verdicts have all of them."""
DETAIL_MAX = 1_000
"""At most this many characters of a ledger's detail are in the summary."""

HAS_DETAIL = pc.field("detail") != ""
"""Selects the rows of VERDICTS with a detail: all ledgers that were set aside, and few others."""


def poisoned_ledgers(verdicts: pa.Table) -> list[tuple[int, str]]:
    """Return the ledgers that were set aside as poison, each with the reason, sorted by id."""
    return _ledgers_set_aside(verdicts, Unknown.POISON)


def disputed_ledgers(verdicts: pa.Table) -> list[tuple[int, str]]:
    """Return the ledgers on which the checkers differ, each with what both say, sorted by id."""
    return _ledgers_set_aside(verdicts, Unknown.CHECKERS_DISAGREE)


def name_set_aside(ledgers: Sequence[tuple[int, str]]) -> tuple[LedgerDetail, ...]:
    """Return the first POISONED_NAMED_MAX of these ledgers with their details."""
    return tuple(
        LedgerDetail(ledger_id, detail[:DETAIL_MAX])
        for ledger_id, detail in ledgers[:POISONED_NAMED_MAX]
    )


def _ledgers_set_aside(verdicts: pa.Table, why: Unknown) -> list[tuple[int, str]]:
    rows = verdicts.filter(HAS_DETAIL).select(["ledger_id", "unknowns", "detail"]).to_pylist()
    return sorted((row["ledger_id"], row["detail"]) for row in rows if why.value in row["unknowns"])


EXAMPLES_MAX = 3
"""At most this many ledgers are named in the summary for each reason; the files have all."""
FILES = "unjudged/REASON.txt"
"""The file of a reason, below the run's directory. Its name is the reason's."""


@dataclass(slots=True)
class Unjudged:
    """The ledgers that have a reason to be unknown.

    `by_reason` has their ids, sorted. `ledgers` counts each ledger once, `in_part` those that have
    another standing than indeterminate, `several_reasons` those that have more than one reason.
    """

    by_reason: dict[Unknown, Ids] = field(default_factory=dict)
    ledgers: int = 0
    in_part: int = 0
    several_reasons: int = 0

    @property
    def counts(self) -> UnjudgedCounts:
        """The numbers, and the first ledgers of each reason."""
        some = {
            reason.value: tuple(ids[:EXAMPLES_MAX].tolist())
            for reason, ids in self.by_reason.items()
        }
        return UnjudgedCounts(self.ledgers, self.in_part, self.several_reasons, some)

    @property
    def files(self) -> dict[str, Ids]:
        """The file of each reason, with one id a line."""
        return {
            FILES.replace("REASON", reason.value): ids for reason, ids in self.by_reason.items()
        }


def unjudged_ledgers(verdicts: TableScan) -> Unjudged:
    """Return the ledgers with a reason to be unknown. Holds one id for each such ledger and reason.

    `verdicts` has the schema VERDICTS.
    """
    found = Unjudged()
    parts: dict[Unknown, list[Ids]] = {}
    columns = ["ledger_id", "standing", "unknowns"]
    for batch in verdicts.parts_with("unknowns").batches(columns):
        number = pc.fill_null(pc.list_value_length(batch["unknowns"]), 0)
        has_reason = pc.greater(number, 0)
        found.ledgers += int(pc.sum(has_reason).as_py() or 0)
        found.several_reasons += int(pc.sum(pc.greater(number, 1)).as_py() or 0)
        is_judged = pc.not_equal(batch["standing"], Standing.INDETERMINATE.word)
        found.in_part += int(pc.sum(pc.and_(has_reason, is_judged)).as_py() or 0)
        ids = batch["ledger_id"].take(pc.list_parent_indices(batch["unknowns"]))
        words = batch["unknowns"].flatten()
        for word in pc.unique(words).to_pylist():
            of_reason = ids.filter(pc.equal(words, word)).to_numpy(zero_copy_only=False)
            parts.setdefault(Unknown(word), []).append(of_reason)
    found.by_reason = {
        reason: np.sort(np.concatenate(parts[reason])) for reason in Unknown if reason in parts
    }
    return found
