"""A bookie that is registered, connects, and fails every request. This goes beyond BP-34's fourth
check.

Verified: at two looks or more, each list and each read of ledgers that the bookie should hold ended
in an error status. Some other bookie served its requests. Not verified: why the bookie fails (a
disk, an unclean shutdown, its authentication). Time-outs, silence and unreadable answers are not
error statuses: a bookie with any of them is not reported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor.first_checker.reachability import BookieLook, nobody_answered
from auditor.model.availability import Greeting
from auditor.model.bookie_facts import FailingFacts
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, LedgerId

FAILING_LEDGERS_MIN = 3
"""A bookie is reported only if it refused at least this many ledgers at two looks or more. Fewer
may have a fault of their own, such as a damaged index page."""
LEDGERS_NAMED_MAX = 10
"""At most this many ledgers are named in the finding. The others are counted."""

_CONNECTED = frozenset({Greeting.ANSWERED, Greeting.REFUSED, Greeting.UNSUPPORTED})


@dataclass(frozen=True, slots=True)
class Refusals:
    """The requests to one bookie about ledgers that it should hold, all of which ended in an error.

    `ledgers` were refused at two looks or more. `statuses` are the error statuses with their
    number, the most frequent first.
    """

    ledgers: int
    some: tuple[LedgerId, ...]
    lists: int
    reads: int
    statuses: tuple[tuple[str, int], ...]


def is_failing(refusals: Refusals) -> bool:
    """Return whether enough ledgers were refused to blame the bookie."""
    return refusals.ledgers >= FAILING_LEDGERS_MIN


def judge_failing(
    looks: Sequence[BookieLook],
    refusals: Mapping[BookieId, Refusals],
    maintenance: frozenset[BookieId] = frozenset(),
) -> list[Finding]:
    """Return the findings on bookies that fail every request, in order of bookie id.

    Bookies in `maintenance` get no finding. `refusals` must be empty if no bookie served anything:
    then the fault lies with our credentials.
    """
    if nobody_answered(looks):
        return []
    found = []
    for bookie in sorted(refusals.keys() - maintenance):
        records = [look[bookie] for look in looks if bookie in look]
        if is_failing(refusals[bookie]) and len(records) > 1 and all(map(_is_connected, records)):
            found.append(_failing_finding(records, refusals[bookie]))
    return found


def withheld_failing(refusals: Mapping[BookieId, Refusals]) -> list[str]:
    """Return a sentence for each bookie not reported because an operator chose the run's ledgers.

    These ledgers say nothing about the bookie's other ledgers.
    """
    return [
        f"bookie {bookie} refused each request about {one.ledgers} ledgers; as these were named by"
        " an operator, that says nothing about its other ledgers: run over all ledgers to find out"
        for bookie, one in sorted(refusals.items())
        if is_failing(one)
    ]


def _is_connected(record: BookieRecord) -> bool:
    return record.registration is not Registration.NONE and record.greeting in _CONNECTED


def _failing_finding(records: Sequence[BookieRecord], refusals: Refusals) -> Finding:
    last = records[-1]
    facts = FailingFacts(
        registration=last.registration.value,
        address=f"{last.host}:{last.port}",
        looks=len(records),
        ledgers=refusals.ledgers,
        some_ledgers=refusals.some[:LEDGERS_NAMED_MAX],
        lists_refused=refusals.lists,
        reads_refused=refusals.reads,
        statuses=refusals.statuses,
    )
    return Finding(Kind.BOOKIE_FAILING_REQUESTS, facts, bookie_id=last.bookie_id)
