"""A bookie that cannot list, with a lister: what is believed of its lists, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.lanes import BlockingLane
from support.listers import INSTANCE, ListerUnderTest, lister_in_process

from auditor.bookie.lane import ReadQuestion
from auditor.bookie.listers import LaneWithLister, Listers, open_lane
from auditor.bookie.questions import ListQuestion
from auditor.config import BookieLimits
from auditor.lister.directory_reader import Lists
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_SILENT,
    Answer,
    AnswerStatus,
    Greeting,
    MissingLog,
)
from auditor.sandbox.listener import HOST
from auditor.wire.entry_availability import HEADER_BYTES, encode_runs

LIMITS = BookieLimits(rpc_timeout_ms=5_000, bookie_deadline_ms=30_000)
TEN = encode_runs([(0, 10)])[HEADER_BYTES:]


@pytest.fixture
def lister(tmp_path: Path) -> Iterator[ListerUnderTest]:
    with lister_in_process(tmp_path) as lister:
        yield lister


@contextmanager
def lane_of(
    lister: ListerUnderTest,
    listers: Listers | None = None,
    limits: BookieLimits = LIMITS,
    *,
    is_unable: bool = False,
) -> Iterator[BlockingLane]:
    """The lane of the bookie with its lister, or with another map of listers."""
    where = listers or Listers(INSTANCE, lister.port)
    address = (HOST, lister.bookie_listener.port)
    lane = open_lane(lister.bookie_id, address, limits, 1, lambda: 1, where, is_unable=is_unable)
    assert isinstance(lane, LaneWithLister)
    with BlockingLane(lane) as closing:
        yield closing


def ask(lane: BlockingLane, *ledgers: int) -> list[Answer]:
    """The answers about these ledgers, each of ten entries on this bookie."""
    return lane.lists([ListQuestion(ledger, 64, TEN) for ledger in ledgers])


def statuses(answers: Sequence[Answer]) -> list[AnswerStatus]:
    return [answer.status for answer in answers]


def test_a_bookie_that_cannot_list_is_listed_by_its_lister(lister: ListerUnderTest) -> None:
    """Its greeting says where from. The bookie is asked for no list; one entry of each is read
    there.
    """
    for ledger_id in (1, 2, 3):
        lister.hold(ledger_id, (0, 9))
    with lane_of(lister) as lane:
        answers = ask(lane, 1, 2, 3)
        assert (Greeting.ANSWERED, f"{LISTED_BY_LISTER}{HOST}:{lister.port}") == lane.greeting()
    assert [(AnswerStatus.HELD, TEN, True, 2)] * 3 == [
        (a.status, a.groups, a.is_from_lister, a.requests) for a in answers
    ]
    assert {} == lister.bookie.asked
    assert 3 == lister.bookie.operations[1]


def test_of_a_list_that_lacks_entries_no_listed_one_is_read(lister: ListerUnderTest) -> None:
    """A read would make the bookie cache the lost ones behind it. They are left to the confirming
    reads.
    """
    lister.hold(1, (0, 4))
    with lane_of(lister) as lane:
        (answer,) = ask(lane, 1)
    assert (AnswerStatus.HELD, encode_runs([(0, 5)])[HEADER_BYTES:]) == (
        answer.status,
        answer.groups,
    )


def test_lists_that_come_one_after_another_are_awaited(
    lister: ListerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together they take longer than one may: with each the time starts anew, because a lister
    makes them in turn.
    """
    monkeypatch.setattr("auditor.bookie.listers.LIST_TIMEOUT_MS", 2_000)
    real = lister.reader.first_lists

    async def first_lists(ledgers: Sequence[int]) -> Lists:
        await asyncio.sleep(0.1)
        return await real(ledgers[:1])

    monkeypatch.setattr(lister.reader, "first_lists", first_lists)
    ids = range(1, 26)
    for ledger_id in ids:
        lister.hold(ledger_id, (0, 9))
    lister.thread.call(real([1]))  # Its process has started: no list waits for that.
    limits = replace(LIMITS, rpc_timeout_ms=2_000)  # A list is awaited as long at least.
    with lane_of(lister, limits=limits) as lane:
        assert {AnswerStatus.HELD} == {*statuses(ask(lane, *ids))}


