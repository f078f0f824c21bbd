"""Which entries are read before an entry counts as missing."""

from __future__ import annotations

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
)

from auditor.first_checker.confirmation import RESERVED_READS, wanted_reads
from auditor.first_checker.coverage import coverage
from auditor.model.availability import HIGHEST_STORED, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.ledger import LedgerMetadata
from auditor.sandbox.cluster import ledger

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


def test_a_missing_entry_is_read_on_every_bookie_that_lacks_it_and_no_other() -> None:
    """A missing entry is read on each bookie of its write set whose list lacks it, and nowhere
    else.
    """
    assert [("b1", 40), ("b3", 40)] == sorted(
        first_round(story_of(THREE, {"b1": {40}, "b3": {40}}))
    )


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


def test_the_reads_kept_back_are_for_the_lowest_corrupt_entry_too() -> None:
    """b1 lacks entries 10 and 12, too, of which b2 has corrupt copies. Entry 10 may be named by the
    finding.
    """
    lost = {"b1": {5, 10, 12, 40}, "b2": {40}, "b3": {40}}
    made = reads(ReadStatus.NO_ENTRY, ("b1", 40), ("b1", 5), ("b2", 40), ("b3", 40))
    before = reads(ReadStatus.CORRUPT, ("b2", 10), ("b2", 12))
    assert [("b2", 10), ("b2", 12), ("b1", 10)] == wanted(lost, 4, made=made, before=before)


def test_the_ends_of_what_two_bookies_lack_are_read_on_both() -> None:
    """50 is the last entry that both bookies lack, but neither an end nor a sample of what one of
    them lacks. It is read on both.
    """
    lost = {"b1": {0, 20, 50, *range(60, 100, 2)}, "b2": {1, 20, 50, *range(61, 100, 2)}}
    assert {("b1", 20), ("b2", 20), ("b1", 50), ("b2", 50)} <= set(wanted(lost, 16))
