"""Tell faults of the auditor's own host from faults of the cluster.

A lack of descriptors, memory, threads or disk on this host says nothing about a bookie or about
ZooKeeper. It ends a command with exit code 5 and a sentence (`errors.LocalFault`). A fault that
blocks the way to a single peer, such as a missing route or a resolver that fails, becomes the
reason `auditor_limited` of the ledgers that needed that peer.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator

from auditor.errors import LocalFault, text_of

CHAIN_MAX = 20
"""At most this many exceptions of a chain of causes are examined."""

_DESCRIPTORS = (
    "this process has no file descriptor left: raise its limit (`ulimit -n`, or LimitNOFILE of the"
    " service)"
)
_MEMORY = (
    "this host gives the auditor no more memory: raise its limit (`ulimit -v`, or that of the"
    " container or service), or free some"
)
_THREADS = (
    "this host lets the auditor start no more threads or processes: raise the limit (`ulimit -u`,"
    " `ulimit -v`, or pids.max of the container)"
)
_FULL = "a file system of this host is full: free space on it"

EXHAUSTED: dict[int, str] = {
    errno.EMFILE: _DESCRIPTORS,
    errno.ENFILE: "this host has no file descriptor left: raise fs.file-max, or end what uses them",
    errno.ENOMEM: _MEMORY,
    errno.ENOBUFS: "this host has no memory left for sockets: see net.core and net.ipv4.tcp_mem",
}
"""The meaning of each errno, whatever was tried: the host or the process has used something up."""

FILES: dict[int, str] = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: "the disk quota of the auditor's user is used up: raise it, or free space",
    errno.EFBIG: "a file reached the largest size that is allowed: raise the limit (`ulimit -f`)",
    errno.EROFS: "a file system of this host is read-only: mount it writable",
    errno.EIO: "a disk of this host fails: see the kernel's log",
}
"""The meaning of each errno when a file of ours was read or written."""

BARRED: dict[int, str] = {
    errno.EADDRNOTAVAIL: "no local port or address is left for a connection to it",
    errno.ENETUNREACH: "this host has no route to it",
    errno.ENETDOWN: "this host's network is down",
    errno.EAFNOSUPPORT: "this host does not support the kind of its address",
    errno.EACCES: "this host does not allow a connection to it",
    errno.EPERM: "this host does not allow a connection to it",
}
"""The meaning of each errno of a connection attempt that ended on this host.

EHOSTUNREACH is left out: it also means that the peer's host is down."""

RESOLVER = frozenset({socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_MEMORY, socket.EAI_SYSTEM})
"""Codes of a resolver that failed. EAI_NONAME is not one: it says that there is no such name."""

UNWRITABLE: dict[str, int] = {
    "No space left on device": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "File too large": errno.EFBIG,
    "Read-only file system": errno.EROFS,
}
"""Words of the JVM and of libraries for a file that cannot be written, each with its errno."""

_WORDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"can't start new thread|unable to create (?:new )?native thread"), _THREADS),
    (re.compile(r"Too many open files\b"), _DESCRIPTORS),
    (
        re.compile(
            r"\b[Cc]annot allocate memory|failed to map segment|OutOfMemoryError|\bMemoryError\b"
        ),
        _MEMORY,
    ),
    *((re.compile(words), FILES[number]) for words, number in UNWRITABLE.items()),
)
"""Words of libraries and the JVM, for errors of which only the text is left."""


def local_fault(error: BaseException) -> LocalFault | None:
    """Return the fault of this host that caused the error, or None if no such fault is known.

    For errors of our own work. For an error of a connection attempt, call `exhaustion`.
    """
    for cause in _chain(error):
        if isinstance(cause, LocalFault):
            return cause
        meaning = _meaning(cause) or (
            FILES.get(cause.errno or 0) if isinstance(cause, OSError) else None
        )
        if meaning is None and isinstance(cause, RuntimeError | ImportError | OSError):
            meaning = _meaning_of_words(text_of(cause))
        if meaning is not None:
            return LocalFault(_sentence(meaning, cause))
    return None


def exhaustion(error: BaseException) -> LocalFault | None:
    """Return the fault if a connection failed because this host has used something up.

    Return None if the peer may be the cause, or if only the way to this peer is blocked.
    """
    for cause in _chain(error):
        meaning = _meaning(cause)
        if meaning is None and isinstance(cause, OSError) and cause.errno is None:
            # asyncio joins the errors of several addresses into one text.
            meaning = next((EXHAUSTED[n] for n in _errnos(text_of(cause)) if n in EXHAUSTED), None)
        if meaning is not None:
            return LocalFault(_sentence(meaning, cause))
    return None


def start_fault(error: OSError) -> LocalFault | None:
    """Return the fault if a process could not start because this host has used something up.

    Return None if the program itself cannot be run.
    """
    if error.errno == errno.EAGAIN:  # fork reports a limit on processes this way
        return LocalFault(_sentence(_THREADS, error))
    return exhaustion(error)


def bar(error: BaseException) -> str | None:
    """Return why this host has no way to one peer, as a sentence about "it".

    Return None if the attempt reached the peer or its network.
    """
    if isinstance(error, socket.gaierror):
        return "this host's resolver failed" if error.errno in RESOLVER else None
    return BARRED.get(error.errno or 0) if isinstance(error, OSError) else None


def local_fault_in(text: str) -> LocalFault | None:
    """Return the fault of this host that another program's text reports, or None.

    The text comes from a Spark task or from the JVM, of which no exception is left.
    """
    numbers = [number for number in _errnos(text) if number in EXHAUSTED or number in FILES]
    meaning = _meaning_of_words(text)
    if numbers and meaning is None:
        meaning = EXHAUSTED.get(numbers[0]) or FILES[numbers[0]]
    return None if meaning is None else LocalFault(meaning)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, the members of its group, and what caused each, at most CHAIN_MAX."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting and len(seen) < CHAIN_MAX:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions
        waiting += [c for c in (cause.__cause__, cause.__context__) if c is not None]


def _meaning(error: BaseException) -> str | None:
    """Return what this host has used up, if the error says so."""
    if isinstance(error, MemoryError):
        return _MEMORY
    if isinstance(error, socket.gaierror):
        return _MEMORY if error.errno == socket.EAI_MEMORY else None
    if isinstance(error, OSError):
        return EXHAUSTED.get(error.errno or 0)
    if isinstance(error, RuntimeError) and "can't start new thread" in text_of(error):
        return _THREADS
    return None


def _meaning_of_words(text: str) -> str | None:
    return next((meaning for words, meaning in _WORDS if words.search(text)), None)


def _errnos(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\[[Ee]rrno (\d+)\]", text)]


def _sentence(meaning: str, error: BaseException) -> str:
    said = " ".join(text_of(error).split()) or type(error).__name__
    return f"{meaning} ({said})"
