"""Audit all ledgers of a few topics without Spark: references, then ledgers, then suspects
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from auditor.bookie.address_table import AddressTable
from auditor.clock import now_ms
from auditor.errors import StoreUnavailable
from auditor.judging.settle import Step
from auditor.model.availability import Greeting
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerRecord, LedgerState, RecordStatus
from auditor.model.topic import TopicName, TopicRecord, TopicStatus, references, schema_ledgers
from auditor.model.verdict import Standing, Unknown, Verdict
from auditor.pulsar.readability import (
    Seen,
    TopicReadability,
    doubt_unregistered,
    is_gone,
    is_truncated,
    judge_topic,
)
from auditor.pulsar.topic_store import Partitions, TopicStore, partitions_of
from auditor.run.single_ledgers import Asker, audit_ledgers
from auditor.stages.asking import Directory, list_asker


@dataclass(frozen=True, slots=True)
class AuditedTopics:
    """Each topic's readability, and the ledgers that were judged for them, ascending.

    Ledgers without metadata, and those that no topic references any more, are left out of `judged`.
    """

    topics: tuple[TopicReadability, ...]
    judged: tuple[tuple[LedgerEvidence, Step], ...]


def find_topics(topics: TopicStore, named: Iterable[TopicName], asker: Asker) -> list[TopicRecord]:
    """Return the references of each topic, or of its partitions if it has no ledgers of its own.

    A topic whose partitions cannot be listed is unreadable.
    """
    records: dict[TopicName, TopicRecord] = {}
    for record in list(topics.read(named, now_ms)):
        names, problems = _partitions(topics, record)
        if problems:
            records[record.topic] = replace(
                record, status=TopicStatus.UNREADABLE, problems=(*record.problems, *problems)
            )
        for record in topics.read(names, now_ms):
            records[record.topic] = record
        if not names:
            records.setdefault(record.topic, record)
    return list(records.values())


def _partitions(topics: TopicStore, record: TopicRecord) -> Partitions:
    """Return the partitions of a topic without ledgers of its own, also those without a znode."""
    if record.status is not TopicStatus.MISSING:
        return Partitions((), ())
    try:
        return partitions_of(topics, record.topic)
    except StoreUnavailable as error:
        return Partitions((), (str(error),))


def audit_topics(
    asker: Asker, topics: TopicStore, named: Iterable[TopicName], terms: Terms
) -> AuditedTopics:
    """Return what can be read of each topic.

    A broker that trims removes a reference before it deletes the ledger; one that deletes the topic
    does not. A ledger counts as missing or truncated if it is so at two looks, and the topic
    references it at both. Raises StoreUnavailable.
    """
    topics.sync()
    records = find_topics(topics, named, asker)
    asker.store.sync()
    ids = sorted({reference.ledger_id for record in records for reference in references(record)})
    judged = audit_ledgers(asker, ids, terms) if ids else []
    seen = {
        evidence.ledger_id: (evidence.looks[-1].record, doubt_unregistered(evidence, step.verdict))
        for evidence, step in judged
    }
    suspects = {record.topic: _suspects(record, seen) for record in records}
    withdrawn: dict[TopicName, frozenset[LedgerId]] = {}
    if any(suspects.values()):
        once = {evidence.ledger_id for evidence, _ in judged if not _is_seen_twice(evidence)}
        if any(ids & once for ids in suspects.values()):
            asker.context.stop.wait(asker.context.settings.second_look_delay_ms / 1000)
        records, withdrawn = _read_suspects_again(asker, topics, records, suspects, seen)
    answering = _answering_bookies(asker, seen, terms)
    readable = tuple(
        judge_topic(record, seen, withdrawn.get(record.topic, frozenset()), answering)
        for record in records
    )
    needed = {ledger.ledger_id for topic in readable for ledger in topic.conditions}
    kept = tuple(
        pair
        for pair in judged
        if pair[0].ledger_id in needed and not is_gone(seen[pair[0].ledger_id])
    )
    return AuditedTopics(readable, kept)


def _answering_bookies(
    asker: Asker, seen: Mapping[LedgerId, Seen], terms: Terms
) -> frozenset[BookieId]:
    """Return the registered bookies without those that do not answer a greeting now.

    Only bookies of the last ensembles of ledgers that are not closed are greeted: a broker asks
    these to recover the ledger.
    """
    registered = terms.around.writable | terms.around.readonly
    needed = {
        bookie
        for record, _ in seen.values()
        if record.metadata is not None
        and record.metadata.state is not LedgerState.CLOSED
        and record.metadata.segments
        for bookie in record.metadata.segments[-1].ensemble
    }
    return registered - _silent_bookies(asker, needed & registered)


def _silent_bookies(asker: Asker, bookies: Set[BookieId]) -> frozenset[BookieId]:
    """Greet these bookies, and return those that gave no answer."""
    addresses = AddressTable.from_records(asker.store.bookies(1, now_ms)).addresses
    directory = Directory({bookie: addresses.get(bookie) for bookie in bookies}, frozenset())
    greet = list_asker(directory, asker.context.settings.bookie_limits(), 1)
    rows = [row for batch in greet(iter([directory.greetings()])) for row in batch.to_pylist()]
    return frozenset(bookies - {row["bookie_id"] for row in rows if row["status"] in _ALIVE})


_ALIVE = {
    greeting.value for greeting in (Greeting.ANSWERED, Greeting.REFUSED, Greeting.UNSUPPORTED)
}
"""Greetings of a bookie that is up: it may serve other clients and refuse ours."""


def _suspects(record: TopicRecord, seen: Mapping[LedgerId, Seen]) -> frozenset[LedgerId]:
    """Return the ledgers of a topic that have no metadata, or whose metadata ends too early."""
    gone = {
        reference.ledger_id
        for reference in references(record)
        if is_gone(seen[reference.ledger_id])
    }
    data = record.managed_ledger.ledgers_with_ends if record.managed_ledger else ()
    ended = [
        *(ledger for ledger in data if not ledger.bookkeeper_deleted),
        *schema_ledgers(record).values(),
    ]
    return frozenset(
        gone
        | {ledger.ledger_id for ledger in ended if is_truncated(ledger, seen[ledger.ledger_id][0])}
    )


def _is_seen_twice(evidence: LedgerEvidence) -> bool:
    """Return whether the newest look saw the ledger like the first one."""
    return len(evidence.looks) > 1 and _is_same(evidence.looks[0].record, evidence.looks[-1].record)


def _is_same(one: LedgerRecord, other: LedgerRecord) -> bool:
    return (one.status, one.metadata) == (other.status, other.metadata)


def _read_suspects_again(
    asker: Asker,
    topics: TopicStore,
    records: Sequence[TopicRecord],
    suspects: Mapping[TopicName, frozenset[LedgerId]],
    seen: dict[LedgerId, Seen],
) -> tuple[list[TopicRecord], dict[TopicName, frozenset[LedgerId]]]:
    """Read each topic with suspects again, and then its suspects.

    Updates `seen` for ledgers that are not as before. Returns the records of all topics and, by
    topic, the suspects that the topic no longer references.
    """
    topics.sync()
    again = {
        record.topic: record
        for record in topics.read([name for name, ids in suspects.items() if ids], now_ms)
    }
    asker.store.sync()
    ids = sorted(frozenset().union(*suspects.values()))
    look = 1 + max(seen[ledger_id][0].look for ledger_id in ids)
    for record in asker.store.read_ledgers(ids, look, now_ms, with_marks=True):
        _settle_suspect(record, seen)
    withdrawn: dict[TopicName, frozenset[LedgerId]] = {}
    for name, later in again.items():
        dropped = suspects[name] - {reference.ledger_id for reference in references(later)}
        unread = _unread_references(later, dropped)
        withdrawn[name] = dropped - unread
        seen.update({ledger_id: _leave_unsettled(seen[ledger_id][0]) for ledger_id in unread})
    return [_merge_looks(record, again.get(record.topic)) for record in records], withdrawn


def _unread_references(later: TopicRecord, dropped: frozenset[LedgerId]) -> frozenset[LedgerId]:
    """Return the suspects that a topic may still reference although it seems to have dropped
    them.
    """
    return dropped if later.problems else frozenset()


def _settle_suspect(record: LedgerRecord, seen: dict[LedgerId, Seen]) -> None:
    """Merge the second look at a suspect: what changed between the looks is unknown."""
    before, _ = seen[record.ledger_id]
    if not _is_same(before, record):
        seen[record.ledger_id] = _leave_unsettled(record)


def _leave_unsettled(record: LedgerRecord) -> Seen:
    """Return a suspect on which the two looks disagree."""
    verdict = Verdict(record.ledger_id, Standing.INDETERMINATE, unknowns=(Unknown.UNSETTLED,))
    return replace(record, status=RecordStatus.UNREADABLE, metadata=None), verdict


def _merge_looks(record: TopicRecord, later: TopicRecord | None) -> TopicRecord:
    """Return a topic as it was first read, with the problems of both looks.

    A topic that is gone at the second look is returned as gone.
    """
    if later is None:
        return record
    if later.status is TopicStatus.MISSING:
        return later
    return replace(record, problems=tuple(dict.fromkeys((*record.problems, *later.problems))))
