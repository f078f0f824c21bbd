"""What the second checker does not know of references. Each ledger and count on which the first
checker disagrees is a difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest
from support.tables_in_memory import Tables
from support.topics import closed

from auditor.evidence.reference_rows import listing_problem_row, reference_rows
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, REFERENCES
from auditor.model.finding import Kind
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.model.topic import (
    Cursor,
    ManagedLedger,
    Position,
    SchemaVersion,
    Subscription,
    TopicRecord,
    TopicStatus,
)
from auditor.summary.references.unknown_reference_check import (
    DIFFERING_SHOWN_MAX,
    UnknownReferences,
    unknowns_differ,
)
from auditor.wire.topic_paths import parse_topic

JUDGED_MAX = 100
NOTHING = UnknownReferences((), (), 0, 0, 0)
WHOLE = LedgerMetadata(3, LedgerState.CLOSED, 3, 2, 2, 9, 100, (Segment(0, ("b1", "b2", "b3")),))
SHORT_BY_ONE = 11
"""Entries that a topic recorded for a ledger that has ten."""


def topic(*ledgers: int, entries: int = SHORT_BY_ONE) -> TopicRecord:
    managed = ManagedLedger(tuple(closed(one, entries) for one in ledgers))
    return TopicRecord(parse_topic("public/default/t"), 5, TopicStatus.FOUND, managed)


def ledger_at(ledger_id: int, look: int, status: RecordStatus = RecordStatus.FOUND) -> LedgerRecord:
    found = status is RecordStatus.FOUND
    stamp, metadata = (ZnodeStamp(1, 0, 0), WHOLE) if found else (None, None)
    return LedgerRecord(ledger_id, look, 1_000 * look, status, stamp, metadata)


def run(
    first: Iterable[TopicRecord],
    again: Iterable[TopicRecord],
    listed: Iterable[LedgerRecord] = (),
    read: Iterable[LedgerRecord] = (),
    problems: int = 0,
) -> Place:
    """Return the tables of a run: topics at both looks, the listed ledgers, and the ledgers read
    for their references. `problems` counts the failures to list topics.
    """
    made = Tables()
    rows = [row for one in first for row in reference_rows(one, 1)]
    rows += [row for one in again for row in reference_rows(one, 2)]
    rows += [listing_problem_row(1, 5, "shut")] * problems
    made.write_table("evidence/references", table(REFERENCES, rows), "all")
    for name, ledgers in (("ledgers", listed), ("referenced_ledgers", read)):
        made.write_table(f"evidence/{name}", table(LEDGERS, map(ledger_row, ledgers)), "all")
    return cast(Place, made)


def differences(place: Place, first: UnknownReferences = NOTHING) -> list[tuple[int | None, str]]:
    return [
        (one.ledger_id, one.detail.removeprefix("unknown references: "))
        for one in unknowns_differ(place, first, JUDGED_MAX)
    ]


GONE, SHUT = RecordStatus.GONE, RecordStatus.UNREADABLE
SHUT_TOPIC = TopicStatus.UNREADABLE
UNKNOWN = (7, "the first says known, the second unknown")


@pytest.mark.parametrize(
    ("listed", "read"),
    [
        ([], [ledger_at(7, 1, GONE)]),
        ([ledger_at(7, 1, SHUT), ledger_at(7, 2)], []),
        ([ledger_at(7, 1)], [ledger_at(7, 2, SHUT)]),
        ([ledger_at(7, 1)], []),
        ([ledger_at(7, 1), ledger_at(7, 2, GONE)], []),
    ],
)
def test_a_ledger_whose_loss_no_look_rules_out_is_unknown(
    listed: list[LedgerRecord], read: list[LedgerRecord]
) -> None:
    """It was not read twice, was found by only one look, or is truncated at one. The first checker
    must call it unknown.
    """
    place = run([topic(7)], [topic(7)], listed, read)
    assert [UNKNOWN] == differences(place)
    assert [] == differences(place, NOTHING._replace(unknown=(7,)))


def test_a_ledger_id_of_more_than_53_bits_is_not_rounded() -> None:
    """A float would have the id of another ledger."""
    ledger = 2**53 + 1
    place = run([topic(ledger)], [topic(ledger)], [], [ledger_at(ledger, 1, GONE)])
    assert [(ledger, UNKNOWN[1])] == differences(place)


def test_only_a_closed_ledger_has_an_end_that_may_be_too_early() -> None:
    """An open ledger goes on. One whose lastEntryId cannot be is malformed, as its verdict says."""
    still_open = replace(WHOLE, state=LedgerState.OPEN, last_entry_id=4)
    looks = [replace(ledger_at(7, look), metadata=still_open) for look in (1, 2)]
    assert [] == differences(run([topic(7)], [topic(7)], looks[:1], looks[1:]))
    impossible = replace(ledger_at(7, 1), metadata=replace(WHOLE, last_entry_id=-2))
    whole, shut = [topic(7, entries=10)], ledger_at(7, 2, SHUT)
    assert [] == differences(run(whole, whole, [impossible, shut], [shut]))


def test_the_newest_look_of_the_run_counts_whichever_row_comes_first() -> None:
    """A listed ledger that could not be read at the second look is unknown by its verdict."""
    whole, looks = [topic(7, entries=10)], [ledger_at(7, 1), ledger_at(7, 2, SHUT)]
    for listed in (looks, looks[::-1]):
        assert [] == differences(run(whole, whole, listed, [ledger_at(7, 2, SHUT)]))


def test_a_ledger_that_is_known_must_not_be_called_unknown() -> None:
    """It is whole, lost at both looks, in no topic any more, or in long-term storage.

    A listed ledger that could not be read is unknown by its verdict already.
    """
    whole = run(
        [topic(7, entries=10)], [topic(7, entries=10)], [ledger_at(7, 1)], [ledger_at(7, 2)]
    )
    lost = run([topic(7)], [topic(7)], [], [ledger_at(7, 1, GONE), ledger_at(7, 2, GONE)])
    dropped = run([topic(7)], [topic(8)], [], [ledger_at(7, 1, GONE), ledger_at(7, 2, GONE)])
    stored = replace(topic(), managed_ledger=ManagedLedger((closed(7, offloaded=True),)))
    offloaded = run([stored], [stored], [], [ledger_at(7, 1, GONE)])
    said = run([topic(7)], [topic(7)], [ledger_at(7, 1, SHUT)], [ledger_at(7, 2, SHUT)])
    for place in (whole, lost, dropped, offloaded, said):
        assert [] == differences(place)
        assert [(7, "the first says unknown, the second known")] == differences(
            place, NOTHING._replace(unknown=(7,))
        )


def test_the_ledger_of_an_earlier_compaction_is_outdated() -> None:
    """The compaction cursor has a ledger, which names the newest compacted ledger."""
    cursor = Subscription("__compaction", Cursor(8, Position(5, 2), (), 7))
    compacted = replace(topic(), subscriptions=(cursor,))
    place = run(
        [compacted], [compacted], [ledger_at(8, 1)], [ledger_at(7, 1, GONE), ledger_at(7, 2, GONE)]
    )
    assert [(7, "the first says known, the second outdated")] == differences(place)
    assert [] == differences(place, NOTHING._replace(outdated=(7,)))


def test_what_could_not_be_read_of_topics_is_counted_by_both() -> None:
    """A topic counts once, however much of it is unreadable. Each failure to list topics counts."""
    unread = replace(topic(), status=SHUT_TOPIC, managed_ledger=None, problems=("shut", "odd"))
    place = run([unread], [unread], problems=2)
    assert [] == differences(place, NOTHING._replace(unreadable=1, not_listed=2))
    assert [
        (None, "topics that could not be read: the first says 0, the second 1"),
        (None, "failures to list topics: the first says 0, the second 2"),
    ] == differences(place)


def test_no_difference_on_what_is_unknown_claims_a_withheld_finding() -> None:
    """Something unknown, on a ledger or in a count, is not a finding that could be withheld."""
    place = run([topic(7)], [topic(7)], [], [ledger_at(7, 1, GONE)], problems=1)
    found = unknowns_differ(place, NOTHING, JUDGED_MAX)
    assert [7, None] == [one.ledger_id for one in found]
    assert {(Kind.REFERENCED_LEDGER_MISSING, False)} == {
        (one.kind, one.is_withheld) for one in found
    }
    assert not any("withheld" in one.sentence for one in found)


def test_ledgers_that_are_not_judged_are_not_read_into_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A damaged cluster may have millions of them."""
    ids, judged = range(1, 10), 2
    place = run([topic(*ids)], [topic(*ids)], [], [ledger_at(one, 1, GONE) for one in ids])
    held: list[int] = []
    real = place.read_table

    def read_table(name: str, *more: Any) -> pa.Table:
        found = real(name, *more)
        held.extend(found["ledger_id"].to_pylist() if name.endswith("ledgers") else ())
        return found

    monkeypatch.setattr(place, "read_table", read_table)
    unknown = NOTHING._replace(unknown=(1, 2), more=len(ids) - judged)
    assert [] == unknowns_differ(place, unknown, judged)
    assert [1, 2] == sorted(held)


