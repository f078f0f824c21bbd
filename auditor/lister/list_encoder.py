"""Encode a list of entries while its runs arrive, in memory bounded by the answer's groups."""

from __future__ import annotations

import struct

from auditor.errors import AuditorError
from auditor.model.availability import SequenceGroup
from auditor.wire.entry_availability import (
    GROUP_BYTES,
    HEADER_BYTES,
    SIZE_MAX,
    canonical,
    groups_of,
)

RUNS_MAX = 218_000
"""Runs up to which a list is sent as bookies send it, one group a run: a list with more exceeds the
5 MiB frame of BookKeeper's own clients in that form. Longer lists have periodic groups (BP-34)."""
PENDING_MAX = 16_384
"""Runs collected before they are packed."""
_TAIL_GROUPS = 4
"""Groups that a later run may still change: all before them are final."""

ONE_RUN_BYTES = HEADER_BYTES + GROUP_BYTES
"""Bytes of a list of one run."""

_HEADER = struct.Struct(">ii56x")
_GROUP = struct.Struct(">qqii")


def encode_one_run(first: int, entries: int) -> bytes:
    """Return the list of one run: what `ListEncoder` makes of it, at a fraction of its cost."""
    assert entries <= SIZE_MAX, "no bookie holds a run of 2**31 entries"
    return _HEADER.pack(0, 1) + _GROUP.pack(first, first, entries, 0)


class AnswerTooLong(AuditorError):
    """A list with more bytes than an answer may have."""


class ListEncoder:
    """Collects ascending, disjoint runs; `payload` is the encoded list.

    `bytes_max` bounds the payload and, but for a constant, the memory held. A ledger of any number
    of striped entries costs a few groups.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._final = bytearray()
        self._tail: list[SequenceGroup] = []
        self._is_periodic = False

    def add_runs(self, runs: list[tuple[int, int]]) -> None:
        """Take runs (first entry, size), each behind all before it. Raises AnswerTooLong."""
        groups = [SequenceGroup(first, first, size, 0) for first, size in runs]
        assert all(group.size <= SIZE_MAX for group in groups), (
            "no bookie holds a run of 2**31 entries"
        )
        if not self._is_periodic:
            self._final += b"".join(_GROUP.pack(*group) for group in groups)
            if len(self._final) > RUNS_MAX * GROUP_BYTES:
                self._is_periodic = True
                self._tail = list(groups_of(canonical(groups_of(bytes(self._final)))))
                self._final.clear()
                self._settle_all_but_tail()
        else:
            self._tail = list(groups_of(canonical((*self._tail, *groups))))
            self._settle_all_but_tail()
        if HEADER_BYTES + len(self._final) + len(self._tail) * GROUP_BYTES > self._bytes_max:
            raise AnswerTooLong(f"the list has more than {self._bytes_max} bytes")

    def _settle_all_but_tail(self) -> None:
        self._final += b"".join(_GROUP.pack(*group) for group in self._tail[:-_TAIL_GROUPS])
        del self._tail[:-_TAIL_GROUPS]

    def payload(self) -> bytes:
        """Return the encoded list: header and groups."""
        body = bytes(self._final) + b"".join(_GROUP.pack(*group) for group in self._tail)
        return _HEADER.pack(0, len(body) // GROUP_BYTES) + body
