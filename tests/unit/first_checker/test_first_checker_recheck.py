"""When a verdict is final: every transition of the second look, in a notation of one word for each
look.

A letter is what ZooKeeper said: A to F metadata (another letter means another write), M N
undecodable bytes, U unreadable, G gone. `!` means that the bookies were asked at this look, `+`
that the ledger was marked.
"""

from __future__ import annotations

import random

import pytest
from support.looks import looks
from support.stories import NOW_MS, Bookie, State, Story, drive

from auditor.first_checker.recheck import (
    Instruction,
    Next,
    Suspicion,
    newest_state_start,
    next_step,
    same_state,
)
from auditor.judging.settle import Todo
from auditor.model.availability import AnswerStatus
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.model.verdict import Exempt, Standing, Unknown
from auditor.sandbox.cluster import ledger

NONE, CURABLE, INCURABLE = Suspicion.NONE, Suspicion.CURABLE, Suspicion.INCURABLE
MARKED, STATIC, REMARK = Suspicion.MARKED, Suspicion.STATIC, Suspicion.REMARK
COMMIT = Instruction(Next.COMMIT)
ASK = Instruction(Next.ASK)
UNSETTLED = Instruction(Next.UNSETTLED)
AGAIN_LATER = Instruction(Next.LOOK_AGAIN, wait=True)
CLOSE = Instruction(Next.LOOK_AGAIN, wait=False)
LOOKS_MAX = 3


