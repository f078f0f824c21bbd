"""How full the disks of the bookies are, and how much that grew since the run before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.cluster import BookieRecord, Registration, Surroundings
from auditor.model.summary import (
    BookieGrowth,
    BookieSpace,
    OrphanGrowth,
    RackSpace,
    References,
    RunName,
    Space,
    SpaceGrowth,
)
from auditor.summary.space import (
    BOOKIES_IN_SUMMARY_MAX,
    GROWTH_NAMED_MAX,
    EarlierBytes,
    newest_figures,
    space_of,
    with_orphan_growth,
)

AROUND = Surroundings(locations={"b1": "/r1", "b2": "/r2", "b3": "/r2"})
RUN = RunName("r-1", "2026-01-01T00:00:00.000Z")


def record(
    bookie: str,
    total: int | None = None,
    free: int | None = None,
    look: int = 1,
    registration: Registration = Registration.WRITABLE,
    host: str | None = None,
) -> BookieRecord:
    return BookieRecord(
        bookie, look, look, registration, host or bookie, 3181, total_bytes=total, free_bytes=free
    )


def test_the_fullest_come_first_by_bookie_and_by_location():
    """The bookie with the smallest share of free bytes is the fullest, however large it is."""
    space = space_of([record("b1", 100, 40), record("b2", 1000, 500), record("b3", 10, 1)], AROUND)
    assert ["b3", "b1", "b2"] == [bookie.bookie_id for bookie in space.fullest]
    assert (RackSpace("/r1", 1, 100, 40), RackSpace("/r2", 2, 1010, 501)) == space.racks
    assert (3, 0, 1110, 541, 569) == (
        *(space.bookies, space.unknown, space.total_bytes, space.free_bytes),
        space.used_bytes,
    )


@pytest.mark.parametrize(("total", "free"), [(None, None), (100, None), (None, 5)])
def test_a_bookie_without_both_figures_is_unknown(total: int | None, free: int | None):
    """It counts in no sum."""
    space = space_of([record("b1", total, free), record("b2", 100, 60)], AROUND)
    assert (1, 1, 100, 60, ("b2",)) == (
        *(space.bookies, space.unknown, space.total_bytes, space.free_bytes),
        tuple(bookie.bookie_id for bookie in space.fullest),
    )


def test_a_bookie_that_is_not_registered_has_no_disks():
    """It is neither known nor unknown, whatever it said before."""
    gone = record("b1", None, None, 2, Registration.NONE)
    assert Space() == space_of([record("b1", 100, 40), gone], AROUND)


def test_a_later_look_without_figures_takes_none_away():
    """The registration is that of the last look, the figures are the newest of any look."""
    read_only = record("b1", None, None, 3, Registration.READONLY)
    looks = [record("b1", 100, 40, 2), record("b1", 100, 50, 1), read_only]
    expected = {"b1": replace(read_only, total_bytes=100, free_bytes=40)}
    assert expected == newest_figures(looks)


def test_bookies_on_one_host_are_counted():
    """They may share disks."""
    records = [record(f"b{n}", 100, 40, host=host) for n, host in enumerate("aabcc")]
    assert 4 == space_of(records, AROUND).sharing_hosts


def test_growth_is_that_of_the_bookies_that_both_runs_know():
    """A new bookie and one that gives no figures any more do not count; a larger disk alone is no
    growth.
    """
    spaces = (BookieSpace("b1", None, 100, 50), BookieSpace("b2", None, 100, 50))
    before = Space(fullest=(*spaces, BookieSpace("b3", None, 100, 90)))
    records = [record("b1", 100, 40), record("b2", 200, 155), record("b4", 100, 1), record("b3")]
    assert SpaceGrowth(RUN, 2, 5, (BookieGrowth("b1", 10), BookieGrowth("b2", -5))) == (
        space_of(records, AROUND, EarlierBytes(RUN, before)).growth
    )


@pytest.mark.parametrize("earlier", [None, EarlierBytes(RUN), EarlierBytes(RUN, Space())])
def test_without_a_bookie_to_compare_no_growth_is_known(earlier: EarlierBytes | None):
    """Neither in a first run, nor if the earlier run knew no bookie."""
    assert space_of([record("b1", 100, 40)], AROUND, earlier).growth is None


def test_the_summary_names_a_bounded_number_of_bookies():
    """All of them count in the sums."""
    number = BOOKIES_IN_SUMMARY_MAX + 1
    records = [record(f"b{n}", 100, 40) for n in range(number)]
    before = space_of(records, AROUND)
    space = space_of(records, AROUND, EarlierBytes(RUN, before))
    assert (number, BOOKIES_IN_SUMMARY_MAX) == (space.bookies, len(space.fullest))
    assert space.growth is not None
    assert (BOOKIES_IN_SUMMARY_MAX, GROWTH_NAMED_MAX) == (
        space.growth.bookies,
        len(space.growth.most),
    )


@pytest.mark.parametrize(
    ("before", "growth"),
    [
        (References(orphaned=3, orphaned_bytes=70), OrphanGrowth(RUN, 2, -20)),
        (References(orphaned=3), None),
        (None, None),
    ],
)
def test_orphans_are_compared_with_those_of_the_run_before(
    before: References | None, growth: OrphanGrowth | None
):
    """Unless it counted no bytes, or looked for no topics."""
    now = References(orphaned=5, orphaned_bytes=50)
    found = with_orphan_growth(now, EarlierBytes(RUN, references=before))
    assert found is not None and growth == found.orphaned_growth
    assert now == with_orphan_growth(now, None)
    assert with_orphan_growth(None, EarlierBytes(RUN, references=before)) is None
