"""Bookies that answer and lack most of what they should hold: a wiped disk or an empty volume.

Verified: at two looks, the bookie lacks more than half of its entries in more than half of the
ledgers that it validly answered for. Not verified: how this happened. A marked ledger counts only
if it is violated: the cluster knows about the others.

What a bookie lacks is read from the verdicts, what it answered for from the stored answers, batch
by batch. Most ledgers have answers of one look only, and are only counted. Memory holds the answers
on all other ledgers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, are_among, distinct_numbers
from auditor.evidence.rows import numbers_of, rows_of
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.evidence.table_scan import TableScan
from auditor.findings.bookies import LEDGERS_NAMED_MAX
from auditor.model.availability import (
    ANSWERED_READS,
    VALID_ANSWERS,
    AnswerStatus,
    Greeting,
)
from auditor.model.cluster import BookieLook, BookieRecord, newest_records
from auditor.model.facts import LostContentFacts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.verdict import Standing, Unknown
from auditor.summary.carried import unheard_of_carried

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
    """Return the LACKS rows of the ledgers whose verdicts `keep` selects; None selects all.

    The default is the violated ledgers, which had at least two looks.
    """
    rows = verdicts.parts_with("lacks").batches(["ledger_id", "lacks"], keep)
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
    unjudged = list(unjudged_by_reason(verdicts).values())
    words = last_words(
        run.scan("evidence/answers", ANSWERS, ["bookie_id", "status"]).batches(SPOKEN),
        again,
        pa.array(np.concatenate([_NONE, *unjudged])),
        {bookie: ids for bookie, ids in probed.items() if len(ids)},
    )
    carried = unheard_of_carried(run, bookies, distinct_numbers(np.concatenate([_NONE, *unjudged])))
    words = replace(words, unheard=_joined(words.unheard, carried))
    lacks = lacks_of(verdicts)
    return Heard(lacks, words, contents(lacks, words.asked, probed))


def _joined(one: Mapping[BookieId, Ids], other: Mapping[BookieId, Ids]) -> dict[BookieId, Ids]:
    """Return the ledgers of each bookie in either."""
    names = sorted(one.keys() | other.keys())
    return {name: np.union1d(one.get(name, _NONE), other.get(name, _NONE)) for name in names}


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
"""Answers that leave a ledger unjudged, and for which the bookie as a whole is to blame."""


SILENCES = (Unknown.BOOKIE_SILENT, Unknown.BOOKIE_REFUSED, Unknown.ADDRESS_UNKNOWN)
"""Reasons that blame a bookie as a whole for what is unknown."""


_VALID = {status.value: 1 for status in VALID_ANSWERS}


_UNHEARD = {status.value: 1 for status in UNHEARD}


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
    words = _Tally(distinct_numbers(unjudged.to_numpy()), probed)
    late_ids = distinct_numbers(np.asarray(again, np.int64))
    kept: list[pa.RecordBatch] = []
    for batch in answers:
        about = rows_of(batch, pc.is_valid(batch["ledger_id"]))
        is_late = are_among(about["ledger_id"].to_numpy(), late_ids)
        words.add(rows_of(about, pa.array(~is_late)))
        if is_late.any():
            late = about.filter(pa.array(is_late))
            kept.append(pa.RecordBatch.from_arrays([*map(_as_words, late)], late.schema.names))
    if kept:
        words.add(newest_words(pa.Table.from_batches(kept)))
    return words.result()


def _as_words(column: pa.Array) -> pa.Array:
    """Return the column with strings in place of numbers of a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def unjudged_by_reason(verdicts: TableScan) -> dict[str, Ids]:
    """Return the ledgers that a bookie's silence left unjudged, by the reason in SILENCES."""
    found: dict[str, Ids] = {}
    for batch in verdicts.parts_with("unknowns").batches(["ledger_id", "unknowns"]):
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

    unjudged: Ids
    probed: Mapping[BookieId, Ids]
    asked: Counter[BookieId] = field(default_factory=Counter)
    listed: dict[BookieId, list[Ids]] = field(default_factory=lambda: defaultdict(list))
    """By probed bookie, the ledgers for which its last answer is valid."""
    unheard: dict[BookieId, list[Ids]] = field(default_factory=lambda: defaultdict(list))

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        names = sorted(set(pc.unique(rows["bookie_id"]).to_pylist()))
        bookies = numbers_of(rows["bookie_id"], {name: number for number, name in enumerate(names)})
        is_valid = numbers_of(rows["status"], _VALID) > 0
        counts = np.bincount(bookies[is_valid], minlength=len(names)).tolist()
        self.asked.update({name: n for name, n in zip(names, counts, strict=True) if n})
        ids = rows["ledger_id"].to_numpy()
        if self.probed:
            self._add(self.listed, names, bookies, ids, is_valid, self.probed)
        if len(self.unjudged):
            is_unheard = numbers_of(rows["status"], _UNHEARD) > 0
            is_unheard &= are_among(ids, self.unjudged)
            self._add(self.unheard, names, bookies, ids, is_unheard, names)

    @staticmethod
    def _add(
        found: dict[BookieId, list[Ids]],
        names: Sequence[BookieId],
        bookies: npt.NDArray[np.int64],
        ids: npt.NDArray[np.int64],
        mask: npt.NDArray[np.bool_],
        of: Collection[BookieId],
    ) -> None:
        """Add the ledgers of a mask to those of their bookies, if these are in `of`."""
        for number in np.unique(bookies[mask]).tolist():
            if names[number] in of:
                found[names[number]].append(ids[mask & (bookies == number)])

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


