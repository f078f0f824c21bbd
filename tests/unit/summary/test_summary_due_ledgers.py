"""Laws of what is due: every ledger is listed within the period, whenever runs begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import Terms
from auditor.summary.about import About
from auditor.summary.due_ledgers import Bookies, Rotation, hash_ids

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
IDS = np.arange(1, 2_001, dtype=np.int64)


def due(rotation: Rotation, listed_at_ms: np.ndarray) -> np.ndarray:
    return rotation.is_old(listed_at_ms) | rotation.is_passed(IDS, listed_at_ms)


@given(st.lists(st.integers(1, 2 * DAY_MS), min_size=1, max_size=40), st.integers(HOUR_MS, DAY_MS))
def test_no_verdict_is_carried_that_would_be_too_old_at_the_next_run(
    gaps: list[int], period_ms: int
) -> None:
    """The next run is expected after as long as the last one: up to it no list exceeds the
    period.
    """
    now = 10**12
    listed_at_ms = np.full(len(IDS), now, np.int64)
    for gap in gaps:
        before, now = now, now + gap
        is_due = due(Rotation(period_ms, now, before), listed_at_ms)
        assert (now + gap - listed_at_ms[~is_due] <= period_ms).all()
        listed_at_ms[is_due] = now


@pytest.mark.parametrize(("period_h", "share"), [(24, 1 / 21), (168, 1 / 147)])
def test_hourly_runs_ask_about_a_steady_share(period_h: int, share: float) -> None:
    """No run asks about all, although the first one listed all at once."""
    listed_at_ms = np.zeros(len(IDS), np.int64)
    asked = []
    for hour in range(1, 2 * period_h):
        rotation = Rotation(period_h * HOUR_MS, hour * HOUR_MS, (hour - 1) * HOUR_MS)
        is_due = due(rotation, listed_at_ms)
        listed_at_ms[is_due] = hour * HOUR_MS
        asked.append(is_due.sum() / len(IDS))
    assert np.mean(asked) == pytest.approx(share, rel=0.05)
    assert max(asked) < 3 * share


def test_a_place_is_passed_once_in_a_turn_and_runs_leave_none_out() -> None:
    """What two runs ask about together is what one run asks about that begins with the second."""
    rotation = Rotation(DAY_MS, 10 * HOUR_MS, 0)
    zero = np.zeros(len(IDS), np.int64)
    whole = rotation.is_passed(IDS, zero)
    early = replace(rotation, began_ms=4 * HOUR_MS).is_passed(IDS, zero)
    late = rotation.is_passed(IDS, zero + 4 * HOUR_MS)
    assert (whole == (early | late)).all()
    assert not (early & late).any()
    assert replace(rotation, began_ms=21 * HOUR_MS).is_passed(IDS, zero).all()


@pytest.mark.parametrize(("began", "base"), [(5, 5), (4, 5), (0, 5)])
def test_everything_is_due_if_the_clock_went_back(began: int, base: int) -> None:
    rotation = Rotation(DAY_MS, began * HOUR_MS, base * HOUR_MS)
    assert rotation.is_old(np.full(3, base * HOUR_MS, np.int64)).all()


def test_lists_from_the_future_are_due() -> None:
    rotation = Rotation(DAY_MS, 2 * HOUR_MS, HOUR_MS)
    assert [False, True] == rotation.is_old(np.array([HOUR_MS, 3 * HOUR_MS], np.int64)).tolist()


def test_neighbouring_ids_have_places_all_over_the_circle() -> None:
    parts = np.bincount((hash_ids(IDS) >> np.uint64(60)).astype(np.int64), minlength=16)
    assert parts.min() > 80


KNOWN = BookieRecord(
    "b1", 1, 0, Registration.WRITABLE, "h", 3181, True, greeting=Greeting.ANSWERED, cookie_czxid=7
)
NOW = replace(KNOWN, greeting=None)
FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "id", False, None)
BASE = About("base", "2026-01-01T03:00:00Z", FACTS, Terms(0, 0, 16, 5), "warning", False)
COOKIES = {"b1": 7}
DIRECTORIES = ("/data/1", "/data/2")


def fit(
    before: Sequence[BookieRecord],
    now: BookieRecord,
    cookies: dict[str, int],
    directories: tuple[str, ...] | None = None,
) -> bool:
    """Return whether the bookie keeps its verdicts. `directories` are those of its cookie when the
    base began.
    """
    base = replace(BASE, cookie_czxids=cookies, cookie_directories={"b1": directories})
    return Bookies.of(before, [now], base).fit == {"b1"}


@pytest.mark.parametrize(
    "now",
    [
        replace(NOW, registration=Registration.NONE),
        replace(NOW, host="other"),
        replace(NOW, port=3182),
        replace(NOW, cookie_czxid=8),
        replace(NOW, cookie_czxid=None, has_cookie=False),
        replace(NOW, problem="its registration cannot be read"),
        replace(NOW, cookie_directories=("/data/other",)),
    ],
)
def test_a_bookie_that_changed_keeps_no_verdict(now: BookieRecord) -> None:
    """A lost disk shows in its cookie: without it the bookie does not start."""
    assert fit([KNOWN], NOW, COOKIES)
    assert not fit([KNOWN], now, COOKIES)


@pytest.mark.parametrize("cookies", [{}, {"b1": 6}, {"b2": 7}])
def test_a_bookie_that_got_its_cookie_while_the_base_ran_keeps_no_verdict(
    cookies: dict[str, int],
) -> None:
    """Its lists may be from before it lost its disks, though each look of the base saw the new
    cookie.
    """
    assert not fit([KNOWN], NOW, cookies)


def test_a_bookie_whose_cookie_was_rewritten_between_two_looks_keeps_no_verdict() -> None:
    again = replace(KNOWN, look=2, cookie_directories=DIRECTORIES)
    now = replace(NOW, cookie_directories=DIRECTORIES)
    assert fit([again], now, COOKIES, DIRECTORIES)
    assert not fit([KNOWN, again], now, COOKIES, DIRECTORIES)


def test_a_bookie_whose_cookie_was_rewritten_before_the_first_look_keeps_no_verdict() -> None:
    """The base carried verdicts of lists from before: it chose them when it had begun."""
    known = replace(KNOWN, cookie_directories=DIRECTORIES)
    now = replace(NOW, cookie_directories=DIRECTORIES)
    assert not fit([known], now, COOKIES, ("/data/1",))
    assert not fit([known], now, COOKIES, None)


def test_a_bookie_that_could_not_send_what_it_lists_keeps_no_verdict() -> None:
    base = replace(BASE, cookie_czxids=COOKIES)
    assert {"b1"} == Bookies.of([KNOWN], [NOW], base, unreadable=frozenset({"b2"})).fit
    assert set() == Bookies.of([KNOWN], [NOW], base, unreadable=frozenset({"b1"})).fit


@pytest.mark.parametrize(
    "before",
    [
        None,
        replace(KNOWN, greeting=Greeting.SILENT),
        replace(KNOWN, greeting=None),
        replace(KNOWN, registration=Registration.NONE),
    ],
)
def test_a_bookie_that_the_base_did_not_know_well_keeps_no_verdict(
    before: BookieRecord | None,
) -> None:
    assert not fit([] if before is None else [before], NOW, COOKIES)


def test_a_bookie_counts_by_the_last_look_of_the_base() -> None:
    silent = replace(KNOWN, look=2, greeting=Greeting.SILENT)
    assert not fit([silent, KNOWN], NOW, COOKIES)
    assert fit([replace(silent, look=1), replace(KNOWN, look=2)], NOW, COOKIES)
