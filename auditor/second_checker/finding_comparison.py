"""Compare the findings of both checkers on bookies and on the cluster.

A ledger on which the checkers differ is withheld whole. Here only the finding is withheld, because
it has no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from auditor.model.facts import Facts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.second_checker.fact_comparison import facts_compared

SIDE_CHARS_MAX = 200
"""Characters kept of what each checker says of a fact."""

Subject = tuple[Kind, BookieId | LedgerId | None]
"""A kind, and the bookie or ledger it is about; None: the cluster."""


class Difference(NamedTuple):
    """A finding that is withheld, and how the checkers differ on it.

    If `is_withheld` is False, no finding is: they differ on what is unknown.
    """

    kind: Kind
    bookie_id: BookieId | None
    detail: str
    ledger_id: LedgerId | None = None
    is_withheld: bool = True

    @property
    def sentence(self) -> str:
        """The difference as a sentence for people."""
        differ = "our two checkers differ on the same evidence"
        if not self.is_withheld:
            about = "" if self.ledger_id is None else f" about ledger {self.ledger_id}"
            return f"{differ}{about} ({self.detail})"
        where = "the cluster" if self.bookie_id is None else f"bookie {self.bookie_id}"
        where = where if self.ledger_id is None else f"ledger {self.ledger_id}"
        return f"{self.kind.value} on {where} is withheld: {differ} ({self.detail})"


class Agreed(NamedTuple):
    """The findings that the second checker confirms, in the first's order, and the differences."""

    findings: list[Finding]
    differ: list[Difference]


def agree_on(findings: Iterable[Finding], seconds: Mapping[Subject, Facts]) -> Agreed:
    """Return which findings the second checker confirms, and how the checkers differ on the rest.

    `seconds`: the facts that the second checker derived for each subject.
    """
    agreed = Agreed([], [])
    seen = set[Subject]()
    for one in findings:
        key: Subject = (one.kind, one.bookie_id if one.ledger_id is None else one.ledger_id)
        seen.add(key)
        detail = _detail(one.facts, seconds.get(key))
        if detail:
            agreed.differ.append(_difference(key, detail))
        else:
            agreed.findings.append(one)
    missed = sorted(
        (key for key in seconds if key not in seen), key=lambda key: (key[0].value, str(key[1]))
    )
    agreed.differ.extend(
        _difference(key, "the second checker finds it, the first does not") for key in missed
    )
    return agreed


def _difference(key: Subject, detail: str) -> Difference:
    kind, subject = key
    if isinstance(subject, int):
        return Difference(kind, None, detail, subject)
    return Difference(kind, subject, detail)


def _detail(first: Facts, second: Facts | None) -> str:
    if second is None:
        return "the first checker finds it, the second does not"
    pairs = [
        (what, one, other) for what, one, other in facts_compared(first, second) if one != other
    ]
    return "; ".join(
        f"{what}: the first says {_short(one)}, the second {_short(other)}"
        for what, one, other in pairs
    )


def _short(side: object) -> str:
    text = str(side)
    return text if len(text) <= SIDE_CHARS_MAX else f"{text[:SIDE_CHARS_MAX]}..."
