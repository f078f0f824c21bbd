"""The second checker's findings on lost entry logs: one file after another, from its own rows.

A file is lost if, at two looks, a list left its entries out and a read of one of them failed with
EIO; and no read of any of them brought it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from auditor.model.bookie_facts import EntryLogLostFacts, LostLog
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.identity import EntryId, LedgerId

TOLD_MAX = 10
"""Files that a finding names, and ledgers that it names for each."""
FAILURE = "EIO"


class LeftOut(NamedTuple):
    """Entries of one ledger in one file that a list left out at one look."""

    path: str
    ledger_id: LedgerId
    look: int
    entries: int
    ranges: Sequence[Sequence[EntryId]]
    read_unlisted: Sequence[EntryId]


class Tried(NamedTuple):
    """How a read ended at one look."""

    ledger_id: LedgerId
    look: int
    entry_id: EntryId
    status: str
    detail: str


def entry_log_lost_facts(
    seen: Sequence[BookieRecord], lister: str, left_out: Iterable[LeftOut], tried: Iterable[Tried]
) -> EntryLogLostFacts | None:
    """Return the facts of a bookie that lost entry logs, None if no file is surely lost."""
    if not seen or seen[-1].registration is Registration.NONE:
        return None
    at: dict[tuple[LedgerId, int], list[Tried]] = {}
    for read in tried:
        at.setdefault((read.ledger_id, read.look), []).append(read)
    lost: list[LostLog] = []
    hit: set[LedgerId] = set()
    for path, rows in groupby(sorted(left_out), lambda one: one.path):
        mine = list(rows)  # by ledger, then by look
        ends = [
            end for one in mine for end in _read_ends(one, at.get((one.ledger_id, one.look), []))
        ]
        if "sent" in ends or len({look for look in ends if look != "sent"}) < 2:
            continue
        twice = [list(lists) for _, lists in groupby(mine, lambda one: one.ledger_id)]
        last = [lists[-1] for lists in twice if lists[0].look < lists[-1].look]
        if last:
            some = tuple(
                (one.ledger_id, one.ranges[0][0], one.ranges[0][1]) for one in last[:TOLD_MAX]
            )
            lost.append(LostLog(path, len(last), sum(one.entries for one in last), some, len(ends)))
            hit.update(one.ledger_id for one in last)
    if not lost:
        return None
    newest = seen[-1]
    where = f"{newest.host}:{newest.port}"
    entries = sum(one.entries for one in lost)
    return EntryLogLostFacts(
        newest.registration.value,
        where,
        lister,
        len(lost),
        len(hit),
        entries,
        tuple(lost[:TOLD_MAX]),
    )


def _read_ends(one: LeftOut, tried: Iterable[Tried]) -> list[int | str]:
    """Return the look for each read of a left-out entry that failed, and "sent" if one brought
    it.
    """
    found: list[int | str] = []
    for first, last in one.ranges:
        if any(first <= entry <= last for entry in one.read_unlisted):
            found.append("sent")
        for read in tried:
            if not first <= read.entry_id <= last:
                continue
            if read.status in ("present", "corrupt", "too_large"):
                found.append("sent")
            elif read.status == "failed" and read.detail.partition(":")[0] == FAILURE:
                found.append(one.look)
    return found
