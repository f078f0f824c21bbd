"""Locate each bookie: ask sources in order. The first source that knows a bookie wins.

Host names are resolved to addresses within a time limit.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from queue import Empty, SimpleQueue

from auditor.errors import LocalFault
from auditor.local_faults import bar, exhaustion
from auditor.model.cluster import BookieRecord
from auditor.model.identity import (
    Address,
    Areas,
    BookieId,
    address_of,
    is_bookie_id,
    split_host_port,
)
from auditor.topology.location_table import Located, Member
from auditor.topology.sources import RACK_MAP, Raw, Resolve, Source
from auditor.wire.locations import depth

RESOLVERS = 8
"""Names resolved in parallel. A resolver that does not respond takes seconds for each."""
RESOLVE_WITHIN_S = 15.0
"""How long one call may take, in seconds: three usual time-outs of a resolver (5 s)."""
NAMES_MAX = 10_000
"""At most this many names are resolved in one call."""
ADDRESSES_MAX = 16
"""At most this many addresses are kept for one name."""


def addresses_of(
    names: Iterable[str], within_s: float = RESOLVE_WITHIN_S
) -> Mapping[str, tuple[Address, ...]]:
    """Return the addresses of each name, in the resolver's order.

    A name that does not exist has no addresses. Names are left out if they were not resolved in
    time or this host's resolver failed. The threads cannot be interrupted (getaddrinfo has no
    time-out): they end with the process. Raises LocalFault.
    """
    left: SimpleQueue[str] = SimpleQueue()
    wanted = list(dict.fromkeys(names))[:NAMES_MAX]
    for name in wanted:
        left.put(name)
    found: dict[str, tuple[Address, ...]] = {}
    faults: list[LocalFault] = []
    threads = [
        threading.Thread(target=_work, args=(left, found, faults), name=f"resolve-{n}", daemon=True)
        for n in range(min(RESOLVERS, len(wanted)))
    ]
    deadline = time.monotonic() + within_s
    for thread in threads:
        try:
            thread.start()
        except RuntimeError as error:
            raise exhaustion(error) or error from error
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    while not left.empty():  # leave no more names to threads that are still busy
        try:
            left.get_nowait()
        except Empty:
            break
    if faults:
        raise faults[0]
    return found.copy()


def _work(
    left: SimpleQueue[str], found: dict[str, tuple[Address, ...]], faults: list[LocalFault]
) -> None:
    while True:
        try:
            name = left.get_nowait()
        except Empty:
            return
        try:
            found[name] = _addresses(name)
        except (OSError, UnicodeError, MemoryError) as error:
            if (fault := exhaustion(error)) is not None:
                faults.append(fault)
            elif bar(error) is None:
                found[name] = ()


def _addresses(name: str) -> tuple[Address, ...]:
    infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    found = (address_of(str(info[4][0])) for info in infos)
    return tuple(dict.fromkeys(address for address in found if address is not None))[:ADDRESSES_MAX]


PROBLEMS_MAX = 50
"""At most this many sentences are kept from all sources; one more says how many were left out."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Where bookies are.

    `located` has every bookie that was asked for, once, by id; `locations` also has bookies that a
    source names by id and that were not asked for. `areas` locate bookies that only ledgers name,
    by host and network. They hold what each source knows, up to the first source that must be asked
    for each bookie (a script). `problems` are sentences on what sources could not tell.
    """

    located: tuple[Located, ...] = ()
    locations: Mapping[BookieId, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    areas: tuple[Areas, ...] = ()

    @property
    def unplaced_bookies(self) -> tuple[BookieId, ...]:
        """Bookies without a location."""
        return tuple(bookie.bookie_id for bookie in self.located if bookie.location is None)

    @property
    def usual_depth(self) -> int | None:
        """The most frequent depth of locations; None without locations.

        If several depths are equally frequent, the smallest of them.
        """
        depths = Counter(depth(bookie.location) for bookie in self.located if bookie.location)
        return min(depths, key=lambda parts: (-depths[parts], parts)) if depths else None

    @property
    def of_odd_depth(self) -> tuple[Located, ...]:
        """Bookies whose location has another depth than most: BookKeeper would reject them."""
        usual = self.usual_depth
        return tuple(
            bookie for bookie in self.located if bookie.location and depth(bookie.location) != usual
        )


def locate(
    sources: Sequence[Source],
    bookies: Iterable[BookieRecord],
    root: str,
    raw: Raw,
    resolve: Resolve = addresses_of,
) -> Topology:
    """Ask each source, in order, for the bookies that no earlier source knew.

    `root` is the cluster's ROOT: Pulsar's rack map is beside it, or at the top. Cost: at most two
    znode reads for a rack map, the calls of a script and the resolution of host names, each within
    its own bounds. Raises what `raw` raises.
    """
    members = sorted((member_of(bookie) for bookie in bookies), key=lambda member: member.bookie_id)
    found: dict[BookieId, Located] = {}
    locations: dict[BookieId, str] = {}
    problems: list[str] = []
    resolve = _once(resolve)
    for source in sources:
        source.load(raw, rack_map_paths(root))
        left = [member for member in members if member.bookie_id not in found]
        for bookie_id, match in source.find(left, resolve).items():
            found[bookie_id] = Located(bookie_id, match.location, source.name, match.matched_by)
            locations[bookie_id] = match.location
        for bookie_id, match in source.known_bookies().items():
            if is_bookie_id(bookie_id):
                locations.setdefault(bookie_id, match.location)
        problems += source.problems
    if len(problems) > PROBLEMS_MAX:
        problems[PROBLEMS_MAX:] = [
            f"and {len(problems) - PROBLEMS_MAX} problems more with the topology"
        ]
    located = tuple(found.get(member.bookie_id, Located(member.bookie_id)) for member in members)
    areas = takewhile(lambda area: area is not None, (source.areas() for source in sources))
    known_areas = tuple(area for area in areas if area)
    return Topology(located, dict(sorted(locations.items())), tuple(problems), known_areas)


def _once(resolve: Resolve) -> Resolve:
    """Return a `resolve` that remembers: each name is resolved once, even if that fails."""
    known: dict[str, tuple[Address, ...]] = {}

    def remembered(names: Sequence[str]) -> Mapping[str, tuple[Address, ...]]:
        new = [name for name in names if name not in known]
        found = resolve(new) if new else {}
        known.update((name, found.get(name, ())) for name in new)
        return known

    return remembered


def rack_map_paths(root: str) -> list[str]:
    """Return the paths of Pulsar's rack map: beside ROOT (inside a chroot), then at the top."""
    return list(dict.fromkeys((root.rpartition("/")[0] + RACK_MAP, RACK_MAP)))


def member_of(bookie: BookieRecord) -> Member:
    """Return a bookie as sources look for it.

    Without a registered address, an id of the form host:port serves as the address.
    """
    if bookie.host is not None:
        registered = split_host_port(f"[{bookie.host}]" if ":" in bookie.host else bookie.host)
        host = registered[0] if registered else bookie.host.lower()
        return Member(bookie.bookie_id, host, bookie.port)
    from_id = split_host_port(bookie.bookie_id)
    if from_id is None or from_id[1] is None:
        return Member(bookie.bookie_id)
    return Member(bookie.bookie_id, *from_id)
