"""Check that a verdict rests on enough looks, apart from `recheck`, which decides when to commit.

The contract's rules for BP-34's second look: nothing is reported after a single look. Entries are
reported missing after bookies were asked at two looks of the same metadata, and the metadata was
read again. No ledger has more looks than allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.finding import Family, Kind, Severity
from auditor.model.verdict import Standing, Unknown, Verdict
from auditor.second_checker.metadata import is_beyond_grace
from auditor.second_checker.newest_words import asked_looks, is_same_write

CLOSING_LOOKS = 2
"""Looks allowed beyond `looks_max`; no bookie is asked at them."""

LOOKS_THAT_ASK = 2
"""Looks of the same metadata at which bookies are asked before an entry is reported."""

_SAID_BY_BOOKIES = (Kind.UNDERREPLICATED_UNRECOVERABLE, Kind.RECOVERY_BLOCKED)
"""Kinds outside the family `entry` that rest on answers of bookies."""

DELAYS = 2
"""Looks of one ledger, the second and the third, that a run waits before."""


def unsupported_claims(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> tuple[str, ...]:
    """Return a sentence for each claim of the verdict that its looks do not support."""
    return tuple(_sentences(verdict, evidence, terms))


def _sentences(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> Iterator[str]:
    looks = evidence.looks
    asked = sum(1 for look in looks if look.answers)
    if len(looks) > terms.looks_max + CLOSING_LOOKS or asked > terms.looks_max:
        yield (
            f"{len(looks)} looks were taken, and bookies asked at {asked}, where {terms.looks_max}"
            " are allowed"
        )
    if verdict.findings and len(looks) < 2:
        yield "something is reported after a single look"
    same = len(looks) > 1 and is_same_write(looks[-2].record, looks[-1].record)
    if (
        any(one.severity is Severity.INFO for one in verdict.findings)
        and verdict.standing is not Standing.VIOLATED
        and not same
    ):
        yield "a finding of severity info rests on metadata that was not read twice alike"
    if Unknown.UNSETTLED in verdict.unknowns:
        yield from _of_unsettled(verdict, evidence, terms)
    else:
        yield from _of_entries(verdict, evidence)


def _of_entries(verdict: Verdict, evidence: LedgerEvidence) -> Iterator[str]:
    """Check missing or corrupt entries: bookies asked twice, then the metadata read once more."""
    reported = [
        one
        for one in verdict.findings
        if one.family is Family.ENTRY or one.kind in _SAID_BY_BOOKIES
    ]
    if not reported:
        return
    asked = asked_looks(evidence.looks)
    if asked < LOOKS_THAT_ASK:
        yield (
            f"{reported[0].kind.value} is reported after bookies were asked at {asked}"
            " looks of the same metadata"
        )
    if evidence.looks[-1].answers:
        yield (
            f"{reported[0].kind.value} is reported, and the metadata was not read again behind the"
            " answers"
        )


def _of_unsettled(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> Iterator[str]:
    """Check a ledger that kept changing.

    It must have had all looks allowed. Its only finding is a mark beyond grace, if the last two
    looks saw one.
    """
    looks = evidence.looks
    asked = sum(1 for look in looks if look.answers)
    if (
        len(looks) <= terms.looks_max
        and asked < terms.looks_max
        and not _needs_a_third_delay(looks)
    ):
        yield f"it is given up after {len(looks)} looks, where {terms.looks_max} are allowed"
    stood = all(look.record.mark is not None for look in looks[-2:]) and len(looks) > 1
    late = stood and is_beyond_grace(looks[-1].record, terms)
    claimed = [one.kind for one in verdict.findings]
    if claimed != ([Kind.UNDERREPLICATED_BEYOND_GRACE] if late else []):
        yield (
            "of a ledger that kept changing it reports"
            f" {', '.join(kind.value for kind in claimed) or 'no mark that stands'}"
        )
    if not _has_its_standing(verdict):
        yield f"a ledger that kept changing is called {verdict.standing.word}"


def _needs_a_third_delay(looks: Sequence[Look]) -> bool:
    """Return whether two delays went by and the newest metadata was not yet seen at two looks."""
    return len(looks) > DELAYS and not is_same_write(looks[-2].record, looks[-1].record)


def _has_its_standing(verdict: Verdict) -> bool:
    """Return whether an unsettled verdict is VIOLATED with findings, or INDETERMINATE without."""
    return verdict.standing is (Standing.VIOLATED if verdict.findings else Standing.INDETERMINATE)
