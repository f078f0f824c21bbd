"""A bookie that answers and lacks most of what it should hold: a wiped disk or an empty volume.

Verified: at two looks, the bookie lacks more than half of its entries in more than half of the
ledgers that it validly answered for. Not verified: how this happened. A marked ledger counts only
if it is violated: the cluster knows about the others.
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
"""A bookie that lacks most of fewer ledgers has lost ledgers, not its content."""
LEDGERS_NAMED_MAX = 10
"""At most this many ledgers are named in the finding. The others are counted."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a whole run knows about one bookie's content.

    `asked`: ledgers for which its last answer is valid. That is a list or, if it cannot list
    (`was_probed`), entries that were read.

    `lacking_most`: those of them that are violated, and therefore had a second look, and of whose
    entries it surely lacks more than half. It lacks `absent` of `expected` entries in these. `some`
    are the lowest ids.
    """

    asked: int
    lacking_most: int
    expected: int
    absent: int
    some: tuple[LedgerId, ...]
    was_probed: bool = False


def is_lost(content: Content) -> bool:
    """Return whether the bookie lost most of what it should hold."""
    return is_most(content.lacking_most, content.asked)


def is_most(lacking: int, asked: int) -> bool:
    """Return whether a bookie lost its content.

    It did if it lacks most of `lacking` ledgers, and these are most of the `asked` ledgers for
    which its last answer is valid. A bookie that lacks more ledgers than its last answers cover
    went away meanwhile, which is not a loss.
    """
    return LOST_CONTENT_LEDGERS_MIN <= lacking <= asked < 2 * lacking


def judge_content(
    looks: Sequence[BookieLook], contents: Mapping[BookieId, Content]
) -> list[Finding]:
    """Return the findings on bookies that lost their content, in order of bookie id."""
    found = []
    for bookie in sorted(contents):
        records = [look[bookie] for look in looks if bookie in look]
        if (
            records
            and records[-1].registration is not Registration.NONE
            and is_lost(contents[bookie])
        ):
            found.append(_lost_content_finding(records[-1], contents[bookie]))
    return found


def withheld_content(contents: Mapping[BookieId, Content]) -> list[str]:
    """Return a sentence for each bookie not reported because an operator chose the run's ledgers.

    A bookie that lacks most of these ledgers need not lack most of its content.
    """
    return [
        f"bookie {bookie} lacks most of {one.lacking_most} of the {one.asked} ledgers it was asked"
        " about; as these were named by an operator, that says nothing about the rest of what it"
        " should hold: run over all ledgers to find out"
        for bookie, one in sorted(contents.items())
        if is_lost(one)
    ]


def _lost_content_finding(record: BookieRecord, content: Content) -> Finding:
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
