"""Ledgers and Pulsar's topics: missing, cut short, or written by Pulsar and referenced by nothing.

Verified: at two looks a topic referenced the ledger, and the znode of the ledger, read after the
reference, was missing or ended too early. A ledger that a broker trimmed meanwhile has no reference
at the second look, because the broker removes the reference first. A broker that deletes a topic
deletes its ledgers first: they have no reference if the deletion was over by then. Not verified:
who deleted or cut the ledger, and what long-term storage holds.

Ledgers that nothing references (orphans) are one finding on the cluster for all of them. Verified:
the ledger names a topic of a namespace whose topics were all read, or that does not exist at two
looks. Neither that topic nor any other referenced it when the references were read before the
ledger, and again later. Only ledgers of messages and of cursors are decided: others may be named by
something that is not decoded. Not verified: whether another Pulsar shares the bookies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple
from urllib.parse import unquote_plus

from auditor.model.facts import (
    LOOKS_APART_MIN_MS,
    USES_SHOWN_MAX,
    Acknowledgement,
    MissingLedgerFacts,
    NewestMissingFacts,
    OrphanedFacts,
    OrphansInNamespace,
    OrphansOfTopic,
    OrphansOnBookie,
    PositionBeyondFacts,
    PositionFacts,
    TruncatedLedgerFacts,
    UseFacts,
)
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus
from auditor.model.topic import (
    DataLedger,
    Position,
    Role,
    TopicName,
    TopicRecord,
    TopicStatus,
    Unread,
    schema_ledgers,
)


class Use(NamedTuple):
    """What a topic uses a ledger for, as read at one look.

    `entries` is how many entries it must have, None if that was not recorded. `is_elsewhere`: a
    whole copy is in long-term storage. `is_unsure`: a reference without the ledger proves nothing.
    `is_newest`: the topic still writes to the ledger, or has not recorded yet what it holds.
    `shadow_source`: for a shadow topic, the source whose list names the ledger.
    """

    topic: str
    role: Role
    name: str
    entries: int | None
    size_bytes: int | None
    position: Position | None
    is_elsewhere: bool = False
    is_unsure: bool = False
    is_newest: bool = False
    shadow_source: str | None = None

    @property
    def key(self) -> tuple[str, Role, str]:
        """The properties that do not change while the topic needs the ledger."""
        return self.topic, self.role, self.name

    @property
    def can_be_lost(self) -> bool:
        """Whether the topic loses something if the ledger is gone."""
        return not self.is_elsewhere and self.entries != 0


class UsesOfTopic(NamedTuple):
    """What one topic uses one ledger for, at both looks.

    `may_miss`: the second look may have missed uses, because it could not read all of the topic.
    `positions` and `positions_again` are those of its subscriptions in the ledger.
    """

    topic: TopicName
    first: tuple[Use, ...]
    again: tuple[Use, ...]
    may_miss: bool
    positions: tuple[PositionFacts, ...] = ()
    positions_again: tuple[PositionFacts, ...] = ()


def positions_by_ledger(record: TopicRecord) -> dict[LedgerId, tuple[PositionFacts, ...]]:
    """Return the positions of a topic's subscriptions in each ledger: what is acknowledged in full,
    and the highest of the ranges. A shadow topic has none: its positions are its source's.
    """
    found: dict[LedgerId, list[PositionFacts]] = {}
    if record.managed_ledger is None or record.managed_ledger.shadow_source is not None:
        return {}
    for subscription in record.subscriptions:
        cursor = subscription.cursor
        ranges: dict[LedgerId, Position] = {}
        for _, upper in cursor.acknowledged if cursor else ():
            ranges[upper.ledger_id] = max(upper, ranges.get(upper.ledger_id, upper))
        mark = cursor.mark_delete if cursor else None
        for what, position in (
            *((Acknowledgement.MARK_DELETE, one) for one in (mark,) if one is not None),
            *((Acknowledgement.RANGE, one) for one in ranges.values()),
        ):
            facts = PositionFacts(str(record.topic), subscription.name, what, position)
            found.setdefault(position.ledger_id, []).append(facts)
    return {ledger_id: tuple(positions) for ledger_id, positions in found.items()}


def uses_by_ledger(record: TopicRecord) -> dict[LedgerId, list[Use]]:
    """Return what a topic uses each ledger for."""
    found: dict[LedgerId, list[Use]] = {}
    for ledger_id, use in _uses(record):
        found.setdefault(ledger_id, []).append(use)
    return found


def pair_uses(first: TopicRecord, again: TopicRecord | None) -> dict[LedgerId, UsesOfTopic]:
    """Return what a topic uses each ledger for at the first look, with the same use at the second.

    `again` is None if the topic was not read again.
    """
    later = {} if again is None else uses_by_ledger(again)
    positions = positions_by_ledger(first)
    positions_later = {} if again is None else positions_by_ledger(again)
    may_miss = again is None or bool(again.problems)
    return {
        ledger_id: UsesOfTopic(
            first.topic,
            tuple(uses),
            tuple(later.get(ledger_id, ())),
            may_miss,
            positions.get(ledger_id, ()),
            positions_later.get(ledger_id, ()),
        )
        for ledger_id, uses in uses_by_ledger(first).items()
    }


def _uses(record: TopicRecord) -> Iterator[tuple[LedgerId, Use]]:
    topic, managed = str(record.topic), record.managed_ledger
    for ledger in managed.ledgers_with_ends if managed else ():
        assert managed is not None
        is_newest = managed.ledgers[-1].ledger_id == ledger.ledger_id
        source = None if managed.shadow_source is None else str(managed.shadow_source)
        use = _use_of_data(topic, ledger, is_newest=is_newest)
        yield ledger.ledger_id, use._replace(shadow_source=source)
    for subscription in record.subscriptions:
        cursor = subscription.cursor
        if cursor is not None and cursor.ledger_id is not None:
            use = Use(topic, Role.CURSOR, subscription.name, None, None, cursor.mark_delete)
            yield cursor.ledger_id, use
        if cursor is not None and cursor.compacted_ledger_id is not None:
            # While the cursor has a ledger, a newer compacted ledger may be named in it.
            is_unsure = cursor.ledger_id is not None
            use = Use(topic, Role.COMPACTED, subscription.name, None, None, cursor.mark_delete)
            yield cursor.compacted_ledger_id, use._replace(is_unsure=is_unsure)
        if cursor is not None:
            use = Use(topic, Role.DELAYED, subscription.name, None, None, cursor.mark_delete)
            yield from ((ledger_id, use) for ledger_id in cursor.delayed_ledger_ids)
    for ledger_id, schema in schema_ledgers(record).items():
        assert schema.entries is not None
        last = Position(ledger_id, schema.entries - 1)
        yield ledger_id, Use(topic, Role.SCHEMA, "", schema.entries, None, last)


def _use_of_data(topic: str, ledger: DataLedger, *, is_newest: bool) -> Use:
    return Use(
        topic,
        Role.DATA,
        "",
        ledger.entries,
        ledger.size_bytes,
        Position(ledger.ledger_id, 0),
        is_elsewhere=ledger.offloaded or ledger.bookkeeper_deleted,
        is_newest=is_newest and ledger.entries is None,
    )


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
    POSITION = "position"
    """At one look it ended before a position of a subscription, and the other look did not confirm
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
UNKNOWN_UNREAD, UNKNOWN_MISSING, UNKNOWN_SHORT, UNKNOWN_POSITION = (
    Judged(doubt=doubt) for doubt in Doubt
)


