"""Stories of ledgers with up to 200 short segments, in which losses continue across segment
borders.

`tell` of `support.stories` draws a few segments with gaps between the losses. Here ranges of lost
entries are many, short and adjacent, so the verdict depends on where a checker bounds what it keeps
and where it merges ranges. `crowd` makes a story from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from support.entry_by_entry import expected_on
from support.stories import GRACE_MS, NOW_MS, Bookie, State, Story, some_sweep

from auditor.model.availability import AnswerStatus, ReadStatus
from auditor.model.ledger import LedgerMetadata, LedgerState, Mark, Segment

SEGMENTS_MAX = 200
ENTRIES_MAX = 700
"""Entries of a story. The reference judges them one by one, at every step."""

Bookies = dict[str, Bookie]
Harm = Callable[[random.Random, LedgerMetadata, Bookies], None]


def closed(
    size: int, write: int, ack: int, segments: tuple[Segment, ...], last: int
) -> LedgerMetadata:
    """Return the metadata of a closed ledger."""
    return LedgerMetadata(3, LedgerState.CLOSED, size, write, ack, last, 8, segments)


def crowd(seed: int) -> Story:
    """Make the story of this seed: many short segments, and one or more harms that hit most of
    them.
    """
    draw = random.Random(f"crowd {seed}")
    metadata = _metadata(draw)
    wants = expected_on(metadata)
    bookies = {name: Bookie(frozenset(entries)) for name, entries in wants.items()}
    mark = Mark(NOW_MS - draw.choice((0, 2 * GRACE_MS))) if draw.random() < 0.2 else None
    for _ in range(draw.choice((1, 1, 2, 3))):
        draw.choice(HARMS)(draw, metadata, bookies)
    if mark is not None and draw.random() < 0.5:
        name = draw.choice(sorted(bookies))
        bookies[name] = replace(bookies[name], answer=AnswerStatus.UNREGISTERED, is_forgotten=True)
    terms = {
        "probe_entries": draw.choice((0, 1, 3, 100)),
        "probe_seed": seed,
        "sweep": some_sweep(seed),
    }
    state = State(metadata, bookies, mark=mark)
    return Story(f"crowd {seed}", (state,), reads_max=draw.choice((2, 5, 16)), more_terms=terms)


def crowds(count: int, first_seed: int = 0) -> Iterator[Story]:
    """Return a seeded strategy of such stories."""
    return (crowd(seed) for seed in range(first_seed, first_seed + count))


def _metadata(draw: random.Random) -> LedgerMetadata:
    size = draw.randint(1, 5)
    write = draw.choice((size, draw.randint(1, size)))
    number = draw.choice(
        (draw.randint(2, 10), draw.randint(9, 26), draw.randint(20, 60), 90, SEGMENTS_MAX)
    )
    entries_max = max(1, min(3 * size, ENTRIES_MAX // number))
    same = draw.randint(1, entries_max)
    lengths = [same if draw.random() < 0.7 else draw.randint(1, entries_max) for _ in range(number)]
    pool = [f"b{n}" for n in range(size + draw.choice((1, 1, 2, 6)))]
    ensemble, first, segments = draw.sample(pool, size), 0 if draw.random() < 0.95 else 5, []
    is_shuffled, is_doubled = draw.random() < 0.3, draw.random() < 0.1
    for length in lengths:
        segments.append(Segment(first, tuple(ensemble)))
        first += length
        at = draw.randrange(size)
        ensemble[at] = draw.choice(
            pool if is_doubled else [one for one in pool if one not in ensemble]
        )
        if is_shuffled:
            draw.shuffle(ensemble)
    return closed(size, write, draw.randint(1, write), tuple(segments), first - 1)


# Harms: each changes what some bookies hold or say


def _some(draw: random.Random, bookies: Bookies) -> list[str]:
    """Draw one, two or any number of bookies."""
    return draw.sample(
        sorted(bookies), min(len(bookies), draw.choice((1, 1, 2, draw.randint(1, len(bookies)))))
    )


def _lose(bookies: Bookies, name: str, entries: set[int]) -> None:
    bookies[name] = replace(bookies[name], holds=bookies[name].holds - entries)


def _every_copy_is_gone(draw: random.Random, metadata: LedgerMetadata, bookies: Bookies) -> None:
    """Lose every copy of every entry, or of all but the first and the last few."""
    last = metadata.last_entry_id or 0
    keep = set(draw.choice(((), range(3), range(last - 2, last + 1))))
    for name in bookies:
        bookies[name] = Bookie(
            bookies[name].holds & keep, knows_ledger=bool(keep) or draw.random() < 0.5
        )


def _some_bookies_lose_everything(
    draw: random.Random, metadata: LedgerMetadata, bookies: Bookies
) -> None:
    """Lose everything on some bookies, whether or not they still know the ledger."""
    for name in _some(draw, bookies):
        bookies[name] = Bookie(knows_ledger=draw.random() < 0.5)


def _entries_at_borders_are_lost(
    draw: random.Random, metadata: LedgerMetadata, bookies: Bookies
) -> None:
    """Lose entries around each border: adjacent entries of adjacent segments make one range."""
    behind, ahead = draw.randint(0, 2), draw.randint(0, 2)
    lost = {
        e
        for one in metadata.segments
        for e in range(one.first_entry_id - behind, one.first_entry_id + ahead)
    }
    for name in _some(draw, bookies):
        _lose(bookies, name, lost)


def _every_nth_entry_is_lost(
    draw: random.Random, metadata: LedgerMetadata, bookies: Bookies
) -> None:
    """Lose every nth entry on the same bookies."""
    step, begin = draw.randint(2, 7), draw.randrange(7)
    for name in _some(draw, bookies):
        _lose(bookies, name, set(range(begin, (metadata.last_entry_id or 0) + 1, step)))


def _entries_are_lost_here_and_there(
    draw: random.Random, metadata: LedgerMetadata, bookies: Bookies
) -> None:
    """Lose scattered entries: the same on all affected bookies, or different ones on each."""
    share = draw.choice((0.02, 0.2, 0.8))
    lost = {entry for entry in range((metadata.last_entry_id or 0) + 1) if draw.random() < share}
    for name in _some(draw, bookies):
        _lose(
            bookies,
            name,
            lost if draw.random() < 0.6 else {entry for entry in lost if draw.random() < 0.5},
        )


def _whole_segments_are_lost(
    draw: random.Random, metadata: LedgerMetadata, bookies: Bookies
) -> None:
    """Lose some segments, on all or some of their bookies."""
    share = draw.choice((0.1, 0.5, 0.9))
    ends = [*(one.first_entry_id for one in metadata.segments), (metadata.last_entry_id or 0) + 1]
    for (first, stop), segment in zip(pairwise(ends), metadata.segments, strict=True):
        if draw.random() < share:
            for name in draw.sample(segment.ensemble, draw.randint(1, len(segment.ensemble))):
                _lose(bookies, name, set(range(first, stop)))


def _a_bookie_says_something_else(
    draw: random.Random, metadata: LedgerMetadata, bookies: Bookies
) -> None:
    """Make a bookie silent, unable to list, with entries left out of its list, or with copies that
    do not match their digest.
    """
    name = draw.choice(sorted(bookies))
    some = frozenset(entry for entry in bookies[name].holds if draw.random() < 0.3)
    one = replace(
        bookies[name],
        answer=draw.choice(
            (None, None, AnswerStatus.SILENT, AnswerStatus.UNSUPPORTED, AnswerStatus.REFUSED)
        ),
        unlisted=some if draw.random() < 0.3 else frozenset(),
        corrupt=some if draw.random() < 0.3 else frozenset(),
        read=ReadStatus.TIMED_OUT if draw.random() < 0.2 else None,
    )
    bookies[name] = one


def _nobody_can_list(draw: random.Random, metadata: LedgerMetadata, bookies: Bookies) -> None:
    """Make every bookie unable to list, so that each is probed if the terms allow it."""
    for name in bookies:
        bookies[name] = replace(bookies[name], answer=AnswerStatus.UNSUPPORTED)


HARMS: tuple[Harm, ...] = (
    _every_copy_is_gone,
    _some_bookies_lose_everything,
    _entries_at_borders_are_lost,
    _every_nth_entry_is_lost,
    _entries_are_lost_here_and_there,
    _whole_segments_are_lost,
    _a_bookie_says_something_else,
    _nobody_can_list,
)


# Ledgers that lost everything
