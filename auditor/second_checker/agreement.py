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
from functools import cache, lru_cache
from hashlib import sha256
from itertools import chain
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

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
from auditor.model.mixing import mix, mix_one
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


def compare_facts(
    first: Facts, second: Facts, *, is_whole: bool = True, left_open: Set[int | None] = frozenset()
) -> Iterator[Pair]:
    """Yield (name of a fact, the first checker's value, the second's value), equal or not.

    If not `is_whole`, the second checker did not examine every entry. Facts that depend on every
    entry are then compared as far as the examined entries show. `left_open`: where the write sets
    begin whose placement the second checker could not judge.
    """
    match first, second:
        case UnrecoverableFacts(), UnrecoverableFacts():
            yield from compare_facts(first.entries, second.entries, is_whole=is_whole)
            yield from compare_facts(first.mark, second.mark, is_whole=is_whole)
        case EntryFacts(), EntryFacts():
            yield from _compare_entry_facts(first, second, is_whole=is_whole)
        case MarkFacts(), MarkFacts() if not is_whole:
            yield from _compare_fields(_without_doubt(first), _without_doubt(second))
        case ContradictionFacts(), ContradictionFacts():
            yield from _compare_contradictions(first, second)
        case PlacementFacts(), PlacementFacts():
            yield from _compare_placement(first, second, left_open)
        case _ if type(first) is type(second):
            yield from _compare_fields(first, second)
        case _:
            yield "facts", type(first).__name__, type(second).__name__


def _compare_fields(
    first: Facts | Search, second: Facts | Search, *, but: Set[str] = frozenset()
) -> Iterator[Pair]:
    """Yield every field except those in `but`."""
    of: Any = type(first)
    for name, text in _field_names(of):
        if name not in but:
            yield text, getattr(first, name), getattr(second, name)


@cache
def _field_names(of: type[Any]) -> tuple[tuple[str, str], ...]:
    """Return the name of each field, and the same name as it is shown to people."""
    return tuple((field.name, field.name.replace("_", " ")) for field in fields(of))


def _compare_entry_facts(
    first: EntryFacts, second: EntryFacts, *, is_whole: bool
) -> Iterator[Pair]:
    if is_whole and first == second:
        return
    search, again = first.search, second.search
    yield from _compare_fields(first, second, but={"search"} if is_whole else {"search", "at_tail"})
    if is_whole and search is not None and again is not None:
        yield from _compare_fields(search, again)
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


def _compare_contradictions(
    first: ContradictionFacts, second: ContradictionFacts
) -> Iterator[Pair]:
    yield "contradictions in all", first.total, second.total
    yield "contradictions named", len(first.contradictions), min(CONTRADICTIONS_MAX, second.total)
    yield (
        "contradictions that are none",
        dict(Counter(first.contradictions) - Counter(second.contradictions)),
        {},
    )
    yield "beyond the end", first.beyond_end, second.beyond_end


def _compare_placement(
    first: PlacementFacts, second: PlacementFacts, left_open: Set[int | None]
) -> Iterator[Pair]:
    """Compare all facts, except those of write sets that the second checker left open.

    For the open ones, accept the first checker's number of write sets at fault, and its reasons.
    """
    yield from _compare_fields(first, second, but={"shown", "deciding"})
    fewest, most = second.deciding, second.deciding + len(left_open)
    yield "write sets that decide", first.deciding, min(max(first.deciding, fewest), most)
    yield "write sets shown", len(first.shown), min(WRITE_SETS_SHOWN_MAX, first.deciding)
    tried = tuple(shown for shown in first.shown if shown.position not in left_open)
    yield "write sets at fault", tried, second.shown[: len(tried)] if left_open else second.shown


DIFFERENCES_TOLD_MAX = 5
"""At most this many differences on one ledger are written out. The others are counted."""
DIFFERENCE_CHARS_MAX = 400
"""At most this many characters of a difference are kept: two lists of ranges are long, and the
stored evidence can be judged again."""

F = TypeVar("F", Finding, CrossCheckFinding)
Key = tuple[str, EntryId]
"""A kind and, for placement findings, the first entry of the segment (-1 for all other kinds)."""


def is_due(verdict: Verdict, terms: Terms) -> bool:
    """Return whether a final verdict goes to the second checker.

    Verdicts on poisoned ledgers do not. Sound ledgers without findings do if they are in a sample
    (`is_in_sample`). All other verdicts do.
    """
    if verdict.standing is not Standing.SOUND or verdict.findings:
        return Unknown.POISON not in verdict.unknowns
    return is_in_sample(verdict.ledger_id, terms)


def is_in_sample(ledger_id: LedgerId, terms: Terms) -> bool:
    """Return whether the ledger goes to the second checker even if it is sound.

    The sample is the share `sound_sample` of all ledgers. It is chosen by a hash of the ledger id
    and the run's probe seed: another run chooses other ledgers, a replay the same ones.
    """
    drawn = mix_one((ledger_id + _sample_key(terms.probe_seed)) % 2**64)
    return drawn >> _ROUNDED_BITS < terms.sound_sample * _ROUNDED


