"""Resolve host names to addresses within a time limit."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Mapping
from queue import Empty, SimpleQueue

from auditor.errors import LocalFault
from auditor.local_faults import bar, exhaustion
from auditor.model.address import Address, address_of

RESOLVERS = 8
"""Names resolved in parallel: a resolver that does not respond takes seconds for each."""
RESOLVE_WITHIN_S = 15.0
"""How long one call may take, in seconds: three usual time-outs of a resolver (5 s)."""
NAMES_MAX = 10_000
"""Names resolved in one call."""
ADDRESSES_MAX = 16
"""Addresses kept for one name."""


def addresses_of(
    names: Iterable[str], within_s: float = RESOLVE_WITHIN_S
) -> Mapping[str, tuple[Address, ...]]:
    """Return the addresses of each name in the resolver's order. Raises LocalFault.

    Names not resolved in time are left out, and those at which this host's resolver failed; a name
    that does not exist has no addresses. The
    threads cannot be interrupted (getaddrinfo has no time-out): they end with the process.
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
    while not left.empty():  # threads that are still busy find no further name to resolve
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
