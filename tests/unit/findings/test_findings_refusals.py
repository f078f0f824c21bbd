"""Which bookies refused every request while others served, by the evidence of a run."""

from __future__ import annotations

from typing import cast

import pytest
from support.tables_in_memory import Tables

from auditor.evidence.rows import answer_row, greeting_row, read_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.findings.failing_requests import Refusals, refusals_of
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus

EIO = "EIO: the bookie's storage failed"
HELD, REFUSED, UNSUPPORTED = AnswerStatus.HELD, AnswerStatus.REFUSED, AnswerStatus.UNSUPPORTED
FAILS = Refusals(2, (1, 2), 4, 0, (("EIO", 4),))
"""The counts of a bookie that refused the lists of two ledgers at two looks."""


@pytest.fixture
def run() -> Tables:
    """Return a run with the greetings of two bookies, one of them an error status."""
    run = Tables()
    greetings = [
        greeting_row("b1", 1, 0, Greeting.ANSWERED, ""),
        greeting_row("b2", 1, 0, Greeting.REFUSED, EIO),
    ]
    run.write_table("evidence/answers", table(ANSWERS, greetings), "greetings")
    run.write_table("evidence/reads", table(READS, []), "none")
    return run


def lists(run: Tables, bookie: str, status: AnswerStatus, *ledgers: int) -> None:
    """Write the bookie's answers to list requests for these ledgers, at two looks."""
    rows = [
        answer_row(Answer(bookie, one, look, 0, status, detail=EIO))
        for one in ledgers
        for look in (1, 2)
    ]
    run.write_table("evidence/answers", table(ANSWERS, rows), f"{bookie}-{status.value}")


def reads(
    run: Tables, bookie: str, status: ReadStatus, *ledgers: int, is_search: bool | None = None
) -> None:
    """Write the bookie's reads of an entry of these ledgers, at two looks."""
    rows = [
        read_row(EntryRead(bookie, one, 0, look, 0, status, EIO, is_search=is_search))
        for one in ledgers
        for look in (1, 2)
    ]
    run.write_table("evidence/reads", table(READS, rows), f"{bookie}-{status.value}-{is_search}")


def count_refusals(run: Tables) -> dict[str, Refusals]:
    return refusals_of(cast(Place, run))


@pytest.mark.parametrize("status", [HELD, AnswerStatus.NO_SUCH_LEDGER])
def test_a_bookie_that_refuses_while_another_serves_is_counted(
    run: Tables, status: AnswerStatus
) -> None:
    """The other serves if it sends a list or says that it has no such ledger."""
    lists(run, "b1", status, 1)
    lists(run, "b2", REFUSED, 1, 2)
    assert {"b2": FAILS} == count_refusals(run)


def test_where_no_bookie_serves_none_is_counted(run: Tables) -> None:
    """Our own credentials may be at fault. Undecodable lists and lacking entries are not
    service.
    """
    lists(run, "b2", REFUSED, 1, 2)
    lists(run, "b1", AnswerStatus.INVALID, 1)
    reads(run, "b1", ReadStatus.NO_ENTRY, 1)
    assert {} == count_refusals(run)


def test_where_nothing_was_refused_no_bookie_is_counted(run: Tables) -> None:
    """A refused greeting is not a request about a ledger. The tables are not scanned once more for
    bookies that serve.
    """
    lists(run, "b1", HELD, 1)
    lists(run, "b2", HELD, 2)
    assert ({}, ["evidence/answers", "evidence/reads"]) == (count_refusals(run), run.asked)


def test_a_bookie_that_served_anything_is_not_counted(run: Tables) -> None:
    """Its own service does not count as that of another bookie either."""
    lists(run, "b1", AnswerStatus.SILENT, 1)
    lists(run, "b2", REFUSED, 1, 2)
    lists(run, "b2", HELD, 3)
    assert {} == count_refusals(run)
    lists(run, "b1", HELD, 1)
    assert {} == count_refusals(run)


def test_two_that_refuse_while_a_third_serves_are_both_counted(run: Tables) -> None:
    """Each has the counts of its own requests."""
    lists(run, "b3", HELD, 1)
    lists(run, "b2", REFUSED, 1, 2)
    lists(run, "b1", REFUSED, 1)
    assert {"b1": Refusals(1, (1,), 2, 0, (("EIO", 2),)), "b2": FAILS} == count_refusals(run)


def test_an_entry_that_was_read_is_service(run: Tables) -> None:
    """A bookie that cannot list serves if it sends an entry. Saying that it lacks the entry is not
    service.
    """
    lists(run, "b2", REFUSED, 1, 2)
    lists(run, "b1", UNSUPPORTED, 1)
    reads(run, "b1", ReadStatus.NO_ENTRY, 1)
    assert {} == count_refusals(run)
    reads(run, "b1", ReadStatus.PRESENT, 1)
    assert {"b2": FAILS} == count_refusals(run)


def test_a_bookie_that_cannot_list_is_counted_by_its_reads(run: Tables) -> None:
    """A list that it does not support is not a refusal."""
    lists(run, "b1", HELD, 1)
    lists(run, "b2", UNSUPPORTED, 1, 2)
    reads(run, "b2", ReadStatus.REFUSED, 1, 2)
    assert {"b2": Refusals(2, (1, 2), 0, 4, (("EIO", 4),))} == count_refusals(run)


def test_a_search_for_entries_elsewhere_counts_neither_way(run: Tables) -> None:
    """A search asks bookies that should hold nothing of the ledger. Its reads are neither refusals
    nor service.
    """
    lists(run, "b1", HELD, 1)
    lists(run, "b2", REFUSED, 1, 2)
    reads(run, "b2", ReadStatus.REFUSED, 1, is_search=True)
    reads(run, "b2", ReadStatus.NO_ENTRY, 2, is_search=True)
    assert {"b2": FAILS} == count_refusals(run)
    reads(run, "b2", ReadStatus.REFUSED, 1, is_search=False)
    assert {"b2": Refusals(2, (1, 2), 4, 2, (("EIO", 6),))} == count_refusals(run)