def judge_reference(seen: SeenReference) -> Judged:
    """Return the finding on a referenced ledger, by both looks."""
    judged = _judge_all_uses(seen)
    if judged is NOTHING:
        return _judge_positions(seen)
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


def _judge_positions(seen: SeenReference) -> Judged:
    """Return the finding on positions above the end of a closed ledger, by both looks.

    A position at the last entry, or before the first one (entry -1), is where a subscription
    stands that has acknowledged all, or nothing, of the ledger.
    """
    end = last_entry(seen.first)
    if end is None or end < -1:  # no end: METADATA_MALFORMED reports it
        return NOTHING
    first = [
        (topic, one)
        for topic in seen.topics
        for one in topic.positions
        if one.position.entry_id > end
    ]
    if not first:
        return NOTHING
    again, end_again = seen.again, None if seen.again is None else last_entry(seen.again)
    if again is not None and again.status is RecordStatus.GONE:
        return NOTHING
    if again is None or end_again is None:
        return UNKNOWN_POSITION
    found: list[PositionFacts] = []
    is_unsure = False
    for topic, before in first:
        now = [
            one
            for one in topic.positions_again
            if (one.subscription, one.what) == (before.subscription, before.what)
        ]
        is_unsure = is_unsure or (topic.may_miss and not now)
        found += [one for one in now if one.position.entry_id > end_again]
    if not found:
        return UNKNOWN_POSITION if is_unsure else NOTHING
    if end_again != end or not _are_far_apart(seen.first, again):
        return UNKNOWN_POSITION
    facts = PositionBeyondFacts(
        last_entry_id=end,
        topics=len({one.topic for one in found}),
        positions=len(found),
        some_positions=tuple(
            sorted(found, key=lambda one: (one.topic, one.subscription, one.what))[:USES_SHOWN_MAX]
        ),
        apart_ms=again.read_at_ms - seen.first.read_at_ms,
    )
    return Judged(Finding(Kind.POSITION_BEYOND_END, facts, ledger_id=seen.ledger_id))


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


