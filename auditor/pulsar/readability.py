"""Say which entries of a topic each reader can read, and where it stops.

A topic's ledgers were audited: `Condition` says what became of each. A reader is a subscription, or
one that begins at the first message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from auditor.first_checker.schedule import extents
from auditor.model.availability import AnswerStatus
from auditor.model.codec import Part
from auditor.model.evidence import LedgerEvidence
from auditor.model.finding import Finding, Kind, Ranges
from auditor.model.identity import ENTRY_ID_MAX, BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus
from auditor.model.topic import (
    DataLedger,
    Position,
    Reference,
    Role,
    Subscription,
    TopicRecord,
    TopicStatus,
    references,
    schema_ledgers,
)
from auditor.model.verdict import Exempt, Unknown, Verdict


class Condition(StrEnum):
    """What is known of a ledger that a topic references. If several apply, the last one counts."""

    NOTHING_LOST = "nothing_lost"
    OPEN = "open"
    OFFLOADED = "offloaded"
    UNKNOWN = "unknown"
    UNRECOVERABLE = "unrecoverable"
    ENTRIES_UNAVAILABLE = "entries_unavailable"
    ENTRIES_LOST = "entries_lost"
    CLOSED_SHORT = "closed_short"
    TRUNCATED = "truncated"
    NEWEST_MISSING = "newest_missing"
    MISSING = "missing"


LOSSES = frozenset(
    {
        Condition.UNRECOVERABLE,
        Condition.ENTRIES_UNAVAILABLE,
        Condition.ENTRIES_LOST,
        Condition.CLOSED_SHORT,
        Condition.TRUNCATED,
        Condition.NEWEST_MISSING,
        Condition.MISSING,
    }
)
"""Conditions that stop a reader: entries cannot be read now, or never again."""


@dataclass(frozen=True, slots=True)
class LedgerCondition:
    """The condition of a ledger that a topic needs.

    `lost` are entries that cannot be read in BookKeeper, ascending; `lost_more`: there are more, of
    unknown ranges. `is_unknown`: yet others may be lost. `detail` says why something is unknown,
    and what is wrong with the BookKeeper copy of an offloaded ledger.
    """

    ledger_id: LedgerId
    condition: Condition
    lost: Ranges = ()
    lost_more: bool = False
    is_unknown: bool = False
    detail: str = ""


class Answer(StrEnum):
    """Whether a reader gets everything that it still needs."""

    READABLE = "readable"
    BLOCKED = "blocked"
    POSSIBLY_BLOCKED = "possibly_blocked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reader finds. `subscription` is None for a reader that starts with the first
    message.

    `position` is the last acknowledged one that ZooKeeper has; None for the beginning. If
    `is_newest` is False, the cursor's ledger has a newer one. `first_loss` is the first lost entry
    after it.
    """

    subscription: Subscription | None
    position: Position | None
    is_newest: bool
    answer: Answer
    first_loss: Position | None = None


@dataclass(frozen=True, slots=True)
class TopicReadability:
    """The results for one topic.

    `data` pairs what the topic recorded of a ledger with its condition; `others` are the ledgers of
    cursors, schemas, compaction and delayed delivery. `start` is a reader that starts with the
    first message; None if the topic could not be read. `blocker` says why no broker can load the
    topic, if that is known.
    """

    record: TopicRecord
    data: tuple[tuple[DataLedger, LedgerCondition], ...] = ()
    others: tuple[tuple[Reference, LedgerCondition], ...] = ()
    start: Reading | None = None
    readings: tuple[Reading, ...] = ()
    blocker: str = ""

    @property
    def conditions(self) -> tuple[LedgerCondition, ...]:
        """The conditions of all ledgers, data first."""
        return (
            *(condition for _, condition in self.data),
            *(condition for _, condition in self.others),
        )


