"""Ledgers that Pulsar wrote and that nothing references: one finding on the cluster for all of
them.

Verified: the ledger names a topic of a namespace whose topics were all read, or that does not exist
at two looks. Neither that topic nor any other referenced it when the references were read before
the ledger, and again later. Only ledgers of messages and of cursors are decided: others may be
named by something that is not decoded. Not verified: whether another Pulsar shares the bookies.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote_plus

from auditor.model.finding import Finding, Kind
from auditor.model.identity import LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus
from auditor.model.reference_facts import OrphanedFacts, OrphansInNamespace
from auditor.model.topic import TopicName, TopicRecord, TopicStatus, Unread

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
    for one in seen:
        verdict = _is_orphan(one)
        undecided += verdict is None
        orphans += [one] if verdict else []
    if not orphans:
        return Orphans(None, (), undecided)
    ids = tuple(sorted(one.first.ledger_id for one in orphans))
    closed = [
        one.first.metadata.length
        for one in orphans
        if one.first.metadata and _is_closed(one.first.metadata)
    ]
    by_namespace = _by_namespace(orphans, known)
    facts = OrphanedFacts(
        ledgers=len(ids),
        some_ledgers=ids[:LEDGERS_NAMED_MAX],
        length_bytes=sum(closed),
        stored_bytes=sum(map(_stored_bytes, orphans)),
        without_length=len(ids) - len(closed),
        oldest_age_ms=max(now_ms - created_ms(one.first) for one in orphans),
        orphan_age_ms=orphan_age_ms,
        undecided=undecided,
        namespaces=len(by_namespace),
        some_namespaces=by_namespace[:NAMESPACES_NAMED_MAX],
        apart_ms=min(one.again.read_at_ms - one.first.read_at_ms for one in orphans if one.again),
    )
    return Orphans(Finding(Kind.LEDGER_ORPHANED, facts), ids, undecided)


def _by_namespace(
    orphans: Iterable[SeenOrphan], known: KnownTopics | None
) -> tuple[OrphansInNamespace, ...]:
    """Return the orphans of each namespace, the namespaces with the most bytes first."""
    found: dict[TopicName, list[SeenOrphan]] = {}
    for one in orphans:
        topic = topic_named_by(one.first.metadata) if one.first.metadata else None
        assert topic is not None, "can_decide is true of it"
        found.setdefault(topic._replace(local_name=""), []).append(one)
    counted = [
        OrphansInNamespace(
            namespace="/".join(filter(None, topic)),
            ledgers=len(mine),
            stored_bytes=sum(map(_stored_bytes, mine)),
            is_deleted=known is not None and known.is_deleted(topic),
        )
        for topic, mine in found.items()
    ]
    return tuple(sorted(counted, key=lambda one: (-one.stored_bytes, one.namespace)))


def _stored_bytes(one: SeenOrphan) -> int:
    """Return the bytes of all copies of a closed ledger; 0 if it is not closed."""
    metadata = one.first.metadata
    if metadata is None or not _is_closed(metadata):
        return 0
    return metadata.length * metadata.write_quorum


def _is_closed(metadata: LedgerMetadata) -> bool:
    return metadata.state is LedgerState.CLOSED


def _is_orphan(one: SeenOrphan) -> bool | None:
    """Return whether the second look confirms it; None if it could not read what that takes."""
    again, topic = one.again, one.topic
    if again is None or topic is None or topic.status is TopicStatus.UNREADABLE or topic.problems:
        return None
    if any(unread is Unread.UNKNOWN_FIELD for unread, _ in topic.unread):
        return None  # the unread field may name the ledger
    if again.status is RecordStatus.GONE:
        return False
    if again.stamp is None or one.first.stamp is None:
        return None
    is_same = again.stamp.czxid == one.first.stamp.czxid
    return is_same and not _references(topic, again.ledger_id)


def _references(topic: TopicRecord, ledger_id: LedgerId) -> bool:
    """Return whether a topic names the ledger anywhere, even as deleted from BookKeeper."""
    data = (
        {one.ledger_id for one in topic.managed_ledger.ledgers} if topic.managed_ledger else set()
    )
    cursors = [one.cursor for one in topic.subscriptions if one.cursor is not None]
    others = {
        found
        for one in cursors
        for found in (one.ledger_id, one.compacted_ledger_id, *one.delayed_ledger_ids)
    }
    return ledger_id in data | others or any(
        ledger_id == one.position.ledger_id for one in topic.schemas
    )