NAMESPACES_NAMED_MAX = 20
"""At most this many namespaces are named in the finding, those with the most bytes. The others are
counted."""
LEDGERS_NAMED_MAX = 20
"""At most this many ledgers are named in the finding. The others are counted, and a file of the run
has all of them."""
_SYSTEM_NAMESPACE = ("pulsar", "", "system")
"""The namespace of the logs of transactions, which name ledgers in values that are not decoded."""


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """The namespaces whose topics were all read, and whether topics may have been missed.

    A namespace is a topic's name without its last part. `lone_partitions` are partitions that
    Pulsar names and that have no znode: their ledgers may be all that is left of them. `present`
    are the namespaces that exist, as `tenant/namespace`, or `tenant/cluster` for those named as
    before Pulsar 2.0; None if that is not known.
    """

    namespaces: Set[tuple[str, ...]]
    doubtful: Set[tuple[str, ...]]
    is_blind: bool = False
    lone_partitions: Set[TopicName] = frozenset()
    present: Set[str] | None = None

    def is_deleted(self, topic: TopicName) -> bool:
        """Return whether a topic's namespace has no policies, managed ledgers or partitioned
        topics.
        """
        first_two = "/".join([part for part in topic[:-1] if part][:2])
        return self.present is not None and first_two not in self.present

    def is_read(self, topic: TopicName) -> bool:
        """Return whether all topics in the namespace of a topic were read, or there are none."""
        namespace = topic[:-1]
        if namespace in self.doubtful:
            return False
        is_empty = self.present is not None and not topic.cluster
        return namespace in self.namespaces or self.is_deleted(topic) or is_empty


class SeenOrphan(NamedTuple):
    """A ledger to which the first look found no reference, and what the second look saw.

    `topic` is the topic that the ledger names, as the second look read it.
    """

    first: LedgerRecord
    again: LedgerRecord | None = None
    topic: TopicRecord | None = None


class Orphans(NamedTuple):
    """The finding, its ledgers ascending, and how many ledgers could not be decided."""

    finding: Finding | None
    ledger_ids: tuple[LedgerId, ...]
    undecided: int


def is_pulsars(metadata: LedgerMetadata | None) -> bool:
    """Return whether the custom metadata says that Pulsar wrote the ledger."""
    return metadata is not None and dict(metadata.custom_metadata).get("application") == b"pulsar"


def topic_named_by(metadata: LedgerMetadata) -> TopicName | None:
    """Return the topic that a ledger of messages or of a cursor names, None for other ledgers."""
    custom = dict(metadata.custom_metadata)
    if custom.get("component") != b"managed-ledger":
        return None
    parts = custom.get("pulsar/managed-ledger", b"").decode("utf-8", "replace").split("/")
    if len(parts) not in (4, 5) or parts[-2] != "persistent" or not all(parts):
        return None
    tenant, *cluster, namespace = parts[:-2]
    return TopicName(tenant, cluster[0] if cluster else "", namespace, unquote_plus(parts[-1]))


