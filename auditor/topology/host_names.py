"""The addresses of host names, within a time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Mapping
from queue import Empty, SimpleQueue

from auditor.model.address import Address, address_of

RESOLVERS = 8
"""Names looked up at once: a resolver that does not answer takes seconds for each."""
RESOLVE_WITHIN_S = 15.0
"""How long all names together may take, in seconds: three time-outs of a usual resolver (5 s)."""
NAMES_MAX = 10_000
"""Names looked up in one run."""
ADDRESSES_MAX = 16
"""Addresses kept of one name."""


def addresses_of(names: Iterable[str], within_s: float = RESOLVE_WITHIN_S) -> Mapping[str, tuple[Address, ...]]:
    """The addresses of each name that could be resolved in time, in the resolver's order; others are not in it. Never raises.

    The threads cannot be interrupted (getaddrinfo has no time-out), so they are left behind and end with the process.
    """
    left: SimpleQueue[str] = SimpleQueue()
    wanted = list(dict.fromkeys(names))[:NAMES_MAX]
    for name in wanted:
        left.put(name)
    found: dict[str, tuple[Address, ...]] = {}
    threads = [
        threading.Thread(target=_work, args=(left, found), name=f"resolve-{n}", daemon=True)
        for n in range(min(RESOLVERS, len(wanted)))
    ]
    deadline = time.monotonic() + within_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    while not left.empty():  # nobody goes on when nobody waits
        try:
            left.get_nowait()
        except Empty:
            break
    return found.copy()


def _work(left: SimpleQueue[str], found: dict[str, tuple[Address, ...]]) -> None:
    while True:
        try:
            name = left.get_nowait()
        except Empty:
            return
        found[name] = _addresses(name)


def _addresses(name: str) -> tuple[Address, ...]:
    try:
        infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    found = (address_of(str(info[4][0])) for info in infos)
    return tuple(dict.fromkeys(address for address in found if address is not None))[:ADDRESSES_MAX]
