"""Where the second checker places entries, and what it keeps in memory for it."""

from __future__ import annotations

import pytest

from auditor.second_checker import blocks
from auditor.second_checker.blocks import KEPT_PLACES_MAX, Stretch


@pytest.mark.parametrize("size", [3, KEPT_PLACES_MAX // 2, KEPT_PLACES_MAX // 2 + 1])
def test_an_entry_was_written_to_the_bookies_from_its_place_on(size: int) -> None:
    """It does not matter whether the write sets of its ensemble are kept. A bookie with two
    positions occurs once.
    """
    ensemble = ("b0", *(f"b{place}" for place in range(size - 1)))
    stretch = Stretch(0, 10 * size, ensemble, 2)
    assert ("b0",) == stretch.bookies_of(0) == stretch.bookies_of(5 * size)
    assert (f"b{size - 2}", "b0") == stretch.bookies_of(4 * size - 1)


def test_write_sets_are_kept_of_ensembles_of_usual_size_only() -> None:
    """Metadata may name a thousand bookies, all of them in each write set."""
    blocks._write_sets.cache_clear()
    names = tuple(f"b{place}" for place in range(KEPT_PLACES_MAX))
    assert names[1:] == Stretch(0, 9, names, KEPT_PLACES_MAX - 1).bookies_of(1)
    assert 0 == blocks._write_sets.cache_info().currsize
    Stretch(0, 9, names[:3], 2).bookies_of(1)
    assert 1 == blocks._write_sets.cache_info().currsize
    Stretch(0, 9, names[: KEPT_PLACES_MAX // 2], 2).bookies_of(1)
    assert 2 == blocks._write_sets.cache_info().currsize
