"""The second checker on lost entry logs, with rows as a run writes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.availability import Greeting
from auditor.model.bookie_facts import EntryLogLostFacts, LostLog
from auditor.model.cluster import BookieRecord, Registration
from auditor.second_checker.lost_logs import TOLD_MAX, LeftOut, Tried, entry_log_lost_facts

UP = BookieRecord("b1", 1, 0, Registration.WRITABLE, "h", 3181, greeting=Greeting.ANSWERED)
PATH = "/data/current/1f.log"
LEFT = LeftOut(PATH, 7, 1, 40, [[10, 29], [50, 69]], ())
FAILED = Tried(7, 1, 10, "failed", "EIO: the bookie's storage failed")
TWICE = (LEFT, LEFT._replace(look=2))
BOTH = (FAILED, FAILED._replace(look=2, entry_id=69))
SENT = {"status": "present", "detail": ""}


def found(
    left_out: tuple[LeftOut, ...] = TWICE,
    tried: tuple[Tried, ...] = BOTH,
    seen: tuple[BookieRecord, ...] = (UP,),
) -> EntryLogLostFacts | None:
    return entry_log_lost_facts(seen, "h:3182", left_out, tried)


def test_a_log_that_is_left_out_at_two_looks_and_fails_reads_is_lost() -> None:
    """The finding has its ledgers, the newest word on each, the reads, and the bookie as last
    registered.
    """
    twice = LEFT._replace(ledger_id=8, entries=3, ranges=[[4, 5], [8, 8]])
    newer = LEFT._replace(look=3, entries=21, ranges=[[49, 69]])
    once = LEFT._replace(ledger_id=9, look=2)
    last = replace(UP, look=3, registration=Registration.READONLY, port=3182)
    facts = EntryLogLostFacts(
        "readonly",
        "h:3182",
        "h:3182",
        1,
        2,
        24,
        (LostLog(PATH, 2, 24, ((7, 49, 69), (8, 4, 5)), 2),),
    )
    assert facts == found((newer, twice._replace(look=2), once, *TWICE, twice), seen=(UP, last))


def test_each_lost_log_is_reported_and_a_ledger_is_counted_once() -> None:
    """Logs are in order of path. A log in doubt, with a path between them, hides none of them."""
    paths = ("/data/a.log", "/data/b.log", "/data/c.log")
    doubts = (FAILED._replace(ledger_id=8, **SENT),)
    rows = tuple(
        one._replace(path=path, ledger_id=7 + (path == paths[1]))
        for path in reversed(paths)
        for one in TWICE
    )
    logs = tuple(LostLog(path, 1, 40, ((7, 10, 29),), 2) for path in (paths[0], paths[2]))
    assert EntryLogLostFacts("writable", "h:3181", "h:3182", 2, 1, 80, logs) == found(
        rows, (*BOTH, *doubts)
    )


@pytest.mark.parametrize("entry", [10, 29, 50, 69])
def test_the_ends_of_each_range_are_in_the_log(entry: int) -> None:
    """A read of the first or last entry of a range counts, whether it failed or returned the
    entry.
    """
    second = FAILED._replace(look=2, entry_id=entry)
    assert found(tried=(FAILED, second)) is not None
    assert found(tried=(*BOTH, second._replace(**SENT))) is None
    assert found((LEFT, LEFT._replace(look=2, read_unlisted=(3, entry)))) is None


@pytest.mark.parametrize("entry", [9, 30, 49, 70])
def test_entries_beside_a_range_are_not_in_the_log(entry: int) -> None:
    """Their reads do not count."""
    second = FAILED._replace(look=2, entry_id=entry)
    assert found(tried=(FAILED, second)) is None
    assert found(tried=(*BOTH, second._replace(**SENT))) is not None
    assert found((LEFT, LEFT._replace(look=2, read_unlisted=(entry,)))) is not None


@pytest.mark.parametrize(
    "tried",
    [
        (),
        BOTH[:1],
        (FAILED, FAILED._replace(entry_id=11)),
        (FAILED, BOTH[1]._replace(ledger_id=8)),
        (FAILED, BOTH[1]._replace(detail="EUA: EIO")),
        (FAILED, BOTH[1]._replace(status="timed_out")),
        (FAILED, BOTH[1]._replace(status="no_entry", detail="")),
        *(
            (FAILED, FAILED._replace(look=2, **SENT | {"status": one}))
            for one in ("present", "corrupt", "too_large")
        ),
        *(
            (*BOTH, FAILED._replace(entry_id=12, status=one))
            for one in ("present", "corrupt", "too_large")
        ),
    ],
)
def test_reads_must_fail_with_eio_at_two_looks_and_none_may_bring_an_entry(
    tried: tuple[Tried, ...],
) -> None:
    """Only reads of entries in that log count."""
    assert found(tried=tried) is None


@pytest.mark.parametrize("detail", ["EIO", "EIO: /data: bad block"])
def test_the_code_stands_before_the_first_colon(detail: str) -> None:
    """The text after the colon does not matter."""
    assert found(tried=(FAILED, BOTH[1]._replace(detail=detail))) is not None


def test_another_failure_of_a_read_is_not_counted() -> None:
    """It counts neither as failed nor as returned; later reads still count."""
    facts = found(tried=(FAILED._replace(entry_id=9), FAILED._replace(detail="EUA"), *BOTH))
    assert facts is not None and [2] == [one.reads_failed for one in facts.some_logs]


def test_a_ledger_must_be_left_out_at_two_looks() -> None:
    """Different ledgers at each look do not add up, nor do different logs."""
    assert (
        found((LEFT, LEFT._replace(ledger_id=8, look=2)), (FAILED, BOTH[1]._replace(ledger_id=8)))
        is None
    )
    assert found((LEFT, LEFT._replace(path="/data/current/20.log", look=2))) is None


def test_a_bookie_that_is_not_registered_or_was_never_seen_has_no_finding() -> None:
    """It must be registered at the last look; that is enough."""
    gone = replace(UP, registration=Registration.NONE)
    assert found(seen=()) is None and found(seen=(UP, gone)) is None
    assert found(seen=(gone, UP)) is not None


def test_many_logs_and_ledgers_are_counted_and_the_first_ten_named() -> None:
    """Logs are in order of path, ledgers in order of id."""
    logs = [f"/data/{n:02}.log" for n in range(TOLD_MAX + 2)]
    ledgers = range(TOLD_MAX + 1)
    rows = tuple(
        one._replace(path=path, ledger_id=n, entries=1)
        for path in logs
        for n in ledgers
        for one in TWICE
    )
    facts = found(rows, tuple(one._replace(ledger_id=0) for one in BOTH))
    assert facts is not None
    assert (12, 11, 132) == (facts.logs, facts.ledgers, facts.entries)
    assert logs[:10] == [one.path for one in facts.some_logs]
    assert [*range(10)] == [ledger for ledger, *_ in facts.some_logs[0].some]
