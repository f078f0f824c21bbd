"""Requests to the process that reads one directory's index."""

from __future__ import annotations

import io
import os
import resource
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest
from support.location_index import LocationIndex

from auditor.lister import reader_process
from auditor.lister.index_view import IndexInDoubt, IndexView, NoWholeView
from auditor.lister.ledger_lists import AnswerTooLong, LedgerList, LedgerLists, ListLimits
from auditor.lister.reader_process import (
    IDLE_S,
    NICENESS,
    REPLY_BYTES_MAX,
    REPLY_S,
    answer_bytes,
    encode_message,
    main,
    read_exactly,
    receive,
    serve,
)
from auditor.model.availability import MissingLog


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LedgerLists]:
    """Return the lists of an index, for replies that no busy machine cuts short."""
    monkeypatch.setattr(reader_process, "REPLY_S", 60.0)
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


def test_what_is_finished_is_sent_before_the_rest_is_made(
    lists: LedgerLists, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_an_index_in_doubt_is_opened_for_one_ledger_of_a_request(
    lists: LedgerLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty openings for each ledger would keep a core of the bookie busy for nothing."""
    tried: list[int] = []

    def refresh(_: IndexView) -> None:
        tried.append(1)
        raise NoWholeView("no whole view")

    monkeypatch.setattr(IndexView, "refresh", refresh)
    assert [-1, -1, -1] == sizes(answer_bytes(lists, [7, 8, 9]))
    assert [1] == tried


def test_a_doubt_about_one_ledger_is_not_about_the_next(
    lists: LedgerLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only without a whole view is nothing said of all of them."""
    real = LedgerLists.list_ledger

    def list_ledger(self: LedgerLists, ledger_id: int) -> LedgerList:
        if ledger_id == 8:
            raise IndexInDoubt("a bad key")
        return real(self, ledger_id)

    monkeypatch.setattr(LedgerLists, "list_ledger", list_ledger)
    assert [88, -1, 64] == sizes(answer_bytes(lists, [7, 8, 9]))


class ScriptedLists:
    """Lists by ledger, or what is raised instead. Each takes `cost_s` and reads 5 keys."""

    def __init__(
        self,
        lists: Mapping[int, LedgerList | Exception],
        cost_s: float = 0,
        seen_at: float | None = None,
    ) -> None:
        self.lists, self.cost_s, self.now, self.keys_read = lists, cost_s, 100.0, 1_000
        self.view = SimpleNamespace(seen_at=seen_at, close=self._close)
        self.closed = 0

    def _close(self) -> None:
        self.closed += 1

    def monotonic(self) -> float:
        return self.now

    def list_ledger(self, ledger_id: int) -> LedgerList:
        self.now += self.cost_s
        self.keys_read += 5
        found = self.lists[ledger_id]
        if isinstance(found, Exception):
            raise found
        return found


def said(lists: ScriptedLists, *ledgers: int) -> tuple[dict[str, Any], bytes]:
    """The head of an answer about these ledgers, and the bytes behind it."""
    stream = io.BytesIO(answer_bytes(lists, list(ledgers)))  # type: ignore[arg-type]
    head = receive(stream)
    assert head is not None
    return head, stream.read()


def test_an_answer_has_the_lists_behind_its_head() -> None:
    """With the logs that each lacks by its number, the keys that this request read, and the age of
    the view.
    """
    log = MissingLog("/1f.log", 6, ((0, 3), (8, 9)))
    lists = {
        7: LedgerList(b"abc"),
        8: AnswerTooLong("too long"),
        9: LedgerList(b"de", (log,)),
        10: LedgerList(b""),
    }
    head = {
        "sizes": [3, -1, 2, 0],
        "reasons": ["ledger 8: too long"],
        "missing": {"2": [["/1f.log", 6, [[0, 3], [8, 9]]]]},
        "keys": 20,
        "view_age_ms": 2500,
    }
    assert (head, b"abcde") == said(ScriptedLists(lists, seen_at=97.5), 7, 8, 9, 10)


def test_without_a_whole_view_the_lists_before_are_kept() -> None:
    """It is said once, and of no ledger by name; no ledger behind is tried."""
    lists = ScriptedLists({7: LedgerList(b"abc"), 8: NoWholeView("no view")})
    head, body = said(lists, 7, 8, 9, 10)
    assert ([3, -1, -1, -1], ["no view"], b"abc", None) == (
        head["sizes"],
        head["reasons"],
        body,
        head["view_age_ms"],
    )


@pytest.mark.parametrize(
    ("cost_s", "answered"), [(REPLY_S, 1), (REPLY_S / 2, 2), (REPLY_S * 2, 1), (REPLY_S / 3.5, 4)]
)
def test_no_ledger_is_begun_once_the_time_is_over(cost_s: float, answered: int) -> None:
    """The first is always answered, however long it takes."""
    lists = ScriptedLists(dict.fromkeys(range(9), LedgerList(b"")), cost_s)
    lists.now = 0.0
    assert answered == len(said(lists, *range(9))[0]["sizes"])


@pytest.mark.parametrize(
    ("size", "answered"),
    [(REPLY_BYTES_MAX, 1), (REPLY_BYTES_MAX // 2, 2), (REPLY_BYTES_MAX - 1, 2)],
)
def test_no_ledger_is_begun_once_the_bytes_are_there(size: int, answered: int) -> None:
    """So a reply has at most that and one longest list."""
    lists = ScriptedLists(dict.fromkeys(range(9), LedgerList(bytes(size))))
    assert answered == len(said(lists, *range(9))[0]["sizes"])


def test_a_message_that_was_cut_off_is_none() -> None:
    """The other side ended: there is nobody to answer."""
    message = encode_message({"ledgers": [7]})
    assert b"\0\0\0\x10" + b'{"ledgers": [7]}' == message
    assert {"ledgers": [7]} == receive(io.BytesIO(message))
    assert [None] * len(message) == [
        receive(io.BytesIO(message[:size])) for size in range(len(message))
    ]


def test_bytes_that_come_in_pieces_are_put_together() -> None:
    """A pipe gives what it has."""

    class Pieces(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(2, size or 0))

    stream = Pieces(b"abcdefg")
    assert (b"abcde", b"", None) == (
        read_exactly(stream, 5),
        read_exactly(stream, 0),
        read_exactly(stream, 3),
    )


class Pipe:
    """Requests to a process, and an end that the process reads without a buffer."""

    def __init__(self) -> None:
        read, self.write = os.pipe()
        self.requests = os.fdopen(read, "rb", buffering=0)

    def ask(self, *messages: dict[str, Any]) -> BinaryIO:
        for message in messages:
            os.write(self.write, encode_message(message))
        os.close(self.write)
        return self.requests  # type: ignore[return-value]


class Answers(io.BytesIO):
    """What a process writes; `flushed` has what had been written at each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.flushed: list[bytes] = []

    def flush(self) -> None:
        self.flushed.append(self.getvalue())


def test_requests_are_answered_until_they_end() -> None:
    """Each answer leaves before the next request is read."""
    lists, answers = ScriptedLists({7: LedgerList(b"abc"), 8: LedgerList(b"")}), Answers()
    with (pipe := Pipe()).requests:
        serve(lists, pipe.ask({"ledgers": [7]}, {"ledgers": [8, 7]}), answers)  # type: ignore[arg-type]
    first = answer_bytes(ScriptedLists({7: LedgerList(b"abc")}), [7])  # type: ignore[arg-type]
    assert first == answers.flushed[0]
    stream = io.BytesIO(answers.flushed[1][len(first) :])
    assert [0, 3] == (receive(stream) or {})["sizes"]
    assert 0 == lists.closed


def test_a_view_is_closed_when_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An open one keeps deleted files on disk. Then the process waits on."""
    waited: list[float] = []
    lists = ScriptedLists({7: LedgerList(b"abc")})
    answers = Answers()
    with (pipe := Pipe()).requests:

        def select(
            reads: list[Any], writes: list[Any], errors: list[Any], timeout_s: float
        ) -> tuple[list[Any], ...]:
            assert ([pipe.requests], [], []) == (reads, writes, errors)
            waited.append(timeout_s)
            if len(waited) == 1:
                return [], [], []
            if len(waited) == 2:
                pipe.ask({"ledgers": [7]})
            return reads, [], []

        monkeypatch.setattr(reader_process, "select", SimpleNamespace(select=select))
        serve(lists, pipe.requests, answers)  # type: ignore[arg-type]
    assert ([IDLE_S] * 3, 1, 1) == (waited, lists.closed, len(answers.flushed))


def test_the_first_message_says_what_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view keeps every table open, and the lister ends its readers itself: Ctrl-C in its terminal
    does not.
    """
    changed: list[tuple[Any, ...]] = []
    served: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        resource, "getrlimit", lambda what: {resource.RLIMIT_NOFILE: (10, 90)}[what]
    )
    monkeypatch.setattr(resource, "setrlimit", lambda *given: changed.append(given))
    monkeypatch.setattr(signal, "signal", lambda *given: changed.append(given))
    monkeypatch.setattr(os, "nice", lambda steps: changed.append((steps,)))
    monkeypatch.setattr(reader_process, "serve", lambda *given: served.append(given))
    answers = Answers()
    terms = {"answer_bytes_max": 10, "keys_per_second": 20, "view_age_max_s": 30}
    paths = {name: str(tmp_path / name) for name in ("locations", "logs", "links")}
    with (pipe := Pipe()).requests:
        main(pipe.ask({**terms, **paths}), answers)
        [(lists, requests, same)] = served
        assert requests is pipe.requests
    assert same is answers
    assert (ListLimits(10, 20, 30), tmp_path / "logs") == (lists.limits, lists.logs)
    assert (tmp_path / "locations", tmp_path / "links") == (
        lists.view._locations,
        lists.view._links,
    )
    ignored = [(signal.SIGINT, signal.SIG_IGN), (signal.SIGTERM, signal.SIG_IGN)]
    assert [(NICENESS,), (resource.RLIMIT_NOFILE, (90, 90)), *ignored] == changed


def test_without_a_first_message_nothing_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lister ended before it said what to read."""
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(os, "nice", lambda _: None)
    monkeypatch.setattr(reader_process, "serve", lambda *_: pytest.fail("it serves"))
    with (pipe := Pipe()).requests:
        main(pipe.ask(), Answers())
