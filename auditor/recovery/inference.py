"""Infer the metadata of a ledger from which bookies hold which of its entries.

BookKeeper puts entry e on the positions e, e+1, ... e+W-1, modulo E, of its segment's ensemble. The
bookies that hold the first entries therefore show W, E and the order of the ensemble. All held
entries must then lie where this metadata puts them, and all entries from 0 to the last must be held
somewhere; otherwise nothing is proposed. Copies may be missing.

What entries do not show: the ack quorum, the password, the custom metadata, and bookies that hold
nothing any more. If W equals E, the order of the ensemble does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import NamedTuple

from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.schedule import expected_list, held_entries
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerState, Segment

SEGMENTS_MAX = 50
"""Segments that are inferred. A ledger whose ensemble changed more often is left to a person."""
FORMAT_VERSION = 3

Held = Mapping[BookieId, EntrySet]


class Ambiguous(Exception):
    """The entries do not show one metadata. The message says why."""


class EndOfLedger(NamedTuple):
    """What the header of the last held entry says.

    `length_bytes` is the payload up to it, `last_confirmed` the last entry that its writer knew to
    be acknowledged.
    """

    entry_id: EntryId
    length_bytes: int
    last_confirmed: EntryId


class Inferred(NamedTuple):
    """A proposal. `missing_copies`: copies that the metadata promises and no asked bookie holds."""

    metadata: LedgerMetadata
    missing_copies: int


def last_held(held: Held) -> EntryId | None:
    """Return the highest entry that a bookie holds, None without any."""
    return max((entries.last() for entries in held.values() if entries), default=None)


def infer(held: Held, end: EndOfLedger, digest: DigestType) -> Inferred:
    """Return the metadata that puts each held entry where it is, closed at the last one.

    Raises Ambiguous. `held` has the bookies that hold entries. The proposal is closed at
    `end.entry_id`, which must be the highest held entry.
    """
    holders = {bookie: entries for bookie, entries in held.items() if entries}
    if not holders:
        raise Ambiguous("no bookie holds an entry of it")
    last = end.entry_id
    if lacking := EntrySet.span(0, last) - reduce(or_, holders.values()):
        raise Ambiguous(
            f"{lacking.count():,} of its entries are on no asked bookie, entry"
            f" {lacking.first()} first"
        )
    segments, size, quorum = _segments(holders, last)
    metadata = LedgerMetadata(
        format_version=FORMAT_VERSION,
        state=LedgerState.CLOSED,
        ensemble_size=size,
        write_quorum=quorum,
        ack_quorum=quorum,
        last_entry_id=last,
        length=end.length_bytes,
        segments=tuple(segments),
        digest_type=digest,
    )
    for bookie, entries in holders.items():
        if foreign := entries - held_entries(expected_list(metadata, bookie)):
            raise Ambiguous(f"{bookie} holds entry {foreign.first()}, which no ensemble puts there")
    return Inferred(metadata, missing_copies(metadata, holders))


def _segments(held: Held, last: EntryId) -> tuple[list[Segment], int, int]:
    """Return the segments, and the ensemble size and write quorum that they share."""
    segments: list[Segment] = []
    start = 0
    quorums: tuple[int, int] | None = None
    while start <= last:
        ensemble, quorum = _ensemble_at(held, start, last, quorums)
        found = len(ensemble), quorum
        if quorums is not None and found != quorums:
            raise Ambiguous(
                f"entry {start} shows {_quorum_words(*found)}, the entries before it"
                f" {_quorum_words(*quorums)}"
            )
        quorums = found
        if len(segments) == SEGMENTS_MAX:
            raise Ambiguous(f"it has more than {SEGMENTS_MAX} segments")
        segments.append(Segment(start, ensemble))
        start = _first_elsewhere(held, segments, found, last)
    assert quorums is not None
    return segments, *quorums


def _quorum_words(size: int, quorum: int) -> str:
    return f"{quorum} copies on {size} bookies"


def _holders(held: Held, entry: EntryId) -> frozenset[BookieId]:
    return frozenset(bookie for bookie, entries in held.items() if entry in entries)


def _ensemble_at(
    held: Held, start: EntryId, last: EntryId, quorums: tuple[int, int] | None
) -> tuple[tuple[BookieId, ...], int]:
    """Return the ensemble of the segment that begins at `start`, and its write quorum.

    It is the smallest one that the first entries fit into. `quorums` are those of earlier segments:
    if all bookies of an ensemble hold each entry, one entry shows it.
    """
    first = _holders(held, start)
    quorum = len(first)
    is_full = quorums == (quorum, quorum)
    if is_full or start == last or _holders(held, start + 1) == first:
        return tuple(sorted(first)), quorum
    for size in range(quorum + 1, len(held) + 1):
        if start + size > last:
            raise Ambiguous(
                f"the segment that begins at entry {start} is too short to show its ensemble"
            )
        sets = [_holders(held, start + offset) for offset in range(size + 1)]
        if sets[size] != first:
            continue
        # A bookie leaves the write set exactly after the entry whose write set it begins.
        leaving = [sets[offset] - sets[offset + 1] for offset in range(size)]
        if any(len(one) != 1 for one in leaving) or len(frozenset().union(*leaving)) != size:
            continue
        ensemble = [""] * size
        for offset, (bookie,) in enumerate(leaving):
            ensemble[(start + offset) % size] = bookie
        return tuple(ensemble), quorum
    raise Ambiguous(f"the bookies that hold entry {start} and those after it show no ensemble")


def _first_elsewhere(
    held: Held, segments: list[Segment], quorums: tuple[int, int], last: EntryId
) -> EntryId:
    """Return the first entry behind which a bookie holds what the last segment does not promise.

    It is `last` + 1 if there is none.
    """
    start = segments[-1].first_entry_id
    size, quorum = quorums
    until_last = LedgerMetadata(
        FORMAT_VERSION, LedgerState.CLOSED, size, quorum, quorum, last, 0, (segments[-1],)
    )
    rest = EntrySet.span(start, last)
    foreign = [
        outside.first()
        for bookie, entries in held.items()
        if (outside := (entries & rest) - held_entries(expected_list(until_last, bookie)))
    ]
    found = min(foreign, default=last + 1)
    if found == start:
        raise Ambiguous(f"entry {start} is where no ensemble puts it")
    return found


def out_of_place(metadata: LedgerMetadata, held: Held) -> EntryId | None:
    """Return the first held entry that shows that older metadata is out of date, None without any.

    In a closed ledger it is one that no bookie holds where the metadata puts it: a copy elsewhere
    may be left over from a replication. In another it is any entry that is elsewhere, because the
    ensemble changed.
    """
    last = metadata.last_entry_id if metadata.state is LedgerState.CLOSED else last_held(held)
    if last is None or last < 0:
        return None
    until_last = replace(metadata, state=LedgerState.CLOSED, last_entry_id=last)
    in_place, elsewhere = EMPTY, EMPTY
    for bookie, entries in held.items():
        promised = held_entries(expected_list(until_last, bookie))
        in_place |= entries & promised
        elsewhere |= (entries - promised) & EntrySet.span(0, last)
    wrong = elsewhere - in_place if metadata.state is LedgerState.CLOSED else elsewhere
    return wrong.first() if wrong else None


def missing_copies(metadata: LedgerMetadata, held: Held) -> int:
    """Return how many copies a closed ledger promises that no bookie of its ensembles holds."""
    bookies = {bookie for segment in metadata.segments for bookie in segment.ensemble}
    expected = {bookie: held_entries(expected_list(metadata, bookie)) for bookie in bookies}
    return sum((expected[bookie] - held.get(bookie, EMPTY)).count() for bookie in bookies)
