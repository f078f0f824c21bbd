"""Whether a gone bookie exists under another name."""

from __future__ import annotations

import pytest

from auditor.findings.renaming import (
    RENAME_READS_MAX,
    RenameCase,
    Renamed,
    attest,
    find_new_name,
    reads_due,
)
from auditor.first_checker.entry_set import EntrySet
from auditor.model.availability import Answer, AnswerStatus, ReadStatus, SequenceGroup
from auditor.model.ledger import LedgerMetadata, LedgerState, Segment
from auditor.wire.entry_availability import canonical

ENSEMBLE = ("gone", "b2", "b3")


def ledger(*ensembles: tuple[str, ...], write_quorum: int = 2) -> LedgerMetadata:
    """Return a closed ledger with segments of 10 entries each."""
    segments = tuple(Segment(10 * n, ensemble) for n, ensemble in enumerate(ensembles))
    return LedgerMetadata(
        3, LedgerState.CLOSED, 3, write_quorum, 2, 10 * len(segments) - 1, 99, segments
    )


def due(metadata: LedgerMetadata) -> EntrySet:
    return RenameCase("gone", {1: metadata}).should_hold(1)


def entries(these: EntrySet) -> list[int]:
    return [entry for first, last in these.runs() for entry in range(first, last + 1)]


def listed(bookie: str, ledger_id: int, held: list[int]) -> Answer:
    groups = canonical([SequenceGroup(entry, entry, 1, 0) for entry in held])
    return Answer(bookie, ledger_id, 0, 0, AnswerStatus.HELD, groups)


def answer(status: AnswerStatus) -> Answer:
    return Answer("new", 1, 0, 0, status)


LEDGER = ledger(ENSEMBLE, ("b2", "b3", "b4"), ("b4", "gone", "b3"))
DUE = entries(due(LEDGER))


def test_what_the_gone_bookie_should_hold_is_its_share_of_each_segment_that_names_it():
    """Striped 2 of 3 (RoundRobinDistributionSchedule): position k holds e when (k - e) mod 3 <
    2.
    """
    assert DUE == [e for e in range(10) if -e % 3 < 2] + [
        e for e in range(20, 30) if (1 - e) % 3 < 2
    ]


def test_a_list_with_all_of_it_needs_no_read():
    """More entries than those due do not matter."""
    assert () == reads_due(due(LEDGER), listed("new", 1, DUE))
    assert attest(due(LEDGER), listed("new", 1, sorted({*DUE, 1, 77})), {})


@pytest.mark.parametrize("lacking", [1, RENAME_READS_MAX])
def test_few_entries_that_a_list_lacks_are_read(lacking: int):
    """Bookies omit entries from lists: each entry that reads back is held. Every missing one must
    read back.
    """
    answered, missing = listed("new", 1, DUE[:-lacking]), tuple(DUE[-lacking:])
    assert missing == reads_due(due(LEDGER), answered)
    assert attest(due(LEDGER), answered, dict.fromkeys(missing, ReadStatus.PRESENT))
    lacks_one = {**dict.fromkeys(missing, ReadStatus.PRESENT), missing[0]: ReadStatus.NO_ENTRY}
    assert False is attest(due(LEDGER), answered, lacks_one)
    assert None is attest(due(LEDGER), answered, {}), "nothing was read"
    failed = {**dict.fromkeys(missing, ReadStatus.PRESENT), missing[0]: ReadStatus.TIMED_OUT}
    assert None is attest(due(LEDGER), answered, failed)


def test_a_list_that_lacks_more_is_not_read_after():
    """Such a bookie does not hold what is due."""
    answered = listed("new", 1, DUE[: -RENAME_READS_MAX - 1])
    assert () == reads_due(due(LEDGER), answered)
    assert False is attest(due(LEDGER), answered, dict.fromkeys(DUE, ReadStatus.PRESENT))


