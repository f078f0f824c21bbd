"""Read from the verdicts how much each bookie lacks, and count the copies that only it lists.

`findings.bookies` judges what a bookie lacks. A bookie is in doubt if it surely lacks an entry
of a violated ledger, or could not send an entry at two looks. What it lists besides may be as
wrong: copies that only a bookie in doubt lists are not counted as verified. Copies that a read
brought count as ever.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, distinct_numbers, last_of_each
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.evidence.table_scan import TableScan
from auditor.findings.bookies import LEDGERS_NAMED_MAX, Content
from auditor.findings.unreadable_entries import TELLING
from auditor.judging.copies import JUDGED, verified_ratio
from auditor.model.availability import (
    ABSENT_READS,
    ANSWERED_READS,
    VALID_ANSWERS,
    AnswerStatus,
    Greeting,
)
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId
from auditor.model.summary import DoubtCounts, Summary
from auditor.model.verdict import Standing, Unknown
from auditor.summary.due_copies import SHARE_COLUMNS, shares_of

LACKS = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("ledger_id", pa.int64()),
        ("expected", pa.int64()),
        ("absent", pa.int64()),
    ],
)
"""How many entries of a violated ledger a bookie should hold, and how many it surely lacks.

Key: (bookie_id, ledger_id)."""


IS_VIOLATED = pc.field("standing") == Standing.VIOLATED.word


def lacks_of(verdicts: TableScan, keep: pc.Expression | None = IS_VIOLATED) -> pa.Table:
    """Return the LACKS rows of the violated ledgers, which had at least two looks.

    With `keep`, return those that it selects instead (None: of all).
    """
    rows = verdicts.batches(["ledger_id", "lacks"], keep)
    batches = [_flat(batch) for batch in rows]
    return pa.Table.from_batches(batches, schema=LACKS)


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    lacks = batch["lacks"].flatten()
    ids = batch["ledger_id"].take(pc.list_parent_indices(batch["lacks"]))
    columns = [lacks.field("bookie_id"), ids, lacks.field("expected"), lacks.field("absent")]
    return pa.RecordBatch.from_arrays(
        [column.cast(f.type) for column, f in zip(columns, LACKS, strict=True)], schema=LACKS
    )


def lacking_by_bookie(lacks: pa.Table) -> dict[BookieId, Ids]:
    """Return the ledgers of which each bookie lacks at least one entry."""
    return {
        bookie: distinct_numbers(ids)
        for bookie, ids in by_word(lacks["bookie_id"], lacks["ledger_id"])
    }


def lacking_most(lacks: pa.Table) -> pa.Table:
    """Return the rows of the ledgers of which a bookie lacks more than half of its entries."""
    return lacks.filter(pc.greater(pc.multiply(lacks["absent"], 2), lacks["expected"]))


def contents(
    lacks: pa.Table, asked: Mapping[BookieId, int], probed: Mapping[BookieId, Ids]
) -> dict[BookieId, Content]:
    """Return the counts of each bookie that lacks more than half of its entries of some ledger.

    `asked` counts the ledgers that a bookie answered for. `probed` has the ledgers that a bookie
    that cannot list let us read.
    """
    most = lacking_most(lacks)
    sums = (
        most.group_by("bookie_id").aggregate([("expected", "sum"), ("absent", "sum")]).to_pylist()
    )
    entries = {row["bookie_id"]: (row["expected_sum"], row["absent_sum"]) for row in sums}
    found = {}
    for bookie, ids in by_word(most["bookie_id"], most["ledger_id"]):
        some = tuple(np.sort(ids)[:LEDGERS_NAMED_MAX].tolist())
        found[bookie] = Content(
            asked.get(bookie, 0), len(ids), *entries[bookie], some, bookie in probed
        )
    return found


@dataclass(frozen=True, slots=True)
class Heard:
    """What bookies said about the content that they hold. `lacks` holds LACKS rows."""

    lacks: pa.Table
    words: LastWords
    contents: Mapping[BookieId, Content]


def gather_heard(run: Place, verdicts: TableScan, bookies: Sequence[BookieRecord]) -> Heard:
    """Return counts of what the bookies said of ledgers.

    Costs a scan of the answers, and one of the reads if some bookie cannot list.
    """
    unsupported = {
        record.bookie_id for record in bookies if record.greeting is Greeting.UNSUPPORTED
    }
    probed = probed_ledgers(run.stream("evidence/reads", READS, SPOKEN), unsupported)
    later = pc.is_valid(pc.field("ledger_id")) & (pc.field("look") > 1)
    again = pc.unique(
        run.read_table("evidence/answers", ANSWERS, later, ["ledger_id"])["ledger_id"]
    )
    unjudged = [pa.array(ids) for ids in unjudged_by_reason(verdicts).values()]
    words = last_words(
        run.stream("evidence/answers", ANSWERS, SPOKEN),
        again,
        pa.concat_arrays([pa.array([], pa.int64()), *unjudged]),
        {bookie: ids for bookie, ids in probed.items() if len(ids)},
    )
    lacks = lacks_of(verdicts)
    return Heard(lacks, words, contents(lacks, words.asked, probed))


BOOKIES_NAMED_MAX = 10
"""At most this many bookies are named in the field; the rest is only counted."""
LEDGERS_AT_ONCE = 100_000
"""Ledgers whose metadata, answers and reads are held in memory at a time, in columns."""
_PAIR = ["bookie_id", "ledger_id"]
_COPY = [*_PAIR, "entry_id"]
_WAS_READ = pc.field("status").isin(sorted(status.value for status in TELLING - ABSENT_READS))
"""Selects the reads whose copies are not among what the bookie lacks."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The bookies in doubt that list what was not read, and how many copies in judged ledgers these
    are.

    `due` counts the copies that bookies in doubt should hold of the judged ledgers that they list,
    and `read` those of them that were read.
    """

    bookies: frozenset[BookieId] = frozenset()
    copies: int = 0
    due: int = 0
    read: int = 0

    @property
    def counts(self) -> DoubtCounts:
        """The counts, with some of the bookies by name."""
        some = tuple(sorted(self.bookies)[:BOOKIES_NAMED_MAX])
        return DoubtCounts(len(self.bookies), some, self.copies, self.due, self.read)


def add_doubt(summary: Summary, doubt: Doubt) -> Summary:
    """Return the summary with the field `doubt`. Copies in doubt no longer count as listed."""
    assert summary.copies is not None, "a run counts its copies"
    copies = replace(summary.copies, listed=max(0, summary.copies.listed - doubt.copies))
    return replace(
        summary, doubt=doubt.counts, copies=copies, verified_ratio=verified_ratio(copies)
    )


def doubt_of(run: Place, verdicts: TableScan, unreadable: Collection[BookieId]) -> Doubt:
    """Return what rests on the word of bookies in doubt. `unreadable` could not send entries.

    Costs nothing where there is none, else a scan of each table of evidence for every
    LEDGERS_AT_ONCE judged ledgers.
    """
    lacks = lacks_of(verdicts)
    bookies = frozenset(unreadable) | frozenset(pc.unique(lacks["bookie_id"]).to_pylist())
    if not bookies:
        return Doubt()
    judged = pc.field("standing").isin([standing.word for standing in JUDGED])
    counted = verdicts.table(["ledger_id"], judged & pc.is_valid(pc.field("copies_expected")))
    ids = distinct_numbers(counted["ledger_id"].to_numpy())
    parts = [
        _doubt_among(run, ids[start : start + LEDGERS_AT_ONCE], bookies, lacks)
        for start in range(0, len(ids), LEDGERS_AT_ONCE)
    ]
    return Doubt(
        frozenset().union(*(one.bookies for one in parts)),
        sum(one.copies for one in parts),
        sum(one.due for one in parts),
        sum(one.read for one in parts),
    )


def _doubt_among(run: Place, ids: Ids, bookies: Collection[BookieId], lacks: pa.Table) -> Doubt:
    """Return what of these ledgers rests on the word of bookies in doubt."""
    within = (pc.field("ledger_id") >= int(ids[0])) & (pc.field("ledger_id") <= int(ids[-1]))
    mine = within & pc.field("bookie_id").isin(sorted(bookies))
    held = mine & (pc.field("status") == AnswerStatus.HELD.value)
    listed = run.read_table("evidence/answers", ANSWERS, held, _PAIR)
    listed = listed.filter(pc.is_in(listed["ledger_id"], pa.array(ids)))
    shares = shares_of(_newest(run, within), bookies)
    due = _distinct(listed, _PAIR).join(shares, _PAIR, join_type="inner")
    reads = run.read_table(
        "evidence/reads", READS, mine & _WAS_READ & ~pc.field("is_search").isin([True]), _COPY
    )
    read = _distinct(reads, _COPY).join(
        due.select([*_PAIR, "last_entry_id"]), _PAIR, join_type="inner"
    )
    read = read.filter(pc.less_equal(read["entry_id"], read["last_entry_id"]))
    counted = read.group_by(_PAIR).aggregate([("entry_id", "count")])
    absent = lacks.select([*_PAIR, "absent"])
    pairs = due.join(counted, _PAIR).join(absent, _PAIR)
    rest = pc.subtract(pairs["copies"], pc.fill_null(pairs["entry_id_count"], 0))
    rest = pc.subtract(rest, pc.fill_null(pairs["absent"], 0))
    is_left = pc.greater(rest, 0)
    return Doubt(
        frozenset(pc.unique(pairs["bookie_id"].filter(is_left)).to_pylist()),
        sum(rest.filter(is_left).to_pylist()),
        sum(pairs["copies"].to_pylist()),
        read.num_rows,
    )


def _distinct(rows: pa.Table, columns: list[str]) -> pa.Table:
    """Return each combination of these columns once, without entry ids below 0."""
    if "entry_id" in columns:
        rows = rows.filter(pc.greater_equal(rows["entry_id"], 0))
    return rows.group_by(columns).aggregate([])


def _newest(run: Place, within: pc.Expression) -> pa.Table:
    """Return the SHARE_COLUMNS of each of these ledgers, by its newest metadata that was read."""
    has_metadata = within & pc.is_valid(pc.field("format_version"))
    columns = [*SHARE_COLUMNS, "look"]
    rows = run.read_table("evidence/ledgers", LEDGERS, has_metadata, columns)
    rows = rows.sort_by([("ledger_id", "ascending"), ("look", "ascending")])
    return rows.filter(pa.array(last_of_each(rows["ledger_id"].to_numpy())))


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