@pytest.mark.parametrize(
    ("text", "must_ask", "suspicion", "wanted"),
    [
        # a ledger whose bookies have to be asked
        ("A", True, CURABLE, ASK),
        ("A!", True, NONE, COMMIT),
        ("A!", True, INCURABLE, COMMIT),
        ("A!", True, CURABLE, AGAIN_LATER),
        ("A! A", True, CURABLE, ASK),
        ("A! A!", True, CURABLE, CLOSE),
        ("A! A!", True, NONE, COMMIT),
        ("A! A! A", True, CURABLE, COMMIT),
        ("A! A! A", True, NONE, COMMIT),
        # it changed: what was seen before no longer counts
        ("A! B", True, CURABLE, ASK),
        ("A! B!", True, NONE, COMMIT),
        ("A! B!", True, CURABLE, AGAIN_LATER),
        ("A! B! B", True, CURABLE, ASK),
        ("A! B! B!", True, CURABLE, CLOSE),
        ("A! B! B! B", True, CURABLE, COMMIT),
        ("A! A! B", True, CURABLE, ASK),
        ("A! A! B!", True, CURABLE, UNSETTLED),  # a third delay would be necessary
        # and changed until the looks were used up
        ("A! B! C", True, CURABLE, ASK),
        ("A! B! C!", True, CURABLE, UNSETTLED),
        ("A! B! C!", True, NONE, COMMIT),
        ("A! B! C!", True, REMARK, CLOSE),
        ("A! B! C! C", True, CURABLE, UNSETTLED),
        ("A! B! C! D", True, CURABLE, UNSETTLED),
        ("A! A! B! B", True, CURABLE, UNSETTLED),
        ("A! B! A! A", True, CURABLE, UNSETTLED),  # a change back is a change, too
        # it also changed at looks without questions: one look more than those that ask, and no
        # further
        ("M N M", True, CURABLE, ASK),
        ("M N M A", True, CURABLE, ASK),
        ("M N M N A", True, CURABLE, UNSETTLED),
        ("M N M A!", True, CURABLE, UNSETTLED),
        ("M N M N A!", True, CURABLE, UNSETTLED),
        ("M N A! B!", True, REMARK, CLOSE),
        ("M N A! B! C!", True, REMARK, UNSETTLED),
        ("M N M", False, CURABLE, UNSETTLED),
        # gone
        ("G", False, CURABLE, AGAIN_LATER),
        ("G G", False, CURABLE, COMMIT),
        ("A! G", False, CURABLE, COMMIT),
        ("G A", True, CURABLE, ASK),
        ("G A!", True, NONE, COMMIT),
        # marked: nobody is asked
        ("A+", False, NONE, COMMIT),
        ("A+", False, CURABLE, AGAIN_LATER),
        ("A+ A+", False, CURABLE, COMMIT),
        (
            "A+ B+",
            False,
            MARKED,
            COMMIT,
        ),  # a ledger that is being repaired changes; its mark stands
        ("A+ B+", False, CURABLE, AGAIN_LATER),  # what else it is accused of was read only once
        ("A+", False, MARKED, AGAIN_LATER),
        ("A! A+", False, NONE, COMMIT),
        ("A! A+", False, CURABLE, COMMIT),
        ("A! B+", False, CURABLE, AGAIN_LATER),
        ("A! B+", False, NONE, COMMIT),
        ("A+ A", True, CURABLE, ASK),
        # marked, and asked all the same: a mark may hide a loss
        ("A+", True, NONE, ASK),
        ("A+!", True, NONE, COMMIT),
        ("A+!", True, MARKED, AGAIN_LATER),
        ("A+! A+", True, MARKED, COMMIT),
        ("A+! B+", True, MARKED, ASK),  # nothing was asked about its present state
        ("A+! B+!", True, MARKED, COMMIT),
        ("A! A+", True, NONE, COMMIT),
        ("A! A+", True, MARKED, ASK),  # marked at one look only
        ("A! A+!", True, MARKED, CLOSE),
        ("A! A+! A!", True, MARKED, CLOSE),  # marked only at the look before
        ("A+! B+! C+! D+", True, MARKED, UNSETTLED),
        # what metadata alone shows: read twice alike, asked about once
        ("A!", True, STATIC, AGAIN_LATER),
        ("A! A", True, STATIC, COMMIT),
        ("A! B", True, STATIC, ASK),
        ("A! B!", True, STATIC, AGAIN_LATER),
        ("A! B! B", True, STATIC, COMMIT),
        ("A", False, STATIC, AGAIN_LATER),
        ("A A", False, STATIC, COMMIT),
        ("A B", False, STATIC, AGAIN_LATER),
        # a remark: one more look, without a delay
        ("A!", True, REMARK, CLOSE),
        ("A! A", True, REMARK, COMMIT),
        ("A", False, REMARK, CLOSE),
        ("A A", False, REMARK, COMMIT),
        ("A B", False, REMARK, COMMIT),
        # undecodable: read twice alike before it accuses
        ("M", False, CURABLE, AGAIN_LATER),
        ("M M", False, CURABLE, COMMIT),
        ("M N", False, CURABLE, AGAIN_LATER),
        ("M N N", False, CURABLE, COMMIT),
        ("A! M", False, CURABLE, AGAIN_LATER),
        ("M A", True, CURABLE, ASK),
        ("M A!", True, NONE, COMMIT),
        ("A+ M+", False, CURABLE, AGAIN_LATER),
        ("M+ M+", False, CURABLE, COMMIT),
        ("M N M N", False, CURABLE, UNSETTLED),
        # unreadable
        ("U", False, CURABLE, AGAIN_LATER),
        ("U U", False, CURABLE, COMMIT),
        ("U A", True, CURABLE, ASK),
        ("A! U", False, CURABLE, AGAIN_LATER),
        ("A! U A", True, CURABLE, ASK),
        (
            "A! U A!",
            True,
            CURABLE,
            UNSETTLED,
        ),  # the state after the gap may be another incarnation
        # nothing to ask and no suspicion
        ("A", False, NONE, COMMIT),
        ("A", False, CURABLE, AGAIN_LATER),
        ("A A", False, CURABLE, COMMIT),
        ("A B", False, CURABLE, AGAIN_LATER),
        ("A B C D", False, CURABLE, UNSETTLED),
    ],
)
def test_what_the_looks_so_far_demand(
    text: str, must_ask: bool, suspicion: Suspicion, wanted: Instruction
) -> None:
    """The whole table of the second look."""
    assert wanted == next_step(
        looks(text), must_ask=must_ask, suspicion=suspicion, looks_max=LOOKS_MAX
    )


