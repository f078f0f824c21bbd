"""What topics use ledgers for, as read at one look or at both.

`auditor.first_checker.references` judges ledgers by these uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from auditor.model.identity import LedgerId
from auditor.model.topic import (
    DataLedger,
    Position,
    Role,
    TopicName,
    TopicRecord,
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
    """

    topic: TopicName
    first: tuple[Use, ...]
    again: tuple[Use, ...]
    may_miss: bool


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
    may_miss = again is None or bool(again.problems)
    return {
        ledger_id: UsesOfTopic(first.topic, tuple(uses), tuple(later.get(ledger_id, ())), may_miss)
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