def created_ms(record: LedgerRecord) -> int:
    """Return when a ledger was created: by its metadata, else by its znode."""
    by_metadata = record.metadata.ctime_ms if record.metadata else None
    return by_metadata if by_metadata is not None else record.stamp.ctime_ms if record.stamp else 0


def is_old(record: LedgerRecord, now_ms: int, orphan_age_ms: int) -> bool:
    """Return whether the ledger is old enough for its reference to have been written."""
    return now_ms - created_ms(record) > orphan_age_ms


def can_decide(record: LedgerRecord, known: KnownTopics) -> bool:
    """Return whether the ledger may be an orphan, by the first look alone."""
    topic = None if record.metadata is None else topic_named_by(record.metadata)
    if topic is None or known.is_blind or topic in known.lone_partitions:
        return False
    return known.is_read(topic) and topic[:-1] != _SYSTEM_NAMESPACE


def judge_orphans(
    seen: Iterable[SeenOrphan],
    now_ms: int,
    orphan_age_ms: int,
    undecided: int = 0,
    known: KnownTopics | None = None,
) -> Orphans:
    """Return the finding on the cluster, if any ledger is an orphan.

    `seen` are ledgers that are old enough and that `can_decide` accepts. `undecided` is the number
    of further ledgers that cannot be decided. `known` says which namespaces exist.
    """
    orphans: list[SeenOrphan] = []
    for orphan in seen:
        verdict = _is_orphan(orphan)
        undecided += verdict is None
        orphans += [orphan] if verdict else []
    if not orphans:
        return Orphans(None, (), undecided)
    ids = tuple(sorted(orphan.first.ledger_id for orphan in orphans))
    closed = [
        orphan.first.metadata.length
        for orphan in orphans
        if orphan.first.metadata and _is_closed(orphan.first.metadata)
    ]
    by_namespace, by_topic = _by_namespace(orphans, known), _by_topic(orphans)
    by_bookie = _by_bookie(orphans)
    facts = OrphanedFacts(
        ledgers=len(ids),
        some_ledgers=ids[:LEDGERS_NAMED_MAX],
        length_bytes=sum(closed),
        stored_bytes=sum(map(_stored_bytes, orphans)),
        without_length=len(ids) - len(closed),
        oldest_age_ms=max(now_ms - created_ms(orphan.first) for orphan in orphans),
        orphan_age_ms=orphan_age_ms,
        undecided=undecided,
        namespaces=len(by_namespace),
        some_namespaces=by_namespace[:NAMESPACES_NAMED_MAX],
        topics=len(by_topic),
        some_topics=by_topic[:NAMESPACES_NAMED_MAX],
        bookies=len(by_bookie),
        some_bookies=by_bookie[:NAMESPACES_NAMED_MAX],
        apart_ms=min(
            orphan.again.read_at_ms - orphan.first.read_at_ms for orphan in orphans if orphan.again
        ),
    )
    return Orphans(Finding(Kind.LEDGER_ORPHANED, facts), ids, undecided)


def _by_namespace(
    orphans: Iterable[SeenOrphan], known: KnownTopics | None
) -> tuple[OrphansInNamespace, ...]:
    """Return the orphans of each namespace, the namespaces with the most bytes first."""
    found: dict[TopicName, list[SeenOrphan]] = {}
    for orphan in orphans:
        topic = topic_named_by(orphan.first.metadata) if orphan.first.metadata else None
        assert topic is not None, "can_decide is true of it"
        found.setdefault(topic._replace(local_name=""), []).append(orphan)
    counted = [
        OrphansInNamespace(
            namespace="/".join(filter(None, topic)),
            ledgers=len(mine),
            stored_bytes=sum(map(_stored_bytes, mine)),
            is_deleted=known is not None and known.is_deleted(topic),
        )
        for topic, mine in found.items()
    ]
    return tuple(sorted(counted, key=lambda counted: (-counted.stored_bytes, counted.namespace)))


