"""Commitment by checker replicas: whether the second checker confirms the first one's verdict on the same evidence.

A verdict is speculative until the second checker says OK, which is: no sentence here. Each sentence is one respect in which the
two differ, with both sides. That is our fault, never the cluster's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import replace
from hashlib import sha256
from typing import TypeVar

from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.facts import CorruptFacts, EntryFacts, UnrecoverableFacts
from auditor.model.finding import CATALOGUE, RANGES_MAX, Family, Finding, Kind, Ranges, Severity
from auditor.model.identity import EntryId
from auditor.model.verdict import Standing, Unknown, Verdict
from auditor.second_checker.blocks import Block
from auditor.second_checker.copies import Entries
from auditor.second_checker.enough_looks import unsupported
from auditor.second_checker.fact_comparison import facts_compared
from auditor.second_checker.findings import CrossCheckFinding
from auditor.second_checker.opinion import Opinion, enumerated

DIFFERENCES_TOLD_MAX = 5
"""Differences on one ledger that are told; the rest is counted."""
DIFFERENCE_CHARS_MAX = 400
"""Characters of each: two lists of ranges are long, and what differs can be judged again from the evidence."""

F = TypeVar("F", Finding, CrossCheckFinding)
Key = tuple[str, EntryId]
"""A kind, and the first entry of the segment it is about where it is a placement (-1 elsewhere)."""


def is_due(verdict: Verdict, terms: Terms) -> bool:
    """Whether a final verdict goes to the second checker: all but the sound, and of these the share `sound_sample`.

    Which of the sound is a hash of the ledger and the run (its probe seed): another run takes others, a replay the same.
    """
    if verdict.standing is not Standing.SOUND or verdict.findings:
        return Unknown.POISON not in verdict.unknowns
    if terms.sound_sample <= 0:
        return False
    drawn = sha256(f"{verdict.ledger_id} {terms.probe_seed} sound".encode()).digest()
    return int.from_bytes(drawn[:8], "big") < terms.sound_sample * 2**64


def differ_text(sentences: tuple[str, ...]) -> str:
    """What the checkers differ on, for the verdict's `detail`: both sides of the first few."""
    told = [one if len(one) <= DIFFERENCE_CHARS_MAX else f"{one[:DIFFERENCE_CHARS_MAX]}..." for one in sentences]
    rest = len(told) - DIFFERENCES_TOLD_MAX
    return "; ".join((*told[:DIFFERENCES_TOLD_MAX], *([f"and {rest} more differences"] if rest > 0 else [])))


