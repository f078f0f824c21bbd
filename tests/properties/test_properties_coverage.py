"""The whole judgement of one ledger agrees with the contract spelled out entry by entry, over
seeded stories.

Every failure names its seed: `support.stories.tell(seed)` makes that story again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from support.entry_by_entry import differences, judged_from_evidence
from support.quick_forms import few_or_all, one_in
from support.stories import (
    Driven,
    Story,
    drive,
    falsely_accused,
    judged_from_truth,
    stories,
    tails_in_a_crowd,
    unconfirmed,
    unprobed,
    with_doubts,
    with_lying_lists,
)

from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.judging.settle import Todo, reads_of_suspect, settle
from auditor.model.availability import AnswerStatus, ReadStatus
from auditor.model.evidence import Look
from auditor.model.finding import Family, Kind
from auditor.model.ledger import Segment
from auditor.model.verdict import Standing, Unknown

SWARM, FEW = 2_000, 700
READS_MAX_MIN = 4
"""With at least this many confirming reads, the worst entry is confirmed whatever the lists say."""


def problems(driven: Driven) -> list[str]:
    """Return everything wrong with how a story was judged: each step against its evidence, the end
    against the truth.
    """
    story = driven.story
    found = []
    for number, (evidence, step) in enumerate(driven.steps):
        if Unknown.UNSETTLED not in step.verdict.unknowns:
            said = differences(
                judged_from_evidence(evidence, story.terms, story.base), step.verdict
            )
            found += [f"step {number}: {one}" for one in said]
    if story.is_constant and story.is_honest:
        found += [f"accused, and there: {one}" for one in falsely_accused(driven)]
    if story.is_constant and story.is_honest and not story.is_sampled:
        found += [
            f"truth: {one}" for one in differences(judged_from_truth(driven), driven.step.verdict)
        ]
    if story.reads_max >= READS_MAX_MIN:
        found += [f"never read there: {one}" for one in unconfirmed(driven)]
        found += [f"never probed there: {one}" for one in unprobed(driven)]
    return found + _commitment_problems(driven)


def _commitment_problems(driven: Driven) -> list[str]:
    """Return each accusation on one look, one before the metadata was read again, and more looks
    than allowed.
    """
    looks, verdict, story = driven.evidence.looks, driven.step.verdict, driven.story
    found = []
    if (
        len(looks) > 2 * story.looks_max + 1
        or sum(bool(look.answers) for look in looks) > story.looks_max
    ):
        found.append(f"{len(looks)} looks, {story.looks_max} allowed")
    by_bookies = any(f.family is Family.ENTRY for f in verdict.findings)
    by_mark = any(f.kind is Kind.UNDERREPLICATED_UNRECOVERABLE for f in verdict.findings)
    if verdict.standing is Standing.VIOLATED and (
        len(looks) < 2 or (looks[-1].answers and (by_bookies or by_mark))
    ):
        found.append("accused without reading the metadata again")
    if by_bookies:
        record = looks[-1].record
        asked = sum(bool(look.answers) and look.record.stamp == record.stamp for look in looks)
        if asked < (1 if record.mark else 2):
            found.append(f"accused of missing entries after {asked} looks at this metadata")
    return found


def compare_reads_of_suspects(driven: Driven) -> int:
    """Return how many steps are known before a verdict: each is that of `settle`."""
    found = 0
    for evidence, step in driven.steps:
        early = reads_of_suspect(evidence, driven.story.terms)
        if early is not None:
            found += 1
            assert replace(step, verdict=early.verdict) == early, driven.story.name
            assert (Standing.INDETERMINATE, ()) == (early.verdict.standing, early.verdict.findings)
        elif step.todo is Todo.READS and len(evidence.looks) > 1:
            assert evidence.looks[-1].reads, driven.story.name
    return found


def compare_lists_of_suspects(driven: Driven) -> int:
    """Return how many steps say that the next look demands lists: it does if it reads the same."""
    found = 0
    for evidence, step in driven.steps:
        if step.asks_next:
            found += 1
            record = evidence.looks[-1].record
            same = replace(record, look=record.look + 1, read_at_ms=record.read_at_ms + 5)
            later = replace(evidence, looks=(*evidence.looks, Look(same)))
            following = settle(later, driven.story.terms)
            assert (Todo.LOOK, Todo.LISTS) == (step.todo, following.todo), driven.story.name
    return found


def check(stories: Iterable[Story]) -> Counter[str]:
    """Drive each story and compare. Raises at the first that is judged wrongly; returns what the
    stories were about.
    """
    seen: Counter[str] = Counter()
    for story in stories:
        driven = drive(story)
        wrong = problems(driven)
        assert not wrong, f"{story.name}: {wrong}"
        seen["reads without a verdict"] += compare_reads_of_suspects(driven)
        seen["lists known before"] += compare_lists_of_suspects(driven)
        verdict = driven.step.verdict
        seen[verdict.standing.word] += 1
        seen.update(finding.kind.value for finding in verdict.findings)
        seen.update(unknown.value for unknown in verdict.unknowns)
        seen.update([verdict.exempt.value] if verdict.exempt else [])
        seen["false negatives"] += verdict.listing_false_negatives > 0
        seen["worst entry with unknown copies"] += any(
            f.copies is not None and f.copies.unknown > 0 for f in verdict.findings
        )
        seen.update(["probed"] if verdict.probes else [])
        seen["probed and sound"] += (
            verdict.probes is not None and verdict.standing is Standing.SOUND
        )
        seen["probed and violated"] += verdict.probes is not None and any(
            f.family is Family.ENTRY for f in verdict.findings
        )
        seen["second round of reads"] += (
            sum(step.todo is Todo.READS for _, step in driven.steps) > 2
        )
    return seen


def everything(count: int = SWARM) -> Iterable[Story]:
    """Return the story that no seed makes, and the seeded ones."""
    return chain((tails_in_a_crowd(),), stories(count))


@pytest.fixture(scope="module")
def swarm() -> Counter[str]:
    """Assert that a few stories are judged rightly; return what they were about."""
    return check(everything(FEW))


@pytest.mark.long
def test_all_stories_are_judged_as_the_contract_says_entry_by_entry() -> None:
    """The law below, on every seed."""
    assert check(everything())


def test_every_story_is_judged_as_the_contract_says_entry_by_entry(swarm: Counter[str]) -> None:
    """Standing, reasons, kind, ranges, totals, copies and the worst entry equal those of sets and
    loops, at every step. The verdict on an honest cluster is that of its disks, and the worst entry
    was read wherever it counts as absent.
    """
    assert swarm["sound"] + swarm["exempt"] + swarm["indeterminate"] + swarm["violated"] == FEW + 1


@pytest.mark.parametrize("count", few_or_all(FEW // 4, SWARM // 4))
def test_every_story_of_copies_that_are_doubted_is_judged_as_the_contract_says(count: int) -> None:
    """Lists, digests and reads of a copy differ from look to look."""
    seen = check(with_doubts(story) for story in stories(count))
    assert min(seen["ENTRY_CORRUPT"], seen["answer_invalid"]) > count // 50, seen


@pytest.mark.parametrize("count", few_or_all(FEW // 4, SWARM // 4))
def test_every_story_of_lists_that_reads_contradict_is_judged_as_the_contract_says(
    count: int,
) -> None:
    """Bookies list entries that they deny, or cannot send, when they are read."""
    seen = check(with_lying_lists(story) for story in stories(count))
    assert min(seen["ENTRY_WITHOUT_REPLICA"], seen["bookie_refused"]) > count // 50, seen


@pytest.mark.parametrize(
    "subject",
    [
        *("sound", "exempt", "indeterminate", "violated"),
        *(
            "ENTRY_WITHOUT_REPLICA",
            "ENTRY_BELOW_ACK_QUORUM",
            "ENTRY_BELOW_WRITE_QUORUM",
            "ENSEMBLE_DUPLICATE_BOOKIE",
        ),
        *("UNDERREPLICATED_BEYOND_GRACE", "METADATA_MALFORMED"),
        *(
            "bookie_silent",
            "bookie_refused",
            "bookie_unsupported",
            "answer_timeout",
            "answer_invalid",
            "answer_too_large",
        ),
        *("address_unknown", "metadata_unreadable", "unsettled"),
        *("deleted", "marked_underreplicated", "open", "in_recovery", "empty"),
        *("false negatives", "worst entry with unknown copies", "second round of reads"),
        *("reads without a verdict", "lists known before"),
        *("probed", "probed and sound", "probed and violated", "ENTRY_CORRUPT"),
    ],
)
def test_the_stories_are_about_everything(swarm: Counter[str], subject: str) -> None:
    """A standing, kind or reason without a story would not be tested."""
    assert swarm[subject] >= 3


# Planted bugs: each must be noticed by the check above

Plant = Callable[[pytest.MonkeyPatch], None]


def _instead(target: str, make: Callable[[Any], Any]) -> Plant:
    """Replace `module.name` by what `make` makes of it."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        module_name, _, name = target.rpartition(".")
        module = __import__(module_name, fromlist=[name])
        monkeypatch.setattr(target, make(getattr(module, name)))

    return plant


