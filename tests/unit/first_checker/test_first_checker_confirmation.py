"""Which entries are read before an entry counts as missing."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from support.entry_by_entry import expected_on
from support.stories import (
    LEDGER,
    Bookie,
    State,
    Story,
    drive,
    groups,
    judged_from_truth,
    unconfirmed,
)

from auditor.first_checker.confirmation import RESERVED_READS, wanted_reads
from auditor.first_checker.coverage import coverage
from auditor.first_checker.probing import ProbePlan
from auditor.model.availability import HIGHEST_STORED, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.finding import Family
from auditor.model.ledger import LedgerMetadata
from auditor.sandbox.notation import ledger

SEGMENTS = 12


def story_of(
    metadata: LedgerMetadata,
    lost: dict[str, set[int]],
    unlisted: dict[str, set[int]] | None = None,
    **more: object,
) -> Story:
    """Return a story in which bookies hold what they should, except what is lost; some of it is not
    listed.
    """
    bookies = {
        name: Bookie(
            frozenset(held - lost.get(name, set())), frozenset((unlisted or {}).get(name, ()))
        )
        for name, held in expected_on(metadata).items()
    }
    return replace(Story("one story", (State(metadata, bookies),)), **more)


def first_round(story: Story) -> tuple[tuple[str, int], ...]:
    """Return the reads that are wanted before any read."""
    return next((step.reads for _, step in drive(story).steps if step.reads), ())


THREE = ledger("e3 w3 0:[b1 b2 b3] closed 99")
CHANGED = ledger(
    "e3 w3 a2 "
    + " ".join(f"{100 * n}:[b1 b2 b{3 + n % 2}]" for n in range(SEGMENTS))
    + f" closed {100 * SEGMENTS}"
)


def test_a_sound_ledger_is_not_read() -> None:
    """Lists that lack nothing need no confirmation."""
    assert () == first_round(story_of(THREE, {}))


def test_a_missing_entry_is_read_on_every_bookie_that_lacks_it_and_no_other() -> None:
    """A missing entry is read on each bookie of its write set whose list lacks it, and nowhere
    else.
    """
    assert [("b1", 40), ("b3", 40)] == sorted(
        first_round(story_of(THREE, {"b1": {40}, "b3": {40}}))
    )


def test_a_long_run_is_read_at_its_ends_and_in_between() -> None:
    """The first and last missing entry are read, and a few inner ones; never the whole run."""
    asked = [entry for _, entry in first_round(story_of(THREE, {"b2": set(range(20, 90))}))]
    assert {20, 89} <= set(asked)
    assert 3 <= len([e for e in asked if 20 < e < 89]) <= 10


def test_the_last_entry_that_a_bookie_lacks_is_read_there_whatever_others_lack() -> None:
    """Bookie b1 lacks many entries far apart, and b2 lacks the outermost ones. The last entry that
    b2 lacks is read on b2.
    """
    lost = {"b1": set(range(10, 90, 4)), "b2": {5, 95}}
    assert {("b1", 10), ("b1", 86)} <= set(first_round(story_of(THREE, lost)))


def test_reads_on_one_bookie_are_bounded() -> None:
    """At most `reads_max` reads go to a bookie, whatever is lost, and the first round keeps some
    back.
    """
    every = {name: set(range(0, 1200, 2)) for name in ("b1", "b2", "b3", "b4")}
    for reads_max in (2, 3, 4, 8, 16):
        first = Counter(
            bookie for bookie, _ in first_round(story_of(CHANGED, every, reads_max=reads_max))
        )
        assert max(first.values()) <= max(2, reads_max - RESERVED_READS)
        drive(story_of(CHANGED, every, reads_max=reads_max))  # the lane has the same limit


def test_the_worst_entry_is_read_however_many_segments_lost_something_before_it() -> None:
    """Each of eleven segments lost an entry on b1, the twelfth lost one on three bookies: that one
    is read on all three.
    """
    lost = {"b1": {100 * n + 5 for n in range(SEGMENTS)}}
    worst = 100 * (SEGMENTS - 1) + 5
    lost |= {"b2": {worst}, "b4": {worst}, "b3": {worst}}
    driven = drive(story_of(CHANGED, lost, reads_max=4))
    (finding,) = driven.step.verdict.findings
    assert worst == finding.facts.worst_entry
    assert [] == unconfirmed(driven)


def test_a_tail_that_may_be_left_out_is_always_read() -> None:
    """The last entry begins an index page and no list has it, while every segment lost entries on
    all bookies. It reads back, so it is not among the missing entries, however few reads are
    allowed.
    """
    metadata = replace(CHANGED, last_entry_id=1024)
    metadata = replace(
        metadata, segments=tuple(s for s in metadata.segments if s.first_entry_id <= 1024)
    )
    lost = {name: {100 * n + 5 for n in range(SEGMENTS)} for name in ("b1", "b2", "b3", "b4")}
    unlisted = {name: {1024} for name in metadata.segments[-1].ensemble}
    for reads_max in (2, 3, 4, 16):
        story = story_of(metadata, lost, unlisted, reads_max=reads_max)
        driven = drive(story)
        assert story.is_honest
        (finding,) = driven.step.verdict.findings
        assert judged_from_truth(driven).entries[-1] == finding.entries[-1][1] < 1024
        assert (
            0
            == driven.step.verdict.listing_false_negatives
            - judged_from_truth(driven).false_negatives
        )


def test_a_list_that_leaves_out_readable_entries_cannot_hide_what_others_lack() -> None:
    """b2 omits everything from its list and has it all, b1 lacks everything: the worst entry of the
    finding was read on b1.
    """
    for seed in range(20):
        draw = random.Random(seed)
        lost = {"b1": {e for e in range(100) if draw.random() < 0.7}}
        story = story_of(
            THREE,
            lost,
            {"b2": {e for e in range(100) if draw.random() < 0.8}},
            reads_max=draw.randint(4, 16),
        )
        assert [] == unconfirmed(drive(story)), f"seed {seed}"


def test_a_bookie_that_fails_to_read_is_not_asked_for_ever() -> None:
    """A bookie that fails reads stays unknown after one round: it is not asked for ever."""
    story = story_of(THREE, {"b1": {3}, "b2": set(range(100))}, reads_max=16)
    state = story.states[0]
    bookies = {**state.bookies, "b2": replace(state.bookies["b2"], read=ReadStatus.TIMED_OUT)}
    driven = drive(replace(story, states=(replace(state, bookies=bookies),)))
    rounds = [{b for b, _ in step.reads} for _, step in driven.steps if step.reads]
    assert "b2" in rounds[0]
    assert sum("b2" in one for one in rounds) == 2, "once at each look"


@pytest.mark.parametrize("reads_max", [2, 4, 16])
def test_nothing_is_wanted_once_everything_wanted_was_read(reads_max: int) -> None:
    """The rounds of reads end by themselves, long before the bound on steps."""
    story = story_of(
        CHANGED, {"b1": set(range(0, 1201, 7)), "b2": set(range(0, 1201, 5))}, reads_max=reads_max
    )
    assert len(drive(story).steps) <= 10


def test_without_answers_nothing_is_wanted() -> None:
    """Without answers no bookie can be read."""
    assert () == wanted_reads(coverage(THREE, {}, {}), 3, {}, 16)


# Bookies that cannot list

PROBED = {"probe_entries": 3, "probe_seed": 5}


def mute(story: Story, *bookies: str) -> Story:
    """Return evidence in which these bookies cannot list."""
    (state,) = story.states
    unable = {
        n: replace(b, answer=AnswerStatus.UNSUPPORTED) if n in bookies else b
        for n, b in state.bookies.items()
    }
    return replace(story, states=(replace(state, bookies=unable),), more_terms=PROBED)


def rounds(story: Story) -> list[set[tuple[str, int]]]:
    """Return the reads of each round, first to last."""
    return [set(step.reads) for _, step in drive(story).steps if step.reads]


def test_a_sound_ledger_of_bookies_that_cannot_list_takes_one_round_of_probes() -> None:
    """Only the planned probes are made, and one read of the highest entry, at one look."""
    story = mute(story_of(THREE, {}), "b1", "b2", "b3")
    (only,) = rounds(story)
    assert {"b1": 6, "b2": 6, "b3": 6} == Counter(bookie for bookie, _ in only)
    assert {(b, e) for b in ("b1", "b2", "b3") for e in (0, 99)} <= only
    assert len(drive(story).evidence.looks) == 1


def test_probes_go_from_the_highest_entry_down_bookie_by_bookie() -> None:
    """A bookie reads ahead upwards, and would serve what it has read ahead from memory."""
    unable = {b: Answer(b, LEDGER, 0, 0, AnswerStatus.UNSUPPORTED) for b in ("b1", "b2", "b3")}
    found = coverage(THREE, unable, {}, probing=ProbePlan(LEDGER, 3, 5))
    down = [(b, e) for b in unable for e in sorted(found.probed[b].planned.all, reverse=True)]
    assert down == list(wanted_reads(found, 3, {}, 16))


def test_an_entry_that_one_probe_does_not_find_is_looked_for_on_the_others() -> None:
    """What b1 lacks at its ends is read on its neighbours in the next round, and again at the
    second look.
    """
    metadata = ledger("e3 w3 0:[b1 b2 b3] 50:[b1 b4 b5] closed 99")
    inner = sorted(expected_on(metadata)["b1"])[20]
    story = mute(story_of(metadata, {"b1": set(range(100))}), "b1", "b2", "b3", "b4", "b5")
    first, second, *_ = rounds(story)
    lacking = {e for b, e in first if b == "b1"}
    assert {0, 49, 50, 99} <= lacking
    assert inner not in lacking
    assert lacking == {e for b, e in first | second if b in ("b2", "b4")} & lacking
    looks = drive(story).evidence.looks
    for look in (look for look in looks if look.answers):
        assert {("b2", e) for e in lacking if e < 50} | {
            ("b4", e) for e in lacking if e >= 50
        } <= look.reads.keys()


def test_an_entry_that_a_list_lacks_is_probed_on_those_that_cannot_list() -> None:
    """An entry that is confirmed missing on a bookie with a list is probed, in the same round, on
    those without one.
    """
    first, *_ = rounds(mute(story_of(THREE, {"b1": {40}}), "b2", "b3"))
    assert {("b1", 40), ("b2", 40), ("b3", 40)} <= first


def test_an_entry_with_a_wrong_digest_is_looked_for_where_it_cannot_be_listed() -> None:
    """After a probe finds a wrong digest on b1, b2 is read: it may have a good copy."""
    story = mute(story_of(THREE, {}), "b1", "b2")
    drawn = next(
        entry
        for bookie, entry in sorted(rounds(story)[0])
        if bookie == "b1" and ("b2", entry) not in rounds(story)[0]
    )
    (state,) = story.states
    bad = {**state.bookies, "b1": replace(state.bookies["b1"], corrupt=frozenset({drawn}))}
    assert {("b2", drawn)} == rounds(replace(story, states=(replace(state, bookies=bad),)))[1]


def test_an_entry_with_a_wrong_digest_is_looked_for_where_a_list_lacks_it() -> None:
    """b3 lacks entry 40, b2 has it with a wrong digest, and the long run that b1 lacks was read at
    other entries: 40 is read on b1, too.
    """
    story = mute(story_of(THREE, {"b1": set(range(17, 80)), "b3": {40}}), "b2")
    (state,) = story.states
    bad = {**state.bookies, "b2": replace(state.bookies["b2"], corrupt=frozenset({41}))}
    first, second, *_ = rounds(
        replace(
            story, states=(replace(state, bookies=bad),), more_terms={**PROBED, "probe_entries": 98}
        )
    )
    assert ("b2", 41) in first - second
    assert ("b1", 41) in second - first


def test_an_entry_that_a_doubled_bookie_makes_the_worst_is_read_where_it_cannot_be_listed() -> None:
    """Entry 3 was written to b1 twice and nowhere else. If b1 lost it, it is lost, whatever else is
    there. If b1 lists it, nothing is read.
    """
    metadata = ledger("e3 w2 a1 0:[b3 b4 b5] 1:[b1 b1 b2] closed 99")
    assert ("b1", 3) in rounds(mute(story_of(metadata, {}), "b1"))[0]
    assert ("ENTRY_WITHOUT_REPLICA", 3) == worst_of(mute(story_of(metadata, {"b1": {3}}), "b1"))
    assert [] == rounds(story_of(metadata, {}))
    assert {"b3"} == {
        bookie for one in rounds(mute(story_of(metadata, {}), "b3")) for bookie, _ in one
    }


def worst_of(story: Story) -> tuple[str, int]:
    """Return the kind and the lowest entry of the finding on entries."""
    (found,) = (one for one in drive(story).step.verdict.findings if one.family is Family.ENTRY)
    return found.kind.value, found.entries[0][0]


@pytest.mark.parametrize("reads_max", [2, 4, 16])
def test_probes_beyond_the_plan_are_bounded_as_confirming_reads_are(reads_max: int) -> None:
    """If a bookie lost everything, its neighbours are not read from end to end."""
    story = mute(
        story_of(CHANGED, {"b1": set(range(1201))}, reads_max=reads_max), "b1", "b2", "b3", "b4"
    )
    for look in drive(story).evidence.looks:
        made = Counter(bookie for bookie, entry in look.reads if entry != HIGHEST_STORED)
        planned = {b: 2 * sum(b in s.ensemble for s in CHANGED.segments) + 3 for b in made}
        assert all(count <= planned[bookie] + reads_max for bookie, count in made.items())


def test_a_corrupt_copy_is_read_again_at_the_next_look() -> None:
    """A corrupt copy is read again even if it was not a probe but an entry that another bookie
    lacked, and that bookie lists it by then.
    """
    story = mute(story_of(THREE, {"b1": {40}}), "b2")
    state = story.states[0]
    bad = {**state.bookies, "b2": replace(state.bookies["b2"], corrupt=frozenset({40}))}
    back = {**bad, "b1": replace(bad["b1"], holds=bad["b1"].holds | {40})}
    driven = drive(
        replace(story, states=(replace(state, bookies=bad), replace(state, bookies=back)))
    )
    asked = [look for look in driven.evidence.looks if look.answers]
    assert [ReadStatus.CORRUPT, ReadStatus.CORRUPT] == [
        look.reads["b2", 40].status for look in asked
    ]


# Round by round, without a story


def lists(metadata: LedgerMetadata, lost: dict[str, set[int]]) -> dict[str, Answer]:
    """Return answers in which every bookie lists what it should hold, except what it lost."""
    said = {b: groups(held - lost.get(b, set())) for b, held in expected_on(metadata).items()}
    return {b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, held) for b, held in said.items()}


def reads(status: ReadStatus, *copies: tuple[str, int]) -> dict[tuple[str, int], EntryRead]:
    return {(b, e): EntryRead(b, LEDGER, e, 0, 0, status) for b, e in copies}


def wanted(
    lost: dict[str, set[int]],
    reads_max: int,
    metadata: LedgerMetadata = THREE,
    made: dict[tuple[str, int], EntryRead] | None = None,
    before: dict[tuple[str, int], EntryRead] | None = None,
) -> list[tuple[str, int]]:
    """Return what is still to be read, after the reads `made` at this look and those made `before`
    it.
    """
    found = coverage(metadata, lists(metadata, lost), {**(before or {}), **(made or {})})
    return list(wanted_reads(found, metadata.write_quorum, made or {}, reads_max))


THIRD = {"b1": set(range(0, 100, 3))}


@pytest.mark.parametrize(
    ("reads_max", "count"), [(2, 2), (3, 2), (4, 2), (5, 3), (6, 4), (7, 5), (16, 5)]
)
def test_the_first_round_keeps_some_reads_back(reads_max: int, count: int) -> None:
    """At least two reads are made: the worst entry first, then the ends, then a quarter, a half and
    three quarters of the rest.
    """
    assert [("b1", e) for e in (0, 99, 24, 51, 75)][:count] == wanted(THIRD, reads_max)


def test_behind_the_first_round_only_a_worst_entry_is_read() -> None:
    """Once the worst entry was read, no further read teaches anything, however many are left."""
    assert [] == wanted(THIRD, 16, made=reads(ReadStatus.NO_ENTRY, ("b1", 0)))


def test_the_reads_kept_back_are_for_the_worst_entries_of_other_segments() -> None:
    """Each of twelve segments lost one entry on the same bookie. The reads kept back are spent on
    them.
    """
    lost = {"b1": {100 * n + 5 for n in range(SEGMENTS)}}
    first, second = [("b1", 5), ("b1", 105)], [("b1", 205), ("b1", 305)]
    assert first == wanted(lost, 4, CHANGED)
    assert second == wanted(lost, 4, CHANGED, reads(ReadStatus.NO_ENTRY, *first))
    assert [] == wanted(lost, 4, CHANGED, reads(ReadStatus.NO_ENTRY, *first, *second))


def test_segments_that_lack_nothing_are_passed_over() -> None:
    """Only the last of twelve segments lacks an entry, and it is read."""
    assert [("b1", 1105)] == wanted({"b1": {1105}}, 16, CHANGED)


def test_corrupt_copies_are_read_again_within_the_bound() -> None:
    """Copies found corrupt at an earlier look are read again. Reads of this look count, for each
    bookie by itself.
    """
    before = reads(ReadStatus.CORRUPT, *(("b1", e) for e in range(10, 15)), ("b2", 20))
    assert [("b1", 10), ("b1", 11), ("b1", 12), ("b2", 20)] == wanted({}, 3, before=before)
    for made, left in ((1, [11, 12]), (2, [12]), (3, [])):
        again = reads(ReadStatus.CORRUPT, *(("b1", e) for e in range(10, 10 + made)), ("b2", 20))
        assert [("b1", e) for e in left] == wanted({}, 3, made=again, before=before)


def test_corrupt_copies_leave_the_rest_of_the_bound_to_what_is_lacking() -> None:
    """Three reads go to corrupt copies; one of the four reads of the first round is left for
    missing entries.
    """
    before = reads(ReadStatus.CORRUPT, ("b1", 10), ("b1", 11), ("b1", 12))
    lost = {"b1": set(range(50, 100))}
    corrupt = [("b1", 10), ("b1", 11), ("b1", 12)]
    assert corrupt == wanted(lost, 4, before=before)
    assert [*corrupt, ("b1", 50)] == wanted(lost, 6, before=before)


def test_a_corrupt_copy_comes_behind_the_worst_entry_and_before_those_of_other_segments() -> None:
    """Entries 105 and 205 each lost two copies, in a segment of their own. Entry 305 has a wrong
    digest on b2, and the list of b1 lacks it.
    """
    lost = {"b1": {105, 205, 305}, "b4": {105}, "b3": {205}}
    before = reads(ReadStatus.CORRUPT, ("b2", 305))
    order = [("b2", 305), ("b1", 105), ("b4", 105), ("b1", 305), ("b1", 205), ("b3", 205)]
    assert order == wanted(lost, 16, CHANGED, before=before)


def test_the_reads_kept_back_are_for_the_lowest_corrupt_entry_too() -> None:
    """b1 lacks entries 10 and 12, too, of which b2 has corrupt copies. Entry 10 may be named by the
    finding.
    """
    lost = {"b1": {5, 10, 12, 40}, "b2": {40}, "b3": {40}}
    made = reads(ReadStatus.NO_ENTRY, ("b1", 40), ("b1", 5), ("b2", 40), ("b3", 40))
    before = reads(ReadStatus.CORRUPT, ("b2", 10), ("b2", 12))
    assert [("b2", 10), ("b2", 12), ("b1", 10)] == wanted(lost, 4, made=made, before=before)


def test_a_tail_is_read_first_where_it_ends_what_a_bookie_should_hold() -> None:
    """Of the last segment only b2 holds an entry, after the first lost one: this is a tail and read
    first. Before other segments it would not be a tail.
    """
    metadata = ledger("e3 w1 0:[b1 b2 b3] 1024:[b1 b2 b3] closed 1024")
    assert [("b2", 1024), ("b2", 1)] == wanted({"b2": {1, 4, 1024}}, 2, metadata)
    metadata = ledger("e1 w1 0:[b1] 1025:[b1] closed 2000")
    assert [("b1", 5), ("b1", 1500)] == wanted({"b1": {5, 1024, 1500}}, 2, metadata)
    assert [("b1", 5), ("b1", 2000)] == wanted({"b1": {5, 2000}}, 2, metadata), (
        "no index page begins there"
    )


@pytest.mark.parametrize(
    ("status", "is_asked_again"), [(ReadStatus.NO_ENTRY, True), (ReadStatus.PRESENT, False)]
)
def test_a_bookie_that_has_what_it_does_not_list_is_not_asked_again(
    status: ReadStatus, is_asked_again: bool
) -> None:
    """b2 returned an entry that its list lacks: everything else it lacks stays unknown. If it had
    not, its worst entry would be read.
    """
    lost = {"b2": {5, 105, 205}}
    expected = [("b2", 105), ("b2", 205)] if is_asked_again else []
    assert expected == wanted(lost, 4, CHANGED, reads(status, ("b2", 5)))


def test_a_tail_that_is_there_raises_no_doubt_about_the_rest() -> None:
    """The list omitted the tail, as bookies do: everything else it lacks is still read."""
    metadata = ledger("e1 w1 0:[b1] 500:[b1] closed 1024")
    tail = reads(ReadStatus.PRESENT, ("b1", 1024))
    assert [("b1", 5), ("b1", 600)] == wanted({"b1": {5, 600, 1024}}, 16, metadata, tail)


def test_the_ends_of_what_two_bookies_lack_are_read_on_both() -> None:
    """50 is the last entry that both bookies lack, but neither an end nor a sample of what one of
    them lacks. It is read on both.
    """
    lost = {"b1": {0, 20, 50, *range(60, 100, 2)}, "b2": {1, 20, 50, *range(61, 100, 2)}}
    assert {("b1", 20), ("b2", 20), ("b1", 50), ("b2", 50)} <= set(wanted(lost, 16))


def test_in_later_rounds_too_segments_that_lack_nothing_are_passed_over() -> None:
    """The first of twelve segments lacks nothing, the second was read: the last is read next."""
    assert [("b1", 1105)] == wanted(
        {"b1": {105, 1105}}, 4, CHANGED, reads(ReadStatus.NO_ENTRY, ("b1", 105))
    )


def test_what_a_doubted_bookie_lacks_moves_no_worst_entry() -> None:
    """b2 returned 5, which its list lacks, so its list does not prove that 50 is missing: 60 on b1
    is the worst entry.
    """
    assert [("b1", 60)] == wanted(
        {"b1": {60}, "b2": {5, 50}}, 16, made=reads(ReadStatus.PRESENT, ("b2", 5))
    )


def test_a_copy_that_was_there_at_an_earlier_look_is_not_read_again() -> None:
    """b2 omits its tail from the list but has it. That b1 lost the tail does not change this."""
    metadata = ledger("e2 w2 0:[b1 b2] closed 1024")
    made, before = reads(ReadStatus.NO_ENTRY, ("b1", 1024)), reads(ReadStatus.PRESENT, ("b2", 1024))
    assert [] == wanted({"b1": {1024}, "b2": {1024}}, 16, metadata, made, before)
