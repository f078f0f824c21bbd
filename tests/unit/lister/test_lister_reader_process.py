"""Requests to the process that reads one directory's index."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.location_index import LocationIndex

from auditor.lister import reader_process
from auditor.lister.index_view import IndexInDoubt, IndexView, NoWholeView
from auditor.lister.ledger_lists import LedgerList, LedgerLists, ListLimits
from auditor.lister.reader_process import answer_bytes, receive


@pytest.fixture
def lists(tmp_path: Path) -> Iterator[LedgerLists]:
    links = tmp_path / "links"
    links.mkdir()
    with LocationIndex(tmp_path / "bookie") as index:
        index.put(7, range(10))
        view = IndexView(index.locations, links)
        yield LedgerLists(view, index.logs, ListLimits(2**20, 0, 0))
        view.close()


def sizes(answer: bytes) -> list[int]:
    """The size of each list in an answer, -1 for none."""
    head = receive(io.BytesIO(answer))
    assert head is not None
    return [int(size) for size in head["sizes"]]


def test_what_is_finished_is_sent_before_the_rest_is_made(lists: LedgerLists, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledgers that are left are asked for again: nobody waits for all of them."""
    now = [0.0]
    real = LedgerLists.list_ledger

    def list_ledger(self: LedgerLists, ledger_id: int) -> LedgerList:
        now[0] += reader_process.REPLY_S / 2
        return real(self, ledger_id)

    monkeypatch.setattr(LedgerLists, "list_ledger", list_ledger)
    lists.monotonic = lambda: now[0]
    assert [88, 64] == sizes(answer_bytes(lists, [7, 8, 9, 10]))


def test_a_reply_is_bounded_in_bytes(lists: LedgerLists, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked for together, a lister holds little more than one list."""
    monkeypatch.setattr(reader_process, "REPLY_BYTES_MAX", 100)
    assert [88, 64] == sizes(answer_bytes(lists, [7, 8, 9, 10]))


def test_an_index_in_doubt_is_opened_for_one_ledger_of_a_request(lists: LedgerLists, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty openings for each ledger would keep a core of the bookie busy for nothing."""
    tried: list[int] = []

    def refresh(_: IndexView) -> None:
        tried.append(1)
        raise NoWholeView("no whole view")

    monkeypatch.setattr(IndexView, "refresh", refresh)
    assert [-1, -1, -1] == sizes(answer_bytes(lists, [7, 8, 9]))
    assert [1] == tried


def test_a_doubt_about_one_ledger_is_not_about_the_next(lists: LedgerLists, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only without a whole view is nothing said of all of them."""
    real = LedgerLists.list_ledger

    def list_ledger(self: LedgerLists, ledger_id: int) -> LedgerList:
        if ledger_id == 8:
            raise IndexInDoubt("a bad key")
        return real(self, ledger_id)

    monkeypatch.setattr(LedgerLists, "list_ledger", list_ledger)
    assert [88, -1, 64] == sizes(answer_bytes(lists, [7, 8, 9]))
