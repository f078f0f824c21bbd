"""Whether a verdict had enough looks behind it, asked once more and apart from `recheck`, which decides when to commit.

BP-34's second look, as the contract words it: nothing is reported on one look; entries are reported missing after bookies were
asked at two looks of the same metadata, or one of a marked ledger; no ledger is looked at more often than allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.finding import Family, Kind, Severity
from auditor.model.verdict import Standing, Unknown, Verdict
from auditor.second_checker.metadata import is_beyond_grace
from auditor.second_checker.newest_words import is_same_write, words

CLOSING_LOOKS = 2
"""Looks at which no bookie is asked, beside the `looks_max` at which they are."""

LOOKS_THAT_ASK = 2
"""Looks of the same metadata at which bookies were asked, before an entry is reported."""

DELAYS = 2
"""Looks of one ledger, the second and the third, that a run waits before."""


def unsupported(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> tuple[str, ...]:
    """Each thing the verdict claims without the looks that it takes, as a sentence."""
    return tuple(_sentences(verdict, evidence, terms))


def _sentences(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> Iterator[str]:
    looks = evidence.looks
    asked = sum(1 for look in looks if look.answers)
    if len(looks) > terms.looks_max + CLOSING_LOOKS or asked > terms.looks_max:
        yield f"{len(looks)} looks were taken, and bookies asked at {asked}, where {terms.looks_max} are allowed"
    if verdict.findings and len(looks) < 2:
        yield "something is reported after a single look"
    same = len(looks) > 1 and is_same_write(looks[-2].record, looks[-1].record)
    if (
        any(one.severity is Severity.INFO for one in verdict.findings)
        and verdict.standing is not Standing.VIOLATED
        and not same
    ):
        yield "a remark is made on metadata that was not read twice alike"
    if Unknown.UNSETTLED in verdict.unknowns:
        yield from _of_unsettled(verdict, evidence, terms)
    else:
        yield from _of_entries(verdict, evidence, terms)


def _of_entries(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> Iterator[str]:
    """Missing or corrupt entries: asked twice, and the metadata read once more behind it."""
    told = [one for one in verdict.findings if one.family is Family.ENTRY or one.kind is Kind.UNDERREPLICATED_UNRECOVERABLE]
    if not told:
        return
    heard = words(evidence.looks, terms)
    if heard.asked < LOOKS_THAT_ASK:
        yield f"{told[0].kind.value} is reported after bookies were asked at {heard.asked} looks of the same metadata"
    if evidence.looks[-1].answers:
        yield f"{told[0].kind.value} is reported, and the metadata was not read again behind the answers"


def _of_unsettled(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> Iterator[str]:
    """A ledger that kept changing: looked at as often as allowed, and nothing said of it but a mark that stood through it."""
    looks = evidence.looks
    asked = sum(1 for look in looks if look.answers)
    if len(looks) <= terms.looks_max and asked < terms.looks_max and not _needs_a_third_delay(looks):
        yield f"it is given up after {len(looks)} looks, where {terms.looks_max} are allowed"
    stood = all(look.record.mark is not None for look in looks[-2:]) and len(looks) > 1
    late = stood and is_beyond_grace(looks[-1].record, terms)
    claimed = [one.kind for one in verdict.findings]
    if claimed != ([Kind.UNDERREPLICATED_BEYOND_GRACE] if late else []):
        yield f"of a ledger that kept changing it reports {', '.join(kind.value for kind in claimed) or 'no mark that stands'}"
    if not _has_its_standing(verdict):
        yield f"a ledger that kept changing is called {verdict.standing.word}"


def _needs_a_third_delay(looks: Sequence[Look]) -> bool:
    """Return whether two delays went by and the newest metadata was not yet seen at two looks."""
    return len(looks) > DELAYS and not is_same_write(looks[-2].record, looks[-1].record)


def _has_its_standing(verdict: Verdict) -> bool:
    """The two standings that a ledger can have of which nothing is known for sure but its mark."""
    return verdict.standing is (Standing.VIOLATED if verdict.findings else Standing.INDETERMINATE)
