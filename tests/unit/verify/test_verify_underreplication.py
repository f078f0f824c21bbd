"""How old a mark is, and why it stands."""

from dataclasses import replace
from typing import Any

import pytest

from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ReplicationLock, ZnodeStamp
from auditor.sandbox.notation import ledger
from auditor.verify import schedule
from auditor.verify.coverage import ExtentCoverage, coverage
from auditor.verify.entry_set import EMPTY, EntrySet
from auditor.verify.shares import BookieShare
from auditor.verify.underreplication import age_ms, is_beyond_grace, mark_facts, why_stuck


@pytest.mark.parametrize(
    ("created_ms", "changed_ms", "wanted"),
    [
        (1_000, None, 9_000),
        (1_000, 6_000, 9_000),  # the mark's own time restarts when a replica is added
        (6_000, 1_000, 9_000),  # a mark that was written again keeps its own time
        (10_000, 10_000, 0),
        (12_000, None, 0),  # a clock that runs ahead makes no negative age
        (12_000, 11_000, 0),
        (0, None, 10_000),
        (9_000, 0, 10_000),  # a time of 0 is a time
    ],
)
def test_the_age_is_that_of_the_older_time_and_never_negative(created_ms: int, changed_ms: int | None, wanted: int) -> None:
    """Now minus the older of the znode's creation and the mark's ctime, at least 0."""
    assert wanted == age_ms(Mark(created_ms, changed_ms), 10_000)


@pytest.mark.parametrize(("now_ms", "wanted"), [(4_999, False), (5_000, False), (5_001, True)])
def test_exactly_at_its_grace_a_mark_is_acceptable(now_ms: int, wanted: bool) -> None:
    """Beyond means more than."""
    assert wanted == is_beyond_grace(Mark(0), now_ms, 5_000)


def test_without_grace_any_age_is_too_much_and_none_is_not() -> None:
    """A grace of 0 still accepts a mark of this very millisecond."""
    assert not is_beyond_grace(Mark(7), 7, 0)
    assert is_beyond_grace(Mark(7), 8, 0)


def test_the_facts_of_a_mark_are_whole_seconds_and_what_its_znodes_say() -> None:
    """Age and grace in seconds, rounded down; the times in milliseconds; the replicas it misses; who holds its lock."""
    terms = Terms(judged_at_ms=70_999, underreplication_grace_ms=3_600_999, confirming_reads_max=1, looks_max=2)
    mark = Mark(10_000, 20_000, ("b1", "b2"), "cut off", ReplicationLock("worker", 5))
    assert {
        "age_s": "60",
        "grace_s": "3600",
        "marked_at_ms": "10000",
        "mark_changed_at_ms": "20000",
        "missing_replicas": "b1 b2",
        "mark_problem": "cut off",
        "lock_holder": "worker",
        "lock_since_ms": "5",
    } == dict(mark_facts(mark, terms))


def test_what_a_mark_does_not_say_is_empty() -> None:
    """No time of its own, no replica, no problem; and without a lock nobody is named as its holder."""
    facts = dict(mark_facts(Mark(10_000), Terms(70_999, 3_600_999, 1, 2)))
    assert ["", "", ""] == [facts["mark_changed_at_ms"], facts["missing_replicas"], facts["mark_problem"]]
    assert not {"lock_holder", "lock_since_ms"} & facts.keys()


# Why a mark stands

E2 = "e2 w2 a2 0:[b1 b2] closed 9"
WELL = Surroundings(writable=frozenset({"b1", "b2", "b3"}), auditor="b1")


def reasons(
    around: Surroundings = WELL, text: str = E2, lock: ReplicationLock | None = None, missing: str = "4", has_loss: bool = False
) -> set[str]:
    """Of a ledger of which b2 lacks the entries `missing`; no bookie is heard where it is empty."""
    metadata = ledger(text)
    record = LedgerRecord(7, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata, mark=Mark(0, lock=lock))
    absent = EntrySet.of_entries(int(entry) for entry in missing.split())
    whole = EntrySet.span(0, 9)
    shares = (BookieShare("b1", whole, EMPTY, EMPTY, EMPTY), BookieShare("b2", whole, absent, absent, EMPTY))
    extents = tuple(ExtentCoverage(extent, shares, ()) for extent in schedule.extents(metadata))
    seen = replace(coverage(metadata, {}, {}), extents=extents)
    return {reason for name, reason in why_stuck(record, seen, around, has_loss=has_loss) if name == "stuck"}


def test_a_mark_for_which_nothing_stands_in_the_way_has_no_reason() -> None:
    """An auditor is elected, replication is on, a spare bookie is there: it is being worked on, or waits its turn."""
    assert set() == reasons()


@pytest.mark.parametrize(
    ("reason", "given"),
    [
        ("no_copy", {"has_loss": True}),
        ("replication_disabled", {"around": replace(WELL, replication_disabled=True)}),
        ("no_auditor", {"around": replace(WELL, auditor=None)}),
        ("no_spare_bookie", {"around": replace(WELL, writable=frozenset({"b1", "b2"}), readonly=frozenset({"b3"}))}),
        ("locked", {"lock": ReplicationLock("worker", 5)}),
        ("empty_ledger", {"text": "e2 w2 a2 0:[b1 b2] closed -1"}),
        ("stale", {"missing": ""}),
    ],
)
def test_each_reason_for_a_mark_to_stand_is_told_alone(reason: str, given: dict[str, Any]) -> None:
    """One fact changed, one reason more."""
    assert {reason} == reasons(**given)


def test_a_ledger_that_needs_no_copy_needs_no_spare_bookie() -> None:
    """Its mark is stale, however few bookies are writable."""
    assert {"stale"} == reasons(replace(WELL, writable=frozenset()), missing="")


def test_before_its_bookies_were_heard_nothing_is_said_of_copies() -> None:
    """Neither that they are back nor that there is no place for them."""
    record = LedgerRecord(7, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), ledger(E2), mark=Mark(0))
    assert () == why_stuck(record, None, replace(WELL, writable=frozenset()), has_loss=False)