def test_entry_logs_that_are_missing_come_with_the_list(lister: ListerUnderTest) -> None:
    """What the list leaves out stands beside it, and stays with it alone."""
    lister.hold(1, (0, 9))
    lister.index.put(1, range(4, 8), log=5)
    (lister.index.logs / "5.log").unlink()
    lister.bookie.hold(1, [(0, 3), (8, 9)])
    with lane_of(lister) as lane:
        (answer,) = ask(lane, 1)
    expected = encode_runs([(0, 4), (8, 2)])[HEADER_BYTES:]
    assert (AnswerStatus.HELD, expected) == (answer.status, answer.groups)
    assert (MissingLog(str(lister.index.logs / "5.log"), 4, ((4, 7),)),) == answer.missing_logs
    lister.bookie.hold(1, [(0, 9)])
    with lane_of(lister) as lane:
        (answer,) = ask(lane, 1)
    assert (AnswerStatus.UNSUPPORTED, ()) == (answer.status, answer.missing_logs)


@pytest.mark.parametrize("is_unable", [False, True])
@pytest.mark.parametrize("wrong", ["cluster", "bookie", "a bookie's own port", "nobody"])
def test_without_its_lister_a_bookie_is_asked_as_today(
    lister: ListerUnderTest, wrong: str, is_unable: bool
) -> None:
    """A lister of another cluster or bookie, none at all, or a port that is not a lister's: it
    cannot list.
    """
    for ledger_id in (1, 2, 3):
        lister.hold(ledger_id, (0, 9))
    listers = {
        "cluster": Listers("another", lister.port),
        "bookie": Listers(INSTANCE, lister.port),
        "a bookie's own port": Listers(INSTANCE, lister.bookie_listener.port),
        "nobody": Listers(INSTANCE, 1),
    }[wrong]
    under_test = replace(lister, bookie_id="b2") if wrong == "bookie" else lister
    limits = LIMITS if is_unable else replace(LIMITS, rpc_timeout_ms=1_000)  # It is waited for.
    with lane_of(under_test, listers, limits, is_unable=is_unable) as lane:
        assert [AnswerStatus.UNSUPPORTED] * 3 == statuses(ask(lane, 1, 2, 3))
        _, detail = lane.greeting()
    assert detail.startswith(LISTER_SILENT)


def test_a_lister_that_answers_and_lists_nothing_is_named(lister: ListerUnderTest) -> None:
    """It may not be allowed to read the index: "it answers" would hide why its bookie is probed."""
    lister.hold(1, (0, 9))
    lister.index.put_raw(bytes(7) + b"\x02" + bytes(9), bytes(8))
    with lane_of(lister) as lane:
        (answer,) = ask(lane, 2)
        greeting, detail = lane.greeting()
        assert (Greeting.ANSWERED, AnswerStatus.UNSUPPORTED) == (greeting, answer.status)
        assert detail.startswith(LISTER_SILENT) and "in doubt" in detail
        assert "storage failed" not in detail + answer.detail
        ask(lane, 1)
        assert (Greeting.ANSWERED, f"{LISTED_BY_LISTER}{HOST}:{lister.port}") == lane.greeting()


def test_entries_are_read_on_the_bookie(lister: ListerUnderTest) -> None:
    """The lister serves none."""
    lister.hold(1, (0, 9))
    with lane_of(lister) as lane:
        assert ["present", "no_entry"] == [
            read.status for read in lane.reads([ReadQuestion(1, 0), ReadQuestion(1, 10)])
        ]
