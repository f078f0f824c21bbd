"""What a lane makes of what a bookie and its lister say, where neither is more than its words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import pytest

from auditor.bookie.exchange import ListPatience
from auditor.bookie.lane import AsyncLane
from auditor.bookie.listers import (
    FOUND_OUT_BEFORE,
    LISTER_IN_DOUBT,
    UNLISTED_READS,
    LaneWithLister,
    ListerLane,
    Listers,
    open_lane,
    reads_of,
)
from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    LISTER_SILENT,
    NOT_DIALLED,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    MissingLog,
    ReadStatus,
)
from auditor.wire.entry_availability import HEADER_BYTES, encode_runs

WHERE, LOOK, NOW_MS = "h:3182", 2, 77
ANSWERED, SILENT, REFUSED = (
    (Greeting.ANSWERED, ""),
    (Greeting.SILENT, "no route"),
    (Greeting.REFUSED, "of another bookie"),
)
PRESENT, NO_ENTRY = ReadStatus.PRESENT, ReadStatus.NO_ENTRY
Result = TypeVar("Result")


def groups(*runs: tuple[int, int]) -> bytes:
    """A list of runs of entries, as (first, count)."""
    return encode_runs(list(runs))[HEADER_BYTES:]


TEN = groups((0, 10))


def held(ledger: int, *runs: tuple[int, int], requests: int = 1) -> Answer:
    return Answer("b1", ledger, LOOK, 5, AnswerStatus.HELD, groups(*runs), "", requests, 0, 100)


@dataclass
class Words:
    """A lane that gives the set answers, and records what it was asked."""

    greets: tuple[Greeting, str] = ANSWERED
    says: Mapping[int, Answer] = field(default_factory=dict)
    """The answer about each ledger."""
    entry: Callable[[int, int], ReadStatus] = lambda _, __: PRESENT
    """How the read of an entry of a ledger ends."""
    probes: int = 0
    has_late_lists: bool = False
    asked: list[Any] = field(default_factory=list)

    async def greet(self) -> tuple[Greeting, str]:
        self.asked.append("greet")
        return self.greets

    def greeting(self) -> tuple[Greeting, str]:
        return self.greets

    def now_ms(self) -> int:
        return NOW_MS

    async def lists(self, questions: Sequence[ListQuestion]) -> list[Answer]:
        self.asked.append([question.ledger_id for question in questions])
        return [self.says[question.ledger_id] for question in questions]

    async def reads(self, questions: Sequence[ReadQuestion]) -> list[EntryRead]:
        self.asked.append([(question.ledger_id, question.entry_id) for question in questions])
        return [
            EntryRead("b1", i, e, LOOK, 6, self.entry(i, e), "said", 1, 0, 40)
            for i, e, *_ in questions
        ]

    async def settle_late_lists(self) -> list[Answer]:
        return [held(8, (0, 1))]

    async def close(self) -> None:
        self.asked.append("close")

    @property
    def read(self) -> list[tuple[int, int]]:
        return [
            pair
            for asked in self.asked
            if isinstance(asked, list)
            for pair in asked
            if isinstance(pair, tuple)
        ]


def both(bookie: Words, lister: Words, *, is_unable: bool = False) -> LaneWithLister:
    lanes = cast(AsyncLane, bookie), cast(ListerLane, lister)
    return LaneWithLister(*lanes, "b1", WHERE, LOOK, is_unable=is_unable)


def done(work: Awaitable[Result]) -> Result:
    async def wait() -> Result:
        return await work

    return asyncio.run(wait())


def ask(lane: LaneWithLister, *ledgers: int, expected: bytes | None = TEN) -> list[Answer]:
    return done(lane.lists([ListQuestion(ledger, 64, expected) for ledger in ledgers]))


def test_a_lister_is_greeted_only_where_its_bookie_answers() -> None:
    """What a silent bookie's lister says cannot be confirmed."""
    lister = Words()
    lane = both(Words(SILENT), lister)
    assert (SILENT, []) == (done(lane.greet()), lister.asked)
    assert SILENT == lane.greeting()


