"""The ledgers of an index, from any id on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.location_index import LocationIndex

from auditor.lister.index_view import KEYS_A_SEEK, IndexInDoubt, IndexView


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocationIndex]:
    """Yield an index of three ledgers, which begin at entry 2."""
    with LocationIndex(tmp_path / "bookie") as index:
        for ledger_id in (3, 4, 9):
            index.put(ledger_id, range(2, 40))
        yield index


@pytest.fixture
def view(index: LocationIndex, tmp_path: Path) -> Iterator[IndexView]:
    """Yield a view of it."""
    (tmp_path / "links").mkdir()
    view = IndexView(index.locations, tmp_path / "links")
    view.refresh()
    yield view
    view.close()


def test_as_many_ledgers_are_named_as_are_asked_for(view: IndexView) -> None:
    """With the one behind them. Each costs a seek."""
    keys: list[int] = []
    assert ([3, 4], 9) == view.ledgers_from(0, 2, keys.append)
    assert ([4, 9], None) == view.ledgers_from(4, 2, keys.append)
    assert ([], None) == view.ledgers_from(10, 2, keys.append)
    assert [KEYS_A_SEEK] * 4 == keys


def test_a_key_of_another_size_puts_the_index_in_doubt(
    index: LocationIndex, view: IndexView
) -> None:
    """It is not skipped: what is behind it may be something else, too."""
    index.put_raw(b"short", b"")
    view.refresh()
    with pytest.raises(IndexInDoubt, match="not that of an entry"):
        view.ledgers_from(0, 9, lambda _: None)
