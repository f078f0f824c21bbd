"""What one bookie of the sandbox holds of one ledger: runs, stripes and stored entries.

Entries of runs and stripes are made when they are read, so a stripe of a billion entries costs
nothing.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable
from typing import TypeAlias

from auditor.model.availability import SequenceGroup
from auditor.model.identity import ENTRY_ID_MAX, EntryId, LedgerId
from auditor.model.ledger import DigestType
from auditor.wire import entry_availability
from auditor.wire.digest import digest_of

Run: TypeAlias = tuple[EntryId, EntryId]
"""The first and the last of consecutive entries, both inclusive."""

PAYLOAD_BYTES = 8
"""Payload of every entry made here. A ledger's length is this times its number of entries."""
RUNS_LISTED_MAX = 5_000_000
"""Most runs in one list (24 bytes each). More must be listed as periodic groups."""


class Holding:
    """The entries of one ledger on one bookie. `pieces` may overlap and come in any order.

    A piece is a Run or a SequenceGroup; neither costs more for more entries. Raises ValueError for
    a piece that contradicts itself.
    """

    def __init__(
        self,
        pieces: Iterable[Run | SequenceGroup] = (),
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
    ) -> None:
        runs, self._stripes = _split(pieces)
        self._runs = merge_runs(runs)
        self._starts = [first for first, _ in self._runs]
        self._digest = digest
        self._password = password
        self._stored: dict[EntryId, bytes] = {}
        self._lists: dict[str, bytes] = {}

    def store(self, entry_id: EntryId, body: bytes) -> None:
        """Keep the bytes of an entry that a client sent. Reads return them."""
        self._stored[entry_id] = body
        self._lists.clear()

    def corrupt(self, ledger_id: LedgerId, entry_id: EntryId) -> None:
        """Keep a copy of the entry with one bit flipped: the ids are right, the digest is wrong."""
        body = (
            self.body(ledger_id, entry_id)
            if entry_id in self
            else self._make_entry(ledger_id, entry_id)
        )
        self.store(entry_id, with_wrong_digest(body))

    def __contains__(self, entry_id: EntryId) -> bool:
        if entry_id in self._stored:
            return True
        at = bisect_right(self._starts, entry_id) - 1
        if at >= 0 and entry_id <= self._runs[at][1]:
            return True
        return any(_in_stripe(stripe, entry_id) for stripe in self._stripes)

    def highest(self) -> EntryId | None:
        """Return the highest entry held; None if there is none."""
        ends = [last for _, last in self._runs[-1:]] + [
            stripe.last + stripe.size - 1 for stripe in self._stripes
        ]
        return max([*ends, *self._stored], default=None)

    def run_count_max(self) -> int:
        """Return an upper bound on the number of runs."""
        striped = sum((stripe.last - stripe.first) // stripe.period + 1 for stripe in self._stripes)
        return len(self._runs) + striped + len(self._stored)

    def check_listable_as_runs(self) -> None:
        """Raise ValueError for too many runs for a list, or a run too long for a group."""
        if self.run_count_max() > RUNS_LISTED_MAX:
            raise ValueError(
                f"{self.run_count_max()} runs are too many to list one by one: use"
                " ListForm.PERIODIC"
            )
        longest = max((last - first + 1 for first, last in self._runs), default=0)
        if longest > entry_availability.SIZE_MAX:
            raise ValueError(
                f"a run of {longest} entries is more than a group can say: use ListForm.PERIODIC"
            )

    def runs(self) -> list[Run]:
        """Return all entries as disjoint ascending runs. Raises as `check_listable_as_runs`.

        The cost grows with the number of runs.
        """
        self.check_listable_as_runs()
        striped = [
            (first, first + stripe.size - 1)
            for stripe in self._stripes
            for first in range(stripe.first, stripe.last + 1, stripe.period)
        ]
        return merge_runs(
            [*self._runs, *striped, *((entry_id, entry_id) for entry_id in self._stored)]
        )

    def listed_as_runs(self, *, without_highest: bool = False) -> bytes:
        """Return the list as real bookies send it, with a group per run.

        The list is cached, because 100,000 runs take a tenth of a second.
        """
        key = "all but the highest" if without_highest else "all"
        if key not in self._lists:
            runs = self.runs()
            if without_highest and runs:
                first, last = runs.pop()
                runs += [(first, last - 1)] if last > first else []
            self._lists[key] = entry_availability.encode_runs(
                (first, last - first + 1) for first, last in runs
            )
        return self._lists[key]

    def listed_as_groups(self) -> bytes:
        """Return the list with periodic groups, as BP-34 means it. It is cached.

        A group costs the same however many entries it has.
        """
        if "groups" not in self._lists:
            singles = [(entry_id, entry_id) for entry_id in self._stored]
            lone = [
                SequenceGroup(first, first, last - first + 1, 0)
                for first, last in merge_runs([*self._runs, *singles])
            ]
            self._lists["groups"] = entry_availability.encode_groups([*lone, *self._stripes])
        return self._lists["groups"]

    def body(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        """Return the bytes of an entry that is held: those stored, else an entry made here."""
        assert entry_id in self, f"entry {entry_id} of ledger {ledger_id} is not held"
        stored = self._stored.get(entry_id)
        return stored if stored is not None else self._make_entry(ledger_id, entry_id)

    def _make_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        return entry_body(ledger_id, entry_id, self._digest, self._password)


def entry_body(
    ledger_id: LedgerId,
    entry_id: EntryId,
    digest: DigestType = DigestType.CRC32C,
    password: bytes = b"",
) -> bytes:
    """Return an entry as BookKeeper's client sends it (DigestManager).

    It has ids, digest and PAYLOAD_BYTES of payload.
    """
    length = min(PAYLOAD_BYTES * (entry_id + 1), ENTRY_ID_MAX)
    head = struct.pack(">qqqq", ledger_id, entry_id, entry_id - 1, length)
    payload = struct.pack(">q", entry_id)
    return head + digest_of(head + payload, digest, password) + payload


def with_wrong_digest(body: bytes) -> bytes:
    """Return the body with its last bit flipped. The ids stay; a digest does not match any more."""
    return body[:-1] + bytes((body[-1] ^ 1,))


def merge_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the same entries as disjoint ascending runs that do not touch."""
    out: list[Run] = []
    for first, last in sorted(runs):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return out


def _split(pieces: Iterable[Run | SequenceGroup]) -> tuple[list[Run], list[SequenceGroup]]:
    runs: list[Run] = []
    stripes: list[SequenceGroup] = []
    for piece in pieces:
        group = (
            piece
            if isinstance(piece, SequenceGroup)
            else SequenceGroup(piece[0], piece[0], piece[1] - piece[0] + 1, 0)
        )
        first, last, size, period = group
        if (
            first < 0
            or size <= 0
            or last < first
            or (last > first and (period <= 0 or (last - first) % period))
        ):
            raise ValueError(f"no entries can be held like that: {tuple(piece)}")
        if last == first or size >= period:
            runs.append((first, last + size - 1))
        else:
            stripes.append(group)
    return runs, stripes


def _in_stripe(stripe: SequenceGroup, entry_id: EntryId) -> bool:
    offset = entry_id - stripe.first
    return (
        0 <= offset <= stripe.last - stripe.first + stripe.size - 1
        and offset % stripe.period < stripe.size
    )
