"""How old a mark is, and why it stands."""

from dataclasses import replace
from typing import Any

import pytest
from support.stories import groups

from auditor.first_checker.coverage import coverage
from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.probing import ProbePlan, plan_probes
from auditor.first_checker.underreplication import age_ms, is_beyond_grace, is_stale, mark_facts
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.model.facts import MarkFacts, WhyMarked
from auditor.model.ledger import (
    LedgerRecord,
    LedgerState,
    Mark,
    RecordStatus,
    ReplicationLock,
    ZnodeStamp,
)
from auditor.model.verdict import Unknown
from auditor.sandbox.cluster import ledger


@pytest.mark.parametrize(
    ("created_ms", "changed_ms", "wanted"),
    [
        (1_000, None, 9_000),
        (1_000, 6_000, 9_000),  # the mark's own time restarts when a replica is added
        (6_000, 1_000, 9_000),  # a mark that was written again keeps its own time
        (10_000, 10_000, 0),
        (12_000, None, 0),  # a clock that runs ahead gives no negative age
        (12_000, 11_000, 0),
        (0, None, 10_000),
        (9_000, 0, 10_000),  # a time of 0 is a time
    ],
)
def test_the_age_is_that_of_the_older_time_and_never_negative(
    created_ms: int, changed_ms: int | None, wanted: int
) -> None:
    """Now minus the older of the znode's creation and the mark's ctime, at least 0."""
    assert wanted == age_ms(Mark(created_ms, changed_ms), 10_000)


@pytest.mark.parametrize(("now_ms", "wanted"), [(4_999, False), (5_000, False), (5_001, True)])
def test_exactly_at_its_grace_a_mark_is_acceptable(now_ms: int, wanted: bool) -> None:
    """Beyond grace means older than the grace."""
    assert wanted == is_beyond_grace(Mark(0), now_ms, 5_000)


def test_without_grace_any_age_is_too_much_and_none_is_not() -> None:
    """A grace of 0 still accepts a mark of this millisecond."""
    assert not is_beyond_grace(Mark(7), 7, 0)
    assert is_beyond_grace(Mark(7), 8, 0)


def test_the_facts_of_a_mark_are_what_its_znodes_say() -> None:
    """They are its age and the grace, both times, the missing replicas, what is wrong with its
    bytes, and the holder of its lock.
    """
    terms = Terms(
        judged_at_ms=70_999,
        underreplication_grace_ms=3_600_999,
        confirming_reads_max=1,
        looks_max=2,
    )
    mark = Mark(10_000, 20_000, ("b1", "b2"), "cut off", ReplicationLock("worker", 5))
    facts = mark_facts(marked(mark), None, terms, has_loss=False)
    why = (WhyMarked.NO_AUDITOR, WhyMarked.LOCKED)
    closed = LedgerState.CLOSED
    assert (
        MarkFacts(
            60_999, 3_600_999, 10_000, 20_000, ("b1", "b2"), "cut off", "worker", 5, closed, why
        )
        == facts
    )


def test_what_a_mark_does_not_say_is_none() -> None:
    """Without a time of its own, a replica, a problem or a lock these facts are None or empty."""
    facts = mark_facts(marked(Mark(10_000)), None, TERMS, has_loss=False)
    assert (None, (), "", None, None) == (
        facts.changed_ms,
        facts.missing_replicas,
        facts.problem,
        facts.lock_holder,
        facts.lock_since_ms,
    )


# Why a mark stands

TERMS = Terms(70_999, 3_600_999, 1, 2)
E2 = "e2 w2 a2 0:[b1 b2] closed 9"
WELL = Surroundings(writable=frozenset({"b1", "b2", "b3"}), auditor="b1")


def marked(mark: Mark, text: str = E2) -> LedgerRecord:
    """Return a ledger with a mark, as ZooKeeper has it."""
    return LedgerRecord(7, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), ledger(text), mark=mark)


def reasons(
    around: Surroundings = WELL,
    text: str = E2,
    lock: ReplicationLock | None = None,
    missing: str = "4",
    silent: tuple[str, ...] = (),
    not_heard_as: AnswerStatus = AnswerStatus.SILENT,
    has_loss: bool = False,
    is_empty: bool = False,
) -> set[str]:
    """Return the reasons for a ledger of which b2 lacks the entries `missing`, while nothing is
    known from the `silent` bookies, with the status `not_heard_as`.
    """
    metadata = ledger(text)
    absent = {"b1": set[int](), "b2": {int(entry) for entry in missing.split()}}
    answers, reads = {}, {}
    for bookie, gone in absent.items():
        status = not_heard_as if bookie in silent else AnswerStatus.HELD
        answers[bookie] = Answer(bookie, 7, 1, 0, status, groups(set(range(10)) - gone))
        reads |= {
            (bookie, entry): EntryRead(bookie, 7, entry, 1, 0, ReadStatus.NO_ENTRY)
            for entry in gone
        }
    seen = coverage(metadata, answers, reads)
    terms = replace(TERMS, around=around)
    return {
        reason.value
        for reason in mark_facts(
            marked(Mark(0, lock=lock), text), seen, terms, has_loss=has_loss, is_empty=is_empty
        ).why
    }