def test_where_a_bookie_cannot_list_three_entries_decide():
    """The first, the middle and the last of those due."""
    wanted = reads_due(due(LEDGER), answer(AnswerStatus.UNSUPPORTED))
    assert (DUE[0], DUE[len(DUE) // 2], DUE[-1]) == wanted
    unable = answer(AnswerStatus.UNSUPPORTED)
    assert attest(due(LEDGER), unable, dict.fromkeys(wanted, ReadStatus.PRESENT))
    assert None is attest(due(LEDGER), unable, dict.fromkeys(wanted[:2], ReadStatus.PRESENT))
    assert False is attest(due(LEDGER), unable, dict.fromkeys(wanted, ReadStatus.NO_LEDGER))


@pytest.mark.parametrize(
    "status", [s for s in AnswerStatus if s not in (AnswerStatus.HELD, AnswerStatus.UNSUPPORTED)]
)
def test_who_gave_no_list_says_nothing_unless_it_lacks_the_ledger(status: AnswerStatus):
    """Nothing is read there."""
    assert () == reads_due(due(LEDGER), answer(status))
    expected = False if status is AnswerStatus.NO_SUCH_LEDGER else None
    assert expected is attest(due(LEDGER), answer(status), {})


CASE = RenameCase("gone", {1: LEDGER, 2: LEDGER})


def said(*lists: Answer) -> dict[tuple[str, int], Answer]:
    return {(one.bookie_id, one.ledger_id): one for one in lists}


def test_the_one_bookie_that_holds_all_of_each_ledger_is_the_new_name():
    """Another bookie that holds nothing, or only one ledger, does not prevent this."""
    answers = said(
        listed("new", 1, DUE),
        listed("new", 2, DUE),
        listed("other", 1, DUE),
        listed("other", 2, DUE[:1]),
    )
    assert Renamed("new", (1, 2)) == find_new_name(CASE, answers, {})


def test_what_was_read_of_each_ledger_decides_where_a_list_does_not():
    """The new bookie cannot list the first ledger, and its list of the second lacks one entry."""
    answers = said(answer(AnswerStatus.UNSUPPORTED), listed("new", 2, DUE[1:]))
    read = {
        key: dict.fromkeys(reads_due(due(LEDGER), one), ReadStatus.PRESENT)
        for key, one in answers.items()
    }
    assert Renamed("new", (1, 2)) == find_new_name(CASE, answers, read)
    for key in read:
        less = {other: found for other, found in read.items() if other != key}
        (witness,) = (ledger_id for _, ledger_id in less)
        assert Renamed("new", (witness,)) == find_new_name(CASE, answers, less)
        against = {**less, key: dict.fromkeys(read[key], ReadStatus.NO_ENTRY)}
        assert None is find_new_name(CASE, answers, against)


def test_two_that_hold_it_are_no_new_name():
    """The new name is ambiguous."""
    assert None is find_new_name(
        CASE, said(*(listed(b, i, DUE) for b in ("new", "too") for i in (1, 2))), {}
    )


def test_a_ledger_that_cannot_testify_counts_as_nothing():
    """One ledger is enough if no other speaks against it: it was not asked about, timed out, or
    names the bookie.
    """
    late = answer(AnswerStatus.TIMED_OUT)
    both = [listed("new", 1, DUE), Answer("new", 2, 0, 0, late.status)]
    assert Renamed("new", (1,)) == find_new_name(CASE, said(listed("new", 1, DUE)), {})
    assert Renamed("new", (1,)) == find_new_name(CASE, said(*both), {})
    names_it = RenameCase("gone", {1: LEDGER, 2: ledger(("gone", "new", "b3"))})
    answers = said(listed("new", 1, DUE), listed("new", 2, []))
    assert Renamed("new", (1,)) == find_new_name(names_it, answers, {})
    against = said(listed("new", 1, DUE), Answer("new", 2, 0, 0, AnswerStatus.NO_SUCH_LEDGER))
    assert None is find_new_name(CASE, against, {})
    assert None is find_new_name(CASE, {}, {})
    assert None is find_new_name(RenameCase("gone", {}), said(listed("new", 1, DUE)), {})


def test_a_bookie_that_some_segment_names_is_not_the_new_name():
    """It may hold the entries as itself."""
    assert {} == CASE.for_bookie("b4").ledgers and CASE == CASE.for_bookie("new")
    assert None is find_new_name(CASE, said(listed("b4", 1, DUE), listed("b4", 2, DUE)), {})
