"""The lister's side of a reader process, with a process that answers by a script."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.lister import directory_reader
from auditor.lister.directory_reader import SENT_MAX, DirectoryReader, Lists, Report
from auditor.lister.ledger_lists import LedgerList, ListLimits
from auditor.lister.reader_process import encode_message
from auditor.model.availability import MissingLog

PROGRAM = """
import json, struct, sys, time
said, answers = sys.argv[1], iter(sys.argv[2:])
while head := sys.stdin.buffer.read(4):
    message = json.loads(sys.stdin.buffer.read(struct.unpack(">i", head)[0]))
    print(json.dumps(message), file=open(said, "a"))
    if "ledgers" in message:
        answer = next(answers)
        if answer == "wait":
            time.sleep(600)
        sys.stdout.buffer.write(bytes.fromhex(answer.rstrip("!")))
        sys.stdout.buffer.flush()
        if answer.endswith("!"):
            sys.exit(3)
"""
"""Writes each message it gets to a file, and sends one answer a request. It ends after one with a
`!`.
"""
HEAD: dict[str, Any] = {"reasons": [], "missing": {}, "keys": 0, "view_age_ms": None}
LIMITS = ListLimits(answer_bytes_max=10, keys_per_second=20, view_age_max_s=30)


def answer(*payloads: bytes | None, **head: Any) -> bytes:
    """What a reader process sends."""
    sizes = [-1 if one is None else len(one) for one in payloads]
    return encode_message({**HEAD, "sizes": sizes, **head}) + b"".join(
        one or b"" for one in payloads
    )


def test_a_thread_that_cannot_begin_says_nothing_of_the_ledgers(tmp_path: Path) -> None:
    """It is reported as what it is: a limit of the lister's own host."""
    reports: list[Report] = []
    reader = DirectoryReader(tmp_path, tmp_path, tmp_path / "links", LIMITS, reports.append)

    async def lists() -> Lists:
        loop = asyncio.get_running_loop()
        loop.run_in_executor = refuse  # type: ignore[assignment]
        return await reader.first_lists([4, 7])

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    assert [None, None] == asyncio.run(lists())
    reader.close()
    assert [True] == [one.reasons[0].startswith("this host lets the auditor") for one in reports]


class Reading:
    """A reader whose process answers by a script, and what it reported."""

    def __init__(self, folder: Path) -> None:
        self.said, self.links = folder / "said", folder / "made" / "links"
        self.reports: list[Report] = []
        self.threads: set[str] = set()
        """The names of the threads that reported."""
        self.reader = DirectoryReader(
            Path("locations"), Path("logs"), self.links, LIMITS, self._on_report
        )

    def _on_report(self, report: Report) -> None:
        self.reports.append(report)
        self.threads.add(threading.current_thread().name)

    def script(self, *answers: bytes | str) -> None:
        texts = [one if isinstance(one, str) else one.hex() for one in answers]
        self.reader._command = [sys.executable, "-I", "-c", PROGRAM, str(self.said), *texts]

    def lists(self, *ledgers: int) -> Lists:
        return asyncio.run(self.reader.first_lists(ledgers))

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.said.read_text().splitlines()]


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Reading]:
    found = Reading(tmp_path)
    yield found
    found.reader.close()


TERMS: dict[str, Any] = {
    "answer_bytes_max": 10,
    "keys_per_second": 20,
    "view_age_max_s": 30,
    "locations": "locations",
    "logs": "logs",
}


def test_the_terms_come_before_the_first_request_only(reading: Reading) -> None:
    """One process serves all requests; the directory of its links is made before it starts."""
    reading.script(answer(b"abc"), answer(b""))
    assert [LedgerList(b"abc")] == reading.lists(7)
    assert [LedgerList(b"")] == reading.lists(8, 9)
    assert [
        {**TERMS, "links": str(reading.links)},
        {"ledgers": [7]},
        {"ledgers": [8, 9]},
    ] == reading.messages
    assert reading.links.is_dir()


def test_each_list_has_the_missing_logs_named_for_it(reading: Reading) -> None:
    """By its number in the answer. The report adds up the entries of each log."""
    one, two = ["/1.log", 5, [[0, 4]]], ["/2.log", 1, [[9, 9]]]
    reading.script(
        answer(
            *(b"a", None, b"cd", b"", b"efg"),
            missing={"0": [one], "2": [one, two]},
            keys=40,
            reasons=["why"],
        )
    )
    first, second = MissingLog("/1.log", 5, [[0, 4]]), MissingLog("/2.log", 1, [[9, 9]])  # type: ignore[arg-type]
    assert [
        LedgerList(b"a", (first,)),
        None,
        LedgerList(b"cd", (first, second)),
        LedgerList(b""),
        LedgerList(b"efg"),
    ] == reading.lists(7, 8, 9, 10, 11)
    assert [Report(5, 40, ("why",), {"/1.log": 10, "/2.log": 1})] == reading.reports


