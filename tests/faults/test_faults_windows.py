"""The windows of a sequence, and those of a fault."""

from __future__ import annotations

from random import Random

import pytest
from faults.harm import Harm, Log
from faults.planting import harmed
from faults.playing import SEED
from faults.windows import AGAIN, LATE, NEVER, UNKNOWN, FaultWindows, fault_windows, strays, windows

EXPECTED = [(n,) for n in (1, 4, 7, 10)]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ((1, 4, 7, 10), []),
        ((1, 4, 10), [(7, NEVER, (0, 1, 4, 10))]),
        ((1, 4, 7), [(10, NEVER, (0, 1, 4, 7))]),
        ((), [(n, NEVER, (0, 0, 0, 0)) for n in (1, 4, 7, 10)]),
        ((1, 4, 4, 7, 10), [(4, AGAIN, (0, 1, 4, 4))]),
        ((1, 7, 4, 10), [(4, LATE, (0, 1, 7, 4))]),
        ((1, 7, 4, 10, 4), [(4, LATE, (0, 1, 7, 4)), (4, AGAIN, (7, 4, 10, 4))]),
        ((1, 4, 13, 7, 10), [(13, UNKNOWN, (0, 1, 4, 13))]),
        (
            (10, 1, 7),
            [(1, LATE, (0, 0, 10, 1)), (7, LATE, (0, 10, 1, 7)), (4, NEVER, (0, 0, 0, 10))],
        ),
    ],
)
def test_a_stray_is_reported_with_its_window(expected: tuple[int, ...], found: list[object]):
    """A stray has its sort and the window that shows it, and gives one breach."""
    assert found == [
        (one.key[0], one.what, one.window) for one in strays(EXPECTED, [(n,) for n in expected])
    ]


def test_there_is_no_stray_where_each_window_is_the_expected_one_and_nowhere_else():
    """For random sequences, no stray is the same as every window being right."""
    draw = Random(SEED)
    for _ in range(2_000):
        keys = [key for key in EXPECTED for _ in range(draw.choice((1, 1, 1, 1, 0, 2)))]
        if draw.random() < 0.3:
            draw.shuffle(keys)
        assert (windows(keys) == windows(EXPECTED)) == (not list(strays(EXPECTED, keys))), (
            f"FAULT_SEED={SEED} {keys}"
        )


def test_a_fault_is_on_from_the_frame_that_meets_it_until_it_is_healed():
    """It is on only before its bookie. A fault of the processes that ask is on before every
    bookie.
    """
    seen = Log()
    seen.mark("pause 1")
    harmed(seen, "b1")
    seen.mark("pause 2")
    later = fault_windows(seen)
    assert [False, True, True] == [later.is_on("b1", look) for look in (1, 2, 3)]
    assert not later.is_on("b2", 2)
    healed = harmed(Log(), "b1")
    healed.mark("pause 1", heals=True)
    first = fault_windows(healed)
    assert [True, False] == [first.is_on("b1", look) for look in (1, 2)]
    called = Log()
    called.add("b1", 0, seen.harmed()[0].said, None, Harm.CALL, reply=False)
    assert fault_windows(called).is_on("b2", 1)


def test_a_bookie_is_unheard_where_a_fault_is_on_at_every_look():
    """One look without a fault is enough to hear it."""
    faults = FaultWindows(frozenset({("b1", 0), ("b2", 0), ("b2", 1)}))
    assert {"b1", "b2"} == faults.unheard(("b1", "b2", "b3"), (1,))
    assert {"b2"} == faults.unheard(("b1", "b2", "b3"), (1, 2))
