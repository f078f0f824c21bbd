"""What the written evidence says of bookies."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from auditor.accounting.bookies import MARK_KEY, by_look, orphans, with_greetings
from auditor.evidence.rows import answer_row, greeting_row, table
from auditor.evidence.schemas import ANSWERS, LEDGERS, VERDICTS
from auditor.model.availability import Answer, AnswerStatus, Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.verify.reachability import LEDGERS_NAMED_MAX, Orphans

UNREGISTERED, HELD = AnswerStatus.UNREGISTERED, AnswerStatus.HELD


def answers(*rows: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_batches([table(ANSWERS, rows)], schema=ANSWERS)


def said(bookie: str, ledger: int, look: int, status: AnswerStatus) -> tuple[Any, ...]:
    return answer_row(Answer(bookie, ledger, look, 0, status))


def verdicts(**standings: tuple[str, list[str], str | None]) -> pa.Table:
    """By ledger `l<id>`: standing, unknowns, exemption."""
    rows = [
        {"ledger_id": int(key[1:]), "standing": standing, "exempt": exempt, "unknowns": unknowns, "findings": [], "looks": 2}
        for key, (standing, unknowns, exempt) in standings.items()
    ]
    return pa.Table.from_pylist(rows, schema=VERDICTS)


def record(bookie: str, registration: Registration, look: int = 1, host: str | None = "h") -> BookieRecord:
    return BookieRecord(bookie, look, 5, registration, host, 3181 if host else None, False, "" if host else "no address")


SILENT = ("indeterminate", ["bookie_silent"], None)


def test_a_bookie_that_nothing_knows_but_a_ledger_joins_the_list():
    """Named by a ledger, without registration and cookie: it is a bookie all the same, once."""
    rows = answers(
        said("gone", 1, 1, UNREGISTERED), said("gone", 2, 1, UNREGISTERED), greeting_row("b1", 1, 0, Greeting.ANSWERED, "")
    )
    found = with_greetings([record("b1", Registration.WRITABLE)], rows, 1)
    assert [("b1", Greeting.ANSWERED), ("gone", Greeting.UNREGISTERED)] == [(r.bookie_id, r.greeting) for r in found]


def test_greetings_of_another_look_do_not_count():
    """Each look has its own; without one the greeting is not known."""
    rows = answers(greeting_row("b1", 1, 0, Greeting.SILENT, "x"))
    assert [None] == [r.greeting for r in with_greetings([record("b1", Registration.WRITABLE, 2)], rows, 2)]


def test_a_registration_without_address_is_its_own_greeting():
    """It could not be dialled, and why is told."""
    (found,) = with_greetings([record("b1", Registration.WRITABLE, host=None)], answers(), 1)
    assert (Greeting.ADDRESS_UNKNOWN, "no address") == (found.greeting, found.greeting_detail)


def marks(*keys: tuple[int, int]) -> pa.Table:
    """(ledger, look) pairs at which the ledger was marked."""
    columns = list(zip(*keys, strict=True)) or [(), ()]
    schema = pa.schema([LEDGERS.field(name) for name in MARK_KEY])
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def test_looks_come_oldest_first():
    """Whatever the order of the rows."""
    looks = by_look([record("b1", Registration.NONE, 2), record("b1", Registration.WRITABLE, 1)])
    assert [Registration.WRITABLE, Registration.NONE] == [look["b1"].registration for look in looks]


def test_an_orphan_was_asked_in_vain_at_two_looks_and_is_still_unknown():
    """One look is not enough, and a ledger that was repaired, marked or deleted meanwhile is none."""
    rows = answers(
        *(said("gone", ledger, look, UNREGISTERED) for ledger in (1, 2, 3, 4) for look in (1, 2)),
        said("gone", 5, 1, UNREGISTERED),
        said("b1", 1, 1, HELD),
    )
    judged = verdicts(
        l1=SILENT,
        l2=("sound", [], None),
        l3=("indeterminate", ["bookie_silent"], "marked_underreplicated"),
        l4=("violated", ["bookie_silent"], None),
        l5=SILENT,
    )
    assert {"gone": Orphans(2, (1, 4))} == orphans(rows, judged, marks())


def test_a_ledger_marked_at_a_look_is_no_orphan_of_it():
    """Asked while marked does not count: the cluster knew then. Ledger 2 was marked at one of its three looks, 3 at all."""
    rows = answers(*(said("gone", ledger, look, UNREGISTERED) for ledger in (1, 2, 3) for look in (1, 2, 3)))
    judged = verdicts(l1=SILENT, l2=SILENT, l3=SILENT)
    assert {"gone": Orphans(2, (1, 2))} == orphans(rows, judged, marks((2, 1), (3, 1), (3, 2), (3, 3)))


def test_few_orphans_are_named_and_all_are_counted():
    """A finding on a bookie of 40,000 ledgers stays readable."""
    ids = range(100, 100 + 3 * LEDGERS_NAMED_MAX)
    rows = answers(*(said("gone", ledger, look, UNREGISTERED) for ledger in reversed(ids) for look in (1, 2)))
    found = orphans(rows, verdicts(**{f"l{ledger}": SILENT for ledger in ids}), marks())
    assert {"gone": Orphans(len(ids), tuple(ids[:LEDGERS_NAMED_MAX]))} == found


@pytest.mark.parametrize(
    ("counts", "greetings"),
    [
        (Greeting.ANSWERED, [Greeting.SILENT, Greeting.ANSWERED]),
        (Greeting.ANSWERED, [Greeting.ANSWERED, Greeting.SILENT]),
        (Greeting.UNSUPPORTED, [Greeting.ANSWERED, Greeting.UNSUPPORTED, Greeting.SILENT]),
        (Greeting.REFUSED, [Greeting.SILENT, Greeting.REFUSED]),
    ],
)
def test_a_bookie_greeted_for_several_shards_is_told_by_its_best_word(counts: Greeting, greetings: list[Greeting]):
    """One that spoke once at a look is not silent at it; one that showed it cannot list cannot."""
    rows = answers(*(greeting_row("b1", 1, 0, greeting, greeting.value) for greeting in greetings))
    (found,) = with_greetings([record("b1", Registration.WRITABLE)], rows, 1)
    assert (counts, counts.value) == (found.greeting, found.greeting_detail)
