"""Ledgers that are gone from the middle or the end of a topic's list, between two runs.

A broker trims a topic from its front, and drops an empty ledger at its end. Verified: an earlier
run read the ledger in the topic's list; at two looks of this run the list lacks it, and still has
an earlier ledger of those that it had then. It has a later one too, or the topic had recorded
entries of the ledger. Not verified: who removed it. Trimming was read in the source of Pulsar 2 to
4.

A ledger that was dropped keeps the row of the run that read it in the list. Otherwise it would be
forgotten after one night.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import DROPPED_LEDGERS, LISTING, REFERENCES
from auditor.findings.reference_tables import (
    AGAIN,
    AT_FIRST,
    FIRST,
    WHERE,
    looks_at,
    were_references_read,
)
from auditor.model.facts import LOOKS_APART_MIN_MS, USES_SHOWN_MAX, DroppedLedgerFacts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import LedgerId
from auditor.model.topic import TopicName, TopicRecord, TopicStatus
from auditor.pulsar.reference_rows import RowOf, topic_of

DROPPED_AT = "evidence/dropped_ledgers"
DROPPED_MAX = 10_000
"""A run looks again at, and judges, at most this many dropped ledgers. The rest is counted as
unknown: so many are a restored metadata service."""
_DATA = AT_FIRST & (pc.field("row") == RowOf.DATA.value)


PAIRS_AT_ONCE = 500_000
"""Ledgers of lists that are compared at a time, of each run. Some 150 bytes each."""


def compare_lists(earlier: Place, earlier_id: str, run: Place) -> pa.Table:
    """Return the DROPPED_LEDGERS rows of ledgers that topics lost between two runs, by the first
    looks of both, sorted by ledger and topic.

    A ledger that was dropped before is kept as long as its topic exists and its neighbours are in
    the list, and over runs that did not read the topic. Costs a scan of three columns of the
    references of both runs, and one of more columns if a ledger was dropped. Memory: 17 bytes a
    ledger of each list, and PAIRS_AT_ONCE ledgers of each run. Raises OutputError.
    """
    kept = _kept_rows(earlier)
    if not were_references_read(run):
        return kept
    read = were_references_read(earlier)
    then = _pairs(kept.to_batches())
    if read:
        then = then.joined(_read_pairs(earlier))
    lost = _lost_between(then, _neighbours(kept), _read_pairs(run))
    rows = [_rows_of_lost(kept.select([*_COLUMNS, "run_id"]), lost)]
    if read and rows[0].num_rows < lost.num_rows:
        mine = _DATA & pc.field("ledger_id").isin(pc.unique(lost["ledger_id"]))
        batches = earlier.scan(WHERE, REFERENCES).batches(_COLUMNS, mine)
        found = pa.Table.from_batches(batches, REFERENCES.empty_table().select(_COLUMNS).schema)
        run_ids = pa.array([earlier_id] * found.num_rows, pa.string())
        rows.append(_rows_of_lost(found.append_column("run_id", run_ids), lost))
    order = [("ledger_id", "ascending"), ("topic", "ascending")]
    return pa.concat_tables([*rows, _unread_rows(earlier, run)]).sort_by(order)


_COLUMNS = [*DROPPED_LEDGERS.names[: DROPPED_LEDGERS.get_field_index("before")]]


def _kept_rows(run: Place) -> pa.Table:
    if not run.has_table(DROPPED_AT):
        return DROPPED_LEDGERS.empty_table()
    return run.read_table(DROPPED_AT, DROPPED_LEDGERS)


def _unread_rows(earlier: Place, run: Place) -> pa.Table:
    """Return the kept rows of topics that this run could not read, or may have missed."""
    kept = _kept_rows(earlier)
    if not kept.num_rows:
        return kept
    mine = pc.field("topic").isin(kept["topic"].unique())
    is_topic = pc.field("row") == RowOf.TOPIC.value
    read = run.read_table(WHERE, REFERENCES, AT_FIRST & is_topic & mine, ["topic", "status"])
    unread = read.filter(pc.equal(read["status"], TopicStatus.UNREADABLE.value))["topic"]
    stays = pc.is_in(kept["topic"], unread.combine_chunks())
    if may_miss_topics(run):
        stays = pc.or_(stays, pc.invert(pc.is_in(kept["topic"], read["topic"].combine_chunks())))
    return kept.filter(stays)


def may_miss_topics(run: Place) -> bool:
    """Return whether the first look could not list all topics."""
    without_topic = pc.field("topic").is_null() & (pc.field("row") == RowOf.PROBLEM.value)
    return run.count(WHERE, REFERENCES, AT_FIRST & without_topic) > 0


Flags: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.int64]


class _Pairs(NamedTuple):
    """Topics, as numbers, the ledgers in their lists, and which of these have recorded entries."""

    topics: Numbers
    ledgers: Numbers
    are_full: Flags

    def joined(self, *others: _Pairs) -> _Pairs:
        """Return these pairs and the others."""
        return _Pairs(*map(np.concatenate, zip(self, *others, strict=True)))

    def of_part(self, number: int, parts: int) -> _Pairs:
        """Return the pairs of one part of the topics. `parts` is a power of two."""
        if parts == 1:
            return self
        mine = self.topics & (parts - 1) == number
        return _Pairs(*(column[mine] for column in self))


def _pairs(batches: Iterable[pa.RecordBatch]) -> _Pairs:
    """Return the pairs in the columns `topic`, `ledger_id` and `entries`."""
    found = [_Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))]
    for batch in batches:
        is_full = pc.fill_null(pc.greater(batch["entries"], 0), False)
        found.append(
            _Pairs(
                _numbers(batch["topic"]),
                batch["ledger_id"].to_numpy(zero_copy_only=False),
                is_full.to_numpy(zero_copy_only=False),
            )
        )
    return found[0].joined(*found[1:])


def _numbers(topics: pa.StringArray) -> Numbers:
    """Return a number for each topic, its hash, which is the same within a process.

    A million topics have two with the same number once in some 10^7 runs. No ledger is found
    wrongly for it, because both looks at a list are compared by name. One could be missed.
    """
    encoded = topics.dictionary_encode()
    by_code = np.array([hash(topic) for topic in encoded.dictionary.to_pylist()], np.int64)
    numbers: Numbers = by_code[encoded.indices.to_numpy()]
    return numbers


def _read_pairs(run: Place) -> _Pairs:
    """Return the data ledgers of all topics' lists at the first look."""
    scan = run.scan(WHERE, REFERENCES)
    return _pairs(scan.batches(["topic", "ledger_id", "entries"], _DATA))


