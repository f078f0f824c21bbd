"""Compare the findings of both checkers on bookies and on the cluster.

A ledger on which the checkers differ is withheld whole. Here only the finding is withheld, because
it has no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from auditor.model.facts import Facts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId
from auditor.second_checker.fact_comparison import facts_compared

SIDE_CHARS_MAX = 200
"""Characters kept of what each checker says of a fact."""

Subject = tuple[Kind, BookieId | None]
"""A kind, and the bookie it is about; None: the cluster."""


class Difference(NamedTuple):
    """A finding that is withheld, and how the checkers differ on it."""

    kind: Kind
    bookie_id: BookieId | None
    detail: str

    @property
    def sentence(self) -> str:
        """The difference as a sentence for people."""
        where = "the cluster" if self.bookie_id is None else f"bookie {self.bookie_id}"
        return f"{self.kind.value} on {where} is withheld: our two checkers differ on the same evidence ({self.detail})"


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
        key = one.kind, one.bookie_id
        seen.add(key)
        detail = _detail(one.facts, seconds.get(key))
        if detail:
            agreed.differ.append(Difference(*key, detail))
        else:
            agreed.findings.append(one)
    missed = [Difference(*key, "the second checker finds it, the first does not") for key in seconds if key not in seen]
    agreed.differ.extend(sorted(missed))
    return agreed


def _detail(first: Facts, second: Facts | None) -> str:
    if second is None:
        return "the first checker finds it, the second does not"
    pairs = [(what, one, other) for what, one, other in facts_compared(first, second) if one != other]
    return "; ".join(f"{what}: the first says {_short(one)}, the second {_short(other)}" for what, one, other in pairs)


def _short(side: object) -> str:
    text = str(side)
    return text if len(text) <= SIDE_CHARS_MAX else f"{text[:SIDE_CHARS_MAX]}..."