def test_a_mark_for_which_nothing_stands_in_the_way_has_no_reason() -> None:
    """An auditor is elected, replication is on, and a spare bookie exists: the ledger is being
    repaired, or waits its turn.
    """
    assert set() == reasons()


@pytest.mark.parametrize(
    ("reason", "given"),
    [
        ("no_copy", {"has_loss": True}),
        ("no_copy_in_reach", {"silent": ("b1", "b2")}),
        ("no_copy_in_reach", {"silent": ("b1",)}),
        ("replication_disabled", {"around": replace(WELL, replication_disabled=True)}),
        ("no_auditor", {"around": replace(WELL, auditor=None)}),
        (
            "no_spare_bookie",
            {"around": replace(WELL, writable=frozenset({"b1", "b2"}), readonly=frozenset({"b3"}))},
        ),
        ("locked", {"lock": ReplicationLock("worker", 5)}),
        ("empty_ledger", {"is_empty": True}),
        ("stale", {"missing": ""}),
    ],
)
def test_each_reason_for_a_mark_to_stand_is_reported_alone(
    reason: str, given: dict[str, Any]
) -> None:
    """One changed fact gives one more reason."""
    assert {reason} == reasons(**given)


@pytest.mark.parametrize(
    "status",
    [AnswerStatus.UNREGISTERED, AnswerStatus.REFUSED, AnswerStatus.INVALID, AnswerStatus.TIMED_OUT],
)
def test_only_who_is_not_there_is_out_of_reach(status: AnswerStatus) -> None:
    """Other bookies may also be unknown, but they can be read from."""
    out_of_reach = {"no_copy_in_reach"} if status is AnswerStatus.UNREGISTERED else set()
    assert out_of_reach == reasons(silent=("b1",), not_heard_as=status)


@pytest.mark.parametrize("b1_said", [AnswerStatus.HELD, AnswerStatus.UNSUPPORTED])
def test_a_bookie_that_answered_is_in_reach_although_a_read_got_no_answer(
    b1_said: AnswerStatus,
) -> None:
    """b2 lacks entry 4. b1 gave a list without it, or cannot list; it was silent when entry 4 was
    read, and may still have it.
    """
    held = groups(set(range(10)) - {4})
    answers = {
        "b1": Answer("b1", 7, 1, 0, b1_said, held if b1_said is AnswerStatus.HELD else b""),
        "b2": Answer("b2", 7, 1, 0, AnswerStatus.HELD, held),
    }
    said = {("b1", entry): ReadStatus.PRESENT for entry in range(10)}
    said |= {("b1", 4): ReadStatus.SILENT, ("b2", 4): ReadStatus.NO_ENTRY}
    reads = {(b, e): EntryRead(b, 7, e, 1, 0, status) for (b, e), status in said.items()}
    seen = coverage(ledger(E2), answers, reads, probing=ProbePlan(7, 2, 11))
    assert {"b1": (Unknown.BOOKIE_SILENT,)} == seen.reasons
    assert () == mark_facts(marked(Mark(0)), seen, replace(TERMS, around=WELL), has_loss=False).why


def test_a_ledger_that_needs_no_copy_needs_no_spare_bookie() -> None:
    """Its mark is stale, however few bookies are writable."""
    assert {"stale"} == reasons(replace(WELL, writable=frozenset()), missing="")


def test_a_mark_is_not_stale_while_a_sample_stands_for_some_copies() -> None:
    """b2 cannot list. Its probes all read back, but the rest is assumed, not seen."""
    metadata, plan = ledger(E2), ProbePlan(7, 2, 11)
    due = plan_probes(plan, "b2", [EntrySet.span(0, 9)]).all
    answers = {
        "b1": Answer("b1", 7, 1, 0, AnswerStatus.HELD, groups(set(range(10)))),
        "b2": Answer("b2", 7, 1, 0, AnswerStatus.UNSUPPORTED),
    }
    for read, stale in ((due, False), (range(10), True)):
        reads = {
            ("b2", entry): EntryRead("b2", 7, entry, 1, 0, ReadStatus.PRESENT) for entry in read
        }
        assert stale is is_stale(metadata, coverage(metadata, answers, reads, probing=plan))


@pytest.mark.parametrize(
    "text",
    [
        "e2 w2 a2 0:[b1 b2] 4:[b1 b2] 4:[b1 b3] closed 9",
        "e2 w2 a2 0:[b1 b2] 4:[b1 b2] closed",
        "e2 w2 a2 0:[b1 b2] 4:[b1 b1] closed 9",
    ],
)
def test_a_mark_is_not_stale_while_it_is_not_clear_where_entries_belong(text: str) -> None:
    """Two segments begin at entry 4, or the last segment has no known end, or it names one bookie
    twice: some copies are not known to be there, although the lists lack nothing.
    """
    metadata = ledger(text)
    answers = {
        b: Answer(b, 7, 1, 0, AnswerStatus.HELD, groups(set(range(10)))) for b in ("b1", "b2")
    }
    assert not is_stale(metadata, coverage(metadata, answers, {}))


def test_before_its_bookies_were_heard_nothing_is_said_of_copies() -> None:
    """Neither that the copies are back, nor that there is no bookie for them."""
    terms = replace(TERMS, around=replace(WELL, writable=frozenset()))
    assert () == mark_facts(marked(Mark(0)), None, terms, has_loss=False).why
