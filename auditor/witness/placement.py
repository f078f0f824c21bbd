"""Witnesses of the placement family.

They say which write sets, where their members are, and what the policy requires of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from auditor.model.evidence import Look
from auditor.model.facts import DuplicateFacts, PlacementFacts, WriteSetFacts
from auditor.model.finding import Finding, Kind
from auditor.witness.phrases import TellLedger, join_names, name_some

WRITE_SETS_SHOWN_MAX = 2
"""A witness shows at most this many write sets. The facts have more."""
BOOKIES_SHOWN_MAX = 5
"""A witness names at most this many duplicate bookies. The facts have all."""
_ADHERES = {Kind.PLACEMENT_FAILED: "does not adhere", Kind.PLACEMENT_SOFT: "adheres only softly"}
_MORE_WRITE_SETS = {
    Kind.PLACEMENT_FAILED: ("does not adhere either", "do not adhere either"),
    Kind.PLACEMENT_SOFT: ("adheres only softly too", "adhere only softly too"),
}
"""The words for write sets that are only counted: for a single one, and for several."""


def _duplicate_sentences(finding: Finding, facts: DuplicateFacts, _looks: Sequence[Look]) -> str:
    assert finding.segment is not None, finding
    twice = [
        f"{bookie} at positions {join_names(at)}"
        for bookie, at in facts.positions[:BOOKIES_SHOWN_MAX]
    ]
    more = len(facts.positions) - len(twice)
    others = f"; and {more} more twice" if more > 0 else ""
    return (
        f"{_segment_words(finding)} of ledger {finding.ledger_id} (ensemble"
        f" {name_some(finding.segment.ensemble)}) names {'; '.join(twice)}{others}. An entry whose"
        " write set has two positions of one bookie has one copy there, not two."
    )


def _placement_sentences(finding: Finding, facts: PlacementFacts, _looks: Sequence[Look]) -> str:
    shown = facts.shown[:WRITE_SETS_SHOWN_MAX]
    more = facts.deciding - len(shown)
    judged = (
        "as the Java auditor judges"
        if facts.java_mode
        else "by the locations assigned to the bookies"
    )
    parameters = ", ".join(f"{name}={value}" for name, value in facts.parameters)
    judged_by = f"{parameters}; {judged}" if parameters else judged
    lines = [
        (
            f"{_segment_words(finding)} of ledger {finding.ledger_id} {_ADHERES[finding.kind]} to"
            f" the {facts.policy}-aware policy ({judged_by})."
        ),
        *(f"{_write_set_words(write_set, facts)}." for write_set in shown),
    ]
    if more > 0:
        too = _MORE_WRITE_SETS[finding.kind][more > 1]
        lines.append(f"{more} more of its {facts.write_sets} write sets {too}.")
    if facts.without_location:
        lines.append(f"No location is assigned to {join_names(facts.without_location)}.")
    if facts.recorded_policy:
        lines.append(f"Its writer recorded {facts.recorded_policy}: shown, not judged.")
    return " ".join(lines)


def _write_set_words(write_set: WriteSetFacts, facts: PlacementFacts) -> str:
    """Return a clause for one write set.

    For example: "The write set from position 2 (b3 at /r1, b1 at /r1) has 1 rack (/r1) and needs
    2".
    """
    what = (
        "The ensemble"
        if write_set.position is None
        else f"The write set from position {write_set.position}"
    )
    if write_set.position is None and (facts.policy != "region" or not write_set.members):
        return f"{what} {write_set.why}"
    nowhere = "not writable" if facts.java_mode else "without location"
    places = zip(write_set.members, write_set.locations, strict=True)
    members = [
        f"{bookie} {nowhere}" if place is None else f"{bookie} at {place}"
        for bookie, place in places
    ]
    return f"{what} ({name_some(members)}) {write_set.why}"


def _segment_words(finding: Finding) -> str:
    segment = finding.segment
    assert segment is not None, finding
    if segment.last_entry_id < segment.first_entry_id:
        return f"The empty segment at entry {segment.first_entry_id}"
    return f"Segment {segment.first_entry_id}-{segment.last_entry_id}"


TELL: dict[Kind, TellLedger] = {
    Kind.ENSEMBLE_DUPLICATE_BOOKIE: _duplicate_sentences,
    Kind.PLACEMENT_FAILED: _placement_sentences,
    Kind.PLACEMENT_SOFT: _placement_sentences,
}
