"""Ledgers too long to be looked at whole, with more list edges than are looked at: both checkers
agree.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from support.stories import LEDGER, NOW_MS, Bookie, State, Story, drive, list_answer
from support.vast_stories import VastStory, scattered, with_holes

from auditor.first_checker.ledger import judge
from auditor.judging.settle import settle_and_check
from auditor.model.availability import AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.evidence import LedgerEvidence, Look
from auditor.model.finding import RANGES_MAX, Kind
from auditor.model.identity import EntryId
from auditor.model.ledger import LedgerMetadata
from auditor.model.verdict import Unknown, Verdict
from auditor.sandbox.notation import ledger
from auditor.second_checker.agreement import _clip_to_blocks, differences, worst_entry_of
from auditor.second_checker.blocks import POINTS_MAX, Block
from auditor.second_checker.schedule import stretches

LAST = 5_000_000
MANY = sorted(scattered(Random(1), LAST, 3 * POINTS_MAX))
"""Holes of one list. Each has two edges, and every sixth edge is looked at."""
UNSUPPORTED = AnswerStatus.UNSUPPORTED


def committed(metadata: LedgerMetadata, bookies: dict[str, Bookie], **more: object) -> Verdict:
    """Return the verdict that both checkers support."""
    story = VastStory("long", (State(metadata, bookies),), more_terms=more)
    step, why = settle_and_check(drive(story).evidence, story.terms)
    assert "" == why
    return step.verdict


def drawn_on(metadata: LedgerMetadata, bookies: dict[str, Bookie], name: str, seed: int) -> EntryId:
    """Return the one entry, beside the ends, that is drawn on a bookie that cannot list."""
    story = VastStory(
        "long", (State(metadata, bookies),), more_terms={"probe_entries": 1, "probe_seed": seed}
    )
    reads = next(step.reads for _, step in drive(story).steps if step.reads)
    return next(
        entry
        for bookie, entry in reads
        if bookie == name and entry not in (0, LAST) and entry not in MANY
    )


def test_a_copy_that_was_read_and_is_unknown_is_looked_at_whatever_the_lists_say() -> None:
    """b3 cannot list, and one probe finds a wrong digest: only that entry is unknown there, and it
    is a reason.
    """
    metadata = ledger(f"e3 w3 a3 0:[b1 b2 b3] closed {LAST}")
    bookies = with_holes(metadata, {"b2": MANY})
    bookies["b3"] = replace(bookies["b3"], answer=UNSUPPORTED)
    for seed in range(3):
        bad = drawn_on(metadata, bookies, "b3", seed)
        hurt = {**bookies, "b3": replace(bookies["b3"], corrupt=frozenset({bad}))}
        verdict = committed(metadata, hurt, probe_entries=1, probe_seed=seed)
        assert ([Kind.ENTRY_BELOW_ACK_QUORUM], (Unknown.ANSWER_INVALID,)) == (
            [one.kind for one in verdict.findings],
            verdict.unknowns,
        )


def test_the_few_holes_of_one_list_are_looked_at_beside_the_many_of_another() -> None:
    """b1 omits readable entries from its list: what was not read there is unknown, and is not in
    any of b2's holes.
    """
    metadata = ledger(f"e3 w3 a3 0:[b1 b2 b3] closed {LAST}")
    for seed in range(5):
        left_out = sorted(scattered(Random(f"{seed} left out"), LAST, 8))
        bookies = with_holes(metadata, {"b2": MANY, "b1": left_out})
        bookies["b1"] = replace(bookies["b1"], holds=bookies["b3"].holds)
        assert (Unknown.ANSWER_INVALID,) == committed(metadata, bookies).unknowns


def test_entries_looked_for_elsewhere_are_looked_at_whatever_the_lists_say() -> None:
    """One of the entries without a copy is on no other bookie. It lies within a range, so nothing
    else names it.
    """
    metadata = ledger(f"e2 w2 a1 0:[b1 b2] closed {LAST}")
    lost = range(1_000_000, 1_000_100)
    bookies = with_holes(metadata, {"b1": lost, "b2": {*lost, *MANY}})
    around = Surroundings(writable=frozenset({"b1", "b2", "b3"}))
    for missing in (1_000_025, 1_000_050):  # two of the four searched entries
        there = {**bookies, "b3": Bookie(frozenset(lost) - {missing})}
        verdict = committed(metadata, there, around=around, stranded_entries_max=4)
        assert [Kind.ENTRY_WITHOUT_REPLICA] == [one.kind for one in verdict.findings]


def test_the_worst_entry_is_looked_at_though_nobody_read_it() -> None:
    """b1 and b2 lack the same entries, b3 lacks one of them and many others, which are unknown.
    That one entry is beyond the reported ranges, and its edges are not among those looked at.
    """
    others = scattered(Random(2), LAST, 3 * POINTS_MAX)
    metadata = ledger(f"e3 w3 a2 0:[b1 b2 b3] closed {LAST}")
    lacking = dict.fromkeys(("b1", "b2"), MANY)
    for worst in MANY[2 * RANGES_MAX : 2 * RANGES_MAX + 12]:
        state = State(metadata, with_holes(metadata, {**lacking, "b3": {worst, *others}}))
        story = Story("unread", (state,))
        answers = {b: list_answer(story, state, b, 0) for b in state.bookies}
        reads = {
            (b, MANY[0]): EntryRead(b, LEDGER, MANY[0], 0, NOW_MS, ReadStatus.NO_ENTRY)
            for b in lacking
        }
        verdict = judge(state.record(0), answers, reads, story.terms)
        assert [worst] == [worst_entry_of(one) for one in verdict.findings]
        asked = Look(state.record(0), answers, reads)
        looks = (asked, replace(asked, record=state.record(1)), Look(state.record(2)))
        assert () == differences(verdict, LedgerEvidence(LEDGER, looks), story.terms)


class Passed(tuple[tuple[EntryId, EntryId], ...]):
    """Ranges that count how often one of them is looked at."""

    times = 0

    def __getitem__(self, at: Any) -> Any:
        Passed.times += 1
        return super().__getitem__(at)

    def __iter__(self) -> Any:
        for one in super().__iter__():
            Passed.times += 1
            yield one


def test_comparing_ranges_costs_blocks_and_ranges_not_their_product() -> None:
    """A list of half a million holes and hundreds of blocks once took half a minute."""
    (part,) = stretches(ledger(f"e1 w1 a1 0:[b1] closed {LAST}"))
    blocks = [Block(part, low, low + 9) for low in range(0, 20_000, 20)]
    ranges = Passed((entry, entry + 2) for entry in range(0, 20_000, 4))
    Passed.times = 0
    found = _clip_to_blocks(ranges, blocks, None)
    assert Passed.times <= 4 * (len(blocks) + len(ranges))
    expected = [
        (max(first, block.low), min(last, block.high))
        for block in blocks[:20]
        for first, last in tuple(ranges)
        if first <= block.high and last >= block.low
    ]
    assert expected == found[: len(expected)]
