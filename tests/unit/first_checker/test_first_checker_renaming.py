"""Whether a gone bookie exists under another name."""

from __future__ import annotations

import pytest

from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.renaming import (
    RENAME_READS_MAX,
    RenameCase,
    Renamed,
    find_new_name,
    holds,
    reads_due,
)
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
    assert holds(due(LEDGER), listed("new", 1, sorted({*DUE, 1, 77})), {})


@pytest.mark.parametrize("lacking", [1, RENAME_READS_MAX])
def test_few_entries_that_a_list_lacks_are_read(lacking: int):
    """Bookies omit entries from lists: each entry that reads back is held. Every missing one must
    read back.
    """
    answered, missing = listed("new", 1, DUE[:-lacking]), tuple(DUE[-lacking:])
    assert missing == reads_due(due(LEDGER), answered)
    assert holds(due(LEDGER), answered, dict.fromkeys(missing, ReadStatus.PRESENT))
    assert not holds(
        due(LEDGER),
        answered,
        {**dict.fromkeys(missing, ReadStatus.PRESENT), missing[0]: ReadStatus.NO_ENTRY},
    )
    assert not holds(due(LEDGER), answered, {})


def test_a_list_that_lacks_more_is_not_read_after():
    """Such a bookie does not hold what is due."""
    answered = listed("new", 1, DUE[: -RENAME_READS_MAX - 1])
    assert () == reads_due(due(LEDGER), answered)
    assert not holds(due(LEDGER), answered, dict.fromkeys(DUE, ReadStatus.PRESENT))


def test_where_a_bookie_cannot_list_three_entries_decide():
    """The first, the middle and the last of those due."""
    wanted = reads_due(due(LEDGER), answer(AnswerStatus.UNSUPPORTED))
    assert (DUE[0], DUE[len(DUE) // 2], DUE[-1]) == wanted
    assert holds(
        due(LEDGER), answer(AnswerStatus.UNSUPPORTED), dict.fromkeys(wanted, ReadStatus.PRESENT)
    )
    assert not holds(
        due(LEDGER), answer(AnswerStatus.UNSUPPORTED), dict.fromkeys(wanted[:2], ReadStatus.PRESENT)
    )


@pytest.mark.parametrize(
    "status", [s for s in AnswerStatus if s not in (AnswerStatus.HELD, AnswerStatus.UNSUPPORTED)]
)
def test_whoever_gave_no_list_holds_nothing(status: AnswerStatus):
    """Silent, refusing, or without the ledger: nothing is read there."""
    assert () == reads_due(due(LEDGER), answer(status))
    assert not holds(due(LEDGER), answer(status), dict.fromkeys(DUE, ReadStatus.PRESENT))


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
        assert None is find_new_name(CASE, answers, less), "it was not read"


def test_two_that_hold_it_are_no_new_name():
    """The new name is ambiguous."""
    assert None is find_new_name(
        CASE, said(*(listed(b, i, DUE) for b in ("new", "too") for i in (1, 2))), {}
    )


def test_one_ledger_less_and_it_is_no_new_name():
    """This includes a bookie that was not asked about one ledger."""
    assert None is find_new_name(CASE, said(listed("new", 1, DUE)), {})
    assert None is find_new_name(CASE, {}, {})
    assert None is find_new_name(RenameCase("gone", {}), said(listed("new", 1, DUE)), {})


def test_a_bookie_that_some_segment_names_is_not_the_new_name():
    """It may hold the entries as itself."""
    assert CASE.is_named("b4") and not CASE.is_named("new")
    assert None is find_new_name(CASE, said(listed("b4", 1, DUE), listed("b4", 2, DUE)), {})
