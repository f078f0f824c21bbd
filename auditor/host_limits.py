"""Compare the limits of this host with the needs of an audit, before anything is contacted.

Descriptors: the soft limit is raised as far as the hard limit allows. Memory: a limit on the
address space is compared with what Python and its libraries map. Disk: the free space of OUTPUT.
"""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path
from typing import NamedTuple

from auditor.errors import LocalFault

DESCRIPTORS_AT_START = 16
"""Descriptors that are open when a command begins, if they cannot be counted."""
RESERVED_DESCRIPTORS = 32
"""Descriptors that a command needs beside its conversations with bookies: for ZooKeeper, event
loops, tables, children and libraries. A run of 70 bookies used at most 13 of them."""
ADDRESS_SPACE_MIN = 2 * 2**30
"""Address space that a command needs without Spark, in bytes. A run of 70 ledgers fails now and
then below 1.7 GiB: Arrow and each thread map far more than they use."""
LIBRARIES_ADDRESS_SPACE_MIN = 2**29
"""Address space that importing Arrow and NumPy needs, in bytes. Below it OpenBLAS ends the process
with exit code 1, which would mean findings."""
SPARK_DESCRIPTORS_MIN = 1_024
"""Descriptors that Spark's JVM needs: it keeps some 300 jars open, and sockets and files of its
tasks. Below some 400 it does not start."""
JVM_ADDRESS_SPACE_MIN = 4 * 2**30
"""Address space that a JVM reserves beside its heap, in bytes: classes, code, threads' stacks."""
JVM_HEAP_SHARE = 4
"""Without other options, a JVM reserves this fraction of the memory for its heap."""
OUTPUT_FREE_MIN = 2**20
"""With less free space in OUTPUT, in bytes, no run begins: a run of a few ledgers writes that
much."""


class HostLimit(NamedTuple):
    """One limit of this host and whether it suffices. `sentence` says both numbers, and what
    to do.
    """

    name: str
    is_enough: bool
    sentence: str


def host_limits(output: Path | None, *, bookies: int = 0) -> list[HostLimit]:
    """Return the limits of this host that an audit of so many bookies depends on.

    Raises the soft limit on descriptors if that helps. `output` is None if nothing is written, or
    not to a local directory.
    """
    limits = [_descriptors(bookies), _address_space()]
    return limits if output is None else [*limits, _free_space(output)]


def require_room_for_libraries() -> None:
    """Raise LocalFault if this host's limits do not allow the auditor's libraries to be
    imported.
    """
    limit = _raise_soft(resource.RLIMIT_AS, ADDRESS_SPACE_MIN)
    if limit is not None and limit < LIBRARIES_ADDRESS_SPACE_MIN:
        raise LocalFault(_address_space().sentence)


POOL_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
"""Names the allocator that Arrow uses. An operator's choice stays."""


def take_jemalloc() -> None:
    """Let Arrow allocate by jemalloc, where its build has it and the address space has no limit.

    mimalloc, its default, keeps for each thread what other threads freed: a driver took 150 MiB
    more by it. jemalloc keeps address space instead: most runs of 70 ledgers failed by it within
    ADDRESS_SPACE_MIN.
    """
    import pyarrow as pa

    is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if POOL_VARIABLE in os.environ or is_limited:
        return
    if "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())


def require_host_limits(output: Path | None) -> None:
    """Raise LocalFault if this host's limits are too low for the smallest audit."""
    for limit in host_limits(output):
        if not limit.is_enough:
            raise LocalFault(limit.sentence)


def require_room_for_spark() -> None:
    """Raise LocalFault if this host's limits do not let Spark's JVM start.

    Raises soft limits if that helps. A JVM itself reports a lack of them in words that help nobody.
    """
    descriptors = _raise_descriptor_limit(SPARK_DESCRIPTORS_MIN)
    if descriptors < SPARK_DESCRIPTORS_MIN:
        raise LocalFault(
            f"this process may open {descriptors:,} files, and Spark needs"
            f" {SPARK_DESCRIPTORS_MIN:,}: raise the hard limit (`ulimit -Hn`, or LimitNOFILE of the"
            " service)"
        )
    needed = JVM_ADDRESS_SPACE_MIN + _memory_bytes() // JVM_HEAP_SHARE
    space = _raise_soft(resource.RLIMIT_AS, needed)
    if space is not None and space < needed:
        raise LocalFault(
            f"the address space of this process is limited to {space // 2**20:,} MiB, and Spark's"
            f" JVM reserves {needed // 2**20:,} MiB on this host: raise the limit (`ulimit -v`)"
        )