@dataclass(frozen=True, slots=True)
class TopicLedger(Part):
    """A ledger of a topic, as `auditor topic` reports it: its condition and what it is for.

    `standing` is None if its metadata is gone, or if it is only in long-term storage. The end of a
    range of `lost` is None where its length is not known. Only data ledgers have the fields from
    `entries` on (`DataLedger`).
    """

    ledger_id: LedgerId
    condition: Condition
    standing: str | None
    lost: tuple[tuple[int, int | None], ...]
    lost_more: bool
    is_unknown: bool
    detail: str
    role: Role
    name: str | None
    entries: int | None = None
    size_bytes: int | None = None
    closed_ms: int | None = None
    offloaded: bool = False
    bookkeeper_deleted: bool = False


@dataclass(frozen=True, slots=True)
class TopicSubscription:
    """A subscription of a topic, as `auditor topic` reports it (`Reading`)."""

    name: str
    position: tuple[int, int] | None
    is_newest_position: bool
    cursor_ledger_id: LedgerId | None
    answer: Answer
    first_loss: tuple[int, int] | None
    problem: str


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """A schema of a topic, and where it is."""

    version: int
    position: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class TopicReport:
    """A topic as `auditor topic` reports it. `answer` is that of a reader that starts with the
    first message.
    """

    topic: str
    status: TopicStatus
    is_complete: bool
    answer: Answer
    first_loss: tuple[int, int] | None
    blocker: str
    shadow_source: str | None
    problems: tuple[str, ...]
    unread: Mapping[str, int]
    ledgers: tuple[TopicLedger, ...]
    subscriptions: tuple[TopicSubscription, ...]
    schemas: tuple[TopicSchema, ...]


LOST_KINDS = frozenset(
    {
        Kind.ENTRY_WITHOUT_REPLICA,
        Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE,
        Kind.LEDGER_CLOSED_SHORT,
        Kind.ENTRY_UNAVAILABLE,
        Kind.UNDERREPLICATED_UNRECOVERABLE,
    }
)
"""Findings on entries that no client can read."""
UNSURE_KINDS = frozenset({Kind.ENTRY_CORRUPT, Kind.METADATA_MALFORMED})
"""Findings that leave open whether a client can read the ledger."""
_BEGINNING = Position(-1, -1)

Seen = tuple[LedgerRecord, Verdict]
"""The newest record of a ledger, and its verdict."""


def judge_topic(
    record: TopicRecord,
    seen: Mapping[LedgerId, Seen],
    withdrawn: frozenset[LedgerId] = frozenset(),
    answering: frozenset[BookieId] | None = None,
) -> TopicReadability:
    """Return what can be read of a topic.

    `seen` has every ledger that the topic references. `withdrawn` are ledgers that it no longer
    references at the second look: they were trimmed meanwhile, and nobody needs them. `answering`
    are the bookies from which a ledger that is not closed can be recovered; None if that is not
    asked.
    """
    if record.managed_ledger is None:
        return TopicReadability(record)
    blocker = ""
    if record.managed_ledger.is_source_missing:
        source = record.managed_ledger.shadow_source
        blocker = f"its source {source} does not exist: no broker can load the shadow topic"
    ledgers = [
        ledger
        for ledger in record.managed_ledger.ledgers_with_ends
        if ledger.ledger_id not in withdrawn
    ]
    newest = record.managed_ledger.ledgers[-1].ledger_id if record.managed_ledger.ledgers else None
    data = [
        (ledger, _data_condition(ledger, seen, answering, ledger.ledger_id == newest))
        for ledger in ledgers
    ]
    if not blocker and data and data[-1][1].condition is Condition.UNRECOVERABLE:
        blocker = (
            f"the recovery of its newest ledger {newest} cannot succeed with the bookies that"
            " answer: no broker can load the topic"
        )
    others = [
        (reference, _other_condition(reference, record, seen, answering))
        for reference in references(record)
        if reference.role is not Role.DATA and reference.ledger_id not in withdrawn
    ]
    return TopicReadability(
        record=record,
        data=tuple(data),
        others=tuple(others),
        start=_judge_start(data, blocker),
        readings=tuple(
            replace(reading, answer=Answer.BLOCKED) if blocker else reading
            for reading in (judge_reader(reader, data) for reader in record.subscriptions)
        ),
        blocker=blocker,
    )


