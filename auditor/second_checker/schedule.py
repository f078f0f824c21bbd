"""The second checker's own derivation of where entries belong, one entry at a time (metadata.md 6.2).

It starts from the entry, not from the bookie: entry e was written to the ensemble positions e mod E, (e + 1) mod E, ... W of
them, counted with the absolute entry id. Nothing here is shared with `auditor.first_checker`, which starts from the position.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerState


class Stretch(NamedTuple):
    """Entries `first` to `last` (inclusive, at least one) written to one ensemble with one write quorum."""

    first: EntryId
    last: EntryId
    ensemble: tuple[BookieId, ...]
    write_quorum: int

    def bookies_of(self, entry: EntryId) -> tuple[BookieId, ...]:
        """The distinct bookies the entry was written to, in the order of the write set."""
        size = len(self.ensemble)
        return tuple(dict.fromkeys(self.ensemble[(entry + copy) % size] for copy in range(self.write_quorum)))

    @property
    def entry_count(self) -> int:
        """How many entries these are."""
        return self.last - self.first + 1

    @property
    def bookies(self) -> tuple[BookieId, ...]:
        """The distinct bookies of the ensemble."""
        return tuple(dict.fromkeys(self.ensemble))


def stretches(metadata: LedgerMetadata) -> tuple[Stretch, ...]:
    """Return where it is clear which bookies hold which entries; ascending.

    Only of a closed ledger with 1 <= W <= E. A segment counts when it starts at 0 or above, stands where the order of all
    firstEntryIds puts it, shares its firstEntryId with none and names E bookies. The last one of a ledger without lastEntryId
    is left out: nobody knows where it ends.
    """
    size, write, segments = metadata.ensemble_size, metadata.write_quorum, metadata.segments
    if metadata.state is not LedgerState.CLOSED or write < 1 or size < write:
        return ()
    lowest_yet_above = list(accumulate((one.first_entry_id for one in reversed(segments)), min))[::-1]
    highest_yet_below = [-1, *accumulate((one.first_entry_id for one in segments), lambda a, b: max(a, b, -1))]
    found: list[Stretch] = []
    for place, segment in enumerate(segments):
        first, is_last = segment.first_entry_id, place == len(segments) - 1
        ends = [] if metadata.last_entry_id is None else [metadata.last_entry_id]
        if not is_last:
            ends.append(lowest_yet_above[place + 1] - 1)
        is_in_order = highest_yet_below[place] < first and (is_last or first < lowest_yet_above[place + 1])
        if ends and is_in_order and first <= min(ends) and len(segment.ensemble) == size:
            found.append(Stretch(first, min(ends), segment.ensemble, write))
    return tuple(found)


def copies_due(metadata: LedgerMetadata, parts: tuple[Stretch, ...]) -> int:
    """How many copies a writer left behind: W of every entry up to the last, of unclear segments and doubled bookies too.

    Where nobody knows the last entry, of the entries in `parts` alone.
    """
    size, write, last = metadata.ensemble_size, metadata.write_quorum, metadata.last_entry_id
    if metadata.state is not LedgerState.CLOSED or write < 1 or size < write:
        return 0
    return write * (sum(part.entry_count for part in parts) if last is None else last + 1)


def first_of(stretch: Stretch, bookie: BookieId) -> EntryId | None:
    """The lowest entry of the stretch that was written to the bookie: the first E are tried, one by one."""
    return next((entry for entry in _from_below(stretch) if bookie in stretch.bookies_of(entry)), None)


def last_of(stretch: Stretch, bookie: BookieId) -> EntryId | None:
    """The highest such entry: the last E are tried."""
    return next((entry for entry in _from_above(stretch) if bookie in stretch.bookies_of(entry)), None)


def _from_below(stretch: Stretch) -> Iterator[EntryId]:
    return iter(range(stretch.first, stretch.last + 1)[: len(stretch.ensemble)])


def _from_above(stretch: Stretch) -> Iterator[EntryId]:
    return iter(range(stretch.last, stretch.first - 1, -1)[: len(stretch.ensemble)])