def differences(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> tuple[str, ...]:
    """What the second checker says against a final verdict; empty: it is confirmed and may be committed."""
    early = unsupported(verdict, evidence, terms)
    if Unknown.UNSETTLED in verdict.unknowns:
        return early  # nothing else is claimed of a ledger that kept changing
    return (*early, *agree(verdict, enumerated(evidence, terms, _claimed(verdict.findings))))


def agree(first: Verdict, second: Opinion) -> tuple[str, ...]:
    """Each difference between the two checkers as a sentence, in a fixed order."""
    second = _with_what_it_left_open(second, first)
    return tuple(
        f"{what}: the first checker says {one}, the second {other}"
        for what, one, other in (*_of_the_ledger(first, second), *_of_findings(first, second))
        if one != other
    )


def _with_what_it_left_open(second: Opinion, first: Verdict) -> Opinion:
    """The first checker's word on the placement of segments that are too open for the second, and on what lies above an end
    that is."""
    if not second.unjudged and not second.end_is_open:
        return second
    kinds = (Kind.PLACEMENT_FAILED, Kind.PLACEMENT_SOFT)
    adopted = [
        CrossCheckFinding(one.kind, one.facts, one.segment)
        for one in first.findings
        if (one.kind in kinds and one.segment is not None and one.segment.first_entry_id in second.unjudged)
        or (one.kind is Kind.ENTRIES_BEYOND_END and second.end_is_open)
    ]
    unknowns = second.unknowns
    if second.unjudged:
        unknowns |= {Unknown.TOPOLOGY_UNKNOWN} & set(first.unknowns)
    standing = max(second.standing, Standing.INDETERMINATE) if unknowns else second.standing
    if any(CATALOGUE[one.kind].severity is not Severity.INFO for one in adopted):
        standing = Standing.VIOLATED
    told = (*second.told, *adopted)
    waits = second.only_maintenance and standing is Standing.INDETERMINATE
    return replace(second, standing=standing, unknowns=unknowns, told=told, only_maintenance=waits)


Pair = tuple[str, object, object]


def _of_the_ledger(first: Verdict, second: Opinion) -> Iterator[Pair]:
    yield "standing", first.standing.word, second.standing.word
    yield "exempt", first.exempt and first.exempt.value, second.exempt and second.exempt.value
    yield "unknown because of", _words(first.unknowns), _words(second.unknowns)
    yield "entries left out of lists", first.listing_false_negatives, second.listing_false_negatives
    yield "entries read on bookies that cannot list", first.probes and first.probes.read, second.probes and second.probes[0]
    if first.probes and second.probes and second.probes[1] is not None:
        yield "of these drawn at random", first.probes.random, second.probes[1]
    yield "waits for maintenance only", first.only_maintenance, second.only_maintenance
    if second.is_whole:
        yield "what copies rest on", first.copies, second.copies
        yield "stale mark", first.is_mark_stale, second.is_mark_stale
    lacks = {one.bookie_id: (one.expected, one.absent) for one in first.lacks}
    if second.is_whole:
        yield "what bookies lack", lacks, dict(second.lacks)
    else:
        yield "bookies that lack entries", set(), set(second.lacks) - set(lacks)


def _words(unknowns: Iterable[Unknown]) -> str:
    return " ".join(one.value for one in Unknown if one in set(unknowns)) or "nothing"


def _of_findings(first: Verdict, second: Opinion) -> Iterator[Pair]:
    ones, others = _by_key(first.findings), _by_key(second.told)
    yield "findings", _listed(ones), _listed(others)
    for key in sorted(ones.keys() & others.keys()):
        for one, other in zip(ones[key], others[key], strict=False):
            yield from _of_finding(one, other, second)


def _by_key(findings: Iterable[F]) -> dict[Key, list[F]]:
    """Return the findings of each key, in their order. Metadata that contradicts itself may have two segments that begin with
    the same entry, so a key may have two findings."""
    found: dict[Key, list[F]] = {}
    for one in findings:
        found.setdefault(_key(one), []).append(one)
    return found


def _key(one: Finding | CrossCheckFinding) -> Key:
    about_segment = CATALOGUE[one.kind].family is Family.PLACEMENT
    return one.kind.value, one.segment.first_entry_id if about_segment and one.segment else -1


def _listed(findings: Mapping[Key, Sized]) -> str:
    keys = sorted(key for key, of_it in findings.items() for _ in range(len(of_it)))
    return ", ".join(kind if first < 0 else f"{kind} of the segment at {first}" for kind, first in keys) or "none"


def _of_finding(one: Finding, other: CrossCheckFinding, second: Opinion) -> Iterator[Pair]:
    kind = one.kind.value
    yield f"{kind}, its segment", one.segment, other.segment
    for what, first_says, second_says in facts_compared(
        one.facts, other.facts, is_whole=second.is_whole, left_open=other.left_open
    ):
        yield f"{kind}, {what}", first_says, second_says
    if other.entries is None:
        return
    yield f"{kind}, copies of the worst entry", one.copies, other.copies
    yield from _of_entries(f"{kind}, entries", one.entries, one.entries_total, other.entries, second)
    missing = dict(one.missing_on)
    yield f"{kind}, bookies that lack entries", sorted(other.missing_on.keys() | missing.keys()), sorted(missing)
    if second.is_whole:
        yield f"{kind}, bookies that lack entries", sorted(missing), sorted(other.missing_on)
    for bookie in sorted(missing.keys() & other.missing_on.keys()):
        yield from _of_entries(f"{kind}, missing on {bookie}", missing[bookie], None, other.missing_on[bookie], second)


def _of_entries(what: str, ranges: Ranges, total: int | None, other: Entries, second: Opinion) -> Iterator[Pair]:
    """All of them where all entries were looked at; else those that were looked at, as far as the first one's ranges go."""
    if second.is_whole:
        yield what, ranges, other.ranges[:RANGES_MAX]
        if total is not None:
            yield f"{what} in all", total, other.total
        return
    horizon = ranges[-1][1] if len(ranges) >= RANGES_MAX else None
    yield what, _looked_at(ranges, second.blocks, horizon), _looked_at(other.ranges, second.blocks, horizon)
    if total is not None and len(ranges) < RANGES_MAX:
        yield f"{what} in all", total, sum(last - first + 1 for first, last in ranges)


def _looked_at(ranges: Ranges, blocks: Iterable[Block], horizon: EntryId | None) -> list[tuple[EntryId, EntryId]]:
    """Return the parts of the ranges that lie within the blocks, up to the horizon.

    Both ascend and are disjoint. Costs blocks and ranges: each is passed once.
    """
    found = []
    at = 0
    for block in blocks:
        high = block.high if horizon is None else min(block.high, horizon)
        if high < block.low:
            break
        while at < len(ranges) and ranges[at][0] <= high:
            first, last = ranges[at]
            if last >= block.low:
                found.append((max(first, block.low), min(last, high)))
            if last > high:  # it goes on in the next block
                break
            at += 1
    return found


def _claimed(findings: Iterable[Finding]) -> Iterator[EntryId]:
    """Entries that the findings stand on."""
    for one in findings:
        for ranges in (one.entries, *(of_bookie for _, of_bookie in one.missing_on)):
            yield from (entry for pair in ranges for entry in pair)
        worst = worst_entry_of(one)
        yield from () if worst is None else (worst,)


def worst_entry_of(one: Finding | CrossCheckFinding) -> EntryId | None:
    """Return the worst entry that a finding of either checker names; None where it is not about entries."""
    facts = one.facts.entries if isinstance(one.facts, UnrecoverableFacts) else one.facts
    return facts.worst_entry if isinstance(facts, EntryFacts | CorruptFacts) else None