@pytest.mark.parametrize(
    ("bookie", "lister", "is_unable", "expected"),
    [
        (ANSWERED, ANSWERED, False, (Greeting.ANSWERED, f"its lister at {WHERE} answers")),
        (ANSWERED, ANSWERED, True, (Greeting.UNSUPPORTED, f"its lister at {WHERE} answers")),
        (
            (Greeting.ANSWERED, "so"),
            ANSWERED,
            False,
            (Greeting.ANSWERED, f"its lister at {WHERE} answers; so"),
        ),
        (
            ANSWERED,
            REFUSED,
            True,
            (Greeting.UNSUPPORTED, f"{LISTER_SILENT}{WHERE}: of another bookie"),
        ),
        (
            (Greeting.ANSWERED, "so"),
            REFUSED,
            False,
            (Greeting.ANSWERED, f"{LISTER_SILENT}{WHERE}: of another bookie; so"),
        ),
        (SILENT, ANSWERED, True, SILENT),
    ],
)
def test_a_greeting_says_whether_the_lister_answers(
    bookie: tuple[Greeting, str],
    lister: tuple[Greeting, str],
    is_unable: bool,
    expected: tuple[Greeting, str],
) -> None:
    """Beside what the bookie itself says, which cannot list if it showed that before."""
    lane = both(Words(bookie), Words(lister), is_unable=is_unable)
    assert expected == done(lane.greet()) == lane.greeting()


def test_before_it_is_greeted_a_lister_is_not_spoken_of() -> None:
    """Only of the bookie is anything known."""
    assert ANSWERED == both(Words(), Words()).greeting()


def test_of_a_bookie_that_is_not_dialled_any_more_its_lister_does_not_speak() -> None:
    """The beginning of the detail says that nothing is known of the bookie."""
    bookie, undialled = Words(), (Greeting.SILENT, f"{NOT_DIALLED}no KDC")
    lane = both(bookie, Words())
    done(lane.greet())
    bookie.greets = undialled
    assert undialled == lane.greeting()


def test_a_lister_that_comes_back_is_heard_again() -> None:
    """What was wrong with it before is not said any more."""
    lister = Words(REFUSED, {1: held(1, (0, 10))})
    lane = both(Words(), lister, is_unable=True)
    assert [AnswerStatus.UNSUPPORTED] == [one.status for one in ask(lane, 1)]
    lister.greets = ANSWERED
    assert (Greeting.UNSUPPORTED, f"its lister at {WHERE} answers") == done(lane.greet())
    assert [AnswerStatus.HELD] == [one.status for one in ask(lane, 1)]
    assert (Greeting.ANSWERED, f"{LISTED_BY_LISTER}{WHERE}") == lane.greeting()


def test_a_list_costs_what_was_asked_of_both() -> None:
    """The lister's list, and the entry that was read on the bookie."""
    bookie, lister = Words(), Words(says={1: held(1, (0, 10), requests=2)})
    (answer,) = ask(both(bookie, lister), 1)
    assert (
        replace(
            held(1, (0, 10)), detail=f"{LISTED_BY_LISTER}{WHERE}", requests=3, received_bytes=140
        )
        == answer
    )
    ((ledger, entry),) = bookie.read
    assert (1, True) == (ledger, entry in range(10))


