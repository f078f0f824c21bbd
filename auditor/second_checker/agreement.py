"""Compare the verdicts of the first and the second checker on the same evidence of one ledger.

A final verdict is speculative until the second checker confirms it: until `differences` returns no
sentence. Each sentence names one respect in which the checkers differ, with both sides: a standing,
a reason, a finding, or one fact of a finding. A difference is our fault, never the cluster's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set, Sized
from dataclasses import fields, replace
from functools import cache
from hashlib import sha256
from typing import Any, TypeAlias, TypeVar

from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.facts import (
    CONTRADICTIONS_MAX,
    BeyondEndFacts,
    ContradictionFacts,
    CorruptFacts,
    EntryFacts,
    Facts,
    MarkFacts,
    PlacementFacts,
    Search,
    UnavailableFacts,
    UnrecoverableFacts,
    WhyMarked,
)
from auditor.model.finding import CATALOGUE, RANGES_MAX, Family, Finding, Kind, Ranges, Severity
from auditor.model.identity import EntryId, LedgerId
from auditor.model.verdict import Standing, Unknown, Verdict
from auditor.second_checker.blocks import Block
from auditor.second_checker.copies import Entries
from auditor.second_checker.findings import CrossCheckFinding
from auditor.second_checker.looks import unsupported_claims
from auditor.second_checker.opinion import Opinion, judge_entry_by_entry
from auditor.second_checker.placement import WRITE_SETS_SHOWN_MAX

Pair: TypeAlias = tuple[str, object, object]

_NEEDS_EVERY_ENTRY = frozenset(
    {WhyMarked.NO_COPY_IN_REACH, WhyMarked.NO_SPARE_BOOKIE, WhyMarked.STALE}
)
"""Reasons for a mark that may depend on an entry that was not examined."""


def facts_compared(
    one: Facts, other: Facts, *, is_whole: bool = True, left_open: Set[int | None] = frozenset()
) -> Iterator[Pair]:
    """Yield (name of a fact, what the first checker says, what the second says), equal or not.

    If not `is_whole`, the second checker did not examine every entry. Facts that depend on every
    entry are then compared as far as the examined entries show. `left_open`: write sets whose
    placement the second could not try, by where they begin.
    """
    match one, other:
        case UnrecoverableFacts(), UnrecoverableFacts():
            yield from facts_compared(one.entries, other.entries, is_whole=is_whole)
            yield from facts_compared(one.mark, other.mark, is_whole=is_whole)
        case EntryFacts(), EntryFacts():
            yield from _entries(one, other, is_whole=is_whole)
        case MarkFacts(), MarkFacts() if not is_whole:
            yield from _each(_without_doubt(one), _without_doubt(other))
        case ContradictionFacts(), ContradictionFacts():
            yield from _contradictions(one, other)
        case PlacementFacts(), PlacementFacts():
            yield from _placement(one, other, left_open)
        case _ if type(one) is type(other):
            yield from _each(one, other)
        case _:
            yield "facts", type(one).__name__, type(other).__name__


def _each(
    one: Facts | Search, other: Facts | Search, *, but: Set[str] = frozenset()
) -> Iterator[Pair]:
    """Yield every fact but those named."""
    of: Any = type(one)
    for name, text in _names(of):
        if name not in but:
            yield text, getattr(one, name), getattr(other, name)


@cache
def _names(of: type[Any]) -> tuple[tuple[str, str], ...]:
    """Return the name of each fact, and the name as it is written to people."""
    return tuple((field.name, field.name.replace("_", " ")) for field in fields(of))


def _entries(one: EntryFacts, other: EntryFacts, *, is_whole: bool) -> Iterator[Pair]:
    search, again = one.search, other.search
    yield from _each(one, other, but={"search"} if is_whole else {"search", "at_tail"})
    if is_whole and search is not None and again is not None:
        yield from _each(search, again)
    elif is_whole:
        yield "search", search, again
    elif again is not None:
        # Without all entries, the second checker can only find fewer bookies than the first.
        found_on, corrupt_on = (search.found_on, search.corrupt_on) if search else ((), ())
        yield "found on", set(again.found_on).difference(found_on), set()
        yield "corrupt on", set(again.corrupt_on).difference(corrupt_on), set()


def _without_doubt(mark: MarkFacts) -> MarkFacts:
    return replace(
        mark, why=tuple(reason for reason in mark.why if reason not in _NEEDS_EVERY_ENTRY)
    )


def _contradictions(one: ContradictionFacts, other: ContradictionFacts) -> Iterator[Pair]:
    yield "contradictions in all", one.total, other.total
    yield "contradictions named", len(one.contradictions), min(CONTRADICTIONS_MAX, other.total)
    yield (
        "contradictions that are none",
        dict(Counter(one.contradictions) - Counter(other.contradictions)),
        {},
    )
    yield "beyond the end", one.beyond_end, other.beyond_end


def _placement(
    one: PlacementFacts, other: PlacementFacts, left_open: Set[int | None]
) -> Iterator[Pair]:
    """Compare all facts, except those of write sets that the second checker left open.

    There, the first checker decides how many write sets are at fault and why.
    """
    yield from _each(one, other, but={"shown", "deciding"})
    fewest, most = other.deciding, other.deciding + len(left_open)
    yield "write sets that decide", one.deciding, min(max(one.deciding, fewest), most)
    yield "write sets shown", len(one.shown), min(WRITE_SETS_SHOWN_MAX, one.deciding)
    tried = tuple(shown for shown in one.shown if shown.position not in left_open)
    yield "write sets at fault", tried, other.shown[: len(tried)] if left_open else other.shown


DIFFERENCES_TOLD_MAX = 5
"""Differences on one ledger that are written out; the rest are counted."""
DIFFERENCE_CHARS_MAX = 400
"""Characters kept of each difference. Two lists of ranges are long, and the evidence can be judged
again."""

F = TypeVar("F", Finding, CrossCheckFinding)
Key = tuple[str, EntryId]
"""A kind and, for placement findings, the first entry of the segment (-1 for all other kinds)."""


def is_due(verdict: Verdict, terms: Terms) -> bool:
    """Return whether a final verdict goes to the second checker.

    A verdict on a poisoned ledger does not. Of the sound ledgers without findings those do that
    `is_in_sample`, and all other verdicts do.
    """
    if verdict.standing is not Standing.SOUND or verdict.findings:
        return Unknown.POISON not in verdict.unknowns
    return is_in_sample(verdict.ledger_id, terms)


def is_in_sample(ledger_id: LedgerId, terms: Terms) -> bool:
    """Return whether the ledger goes to the second checker even if it is sound.

    The share `sound_sample` of all ledgers does. It is chosen by a hash of the ledger id and the
    run's probe seed: another run chooses other ledgers, a replay the same.
    """
    if terms.sound_sample <= 0:
        return False
    drawn = sha256(f"{ledger_id} {terms.probe_seed} sound".encode()).digest()
    return int.from_bytes(drawn[:8], "big") < terms.sound_sample * 2**64


def differ_text(sentences: tuple[str, ...]) -> str:
    """Return the first few differences as text for the verdict's `detail`, and count the rest."""
    shortened = [
        one if len(one) <= DIFFERENCE_CHARS_MAX else f"{one[:DIFFERENCE_CHARS_MAX]}..."
        for one in sentences
    ]
    rest = len(shortened) - DIFFERENCES_TOLD_MAX
    return "; ".join(
        (*shortened[:DIFFERENCES_TOLD_MAX], *([f"and {rest} more differences"] if rest > 0 else []))
    )


