"""What every bookie of every write set holds, lacks, or leaves unknown: single laws beside the
random cases of tests/properties.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.entry_by_entry import expected_on
from support.stories import LEDGER, groups

from auditor.first_checker.coverage import Answers, coverage, is_healthy
from auditor.first_checker.entry_set import EMPTY
from auditor.first_checker.probing import REASON_OF_ANSWER, REASON_OF_READ
from auditor.first_checker.shares import BookieShare
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus, SequenceGroup
from auditor.model.ledger import LedgerMetadata
from auditor.model.verdict import BookieLack, CopyCounts, Unknown
from auditor.sandbox.notation import holds, ledger
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


@pytest.mark.parametrize("size", range(1, 8))
def test_a_healthy_ledger_is_healthy_whatever_its_quorums(size: int) -> None:
    """A healthy ledger is healthy for any length, also with E - W >= 2, where a search that stops
    at the first gap finds nearly everything missing.
    """
    for write in range(1, size + 1):
        for last in (0, 1, size - 1, 2 * size, 19, 40):
            metadata = ledger(
                f"e{size} w{write} 0:[{' '.join(f'b{n}' for n in range(size))}] closed {last}"
            )
            said = sound(metadata)
            assert is_healthy(metadata, said), (size, write, last)
            seen = coverage(metadata, said, {})
            assert not any(
                one.lacking or one.absent or one.unknown for one in seen.extents[0].shares
            )


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


@pytest.mark.parametrize(
    "text",
    [
        "e3 w2 0:[b1 b2 b3] 10:[b1 b2 b4] closed 19",
        "e3 w2 0:[b1 b2 b1] closed 19",
        "e3 w2 0:[b1 b2 b3] open",
        "e3 w2 0:[b1 b2 b3] closed",
        "e3 w2 0:[b1 b2 b3] closed -1",
        "e3 w4 0:[b1 b2 b3] closed 19",
        "e3 w2 closed 19",
    ],
)
def test_the_healthy_path_is_for_one_clear_segment_of_distinct_bookies(text: str) -> None:
    """Any other metadata takes the closer look, however healthy it is."""
    metadata = ledger(text)
    every = {b: answer(b, "0-40") for b in ("b1", "b2", "b3", "b4")}
    assert not is_healthy(metadata, every)


def test_a_bookie_that_should_hold_nothing_need_not_answer() -> None:
    """E=3 W=1, two entries: the third bookie is neither asked nor missed."""
    metadata = ledger("e3 w1 0:[b1 b2 b3] closed 1")
    assert is_healthy(metadata, answers(b1="0", b2="1"))


def test_behind_a_bookie_that_should_hold_nothing_the_others_are_looked_at() -> None:
    """E=3 W=1, entries 2 and 3: the third and the first bookie are examined, though the second
    holds nothing.
    """
    metadata = ledger("e3 w1 2:[b1 b2 b3] closed 3")
    assert is_healthy(metadata, answers(b1="3", b3="2"))
    assert not is_healthy(metadata, answers(b1="3", b3=""))


def test_a_bookie_that_left_and_rejoined_is_judged_by_all_its_stripes() -> None:
    """The gap where the bookie was away is not a loss. A search that begins inside a gap would find
    every later entry missing.
    """
    metadata = ledger("e3 w2 0:[b1 b2 b3] 10:[b1 b4 b3] 20:[b1 b2 b3] closed 29")
    seen = coverage(metadata, sound(metadata), {})
    assert not any(one.lacking for extent in seen.extents for one in extent.shares)


def test_after_a_run_of_losses_later_entries_are_still_there() -> None:
    """Entries 1 to 4 are lost and 5 is held: nothing after the loss is missing."""
    found = share(
        ledger("e1 w1 0:[b1] closed 5"), "b1", answers(b1="0 5"), reads(("b1", 1, NO_ENTRY))
    )
    assert ((1, 4),) == found.absent.ranges(9)


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


def test_one_read_confirms_what_is_not_contradicted() -> None:
    """NO_ENTRY for one entry of a run makes the whole run absent."""
    for status in (ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER):
        found = share(ONE, "b1", answers(b1="0-3 6-9"), reads(("b1", 4, status)))
        assert (2, 0) == (found.absent.count(), found.unknown.count())


def test_what_reads_back_is_a_copy_and_leaves_the_unread_rest_unknown() -> None:
    """An entry that reads back proves the list wrong, so only what was read is known; the reason is
    the list's.
    """
    said, read = answers(b1="0-3 9"), reads(("b1", 4, PRESENT), ("b1", 5, NO_ENTRY))
    found = share(ONE, "b1", said, read)
    assert (((5, 5),), ((6, 8),)) == (found.absent.ranges(9), found.unknown.ranges(9))
    seen = coverage(ONE, said, read)
    assert ((Unknown.ANSWER_INVALID,), 1) == (seen.unknowns, seen.false_negatives)


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


def test_a_tail_that_reads_back_elsewhere_is_no_tail_defect() -> None:
    """Entry 1023 as the last one, or 1024 but not the last: the list is wrong."""
    found = share(
        ledger("e1 w1 0:[b1] closed 1023"),
        "b1",
        answers(b1="0-1020"),
        reads(("b1", 1023, PRESENT), ("b1", 1022, NO_ENTRY)),
    )
    assert (((1022, 1022),), ((1021, 1021),)) == (found.absent.ranges(9), found.unknown.ranges(9))
    found = share(
        ledger("e1 w1 0:[b1] closed 1030"),
        "b1",
        answers(b1="0-1020 1026-1030"),
        reads(("b1", 1024, PRESENT), ("b1", 1023, NO_ENTRY)),
    )
    assert 3 == found.unknown.count()


def test_the_tail_is_the_last_entry_the_bookie_should_hold_not_that_of_the_segment() -> None:
    """E=2 W=1, entries 0 to 1025: b1 holds the even ones, so 1024 is its last entry."""
    metadata = ledger("e2 w1 0:[b1 b2] closed 1025")
    held = expected_on(metadata)["b1"] - {1024, 2}
    said = {**sound(metadata), "b1": Answer("b1", LEDGER, 0, 0, AnswerStatus.HELD, groups(held))}
    found = share(metadata, "b1", said, reads(("b1", 1024, PRESENT), ("b1", 2, NO_ENTRY)))
    assert (((2, 2),), 0) == (found.absent.ranges(9), found.unknown.count())


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


def test_every_status_is_a_valid_answer_or_has_a_reason() -> None:
    """Each status is either a valid answer or has a reason."""
    assert set(AnswerStatus) == {*REASON_OF_ANSWER, AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER}
    assert set(ReadStatus) == {
        *REASON_OF_READ,
        ReadStatus.PRESENT,
        ReadStatus.NO_ENTRY,
        ReadStatus.NO_LEDGER,
    }


def test_a_bookie_nobody_heard_of_is_silent() -> None:
    """A bookie without any answer counts as silent."""
    assert (Unknown.BOOKIE_SILENT,) == coverage(ONE, {}, {}).unknowns


def test_an_unknown_ledger_is_an_empty_list() -> None:
    """ENOLEDGER means absence, which a read must confirm."""
    said = {"b1": answer("b1", "", AnswerStatus.NO_SUCH_LEDGER)}
    assert 10 == share(ONE, "b1", said, {}).unknown.count()
    assert 10 == share(ONE, "b1", said, reads(("b1", 0, ReadStatus.NO_LEDGER))).absent.count()


def test_a_bookie_without_a_share_gives_no_reason() -> None:
    """A silent bookie that should hold nothing gives no reason."""
    metadata = ledger("e3 w1 0:[b1 b2 b3] closed 1")
    assert () == coverage(metadata, answers(b1="0", b2="1"), {}).unknowns


def test_reads_of_one_bookie_say_nothing_about_another() -> None:
    """b2's list is confirmed only by b2's reads."""
    metadata = ledger("e2 w2 0:[b1 b2] closed 9")
    said = answers(b1="0-8", b2="0-8")
    found = share(metadata, "b2", said, reads(("b1", 9, NO_ENTRY)))
    assert (0, 1) == (found.absent.count(), found.unknown.count())


def test_a_bookie_twice_in_a_write_set_holds_one_copy() -> None:
    """If one bookie has two positions in an entry's write set, the entry counts as surplus once for
    the second position.
    """
    extent = coverage(ledger("e4 w2 0:[a a b b] closed 7"), {}, {}).extents[0]
    assert [[0, 4], [2, 6]] == sorted([first for first, _ in one.runs()] for one in extent.surplus)
    assert 2 == len(extent.shares)
    thrice = coverage(ledger("e3 w3 0:[a a a] closed 7"), {}, {}).extents[0]
    assert [8, 8] == [one.count() for one in thrice.surplus]


@pytest.mark.parametrize(
    ("promised", "listed", "text"),
    [
        (60, 40, "e3 w2 a2 0:[b1 b2 b3] 10:[b1 b2 b3] 10:[b1 b2 b4] 20:[b2 b3 b4] closed 29"),
        (90, 30, "e3 w3 a2 0:[b1 b1 b1] closed 29"),
        (60, 60, "e3 w2 a2 0:[b1 b2 b3] 10:[b1 b2 b4] closed 29"),
        (20, 20, "e3 w2 a2 0:[b1 b2 b3] 10:[b1 b2 b4] closed"),
        (0, 0, "e3 w2 a2 0:[b1 b2 b3] closed -1"),
    ],
)
def test_every_promised_copy_is_counted_and_what_is_not_clear_is_not_verified(
    promised: int, listed: int, text: str
) -> None:
    """The number of promised copies is entries times write quorum, also with a doubled
    firstEntryId, or a bookie three times in an ensemble. Unclear ones are not verified.
    """
    metadata = ledger(text)
    assert CopyCounts(promised, listed, 0, 0) == coverage(metadata, sound(metadata), {}).copies


def test_a_ledger_without_a_clear_segment_promises_copies_all_the_same() -> None:
    """With an ensemble of another size nobody knows where the copies are, but they are promised."""
    assert CopyCounts(20, 0, 0, 0) == coverage(ledger("e3 w2 a2 0:[b1 b2] closed 9"), {}, {}).copies


def test_a_bookie_twice_but_never_in_one_write_set_costs_nothing() -> None:
    """E=4 W=1: a bookie with two positions has no entry on both."""
    assert () == coverage(ledger("e4 w1 0:[a b a b] closed 7"), {}, {}).extents[0].surplus


def test_extra_entries_are_no_violation_and_are_kept_as_held() -> None:
    """Entries beyond the last one and of other stripes are kept as held."""
    metadata = ledger("e2 w1 0:[b1 b2] closed 3")
    seen = coverage(metadata, answers(b1="0-9", b2="0-9"), {})
    assert not any(one.lacking for one in seen.extents[0].shares)
    assert 10 == seen.held["b1"].count()


# Gone bookies, and corrupt copies


def test_a_bookie_that_is_gone_lacks_all_it_should_hold() -> None:
    """Everything it should hold is absent, without a reason and without a read. An earlier answer
    of it does not matter.
    """
    metadata = ledger("e3 w2 0:[b1 b2 b3] 10:[b1 b4 b3] closed 19")
    said = {b: one for b, one in sound(metadata).items() if b != "b1"}
    for heard in (
        said,
        {**said, "b1": answer("b1", "", AnswerStatus.UNREGISTERED)},
        sound(metadata),
    ):
        seen = coverage(metadata, heard, {}, gone={"b1"})
        mine = [one for extent in seen.extents for one in extent.shares if one.bookie_id == "b1"]
        assert [(one.expected, EMPTY) for one in mine] == [
            (one.absent, one.unknown) for one in mine
        ]
        assert () == seen.unknowns
        wanted = len(expected_on(metadata)["b1"])
        assert (BookieLack("b1", wanted, wanted),) == seen.lacks


def test_what_a_bookie_lacks_is_counted_over_all_extents() -> None:
    """Only bookies that certainly lack an entry are named, in the order of the ensembles."""
    metadata = ledger("e2 w2 0:[b1 b2] 10:[b3 b2] closed 19")
    said, read = (
        answers(b1="0-9", b2="0-3 6-17", b3="10-18"),
        reads(("b2", 4, NO_ENTRY), ("b2", 5, NO_ENTRY)),
    )
    assert (BookieLack("b2", 20, 4),) == coverage(metadata, said, read).lacks
    read |= reads(("b3", 19, NO_ENTRY))
    assert (BookieLack("b2", 20, 4), BookieLack("b3", 10, 1)) == coverage(
        metadata, said, read
    ).lacks


@pytest.mark.parametrize("listed", ["0-9", "0-3 5-9"])
def test_a_corrupt_copy_is_unknown_whether_it_is_listed_or_not(listed: str) -> None:
    """A corrupt copy is neither a copy nor absent, and is reported beside the verdict. The rest of
    the list stays as good as before.
    """
    said, read = answers(b1=listed), reads(("b1", 4, ReadStatus.CORRUPT))
    found, seen = share(ONE, "b1", said, read), coverage(ONE, said, read)
    assert (((4, 4),), 0) == (found.unknown.ranges(9), found.absent.count())
    assert ((Unknown.ANSWER_INVALID,), (("b1", 4),), 0) == (
        seen.unknowns,
        seen.corrupt,
        seen.false_negatives,
    )


def test_a_corrupt_copy_beside_losses_leaves_them_absent_as_they_were_read() -> None:
    """A listed copy that is corrupt does not discredit the list."""
    said, read = answers(b1="0-7"), reads(("b1", 4, ReadStatus.CORRUPT), ("b1", 8, NO_ENTRY))
    found = share(ONE, "b1", said, read)
    assert (((4, 4),), ((8, 9),)) == (found.unknown.ranges(9), found.absent.ranges(9))
