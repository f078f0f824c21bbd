"""Sound ledgers of many shapes, the same at every run: what most of a cluster is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice, product

from auditor.model.identity import LedgerId

BOOKIES = ("b1", "b2", "b3", "b4", "b5")
LEDGER_FIRST = 1_000
LEDGERS_AROUND_2_31 = 16
"""How many have ids around 2**31 - 1, where the hierarchical layout goes over to its long tree."""
ENTRIES_MAX = 20_000

_SHAPES = tuple((e, w, a) for e, w, a in product(range(1, 6), repeat=3) if a <= w <= e)
_LAST_ENTRIES = (0, 1, 9, 1023, 1024, 99, 4999, 2, ENTRIES_MAX - 1, 250, 3)
_WORDS = ("", "", "", "v2", "crc32", "v1", "dummy")


def sound_ledgers(count: int) -> Iterator[tuple[LedgerId, str]]:
    """`count` ledgers as (id, notation): E 1 to 5 with every W and A, one to three segments, all formats, up to 20,000 entries.

    Each ensemble has distinct bookies; a change of ensemble puts another bookie in one place, where there is one to spare.
    """
    shapes = zip(cycle(_SHAPES), cycle(_LAST_ENTRIES), cycle(_WORDS), strict=False)
    for number, (ledger_id, (shape, last, word)) in enumerate(zip(_ids(count), islice(shapes, count), strict=True)):
        e, w, a = shape
        # Format 1 has no ack quorum of its own.
        ack = w if word == "v1" else a
        segments = " ".join(f"{first}:[{' '.join(members)}]" for first, members in _segments(number, e, last))
        yield ledger_id, f"e{e} w{w} a{ack} {segments} closed {last} {word}".rstrip()


def _ids(count: int) -> Iterator[LedgerId]:
    around = min(LEDGERS_AROUND_2_31, count)
    yield from range(LEDGER_FIRST, LEDGER_FIRST + count - around)
    yield from range(2**31 - 1 - around // 2, 2**31 - 1 + around - around // 2)


def _segments(number: int, e: int, last: int) -> Iterator[tuple[int, list[str]]]:
    """The first segment, and one or two changes of ensemble where the ledger is long enough for them."""
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
