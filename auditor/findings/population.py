"""A drop in the number of ledgers: two listings of one run that are far below the last run's.

Bookies collect the data of every ledger without metadata: if many ledgers vanish at once, it is
urgent.

Verified: two listings of one run both name fewer ledgers than the last run's number allows. Not
verified: who deleted them, and whether on purpose. New ledgers hide as many that are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from auditor.model.evidence import LastPopulation
from auditor.model.facts import PopulationFacts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import LedgerId

RUNS_TO_AGREE = 3
"""After this many whole runs in a row list about as few ledgers, the next run is compared with
their number."""
POPULATION_MIN = 100
"""There is no finding if the last run listed fewer ledgers. Two of three ledgers may go on any day,
but not half of a hundred at once."""
GONE_NAMED_MAX = 10
"""At most this many ledgers are named that the last run listed and this one did not. The others are
counted."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One listing of all ledgers: when it began, and how many there were."""

    began_at_ms: int
    count: int


def has_dropped(last: LastPopulation | None, count: int) -> bool:
    """Return whether `count` is below (100 - drop_percent) % of the last run's ledgers.

    False without a last run, if drop_percent is 0, or if that run listed fewer than POPULATION_MIN.
    """
    if last is None or last.drop_percent == 0 or last.listed < POPULATION_MIN:
        return False
    return count * 100 < last.listed * (100 - last.drop_percent)


def kept_baseline(
    last: LastPopulation | None, listings: Sequence[Listing]
) -> LastPopulation | None:
    """Return the run with which the next run is compared, or None if that is this run.

    After a drop the baseline stays until RUNS_TO_AGREE runs agree. Runs agree if none of them lists
    fewer ledgers than another by more than `drop_percent`.
    """
    if last is None or not listings or not has_dropped(last, listings[0].count):
        return None
    if len(listings) < 2:
        return last
    if not has_dropped(last, listings[-1].count):
        return replace(last, low_listed=(), low_runs=0)
    count = listings[0].count
    low = (*last.low_listed, count)
    if has_dropped(replace(last, listed=max(low)), min(low)):
        low = (count,)
    return (
        None
        if len(low) >= RUNS_TO_AGREE
        else replace(last, low_listed=low, low_runs=last.low_runs + 1)
    )


def judge_population(
    last: LastPopulation | None,
    listings: Sequence[Listing],
    gone: Sequence[LedgerId],
    instance_id: str | None,
) -> Finding | None:
    """Return the finding on the cluster if both listings have dropped, else None.

    A single listing gives no finding. `gone` are some of the ledgers that the last run listed and
    this run did not, if that run's evidence still exists.
    """
    if (
        last is None
        or len(listings) < 2
        or not all(has_dropped(last, listing.count) for listing in listings)
    ):
        return None
    first, again = listings[0], listings[-1]
    facts = PopulationFacts(
        previous_run=last.run_id,
        previous_finished_at=last.finished_at,
        previous_ledgers=last.listed,
        ledgers=first.count,
        ledgers_again=again.count,
        apart_ms=again.began_at_ms - first.began_at_ms,
        drop_percent=last.drop_percent,
        some_gone=tuple(gone[:GONE_NAMED_MAX]),
        instance_id=instance_id,
        runs_in_a_row=last.low_runs + 1,
    )
    return Finding(Kind.LEDGER_POPULATION_DROPPED, facts)
