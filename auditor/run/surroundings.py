"""Find what surrounds the ledgers before a first look: bookies and locations, the elected auditor,
maintenance, and whether any bookie lets us ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain

from auditor.bookie.lane import refusal_of_all
from auditor.bookie.listers import find_unknown_bookies, read_listers
from auditor.clock import now_ms
from auditor.config import Settings
from auditor.context import Context, terms_of
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration, Surroundings
from auditor.model.evidence import Terms
from auditor.model.identity import BookieId
from auditor.run.clock_check import clock_lag_ms
from auditor.topology.locating import Topology, locate
from auditor.topology.sources import Source
from auditor.wire.locations import is_within
from auditor.zookeeper.metadata_store import MetadataStore


def around(
    store: MetadataStore,
    facts: ClusterFacts,
    bookies: Sequence[BookieRecord],
    sources: Sequence[Source],
    settings: Settings,
) -> tuple[Surroundings, tuple[str, ...]]:
    """Return the surroundings of the ledgers, and a sentence for the operator on each problem.

    `bookies` come from `store.bookies`, `sources` from `sources_of(settings)`. Call the latter
    before anything is contacted. Costs a few reads of znodes and what the sources cost. Raises
    StoreUnavailable.
    """
    topology = locate(sources, bookies, store.root, store.raw)
    maintenance, unknown = in_maintenance(settings.maintenance or (), bookies, topology)
    found = Surroundings(
        writable=frozenset(b.bookie_id for b in bookies if b.registration is Registration.WRITABLE),
        readonly=frozenset(b.bookie_id for b in bookies if b.registration is Registration.READONLY),
        locations=topology.locations,
        auditor=store.elected_auditor(),
        replication_disabled=facts.replication_disabled,
        maintenance=maintenance,
        areas=topology.areas,
    )
    unresolved = topology.unplaced_bookies if sources else ()
    return found, (*topology.problems, *_without_location(unresolved), *unknown)


def cluster_and_terms(
    context: Context,
    store: MetadataStore,
    bookies: Sequence[BookieRecord],
    sources: Sequence[Source],
    run_id: str,
) -> tuple[ClusterFacts, Terms]:
    """Return the facts of the cluster and the terms of judgement for an audit that starts now.

    Problems with the locations of bookies, with the map of listers, and with this host's clock are
    logged. Raises StoreUnavailable, ConfigError for an unreadable map, and LocalFault for a clock
    that is years late.
    """
    facts = store.cluster_facts()
    listers = read_listers(
        context.settings.lister_port, context.settings.lister_map, facts.instance_id
    )
    for problem in find_unknown_bookies(listers, (bookie.bookie_id for bookie in bookies)):
        context.logger.warning("listers", problem=problem)
    surroundings, problems = around(store, facts, bookies, sources, context.settings)
    for problem in problems:
        context.logger.warning("topology", problem=problem)
    newest = store.newest_write(bookie.bookie_id for bookie in bookies)
    lag_ms = clock_lag_ms(newest, now_ms())
    if lag_ms and newest is not None:
        context.logger.warning(
            "clock_behind",
            lag_s=lag_ms // 1000,
            znode=newest.path,
            effect="ages are unknown, and the run's directory is named by this clock",
            advice="set the clock of this host, or that of ZooKeeper if it is ahead",
        )
    return facts, terms_of(context, run_id, surroundings, lag_ms)


def in_maintenance(
    named: Iterable[str], bookies: Sequence[BookieRecord], topology: Topology
) -> tuple[frozenset[BookieId], tuple[str, ...]]:
    """Return the bookies in maintenance, and a sentence for each name that matches no bookie.

    A name is a bookie id, or a location, which begins with "/" and means all bookies there. An id
    that the metadata service does not know counts too: ledgers may still name it. Pure.
    """
    known = frozenset(chain((bookie.bookie_id for bookie in bookies), topology.locations))
    meant: set[BookieId] = set()
    problems = []
    for name in named:
        if name.startswith("/"):
            place = name.rstrip("/")
            there = {
                bookie_id
                for bookie_id, location in topology.locations.items()
                if is_within(location, place)
            }
            meant |= there
            if not there:
                problems.append(
                    f"maintenance names {name}, and no bookie is there (auditor topology shows"
                    " where they are)"
                )
        else:
            meant.add(name)
            if name not in known:
                problems.append(
                    f"maintenance names {name}, which the metadata service does not know"
                )
    return frozenset(meant), tuple(problems)


def _without_location(unresolved: Sequence[BookieId]) -> tuple[str, ...]:
    if not unresolved:
        return ()
    more = f" and {len(unresolved) - 1} more" if len(unresolved) > 1 else ""
    return (f"no source has a location for {unresolved[0]}{more}: auditor topology shows all",)


def check_admission(settings: Settings, bookies: Sequence[BookieRecord]) -> None:
    """Raise BookieRefused if all registered bookies refuse us, and KdcUnreachable if no KDC gives
    us a ticket for any that does not. Asks only if TLS or a login is set.
    """
    limits = settings.bookie_limits()
    if not limits.access.is_secured:
        return
    registered = [bookie for bookie in bookies if bookie.is_registered]
    error = asyncio.run(refusal_of_all(registered, limits, now_ms))
    if error is not None:
        raise error