def are_in_sample(ledger_ids: npt.NDArray[np.int64], terms: Terms) -> npt.NDArray[np.bool_]:
    """Return which ledgers `is_in_sample`, some nanoseconds each."""
    key = np.uint64(_sample_key(terms.probe_seed))
    drawn = mix(ledger_ids.astype(np.uint64) + key) >> np.uint64(_ROUNDED_BITS)
    chosen: npt.NDArray[np.bool_] = drawn < terms.sound_sample * _ROUNDED
    return chosen


_ROUNDED_BITS = 11
_ROUNDED = 2.0 ** (64 - _ROUNDED_BITS)
"""As many bits as a float has are compared: it is then exact."""


@lru_cache(100)
def _sample_key(seed: int) -> int:
    return int.from_bytes(sha256(f"{seed} sound".encode()).digest()[:8])


def describe_differences(sentences: tuple[str, ...]) -> str:
    """Return the first few differences as text for the verdict's `detail`, and count the rest."""
    shortened = [
        sentence
        if len(sentence) <= DIFFERENCE_CHARS_MAX
        else f"{sentence[:DIFFERENCE_CHARS_MAX]}..."
        for sentence in sentences
    ]
    rest = len(shortened) - DIFFERENCES_TOLD_MAX
    return "; ".join(
        (*shortened[:DIFFERENCES_TOLD_MAX], *([f"and {rest} more differences"] if rest > 0 else []))
    )


