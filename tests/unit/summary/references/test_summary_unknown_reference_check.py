"""What the second checker does not know of references: each ledger and each count on which the
first differs is a difference.
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
"""Entries that a topic recorded of a ledger which ends after ten."""


def topic(*ledgers: int, entries: int = SHORT_BY_ONE) -> TopicRecord:
    managed = ManagedLedger(tuple(closed(one, entries) for one in ledgers))
    return TopicRecord(parse_topic("public/default/t"), 5, TopicStatus.FOUND, managed)


def seen(ledger_id: int, look: int, status: RecordStatus = RecordStatus.FOUND) -> LedgerRecord:
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
    """The tables of a run: topics at both looks, the ledgers of the listing, and those that were
    read for their references. `problems` counts the failures to list topics.
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
        ([], [seen(7, 1, GONE)]),
        ([seen(7, 1, SHUT), seen(7, 2)], []),
        ([seen(7, 1)], [seen(7, 2, SHUT)]),
        ([seen(7, 1)], []),
        ([seen(7, 1), seen(7, 2, GONE)], []),
    ],
)
def test_a_ledger_whose_loss_no_look_rules_out_is_unknown(
    listed: list[LedgerRecord], read: list[LedgerRecord]
) -> None:
    """Not read twice, not found by one look, or cut short at one. The first checker must say so."""
    place = run([topic(7)], [topic(7)], listed, read)
    assert [UNKNOWN] == differences(place)
    assert [] == differences(place, NOTHING._replace(unknown=(7,)))


def test_a_ledger_that_is_known_must_not_be_called_unknown() -> None:
    """Whole, found lost at both looks, in no topic any more, or in long-term storage.

    One that could not be read has a verdict that says so.
    """
    whole = run([topic(7, entries=10)], [topic(7, entries=10)], [seen(7, 1)], [seen(7, 2)])
    lost = run([topic(7)], [topic(7)], [], [seen(7, 1, GONE), seen(7, 2, GONE)])
    dropped = run([topic(7)], [topic(8)], [], [seen(7, 1, GONE), seen(7, 2, GONE)])
    stored = replace(topic(), managed_ledger=ManagedLedger((closed(7, offloaded=True),)))
    offloaded = run([stored], [stored], [], [seen(7, 1, GONE)])
    said = run([topic(7)], [topic(7)], [seen(7, 1, SHUT)], [seen(7, 2, SHUT)])
    for place in (whole, lost, dropped, offloaded, said):
        assert [] == differences(place)
        assert [(7, "the first says unknown, the second known")] == differences(
            place, NOTHING._replace(unknown=(7,))
        )


def test_the_ledger_of_an_earlier_compaction_is_outdated() -> None:
    """While the cursor of the compaction has a ledger, the newest one is named there."""
    cursor = Subscription("__compaction", Cursor(8, Position(5, 2), (), 7))
    compacted = replace(topic(), subscriptions=(cursor,))
    place = run([compacted], [compacted], [seen(8, 1)], [seen(7, 1, GONE), seen(7, 2, GONE)])
    assert [(7, "the first says known, the second outdated")] == differences(place)
    assert [] == differences(place, NOTHING._replace(outdated=(7,)))


def test_what_could_not_be_read_of_topics_is_counted_by_both() -> None:
    """A topic once, however much of it is unreadable; and each failure to list topics."""
    unread = replace(topic(), status=SHUT_TOPIC, managed_ledger=None, problems=("shut", "odd"))
    place = run([unread], [unread], problems=2)
    assert [] == differences(place, NOTHING._replace(unreadable=1, not_listed=2))
    assert [
        (None, "topics that could not be read: the first says 0, the second 1"),
        (None, "failures to list topics: the first says 0, the second 2"),
    ] == differences(place)


def test_no_difference_on_what_is_unknown_claims_a_withheld_finding() -> None:
    """Neither on a ledger nor on a count: what is unknown is no finding."""
    place = run([topic(7)], [topic(7)], [], [seen(7, 1, GONE)], problems=1)
    found = unknowns_differ(place, NOTHING, JUDGED_MAX)
    assert [7, None] == [one.ledger_id for one in found]
    assert not any(one.is_withheld or "withheld" in one.sentence for one in found)


def test_of_ledgers_that_are_not_judged_no_row_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged cluster may have millions of them."""
    ids, judged = range(1, 10), 2
    place = run([topic(*ids)], [topic(*ids)], [], [seen(one, 1, GONE) for one in ids])
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
    """Of the ledgers that a run judges; how many it does not judge is compared too."""
    ids = range(1, JUDGED_MAX + 4)
    place = run([topic(*ids)], [topic(*ids)], [], [seen(one, 1, GONE) for one in ids])
    found = differences(place)
    assert list(range(1, DIFFERING_SHOWN_MAX + 1)) == [one for one, _ in found[:-1]]
    assert (None, "ledgers not judged: the first says 0, the second 3") == found[-1]
    whole = NOTHING._replace(unknown=tuple(ids)[:JUDGED_MAX], more=3)
    assert [] == differences(place, whole)
