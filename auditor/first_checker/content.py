"""A bookie that answers and lacks most of what it should hold: a wiped disk, an empty volume mounted in its place.

Verified: of the ledgers a bookie validly answered for it lacks, at two looks, more than half of its entries in more than half.
Not verified: how it came about. Of marked ledgers only those that are violated count: of the others the cluster knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor.first_checker.reachability import BookieLook
from auditor.model.bookie_facts import LostContentFacts
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, LedgerId

LOST_CONTENT_LEDGERS_MIN = 3
"""Ledgers of which a bookie must lack most: fewer is the loss of ledgers, not of a bookie."""
LEDGERS_NAMED_MAX = 10
"""Ledgers named in the finding; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a whole run heard of one bookie's content. `asked`: ledgers its last word on which is valid, be it a list or, where
    it `was_probed` because it cannot list, entries that were read.

    `lacking_most`: those of them, violated and so looked at twice, of which it surely lacks more than half of its entries;
    `absent` of `expected` entries in these, and `some` of them, the lowest ids.
    """

    asked: int
    lacking_most: int
    expected: int
    absent: int
    some: tuple[LedgerId, ...]
    was_probed: bool = False


def is_lost(content: Content) -> bool:
    """Whether that is most of what the bookie should hold. A bookie that lacks more ledgers than its last words cover went
    away meanwhile: that is another matter."""
    return LOST_CONTENT_LEDGERS_MIN <= content.lacking_most <= content.asked < 2 * content.lacking_most


def judge_content(looks: Sequence[BookieLook], contents: Mapping[BookieId, Content]) -> list[Finding]:
    """Findings on bookies that lost their content, in order of bookie id."""
    found = []
    for bookie in sorted(contents):
        records = [look[bookie] for look in looks if bookie in look]
        if records and records[-1].registration is not Registration.NONE and is_lost(contents[bookie]):
            found.append(_lost_content(records[-1], contents[bookie]))
    return found


def withheld_content(contents: Mapping[BookieId, Content]) -> list[str]:
    """Sentences for a run over ledgers that an operator named: most of these is not most of what a bookie should hold."""
    return [
        f"bookie {bookie} lacks most of {one.lacking_most} of the {one.asked} ledgers it was asked about; as these were named "
        "by an operator, that says nothing about the rest of what it should hold: run over all ledgers to tell"
        for bookie, one in sorted(contents.items())
        if is_lost(one)
    ]


def _lost_content(record: BookieRecord, content: Content) -> Finding:
    facts = LostContentFacts(
        registration=record.registration.value,
        address=f"{record.host}:{record.port}",
        asked=content.asked,
        was_probed=content.was_probed,
        lacking_most=content.lacking_most,
        absent=content.absent,
        expected=content.expected,
        some_ledgers=content.some[:LEDGERS_NAMED_MAX],
    )
    return Finding(Kind.BOOKIE_LOST_CONTENT, facts, bookie_id=record.bookie_id)