def differences(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> tuple[str, ...]:
    """Return the second checker's objections to a final verdict, as sentences.

    An empty tuple confirms the verdict: it may be committed.
    """
    early = unsupported_claims(verdict, evidence, terms)
    if Unknown.UNSETTLED in verdict.unknowns:
        return early  # the verdict claims nothing else about a ledger that kept changing
    return (
        *early,
        *compare_verdicts(
            verdict, judge_entry_by_entry(evidence, terms, _claimed_entries(verdict.findings))
        ),
    )


def compare_verdicts(first: Verdict, second: Opinion) -> tuple[str, ...]:
    """Return each difference between the two checkers as a sentence, in a fixed order."""
    second = _complete_from_first(second, first)
    return tuple(
        f"{what}: the first checker says {finding}, the second {other}"
        for what, finding, other in chain(
            _compare_ledger(first, second), _compare_findings(first, second)
        )
        if finding != other
    )


def _complete_from_first(second: Opinion, first: Verdict) -> Opinion:
    """Return the second opinion, completed by the first checker's findings where the second is
    open.

    These are the placement findings on segments in `unjudged`, and those on entries beyond the end
    if `end_is_open`.
    """
    if not second.unjudged and not second.end_is_open:
        return second
    kinds = (Kind.PLACEMENT_FAILED, Kind.PLACEMENT_SOFT)
    adopted = [
        CrossCheckFinding(finding.kind, finding.facts, finding.segment)
        for finding in first.findings
        if (
            finding.kind in kinds
            and finding.segment is not None
            and finding.segment.first_entry_id in second.unjudged
        )
        or (second.end_is_open and isinstance(finding.facts, BeyondEndFacts))
    ]
    seconds = second.findings
    if second.end_is_open:
        seconds = tuple(_adopt_end(finding, first.findings) for finding in seconds)
    unknowns = second.unknowns
    if second.unjudged:
        unknowns |= {Unknown.TOPOLOGY_UNKNOWN} & set(first.unknowns)
    standing = max(second.standing, Standing.INDETERMINATE) if unknowns else second.standing
    if any(CATALOGUE[finding.kind].severity is not Severity.INFO for finding in adopted):
        standing = Standing.VIOLATED
    findings = (*seconds, *adopted)
    waits = second.only_maintenance and standing is Standing.INDETERMINATE
    return replace(
        second, standing=standing, unknowns=unknowns, findings=findings, only_maintenance=waits
    )


def _adopt_end(cross_check: CrossCheckFinding, firsts: Iterable[Finding]) -> CrossCheckFinding:
    """Copy into a finding on contradictory metadata what the first checker says of the end.

    Other findings are returned unchanged.
    """
    facts = cross_check.facts
    for finding in firsts:
        if isinstance(finding.facts, ContradictionFacts) and isinstance(facts, ContradictionFacts):
            return replace(cross_check, facts=replace(facts, beyond_end=finding.facts.beyond_end))
    return cross_check


def _compare_ledger(first: Verdict, second: Opinion) -> Iterator[Pair]:
    if first.standing is not second.standing:
        yield "standing", first.standing.word, second.standing.word
    yield "exempt", first.exempt, second.exempt
    if set(first.unknowns) != second.unknowns:
        yield "unknown because of", _join_unknowns(first.unknowns), _join_unknowns(second.unknowns)
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
    lacks = {lack.bookie_id: (lack.expected, lack.absent) for lack in first.lacks}
    if second.is_whole:
        yield "what bookies lack", lacks, dict(second.lacks)
    else:
        yield "bookies that lack entries", set(), set(second.lacks) - set(lacks)


def _join_unknowns(unknowns: Iterable[Unknown]) -> str:
    return " ".join(reason.value for reason in Unknown if reason in set(unknowns)) or "nothing"


def _compare_findings(first: Verdict, second: Opinion) -> Iterator[Pair]:
    ones, others = _by_key(first.findings), _by_key(second.findings)
    if [*ones] != [*others] or [*map(len, ones.values())] != [*map(len, others.values())]:
        yield "findings", _list_kinds(ones), _list_kinds(others)
    for key in [key for key in sorted(ones) if key in others]:
        for finding, cross_check in zip(ones[key], others[key], strict=False):
            for what, first_says, second_says in _compare_finding(finding, cross_check, second):
                if first_says != second_says:  # else its words would be made for nothing
                    yield f"{finding.kind.value}, {what}", first_says, second_says


def _by_key(findings: Iterable[F]) -> dict[Key, list[F]]:
    """Group findings by key, in their order.

    A key may have two findings: contradictory metadata may have two segments that begin with the
    same entry.
    """
    found: dict[Key, list[F]] = {}
    for finding in findings:
        found.setdefault(_key(finding), []).append(finding)
    return found


def _key(finding: Finding | CrossCheckFinding) -> Key:
    is_about_segment = CATALOGUE[finding.kind].family is Family.PLACEMENT
    segment = finding.segment if is_about_segment else None
    return finding.kind, segment.first_entry_id if segment else -1


def _list_kinds(findings: Mapping[Key, Sized]) -> str:
    keys = sorted(key for key, of_it in findings.items() for _ in range(len(of_it)))
    return (
        ", ".join(
            kind if first < 0 else f"{kind} of the segment at {first}" for kind, first in keys
        )
        or "none"
    )


def _compare_finding(
    finding: Finding, cross_check: CrossCheckFinding, second: Opinion
) -> Iterator[Pair]:
    yield "its segment", finding.segment, cross_check.segment
    yield from compare_facts(
        finding.facts, cross_check.facts, is_whole=second.is_whole, left_open=cross_check.left_open
    )
    if cross_check.entries is None:
        return
    yield "copies of the worst entry", finding.copies, cross_check.copies
    yield from _compare_entries(
        "entries", finding.entries, finding.entries_total, cross_check.entries, second
    )
    missing = dict(finding.missing_on)
    if not missing and not cross_check.missing_on:
        return
    if missing.keys() != cross_check.missing_on.keys():
        yield (
            "bookies that lack entries",
            sorted(cross_check.missing_on.keys() | missing.keys()),
            sorted(missing),
        )
        if second.is_whole:
            yield "bookies that lack entries", sorted(missing), sorted(cross_check.missing_on)
    for bookie in sorted(missing.keys() & cross_check.missing_on.keys()):
        yield from _compare_entries(
            f"missing on {bookie}",
            missing[bookie],
            None,
            cross_check.missing_on[bookie],
            second,
        )


def _compare_entries(
    what: str, ranges: Ranges, total: int | None, other: Entries, second: Opinion
) -> Iterator[Pair]:
    """Compare the entries of two findings.

    If the second checker did not examine all entries, compare those that it did, up to the end of
    the ranges that the first checker kept.
    """
    if second.is_whole:
        if ranges != other.ranges[:RANGES_MAX]:
            yield what, ranges, other.ranges[:RANGES_MAX]
        if total is not None and total != other.total:
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

    Ranges and blocks are ascending and disjoint. Costs a binary search for each block, and the
    parts returned.
    """
    found = []
    for block in blocks:
        high = block.high if horizon is None else min(block.high, horizon)
        begin = bisect_left(ranges, block.low, key=lambda pair: pair[1])
        for at in range(begin, len(ranges)):
            first, last = max(ranges[at][0], block.low), min(ranges[at][1], high)
            if first > last:
                break
            found.append((first, last))
    return found


def _claimed_entries(findings: Iterable[Finding]) -> Iterator[EntryId]:
    """Yield the ends of all ranges in the findings, and each worst entry."""
    for finding in findings:
        for ranges in (finding.entries, *(of_bookie for _, of_bookie in finding.missing_on)):
            yield from (entry for pair in ranges for entry in pair)
        worst = worst_entry_of(finding)
        yield from () if worst is None else (worst,)


def worst_entry_of(finding: Finding | CrossCheckFinding) -> EntryId | None:
    """Return the worst entry that a finding of either checker names.

    Return None if the finding is not about entries.
    """
    facts = (
        finding.facts.entries if isinstance(finding.facts, UnrecoverableFacts) else finding.facts
    )
    return (
        facts.worst_entry
        if isinstance(facts, EntryFacts | UnavailableFacts | CorruptFacts)
        else None
    )