@pytest.mark.parametrize(
    ("text", "index"),
    [("A", 0), ("A A", 0), ("A B", 1), ("A B B", 1), ("B A B", 2), ("A U U", 1), ("A M", 1)],
)
def test_what_was_seen_counts_from_the_last_change_on(text: str, index: int) -> None:
    """The first of the newest looks with the same metadata."""
    assert index == newest_state_start(looks(text))


def test_a_mark_is_no_change_of_the_metadata() -> None:
    """The mark is another znode."""
    before, after = looks("A A+")
    assert same_state(before.record, after.record)


def test_another_incarnation_of_a_ledger_is_a_change() -> None:
    """If a ledger was deleted and recreated, the version is the same but the czxid is not."""
    one = LedgerRecord(7, 0, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0))
    other = LedgerRecord(7, 1, 0, RecordStatus.FOUND, ZnodeStamp(2, 0, 0))
    assert not same_state(one, other)


@pytest.mark.parametrize("looks_max", range(2, 8))
def test_every_sequence_of_looks_ends(looks_max: int) -> None:
    """Whatever ZooKeeper says, at most 2 * looks_max + 1 looks, of which looks_max ask."""
    for words in (
        "A B",
        "A G",
        "A U",
        "M N",
        "A M",
        "A+ B",
        "U G",
        "A B C D E F",
        "A",
        "A A+",
        "A U M B+",
    ):
        alphabet = words.split()
        taken: list[str] = []
        for number in range(100):
            taken.append(alphabet[number % len(alphabet)])
            must_ask = taken[-1] in "ABCDEF"
            step = next_step(
                looks(" ".join(taken)), must_ask=must_ask, suspicion=CURABLE, looks_max=looks_max
            )
            if step.next is Next.ASK:
                taken[-1] += "!"
                step = next_step(
                    looks(" ".join(taken)), must_ask=True, suspicion=CURABLE, looks_max=looks_max
                )
            if step.next in (Next.COMMIT, Next.UNSETTLED):
                break
        assert len(taken) <= 2 * looks_max + 1, (words, taken)
        assert sum("!" in word for word in taken) <= looks_max, (words, taken)


# The same with verdicts: the outcome of whole stories

METADATA = ledger("e2 w2 a1 0:[b1 b2] closed 9")
ALL = frozenset(range(10))
GRACE_AGO, LONG_AGO = Mark(NOW_MS), Mark(0)


def state(b1: Bookie, b2: Bookie = Bookie(ALL), **more: object) -> State:  # noqa: B008 - frozen
    return State(METADATA, {"b1": b1, "b2": b2}, **more)  # type: ignore[arg-type]


WELL, SHORT, LOST = (
    state(Bookie(ALL)),
    state(Bookie(ALL - {4})),
    state(Bookie(ALL - {4}), Bookie(ALL - {4})),
)
MUTE = state(Bookie(ALL, answer=AnswerStatus.SILENT))
OLD_VERSION = state(Bookie(ALL, answer=AnswerStatus.UNSUPPORTED))


def marked(one: State, mark: Mark) -> State:
    return State(one.metadata, one.bookies, version=one.version, mark=mark)


def changed(one: State, version: int) -> State:
    return State(one.metadata, one.bookies, version=version)


def without(status: RecordStatus, version: int = 9) -> State:
    return State(None, status=status, version=version)


UNREADABLE, GONE = without(RecordStatus.UNREADABLE), without(RecordStatus.GONE)
BAD, WORSE = without(RecordStatus.MALFORMED), without(RecordStatus.MALFORMED, 10)


