"""What two looks prove of a subscription's position above the end of a closed ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.topics import NAME, closed

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import LEDGERS, LISTING, REFERENCES
from auditor.findings.reference_tables import suspect_ids
from auditor.findings.references import (
    NOTHING,
    UNKNOWN_MISSING,
    UNKNOWN_POSITION,
    UNKNOWN_SHORT,
    UNKNOWN_UNREAD,
    Judged,
    SeenReference,
    judge_reference,
    pair_uses,
)
from auditor.model.facts import LOOKS_APART_MIN_MS, Acknowledgement, PositionBeyondFacts
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus, ZnodeStamp
from auditor.model.topic import (
    Cursor,
    ManagedLedger,
    Position,
    Subscription,
    TopicName,
    TopicRecord,
    TopicStatus,
)
from auditor.pulsar.reference_rows import reference_rows

LEDGER = 5
LATER = 2 * LOOKS_APART_MIN_MS


def topic(
    mark: int | None = None, ranges: tuple[int, ...] = (), source: TopicName | None = None
) -> TopicRecord:
    """Return a topic with one subscription, by the entries of its positions in the ledger."""
    mark_delete = None if mark is None else Position(LEDGER, mark)
    acknowledged = tuple((Position(LEDGER, one - 1), Position(LEDGER, one)) for one in ranges)
    cursor = Cursor(None, mark_delete, acknowledged)
    managed = ManagedLedger((closed(LEDGER),), shadow_source=source)
    return TopicRecord(
        NAME, 5, TopicStatus.FOUND, managed, () if mark is None else (Subscription("s", cursor),)
    )


def ending(
    last: int | None, at_ms: int = 0, state: LedgerState = LedgerState.CLOSED
) -> LedgerRecord:
    metadata = LedgerMetadata(3, state, 1, 1, 1, last, 70, ())
    return LedgerRecord(LEDGER, 1, at_ms, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata)


def judge(
    first: TopicRecord,
    again: TopicRecord | None = None,
    now: LedgerRecord | None = None,
    before: LedgerRecord | None = None,
) -> Judged:
    """Judge the ledger, which ends at entry 9 unless `now` or `before` says otherwise."""
    uses = (pair_uses(first, again or first)[LEDGER],)
    return judge_reference(
        SeenReference(LEDGER, before or ending(9), now or ending(9, LATER), uses)
    )


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (topic(10), [("mark_delete", 10)]),
        (topic(3, (7, 12, 11)), [("range", 12)]),
        (topic(30, (31,)), [("mark_delete", 30), ("range", 31)]),
        (topic(9), []),
        (topic(-1), []),
        (topic(3, (9,)), []),
        (topic(10, source=NAME._replace(local_name="source")), []),
    ],
    ids=["mark", "range", "both", "at the end", "nothing yet", "range to the end", "shadow"],
)
def test_positions_above_the_end_are_found(
    first: TopicRecord, expected: list[tuple[str, int]]
) -> None:
    """A position at the last entry, or before the first one, is where a subscription stands that
    has acknowledged all or nothing.
    """
    judged = judge(first)
    if not expected:
        assert NOTHING == judged
        return
    assert isinstance(judged.finding, Finding)
    facts = judged.finding.facts
    assert isinstance(facts, PositionBeyondFacts)
    assert Kind.POSITION_BEYOND_END == judged.finding.kind
    shown = [(one.what.value, one.position.entry_id) for one in facts.some_positions]
    assert (9, 1, expected) == (facts.last_entry_id, facts.topics, shown)
    assert LATER == facts.apart_ms and len(expected) == facts.positions
    assert set(Acknowledgement) >= {one.what for one in facts.some_positions}


@pytest.mark.parametrize(
    ("again", "now", "expected"),
    [
        (topic(9), None, NOTHING),
        (topic(), None, NOTHING),
        (None, ending(10, LATER), NOTHING),
        (None, LedgerRecord(LEDGER, 2, LATER, RecordStatus.GONE), UNKNOWN_MISSING),
        (None, LedgerRecord(LEDGER, 2, LATER, RecordStatus.UNREADABLE), UNKNOWN_UNREAD),
        (None, ending(8, LATER), UNKNOWN_SHORT),
        (None, ending(9, LOOKS_APART_MIN_MS - 1), UNKNOWN_POSITION),
        (replace(topic(), problems=("shut",)), None, UNKNOWN_POSITION),
    ],
    ids=["moved", "deleted", "longer", "gone", "unreadable", "cut again", "at once", "not read"],
)
def test_one_look_accuses_nobody(
    again: TopicRecord | None, now: LedgerRecord | None, expected: Judged
) -> None:
    """What the second look does not confirm is no finding. What it could not read is unknown."""
    judged = judge(topic(10), again, now)
    assert expected == judged


def test_a_ledger_that_is_not_closed_has_no_end() -> None:
    is_open = ending(None, state=LedgerState.OPEN)
    assert NOTHING == judge(topic(10), before=is_open, now=replace(is_open, read_at_ms=LATER))


@pytest.mark.parametrize(
    ("record", "expected"),
    [(topic(10), [LEDGER]), (topic(3, (7, 10)), [LEDGER]), (topic(9, (9,)), []), (topic(), [])],
)
def test_ledgers_with_such_positions_are_looked_at_again(
    tmp_path: Path, record: TopicRecord, expected: list[int]
) -> None:
    """They are found in columns, without a value for each reference."""
    run = place(str(tmp_path))
    run.write_table("evidence/listing", table(LISTING, [(LEDGER,)]), "all")
    run.write_table("evidence/references", table(REFERENCES, reference_rows(record, 1)), "first")
    run.write_table("evidence/ledgers", table(LEDGERS, [ledger_row(ending(9))]), "first")
    assert expected == suspect_ids(run).tolist()