def test_each_list_is_held_against_its_own_reads() -> None:
    """In whatever order the ledgers are; a ledger without an expectation has none."""
    says = {n: held(n, (0, 10)) for n in (1, 2, 3)}
    bookie = Words(entry=lambda ledger, _: ReadStatus.NO_LEDGER if ledger == 2 else PRESENT)
    answers = ask(both(bookie, Words(says=says)), 3, 2, 1)
    expected = [(3, AnswerStatus.HELD), (2, AnswerStatus.NO_SUCH_LEDGER), (1, AnswerStatus.HELD)]
    assert expected == [(one.ledger_id, one.status) for one in answers]
    assert (
        b"" == answers[1].groups
        and "lists entry" in answers[1].detail
        and "no such ledger" in answers[1].detail
    )
    bookie.asked.clear()
    lane = both(bookie, Words(says=says))
    assert [AnswerStatus.HELD] == [one.status for one in ask(lane, 2, expected=None)]
    assert (["greet"], "") == (bookie.asked, lane.contradiction)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (AnswerStatus.REFUSED, LISTER_IN_DOUBT),
        (AnswerStatus.FAILED, LISTER_IN_DOUBT),
        (AnswerStatus.TIMED_OUT, "why"),
        (AnswerStatus.NO_SUCH_LEDGER, "why"),
    ],
)
def test_a_lister_that_gives_no_list_leaves_the_bookie_to_be_probed(
    status: AnswerStatus, reason: str
) -> None:
    """Also where it knows no such ledger: it may look at another directory. No entry is read for
    it.
    """
    bookie, refused = Words(), Answer("b1", 1, LOOK, 5, status, b"x", "why")
    lane = both(bookie, Words(says={1: refused}))
    why = f"the bookie cannot list, and its lister at {WHERE} did not: {reason}"
    assert [replace(refused, status=AnswerStatus.UNSUPPORTED, groups=b"", detail=why)] == ask(
        lane, 1
    )
    assert ([], (Greeting.ANSWERED, f"{LISTER_SILENT}{why}")) == (bookie.read, lane.greeting())


def test_a_status_without_a_word_is_its_own_word() -> None:
    """A person must see why."""
    (answer,) = ask(
        both(Words(), Words(says={1: Answer("b1", 1, LOOK, 5, AnswerStatus.TOO_LARGE)})), 1
    )
    assert answer.detail.endswith(f"did not: {AnswerStatus.TOO_LARGE.value}")


def test_a_lister_that_listed_once_is_no_lister_that_does_not_list() -> None:
    """The ledger that it could not list is another matter. A bookie that fell silent since is
    silent.
    """
    doubt = Answer("b1", 2, LOOK, 5, AnswerStatus.REFUSED)
    bookie = Words()
    lane = both(bookie, Words(says={1: held(1, (0, 10)), 2: doubt}))
    ask(lane, 1)
    ask(lane, 2)
    assert (Greeting.ANSWERED, f"{LISTED_BY_LISTER}{WHERE}") == lane.greeting()
    bookie.greets = SILENT
    assert (Greeting.SILENT, f"its lister at {WHERE} answers; no route") == lane.greeting()


@pytest.mark.parametrize("status", [ReadStatus.SILENT, ReadStatus.TIMED_OUT, ReadStatus.REFUSED])
def test_a_listed_entry_that_cannot_be_read_leaves_its_ledger_as_the_read_ended(
    status: ReadStatus,
) -> None:
    """Nothing that the list names is believed then."""
    (answer,) = ask(both(Words(entry=lambda *_: status), Words(says={1: held(1, (0, 10))})), 1)
    assert (status.value, b"", 2) == (answer.status.value, answer.groups, answer.requests)
    assert answer.detail.startswith(
        f"the lister at {WHERE} lists entry "
    ) and answer.detail.endswith("; read: said")


@pytest.mark.parametrize("status", [PRESENT, ReadStatus.CORRUPT, ReadStatus.TOO_LARGE])
def test_a_listed_entry_that_is_there_in_any_form_confirms_the_list(status: ReadStatus) -> None:
    """Whether its bytes are right is for others to say."""
    (answer,) = ask(both(Words(entry=lambda *_: status), Words(says={1: held(1, (0, 10))})), 1)
    assert (AnswerStatus.HELD, TEN, True) == (answer.status, answer.groups, answer.is_from_lister)


