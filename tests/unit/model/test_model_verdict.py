"""Standings, their order and their reasons (docs/names.md)."""

from __future__ import annotations

import pytest
from support.findings_by_kind import finding_of

from auditor.model.finding import BESIDE_VERDICTS, CATALOGUE, Finding, Kind, Severity, Subject
from auditor.model.verdict import Exempt, Standing, Unknown, Verdict

FINDING = finding_of(Kind.ENTRY_BELOW_WRITE_QUORUM)


def test_the_worst_standing_wins() -> None:
    """SOUND < EXEMPT < INDETERMINATE < VIOLATED: unknown never counts as well."""
    assert ["sound", "exempt", "indeterminate", "violated"] == [
        standing.word for standing in sorted(Standing)
    ]


def test_the_reasons_are_the_words_of_docs_names() -> None:
    """They are fixed, because alerts and dashboards rely on them. Exemptions are in their order of
    precedence.
    """
    assert ["deleted", "marked_underreplicated", "in_recovery", "open", "empty"] == [
        reason.value for reason in Exempt
    ]
    assert {
        "bookie_silent",
        "bookie_refused",
        "bookie_unsupported",
        "answer_timeout",
        "answer_invalid",
        "answer_too_large",
        "address_unknown",
        "metadata_unreadable",
        "topology_unknown",
        "auditor_limited",
        "unsettled",
        "poison",
        "checkers_disagree",
    } == {reason.value for reason in Unknown}


SILENT, UNREADABLE = (Unknown.BOOKIE_SILENT,), (Unknown.METADATA_UNREADABLE,)


@pytest.mark.parametrize(
    ("standing", "exempt", "unknowns", "findings"),
    [
        (Standing.SOUND, None, (), ()),
        (Standing.EXEMPT, Exempt.OPEN, (), ()),
        (Standing.INDETERMINATE, None, SILENT, ()),
        (Standing.INDETERMINATE, Exempt.MARKED_UNDERREPLICATED, UNREADABLE, ()),
        (Standing.VIOLATED, None, (), (FINDING,)),
        (Standing.VIOLATED, Exempt.OPEN, SILENT, (FINDING,)),
    ],
    ids=lambda value: getattr(value, "word", None),
)
def test_a_verdict_keeps_every_reason_beside_its_standing(
    standing: Standing,
    exempt: Exempt | None,
    unknowns: tuple[Unknown, ...],
    findings: tuple[Finding, ...],
) -> None:
    """A verdict has one standing, and any number of reasons and findings."""
    verdict = Verdict(7, standing, exempt, unknowns, findings)
    assert (7, standing, exempt) == (verdict.ledger_id, verdict.standing, verdict.exempt)
    assert (unknowns, findings) == (verdict.unknowns, verdict.findings)


def test_entries_that_a_list_left_out_change_no_standing() -> None:
    """They are counted beside a sound standing."""
    assert 3 == Verdict(7, Standing.SOUND, listing_false_negatives=3).listing_false_negatives


@pytest.mark.parametrize(
    "verdict",
    [
        lambda: Verdict(7, Standing.SOUND, unknowns=(Unknown.BOOKIE_SILENT,)),
        lambda: Verdict(7, Standing.SOUND, Exempt.EMPTY),
        lambda: Verdict(7, Standing.SOUND, findings=(FINDING,)),
        lambda: Verdict(7, Standing.EXEMPT),
        lambda: Verdict(7, Standing.EXEMPT, Exempt.OPEN, findings=(FINDING,)),
        lambda: Verdict(7, Standing.INDETERMINATE, unknowns=(Unknown.POISON,), findings=(FINDING,)),
        lambda: Verdict(7, Standing.VIOLATED),
        lambda: Verdict(7, Standing.VIOLATED, unknowns=(Unknown.BOOKIE_SILENT,)),
    ],
)
def test_a_standing_that_its_reasons_do_not_bear_out_cannot_be_made(verdict: object) -> None:
    """A sound ledger with a reason, or a violated ledger without a finding, is our fault and raises
    at once.
    """
    assert callable(verdict)
    with pytest.raises(AssertionError):
        verdict()


ON_LEDGERS = [
    kind
    for kind in Kind
    if CATALOGUE[kind].subject is Subject.LEDGER and kind not in BESIDE_VERDICTS
]


@pytest.mark.parametrize(
    "kind", [kind for kind in ON_LEDGERS if CATALOGUE[kind].severity > Severity.INFO]
)
def test_a_warning_or_worse_on_a_ledger_makes_it_violated(kind: Kind) -> None:
    """A sound verdict with such a finding cannot be made."""
    with pytest.raises(AssertionError):
        Verdict(7, Standing.SOUND, findings=(finding_of(kind),))


@pytest.mark.parametrize(
    "kind", [kind for kind in ON_LEDGERS if CATALOGUE[kind].severity is Severity.INFO]
)
def test_info_never_changes_a_standing(kind: Kind) -> None:
    """A sound ledger stays sound, and no ledger is violated by such a finding alone."""
    assert Standing.SOUND is Verdict(7, Standing.SOUND, findings=(finding_of(kind),)).standing
    with pytest.raises(AssertionError):
        Verdict(7, Standing.VIOLATED, findings=(finding_of(kind),))
