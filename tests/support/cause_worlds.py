"""Clusters as causes see them: which ledger names which bookies, when it was created, what is hit.

world = spread(bookies=5, ledgers=200, seed=7)      # ensembles drawn at random
causes = world.causes(lacking(b1=world.naming("b1")))
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from auditor.evidence.ids import Ids
from auditor.model.finding import Kind
from auditor.summary.causes.candidates import Chosen
from auditor.summary.causes.choosing import Backgrounds, choose
from auditor.summary.causes.hits import Hits, Via
from auditor.summary.causes.periods import Births
from auditor.summary.causes.touches import Touches

BELOW, MARKED = Kind.ENTRY_BELOW_WRITE_QUORUM.value, Kind.UNDERREPLICATED_BEYOND_GRACE.value
FAILED, MALFORMED = Kind.PLACEMENT_FAILED.value, Kind.METADATA_MALFORMED.value


def ids(ledgers: Iterable[int]) -> Ids:
    return np.unique(np.fromiter(ledgers, np.int64))


@dataclass(frozen=True)
class World:
    """All ledgers of a cluster: the bookies each names, and when it was created (ms; by default its
    id).
    """

    ensembles: Mapping[int, Sequence[str]]
    racks: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[int, int] = field(default_factory=dict)

    def naming(self, *bookies: str) -> list[int]:
        return [ledger for ledger, named in self.ensembles.items() if set(named) & set(bookies)]

    def in_racks(self, racks: Mapping[str, str]) -> World:
        return replace(self, racks=racks)

    def backgrounds(self, hits: Hits, *, disabled: bool = False) -> Backgrounds:
        """Return the background with which `choose` compares the hits, counted in the plain way."""
        bookies = sorted({bookie for named in self.ensembles.values() for bookie in named})
        racks = sorted({self.racks[bookie] for bookie in bookies if bookie in self.racks})
        of_rack = {rack: [b for b in bookies if self.racks.get(b) == rack] for rack in racks}
        affected = set(hits.affected_ledgers().tolist())
        touches = Touches(
            len(self.ensembles),
            {bookie: len(self.naming(bookie)) for bookie in bookies},
            {rack: len(self.naming(*here)) for rack, here in of_rack.items()},
            {bookie: ids(affected.intersection(self.naming(bookie))) for bookie in bookies},
        )
        times = {ledger: self.times.get(ledger, ledger) for ledger in self.ensembles}
        every = np.sort(np.fromiter(times.values(), np.int64))
        born = sorted(affected & times.keys())
        births = Births(ids(born), np.array([times[ledger] for ledger in born], np.int64))

        def all_in(edges: Ids) -> Ids:
            return np.diff(np.searchsorted(every, edges, side="left"), prepend=0, append=len(every))

        return Backgrounds(touches, self.racks, births, all_in, replication_disabled=disabled)

    def causes(self, hits: Hits, *, disabled: bool = False) -> list[Chosen]:
        return choose(hits, self.backgrounds(hits, disabled=disabled))


def spread(bookies: int, ledgers: int, seed: int, ensemble: int = 3) -> World:
    """Return a world of bookies b1, b2, …, with ensembles drawn at random and ledger ids from 0,
    created one a second.
    """
    draw = random.Random(seed)
    names = [f"b{n}" for n in range(1, bookies + 1)]
    ensembles = {ledger: draw.sample(names, min(ensemble, bookies)) for ledger in range(ledgers)}
    return World(ensembles, times={ledger: 1_000 * ledger for ledger in range(ledgers)})


def lacking(**ledgers: Iterable[int]) -> Hits:
    """Return findings: these bookies lack entries of these ledgers."""
    via = {bookie: ids(one) for bookie, one in ledgers.items()}
    return Hits({BELOW: ids(ledger for one in via.values() for ledger in one)}, {Via.LACKING: via})


def scattered(world: World, ledgers: Iterable[int], draw: random.Random) -> Hits:
    """Return findings: each of these ledgers lacks an entry on one random bookie of its
    ensemble.
    """
    hit: dict[str, list[int]] = {}
    for ledger in ledgers:
        hit.setdefault(draw.choice(list(world.ensembles[ledger])), []).append(ledger)
    return lacking(**hit)


def both(one: Hits, other: Hits) -> Hits:
    """Return the combined findings of two misfortunes."""
    kinds, vias = {*one.by_kind, *other.by_kind}, {*one.via, *other.via}
    none = ids(())
    by_kind = {k: np.union1d(one.by_kind.get(k, none), other.by_kind.get(k, none)) for k in kinds}
    via = {}
    for way in vias:
        first, second = one.via.get(way, {}), other.via.get(way, {})
        via[way] = {
            b: np.union1d(first.get(b, none), second.get(b, none)) for b in {*first, *second}
        }
    return Hits(by_kind, via)


def said(causes: Iterable[Chosen]) -> list[tuple[str, str, int]]:
    return [(one.candidate.kind.value, one.candidate.subject, len(one.own)) for one in causes]