@pytest.mark.parametrize("status", [NO_ENTRY, ReadStatus.INVALID])
def test_a_lister_that_its_bookie_contradicts_is_not_asked_again(status: ReadStatus) -> None:
    """Its lists are invalid, before and after; what the bookie says of other things stays."""
    bookie = Words(entry=lambda ledger, _: status if ledger == 2 else PRESENT)
    lister = Words(
        says={n: held(n, (0, 10)) for n in (1, 2, 3)}
        | {4: Answer("b1", 4, LOOK, 5, AnswerStatus.TIMED_OUT)}
    )
    lane = both(bookie, lister)
    first = ask(lane, 1, 2, 4)
    lister.asked.clear()
    later = ask(lane, 3)
    assert ([AnswerStatus.INVALID] * 2, AnswerStatus.UNSUPPORTED) == (
        [one.status for one in first[:2]],
        first[2].status,
    )
    assert [Answer("b1", 3, LOOK, NOW_MS, AnswerStatus.INVALID, detail=lane.contradiction)] == later
    assert {b""} == {one.groups for one in first} and {lane.contradiction} == {
        one.detail for one in first[:2]
    }
    assert lane.contradiction.startswith(f"{LISTER_CONTRADICTED}the lister at {WHERE} lists entry ")
    assert lane.contradiction.endswith(
        f" of ledger 2, but the bookie does not have it ({status.value})"
    )
    assert ([], (Greeting.ANSWERED, lane.contradiction)) == (lister.asked, lane.greeting())
    bookie.greets = SILENT
    assert Greeting.SILENT is lane.greeting()[0]
    unsupported = Answer("b1", 1, LOOK, 5, AnswerStatus.UNSUPPORTED, detail="why")
    assert unsupported == lane.unless_contradicted(unsupported)


@pytest.mark.parametrize("status", [PRESENT, ReadStatus.CORRUPT, ReadStatus.TOO_LARGE])
def test_a_list_that_is_too_early_is_no_list(status: ReadStatus) -> None:
    """All that it lacks is there."""
    (answer,) = ask(both(Words(entry=lambda *_: status), Words(says={1: held(1, (0, 4))})), 1)
    assert (AnswerStatus.UNSUPPORTED, b"") == (answer.status, answer.groups)
    assert (
        "entries that the lister at h:3182 does not list were read: not in the index"
        in answer.detail
    )


@pytest.mark.parametrize("status", [NO_ENTRY, ReadStatus.TIMED_OUT, ReadStatus.INVALID])
def test_a_list_of_which_an_entry_that_it_lacks_is_not_there_stays(status: ReadStatus) -> None:
    """What is lost must not be hidden by what is there."""
    (answer,) = ask(
        both(
            Words(entry=lambda _, e: status if e == 9 else PRESENT),
            Words(says={1: held(1, (0, 4))}),
        ),
        1,
    )
    assert (AnswerStatus.HELD, groups((0, 4))) == (answer.status, answer.groups)


LOST = (MissingLog("/ledgers/1.log", 6, ((4, 9),)),)
"""An entry log that the lister does not find, with the second half of ten entries."""


def test_what_a_bookie_sends_that_its_list_lacks_is_noted() -> None:
    """Also where the list is too early; but not what may lie in a log that the list leaves out."""
    few = held(1, (0, 4))
    (early,) = ask(both(Words(), Words(says={1: few})), 1)
    assert {*early.read_unlisted} <= {*range(4, 10)} and {4, 9} <= {*early.read_unlisted}
    lister = Words(says={1: replace(few, missing_logs=LOST)})
    (answer,) = ask(both(Words(), lister), 1)
    why = " entries in logs that the lister at h:3182 does not find were read"
    assert (AnswerStatus.UNSUPPORTED, True) == (answer.status, answer.detail.endswith(why))
    assert ((), ()) == (answer.missing_logs, answer.read_unlisted)


def test_what_is_left_out_and_what_is_sent_stand_beside_a_list() -> None:
    """An entry that the bookie does not send leaves both to the checkers."""
    lister = Words(says={1: replace(held(1, (0, 4)), missing_logs=LOST)})
    (answer,) = ask(both(Words(entry=lambda _, e: NO_ENTRY if e == 9 else PRESENT), lister), 1)
    assert (AnswerStatus.HELD, LOST) == (answer.status, answer.missing_logs)
    assert {*answer.read_unlisted} <= {*range(4, 9)} and 4 in answer.read_unlisted


