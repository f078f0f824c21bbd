"""Where entries belong, derived for the second checker one entry at a time.

Entry e was written to W ensemble positions: e mod E, (e + 1) mod E, and so on, counted with the
absolute entry id (BookKeeper's RoundRobinDistributionSchedule). This derivation starts from the
entry. `auditor.first_checker` starts from the position, and no code is shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerState

ENSEMBLES_KEPT_MAX = 1_024
"""Ensembles whose write sets are cached for other entries: some hundred bytes each."""
KEPT_PLACES_MAX = 1_000
"""Write sets of larger ensembles are not cached; the size is E times W. 1,000 places take 8 KB.

Metadata may name so many bookies that the write sets of one ensemble would fill a task's memory."""


@lru_cache(ENSEMBLES_KEPT_MAX)
def _write_sets(
    ensemble: tuple[BookieId, ...], write_quorum: int
) -> tuple[tuple[BookieId, ...], ...]:
    """Return the distinct bookies of each write set, for entries 0 to E - 1, in write order."""
    return tuple(_write_set(ensemble, write_quorum, entry) for entry in range(len(ensemble)))


def _write_set(
    ensemble: tuple[BookieId, ...], write_quorum: int, entry: EntryId
) -> tuple[BookieId, ...]:
    size = len(ensemble)
    return tuple(dict.fromkeys(ensemble[(entry + copy) % size] for copy in range(write_quorum)))


class Stretch(NamedTuple):
    """Entries `first` to `last` (inclusive, at least one) of one ensemble and write quorum."""

    first: EntryId
    last: EntryId
    ensemble: tuple[BookieId, ...]
    write_quorum: int

    def bookies_of(self, entry: EntryId) -> tuple[BookieId, ...]:
        """Return the distinct bookies to which the entry was written, in write order."""
        if len(self.ensemble) * self.write_quorum > KEPT_PLACES_MAX:
            return _write_set(self.ensemble, self.write_quorum, entry)
        return _write_sets(self.ensemble, self.write_quorum)[entry % len(self.ensemble)]

    @property
    def entry_count(self) -> int:
        """The number of entries."""
        return self.last - self.first + 1

    @property
    def bookies(self) -> tuple[BookieId, ...]:
        """The distinct bookies of the ensemble."""
        return tuple(dict.fromkeys(self.ensemble))


def stretches(metadata: LedgerMetadata) -> tuple[Stretch, ...]:
    """Return the parts of a ledger where it is clear which bookies hold which entries, ascending.

    Only a closed ledger with 1 <= W <= E has such parts. A segment is one if it has entries, names
    E bookies, starts at 0 or above, and its firstEntryId is in order and unique. Without a
    lastEntryId the last segment is left out: its end is unknown.
    """
    size, write, segments = metadata.ensemble_size, metadata.write_quorum, metadata.segments
    if metadata.state is not LedgerState.CLOSED or write < 1 or size < write:
        return ()
    lowest_yet_above = list(
        accumulate((segment.first_entry_id for segment in reversed(segments)), min)
    )[::-1]
    highest_yet_below = list(
        accumulate((segment.first_entry_id for segment in segments), max, initial=-1)
    )
    found: list[Stretch] = []
    for place, segment in enumerate(segments):
        first, is_last = segment.first_entry_id, place == len(segments) - 1
        ends = [] if metadata.last_entry_id is None else [metadata.last_entry_id]
        if not is_last:
            ends.append(lowest_yet_above[place + 1] - 1)
        is_above = highest_yet_below[place] < first
        if ends and is_above and first <= min(ends) and len(segment.ensemble) == size:
            found.append(Stretch(first, min(ends), segment.ensemble, write))
    return tuple(found)


def copies_due(metadata: LedgerMetadata, parts: tuple[Stretch, ...]) -> int:
    """Return how many copies the writer promised: W of every entry up to lastEntryId.

    Unclear segments and bookies named twice are included. Without lastEntryId, only the entries in
    `parts` count.
    """
    size, write, last = metadata.ensemble_size, metadata.write_quorum, metadata.last_entry_id
    if metadata.state is not LedgerState.CLOSED or write < 1 or size < write:
        return 0
    return write * (sum(part.entry_count for part in parts) if last is None else max(-1, last) + 1)


def entries_from_below(stretch: Stretch) -> range:
    """Return the first E entries of the stretch, or all if there are fewer. Later write sets
    repeat.
    """
    return range(stretch.first, stretch.last + 1)[: len(stretch.ensemble)]


def first_of(stretch: Stretch, bookie: BookieId) -> EntryId | None:
    """Return the lowest entry of the stretch written to the bookie; None if there is none."""
    return next(
        (entry for entry in entries_from_below(stretch) if bookie in stretch.bookies_of(entry)),
        None,
    )


def last_of(stretch: Stretch, bookie: BookieId) -> EntryId | None:
    """Return the highest entry of the stretch written to the bookie; None if there is none."""
    return next(
        (entry for entry in _from_above(stretch) if bookie in stretch.bookies_of(entry)), None
    )


def _from_above(stretch: Stretch) -> Iterator[EntryId]:
    return iter(range(stretch.last, stretch.first - 1, -1)[: len(stretch.ensemble)])
