"""What the report and `auditor status` say of the age of reads."""

from __future__ import annotations

from typing import Any

import pytest
from support import report_stories as stories

from auditor.model.summary import CopiesByAge, VerifiedBy
from auditor.report.text import render
from auditor.report.verification_text import ledger_age_sentences, verification_sentences
from auditor.summary.verification import LedgerAges, OtherCopies

DAY_MS = 24 * 60 * 60 * 1000
COUNTS = {
    "copies": 8_000, "within_day": 400, "within_week": 2_000, "within_period": 6_000,
    "never": 0, "overdue": 0, "oldest": "2025-12-20T00:00:00.000Z",
}  # fmt: skip


def verification(since: str = "2025-11-01T00:00:00.000Z", **counts: Any) -> dict[str, Any]:
    return {
        "seed": 1,
        "period_ms": 30 * DAY_MS,
        "bytes_per_second": 1,
        "counts": COUNTS | counts,
        "bookies": [{"bookie_id": "b1", "verified_by": "reads", "since": since}],
    }


def said(value: Any) -> str:
    return " ".join(verification_sentences(stories.summary(verification=value)))


def test_shares_are_said_and_what_is_overdue() -> None:
    """They are rounded down."""
    shares = (
        "Of 8,000 copies the passes over all copies read 5.00 % within a day, 25.00 % within a week"
        " and 75.00 % within 30 days."
    )
    assert shares == said(verification())
    assert f"{shares} 1,234 copies are overdue." == said(verification(overdue=1_234, never=9))
    assert "reads     Of 8,000 copies" in render(stories.summary(verification=verification()), [])


def test_what_is_unread_in_a_young_series_is_not_called_late() -> None:
    """The date is when the period ends for the bookie that was known first."""
    young = said(verification("2025-12-15T00:00:00.000Z", never=7))
    assert young.endswith(
        "No such read counts yet for 7 copies; none is overdue before 2026-01-14."
    )
    old = said(verification("2025-11-01T00:00:00.000Z", never=1))
    assert old.endswith("No such read counts yet for 1 copy; none is overdue.")


@pytest.mark.parametrize(
    "nothing",
    [
        None,
        verification() | {"counts": None},
        verification() | {"period_ms": 0},
        verification(copies=0),
    ],
    ids=["earlier version", "not counted", "no period", "no copies"],
)
def test_nothing_is_said_where_nothing_was_counted(nothing: Any) -> None:
    """A share of nothing is no share."""
    assert "" == said(nothing)


def test_the_copies_of_one_ledger_are_said_as_numbers() -> None:
    """With what reads those on other bookies, of which ten are named. Nothing is said of none."""
    counts = CopiesByAge(60, 20, 30, 40, 15, 5, "2025-12-20T00:00:00.000Z")
    many = [OtherCopies(f"b{n}", VerifiedBy.NOTHING, 2) for n in range(20, 32)]
    others = (OtherCopies("b4", VerifiedBy.SCRUB, 7), OtherCopies("b5", VerifiedBy.SAMPLE, 1))
    assert [
        "Of 60 copies on bookies that runs read, the passes up to this run had read 20 within a"
        " day, 30 within a week and 40 within 30 days.",
        "No such read counts yet for 15 copies.",
        "5 copies are overdue.",
        "The oldest of these reads was by the run of 2025-12-20T00:00:00.000Z.",
        "Not counted here: 7 copies on b4, which the scrub of a lister reads.",
        "Not counted here: 1 copy on b5, of which runs read a sample.",
        "Not counted here: 24 copies on b20, b21, b22, b23, b24, b25, b26, b27, b28, b29 and 2"
        " more, which nothing is known to read.",
    ] == list(ledger_age_sentences(LedgerAges(30 * DAY_MS, counts, (*others, *many))))
    silent = (OtherCopies("b6", VerifiedBy.UNANSWERED, 3),)
    assert ["Not counted here: 3 copies on b6, where this run got no answer, or too few."] == list(
        ledger_age_sentences(LedgerAges(0, CopiesByAge(), silent))
    )
    (without_period,) = ledger_age_sentences(LedgerAges(0, CopiesByAge(2, 1, 2)))
    assert without_period.endswith("had read 1 within a day and 2 within a week.")
