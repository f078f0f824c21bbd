"""What is said of verdicts that were carried over."""

from __future__ import annotations

from dataclasses import replace

from support import report_stories as stories

from auditor.model.summary import Carried, CarriedFrom, CarriedLedger, LedgerCounts
from auditor.report.carried_text import carried_section, carried_words, ledger_carried_sentence
from auditor.report.layout import PLAIN
from auditor.report.outcome_text import headline

OLDEST = "2026-01-01T03:00:00Z"
CARRIED = Carried(
    within_s=86_400,
    base="20260102T020000Z-00000b",
    ledgers=950,
    withheld=2,
    oldest_listed_at=OLDEST,
    due={"new": 3, "turn": 46, "changed": 1, "age": 0},
    runs=(
        CarriedFrom("20260101T030000Z-00000a", OLDEST, 900),
        CarriedFrom("20260102T020000Z-00000b", "2026-01-02T02:00:00Z", 40),
    ),
)
SUMMARY = replace(
    stories.summary(), ledgers=LedgerCounts(1_000, 998, 0, 2, 0), carried=CARRIED, outcome="SOUND"
)


def section(carried: Carried | None) -> str:
    return " ".join(" ".join(carried_section(replace(SUMMARY, carried=carried), PLAIN)).split())


def test_the_first_sentences_say_how_many_verdicts_are_carried_and_how_old_they_are() -> None:
    words = (
        "950 of 1,000 ledgers were not asked about now: what is said of them rests on lists since"
        " 2026-01-01 03:00:00 UTC."
    )
    assert words == carried_words(SUMMARY)
    assert headline(SUMMARY).endswith(f" {words}")


def test_a_run_that_asked_about_every_ledger_says_nothing_there() -> None:
    for carried in (None, replace(CARRIED, ledgers=0)):
        assert "" == carried_words(replace(SUMMARY, carried=carried))
    assert "" == section(None)


def test_the_report_says_from_which_runs_and_why_others_were_due() -> None:
    assert section(CARRIED) == (
        "Carried over 950 ledgers were not asked about (--within 1 day): closed, sound by the lists"
        " of an earlier run, unmarked, and with the same znode. Lists of 20260101T030000Z-00000a"
        " (900 ledgers), 20260102T020000Z-00000b (40 ledgers), and others named in"
        " evidence/carried (10); the oldest run began at 2026-01-01 03:00:00 UTC 2 of them are"
        " unknown by what this run learned, and will be asked about by the next run 50 ledgers were"
        " asked about: 3 without a verdict before, 46 in turn, 1 with changed or unreadable"
        " metadata the next run asks again about those in turn, and about what is new, changed,"
        " marked or not sound; the oldest lists are to be renewed by 2026-01-02 03:00:00 UTC"
    )


def test_without_a_base_it_says_why() -> None:
    problem = "no run of this cluster has finished yet"
    assert section(Carried(within_s=3_600, problem=problem)) == (
        f"Carried over every ledger was asked about, although --within is 1 h: {problem}"
    )


def test_a_reason_of_another_version_is_printed_as_it_is() -> None:
    assert "asked about: 2 later" in section(replace(CARRIED, due={"later": 2}))


def test_a_ledger_says_which_run_asked_about_it() -> None:
    said = ledger_carried_sentence(CarriedLedger("20260101T030000Z-00000a", OLDEST))
    assert "its lists are from run 20260101T030000Z-00000a, which began at 2026-01-01" in said