def _of_class(target: str, name: str, make: Callable[[Any], Any]) -> Plant:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        module_name, _, class_name = target.rpartition(".")
        cls = getattr(__import__(module_name, fromlist=[class_name]), class_name)
        monkeypatch.setattr(cls, name, make(getattr(cls, name)))

    return plant


PROBED = "auditor.first_checker.probing.ProbedBookie"
SHARES, SOURCES = "auditor.first_checker.shares", "auditor.first_checker.shares"
SCHEDULE, COVERAGE = "auditor.first_checker.schedule", "auditor.first_checker.coverage"
ENTRIES, LEDGER = "auditor.first_checker.entries", "auditor.first_checker.ledger"
STATE = "auditor.judging.newest_state"


def _clipped(right: Any) -> Any:
    return lambda metadata: tuple(
        one._replace(last_entry_id=one.last_entry_id - 1) for one in right(metadata)
    )


def _lost_without_surplus(right: Any) -> Any:
    return lambda one: right(replace(one, surplus=()))


def _kinds_in_wrong_order(right: Any) -> Any:
    def found(ledger_id: Any, losses: Any, *seen: Any, **terms: Any) -> Any:
        metadata = replace(losses.metadata, ack_quorum=1)
        return right(ledger_id, losses._replace(metadata=metadata), *seen, **terms)

    return found


