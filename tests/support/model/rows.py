"""What an audit says of a ledger, reduced to what the model owes: rows, findings, and their facts
in one form.

Facts are (name, value) pairs in order of name. A nested fact has both names joined by a dot
(`search.found_on`), a list is a tuple, an age is in minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Fact = tuple[str, object]

NOT_OWED = frozenset(
    {"created_ms", "changed_ms", "since_ms", "lock_since_ms", "reason", "offset_bytes"}
)
"""Facts that the model cannot know: when ZooKeeper wrote a znode, and a decoder's error text."""
AGE_STEP_MINUTES = 25
"""The model's time moves in multiples of this, so a slow machine does not change an age."""
MINUTE_MS = 60_000


class FindingRow(NamedTuple):
    """A finding as the model owes it. `first`: first entry of the segment; `missing`: what each
    bookie lacks.
    """

    kind: str
    first: int | None = None
    entries: tuple[int, ...] = ()
    missing: tuple[tuple[str, tuple[int, ...]], ...] = ()
    confirmed: int | None = None
    unknown: int | None = None
    facts: tuple[Fact, ...] = ()


class CopyFacts(NamedTuple):
    """The copies that a ledger promises: those that a list named, those that were read, and those
    that are assumed.
    """

    expected: int
    listed: int
    read: int
    assumed: int = 0


class Row(NamedTuple):
    """A verdict as the model owes it. Findings ascend by kind and segment."""

    standing: str
    exempt: str | None = None
    unknowns: tuple[str, ...] = ()
    findings: tuple[FindingRow, ...] = ()
    copies: CopyFacts | None = None
    is_mark_stale: bool = False

    def bare(self) -> Row:
        """The row without facts: only the verdict."""
        findings = tuple(one._replace(facts=()) for one in self.findings)
        return self._replace(findings=findings, copies=None, is_mark_stale=False)

    def __str__(self) -> str:
        words = [self.standing, *([f"({self.exempt})"] if self.exempt else []), *self.unknowns]
        if self.copies is not None:
            words.append(
                ", ".join(f"{count} {word}" for word, count in self.copies._asdict().items())
            )
        words += ["stale mark"] if self.is_mark_stale else []
        return " ".join([*words, *(f"\n    {_in_words(one)}" for one in self.findings)])


def wrong_facts(said: Row, owed: Row) -> list[str]:
    """Return each fact in which two rows with the same verdict differ, as a sentence."""
    sentences = []
    for one, other in zip(said.findings, owed.findings, strict=True):
        says, truth = dict(one.facts), dict(other.facts)
        for name in sorted(says.keys() | truth.keys()):
            if says.get(name) != truth.get(name):
                sentences.append(
                    f"{one.kind}: {name} is {says.get(name)}, and in truth {truth.get(name)}"
                )
    if said.copies != owed.copies:
        sentences.append(f"copies: {said.copies}, and in truth {owed.copies}")
    if said.is_mark_stale != owed.is_mark_stale:
        sentences.append(f"a stale mark: {said.is_mark_stale}, and in truth {owed.is_mark_stale}")
    return sentences


def age_minutes(age_ms: int) -> int:
    """Return the age in the model's steps, to the nearest step: a resumed audit may date its
    judgement before the mark.
    """
    step_ms = AGE_STEP_MINUTES * MINUTE_MS
    return (age_ms + step_ms // 2) // step_ms * AGE_STEP_MINUTES


def flat(facts: Mapping[str, Any] | None, within: str = "") -> tuple[Fact, ...]:
    """Return the facts of a finding, given as in JSON, in the form of the model."""
    return tuple(sorted(_flat(facts or {}, within), key=lambda one: one[0]))


def _flat(facts: Mapping[str, Any], within: str) -> Iterator[Fact]:
    for name, value in facts.items():
        if name in NOT_OWED:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{within}{name}.")
        elif name == "age_ms":
            yield f"{within}age_minutes", age_minutes(value)
        else:
            yield f"{within}{name}", _as_tuples(value)


def _as_tuples(value: Any) -> object:
    if isinstance(value, list | tuple):
        return tuple(map(_as_tuples, value))
    if isinstance(value, Mapping):
        return tuple((name, _as_tuples(one)) for name, one in value.items())
    return value


def _in_words(finding: FindingRow) -> str:
    parts = [finding.kind, *([f"segment {finding.first}"] if finding.first is not None else [])]
    if finding.entries:
        parts.append(f"entries {_short(finding.entries)}")
    parts += [f"{bookie} lacks {_short(entries)}" for bookie, entries in finding.missing]
    if finding.confirmed is not None:
        parts.append(f"{finding.confirmed} confirmed {finding.unknown} unknown")
    parts += [f"{name}={value}" for name, value in finding.facts]
    return ", ".join(parts)


def _short(entries: tuple[int, ...]) -> str:
    return " ".join(map(str, entries))