def test_the_age_of_the_view_goes_on_from_what_the_process_says(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None before the first answer, and when the process has no view."""
    now = [100.0]
    monkeypatch.setattr(directory_reader.time, "monotonic", lambda: now[0])
    reading.script(answer(b"", view_age_ms=500), answer(b""))
    ages = [reading.reader.view_age_ms]
    reading.reader._ask([7])
    ages.append(reading.reader.view_age_ms)
    now[0] += 2
    ages.append(reading.reader.view_age_ms)
    reading.reader._ask([7])
    assert [None, 500, 2500, None] == [*ages, reading.reader.view_age_ms]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("!", "it ended: exit code 3"),
        (answer(b"abc")[:-1].hex() + "!", "it ended: in the middle of an answer"),
        (answer(b"abc")[:5].hex() + "!", "it ended: exit code 3"),
        (answer(b"", b"", b""), "it ended: 3 answers to 2 questions"),
        (answer(), "it ended: 0 answers to 2 questions"),
        (encode_message({}), "it ended: 'sizes'"),
        (b"\0\0\0\1[", "it ended: Expecting value"),
    ],
)
def test_a_process_that_answers_wrongly_is_ended(
    reading: Reading, bad: bytes | str, why: str
) -> None:
    """Nothing is said of any of the ledgers, and the next request has a new process with the same
    terms.
    """
    reading.script(answer(b"a", view_age_ms=1), bad)
    assert [LedgerList(b"a")] == reading.lists(7)
    process = reading.reader._process
    assert process is not None
    assert [None, None] == reading.lists(8, 9)
    assert process.returncode is not None
    assert process.stdin is not None and process.stdin.closed
    assert process.stdout is not None and process.stdout.closed
    lost = reading.reports.pop()
    assert (0, 0, {}, True) == (lost.lists, lost.keys, lost.missing_logs, lost.was_lost)
    assert lost.reasons[0].startswith(f"the reader process was lost, {why}")
    assert reading.reader.view_age_ms is None
    assert [LedgerList(b"a")] == reading.lists(7)
    terms = {**TERMS, "links": str(reading.links)}
    assert [terms, terms] == [one for one in reading.messages if "ledgers" not in one]


def test_a_process_that_is_silent_is_ended_in_time(reading: Reading) -> None:
    """A disk that hangs must not hold up the ledgers of the other directories for ever."""
    reading.reader._timeout_s = 0.01
    reading.script("wait")
    assert [None] == reading.lists(7)
    (report,) = reading.reports
    assert report == Report(
        reasons=("the reader process was lost, it did not answer in time",), was_lost=True
    )
    reading.reader._timeout_s = 60.0
    reading.script(answer(b"a"))
    assert [LedgerList(b"a")] == reading.lists(7)


def test_a_silent_process_is_ended_while_a_request_is_written_to_it(reading: Reading) -> None:
    """The request is longer than the pipe, so the writer waits for a process that does not read."""
    reading.reader._timeout_s = 0.5
    reading.script("wait")

    async def both() -> list[Lists]:
        asked = [reading.reader.first_lists([7]), reading.reader.first_lists(range(40_000))]
        async with asyncio.timeout(20):
            return await asyncio.gather(*asked)

    try:
        first, second = asyncio.run(both())
    finally:
        process = reading.reader._process
        if process is not None:
            process.kill()
    assert ([None], {None}) == (first, set(second))


def test_the_time_of_each_request_begins_anew(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that answered is left alone, however long ago it was started."""
    assert directory_reader.READ_TIMEOUT_S == reading.reader._timeout_s
    clock, later = time.monotonic, [0.0]
    moved = SimpleNamespace(monotonic=lambda: clock() + later[0])
    monkeypatch.setattr(directory_reader, "time", moved)
    reading.script(answer(b""), answer(b""))
    reading.lists(7)
    process = reading.reader._process
    later[0] = directory_reader.READ_TIMEOUT_S + 1
    assert [LedgerList(b"")] == reading.lists(7)
    assert process is not None and process is reading.reader._process
    assert process.poll() is None


def test_a_process_that_stops_within_an_answer_is_ended_in_time(reading: Reading) -> None:
    """What came before is not half a list."""
    reading.reader._timeout_s = 0.5
    reading.script("wait")
    reading.reader._command[3] = PROGRAM.replace(
        "time.sleep(600)",
        f"sys.stdout.buffer.write({answer(b'abc')[:-1]!r}); sys.stdout.flush(); time.sleep(600)",
    )
    assert [None] == reading.lists(7)
    assert "did not answer in time" in reading.reports[0].reasons[0]


def test_a_process_that_does_not_start_says_nothing(reading: Reading, tmp_path: Path) -> None:
    """The reason is reported. The next request tries again."""
    reading.reader._command = [str(tmp_path / "nowhere")]
    assert [None, None] == reading.lists(7, 8)
    (report,) = reading.reports
    assert report.was_lost
    assert report.reasons[0].startswith("the reader process was lost, it did not start: ")
    reading.script(answer(b"a"))
    assert [LedgerList(b"a")] == reading.lists(7)


def test_closing_ends_the_process_and_the_request_at_work(reading: Reading) -> None:
    """So the lister ends at once. It may be closed again, and without a process. What it ended
    itself it does not report as lost.
    """
    reading.script("wait")

    async def close_while_it_reads() -> Lists:
        asked = asyncio.create_task(reading.reader.first_lists([7]))
        while not reading.said.exists() or len(reading.messages) < 2:  # noqa: ASYNC110 - a file of another process
            await asyncio.sleep(0.01)
        await asyncio.to_thread(reading.reader.close)
        return await asked

    assert [None] == asyncio.run(close_while_it_reads())
    assert [] == reading.reports
    assert reading.reader._process is None
    reading.reader.close()


def test_closing_waits_for_the_request_at_work(reading: Reading) -> None:
    """After `close` the caller may remove what the reader uses."""
    done: list[Lists] = []
    real = reading.reader._ask

    def ask_late(ledgers: list[int]) -> Lists:
        lists = real(ledgers)
        time.sleep(0.1)
        done.append(lists)
        return lists

    reading.reader._ask = ask_late  # type: ignore[method-assign]
    reading.script("wait")

    async def close_while_it_reads() -> list[Lists]:
        asked = asyncio.create_task(reading.reader.first_lists([7]))
        while not reading.said.exists() or len(reading.messages) < 2:  # noqa: ASYNC110 - a file of another process
            await asyncio.sleep(0.01)
        await asyncio.to_thread(reading.reader.close)
        before = list(done)
        await asked
        return before

    assert [[None]] == asyncio.run(close_while_it_reads())


def test_a_process_that_died_meanwhile_is_started_again(reading: Reading) -> None:
    """What was written to it is lost."""
    reading.script(answer(b"a"))
    assert [LedgerList(b"a")] == reading.lists(7)
    process = reading.reader._process
    assert process is not None
    process.kill()
    process.wait()
    assert [None] == reading.lists(7)
    assert [LedgerList(b"a")] == reading.lists(7)


def test_a_reader_runs_the_command_it_is_given(reading: Reading) -> None:
    """That of the reader process, if it is given none."""
    assert [sys.executable, "-m", "auditor.lister.reader_process"] == reading.reader._command
    reading.script(answer(b"a"))
    paths = Path("locations"), Path("logs"), reading.links
    own = DirectoryReader(*paths, LIMITS, reading.reports.append, tuple(reading.reader._command))
    assert [LedgerList(b"a")] == asyncio.run(own.first_lists([7]))
    own.close()


def test_the_next_request_is_sent_while_the_process_works(reading: Reading) -> None:
    """It need not wait for us. Each request has its own answer, in the order in which they came.

    At most SENT_MAX requests are sent, one by each thread of the reader.
    """
    reading.script(*(answer(b"%d" % number) for number in range(6)))

    async def all_at_once() -> list[Lists]:
        return await asyncio.gather(*(reading.reader.first_lists([n]) for n in range(6)))

    found = asyncio.run(all_at_once())
    by_ledger = {one["ledgers"][0]: at for at, one in enumerate(reading.messages[1:])}
    assert [[LedgerList(b"%d" % by_ledger[number])] for number in range(6)] == found
    assert 6 == len(reading.reports)
    assert reading.threads <= {f"lister-reader_{number}" for number in range(SENT_MAX)}


def test_what_was_sent_behind_a_request_is_lost_with_the_process(reading: Reading) -> None:
    """It is reported once, and a new process answers what comes then."""
    reading.script(answer(b"a") + b"", "!")

    async def both() -> list[Lists]:
        asked = [asyncio.create_task(reading.reader.first_lists([n])) for n in (7, 8, 9)]
        return await asyncio.gather(*asked)

    found = asyncio.run(both())
    assert [[LedgerList(b"a")], [None]] == found[:2]
    assert found[2] in ([None], [LedgerList(b"a")]), "sent to the process that ended, or a new one"
    assert [True] == [one.was_lost for one in reading.reports if one.was_lost]
    assert [LedgerList(b"a")] == reading.lists(7) or [LedgerList(b"a")] == reading.lists(7)
