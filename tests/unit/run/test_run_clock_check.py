"""A clock is late by what ZooKeeper wrote, and by nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.errors import LocalFault
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.run.clock_check import (
    CLOCK_LAG_MAX_MS,
    CLOCK_SKEW_MAX_MS,
    clock_lag_ms,
    clock_sentences,
    require_clock_of_records,
)
from auditor.zookeeper.cluster import NewestWrite

NOW_MS = 1_700_000_000_000
RECORD = LedgerRecord(
    7, 1, NOW_MS, RecordStatus.FOUND, stamp=ZnodeStamp(1, 0, NOW_MS - 9, NOW_MS - 8)
)


@pytest.mark.parametrize(
    ("ahead_ms", "lag_ms"),
    [
        (-1, 0),
        (CLOCK_SKEW_MAX_MS, 0),
        (CLOCK_SKEW_MAX_MS + 1, CLOCK_SKEW_MAX_MS + 1),
        (CLOCK_LAG_MAX_MS, CLOCK_LAG_MAX_MS),
    ],
)
def test_the_lag_is_what_the_newest_write_proves(ahead_ms: int, lag_ms: int) -> None:
    """A little skew is no lag."""
    assert lag_ms == clock_lag_ms(NewestWrite("/a", NOW_MS + ahead_ms), NOW_MS)


def test_without_a_write_nothing_is_proven() -> None:
    """An empty cluster says nothing of our clock."""
    assert 0 == clock_lag_ms(None, NOW_MS)


def test_a_clock_that_is_more_than_a_year_late_is_refused() -> None:
    """Both times are in the sentence, and what to do."""
    with pytest.raises(LocalFault, match=r"says 2023-.* wrote znode /a at 2024-.* Set the clock"):
        clock_lag_ms(NewestWrite("/a", NOW_MS + CLOCK_LAG_MAX_MS + 1), NOW_MS)


@pytest.mark.parametrize("late", ["created", "written", "marked"])
def test_a_znode_that_shows_a_lag_behind_the_verdicts_withdraws_them(late: str) -> None:
    """They were judged by that clock. What was known before is no news."""
    at_ms = NOW_MS + CLOCK_SKEW_MAX_MS + 1
    record = {
        "created": replace(RECORD, stamp=ZnodeStamp(1, 0, at_ms, 0)),
        "written": replace(RECORD, stamp=ZnodeStamp(1, 0, 0, at_ms)),
        "marked": replace(RECORD, mark=Mark(at_ms)),
    }[late]
    with pytest.raises(LocalFault, match="the clock of this host says"):
        require_clock_of_records([RECORD, record], NOW_MS, 0)
    require_clock_of_records([RECORD, record], NOW_MS, 1)
    require_clock_of_records([RECORD], NOW_MS, 0)


def test_what_a_late_clock_leaves_unknown_is_said_once() -> None:
    """Of a clock that is not known to be late, nothing is said."""
    terms = Terms(NOW_MS, 0, 0, 0)
    assert [] == clock_sentences(terms)
    (sentence,) = clock_sentences(replace(terms, clock_lag_ms=31 * 86_400_000))
    assert "at least 31 days behind ZooKeeper's" in sentence