LOST_CONTENT_LEDGERS_MIN = 3
"""A bookie that lacks most of fewer ledgers has lost ledgers, not its content."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a whole run knows about one bookie's content.

    `asked`: ledgers for which its last answer is valid. That is a list or, if it cannot list
    (`was_probed`), entries that were read.

    `lacking_most`: those of them that are violated, and therefore had a second look, and of whose
    entries it surely lacks more than half. It lacks `absent` of `expected` entries in these. `some`
    are the lowest ids.
    """

    asked: int
    lacking_most: int
    expected: int
    absent: int
    some: tuple[LedgerId, ...]
    was_probed: bool = False


def is_lost(content: Content) -> bool:
    """Return whether the bookie lost most of what it should hold."""
    return is_most(content.lacking_most, content.asked)


def is_most(lacking: int, asked: int) -> bool:
    """Return whether a bookie lost its content.

    It did if it lacks most of `lacking` ledgers, and these are most of the `asked` ledgers for
    which its last answer is valid. A bookie that lacks more ledgers than its last answers cover
    went away meanwhile, which is not a loss.
    """
    return LOST_CONTENT_LEDGERS_MIN <= lacking <= asked < 2 * lacking


@dataclass(frozen=True, slots=True)
class CookieHistory:
    """The creation of a bookie's cookie, in ms, and what is older.

    `older_ledgers`: of the ledgers whose entries it lacks, those whose metadata was last written
    before. `earlier_created_ms`: the creation of another cookie that an earlier run saw; None if it
    saw none.
    """

    created_ms: int | None = None
    older_ledgers: int = 0
    earlier_created_ms: int | None = None


NO_HISTORY = CookieHistory()


def cookie_histories(
    run: Place, heard: Heard, records: Iterable[BookieRecord], earlier: Iterable[BookieRecord]
) -> dict[BookieId, CookieHistory]:
    """Return, by bookie that lost its content, what its cookie shows.

    `records` are those of the run, `earlier` those that it kept of earlier runs. Costs a scan of
    two columns of the ledgers if a bookie lost its content, and nothing otherwise.
    """
    lost = {bookie for bookie, content in heard.contents.items() if is_lost(content)}
    last = newest_records(records)
    before = {record.bookie_id: record for record in earlier}
    most = lacking_most(heard.lacks)
    return {
        bookie: _cookie_history(run, ids, last[bookie], before.get(bookie))
        for bookie, ids in by_word(most["bookie_id"], most["ledger_id"])
        if bookie in lost and bookie in last
    }


def _cookie_history(
    run: Place, ledgers: Ids, last: BookieRecord, before: BookieRecord | None
) -> CookieHistory:
    created_ms = last.cookie_created_ms
    if created_ms is None:
        return NO_HISTORY
    mine = pc.field("ledger_id").isin(pa.array(ledgers))
    columns = ["ledger_id", "znode_mtime_ms"]
    written = run.read_table("evidence/ledgers", LEDGERS, mine, columns)
    newest = written.group_by("ledger_id").aggregate([("znode_mtime_ms", "max")])
    older = pc.sum(pc.less(newest["znode_mtime_ms_max"], created_ms)).as_py() or 0
    was_other = (
        before is not None
        and before.cookie_czxid is not None
        and before.cookie_czxid != last.cookie_czxid
    )
    earlier_ms = before.cookie_created_ms if before is not None and was_other else None
    return CookieHistory(created_ms, int(older), earlier_ms)


def judge_content(
    looks: Sequence[BookieLook],
    contents: Mapping[BookieId, Content],
    cookies: Mapping[BookieId, CookieHistory] = MappingProxyType({}),
) -> list[Finding]:
    """Return the findings on bookies that lost their content, in order of bookie id.

    `cookies` has what their cookies show.
    """
    found = []
    for bookie in sorted(contents):
        records = [look[bookie] for look in looks if bookie in look]
        if records and records[-1].is_registered and is_lost(contents[bookie]):
            history = cookies.get(bookie, NO_HISTORY)
            found.append(_lost_content_finding(records[-1], contents[bookie], history))
    return found


def withheld_content(contents: Mapping[BookieId, Content]) -> list[str]:
    """Return a sentence for each bookie not reported because an operator chose the run's ledgers.

    A bookie that lacks most of these ledgers need not lack most of its content.
    """
    return [
        f"bookie {bookie} lacks most of {counts.lacking_most} of the {counts.asked} ledgers it was"
        " asked about; as these were named by an operator, that says nothing about the rest of what"
        " it should hold: run over all ledgers to find out"
        for bookie, counts in sorted(contents.items())
        if is_lost(counts)
    ]


def _lost_content_finding(record: BookieRecord, content: Content, cookie: CookieHistory) -> Finding:
    facts = LostContentFacts(
        registration=record.registration.value,
        address=f"{record.host}:{record.port}",
        asked=content.asked,
        was_probed=content.was_probed,
        lacking_most=content.lacking_most,
        absent=content.absent,
        expected=content.expected,
        some_ledgers=content.some[:LEDGERS_NAMED_MAX],
        cookie_created_ms=cookie.created_ms,
        older_ledgers=cookie.older_ledgers,
        earlier_cookie_created_ms=cookie.earlier_created_ms,
    )
    return Finding(Kind.BOOKIE_LOST_CONTENT, facts, bookie_id=record.bookie_id)