def _by_topic(orphans: Iterable[SeenOrphan]) -> tuple[OrphansOfTopic, ...]:
    """Return the orphans of each topic, the topics with the most bytes first."""
    found: dict[str, list[SeenOrphan]] = {}
    for orphan in orphans:
        topic = topic_named_by(orphan.first.metadata) if orphan.first.metadata else None
        found.setdefault(str(topic), []).append(orphan)
    counted = [
        OrphansOfTopic(topic, len(mine), sum(map(_stored_bytes, mine)))
        for topic, mine in found.items()
    ]
    return tuple(sorted(counted, key=lambda counted: (-counted.stored_bytes, counted.topic)))


def _by_bookie(orphans: Iterable[SeenOrphan]) -> tuple[OrphansOnBookie, ...]:
    """Return the orphans that name each bookie, the bookies with the most bytes first."""
    ledgers: Counter[BookieId] = Counter()
    sizes: Counter[BookieId] = Counter()
    for orphan in orphans:
        metadata = orphan.first.metadata
        if metadata is None:
            continue
        ledgers.update({bookie for segment in metadata.segments for bookie in segment.ensemble})
        for bookie, part in _parts(metadata):
            sizes[bookie] += (part.numerator << PART_BITS) // part.denominator
    counted = [
        OrphansOnBookie(bookie, ledgers[bookie], (sizes[bookie] + HALF_PART) >> PART_BITS)
        for bookie in ledgers
    ]
    return tuple(sorted(counted, key=lambda counted: (-counted.estimated_bytes, counted.bookie_id)))


PART_BITS = 20
"""Shares of ledgers are summed in units of 2**-20 bytes. The denominator of an exact sum is as long
as the list of ledgers, and the time for it grows with the square of their number."""
HALF_PART = 1 << (PART_BITS - 1)


def _parts(metadata: LedgerMetadata) -> Iterator[tuple[BookieId, Fraction]]:
    """Yield the part of a closed ledger's bytes that each bookie of each segment holds, if all
    entries have the same size.
    """
    entries = 0 if metadata.last_entry_id is None else metadata.last_entry_id + 1
    if not _is_closed(metadata) or entries < 1 or not metadata.segments:
        return
    starts = [segment.first_entry_id for segment in metadata.segments]
    for segment, end in zip(metadata.segments, [*starts[1:], entries], strict=True):
        held = max(0, min(end, entries) - segment.first_entry_id)
        copies = Fraction(metadata.length * held * metadata.write_quorum, entries)
        for bookie in segment.ensemble:
            yield bookie, copies / len(segment.ensemble)


def _stored_bytes(orphan: SeenOrphan) -> int:
    """Return the bytes of all copies of a closed ledger; 0 if it is not closed."""
    metadata = orphan.first.metadata
    if metadata is None or not _is_closed(metadata):
        return 0
    return metadata.length * metadata.write_quorum


def _is_closed(metadata: LedgerMetadata) -> bool:
    return metadata.state is LedgerState.CLOSED


def _is_orphan(orphan: SeenOrphan) -> bool | None:
    """Return whether the second look confirms it; None if it could not read what that takes."""
    again, topic = orphan.again, orphan.topic
    if again is None or topic is None or topic.status is TopicStatus.UNREADABLE or topic.problems:
        return None
    if any(unread is Unread.UNKNOWN_FIELD for unread, _ in topic.unread):
        return None  # the unread field may name the ledger
    if again.status is RecordStatus.GONE:
        return False
    if again.stamp is None or orphan.first.stamp is None:
        return None
    is_same = again.stamp.czxid == orphan.first.stamp.czxid
    return is_same and not _references(topic, again.ledger_id)


def _references(topic: TopicRecord, ledger_id: LedgerId) -> bool:
    """Return whether a topic names the ledger anywhere, even as deleted from BookKeeper."""
    data = (
        {ledger.ledger_id for ledger in topic.managed_ledger.ledgers}
        if topic.managed_ledger
        else set()
    )
    cursors = [
        subscription.cursor
        for subscription in topic.subscriptions
        if subscription.cursor is not None
    ]
    others = {
        ledger
        for cursor in cursors
        for ledger in (cursor.ledger_id, cursor.compacted_ledger_id, *cursor.delayed_ledger_ids)
    }
    return ledger_id in data | others or any(
        ledger_id == schema.position.ledger_id for schema in topic.schemas
    )