def sockets_affordable(wanted: int) -> int:
    """Return how many sockets this process may open for its conversations: `wanted`, or fewer.

    Raises the soft limit on descriptors if that helps, and LocalFault if no socket is left.
    """
    limit = _raise_descriptor_limit(_open_descriptors() + RESERVED_DESCRIPTORS + wanted)
    left = limit - _open_descriptors() - RESERVED_DESCRIPTORS
    if left < 1:
        raise LocalFault(_too_few(limit))
    return min(wanted, left)


def _descriptors(bookies: int) -> HostLimit:
    needed = _open_descriptors() + RESERVED_DESCRIPTORS + max(1, bookies)
    limit = _raise_descriptor_limit(needed)
    if limit >= needed:
        return HostLimit("descriptors", True, f"{limit:,} file descriptors")
    if bookies > 1 and limit > _open_descriptors() + RESERVED_DESCRIPTORS:
        return HostLimit(
            "descriptors",
            True,
            f"{limit:,} file descriptors: too few for {bookies:,} bookies at once, fewer are asked"
            " at a time (`ulimit -n`)",
        )
    return HostLimit("descriptors", False, _too_few(limit))


def _too_few(limit: int) -> str:
    return (
        f"this process may open {limit:,} files, and an audit needs at least"
        f" {_open_descriptors() + RESERVED_DESCRIPTORS + 1:,}: raise the hard limit (`ulimit -Hn`,"
        " or LimitNOFILE of the service)"
    )


def _address_space() -> HostLimit:
    limit = _raise_soft(resource.RLIMIT_AS, ADDRESS_SPACE_MIN)
    if limit is None:
        return HostLimit("memory", True, "no limit on the address space")
    says = f"the address space of this process is limited to {limit // 2**20:,} MiB"
    if limit >= ADDRESS_SPACE_MIN:
        return HostLimit("memory", True, says)
    return HostLimit(
        "memory",
        False,
        f"{says}, and an audit needs {ADDRESS_SPACE_MIN // 2**20:,} MiB, and more with"
        " Spark: raise the limit (`ulimit -v`)",
    )


def _free_space(output: Path) -> HostLimit:
    try:
        existing = next(
            directory for directory in (output, *output.absolute().parents) if directory.exists()
        )
        free = shutil.disk_usage(existing).free
    except (OSError, StopIteration):
        return HostLimit("disk", True, f"the free space of {output} is not known")
    says = f"{free // 2**20:,} MiB are free for {output}"
    if free >= OUTPUT_FREE_MIN:
        return HostLimit("disk", True, says)
    return HostLimit(
        "disk",
        False,
        f"{says}, and a run needs at least {OUTPUT_FREE_MIN // 2**20:,} MiB: free space there, or"
        " give another --output",
    )


def _memory_bytes() -> int:
    """Return the memory of this host."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _open_descriptors() -> int:
    """Return how many descriptors this process has open.

    If none is left to list them, return the limit; if the system has no such list,
    DESCRIPTORS_AT_START.
    """
    try:
        return len(list(Path("/proc/self/fd").iterdir())) - 1  # without the one that lists them
    except FileNotFoundError:
        return DESCRIPTORS_AT_START
    except OSError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _raise_descriptor_limit(needed: int) -> int:
    """Raise the soft limit to `needed` as far as the hard limit allows. Return the soft limit."""
    limit = _raise_soft(resource.RLIMIT_NOFILE, needed)
    return needed if limit is None else limit


def _raise_soft(which: int, needed: int) -> int | None:
    """Raise a soft limit to `needed` as far as the hard limit allows.

    Return the soft limit, None if there is none.
    """
    soft, hard = resource.getrlimit(which)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None if soft == resource.RLIM_INFINITY else soft
    wanted = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    if wanted <= soft:
        return soft
    try:
        resource.setrlimit(which, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted
