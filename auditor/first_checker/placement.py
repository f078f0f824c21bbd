"""Find the segments of a closed ledger that do not adhere to the placement policy.

`auditor.first_checker.placement_rules` judges one ensemble. This module chooses the segments to
judge, and makes findings with facts that a person can check.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from auditor.first_checker.placement_rules import STRICT, Judged, has_no_rule, judge, windows_count
from auditor.first_checker.recorded_policy import recorded_policy
from auditor.first_checker.schedule import Extent, extents
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import Parameters, PlacementFacts, WriteSetFacts
from auditor.model.finding import Finding, FindingSegment, Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerState, Segment
from auditor.model.placement import Adherence, PlacementRule, Policy

ENSEMBLES_REMEMBERED_MAX = 20_000
"""The judgements of at most this many ensembles are cached: some 10 MB. Ledgers of one period share
their ensembles. A full cache is emptied, and each ensemble is judged once more."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The findings on one ledger, at most one per segment, and whether any segment is unknown."""

    findings: tuple[Finding, ...] = ()
    unknown: bool = False


NOTHING = Placement()


def adherence(
    ensemble: tuple[BookieId, ...],
    write_quorum: int,
    ack_quorum: int,
    rule: PlacementRule,
    around: Surroundings,
) -> Judged:
    """Return how one ensemble adheres under `rule`, and the windows that decide it.

    Never raises. Made for millions of calls: an ensemble that was judged before under the same rule
    and surroundings costs one dictionary lookup; any other costs `judge`. Pass the same two objects
    for all ledgers of a run: they are compared by identity.
    """
    global _remembered
    if has_no_rule(rule):
        return STRICT
    memory = _remembered
    if memory.around is not around or memory.rule is not rule:
        memory = _remembered = _Memory(rule, around)
    key = (ensemble, write_quorum, ack_quorum)
    known = memory.judged.get(key)
    if known is None:
        if len(memory.judged) >= ENSEMBLES_REMEMBERED_MAX:
            memory.judged.clear()
        known = memory.judged[key] = judge(ensemble, write_quorum, ack_quorum, rule, around)
    return known


@dataclass(frozen=True, slots=True)
class _Memory:
    """The judgements under one rule in one set of surroundings.

    It keeps both objects alive: no other object can take their identity.
    """

    rule: PlacementRule
    around: Surroundings
    judged: dict[tuple[tuple[BookieId, ...], int, int], Judged] = field(default_factory=dict)


_remembered = _Memory(PlacementRule(), Surroundings())


def placement(ledger_id: LedgerId, metadata: LedgerMetadata, terms: Terms) -> Placement:
    """Return PLACEMENT_FAILED and PLACEMENT_SOFT, one for each segment at fault.

    A ledger that is not closed has none. By assigned location, segments with entries are judged. In
    Java mode all segments are, including empty ones and those of empty ledgers. `unknown` means
    that too little is known about the locations of some segment's members. The caller decides
    whether a mark excuses a finding.
    """
    rule = terms.placement
    if has_no_rule(rule) or metadata.state is not LedgerState.CLOSED:
        return NOTHING
    findings: list[Finding] = []
    unknown = False
    for segment, last in _every_segment(metadata) if rule.java_compatible else extents(metadata):
        judged = adherence(
            segment.ensemble, metadata.write_quorum, metadata.ack_quorum, rule, terms.around
        )
        if judged.adherence is Adherence.UNKNOWN:
            unknown = True
        elif judged.adherence is not Adherence.STRICT:
            kind = (
                Kind.PLACEMENT_FAILED if judged.adherence is Adherence.FAIL else Kind.PLACEMENT_SOFT
            )
            facts = _facts(segment, judged, metadata, terms)
            findings.append(
                Finding(kind, facts, ledger_id, segment=FindingSegment.of(segment, last))
            )
    return Placement(tuple(findings), unknown) if findings or unknown else NOTHING


def _every_segment(metadata: LedgerMetadata) -> Iterator[Extent]:
    """Yield each segment as the metadata has it. An empty segment ends before it begins."""
    ends = [after.first_entry_id - 1 for _, after in pairwise(metadata.segments)]
    ends.append(-1 if metadata.last_entry_id is None else metadata.last_entry_id)
    for segment, end in zip(metadata.segments, ends, strict=False):
        yield Extent(segment, max(segment.first_entry_id - 1, end))


def _facts(
    segment: Segment, judged: Judged, metadata: LedgerMetadata, terms: Terms
) -> PlacementFacts:
    rule, ensemble = terms.placement, segment.ensemble
    around = terms.around
    return PlacementFacts(
        policy=rule.policy.value,
        java_mode=rule.java_compatible,
        parameters=_parameters(rule),
        write_sets=windows_count(len(ensemble), metadata.write_quorum),
        deciding=judged.deciding,
        shown=tuple(
            WriteSetFacts(one.index, one.members, one.locations, one.why) for one in judged.windows
        ),
        without_location=tuple(
            bookie for bookie in dict.fromkeys(ensemble) if not around.location_of(bookie)
        ),
        recorded_policy=recorded_policy(metadata),
    )


def _parameters(rule: PlacementRule) -> Parameters:
    """Return the settings that the policy uses, by BookKeeper's names."""
    if rule.policy is Policy.RACK:
        enforce = str(rule.enforce_min_num_racks_per_write_quorum).lower()
        return (
            ("minNumRacksPerWriteQuorum", str(rule.min_num_racks_per_write_quorum)),
            ("enforceMinNumRacksPerWriteQuorum", enforce),
        )
    if rule.policy is Policy.ZONE:
        return (
            ("minNumZonesPerWriteQuorum", str(rule.min_num_zones_per_write_quorum)),
            ("desiredNumZonesPerWriteQuorum", str(rule.desired_num_zones_per_write_quorum)),
        )
    return (("reppMinimumRegionsForDurability", str(rule.repp_minimum_regions_for_durability)),)
