"""What a run asked, counted from its tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from auditor.evidence.rows import answer_row, greeting_row, read_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.run.request_counts import count_requests
from auditor.summary.costs import Costs

NOTHING_ASKED = Costs(0, 0, 0, 0, 0, 0, 0, 0)


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """Return a run without a request."""
    run = place(str(tmp_path / "run-20260101T030000Z-000001"))
    for name, schema in (("ledgers", LEDGERS), ("answers", ANSWERS), ("reads", READS)):
        add_rows(run, name, schema, "none")
    return run


def add_rows(
    run: Place, name: str, schema: pa.Schema, part: str, *rows: tuple[object, ...]
) -> None:
    run.write_table(f"evidence/{name}", table(schema, rows), part)


def test_a_run_that_asked_nobody_cost_nothing(run: Place) -> None:
    """Tables without rows count no request."""
    assert NOTHING_ASKED == count_requests(run)


def test_what_was_asked_adds_up_over_the_tables(run: Place) -> None:
    """A request that was retried, or timed out, is unanswered. A request that was never sent does
    not count.
    """
    held, timed, gone = AnswerStatus.HELD, AnswerStatus.TIMED_OUT, AnswerStatus.UNREGISTERED
    add_rows(
        run, "answers", ANSWERS, "all",
        answer_row(Answer("b1", 1, 1, 0, held, requests=3, retries=2, received_bytes=50)),
        answer_row(Answer("b2", 1, 1, 0, timed, requests=1)),
        answer_row(Answer("gone", 1, 1, 0, gone)),
    )  # fmt: skip
    read = EntryRead("b1", 1, 0, 1, 0, ReadStatus.PRESENT, requests=1, received_bytes=7)
    add_rows(run, "reads", READS, "all", read_row(read))
    assert count_requests(run) == Costs(
        zookeeper_reads=0,
        zookeeper_reads_failed=0,
        bookie_requests=3 + 1 + 1,
        bookie_bytes=57,
        retries=2,
        confirming_reads=1,
        unanswered=2 + 1,
        bookies_named=3,
    )


def test_bookies_of_carried_ledgers_are_named(run: Place) -> None:
    """They count once, asked or not."""
    held = answer_row(Answer("b1", 1, 1, 0, AnswerStatus.HELD))
    add_rows(run, "answers", ANSWERS, "all", held)
    assert 3 == count_requests(run, ("b1", "b2", "b3")).bookies_named


@pytest.mark.parametrize(
    ("greeting", "requests", "unanswered"),
    [
        (Greeting.ANSWERED, 2, 0),
        (Greeting.UNSUPPORTED, 1, 0),
        (Greeting.SILENT, 0, 0),
        (Greeting.SILENT, 1, 1),
        (Greeting.SILENT, 3, 1),
    ],
)
def test_a_greeting_counts_as_it_ended(
    run: Place, greeting: Greeting, requests: int, unanswered: int
) -> None:
    """A bookie without a connection was asked nothing. A bookie that fell silent left one request
    unanswered. A greeting is not about a ledger.
    """
    add_rows(run, "answers", ANSWERS, "all", greeting_row("b3", 1, 0, greeting, "", requests))
    costs = count_requests(run)
    assert (requests, unanswered, 0) == (
        costs.bookie_requests,
        costs.unanswered,
        costs.bookies_named,
    )