def _neighbours(kept: pa.Table) -> _Pairs:
    """Return the neighbours of ledgers that were dropped before."""
    before, after = (
        kept.select(["topic", name, "entries"]).rename_columns(["topic", "ledger_id", "entries"])
        for name in ("before", "after")
    )
    rows = pa.concat_tables([before, after.filter(after["ledger_id"].is_valid())])
    return _pairs(rows.to_batches())


_LOST = pa.schema([(name, pa.int64()) for name in ("topic_number", "ledger_id", "before", "after")])


def _lost_between(then: _Pairs, neighbours: _Pairs, now: _Pairs) -> pa.Table:
    """Return the pairs of `then` that `now` lacks behind a ledger of `then` or `neighbours` that it
    has, with the nearest of these, as _LOST has them.

    Behind the last of these, only ledgers with entries are returned.
    """
    most = max(len(then.ledgers), len(now.ledgers))
    parts = 1 << (max(1, most) // PAIRS_AT_ONCE).bit_length()
    tables = (
        _lost_in_part(*(pairs.of_part(number, parts) for pairs in (then, neighbours, now)))
        for number in range(parts)
    )
    return pa.concat_tables(tables)


def _lost_in_part(then: _Pairs, neighbours: _Pairs, now: _Pairs) -> pa.Table:
    """Do what `_lost_between` says. Costs a sort of all pairs."""
    every = then.joined(neighbours, now)
    if not len(every.ledgers):
        return _LOST.empty_table()
    order = np.lexsort((every.ledgers, every.topics))
    topics, ledgers = every.topics[order], every.ledgers[order]
    is_first = np.append(True, (topics[1:] != topics[:-1]) | (ledgers[1:] != ledgers[:-1]))
    starts = np.flatnonzero(is_first)
    topics, ledgers = topics[starts], ledgers[starts]
    of_then, of_now = order < len(then.ledgers), order >= len(every.ledgers) - len(now.ledgers)
    was_listed, was_known, is_listed, is_full = (
        np.logical_or.reduceat(flags, starts)
        for flags in (of_then, ~of_now, of_now, of_then & every.are_full[order])
    )
    at = np.arange(len(starts))
    stayed = was_known & is_listed
    before = np.maximum.accumulate(np.where(stayed, at, -1))
    after = np.minimum.accumulate(np.where(stayed, at, len(at))[::-1])[::-1]
    has_before = (before >= 0) & (topics[before] == topics)
    after_or_last = np.minimum(after, len(at) - 1)
    has_after = (after < len(at)) & (topics[after_or_last] == topics)
    is_loss = has_before & (has_after | is_full)
    lost = was_listed & ~is_listed & is_loss
    columns = [
        pa.array(topics[lost]),
        pa.array(ledgers[lost]),
        pa.array(ledgers[before[lost]]),
        pa.array(ledgers[after_or_last[lost]], mask=~has_after[lost]),
    ]
    return pa.Table.from_arrays(columns, schema=_LOST)


def _rows_of_lost(rows: pa.Table, lost: pa.Table) -> pa.Table:
    """Return the rows of lost ledgers, with their neighbours, as DROPPED_LEDGERS has them."""
    numbers = pa.chunked_array(map(_numbers, rows["topic"].chunks), pa.int64())
    found = rows.append_column("topic_number", numbers).join(
        lost, ["topic_number", "ledger_id"], join_type="inner"
    )
    return found.select(DROPPED_LEDGERS.names).cast(DROPPED_LEDGERS)


def dropped_ids(run: Place) -> Numbers:
    """Return the ledgers that topics lost, by the first look."""
    ids: Numbers = _kept_rows(run)["ledger_id"].to_numpy()
    return ids


def topics_with_drops(run: Place) -> tuple[list[TopicName], int]:
    """Return the topics to read again, and when the first look read the last of them, in ms."""
    topics = sorted({row.name for row in _drops(run)[:DROPPED_MAX]})
    if not topics:
        return [], 0
    names = pc.field("topic").isin([str(topic) for topic in topics])
    read_at = run.read_table(WHERE, REFERENCES, AT_FIRST & names, ["read_at_ms"])["read_at_ms"]
    return topics, pc.max(read_at).as_py() or 0


class Drop(NamedTuple):
    """A row of DROPPED_LEDGERS, with its columns in order."""

    namespace: str
    topic: str
    ledger_id: LedgerId
    read_at_ms: int
    entries: int | None
    size_bytes: int | None
    closed_ms: int | None
    offloaded: bool
    bookkeeper_deleted: bool
    before: LedgerId
    after: LedgerId | None
    run_id: str

    @property
    def name(self) -> TopicName:
        """The topic."""
        return topic_of(self.namespace, self.topic)


def _drops(run: Place) -> list[Drop]:
    """Return the rows of a run, sorted by ledger and topic."""
    rows = _kept_rows(run).sort_by([("ledger_id", "ascending"), ("topic", "ascending")])
    return [Drop(*cells) for cells in zip(*(c.to_pylist() for c in rows.columns), strict=True)]


class SeenDrop(NamedTuple):
    """A ledger that a topic lost. `looks` has the topic at both looks, as far as it was read."""

    row: Drop
    looks: Mapping[int, TopicRecord]


def is_confirmed(seen: SeenDrop) -> bool | None:
    """Return whether both looks confirm that the ledger is gone from behind a ledger of the list;
    None if they do not show it.
    """
    if seen.row.entries == 0:
        return False
    again = _lists_without(seen, AGAIN)
    if again is not True:
        return again
    first = _lists_without(seen, FIRST)
    if first is None:
        return None
    apart_ms = seen.looks[AGAIN].read_at_ms - seen.looks[FIRST].read_at_ms
    return first if apart_ms >= LOOKS_APART_MIN_MS else None


def _lists_without(seen: SeenDrop, look: int) -> bool | None:
    """Return whether the list lacks the ledger and has its neighbours; None if it was not read."""
    record = seen.looks.get(look)
    if record is None or record.status is TopicStatus.UNREADABLE:
        return None
    if record.managed_ledger is None:
        return False
    ids = {ledger.ledger_id for ledger in record.managed_ledger.ledgers}
    row = seen.row
    return row.ledger_id not in ids and ids.issuperset({row.before, row.after} - {None})


def judge_drops(run: Place) -> Iterator[tuple[Finding, SeenDrop] | LedgerId]:
    """Yield a finding for each ledger that topics lost, with what was seen of the first topic; or
    the ledger, where it is not known.
    """
    rows = _drops(run)
    if not rows:
        return
    looks: dict[TopicName, dict[int, TopicRecord]] = {}
    for look, record in looks_at(run, {row.name for row in rows}):
        looks.setdefault(record.topic, {})[look] = record
    by_ledger: dict[LedgerId, list[SeenDrop]] = {}
    for row in rows[:DROPPED_MAX]:
        seen = SeenDrop(row, looks.get(row.name, {}))
        by_ledger.setdefault(row.ledger_id, []).append(seen)
    yield from (row.ledger_id for row in rows[DROPPED_MAX:])
    listed = _listed(run, list(by_ledger))
    for ledger_id, drops in by_ledger.items():
        verdicts = [is_confirmed(drop) for drop in drops]
        lost = [drop for drop, verdict in zip(drops, verdicts, strict=True) if verdict]
        if lost:
            yield _finding(lost, is_listed=ledger_id in listed), lost[0]
        elif None in verdicts:
            yield ledger_id


def _listed(run: Place, ids: list[LedgerId]) -> frozenset[LedgerId]:
    mine = pc.field("ledger_id").isin(ids)
    return frozenset(run.read_table("evidence/listing", LISTING, mine)["ledger_id"].to_pylist())


def _finding(lost: list[SeenDrop], *, is_listed: bool) -> Finding:
    row = lost[0].row
    looks = lost[0].looks
    facts = DroppedLedgerFacts(
        earlier_run=row.run_id,
        earlier_read_at_ms=row.read_at_ms,
        topics=len(lost),
        some_topics=tuple(drop.row.topic for drop in lost[:USES_SHOWN_MAX]),
        before=row.before,
        after=row.after,
        entries=row.entries,
        size_bytes=row.size_bytes,
        is_offloaded=bool(row.offloaded),
        is_listed=is_listed,
        apart_ms=looks[AGAIN].read_at_ms - looks[FIRST].read_at_ms,
    )
    entries = row.entries or 0
    return Finding(
        Kind.LEDGER_DROPPED_FROM_TOPIC,
        facts,
        ledger_id=row.ledger_id,
        entries=((0, entries - 1),) if entries else (),
        entries_total=entries,
    )