def differences(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> tuple[str, ...]:
    """Return the objections of the second checker to a final verdict, as sentences.

    If there is none, the verdict is confirmed and may be committed.
    """
    early = unsupported_claims(verdict, evidence, terms)
    if Unknown.UNSETTLED in verdict.unknowns:
        return early  # the verdict claims nothing else about a ledger that kept changing
    return (
        *early,
        *agree(verdict, judge_entry_by_entry(evidence, terms, _claimed_entries(verdict.findings))),
    )


def agree(first: Verdict, second: Opinion) -> tuple[str, ...]:
    """Return each difference between the two checkers as a sentence, in a fixed order."""
    second = _with_what_it_left_open(second, first)
    return tuple(
        f"{what}: the first checker says {one}, the second {other}"
        for what, one, other in (*_of_the_ledger(first, second), *_of_findings(first, second))
        if one != other
    )


def _with_what_it_left_open(second: Opinion, first: Verdict) -> Opinion:
    """Return the second opinion with the first checker's findings where the second could not judge.

    These are placement findings on segments in `unjudged`, and entries beyond an end that is open.
    """
    if not second.unjudged and not second.end_is_open:
        return second
    kinds = (Kind.PLACEMENT_FAILED, Kind.PLACEMENT_SOFT)
    adopted = [
        CrossCheckFinding(one.kind, one.facts, one.segment)
        for one in first.findings
        if (
            one.kind in kinds
            and one.segment is not None
            and one.segment.first_entry_id in second.unjudged
        )
        or (second.end_is_open and isinstance(one.facts, BeyondEndFacts))
    ]
    seconds = second.findings
    if second.end_is_open:
        seconds = tuple(_with_open_end(one, first.findings) for one in seconds)
    unknowns = second.unknowns
    if second.unjudged:
        unknowns |= {Unknown.TOPOLOGY_UNKNOWN} & set(first.unknowns)
    standing = max(second.standing, Standing.INDETERMINATE) if unknowns else second.standing
    if any(CATALOGUE[one.kind].severity is not Severity.INFO for one in adopted):
        standing = Standing.VIOLATED
    findings = (*seconds, *adopted)
    waits = second.only_maintenance and standing is Standing.INDETERMINATE
    return replace(
        second, standing=standing, unknowns=unknowns, findings=findings, only_maintenance=waits
    )


def _with_open_end(other: CrossCheckFinding, firsts: Iterable[Finding]) -> CrossCheckFinding:
    """Return the finding with what the first checker says of the end, if it says it of metadata
    that contradicts itself.
    """
    facts = other.facts
    for one in firsts:
        if isinstance(one.facts, ContradictionFacts) and isinstance(facts, ContradictionFacts):
            return replace(other, facts=replace(facts, beyond_end=one.facts.beyond_end))
    return other


def _of_the_ledger(first: Verdict, second: Opinion) -> Iterator[Pair]:
    yield "standing", first.standing.word, second.standing.word
    yield "exempt", first.exempt and first.exempt.value, second.exempt and second.exempt.value
    if set(first.unknowns) != second.unknowns:
        yield "unknown because of", _words(first.unknowns), _words(second.unknowns)
    yield "entries left out of lists", first.listing_false_negatives, second.listing_false_negatives
    yield (
        "entries read on bookies that cannot list",
        first.probes and first.probes.read,
        second.probes and second.probes[0],
    )
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
    ones, others = _by_key(first.findings), _by_key(second.findings)
    if [(key, len(ones[key])) for key in ones] != [(key, len(others[key])) for key in others]:
        yield "findings", _list_kinds(ones), _list_kinds(others)
    for key in sorted(ones.keys() & others.keys()):
        for one, other in zip(ones[key], others[key], strict=False):
            yield from _of_finding(one, other, second)


def _by_key(findings: Iterable[F]) -> dict[Key, list[F]]:
    """Return the findings of each key, in their order.

    Metadata that contradicts itself may have two segments that begin with the same entry, so a key
    may have two findings.
    """
    found: dict[Key, list[F]] = {}
    for one in findings:
        found.setdefault(_key(one), []).append(one)
    return found


def _key(one: Finding | CrossCheckFinding) -> Key:
    about_segment = CATALOGUE[one.kind].family is Family.PLACEMENT
    return one.kind.value, one.segment.first_entry_id if about_segment and one.segment else -1


def _list_kinds(findings: Mapping[Key, Sized]) -> str:
    keys = sorted(key for key, of_it in findings.items() for _ in range(len(of_it)))
    return (
        ", ".join(
            kind if first < 0 else f"{kind} of the segment at {first}" for kind, first in keys
        )
        or "none"
    )


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
    yield from _of_entries(
        f"{kind}, entries", one.entries, one.entries_total, other.entries, second
    )
    missing = dict(one.missing_on)
    yield (
        f"{kind}, bookies that lack entries",
        sorted(other.missing_on.keys() | missing.keys()),
        sorted(missing),
    )
    if second.is_whole:
        yield f"{kind}, bookies that lack entries", sorted(missing), sorted(other.missing_on)
    for bookie in sorted(missing.keys() & other.missing_on.keys()):
        yield from _of_entries(
            f"{kind}, missing on {bookie}", missing[bookie], None, other.missing_on[bookie], second
        )


def _of_entries(
    what: str, ranges: Ranges, total: int | None, other: Entries, second: Opinion
) -> Iterator[Pair]:
    """Compare all entries if the second checker examined all of them.

    Otherwise compare the examined entries, up to the end of the ranges that the first checker kept.
    """
    if second.is_whole:
        yield what, ranges, other.ranges[:RANGES_MAX]
        if total is not None:
            yield f"{what} in all", total, other.total
        return
    horizon = ranges[-1][1] if len(ranges) >= RANGES_MAX else None
    yield (
        what,
        _clip_to_blocks(ranges, second.blocks, horizon),
        _clip_to_blocks(other.ranges, second.blocks, horizon),
    )
    if total is not None and len(ranges) < RANGES_MAX:
        yield f"{what} in all", total, sum(last - first + 1 for first, last in ranges)


def _clip_to_blocks(
    ranges: Ranges, blocks: Iterable[Block], horizon: EntryId | None
) -> list[tuple[EntryId, EntryId]]:
    """Return the parts of the ranges that lie within the blocks, up to the horizon.

    Ranges and blocks are ascending and disjoint. Costs a binary search for each block,
    and the parts that are found.
    """
    found = []
    for block in blocks:
        high = block.high if horizon is None else min(block.high, horizon)
        begin = bisect_left(ranges, block.low, key=lambda one: one[1])
        for at in range(begin, len(ranges)):
            first, last = max(ranges[at][0], block.low), min(ranges[at][1], high)
            if first > last:
                break
            found.append((first, last))
    return found


def _claimed_entries(findings: Iterable[Finding]) -> Iterator[EntryId]:
    """Yield the ends of all ranges in the findings, and each worst entry."""
    for one in findings:
        for ranges in (one.entries, *(of_bookie for _, of_bookie in one.missing_on)):
            yield from (entry for pair in ranges for entry in pair)
        worst = worst_entry_of(one)
        yield from () if worst is None else (worst,)


def worst_entry_of(one: Finding | CrossCheckFinding) -> EntryId | None:
    """Return the worst entry that a finding of either checker names.

    Return None if the finding is not about entries.
    """
    facts = one.facts.entries if isinstance(one.facts, UnrecoverableFacts) else one.facts
    return (
        facts.worst_entry
        if isinstance(facts, EntryFacts | UnavailableFacts | CorruptFacts)
        else None
    )
