"""What every bookie of every write set holds, lacks, or leaves unknown: single laws beside the
random cases of tests/properties.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.entry_by_entry import expected_on
from support.stories import LEDGER, groups

from auditor.first_checker.coverage import Answers, coverage, is_healthy
from auditor.first_checker.probing import REASON_OF_ANSWER, REASON_OF_READ
from auditor.first_checker.shares import BookieShare
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus, SequenceGroup
from auditor.model.ledger import LedgerMetadata
from auditor.sandbox.cluster import holds, ledger
from auditor.wire.entry_availability import canonical


def answer(
    bookie: str, text: str | None = None, status: AnswerStatus = AnswerStatus.HELD
) -> Answer:
    """Return an answer with a list of these runs, or with another status."""
    runs = [SequenceGroup(first, first, last - first + 1, 0) for first, last in holds(text or "")]
    return Answer(bookie, LEDGER, 0, 0, status, canonical(runs))


def answers(**texts: str) -> dict[str, Answer]:
    return {bookie: answer(bookie, text) for bookie, text in texts.items()}


def reads(*results: tuple[str, int, ReadStatus]) -> dict[tuple[str, int], EntryRead]:
    return {
        (bookie, entry): EntryRead(bookie, LEDGER, entry, 0, 0, status)
        for bookie, entry, status in results
    }


def sound(metadata: LedgerMetadata) -> dict[str, Answer]:
    """Return answers in which every bookie holds what it should."""
    return {
        b: Answer(b, LEDGER, 0, 0, AnswerStatus.HELD, groups(held))
        for b, held in expected_on(metadata).items()
    }


def share(
    metadata: LedgerMetadata, bookie: str, said: Answers, read: Mapping[tuple[str, int], EntryRead]
) -> BookieShare:
    """Return the bookie's part of the first extent."""
    (found,) = [
        one for one in coverage(metadata, said, read).extents[0].shares if one.bookie_id == bookie
    ]
    return found


ONE = ledger("e1 w1 0:[b1] closed 9")
NO_ENTRY, PRESENT = ReadStatus.NO_ENTRY, ReadStatus.PRESENT


def test_the_healthy_path_believes_nothing_but_equality() -> None:
    """If one entry is added, removed or moved, or one answer is missing or of another kind, the
    closer look decides.
    """
    metadata = ledger("e3 w2 0:[b1 b2 b3] closed 19")
    for bookie in ("b1", "b2", "b3"):
        held = expected_on(metadata)[bookie]
        for wrong in (
            held - {max(held)},
            held - {min(held)},
            held | {40},
            {e + 1 for e in held},
            set(),
        ):
            said = Answer(bookie, LEDGER, 0, 0, AnswerStatus.HELD, groups(wrong))
            assert not is_healthy(metadata, {**sound(metadata), bookie: said})
        for status in set(AnswerStatus) - {AnswerStatus.HELD}:
            assert not is_healthy(
                metadata,
                {**sound(metadata), bookie: Answer(bookie, LEDGER, 0, 0, status, groups(held))},
            )
        assert not is_healthy(
            metadata, {b: one for b, one in sound(metadata).items() if b != bookie}
        )


def test_segments_of_more_than_two_to_the_31_entries_are_judged() -> None:
    """One hole in 2^40 entries is one range."""
    metadata = ledger(f"e2 w2 0:[b1 b2] closed {2**40}")
    hole = 2**39
    said = {
        "b1": _long("b1", [(0, hole - 1), (hole + 1, 2**40)]),
        "b2": _long("b2", [(0, 2**40)]),
    }
    found = share(metadata, "b1", said, reads(("b1", hole, NO_ENTRY)))
    assert ((hole, hole),) == found.absent.ranges(9)
    assert not share(metadata, "b2", said, {}).lacking