def _judge_start(data: Sequence[tuple[DataLedger, LedgerCondition]], blocker: str) -> Reading:
    start = judge_reader(None, data)
    return replace(start, answer=Answer.BLOCKED) if blocker else start


def is_truncated(ledger: DataLedger, record: LedgerRecord) -> bool:
    """Return whether the metadata ends before the entries that the topic recorded.

    Only a closed ledger has an end.
    """
    return bool(_range_cut_off(ledger, record))


def _range_cut_off(ledger: DataLedger, record: LedgerRecord) -> Ranges:
    metadata = record.metadata
    if (
        metadata is None
        or metadata.state is not LedgerState.CLOSED
        or metadata.last_entry_id is None
    ):
        return ()
    entries = ledger.entries or 0
    return (
        ((metadata.last_entry_id + 1, entries - 1),) if metadata.last_entry_id + 1 < entries else ()
    )


def is_gone(seen: Seen) -> bool:
    """Return whether the ledger has no metadata."""
    return seen[0].status is RecordStatus.GONE


def doubt_unregistered(evidence: LedgerEvidence, verdict: Verdict) -> Verdict:
    """Return the verdict, with a reason if only unregistered bookies may have copies of entries.

    A ledger's mark excuses such bookies, but no client reads from them. A bookie that lacks any
    entry counts like one that lacks all. For a ledger closed without entries, an ack quorum of such
    bookies may have an entry that its end cut off.
    """
    metadata = evidence.looks[-1].record.metadata
    asked = [look.answers for look in evidence.looks if look.answers]
    if (
        verdict.exempt is not Exempt.MARKED_UNDERREPLICATED
        or _doubts(verdict)
        or metadata is None
        or not asked
    ):
        return verdict
    unregistered = {
        b for b, answer in asked[-1].items() if answer.status is AnswerStatus.UNREGISTERED
    }
    if _ends_before_entries(metadata):
        unheard = len(unregistered.intersection(metadata.segments[-1].ensemble))
        is_open = unheard >= max(1, metadata.ack_quorum)
        return replace(verdict, unknowns=_with_silence(verdict)) if is_open else verdict
    away = {b for b in unregistered if not asked[-1][b].is_gone}
    lacking = away | {lack.bookie_id for lack in verdict.lacks}
    for extent in extents(metadata):
        ensemble = extent.segment.ensemble
        for start in range(len(ensemble)):
            write_set = {
                ensemble[(start + copy) % len(ensemble)] for copy in range(metadata.write_quorum)
            }
            if write_set & away and write_set <= lacking:
                return replace(verdict, unknowns=_with_silence(verdict))
    return verdict


def _ends_before_entries(metadata: LedgerMetadata) -> bool:
    return (
        metadata.state is LedgerState.CLOSED
        and metadata.last_entry_id == -1
        and bool(metadata.segments)
    )


def _with_silence(verdict: Verdict) -> tuple[Unknown, ...]:
    return (Unknown.BOOKIE_SILENT, *verdict.unknowns)


def _data_condition(
    ledger: DataLedger,
    seen: Mapping[LedgerId, Seen],
    answering: frozenset[BookieId] | None,
    is_newest: bool,
) -> LedgerCondition:
    if ledger.bookkeeper_deleted:
        return LedgerCondition(ledger.ledger_id, Condition.OFFLOADED)
    known = seen[ledger.ledger_id]
    found = (
        _missing_condition(ledger, is_newest)
        if is_gone(known)
        else _judged_condition(ledger, *known, answering)
    )
    if ledger.offloaded and found.condition is not Condition.NOTHING_LOST:
        detail = f"its copy in BookKeeper: {found.condition.value.replace('_', ' ')}"
        return LedgerCondition(ledger.ledger_id, Condition.OFFLOADED, detail=detail)
    return found


