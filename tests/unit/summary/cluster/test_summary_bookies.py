"""What the written evidence says of bookies."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from auditor.evidence.rows import answer_row, greeting_row, table
from auditor.evidence.schemas import ANSWERS, LEDGERS
from auditor.first_checker.reachability import LEDGERS_NAMED_MAX, Missed
from auditor.model.availability import Answer, AnswerStatus, Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.summary.cluster.bookies import (
    MARK_KEY,
    STATE,
    bookies_missed,
    by_look,
    named_ledgers,
    unmarked_rows,
    with_greetings,
)

UNREGISTERED, HELD = AnswerStatus.UNREGISTERED, AnswerStatus.HELD


def answers(*rows: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_batches([table(ANSWERS, rows)], schema=ANSWERS)


def said(bookie: str, ledger: int, look: int, status: AnswerStatus) -> tuple[Any, ...]:
    return answer_row(Answer(bookie, ledger, look, 0, status))


def states(*rows: tuple[int, int, str, int | None]) -> pa.Table:
    """(ledger, look, status, version of the metadata); one without a version could not be read."""
    cells = [
        (ledger, look, status, None if v is None else 1, v) for ledger, look, status, v in rows
    ]
    schema = pa.schema([LEDGERS.field(name) for name in STATE])
    columns = list(zip(*cells, strict=True)) or [()] * len(STATE)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def found(
    *ledgers: int, looks: tuple[int, ...] = (1, 2, 3)
) -> list[tuple[int, int, str, int | None]]:
    """Ledgers that were there with the same metadata at each look."""
    return [(ledger, look, "found", 0) for ledger in ledgers for look in looks]


def record(
    bookie: str, registration: Registration, look: int = 1, host: str | None = "h"
) -> BookieRecord:
    return BookieRecord(
        bookie,
        look,
        5,
        registration,
        host,
        3181 if host else None,
        False,
        "" if host else "no address",
    )


def test_a_bookie_that_nothing_knows_but_a_ledger_joins_the_list():
    """Named by a ledger, without registration and cookie: it is a bookie all the same, once."""
    rows = answers(
        said("gone", 1, 1, UNREGISTERED),
        said("gone", 2, 1, UNREGISTERED),
        greeting_row("b1", 1, 0, Greeting.ANSWERED, ""),
    )
    found = with_greetings([record("b1", Registration.WRITABLE)], rows, 1)
    assert [("b1", Greeting.ANSWERED), ("gone", Greeting.UNREGISTERED)] == [
        (r.bookie_id, r.greeting) for r in found
    ]


def test_greetings_of_another_look_do_not_count():
    """Each look has its own; without one the greeting is not known."""
    rows = answers(greeting_row("b1", 1, 0, Greeting.SILENT, "x"))
    assert [None] == [
        r.greeting for r in with_greetings([record("b1", Registration.WRITABLE, 2)], rows, 2)
    ]


def test_a_registration_without_address_is_its_own_greeting():
    """It could not be dialled, and the reason is given."""
    (found,) = with_greetings([record("b1", Registration.WRITABLE, host=None)], answers(), 1)
    assert (Greeting.ADDRESS_UNKNOWN, "no address") == (found.greeting, found.greeting_detail)


def marks(*keys: tuple[int, int]) -> pa.Table:
    """(ledger, look) pairs at which the ledger was marked."""
    columns = list(zip(*keys, strict=True)) or [(), ()]
    schema = pa.schema([LEDGERS.field(name) for name in MARK_KEY])
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def test_looks_come_oldest_first():
    """Whatever the order of the rows."""
    looks = by_look([record("b1", Registration.NONE, 2), record("b1", Registration.WRITABLE, 1)])
    assert [Registration.WRITABLE, Registration.NONE] == [look["b1"].registration for look in looks]


def asked(
    *ledgers: int, looks: tuple[int, ...] = (1, 2), bookie: str = "gone"
) -> list[tuple[Any, ...]]:
    return [said(bookie, ledger, look, UNREGISTERED) for ledger in ledgers for look in looks]


def test_a_ledger_counts_that_needed_the_bookie_at_two_looks_and_names_it_still():
    """Whatever its verdict. One look is not enough; one that was deleted, whose metadata changed
    since or could not be read again, and one that needs another bookie, do not count.
    """
    rows = answers(
        *asked(1, 2, 3, 4), *asked(5, looks=(1,)), said("b1", 6, 1, HELD), said("b1", 6, 2, HELD)
    )
    seen = [
        *found(1, 5, 6),
        *found(2, 3, 4, looks=(1, 2)),
        (2, 3, "gone", None),
        (3, 3, "found", 1),
        (4, 3, "unreadable", None),
    ]
    assert {"gone": Missed(1, (1,))} == bookies_missed(rows, states(*seen), marks())


def test_a_ledger_whose_metadata_changed_before_the_bookie_was_asked_again_counts():
    """It names the bookie all the same: what counts is the metadata by which the bookie was asked
    last.
    """
    seen = [(1, 1, "found", 0), (1, 2, "found", 1), (1, 3, "found", 1)]
    assert {"gone": Missed(1, (1,))} == bookies_missed(answers(*asked(1)), states(*seen), marks())


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ((), Missed(1, (1,), 0, 0)),
        ((1, 2, 3), Missed(0, (), 1, 1)),
        ((2, 3), Missed(0, (), 0, 1)),
        ((3,), Missed(0, (), 0, 1)),
        ((1, 2), Missed(0, (), 0, 0)),
        ((1,), Missed(0, (), 0, 0)),
    ],
)
def test_a_ledger_counts_by_its_marks_at_the_first_and_the_last_look(
    marked: tuple[int, ...], expected: Missed
):
    """Marked all along, marked since, never; and one whose mark was taken away, which counts
    nowhere.
    """
    rows = answers(*asked(1))
    assert {"gone": expected} == bookies_missed(
        rows, states(*found(1)), marks(*((1, look) for look in marked))
    )


def test_a_marked_ledger_that_was_looked_at_once_counts_as_its_mark_was_read():
    """Within grace a marked ledger is not looked at again; its bookie should hold some of it all
    the same.
    """
    rows = answers(*asked(1), *asked(2, looks=(1,)))
    seen = states(*found(1), *found(2, looks=(1,)))
    assert {"gone": Missed(1, (1,), 1, 1)} == bookies_missed(rows, seen, marks((2, 1)))


def test_each_bookie_has_its_own_ledgers():
    """Whatever others it shares them with; without unregistered bookies nothing is counted."""
    rows = answers(*asked(1, 2), *asked(2, 3, bookie="lost"))
    expected = {"gone": Missed(2, (1, 2)), "lost": Missed(2, (2, 3))}
    assert expected == bookies_missed(rows, states(*found(1, 2, 3)), marks())
    assert [1, 2, 3] == sorted(named_ledgers(rows).to_pylist())
    assert {} == bookies_missed(answers(said("b1", 1, 1, HELD)), states(), marks())
    assert [] == named_ledgers(answers(said("b1", 1, 1, HELD))).to_pylist()


def test_few_ledgers_are_named_and_all_are_counted():
    """A finding on a bookie of 40,000 ledgers stays readable."""
    ids = range(100, 100 + 3 * LEDGERS_NAMED_MAX)
    rows = answers(*asked(*reversed(ids)))
    expected = {"gone": Missed(len(ids), tuple(ids[:LEDGERS_NAMED_MAX]))}
    assert expected == bookies_missed(rows, states(*found(*ids)), marks())


@pytest.mark.parametrize(
    ("counts", "greetings"),
    [
        (Greeting.ANSWERED, [Greeting.SILENT, Greeting.ANSWERED]),
        (Greeting.ANSWERED, [Greeting.ANSWERED, Greeting.SILENT]),
        (Greeting.UNSUPPORTED, [Greeting.ANSWERED, Greeting.UNSUPPORTED, Greeting.SILENT]),
        (Greeting.REFUSED, [Greeting.SILENT, Greeting.REFUSED]),
    ],
)
def test_a_bookie_greeted_for_several_shards_is_described_by_its_best_word(
    counts: Greeting, greetings: list[Greeting]
):
    """One that spoke once at a look is not silent at it; one that showed it cannot list cannot."""
    rows = answers(*(greeting_row("b1", 1, 0, greeting, greeting.value) for greeting in greetings))
    (found,) = with_greetings([record("b1", Registration.WRITABLE)], rows, 1)
    assert (counts, counts.value) == (found.greeting, found.greeting_detail)


@pytest.mark.parametrize(
    ("records", "at_ms"), [([record("b1", Registration.WRITABLE, 2)], 5), ([], 70)]
)
def test_a_bookie_that_only_ledgers_know_was_seen_at_their_look(
    records: list[BookieRecord], at_ms: int
):
    """When the other bookies were read; where there are none, when it was asked last."""
    asked_at = [
        answer_row(Answer("gone", ledger, 2, at, UNREGISTERED)) for ledger, at in ((1, 60), (2, 70))
    ]
    found = with_greetings(records, answers(*asked_at), 2)[-1]
    assert (
        BookieRecord("gone", 2, at_ms, Registration.NONE, greeting=Greeting.UNREGISTERED) == found
    )


def test_of_ledgers_marked_at_that_look_nothing_is_left():
    """By ledger and look: a mark at another look, and of another ledger, excuses nothing."""
    rows = answers(*asked(1, 2))
    left = unmarked_rows(rows.select(["bookie_id", *MARK_KEY]), marks((1, 1), (2, 2), (3, 1)))
    assert [("gone", 1, 2), ("gone", 2, 1)] == sorted(
        tuple(row.values()) for row in left.to_pylist()
    )
