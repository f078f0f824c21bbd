"""Both checkers state the same facts and the same doubts about what topics reference, for any two
looks.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from support.topics import closed

from auditor.evidence.reference_rows import reference_rows
from auditor.evidence.schemas import REFERENCES
from auditor.first_checker.references import Judged, SeenReference, judge_reference
from auditor.first_checker.topic_uses import pair_uses
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus, ZnodeStamp
from auditor.model.topic import (
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    SchemaVersion,
    Subscription,
    TopicName,
    TopicRecord,
    TopicStatus,
)
from auditor.second_checker.references import LedgerLook, TopicRow, reference_facts
from auditor.second_checker.unknown_references import Doubt, doubt_about

PARTS, STORIES = 8, 200
FOUND_MIN = 10
"""Minimum number of stories of each part with a finding, with nothing, and with an unknown."""
LEDGER = 7
OPEN = LedgerMetadata(3, LedgerState.OPEN, 1, 1, 1, None, 0, ())
ENDS = (-1, 0, 8, 8, 8, 9, 11)


def drawn_data(draw: random.Random) -> ManagedLedger:
    """Return ledgers of a topic, most of them with a record of their entries."""
    ledgers = []
    for ledger_id in sorted(draw.sample(range(5, 10), draw.randint(0, 4))):
        recorded = closed(
            ledger_id,
            draw.choice((0, 9, 10, 13)),
            offloaded=draw.random() < 0.1,
            deleted=draw.random() < 0.1,
        )
        ledgers.append(DataLedger(ledger_id) if draw.random() < 0.2 else recorded)
    end = Position(draw.randint(6, 8), draw.choice((-1, 9, 12))) if draw.random() < 0.2 else None
    return ManagedLedger(tuple(ledgers), end)


def drawn_topic(draw: random.Random, name: str) -> TopicRecord:
    subscriptions = tuple(
        Subscription(
            subscription,
            Cursor(
                draw.choice((None, 6, LEDGER, 12)),
                draw.choice((None, Position(5, 3))),
                (),
                draw.choice((None, 6, LEDGER)),
            ),
        )
        for subscription in draw.sample("stu", draw.randint(0, 2))
    )
    places = [
        Position(draw.randint(6, 8), draw.randrange(14)) for _ in range(draw.choice((0, 0, 1, 3)))
    ]
    schemas = tuple(SchemaVersion(version, place) for version, place in enumerate(places))
    return TopicRecord(
        TopicName("t", "", "n", name),
        5,
        TopicStatus.FOUND,
        drawn_data(draw),
        subscriptions,
        schemas,
    )


def drawn_again(draw: random.Random, first: TopicRecord) -> TopicRecord | None:
    """Return the topic at the second look: mostly unchanged."""
    other = drawn_topic(draw, first.topic.local_name)
    shut = replace(other, problems=("a cursor is shut",))
    gone = TopicRecord(first.topic, 5, TopicStatus.MISSING)
    return draw.choice(
        (
            first,
            first,
            first,
            first,
            replace(first, managed_ledger=other.managed_ledger),
            other,
            shut,
            gone,
            None,
        )
    )


def drawn_ledger(draw: random.Random, look: int, read_at_ms: int) -> LedgerRecord:
    """Return the ledger at one look: gone, open, closed somewhere, or not read."""
    end = draw.choice(ENDS)
    whole = replace(OPEN, state=LedgerState.CLOSED, last_entry_id=end, length=100 * end)
    metadata = draw.choice((whole, whole, OPEN))
    status = draw.choice(
        (*[RecordStatus.GONE] * 3, *[RecordStatus.FOUND] * 5, RecordStatus.UNREADABLE)
    )
    found = status is RecordStatus.FOUND
    return LedgerRecord(
        LEDGER,
        look,
        read_at_ms,
        status,
        ZnodeStamp(1, 0, 0) if found else None,
        metadata if found else None,
    )


def drawn_looks(draw: random.Random) -> tuple[LedgerRecord, LedgerRecord]:
    """Return two looks at the ledger, which mostly see the same."""
    first = drawn_ledger(draw, 1, 100)
    read_at_ms = 100 + draw.choice((999, 1_000, 1_500))
    again = (
        replace(first, look=2, read_at_ms=read_at_ms)
        if draw.random() < 0.85
        else drawn_ledger(draw, 2, read_at_ms)
    )
    return first, again


def row_values(record: TopicRecord, look: int) -> list[TopicRow]:
    """Return the rows of a topic, as the second checker has them."""
    rows = [dict(zip(REFERENCES.names, row, strict=True)) for row in reference_rows(record, look)]
    return [TopicRow(**{name: row[name] for name in TopicRow._fields}) for row in rows]


def seen_by_second(record: LedgerRecord) -> LedgerLook:
    metadata = record.metadata
    if metadata is None:
        return LedgerLook(record.read_at_ms, record.status.value)
    state, end, length = metadata.state.value, metadata.last_entry_id, metadata.length
    return LedgerLook(record.read_at_ms, record.status.value, state, end, length)


@pytest.mark.parametrize("part", range(PARTS))
def test_both_checkers_know_and_do_not_know_the_same_of_referenced_ledgers(part: int) -> None:
    """Topics change between the looks, in every role, with ledgers that are gone, truncated or
    complete.
    """
    found: Counter[tuple[bool, Doubt | None]] = Counter()
    for seed in range(part * STORIES, (part + 1) * STORIES):
        draw = random.Random(f"references {seed}")
        topics = [
            (first, drawn_again(draw, first))
            for first in (drawn_topic(draw, name) for name in "yxz"[: draw.randint(1, 3)])
        ]
        looks = drawn_looks(draw)
        pairs = [pair_uses(first, again) for first, again in topics]
        uses = tuple(pair[LEDGER] for pair in pairs if LEDGER in pair)
        again = None if draw.random() < 0.1 else looks[1]
        seen = {
            one.look: seen_by_second(one) for one in looks if again is not None or one.look == 1
        }
        is_said = draw.random() < 0.5
        judged = judge_reference(SeenReference(LEDGER, looks[0], again, uses, is_said))
        rows = [
            row
            for both in topics
            if any(row.ledger_id == LEDGER for row in row_values(both[0], 1))
            for look, record in enumerate(both, 1)
            if record is not None
            for row in row_values(record, look)
        ]
        second = reference_facts(LEDGER, rows, seen)
        assert (None if judged.finding is None else judged.finding.facts) == second, seed
        doubt = doubt_about(LEDGER, rows, seen, is_said_elsewhere=is_said)
        assert doubt_of(judged) == doubt, seed
        found[second is not None, doubt] += 1
    assert found[True, None] >= FOUND_MIN <= found[False, None], found
    assert found[False, Doubt.UNKNOWN] >= FOUND_MIN, found


def doubt_of(judged: Judged) -> Doubt | None:
    """Return what the first checker does not know of a reference."""
    if judged.is_unknown:
        return Doubt.UNKNOWN
    return Doubt.OUTDATED if judged.is_outdated else None