def _missing_condition(ledger: DataLedger, is_newest: bool) -> LedgerCondition:
    if ledger.entries == 0:
        return LedgerCondition(ledger.ledger_id, Condition.NOTHING_LOST)
    if ledger.entries is None and is_newest:
        return LedgerCondition(ledger.ledger_id, Condition.NEWEST_MISSING, ((0, ENTRY_ID_MAX),))
    last = ENTRY_ID_MAX if ledger.entries is None else ledger.entries - 1
    return LedgerCondition(ledger.ledger_id, Condition.MISSING, ((0, last),))


def _judged_condition(
    ledger: DataLedger,
    record: LedgerRecord,
    verdict: Verdict,
    answering: frozenset[BookieId] | None,
) -> LedgerCondition:
    if any(finding.kind is Kind.RECOVERY_BLOCKED for finding in verdict.findings):
        every = ((0, ENTRY_ID_MAX),)
        return LedgerCondition(ledger.ledger_id, Condition.UNRECOVERABLE, every)
    truncated = _range_cut_off(ledger, record)
    lost = _merge_ranges((*_lost_ranges(verdict.findings), *truncated))
    kinds = {finding.kind for finding in verdict.findings if finding.kind in LOST_KINDS}
    more = any(_is_cut(finding) for finding in verdict.findings if finding.kind in LOST_KINDS)
    why = _why_unknown(verdict) or _why_unrecoverable(record, answering)
    if truncated:
        condition = Condition.TRUNCATED
    elif Kind.LEDGER_CLOSED_SHORT in kinds:
        condition = Condition.CLOSED_SHORT
    elif lost:
        condition = (
            Condition.ENTRIES_UNAVAILABLE
            if kinds == {Kind.ENTRY_UNAVAILABLE}
            else Condition.ENTRIES_LOST
        )
    elif why:
        condition = Condition.UNKNOWN
    elif record.metadata is not None and record.metadata.state is not LedgerState.CLOSED:
        condition = Condition.OPEN
    else:
        condition = Condition.NOTHING_LOST
    return LedgerCondition(ledger.ledger_id, condition, lost, more, bool(why), why)


def _why_unrecoverable(record: LedgerRecord, answering: frozenset[BookieId] | None) -> str:
    """Return why it is not known whether a ledger that is not closed can be recovered, or "".

    Recovery needs, in each write set of the last ensemble, fewer bookies that do not answer than
    the ack quorum. If a broker has the ledger open, no recovery is needed.
    """
    metadata = record.metadata
    if (
        answering is None
        or metadata is None
        or metadata.state is LedgerState.CLOSED
        or not metadata.segments
    ):
        return ""
    ensemble = metadata.segments[-1].ensemble
    for start in range(len(ensemble)):
        write_set = {
            ensemble[(start + copy) % len(ensemble)] for copy in range(metadata.write_quorum)
        }
        away = sorted(write_set - answering)
        if len(away) >= metadata.ack_quorum:
            return (
                f"no answer from {', '.join(away)}: unless a broker has it open, no broker can"
                " recover it"
            )
    return ""


def _other_condition(
    reference: Reference,
    topic: TopicRecord,
    seen: Mapping[LedgerId, Seen],
    answering: frozenset[BookieId] | None,
) -> LedgerCondition:
    """Return the condition of a ledger of a cursor, a schema or compaction.

    If a cursor has a ledger, that ledger names its newest compacted ledger. The one in the cursor's
    znode is deleted after the next compaction.
    """
    ledger_id = reference.ledger_id
    if not is_gone(seen[ledger_id]):
        return _judged_condition(
            schema_ledgers(topic).get(ledger_id, DataLedger(ledger_id)),
            *seen[ledger_id],
            answering,
        )
    cursors = (
        subscription.cursor
        for subscription in topic.subscriptions
        if subscription.name == reference.name
    )
    if reference.role is Role.COMPACTED and any(
        cursor is not None and cursor.ledger_id is not None for cursor in cursors
    ):
        detail = (
            "it has no metadata; a newer one may be named in the ledger of the cursor, which was"
            " not read"
        )
        return LedgerCondition(ledger_id, Condition.UNKNOWN, is_unknown=True, detail=detail)
    return LedgerCondition(ledger_id, Condition.MISSING)