@pytest.mark.parametrize(
    ("name", "states", "standing", "reason", "kinds", "look_count"),
    [
        ("sound at once", [WELL], "sound", None, [], 1),
        (
            "short of copies at both looks",
            [SHORT],
            "violated",
            None,
            [Kind.ENTRY_BELOW_WRITE_QUORUM],
            3,
        ),
        ("short, then repaired in place", [SHORT, WELL], "sound", None, [], 2),
        (
            "marked at the second look",
            [SHORT, marked(SHORT, GRACE_AGO)],
            "exempt",
            Exempt.MARKED_UNDERREPLICATED,
            [],
            2,
        ),
        (
            "marked at the second look, and long ago",
            [SHORT, marked(SHORT, LONG_AGO)],
            "violated",
            Exempt.MARKED_UNDERREPLICATED,
            [Kind.ENTRY_BELOW_WRITE_QUORUM, Kind.UNDERREPLICATED_BEYOND_GRACE],
            3,
        ),
        (
            "lost, and marked then",
            [LOST, marked(LOST, GRACE_AGO)],
            "violated",
            None,
            [Kind.UNDERREPLICATED_UNRECOVERABLE],
            3,
        ),
        (
            "lost and marked",
            [marked(LOST, GRACE_AGO)],
            "violated",
            None,
            [Kind.UNDERREPLICATED_UNRECOVERABLE],
            3,
        ),
        (
            "marked within grace",
            [marked(SHORT, GRACE_AGO)],
            "exempt",
            Exempt.MARKED_UNDERREPLICATED,
            [],
            1,
        ),
        (
            "marked long ago",
            [marked(WELL, LONG_AGO)],
            "violated",
            None,
            [Kind.UNDERREPLICATED_BEYOND_GRACE],
            2,
        ),
        ("marked long ago, then not", [marked(WELL, LONG_AGO), WELL], "sound", None, [], 2),
        ("changed once, and well", [SHORT, changed(WELL, 1)], "sound", None, [], 2),
        (
            "changed once, short still",
            [SHORT, changed(SHORT, 1)],
            "violated",
            None,
            [Kind.ENTRY_BELOW_WRITE_QUORUM],
            4,
        ),
        (
            "changed for ever",
            [changed(SHORT, n) for n in range(30)],
            "indeterminate",
            Unknown.UNSETTLED,
            [],
            3,
        ),
        ("short, then gone", [LOST, GONE], "exempt", Exempt.DELETED, [], 2),
        ("gone", [GONE], "exempt", Exempt.DELETED, [], 2),
        ("gone at first, then back and well", [GONE, WELL], "sound", None, [], 2),
        (
            "gone at first, then back and short",
            [GONE, SHORT],
            "violated",
            None,
            [Kind.ENTRY_BELOW_WRITE_QUORUM],
            4,
        ),
        ("undecodable twice alike", [BAD], "violated", None, [Kind.METADATA_MALFORMED], 2),
        ("undecodable, then fine", [BAD, WELL], "sound", None, [], 2),
        (
            "undecodable each time otherwise",
            [BAD, WORSE] * 9,
            "indeterminate",
            Unknown.UNSETTLED,
            [],
            3,
        ),
        (
            "undecodable once, while marked",
            [
                marked(WELL, LONG_AGO),
                State(None, status=RecordStatus.MALFORMED, mark=LONG_AGO),
                marked(WELL, LONG_AGO),
            ],
            "violated",
            None,
            [Kind.UNDERREPLICATED_BEYOND_GRACE],
            3,
        ),
        ("unreadable", [UNREADABLE], "indeterminate", Unknown.METADATA_UNREADABLE, [], 2),
        ("unreadable once", [UNREADABLE, WELL], "sound", None, [], 2),
        (
            "a bookie that cannot list",
            [OLD_VERSION],
            "indeterminate",
            Unknown.BOOKIE_UNSUPPORTED,
            [],
            1,
        ),
        ("silent, then answering", [MUTE, WELL], "sound", None, [], 2),
        ("silent at both looks", [MUTE], "indeterminate", Unknown.BOOKIE_SILENT, [], 3),
        ("silent, then short", [MUTE, SHORT], "violated", None, [Kind.ENTRY_BELOW_WRITE_QUORUM], 3),
        ("short, then silent", [SHORT, MUTE], "violated", None, [Kind.ENTRY_BELOW_WRITE_QUORUM], 3),
    ],
)
def test_what_becomes_of_a_story(
    name: str,
    states: list[State],
    standing: str,
    reason: object,
    kinds: list[Kind],
    look_count: int,
) -> None:
    """From the first look to the final verdict, with as many looks as that takes."""
    driven = drive(Story(name, tuple(states)))
    verdict = driven.step.verdict
    assert standing == verdict.standing.word
    assert kinds == sorted(finding.kind for finding in verdict.findings)
    assert reason is None or reason in (verdict.exempt, *verdict.unknowns)
    assert look_count == len(driven.evidence.looks)