@pytest.mark.parametrize("lost", [(), LOST])
def test_a_lister_that_is_contradicted_says_nothing_of_the_index(
    lost: tuple[MissingLog, ...],
) -> None:
    """It may read the index of another directory: what its list lacks is no sign."""
    bookie = Words(entry=lambda ledger, e: NO_ENTRY if ledger == 2 or e == 9 else PRESENT)
    says = {1: replace(held(1, (0, 4)), missing_logs=lost), 2: held(2, (0, 10))}
    lane = both(bookie, Words(says=says))
    (answer, _) = ask(lane, 1, 2)
    assert (AnswerStatus.INVALID, b"", lane.contradiction) == (
        answer.status,
        answer.groups,
        answer.detail,
    )
    assert ((), ()) == (answer.missing_logs, answer.read_unlisted)


@pytest.mark.parametrize("greeting", [Greeting.ANSWERED, Greeting.UNSUPPORTED])
@pytest.mark.parametrize(("detail", "reason"), [("so", "so"), ("", FOUND_OUT_BEFORE)])
def test_a_bookie_that_showed_that_it_cannot_list_is_not_asked_again(
    greeting: Greeting, detail: str, reason: str
) -> None:
    """Where its lister cannot be asked because the bookie says that it is unable; else with the
    lister's trouble.
    """
    bookie = Words((greeting, detail))
    lane = both(bookie, Words(REFUSED), is_unable=True)
    trouble = f"{LISTER_SILENT}{WHERE}: of another bookie"
    why = trouble if greeting is Greeting.ANSWERED else reason
    assert [
        Answer("b1", n, LOOK, NOW_MS, AnswerStatus.UNSUPPORTED, detail=why) for n in (4, 5)
    ] == ask(lane, 4, 5)
    assert {"greet"} == set(bookie.asked)


@pytest.mark.parametrize(
    ("greets", "is_unable"), [(ANSWERED, False), (SILENT, True), (SILENT, False)]
)
def test_without_its_lister_a_bookie_is_asked_itself(
    greets: tuple[Greeting, str], is_unable: bool
) -> None:
    """Unless it is known to be unable; one that is silent says so of each ledger."""
    bookie = Words(greets, {1: held(1, (0, 3))})
    assert [held(1, (0, 3))] == ask(both(bookie, Words(SILENT), is_unable=is_unable), 1)
    assert [1] == bookie.asked[-1]


def test_entries_late_lists_and_the_end_are_the_bookies() -> None:
    """The cost of greeting is that of both."""
    bookie, lister = Words(probes=3, has_late_lists=True), Words(probes=4)
    lane = both(bookie, lister)
    assert (7, True) == (lane.probes, lane.has_late_lists)
    assert [(1, 2)] == [
        (one.ledger_id, one.entry_id) for one in done(lane.reads([ReadQuestion(1, 2)]))
    ]
    assert [held(8, (0, 1))] == done(lane.settle_late_lists())
    done(lane.close())
    assert (["close"], "close") == (lister.asked, bookie.asked[-1])


def wanted(expected: bytes | None, listed: bytes, at: int = 0) -> tuple[int, ...]:
    answer = Answer("b1", 1, LOOK, at, AnswerStatus.HELD, listed)
    return reads_of(ListQuestion(1, 64, expected), answer)


def test_of_a_list_that_has_all_one_entry_is_read() -> None:
    """Any that the bookie should hold: another at another time, the same one in a replay."""
    due = groups((0, 5), (100, 5))
    drawn = {wanted(due, due, at) for at in range(200)}
    assert {(e,) for e in (*range(5), *range(100, 105))} == drawn
    assert [wanted(due, groups((0, 200)), at) for at in range(50)] == [
        wanted(due, due, at) for at in range(50)
    ]


def test_of_a_list_that_lacks_entries_some_of_these_are_read() -> None:
    """The first and the last among them, and none that it has."""
    due = groups((0, 1_000))
    for at in range(50):
        found = wanted(due, groups((0, 100), (900, 50)), at)
        assert ((100, 999), True) == (
            (found[0], found[-1]),
            set(found) <= {*range(100, 900), *range(950, 1_000)},
        )
        assert list(found) == sorted(set(found)) and len(found) <= UNLISTED_READS + 2
    assert UNLISTED_READS + 2 == max(len(wanted(due, groups((0, 100)), at)) for at in range(50))
    assert (4,) == wanted(groups((0, 5)), groups((0, 4)))


