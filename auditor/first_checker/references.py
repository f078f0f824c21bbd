"""Ledgers that Pulsar's topics reference: missing, or cut short.

Verified: at two looks a topic referenced the ledger, and the znode of the ledger, read after the
reference, was missing or ended too early. A ledger that a broker trimmed meanwhile has no reference
at the second look, because the broker removes the reference first. A broker that deletes a topic
deletes its ledgers first: they have no reference if the deletion was over by then. Not verified:
who deleted or cut the ledger, and what long-term storage holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from auditor.first_checker.topic_uses import Use, UsesOfTopic
from auditor.model.finding import Finding, Kind
from auditor.model.identity import EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus
from auditor.model.reference_facts import (
    LOOKS_APART_MIN_MS,
    USES_SHOWN_MAX,
    MissingLedgerFacts,
    NewestMissingFacts,
    TruncatedLedgerFacts,
    UseFacts,
)
from auditor.model.topic import Position, Role


@dataclass(frozen=True, slots=True)
class SeenReference:
    """A ledger that topics reference, and those topics, at both looks.

    `again` is None if there was no second look. `is_counted`: the ledger's verdict already says
    that its metadata could not be read.
    """

    ledger_id: LedgerId
    first: LedgerRecord
    again: LedgerRecord | None
    topics: tuple[UsesOfTopic, ...]
    is_counted: bool = False


class Doubt(StrEnum):
    """Why it is unknown whether a referenced ledger is lost."""

    UNREAD = "unread"
    """It could not be read at some look."""
    MISSING = "missing"
    """One look did not find it, and the other look did not confirm that."""
    SHORT = "short"
    """At one look it ended before what a topic recorded, and the other look did not confirm
    that."""


class Judged(NamedTuple):
    """A finding on a referenced ledger, or why it is unknown whether there is one.

    `is_outdated`: only compacted ledgers of cursors in use are concerned. Every compaction leaves
    such ledgers behind.
    """

    finding: Finding | None = None
    doubt: Doubt | None = None
    is_outdated: bool = False

    @property
    def is_unknown(self) -> bool:
        return self.doubt is not None


NOTHING, OUTDATED = Judged(), Judged(is_outdated=True)
UNKNOWN_UNREAD, UNKNOWN_MISSING, UNKNOWN_SHORT = (Judged(doubt=doubt) for doubt in Doubt)


def judge_reference(seen: SeenReference) -> Judged:
    """Return the finding on a referenced ledger, by both looks."""
    judged = _judge_all_uses(seen)
    uses = [use for topic in seen.topics for use in (*topic.first, *topic.again) if use.can_be_lost]
    is_outdated = all(use.role is Role.COMPACTED and use.is_unsure for use in uses)
    return OUTDATED if judged.is_unknown and is_outdated else judged


def _judge_all_uses(seen: SeenReference) -> Judged:
    if seen.first.status is RecordStatus.GONE:
        return _judge_missing(seen)
    judged = NOTHING if _closed_metadata(seen.first) is None else _judge_truncated(seen)
    return _judge_once(seen) if judged is NOTHING else judged


def _judge_once(seen: SeenReference) -> Judged:
    """Return whether something is unknown of a ledger that the first look did not find missing."""
    again = seen.again
    if again is None or again.status is RecordStatus.GONE:
        unknown = UNKNOWN_UNREAD if again is None else UNKNOWN_MISSING
        return _if_used(seen, lambda use: use.can_be_lost, unknown)
    if again.status is not RecordStatus.FOUND:
        return (
            NOTHING
            if seen.is_counted
            else _if_used(seen, lambda use: use.can_be_lost, UNKNOWN_UNREAD)
        )
    end = last_entry(again)
    if end is None:
        return NOTHING
    return _if_used(
        seen, lambda use: use.can_be_lost and (use.entries or 0) > end + 1, UNKNOWN_SHORT
    )


def _if_used(seen: SeenReference, loses: Callable[[Use], bool], unknown: Judged) -> Judged:
    uses, is_unsure = _confirmed_uses(seen, loses)
    return unknown if uses or is_unsure else NOTHING


def _are_far_apart(first: LedgerRecord, again: LedgerRecord) -> bool:
    return again.read_at_ms - first.read_at_ms >= LOOKS_APART_MIN_MS


def last_entry(record: LedgerRecord) -> EntryId | None:
    """Return the end of a closed ledger; None if it is not closed or does not say."""
    metadata = _closed_metadata(record)
    return None if metadata is None else metadata.last_entry_id


def _closed_metadata(record: LedgerRecord) -> LedgerMetadata | None:
    metadata = record.metadata
    is_closed = (
        metadata is not None
        and metadata.state is LedgerState.CLOSED
        and metadata.last_entry_id is not None
    )
    return metadata if is_closed else None


def _judge_missing(seen: SeenReference) -> Judged:
    uses, is_unsure = _confirmed_uses(seen, lambda use: use.can_be_lost)
    lost = [use for use in uses if not use.is_unsure and not use.is_newest]
    newest = [use for use in uses if use.is_newest]
    if not uses and not is_unsure:
        return NOTHING
    if seen.again is None or seen.again.status is not RecordStatus.GONE or not (lost or newest):
        return UNKNOWN_MISSING
    if not _are_far_apart(seen.first, seen.again):
        return UNKNOWN_MISSING
    apart_ms = seen.again.read_at_ms - seen.first.read_at_ms
    if not lost:
        topics = len({use.topic for use in newest})
        newest_facts = NewestMissingFacts(topics, len(newest), _first_uses(newest), apart_ms)
        return Judged(Finding(Kind.NEWEST_LEDGER_MISSING, newest_facts, ledger_id=seen.ledger_id))
    entries = [use.entries for use in lost if use.role is Role.DATA and use.entries is not None]
    facts = MissingLedgerFacts(
        topics=len({use.topic for use in lost}),
        uses=len(lost),
        some_uses=_first_uses(lost),
        entries=max(entries, default=None),
        size_bytes=_largest_size(lost),
        apart_ms=apart_ms,
    )
    runs = ((0, facts.entries - 1),) if facts.entries else ()
    finding = Finding(
        Kind.REFERENCED_LEDGER_MISSING,
        facts,
        ledger_id=seen.ledger_id,
        entries=runs,
        entries_total=facts.entries or 0,
    )
    return Judged(finding)


def _judge_truncated(seen: SeenReference) -> Judged:
    before = last_entry(seen.first)
    assert before is not None
    if before < -1:  # no end: METADATA_MALFORMED reports it
        return NOTHING
    first_lost = before + 1
    uses, is_unsure = _confirmed_uses(
        seen, lambda use: use.can_be_lost and (use.entries or 0) > first_lost
    )
    again = None if seen.again is None else _closed_metadata(seen.again)
    if not uses and not is_unsure:
        return NOTHING
    if seen.again is None or again is None or again.last_entry_id != before or not uses:
        return UNKNOWN_SHORT
    if not _are_far_apart(seen.first, seen.again):
        return UNKNOWN_SHORT
    entries = max(use.entries for use in uses if use.entries is not None)
    facts = TruncatedLedgerFacts(
        last_entry_id=before,
        entries=entries,
        topics=len({use.topic for use in uses}),
        uses=len(uses),
        some_uses=_first_uses(_at_first_lost(uses, Position(seen.ledger_id, first_lost))),
        length_bytes=again.length,
        size_bytes=_largest_size(uses),
        apart_ms=seen.again.read_at_ms - seen.first.read_at_ms,
    )
    finding = Finding(
        Kind.LEDGER_TRUNCATED,
        facts,
        ledger_id=seen.ledger_id,
        entries=((first_lost, entries - 1),),
        entries_total=entries - first_lost,
    )
    return Judged(finding)


def _largest_size(uses: Iterable[Use]) -> int | None:
    """Return the largest size in bytes that a topic recorded, or None."""
    return max((use.size_bytes for use in uses if use.size_bytes is not None), default=None)


def _at_first_lost(uses: Iterable[Use], position: Position) -> list[Use]:
    """Return the uses; those of data have the position of the first lost entry."""
    return [use._replace(position=position) if use.role is Role.DATA else use for use in uses]


def _first_uses(uses: Iterable[Use]) -> tuple[UseFacts, ...]:
    """Return the uses with those of shadow topics last.

    The list that may be lost is in the znode of their source.
    """
    in_order = sorted(uses, key=lambda use: (use.shadow_source is not None, use.key))
    return tuple(
        UseFacts(use.topic, use.role, use.name, use.position, use.shadow_source)
        for use in in_order[:USES_SHOWN_MAX]
    )


def _confirmed_uses(seen: SeenReference, loses: Callable[[Use], bool]) -> tuple[list[Use], bool]:
    """Return the uses that lose something at both looks, as the second look has them.

    Also return whether a use may be among them that the second look could not read again.
    """
    found: list[Use] = []
    missed: list[bool] = []
    for topic in seen.topics:
        later = {use.key: use for use in topic.again}
        for use in filter(loses, topic.first):
            if use.key in later:
                found += filter(loses, [later[use.key]])
            else:
                missed.append(topic.may_miss)
    return found, any(missed)