def _reads_absent_although_refused(right: Any) -> Any:
    return frozenset(
        {*right, ReadStatus.REFUSED, ReadStatus.FAILED, ReadStatus.TIMED_OUT, ReadStatus.SILENT}
    )


def _unknown_counts_as_held(right: Any) -> Any:
    def judged(*heard: Any, **terms: Any) -> Any:
        seen = right(*heard, **terms)
        extents = tuple(
            replace(one, shares=tuple(replace(share, unknown=EMPTY) for share in one.shares))
            for one in seen.extents
        )
        return replace(seen, extents=extents, reasons={})

    return judged


def _unknown_counts_as_absent(right: Any) -> Any:
    def judged(*heard: Any, **terms: Any) -> Any:
        seen = right(*heard, **terms)
        extents = tuple(
            replace(
                one,
                shares=tuple(
                    replace(share, absent=share.absent | share.unknown) for share in one.shares
                ),
            )
            for one in seen.extents
        )
        return replace(seen, extents=extents)

    return judged


PLANTED: dict[str, Plant] = {
    "the window is one entry off": _instead(
        f"{SCHEDULE}.window",
        lambda right: lambda first, position, e, w: right(first, position + 1, e, w),
    ),
    "entries are counted from the start of the segment": _instead(
        f"{SCHEDULE}.window",
        lambda right: lambda first, position, e, w: right(first, (position + first) % e, e, w),
    ),
    "whoever answers is healthy": _instead(
        f"{LEDGER}.is_healthy",
        lambda right: (
            lambda metadata, answers: (
                bool(answers)
                and all(answer.status is AnswerStatus.HELD for answer in answers.values())
            )
        ),
    ),
    "only the last bookie's answer must be right": _instead(
        f"{LEDGER}.is_healthy",
        lambda right: (
            lambda metadata, answers: any(
                right(
                    replace(
                        metadata, ensemble_size=1, write_quorum=1, segments=(Segment(0, (bookie,)),)
                    ),
                    answers,
                )
                for bookie in answers
            )
        ),
    ),
    "the window is one entry short": _instead(
        f"{SCHEDULE}.window",
        lambda right: lambda first, position, e, w: right(first, position, e, max(1, w - 1)),
    ),
    "the last entry of each segment is left out": _instead(f"{COVERAGE}.extents", _clipped),
    "the ack quorum is ignored": _instead(f"{LEDGER}.entry_findings", _kinds_in_wrong_order),
    "reads are ignored: a list that lacks is proof": _of_class(
        f"{SHARES}.Sifter",
        "share",
        lambda right: (
            lambda self, wants: right(
                replace(self, rest_is_absent=True, present=frozenset()), wants
            )
        ),
    ),
    "a read that was refused proves absence": _instead(
        f"{SHARES}.ABSENT_READS", _reads_absent_although_refused
    ),
    "unknown counts as held": _instead(f"{STATE}.coverage", _unknown_counts_as_held),
    "unknown counts as absent": _instead(f"{STATE}.coverage", _unknown_counts_as_absent),
    "a bookie that stands twice counts twice": _instead(
        f"{ENTRIES}._lost_entries", _lost_without_surplus
    ),
    "ranges are cut at two": _instead(f"{ENTRIES}.RANGES_MAX", lambda right: 2),
    "a silent bookie's answer is valid": _instead(
        f"{SOURCES}.VALID_ANSWERS",
        lambda right: frozenset({*right, AnswerStatus.SILENT, AnswerStatus.REFUSED}),
    ),
    "an unknown ledger is no answer": _instead(
        f"{SOURCES}.VALID_ANSWERS", lambda right: frozenset({AnswerStatus.HELD})
    ),
    "the tail defect is not known": _instead(f"{SHARES}.TAIL_PAGE_ENTRIES", lambda right: 2**70),
    "any entry may be the tail": _instead(f"{SHARES}.TAIL_PAGE_ENTRIES", lambda right: 1),
    "tails are not read first": _instead(
        "auditor.first_checker.confirmation._tails", lambda right: lambda found: {}
    ),
    "the worst entry is the last instead of the first": _of_class(
        "auditor.first_checker.entry_set.EntrySet", "first", lambda right: lambda self: self.last()
    ),
    "the worst entry disregards unknown copies": _instead(
        f"{ENTRIES}.worst_entry", lambda right: lambda lost, unknown, w: right(lost, (), w)
    ),
    "a mark excuses a confirmed loss": _instead(
        f"{LEDGER}._verdict",
        lambda right: (
            lambda record, exempt, parts, terms: right(
                record, exempt, replace(parts, mark=[]), terms
            )
        ),
    ),
    "a mark at its grace is beyond it": _instead(
        f"{LEDGER}.is_beyond_grace",
        lambda right: lambda mark, now, grace: right(mark, now + 1, grace),
    ),
    "only the mark's own time counts": _instead(
        f"{LEDGER}.is_beyond_grace",
        lambda right: lambda mark, now, grace: now - (mark.changed_ms or mark.created_ms) > grace,
    ),
    "metadata that changed counts as the same": _instead(
        "auditor.first_checker.recheck.same_state",
        lambda right: lambda one, other: one.status is other.status,
    ),
    "one look is enough": _instead(
        "auditor.first_checker.recheck.ASKED_LOOKS_OF_A_SUSPECT", lambda right: 1
    ),
    "looks have no bound": _instead(
        "auditor.judging.settle.next_step",
        lambda right: (
            lambda looks, *, must_ask, suspicion, looks_max: right(
                looks, must_ask=must_ask, suspicion=suspicion, looks_max=10**9
            )
        ),
    ),
    "a conclusive answer gives way to a later failure": _instead(
        "auditor.judging.newest_state._conclusive", lambda right: lambda read: False
    ),
    "a bookie that cannot list is believed before it is probed": _of_class(
        PROBED,
        "split_share",
        lambda right: lambda self, wants: right(replace(self, all_unknown=False), wants),
    ),
    "an entry that a probe did not find condemns the whole bookie": _of_class(
        PROBED,
        "split_share",
        lambda right: (
            lambda self, wants: right(replace(self, lacks_ledger=bool(self.absent)), wants)
        ),
    ),
    "an unknown ledger condemns only the entries probed": _of_class(
        PROBED,
        "split_share",
        lambda right: lambda self, wants: right(replace(self, lacks_ledger=False), wants),
    ),
    "the ends of segments are not probed": _instead(
        "auditor.first_checker.probing._some_ends",
        lambda right: lambda plan, bookie, wants: right(plan, bookie, wants)[:1],
    ),
    "a probe that failed is passed over": _of_class(
        PROBED,
        "split_share",
        lambda right: lambda self, wants: right(replace(self, failed=EMPTY), wants),
    ),
    "the sample is the same for every bookie": _instead(
        f"{SOURCES}.plan_probes",
        lambda right: lambda plan, bookie, wants: right(plan, "b1", wants),
    ),
    "an entry that some lack is not looked for where it cannot be listed": _instead(
        "auditor.first_checker.confirmation._is_open_to_probes",
        lambda right: lambda share, entry: False,
    ),
    "a corrupt copy is a copy": _instead(
        "auditor.judging.newest_state._is_corrupt", lambda right: lambda look, key: False
    ),
    "a wrong digest read once is corruption": _instead(
        "auditor.judging.newest_state.CORRUPT_READS_MIN", lambda right: 1
    ),
    "the difference of two sets keeps what both hold": _of_class(
        "auditor.first_checker.entry_set.EntrySet",
        "__sub__",
        lambda right: lambda self, other: self | EntrySet(),
    ),
}


@pytest.mark.parametrize("bug", one_in(5, PLANTED))
def test_the_check_notices_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above fails for a judgement with this bug."""
    PLANTED[bug](monkeypatch)
    with pytest.raises(Exception) as noticed:  # however the bug shows itself
        check(everything())
    assert not isinstance(noticed.value, TypeError | AttributeError), (
        "the bug was planted where it does not fit"
    )