@pytest.mark.parametrize("expected", [None, b""])
def test_where_nothing_is_expected_nothing_is_read(expected: bytes | None) -> None:
    """Of an open ledger nobody knows what the bookie should hold."""
    assert () == wanted(expected, groups((0, 5)))


LISTERS = Listers("i", 3182, not_believed={"b2": "it lists what is not there"})


def opened(bookie: str, listers: Listers | None, **options: Any) -> AsyncLane:
    return open_lane(
        bookie, ("10.0.0.1", 3181), BookieLimits(), LOOK, lambda: NOW_MS, listers, **options
    )


def test_a_lane_without_a_lister_is_the_bookies_own() -> None:
    """Where no lister is asked, or none should be beside this bookie."""
    for listers in (None, Listers("i"), Listers("i", addresses={"b2": ("h", 1)})):
        assert AsyncLane is type(opened("b1", listers))


def test_what_was_not_believed_earlier_in_the_run_is_not_asked_again() -> None:
    """Of the bookie that denied it alone."""
    for bookie, contradiction in (("b1", ""), ("b2", "it lists what is not there")):
        lane = opened(bookie, LISTERS)
        assert isinstance(lane, LaneWithLister)
        assert contradiction == lane.contradiction


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Words, tuple[Any, ...], dict[str, Any]]]:
    """What lanes are made with: first the bookie's, then its lister's."""
    made: list[tuple[Words, tuple[Any, ...], dict[str, Any]]] = []

    class Made(Words):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__()
            made.append((self, args, options))

    monkeypatch.setattr("auditor.bookie.listers.AsyncLane", Made)
    monkeypatch.setattr("auditor.bookie.listers.ListerLane", Made)
    return made


def test_a_lane_is_opened_with_what_is_known_of_the_bookie(lanes: list[Any]) -> None:
    """Whether it listed or left lists unanswered, how long its lists may take, and whether it is
    unable.
    """
    limits, patience, now = BookieLimits(), cast(ListPatience, object()), lambda: NOW_MS
    lane = open_lane(
        "b1", ("h", 9), limits, LOOK, now, Listers("i", addresses={"b1": ("l", 4)}),
        has_listed=True, is_unable=True,
        unanswered_before=2, patience=patience,
    )  # fmt: skip
    (_, bookie, known), (lister, (identity, where, *rest), _) = lanes
    assert ("b1", "h", 9, limits, LOOK, now) == bookie
    assert {"has_listed": True, "unanswered_before": 2, "patience": patience} == known
    assert (("b1", "i"), ("l", 4), [limits, LOOK, now]) == (
        (identity.bookie_id, identity.instance_id),
        where,
        rest,
    )
    assert (Greeting.UNSUPPORTED, "its lister at l:4 answers") == done(lane.greet())
    lister.greets = REFUSED
    reason = f"{LISTER_SILENT}l:4: of another bookie"
    assert [Answer("b1", 7, LOOK, NOW_MS, AnswerStatus.UNSUPPORTED, detail=reason)] == ask(
        cast(LaneWithLister, lane), 7
    )


def test_of_a_bookie_of_which_nothing_is_known_nothing_is_assumed(lanes: list[Any]) -> None:
    """It may list, and it may be unable to. Its lister is on its own host where no map says
    otherwise.
    """
    lane = open_lane("b1", ("h", 9), BookieLimits(), LOOK, lambda: NOW_MS, Listers("i", 3182))
    (_, _, known), (_, (_, where, *_), _) = lanes
    assumed = {"has_listed": False, "unanswered_before": 0, "patience": None}
    assert (assumed, ("h", 3182)) == (known, where)
    assert (Greeting.ANSWERED, "its lister at h:3182 answers") == done(lane.greet())