def test_only_a_second_opinion_waits() -> None:
    """The look that only closes a verdict comes without a delay."""
    driven = drive(Story("short", (SHORT,)))
    assert [True, False] == [step.wait for _, step in driven.steps if step.todo is Todo.LOOK]
    assert driven.step.verdict.standing is Standing.VIOLATED


@pytest.mark.parametrize("looks_max", [2, 3, 5, 20])
def test_a_ledger_that_keeps_changing_is_waited_for_twice_at_most(looks_max: int) -> None:
    """A run waits at most two delays for a ledger, however many looks are allowed and whatever it
    changes to.
    """
    for words in ("A B", "A A B", "M N", "A U", "A B C D E F", "A M", "U A"):
        alphabet, taken, waits = words.split(), list[str](), list[int]()
        for number in range(looks_max + 2):
            taken.append(alphabet[number % len(alphabet)])
            must_ask = taken[-1] in "ABCDEF"
            seen = looks(" ".join(taken))
            step = next_step(seen, must_ask=must_ask, suspicion=CURABLE, looks_max=looks_max)
            if step == ASK:
                taken[-1] += "!"
                seen = looks(" ".join(taken))
                step = next_step(seen, must_ask=True, suspicion=CURABLE, looks_max=looks_max)
            if step.wait:
                waits.append(number)
            if step.next is not Next.LOOK_AGAIN:
                break
        assert set(waits) <= {0, 1}, (words, taken)


@pytest.mark.parametrize("seed", range(300))
def test_whatever_a_ledger_does_it_settles_within_the_bound(seed: int) -> None:
    """Metadata may change and marks may come and go at every look: it takes at most `looks_max` + 2
    looks.
    """
    chance = random.Random(seed)
    instructions: list[str] = []
    for _ in range(LOOKS_MAX + 2):
        instructions.append(chance.choice("ABCMUG") + chance.choice(["", "", "+"]))
        must_ask = instructions[-1][0] in "ABC" and "+" not in instructions[-1]
        suspicion = MARKED if "+" in instructions[-1] and chance.random() < 0.5 else CURABLE
        step = next_step(
            looks(" ".join(instructions)),
            must_ask=must_ask,
            suspicion=suspicion,
            looks_max=LOOKS_MAX,
        )
        if step == ASK:
            instructions[-1] += "!"
            seen, suspicion = (
                looks(" ".join(instructions)),
                chance.choice([CURABLE, REMARK, REMARK]),
            )
            step = next_step(seen, must_ask=True, suspicion=suspicion, looks_max=LOOKS_MAX)
        if step.next in (Next.COMMIT, Next.UNSETTLED):
            return
    pytest.fail(f"seed {seed}: still open after {instructions}")