def test_many_differences_are_said_once_a_ledger_up_to_a_bound() -> None:
    """Only ledgers that a run judges are named. The number of others is compared too."""
    ids = range(1, JUDGED_MAX + 4)
    place = run([topic(*ids)], [topic(*ids)], [], [ledger_at(one, 1, GONE) for one in ids])
    found = differences(place)
    assert list(range(1, DIFFERING_SHOWN_MAX + 1)) == [one for one, _ in found[:-1]]
    assert (None, "ledgers not judged: the first says 0, the second 3") == found[-1]
    whole = NOTHING._replace(unknown=tuple(ids)[:JUDGED_MAX], more=3)
    assert [] == differences(place, whole)


def count_in_question(first: TopicRecord, again: TopicRecord) -> int:
    """Return 1 if ledger 7 is in question, else 0. It has ten entries at the first look."""
    place = run((first,), (again,), [ledger_at(7, 1)])
    (count,) = (n for n in (0, 1) if not unknowns_differ(place, NOTHING._replace(more=n), 0))
    return count


@pytest.mark.parametrize(("last", "expected"), [(9, 0), (10, 1)])
def test_an_end_of_a_topic_and_an_entry_of_a_schema_put_a_ledger_in_question(
    last: int, expected: int
) -> None:
    """The ledger must have that entry. Only what the first look read counts."""
    nothing, end = topic(), Position(7, last)
    ended = replace(nothing, managed_ledger=ManagedLedger((closed(7, 10),), end))
    with_schema = replace(nothing, schemas=(SchemaVersion(0, end),))
    for one in (ended, with_schema, topic(7, entries=last + 1)):
        assert expected == count_in_question(one, one)
        assert 0 == count_in_question(nothing, one)
