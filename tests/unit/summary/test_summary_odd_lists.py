"""Lists that are believed though no bookie is known to send such are counted and said."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from support import report_stories as stories
from support.tables_in_memory import Tables

from auditor.evidence.rows import answer_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS
from auditor.model.availability import NON_CANONICAL, Answer, AnswerStatus
from auditor.model.codec import encode
from auditor.report.text import render
from auditor.summary.assurance import BOOKIES_NAMED_MAX
from auditor.summary.doubted_lists import count_odd_lists, read_odd_lists


def test_the_odd_lists_of_a_run_are_counted_with_their_bookies() -> None:
    """Canonical lists and refusals are not counted."""
    held = Answer("b1", 7, 1, 0, AnswerStatus.HELD)
    odd = [replace(held, bookie_id=b, ledger_id=n, non_canonical=True) for b, n in PAIRS]
    answers = [held, *odd, Answer("b3", 7, 1, 0, AnswerStatus.REFUSED)]
    run = cast(Place, Tables())
    run.write_table("evidence/answers", table(ANSWERS, list(map(answer_row, answers))), "a")
    assert {"lists": 3, "bookies": 2, "some_bookies": ["b1", "b2"]} == encode(read_odd_lists(run))


PAIRS = [("b2", 7), ("b2", 8), ("b1", 9)]


def test_only_some_of_the_bookies_are_named() -> None:
    """All are counted."""
    said = encode(count_odd_lists([f"b{n:03}" for n in range(30)]))
    assert (30, 30, BOOKIES_NAMED_MAX) == (
        said["lists"],
        said["bookies"],
        len(said["some_bookies"]),
    )


def test_a_report_says_so_where_there_are_any() -> None:
    """With what is odd about them."""
    odd = stories.summary(odd_lists=encode(count_odd_lists(["b1", "b2"])))
    text = " ".join(render(odd, []).split())
    assert (
        f"2 lists of b1, b2 are believed, but no bookie is known to send such: {NON_CANONICAL}."
        in (text)
    )
    none = stories.summary(odd_lists=encode(count_odd_lists([])))
    assert render(stories.summary(), []) == render(none, [])
