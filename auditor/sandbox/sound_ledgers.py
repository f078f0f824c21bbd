"""Makes sound ledgers of many shapes, the same in every run: most of a cluster is like them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice, product

from auditor.model.identity import LedgerId

BOOKIES = ("b1", "b2", "b3", "b4", "b5")
LEDGER_FIRST = 1_000
LEDGERS_AROUND_2_31 = 16
"""Ledgers with ids around 2**31 - 1, where the hierarchical layout changes to its long tree."""
ENTRIES_MAX = 20_000

_SHAPES = tuple((e, w, a) for e, w, a in product(range(1, 6), repeat=3) if a <= w <= e)
_LAST_ENTRIES = (0, 1, 9, 1023, 1024, 99, 4999, 2, ENTRIES_MAX - 1, 250, 3)
_WORDS = ("", "", "", "v2", "crc32", "v1", "dummy")


def sound_ledgers(count: int) -> Iterator[tuple[LedgerId, str]]:
    """Yield `count` ledgers as (id, notation).

    E is 1 to 5, with every A <= W <= E. Ledgers have one to three segments, up to 20,000 entries,
    and any format. The bookies of an ensemble are distinct; a change of ensemble replaces one.
    """
    shapes = zip(cycle(_SHAPES), cycle(_LAST_ENTRIES), cycle(_WORDS), strict=False)
    for number, (ledger_id, (shape, last, word)) in enumerate(
        zip(_ids(count), islice(shapes, count), strict=True)
    ):
        e, w, a = shape
        # Format 1 does not store an ack quorum.
        ack = w if word == "v1" else a
        segments = " ".join(
            f"{first}:[{' '.join(members)}]" for first, members in _segments(number, e, last)
        )
        yield ledger_id, f"e{e} w{w} a{ack} {segments} closed {last} {word}".rstrip()


def _ids(count: int) -> Iterator[LedgerId]:
    around = min(LEDGERS_AROUND_2_31, count)
    yield from range(LEDGER_FIRST, LEDGER_FIRST + count - around)
    yield from range(2**31 - 1 - around // 2, 2**31 - 1 + around - around // 2)


def _segments(number: int, e: int, last: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the first segment and up to two changes of ensemble.

    A change needs entries since the last one, and a bookie outside the ensemble.
    """
    turned = [*BOOKIES[number % 5 :], *BOOKIES[: number % 5]]
    members, spare = turned[:e], turned[e:]
    yield 0, members
    for change in range(1, 1 + number % 3):
        first = change * (last // 3)
        if not spare or first <= (change - 1) * (last // 3):
            return
        place = (number + change) % e
        members = [*members]
        members[place], spare = spare[0], [*spare[1:], members[place]]
        yield first, members
