"""A bookie that answers and lacks most of what it should hold."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from auditor.evidence.rows import named_row, table
from auditor.evidence.run_directory import MemoryDirectory, Place
from auditor.evidence.schemas import LEDGERS
from auditor.findings.lost_content import (
    LACKS,
    LOST_CONTENT_LEDGERS_MIN,
    Content,
    CookieHistory,
    Heard,
    LastWords,
    cookie_histories,
    judge_content,
    withheld_content,
)
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.facts import LostContentFacts
from auditor.model.finding import Finding, Kind, Severity

LOOKS = [
    {b: BookieRecord(b, look, 0, Registration.READONLY, "h", 1) for b in ("b1", "b2")}
    for look in (1, 2)
]


def content(asked: int, lacking_most: int) -> Content:
    return Content(
        asked, lacking_most, 10 * lacking_most, 9 * lacking_most, tuple(range(lacking_most))
    )


@pytest.mark.parametrize(
    ("found", "asked", "lacking_most"),
    [
        (True, LOST_CONTENT_LEDGERS_MIN, LOST_CONTENT_LEDGERS_MIN),
        (False, LOST_CONTENT_LEDGERS_MIN - 1, LOST_CONTENT_LEDGERS_MIN - 1),
        (True, 2 * LOST_CONTENT_LEDGERS_MIN - 1, LOST_CONTENT_LEDGERS_MIN),
        (False, 2 * LOST_CONTENT_LEDGERS_MIN, LOST_CONTENT_LEDGERS_MIN),
        (True, 80_000, 40_001),
        (False, 80_000, 40_000),
    ],
)
def test_a_bookie_lost_its_content_where_it_lacks_most_of_most(
    found: bool, asked: int, lacking_most: int
):
    """A bookie lost its content if it lacks more than half of at least three ledgers it answered
    for. Below that, ledgers are lost, not a bookie.
    """
    assert found == bool(judge_content(LOOKS, {"b1": content(asked, lacking_most)}))
    assert found == bool(withheld_content({"b1": content(asked, lacking_most)}))


def test_the_twin_that_lost_one_ledger_is_not_accused():
    """One bookie is reported and its twin is not, in the same run."""
    (found,) = judge_content(LOOKS, {"b2": content(5, 5), "b1": content(5, 1)})
    assert (Kind.BOOKIE_LOST_CONTENT, "b2", Severity.CRITICAL) == (
        found.kind,
        found.bookie_id,
        found.severity,
    )
    assert LostContentFacts("readonly", "h:1", 5, False, 5, 45, 50, (0, 1, 2, 3, 4)) == found.facts


def test_a_bookie_that_nobody_has_on_record_is_not_accused():
    """A bookie without a registration at any look is not accused."""
    assert [] == judge_content(LOOKS, {"b9": content(5, 5)})


def test_ledgers_named_in_a_finding_are_few():
    """A few ledgers are named, the rest is counted."""
    (found,) = judge_content(LOOKS, {"b1": content(100, 100)})
    assert isinstance(found.facts, LostContentFacts)
    assert tuple(range(10)) == found.facts.some_ledgers


def test_the_finding_says_what_was_counted_each_under_its_name():
    """Registration and address are those of the last look."""
    moved = BookieRecord("b1", 3, 0, Registration.WRITABLE, "g", 2)
    facts = LostContentFacts(
        registration="writable",
        address="g:2",
        asked=7,
        was_probed=True,
        lacking_most=5,
        absent=80,
        expected=90,
        some_ledgers=(3, 4),
    )
    counts = Content(7, 5, 90, 80, (3, 4), was_probed=True)
    expected = [Finding(Kind.BOOKIE_LOST_CONTENT, facts, bookie_id="b1")]
    assert expected == judge_content([*LOOKS, {"b1": moved}], {"b1": counts})


@pytest.mark.parametrize(
    ("found", "looks"), [(False, "readonly readonly none"), (True, "none none readonly")]
)
def test_whether_a_bookie_is_registered_is_said_by_the_last_look(found: bool, looks: str):
    """The last look decides whether a bookie counts as registered: one that left meanwhile is not
    reported, one that came is.
    """
    records = [
        {"b1": BookieRecord("b1", n, 0, Registration(word), "h", 1)}
        for n, word in enumerate(looks.split())
    ]
    assert found == bool(judge_content(records, {"b1": content(5, 5)}))


def test_the_finding_says_what_the_cookie_shows():
    """By bookie. Without a history it says nothing of it."""
    history = CookieHistory(70, 4, 20)
    (one, other) = judge_content(LOOKS, {"b1": content(5, 5), "b2": content(5, 5)}, {"b1": history})
    assert isinstance(one.facts, LostContentFacts) and isinstance(other.facts, LostContentFacts)
    assert [(70, 4, 20), (None, 0, None)] == [
        (facts.cookie_created_ms, facts.older_ledgers, facts.earlier_cookie_created_ms)
        for facts in (one.facts, other.facts)
    ]


def stored_ledgers(*written: tuple[int, int, int]) -> tuple[Place, pa.Table]:
    """Return a run with ledgers as (id, look, time of their last write), and what b1 lacks: each of
    them.
    """
    run = MemoryDirectory()
    rows = [
        named_row(LEDGERS, ledger_id=i, look=look, znode_mtime_ms=at) for i, look, at in written
    ]
    run.write_table("evidence/ledgers", table(LEDGERS, rows), "all")
    lacks = [
        {"bookie_id": "b1", "ledger_id": i, "expected": 10, "absent": 9}
        for i in dict.fromkeys(i for i, _, _ in written)
    ]
    return run, pa.Table.from_pylist(lacks, schema=LACKS)


def cookie(created_ms: int | None, czxid: int = 9) -> BookieRecord:
    return BookieRecord(
        "b1", 1, 0, Registration.WRITABLE, cookie_czxid=czxid, cookie_created_ms=created_ms
    )


@pytest.mark.parametrize(
    ("now", "before", "history"),
    [
        (cookie(50), [], CookieHistory(50, 2, None)),
        (cookie(40), [], CookieHistory(40, 1, None)),
        (cookie(50), [cookie(50)], CookieHistory(50, 2, None)),
        (cookie(50), [cookie(20, 8)], CookieHistory(50, 2, 20)),
        (cookie(50), [replace(cookie(None), cookie_czxid=None)], CookieHistory(50, 2, None)),
        (cookie(None), [cookie(20, 8)], CookieHistory()),
    ],
)
def test_ledgers_are_older_than_a_cookie_by_their_last_write(
    now: BookieRecord, before: list[BookieRecord], history: CookieHistory
):
    """At any look. A cookie is another one if another transaction created it."""
    run, lacks = stored_ledgers((1, 1, 30), (2, 1, 30), (2, 2, 40), (3, 1, 50), (4, 1, 60))
    heard = Heard(lacks, LastWords({}, {}), {"b1": content(5, 5), "b2": content(5, 5)})
    assert {"b1": history} == cookie_histories(run, heard, [now], before)


def test_no_ledger_is_read_where_no_bookie_lost_its_content():
    """The scan of the ledgers costs."""
    run, lacks = stored_ledgers((1, 1, 30))
    heard = Heard(lacks, LastWords({}, {}), {"b1": content(5, 1)})
    assert {} == cookie_histories(run, heard, [cookie(50)], [])