def _long(bookie: str, runs: list[tuple[int, int]]) -> Answer:
    """Return runs longer than a group can hold, cut as the canonical form cuts them."""
    cut = 2**31 - 1
    pieces = [
        SequenceGroup(a, a, min(cut, last - a + 1), 0)
        for first, last in runs
        for a in range(first, last + 1, cut)
    ]
    return Answer(bookie, LEDGER, 0, 0, AnswerStatus.HELD, canonical(pieces))


def test_what_a_list_lacks_is_unknown_until_it_was_read() -> None:
    """A list alone proves nothing."""
    found = share(ONE, "b1", answers(b1="0-3 6-9"), {})
    assert (0, 2) == (found.absent.count(), found.unknown.count())
    assert ((4, 5),) == found.lacking.ranges(9)


@pytest.mark.parametrize("last", [0, 1024, 2048, 5 * 1024])
def test_the_known_tail_defect_says_nothing_about_the_rest(last: int) -> None:
    """The last entry, at a multiple of 1024, is not listed but reads back: the rest of the list is
    believed.
    """
    metadata = ledger(f"e1 w1 0:[b1] closed {last}")
    said = answers(b1=f"0-{last - 3}") if last else answers(b1="")
    tail = reads(("b1", last, PRESENT))
    if last:
        found = share(metadata, "b1", said, {**tail, **reads(("b1", last - 1, NO_ENTRY))})
        assert (((last - 2, last - 1),), 0) == (found.absent.ranges(9), found.unknown.count())
    else:
        found = share(metadata, "b1", said, tail)
        assert (0, 0) == (found.absent.count(), found.unknown.count())


@pytest.mark.parametrize("status", sorted(REASON_OF_READ))
def test_a_read_that_failed_leaves_what_was_not_read_unknown(status: ReadStatus) -> None:
    """The unread entries are unknown for the failed read's reason; what another read proved absent
    stays absent.
    """
    said, read = answers(b1="0-3"), reads(("b1", 4, status), ("b1", 5, NO_ENTRY))
    found = share(ONE, "b1", said, read)
    assert (((5, 5),), 5) == (found.absent.ranges(9), found.unknown.count())
    assert (REASON_OF_READ[status],) == coverage(ONE, said, read).unknowns


@pytest.mark.parametrize("status", sorted(REASON_OF_ANSWER))
def test_no_valid_answer_is_unknown_never_absent(status: AnswerStatus) -> None:
    """Without a valid answer everything the bookie should hold is unknown, for the answer's reason.
    No read changes that, unless the bookie failed to list: then a read counts for its entry.
    """
    said = {"b1": answer("b1", "", status)}
    found = share(ONE, "b1", said, reads(("b1", 4, NO_ENTRY)))
    absent = 1 if status is AnswerStatus.FAILED else 0
    assert (absent, 10 - absent, 0) == (
        found.absent.count(),
        found.unknown.count(),
        found.lacking.count(),
    )
    assert (REASON_OF_ANSWER[status],) == coverage(ONE, said, {}).unknowns


def test_a_bookie_twice_in_a_write_set_holds_one_copy() -> None:
    """If one bookie has two positions in an entry's write set, the entry counts as surplus once for
    the second position.
    """
    extent = coverage(ledger("e4 w2 0:[a a b b] closed 7"), {}, {}).extents[0]
    assert [[0, 4], [2, 6]] == sorted([first for first, _ in one.runs()] for one in extent.surplus)
    assert 2 == len(extent.shares)
    thrice = coverage(ledger("e3 w3 0:[a a a] closed 7"), {}, {}).extents[0]
    assert [8, 8] == [one.count() for one in thrice.surplus]


def test_a_bookie_twice_but_never_in_one_write_set_costs_nothing() -> None:
    """E=4 W=1: a bookie with two positions has no entry on both."""
    assert () == coverage(ledger("e4 w1 0:[a b a b] closed 7"), {}, {}).extents[0].surplus


# Gone bookies, and corrupt copies
