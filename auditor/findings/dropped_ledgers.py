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

from collections.abc import Iterator, Mapping
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


def compare_lists(earlier: Place, earlier_id: str, run: Place) -> pa.Table:
    """Return the DROPPED_LEDGERS rows of ledgers that topics lost between two runs, by the first
    looks of both.

    A ledger that was dropped before is kept as long as its topic exists and its neighbours are in
    the list, and over runs that did not read the topic. Costs a scan of the references of both
    runs, and a sort. Raises OutputError.
    """
    kept = _kept_rows(earlier)
    if not were_references_read(run):
        return kept
    then = REFERENCES.empty_table().select(_COLUMNS)
    if were_references_read(earlier):
        then = earlier.read_table(WHERE, REFERENCES, _DATA, _COLUMNS)
    run_ids = pa.array([earlier_id] * then.num_rows, pa.string())
    rows = [kept.select([*_COLUMNS, "run_id"]), then.append_column("run_id", run_ids)]
    before, after = (
        kept.select(["topic", name]).rename_columns(["topic", "ledger_id"])
        for name in ("before", "after")
    )
    neighbours = pa.concat_tables([before, after.filter(after["ledger_id"].is_valid())])
    now = run.read_table(WHERE, REFERENCES, _DATA, ["topic", "ledger_id"])
    return pa.concat_tables(
        [_missing_between(pa.concat_tables(rows), neighbours, now), _unread_rows(earlier, run)]
    )


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
_NONE: Numbers = np.empty(0, np.int64)


def _missing_between(then: pa.Table, neighbours: pa.Table, now: pa.Table) -> pa.Table:
    """Return the rows of `then` that `now` lacks behind a ledger of `then` or `neighbours` that it
    has, with the nearest of these.

    Behind the last of these, only ledgers with entries are returned.
    """
    tables = (then, neighbours, now)
    topics = pa.chunked_array([chunk for rows in tables for chunk in rows["topic"].chunks])
    codes = topics.dictionary_encode().combine_chunks().indices.to_numpy()
    ends = np.cumsum([rows.num_rows for rows in tables])[:-1]
    of_then, of_neighbours, of_now = map(
        _Pairs, np.split(codes, ends), (rows["ledger_id"].to_numpy() for rows in tables)
    )
    gone = np.flatnonzero(~of_then.are_among(of_now))
    parts = [pairs.of_topics(of_then.topics[gone]) for pairs in (of_then, of_neighbours)]
    stayed = _Pairs(*map(np.concatenate, zip(*parts, strict=True)))
    anchors = stayed.among(of_now).by_topic()
    is_full = pc.fill_null(pc.greater(then["entries"], 0), False).to_numpy()
    found: list[tuple[int, int, int | None]] = []
    for index in gone.tolist():
        ids = anchors.get(int(of_then.topics[index]), _NONE)
        at = int(np.searchsorted(ids, of_then.ledgers[index]))
        if at and (at < len(ids) or is_full[index]):
            found.append((index, int(ids[at - 1]), int(ids[at]) if at < len(ids) else None))
    indices, before, after = (pa.array(column, pa.int64()) for column in _columns_of(found))
    rows = then.take(indices).append_column("before", before).append_column("after", after)
    return rows.select(DROPPED_LEDGERS.names).cast(DROPPED_LEDGERS)


def _columns_of(
    rows: list[tuple[int, int, int | None]],
) -> tuple[list[int], list[int], list[int | None]]:
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


class _Pairs(NamedTuple):
    """Topics, as numbers, and ledgers in their lists."""

    topics: Numbers
    ledgers: Numbers

    def are_among(self, others: _Pairs) -> Flags:
        """Return which pairs are among the others. Costs a sort."""
        topics = np.concatenate([others.topics, self.topics])
        ledgers = np.concatenate([others.ledgers, self.ledgers])
        order = np.lexsort((ledgers, topics))  # stable: one of the others comes before its equals
        topics, ledgers, is_other = topics[order], ledgers[order], order < len(others.topics)
        begins = np.append(True, (topics[1:] != topics[:-1]) | (ledgers[1:] != ledgers[:-1]))
        found = np.zeros(len(order), np.bool_)
        if len(order):
            found[order] = is_other[np.flatnonzero(begins)][np.cumsum(begins) - 1]
        return found[len(others.topics) :]

    def of_topics(self, topics: Numbers) -> _Pairs:
        """Return the pairs of these topics."""
        mine = np.isin(self.topics, topics)
        return _Pairs(self.topics[mine], self.ledgers[mine])

    def among(self, others: _Pairs) -> _Pairs:
        """Return the pairs that are among the others."""
        mine = self.are_among(others)
        return _Pairs(self.topics[mine], self.ledgers[mine])

    def by_topic(self) -> Mapping[int, Numbers]:
        """Return the distinct ledgers of each topic, ascending."""
        if not len(self.topics):
            return {}
        order = np.lexsort((self.ledgers, self.topics))
        topics, ledgers = self.topics[order], self.ledgers[order]
        codes, starts = np.unique(topics, return_index=True)
        parts = map(np.unique, np.split(ledgers, starts[1:]))
        return dict(zip(codes.tolist(), parts, strict=True))


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
