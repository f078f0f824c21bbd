"""What the written evidence shows of bookies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from auditor.evidence.rows import answer_row, greeting_row, table
from auditor.evidence.schemas import ANSWERS, DISK, LEDGERS
from auditor.findings.bookies import (
    LEDGERS_NAMED_MAX,
    MARK_KEY,
    STATE,
    Missed,
    bookies_missed,
    by_look,
    named_ledgers,
    unmarked_rows,
    with_greetings,
)
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    Answer,
    AnswerStatus,
    DiskSpace,
    Greeting,
)
from auditor.model.cluster import BookieRecord, Registration

UNREGISTERED, HELD = AnswerStatus.UNREGISTERED, AnswerStatus.HELD


ANSWERS_AND_DISKS = pa.schema([*ANSWERS, DISK])


def answers(*rows: tuple[Any, ...], disks: Sequence[DiskSpace | None] = ()) -> pa.Table:
    """Return the rows as a table. `disks` are those of the first rows, None for all others."""
    cells_of_disks = (*disks, *[None] * (len(rows) - len(disks)))
    cells = [(*row, disk) for row, disk in zip(rows, cells_of_disks, strict=True)]
    return pa.Table.from_batches([table(ANSWERS_AND_DISKS, cells)], schema=ANSWERS_AND_DISKS)


def answer_cells(bookie: str, ledger: int, look: int, status: AnswerStatus) -> tuple[Any, ...]:
    return answer_row(Answer(bookie, ledger, look, 0, status))


def states(*rows: tuple[int, int, str, int | None]) -> pa.Table:
    """Return rows of (ledger, look, status, version of the metadata). A ledger without a version
    could not be read.
    """
    cells = [
        (ledger, look, status, None if v is None else 1, v) for ledger, look, status, v in rows
    ]
    schema = pa.schema([LEDGERS.field(name) for name in STATE])
    columns = list(zip(*cells, strict=True)) or [()] * len(STATE)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def found_states(
    *ledgers: int, looks: tuple[int, ...] = (1, 2, 3)
) -> list[tuple[int, int, str, int | None]]:
    """Return the states of ledgers that were found with the same metadata at each look."""
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
    """Ledgers name it, and it has neither registration nor cookie. It is listed once."""
    rows = answers(
        answer_cells("gone", 1, 1, UNREGISTERED),
        answer_cells("gone", 2, 1, UNREGISTERED),
        greeting_row("b1", 1, 0, Greeting.ANSWERED, ""),
    )
    found = with_greetings([record("b1", Registration.WRITABLE)], rows, 1)
    assert [("b1", Greeting.ANSWERED), ("gone", Greeting.UNREGISTERED)] == [
        (r.bookie_id, r.greeting) for r in found
    ]


def test_a_bookie_has_the_newest_figures_of_its_disks():
    """A later greeting without figures takes none away. A bookie without figures has none."""
    rows = answers(
        greeting_row("b1", 1, 20, Greeting.ANSWERED, ""),
        greeting_row("b1", 1, 10, Greeting.ANSWERED, ""),
        greeting_row("b2", 1, 10, Greeting.ANSWERED, ""),
        greeting_row("b1", 1, 30, Greeting.ANSWERED, ""),
        greeting_row("b2", 2, 10, Greeting.ANSWERED, ""),
        disks=(DiskSpace(100, 40), DiskSpace(100, 50), None, None, DiskSpace(70, 60)),
    )
    found = with_greetings([record(b, Registration.WRITABLE) for b in ("b1", "b2")], rows, 1)
    assert [(100, 40), (None, None)] == [(r.total_bytes, r.free_bytes) for r in found]


def test_greetings_of_another_look_do_not_count():
    """A bookie without a greeting at this look has none."""
    rows = answers(greeting_row("b1", 1, 0, Greeting.SILENT, "x"))
    assert [None] == [
        r.greeting for r in with_greetings([record("b1", Registration.WRITABLE, 2)], rows, 2)
    ]


def test_a_registration_without_address_is_its_own_greeting():
    """The bookie could not be dialled, and the greeting says why."""
    (found,) = with_greetings([record("b1", Registration.WRITABLE, host=None)], answers(), 1)
    assert (Greeting.ADDRESS_UNKNOWN, "no address") == (found.greeting, found.greeting_detail)


def marks(*keys: tuple[int, int]) -> pa.Table:
    """Return the rows of marks that were seen, as (ledger, look)."""
    columns = list(zip(*keys, strict=True)) or [(), ()]
    schema = pa.schema([LEDGERS.field(name) for name in MARK_KEY])
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def test_looks_come_oldest_first():
    """The order of the rows does not matter."""
    looks = by_look([record("b1", Registration.NONE, 2), record("b1", Registration.WRITABLE, 1)])
    assert [Registration.WRITABLE, Registration.NONE] == [look["b1"].registration for look in looks]


def unregistered_answers(
    *ledgers: int, looks: tuple[int, ...] = (1, 2), bookie: str = "gone"
) -> list[tuple[Any, ...]]:
    return [
        answer_cells(bookie, ledger, look, UNREGISTERED) for ledger in ledgers for look in looks
    ]


def test_a_ledger_counts_if_it_needed_the_bookie_at_two_looks_and_still_does():
    """Ledgers 2 to 4 were deleted, changed or could not be read at the third look. Ledger 5 needed
    the bookie at one look, and ledger 6 needs another bookie.
    """
    rows = answers(
        *unregistered_answers(1, 2, 3, 4),
        *unregistered_answers(5, looks=(1,)),
        answer_cells("b1", 6, 1, HELD),
        answer_cells("b1", 6, 2, HELD),
    )
    seen = [
        *found_states(1, 5, 6),
        *found_states(2, 3, 4, looks=(1, 2)),
        (2, 3, "gone", None),
        (3, 3, "found", 1),
        (4, 3, "unreadable", None),
    ]
    assert {"gone": Missed(1, (1,))} == bookies_missed(rows, states(*seen), marks())


def test_a_ledger_whose_metadata_changed_before_the_bookie_was_asked_again_counts():
    """The metadata that the ledger had when the bookie was asked last decides."""
    seen = [(1, 1, "found", 0), (1, 2, "found", 1), (1, 3, "found", 1)]
    assert {"gone": Missed(1, (1,))} == bookies_missed(
        answers(*unregistered_answers(1)), states(*seen), marks()
    )


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
    """It may be unmarked, marked all along, or marked since. A ledger whose mark was removed is not
    counted.
    """
    rows = answers(*unregistered_answers(1))
    assert {"gone": expected} == bookies_missed(
        rows, states(*found_states(1)), marks(*((1, look) for look in marked))
    )


def test_a_marked_ledger_that_was_looked_at_once_counts_as_its_mark_was_read():
    """A ledger marked within grace gets no second look, but the bookie should hold entries of
    it.
    """
    rows = answers(*unregistered_answers(1), *unregistered_answers(2, looks=(1,)))
    seen = states(*found_states(1), *found_states(2, looks=(1,)))
    assert {"gone": Missed(1, (1,), 1, 1)} == bookies_missed(rows, seen, marks((2, 1)))


def test_each_bookie_has_its_own_ledgers():
    """A ledger may need two unregistered bookies. If all bookies are registered, nothing is
    counted.
    """
    rows = answers(*unregistered_answers(1, 2), *unregistered_answers(2, 3, bookie="lost"))
    expected = {"gone": Missed(2, (1, 2)), "lost": Missed(2, (2, 3))}
    assert expected == bookies_missed(rows, states(*found_states(1, 2, 3)), marks())
    assert [1, 2, 3] == sorted(named_ledgers(rows).to_pylist())
    assert {} == bookies_missed(answers(answer_cells("b1", 1, 1, HELD)), states(), marks())
    assert [] == named_ledgers(answers(answer_cells("b1", 1, 1, HELD))).to_pylist()


def test_few_ledgers_are_named_and_all_are_counted():
    """A finding on a bookie of 40,000 ledgers stays readable."""
    ids = range(100, 100 + 3 * LEDGERS_NAMED_MAX)
    rows = answers(*unregistered_answers(*reversed(ids)))
    expected = {"gone": Missed(len(ids), tuple(ids[:LEDGERS_NAMED_MAX]))}
    assert expected == bookies_missed(rows, states(*found_states(*ids)), marks())


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
    """A bookie that answered one greeting of a look is not silent at it. A bookie that showed once
    that it cannot list is unable to.
    """
    rows = answers(*(greeting_row("b1", 1, 0, greeting, greeting.value) for greeting in greetings))
    (found,) = with_greetings([record("b1", Registration.WRITABLE)], rows, 1)
    assert (counts, counts.value) == (found.greeting, found.greeting_detail)


@pytest.mark.parametrize("turned", [False, True])
def test_a_detail_that_names_a_lister_counts_among_the_same_greetings(turned: bool):
    """A lister that the bookie contradicted comes first, then a lister that listed. The order of
    the rows does not matter.
    """
    lister = [f"{LISTER_CONTRADICTED}x", f"{LISTED_BY_LISTER}h:1", ""]
    for details in (lister, lister[1:]):
        rows = [greeting_row("b1", 1, 0, Greeting.ANSWERED, detail) for detail in details]
        registered = [record("b1", Registration.WRITABLE)]
        (found,) = with_greetings(registered, answers(*(rows[::-1] if turned else rows)), 1)
        assert details[0] == found.greeting_detail


@pytest.mark.parametrize(
    ("records", "at_ms"), [([record("b1", Registration.WRITABLE, 2)], 5), ([], 70)]
)
def test_a_bookie_that_only_ledgers_know_was_seen_at_their_look(
    records: list[BookieRecord], at_ms: int
):
    """It gets the time at which the other bookies were read or, without others, of its last
    answer.
    """
    asked_at = [
        answer_row(Answer("gone", ledger, 2, at, UNREGISTERED)) for ledger, at in ((1, 60), (2, 70))
    ]
    found = with_greetings(records, answers(*asked_at), 2)[-1]
    assert (
        BookieRecord("gone", 2, at_ms, Registration.NONE, greeting=Greeting.UNREGISTERED) == found
    )


def test_rows_of_ledgers_marked_at_that_look_are_dropped():
    """A mark at another look, or of another ledger, excuses nothing."""
    rows = answers(*unregistered_answers(1, 2))
    left = unmarked_rows(rows.select(["bookie_id", *MARK_KEY]), marks((1, 1), (2, 2), (3, 1)))
    assert [("gone", 1, 2), ("gone", 2, 1)] == sorted(
        tuple(row.values()) for row in left.to_pylist()
    )
