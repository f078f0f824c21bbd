"""The section on what was asked says which bookies were asked less than the limits allow."""

from __future__ import annotations

from typing import Any

import pytest
from support import report_stories as stories
from support.hostile_names import HOSTILE, unprintable

from auditor.model.summary import BookieSpace, RackSpace, RunName, Space, SpaceGrowth
from auditor.report.surroundings_text import _paces_words, _space_words


def slow(bookie: str, rate: float, settled: tuple[int, float] | None = None) -> dict[str, Any]:
    """Return an entry of `slowest`. Stored runs of earlier versions lack what it settled at."""
    entry: dict[str, Any] = {"bookie_id": bookie, "inflight": 16, "requests_per_second": rate}
    if settled:
        entry["settled"] = {"inflight": settled[0], "requests_per_second": settled[1]}
    return entry


@pytest.mark.parametrize("paces", [{}, {"bookies": 0, "slowest": []}])
def test_nothing_is_said_where_each_bookie_was_asked_as_the_limits_allow(
    paces: dict[str, Any],
) -> None:
    """Nor is anything said of a stored run that did not note it."""
    assert _paces_words(stories.summary(paces=paces).paces) == ""


@pytest.mark.parametrize(
    ("paces", "words"),
    [
        (
            {"bookies": 1, "slowest": [slow("b1", 500.0)]},
            "pace      1 bookie was asked less than the limits allow at some time, having refused"
            " requests, closed connections or become slow: b1 (16 outstanding, 500 a second)",
        ),
        (
            {"bookies": 1, "slowest": [slow("b1", 500.0, settled=(2_000, 1_500.5))]},
            "pace      1 bookie was asked less than the limits allow at some time, having refused"
            " requests, closed connections or become slow: b1 (16 outstanding, 500 a second;"
            " settled at 2,000 outstanding, 1500.5 a second)",
        ),
        (
            {"bookies": 1_003, "slowest": [slow("b1", 0.0), slow("b2", 250.5)]},
            "pace      1,003 bookies were asked less than the limits allow at some time, having"
            " refused requests, closed connections or become slow: b1 (16 outstanding), b2 (16"
            " outstanding, 250.5 a second) and 1,001 more",
        ),
    ],
)
def test_the_slowest_bookies_are_named_with_their_pace(paces: dict[str, Any], words: str) -> None:
    """Each has its lowest pace and what it settled at. Without a limit on the rate, only the
    outstanding requests are given. The other bookies are counted.
    """
    assert words == _paces_words(stories.summary(paces=paces).paces)


def test_the_name_of_a_slow_bookie_is_printable() -> None:
    """A terminal acts on none of its characters."""
    paces = stories.summary(paces={"bookies": 1, "slowest": [slow("b" + HOSTILE, 500.0)]}).paces
    assert [] == unprintable(_paces_words(paces), allowed="")


@pytest.mark.parametrize("space", [None, Space(), Space(unknown=3)])
def test_nothing_is_said_of_disks_of_which_no_bookie_said_anything(space: Space | None) -> None:
    """Nor is anything said of a stored run that did not record it."""
    assert _space_words(space) == ""


BOOKIES = tuple(BookieSpace(f"b{n}", None, 2**30, n * 2**28) for n in range(4))
SINCE = "at run r-1 (began 2026-01-01T00:00:00.000Z)"


@pytest.mark.parametrize(
    ("used_bytes", "words"),
    [
        (2**20, f"; on the 3 bookies that both runs know, 1.0 MiB more than {SINCE}"),
        (-(2**20), f"; on the 3 bookies that both runs know, 1.0 MiB less than {SINCE}"),
        (0, f"; on the 3 bookies that both runs know, as much as {SINCE}"),
        (None, ""),
    ],
)
def test_the_disks_are_said_with_the_fullest_and_their_growth(
    used_bytes: int | None, words: str
) -> None:
    """A full disk is at 100 %; less is never rounded up to that."""
    growth = None
    if used_bytes is not None:
        growth = SpaceGrowth(RunName("r-1", "2026-01-01T00:00:00.000Z"), 3, used_bytes)
    space = Space(4, 1, 2, 4 * 2**30, 6 * 2**28, BOOKIES, growth=growth)
    assert _space_words(space) == (
        "disks     4 of 5 bookies said how full their disks are: 2.5 GiB of 4.0 GiB used (62.50 %);"
        " fullest: b0 1.0 GiB of 1.0 GiB used (100 %), b1 768.0 MiB of 1.0 GiB used (75.00 %),"
        " b2 512.0 MiB of 1.0 GiB used (50.00 %) and 1 more; 2 of them are on a host with another"
        f" bookie: disks that they share are counted more than once{words}"
    )


@pytest.mark.parametrize(
    ("locations", "words"),
    [
        ([], ""),
        (["/r1"], ""),
        (
            ["/r1", None],
            "; by location: /r1 1.0 GiB of 2.0 GiB used (50.00 %), no location 1.0 GiB of 2.0 GiB"
            " used (50.00 %)",
        ),
    ],
)
def test_the_disks_are_said_by_location_where_there_are_several(
    locations: list[str | None], words: str
) -> None:
    """A location that is not known is one too."""
    racks = tuple(RackSpace(location, 1, 2**31, 2**30) for location in locations)
    space = Space(1, 0, 0, 2**30, 2**30, BOOKIES[:1], racks)
    assert _space_words(space).endswith(f"fullest: b0 1.0 GiB of 1.0 GiB used (100 %){words}")


def test_the_fullest_locations_are_few() -> None:
    """The others are counted."""
    racks = tuple(RackSpace(f"/r{n}", 1, 2**31, 2**30) for n in range(9))
    assert _space_words(Space(1, 0, 0, 2, 1, BOOKIES[:1], racks)).endswith(" and 6 more")