def _lost_ranges(findings: Iterable[Finding]) -> Ranges:
    return tuple(
        sorted(
            {pair for finding in findings if finding.kind in LOST_KINDS for pair in finding.entries}
        )
    )


def _merge_ranges(ranges: Iterable[tuple[EntryId, EntryId]]) -> Ranges:
    """Return the same entries as ascending, disjoint ranges."""
    merged: list[tuple[EntryId, EntryId]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def _is_cut(finding: Finding) -> bool:
    return sum(last - first + 1 for first, last in finding.entries) < finding.entries_total


def _why_unknown(verdict: Verdict) -> str:
    unsure = [finding.kind.value for finding in verdict.findings if finding.kind in UNSURE_KINDS]
    return ", ".join([*(doubt.value for doubt in _doubts(verdict)), *unsure])


def _doubts(verdict: Verdict) -> tuple[Unknown, ...]:
    """Return why entries are unknown. An unknown location says nothing about entries."""
    return tuple(reason for reason in verdict.unknowns if reason is not Unknown.TOPOLOGY_UNKNOWN)


def judge_reader(
    subscription: Subscription | None, data: Sequence[tuple[DataLedger, LedgerCondition]]
) -> Reading:
    """Judge one reader. A proven loss has precedence over what is unknown."""
    cursor = subscription.cursor if subscription else None
    if subscription is not None and cursor is None:
        return Reading(subscription, None, False, Answer.UNKNOWN)
    position = cursor.mark_delete if cursor else None
    is_newest = cursor is None or cursor.ledger_id is None
    needed = [
        (ledger, found) for ledger, found in data if _is_needed(ledger, position or _BEGINNING)
    ]
    acknowledged = cursor.acknowledged if cursor else ()
    loss = _first_loss([found for _, found in needed], position or _BEGINNING, acknowledged)
    if loss is not None:
        may_be_empty = any(
            found.condition is Condition.NEWEST_MISSING and found.ledger_id == loss.ledger_id
            for _, found in needed
        )
        return Reading(
            subscription,
            position,
            is_newest,
            Answer.BLOCKED if is_newest and not may_be_empty else Answer.POSSIBLY_BLOCKED,
            loss,
        )
    unknown = any(found.is_unknown or found.lost_more for _, found in needed)
    return Reading(
        subscription, position, is_newest, Answer.UNKNOWN if unknown else Answer.READABLE
    )


def _is_needed(ledger: DataLedger, position: Position) -> bool:
    last = ENTRY_ID_MAX if ledger.entries is None else ledger.entries - 1
    return Position(ledger.ledger_id, last) > position


def _first_loss(
    conditions: Iterable[LedgerCondition],
    position: Position,
    acknowledged: Sequence[tuple[Position, Position]],
) -> Position | None:
    """Return the first lost entry after `position` that is not acknowledged."""
    for found in conditions:
        if found.condition not in LOSSES:
            continue
        start = position.entry_id + 1 if found.ledger_id == position.ledger_id else 0
        for first, last in found.lost:
            at = _skip_acknowledged(
                Position(found.ledger_id, max(first, start)), last, acknowledged
            )
            if at is not None:
                return at
    return None


def _skip_acknowledged(
    at: Position, last: EntryId, acknowledged: Sequence[tuple[Position, Position]]
) -> Position | None:
    """Return the first position from `at` to `last` outside the ranges (lower, upper].

    The ranges ascend.
    """
    for lower, upper in sorted(acknowledged):
        if lower < at <= upper:
            if upper.ledger_id > at.ledger_id:
                return None
            at = Position(at.ledger_id, upper.entry_id + 1)
    return at if at.entry_id <= last else None
