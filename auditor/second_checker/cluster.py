"""The second checker's findings on the cluster: marks without ledgers, and a drop in ledgers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from auditor.model.cluster import ClusterFacts
from auditor.model.cluster_facts import MarkWithoutLedgerFacts, PopulationFacts
from auditor.model.evidence import Terms
from auditor.model.identity import LedgerId

MARKS_TOLD = 20
"""Ledgers that the finding on marks names."""
GONE_TOLD = 10
"""Ledgers that the finding on the population names."""
POPULATION_FEWEST = 100
"""Fewest ledgers that a run must have listed for another run to be compared with it."""


class MarkSeen(NamedTuple):
    """A mark at one look, and whether its ledger has metadata (None: not known).

    `look` is 0 if the mark was only listed, and 1 or 2 if it was read.
    """

    ledger_id: LedgerId
    look: int
    read_at_ms: int
    times: tuple[int, ...]
    """Times of the znode and of its ctime field, if it has one; () if the mark was gone."""
    has_metadata: bool | None


def marks_without_ledger(
    seen: Iterable[MarkSeen], terms: Terms, cluster: ClusterFacts
) -> MarkWithoutLedgerFacts | None:
    """Return the facts of all marks that were too old, and without metadata, at both looks.

    Return None if there are none.
    """
    by_ledger: dict[LedgerId, dict[int, MarkSeen]] = {}
    for one in seen:
        by_ledger.setdefault(one.ledger_id, {})[one.look] = one
    ages: dict[LedgerId, int] = {}
    for ledger, looks in by_ledger.items():
        both = [looks[look] for look in (1, 2) if look in looks]
        if len(both) == 2 and all(_is_left_over(one, terms) for one in both):
            ages[ledger] = _age_ms(both[1], terms)
    if not ages:
        return None
    oldest_first = sorted(sorted(ages), key=lambda ledger: ages[ledger], reverse=True)
    return MarkWithoutLedgerFacts(
        len(ages),
        tuple(oldest_first[:MARKS_TOLD]),
        max(ages.values()),
        cluster.root + _path(oldest_first[0]),
        terms.underreplication_grace_ms,
        sum(1 for looks in by_ledger.values() if 1 not in looks),
        min(by_ledger[ledger][2].read_at_ms for ledger in ages)
        - max(by_ledger[ledger][1].read_at_ms for ledger in ages),
        cluster.replication_disabled,
    )


def _is_left_over(one: MarkSeen, terms: Terms) -> bool:
    too_old = bool(one.times) and _age_ms(one, terms) > terms.underreplication_grace_ms
    return too_old and one.has_metadata is False


def _age_ms(one: MarkSeen, terms: Terms) -> int:
    return max(0, *(terms.judged_at_ms - time for time in one.times))


def _path(ledger: LedgerId) -> str:
    """Return the mark's path: four levels of four hex digits, then the decimal id.

    See metadata.md 8.
    """
    digits = format(ledger, "x").zfill(16)
    levels = "/".join(digits[at : at + 4] for at in range(0, 16, 4))
    return f"/underreplication/ledgers/{levels}/urL{str(ledger).zfill(10)}"


class Earlier(NamedTuple):
    """The run that this run is compared with. `low_runs`: runs since then that listed too few."""

    run_id: str
    finished_at: str
    listed: int
    drop_percent: int
    low_runs: int


def population_dropped(
    before: Earlier,
    began_ms: Mapping[int, int],
    listed: Mapping[int, int],
    gone: Collection[LedgerId],
    instance: str | None,
) -> PopulationFacts | None:
    """Return the facts if each listing of this run has far fewer ledgers than `before`, else None.

    Two listings are needed. `began_ms` and `listed` (the number of ids written) are keyed by
    listing. `gone` are the ids that the newest listing truly lacks.
    """
    if before.drop_percent == 0 or before.listed < POPULATION_FEWEST or len(began_ms) < 2:
        return None
    first, last = min(began_ms), max(began_ms)
    if not all(
        100 * (before.listed - listed[one]) > before.listed * before.drop_percent
        for one in began_ms
    ):
        return None
    some: Sequence[LedgerId] = sorted(set(gone))[:GONE_TOLD]
    return PopulationFacts(
        before.run_id,
        before.finished_at,
        before.listed,
        listed[first],
        listed[last],
        began_ms[last] - began_ms[first],
        before.drop_percent,
        tuple(some),
        instance,
        before.low_runs + 1,
    )
