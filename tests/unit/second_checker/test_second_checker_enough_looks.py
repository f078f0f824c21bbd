"""Whether a verdict rests on enough looks, in the notation of test_first_checker_recheck.py: one
word for each look.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.findings_by_kind import finding_of
from support.looks import looks

from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.finding import Kind
from auditor.model.ledger import Mark
from auditor.model.verdict import Exempt, Standing, Unknown, Verdict
from auditor.second_checker.looks import unsupported_claims

TERMS = Terms(
    judged_at_ms=10_000, underreplication_grace_ms=5_000, confirming_reads_max=16, looks_max=3
)
"""A mark of the notation is of time 0, and so beyond grace."""

LOST = finding_of(Kind.ENTRY_WITHOUT_REPLICA)
LATE = finding_of(Kind.UNDERREPLICATED_BEYOND_GRACE)
LOSS = Verdict(7, Standing.VIOLATED, findings=(LOST,))
SOUND = Verdict(7, Standing.SOUND)
GIVEN_UP = Verdict(7, Standing.INDETERMINATE, unknowns=(Unknown.UNSETTLED,))

SINGLE = "something is reported after a single look"
NOT_BEHIND = (
    "ENTRY_WITHOUT_REPLICA is reported, and the metadata was not read again behind the answers"
)


def said(text: str, verdict: Verdict, terms: Terms = TERMS) -> list[str]:
    """Return the objections to the verdict on the looks that the text describes."""
    return list(unsupported_claims(verdict, LedgerEvidence(7, looks(text)), terms))


def asked_at(count: int) -> str:
    return (
        f"ENTRY_WITHOUT_REPLICA is reported after bookies were asked at {count} looks of the same"
        " metadata"
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("A! A! A", []),
        ("B! A! A! A", []),
        ("A! A!", [NOT_BEHIND]),
        ("A! A", [asked_at(1)]),
        ("A! B! B", [asked_at(1)]),
        ("A A", [asked_at(0)]),
        ("A!", [SINGLE, asked_at(1), NOT_BEHIND]),
    ],
)
def test_a_lost_entry_takes_two_looks_that_asked_and_one_behind_them(
    text: str, wanted: list[str]
) -> None:
    """All three must see the same metadata; each missing look gives a sentence."""
    assert wanted == said(text, LOSS)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("A! A! A! A B", []),
        ("A B C D E", []),
        ("A B C D E F", ["6 looks were taken, and bookies asked at 0, where 3 are allowed"]),
        ("A! B! C! D!", ["4 looks were taken, and bookies asked at 4, where 3 are allowed"]),
    ],
)
def test_no_ledger_is_looked_at_more_often_than_allowed(text: str, wanted: list[str]) -> None:
    """`looks_max` looks ask, and two more may follow."""
    assert wanted == said(text, SOUND)


def test_of_a_ledger_that_kept_changing_a_mark_that_stood_is_reported_and_nothing_else() -> None:
    """The mark is reported if it is there at the two newest looks, and beyond grace."""
    late = replace(GIVEN_UP, standing=Standing.VIOLATED, findings=(LATE,))
    lost = replace(late, findings=(LOST,))
    prefix = "of a ledger that kept changing it reports "
    assert [] == said("A! B! C+! D+", late)
    assert [f"{prefix}no mark that stands"] == said("A! B! C+! D+", GIVEN_UP)
    assert [f"{prefix}UNDERREPLICATED_BEYOND_GRACE"] == said("A! B! C! D+", late)
    assert [f"{prefix}UNDERREPLICATED_BEYOND_GRACE"] == said("A! B! C+! D", late)
    assert [f"{prefix}ENTRY_WITHOUT_REPLICA"] == said("A! B! C! D", lost)
    assert [f"{prefix}ENTRY_WITHOUT_REPLICA, UNDERREPLICATED_BEYOND_GRACE"] == said(
        "A! B! C+! D+", replace(lost, findings=(LOST, LATE))
    )
    assert [] == said("A! B! C+!", GIVEN_UP)
    assert [] == said("A+! B+", late, replace(TERMS, looks_max=1))
    in_grace = replace(TERMS, underreplication_grace_ms=10_000)
    assert [] == said("A! B! C+! D+", GIVEN_UP, in_grace)
    assert [SINGLE, f"{prefix}UNDERREPLICATED_BEYOND_GRACE"] == said(
        "A+!", late, replace(TERMS, looks_max=1)
    )


def test_the_newest_look_says_how_long_a_ledger_that_kept_changing_is_marked() -> None:
    """A mark that was created anew is within its grace again."""
    *before, newest = looks("A! B! C+! D+")
    made_anew = replace(newest, record=replace(newest.record, mark=Mark(9_000)))
    assert () == unsupported_claims(GIVEN_UP, LedgerEvidence(7, (*before, made_anew)), TERMS)


def test_a_ledger_that_kept_changing_is_indeterminate() -> None:
    """A mark can make it violated; nothing else can."""
    exempt = Verdict(7, Standing.EXEMPT, Exempt.OPEN, unknowns=(Unknown.UNSETTLED,))
    assert ["a ledger that kept changing is called exempt"] == said("A! B! C! D", exempt)
