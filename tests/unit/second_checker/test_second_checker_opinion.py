"""The second checker piece by piece: where entries belong, what a list names, which entries of a
long ledger are looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from support.entry_by_entry import in_groups
from support.entry_words import list_testimony_of, words_of
from support.stories import GRACE_MS, LEDGER, NOW_MS, groups

from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus, SequenceGroup
from auditor.model.cluster import Surroundings
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.finding import Kind
from auditor.model.identity import ENTRY_ID_MAX
from auditor.model.ledger import (
    LedgerRecord,
    LedgerState,
    Malformed,
    Mark,
    RecordStatus,
    ZnodeStamp,
)
from auditor.model.verdict import CopyCounts, Exempt, Standing, Unknown
from auditor.sandbox.notation import ledger
from auditor.second_checker.agreement import worst_entry_of
from auditor.second_checker.blocks import ENUMERATED_ENTRIES_MAX, POINTS_MAX, blocks
from auditor.second_checker.copies import Entries
from auditor.second_checker.holdings import ABSENT, HELD, UNKNOWN
from auditor.second_checker.opinion import judge_entry_by_entry
from auditor.second_checker.schedule import first_of, last_of, stretches
from auditor.wire.entry_availability import canonical

TERMS = Terms(NOW_MS, GRACE_MS, 16, 5)


def evidence(text: str, *, looks: int = 1, **held: set[int]) -> LedgerEvidence:
    """Return evidence of bookies with these lists; entry 4 was read in vain on those that do not
    list it.
    """
    answers = {
        b: Answer(b, LEDGER, 0, NOW_MS, AnswerStatus.HELD, groups(entries))
        for b, entries in held.items()
    }
    lacking = [bookie for bookie, entries in held.items() if 4 not in entries]
    reads = {(b, 4): EntryRead(b, LEDGER, 4, 0, NOW_MS, ReadStatus.NO_ENTRY) for b in lacking}
    record = LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), ledger(text))
    return LedgerEvidence(LEDGER, (Look(record, answers, reads),) * looks)


@pytest.mark.parametrize(
    ("entry", "bookies"),
    [
        (0, ("b1", "b2")),
        (1, ("b2", "b3")),
        (2, ("b3", "b1")),
        (7, ("b2", "b3")),
        (12, ("b4", "b2")),
    ],
)
def test_an_entry_is_written_to_the_positions_from_its_own_id_on(
    entry: int, bookies: tuple[str, ...]
) -> None:
    """The position is that of RoundRobinDistributionSchedule with the absolute entry id, also
    behind an ensemble change at 10.
    """
    parts = stretches(ledger("e3 w2 a2 0:[b1 b2 b3] 10:[b4 b2 b3] closed 19"))
    (mine,) = (part for part in parts if part.first <= entry <= part.last)
    assert bookies == mine.bookies_of(entry)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("e3 w2 a2 0:[b1 b2 b3] closed 19", [(0, 19)]),
        ("e3 w2 a2 0:[b1 b2 b3] 10:[b4 b2 b3] closed 19", [(0, 9), (10, 19)]),
        ("e3 w2 a2 0:[b1 b2 b3] 20:[b4 b2 b3] closed 19", [(0, 19)]),
        ("e3 w2 a2 0:[b1 b2 b3] 10:[b4 b2 b3] closed 10", [(0, 9), (10, 10)]),
        ("e3 w2 a2 0:[b1 b2 b3] 10:[b4 b2 b3] 20:[b1 b2 b3] closed 5", [(0, 5)]),
        ("e3 w2 a2 0:[b1 b2 b3] 10:[b4 b2 b3] closed", [(0, 9)]),
        ("e3 w2 a2 0:[b1 b2] 10:[b4 b2 b3] closed 19", [(10, 19)]),
        ("e1 w1 a1 0:[b1] closed 19", [(0, 19)]),
        ("e3 w2 a2 0:[b1 b2 b3] closed -1", []),
        ("e3 w2 a2 0:[b1 b2 b3] open", []),
    ],
)
def test_entries_are_judged_where_their_end_is_clear(
    text: str, expected: list[tuple[int, int]]
) -> None:
    """These are the segments of a closed ledger that hold an entry, except one with an ensemble of
    another size.
    """
    assert expected == [(part.first, part.last) for part in stretches(ledger(text))]


@pytest.mark.parametrize(
    "text",
    [
        "e2 w0 a0 0:[b1 b2] closed 5",
        "e2 w3 a1 0:[b1 b2] closed 5",
        "e2 w2 a1 -1:[b1 b2] closed 5",
        "e2 w2 a1 0:[b1 b2] 0:[b3 b2] closed 5",
        "e2 w2 a1 4:[b1 b2] 0:[b3 b2] closed 5",
    ],
)
def test_no_entry_is_judged_of_metadata_without_sense(text: str) -> None:
    """A write quorum is zero or larger than the ensemble, or segments do not ascend from a possible
    entry.
    """
    assert () == stretches(ledger(text))


def test_no_entry_is_judged_of_a_ledger_that_is_not_closed() -> None:
    """Its last entry does not matter."""
    assert () == stretches(
        replace(ledger("e2 w2 a1 0:[b1 b2] closed 5"), state=LedgerState.IN_RECOVERY)
    )


@pytest.mark.parametrize("last", [0, 1, 3, 6, 11])
def test_the_ends_of_a_bookies_share_are_those_of_all_its_entries(last: int) -> None:
    """They are the first and the last entry written to it; without entries there are none."""
    (part,) = stretches(ledger(f"e5 w2 a2 0:[b1 b2 b3 b4 b5] closed {last}"))
    for bookie in part.bookies:
        mine = [entry for entry in range(last + 1) if bookie in part.bookies_of(entry)] or [None]
        assert (mine[0], mine[-1]) == (first_of(part, bookie), last_of(part, bookie))


@pytest.mark.parametrize("seed", range(200))
def test_a_list_is_written_out_as_its_groups_say(seed: int) -> None:
    """Any block of any list agrees with the definition of a group."""
    draw = Random(seed)
    single = [
        SequenceGroup(at, at, 1, 0) for at in sorted(draw.sample(range(300), draw.randint(0, 150)))
    ]
    start, period = 400, draw.randint(2, 9)
    size, runs = draw.randint(1, period), draw.randint(2, 40)
    whole = SequenceGroup(start, start + (runs - 1) * period, size, period)
    answer = Answer("b1", LEDGER, 0, NOW_MS, AnswerStatus.HELD, canonical([*single, whole]))
    low = draw.randint(0, 500)
    high = low + draw.randint(0, 300)
    said = words_of(list_testimony_of(answer, 3, -1, {}), low, high)
    assert [in_groups(answer.groups, entry) for entry in range(low, high + 1)] == [
        word == HELD for word in said
    ]


def test_a_list_that_speaks_of_more_entries_than_there_is_time_costs_what_is_looked_at() -> None:
    """Two groups name 2^62 entries, and five of them are requested."""
    size = 2**31 - 1
    answer = Answer(
        "b1",
        LEDGER,
        0,
        NOW_MS,
        AnswerStatus.HELD,
        canonical([SequenceGroup(0, size * 2**31, size, size + 1)]),
    )
    said = words_of(list_testimony_of(answer, size + 1, -1, {}), size - 2, size + 2)
    assert [HELD, HELD, UNKNOWN, HELD, HELD] == said


def test_of_a_long_ledger_a_bounded_number_of_entries_is_looked_at() -> None:
    """The number is bounded, however many edges the lists have. The entries that the first checker
    claims are included.
    """
    parts = stretches(ledger(f"e3 w2 a2 0:[b1 b2 b3] closed {ENTRY_ID_MAX}"))
    claimed = [2**40 + 7]
    chosen, is_whole = blocks(LEDGER, parts, {"b1": range(0, 10**7, 50)}, claimed, TERMS)
    assert not is_whole
    assert sum(block.high - block.low + 1 for block in chosen) <= 7 * (POINTS_MAX + 100)
    assert [(0, ENTRY_ID_MAX)] == [(chosen[0].low, chosen[-1].high)]
    assert any(block.low <= claimed[0] <= block.high for block in chosen)
    assert all(before.high + 1 < after.low for before, after in itertools.pairwise(chosen))


def test_a_ledger_that_is_short_enough_is_looked_at_whole() -> None:
    """Up to the limit every entry is looked at."""
    parts = stretches(
        ledger(f"e3 w2 a2 0:[b1 b2 b3] 500:[b4 b2 b3] closed {ENUMERATED_ENTRIES_MAX - 1}")
    )
    chosen, is_whole = blocks(LEDGER, parts, {}, (), TERMS)
    assert is_whole
    assert ENUMERATED_ENTRIES_MAX == sum(block.high - block.low + 1 for block in chosen)


def test_what_every_bookie_lists_is_sound() -> None:
    """All six entries are listed twice."""
    seen = evidence(
        "e3 w2 a2 0:[b1 b2 b3] closed 5", b1={0, 2, 3, 5}, b2={0, 1, 3, 4}, b3={1, 2, 4, 5}
    )
    assert Standing.SOUND is judge_entry_by_entry(seen, TERMS).standing


@pytest.mark.parametrize(
    ("promised", "listed", "text"),
    [
        (20, 10, "e3 w2 a2 0:[b1 b2 b3] 5:[b1 b2 b3] 5:[b1 b2 b3] closed 9"),
        (30, 10, "e3 w3 a2 0:[b1 b1 b1] closed 9"),
        (20, 20, "e3 w2 a2 0:[b1 b2 b3] closed 9"),
        (10, 10, "e3 w2 a2 0:[b1 b2 b3] 5:[b1 b2 b3] closed"),
        (20, 0, "e3 w2 a2 0:[b1 b2] closed 9"),
    ],
)
def test_a_writer_left_every_entry_so_often_as_the_write_quorum_says(
    promised: int, listed: int, text: str
) -> None:
    """This also holds if the metadata contradicts itself, or a bookie occurs three times in an
    ensemble; such copies are not confirmed.
    """
    everything = set(range(10))
    said = judge_entry_by_entry(
        evidence(text, looks=2, b1=everything, b2=everything, b3=everything), TERMS
    )
    assert CopyCounts(promised, listed, 0, 0) == said.copies


def test_an_entry_that_no_bookie_of_its_write_set_has_is_without_replica() -> None:
    """Entry 4 belongs only on b2 and b3. A copy on b1 does not count."""
    seen = evidence(
        "e3 w2 a2 0:[b1 b2 b3] closed 5", looks=2, b1={0, 2, 3, 4, 5}, b2={0, 1, 3}, b3={1, 2, 5}
    )
    opinion = judge_entry_by_entry(seen, TERMS)
    (finding,) = opinion.findings
    assert (Standing.VIOLATED, Kind.ENTRY_WITHOUT_REPLICA, 4) == (
        opinion.standing,
        finding.kind,
        worst_entry_of(finding),
    )
    assert finding.entries is not None
    assert (((4, 4),), 1) == (finding.entries.ranges, finding.entries.total)
    assert {"b2": (4, 1), "b3": (4, 1)} == opinion.lacks


def test_a_list_that_lacks_an_entry_proves_nothing_by_itself() -> None:
    """Entry 1 was not read on b2: it is unknown, with the reason."""
    seen = evidence(
        "e3 w2 a2 0:[b1 b2 b3] closed 5", b1={0, 2, 3, 5}, b2={0, 3, 4}, b3={1, 2, 4, 5}
    )
    opinion = judge_entry_by_entry(seen, TERMS)
    assert (Standing.INDETERMINATE, {Unknown.ANSWER_TIMEOUT}) == (
        opinion.standing,
        set(opinion.unknowns),
    )


@pytest.mark.parametrize(
    ("status", "word"),
    [(ReadStatus.PRESENT, HELD), (ReadStatus.NO_LEDGER, ABSENT), (ReadStatus.REFUSED, UNKNOWN)],
)
def test_what_was_read_goes_before_what_was_listed(status: ReadStatus, word: int) -> None:
    """A list lacks entry 7, but it reads back."""
    answer = Answer("b1", LEDGER, 0, NOW_MS, AnswerStatus.HELD, groups({6}))
    read = EntryRead("b1", LEDGER, 7, 0, NOW_MS, status)
    assert [HELD, word] == words_of(list_testimony_of(answer, 3, 7, {7: read}), 6, 7)


def heard(
    text: str,
    answers: Mapping[str, AnswerStatus | set[int]],
    reads: Mapping[tuple[str, int], ReadStatus],
) -> LedgerEvidence:
    """Return two looks with these lists or answers, and these reads."""
    record = LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), ledger(text))
    said = {
        bookie: (
            Answer(bookie, LEDGER, 0, NOW_MS, AnswerStatus.HELD, groups(answer))
            if isinstance(answer, set)
            else Answer(bookie, LEDGER, 0, NOW_MS, answer)
        )
        for bookie, answer in answers.items()
    }
    read = {
        (bookie, entry): EntryRead(bookie, LEDGER, entry, 0, NOW_MS, status)
        for (bookie, entry), status in reads.items()
    }
    return LedgerEvidence(LEDGER, (Look(record, said, read),) * 2)


ALL = set(range(6))


@pytest.mark.parametrize(
    ("answers", "away", "expected"),
    [
        ({"b1": AnswerStatus.SILENT, "b2": ALL, "b3": ALL}, {"b1"}, True),
        ({"b1": AnswerStatus.SILENT, "b2": ALL, "b3": ALL}, {"b1", "b2"}, True),
        ({"b1": AnswerStatus.SILENT, "b2": ALL, "b3": ALL}, {"b2"}, False),
        ({"b1": AnswerStatus.SILENT, "b2": AnswerStatus.SILENT, "b3": ALL}, {"b1"}, False),
        ({"b1": AnswerStatus.REFUSED, "b2": ALL, "b3": ALL}, {"b1"}, False),
        (
            {
                "b1": AnswerStatus.SILENT,
                "b2": AnswerStatus.TIMED_OUT,
                "b3": AnswerStatus.ADDRESS_UNKNOWN,
            },
            {"b1", "b2", "b3"},
            True,
        ),
        ({"b1": ALL, "b2": ALL, "b3": ALL}, {"b1"}, False),
    ],
)
def test_only_maintenance_is_the_reason_where_all_that_are_away_are_in_it(
    answers: Mapping[str, AnswerStatus | set[int]], away: set[str], expected: bool
) -> None:
    """They are unavailable, as bookies are that are down. A ledger without unknown copies waits for
    no bookie.
    """
    terms = replace(TERMS, around=Surroundings(maintenance=frozenset(away)))
    assert (
        expected
        is judge_entry_by_entry(
            heard("e3 w3 a2 0:[b1 b2 b3] closed 5", answers, {}), terms
        ).only_maintenance
    )


@pytest.mark.parametrize(
    ("last", "probe_entries", "expected"), [(5, 0, None), (5, 1, (2, 0)), (0, 1, None)]
)
def test_reads_count_where_a_bookie_that_cannot_list_was_to_be_read(
    last: int, probe_entries: int, expected: tuple[int, int] | None
) -> None:
    """Bookie b3 holds entries 1, 2, 4 and 5 of six, of which the ends were read; in a ledger of one
    entry it holds nothing.
    """
    reads = {
        ("b3", 1): ReadStatus.PRESENT,
        ("b3", 5): ReadStatus.PRESENT,
        ("b3", 0): ReadStatus.PRESENT,
    }
    seen = heard(
        f"e3 w2 a2 0:[b1 b2 b3] closed {last}",
        {"b1": ALL, "b2": ALL, "b3": AnswerStatus.UNSUPPORTED},
        reads,
    )
    assert (
        expected == judge_entry_by_entry(seen, replace(TERMS, probe_entries=probe_entries)).probes
    )


def test_all_reads_and_those_drawn_are_counted_over_all_bookies_that_cannot_list() -> None:
    """Each holds entries 0 to 5: two ends, and of the others the drawn ones, of which entry 3 was
    not answered.
    """
    reads = {(bookie, entry): ReadStatus.PRESENT for bookie in ("b1", "b2") for entry in range(6)}
    reads |= {("b1", 3): ReadStatus.TIMED_OUT}
    seen = heard(
        "e2 w2 a2 0:[b1 b2] closed 5", dict.fromkeys(("b1", "b2"), AnswerStatus.UNSUPPORTED), reads
    )
    assert (11, 7) == judge_entry_by_entry(seen, replace(TERMS, probe_entries=8)).probes


@pytest.mark.parametrize("entry", [0, 9, 10, 15, 19])
def test_an_entry_with_a_corrupt_copy_where_one_should_be_is_reported(entry: int) -> None:
    """It is at either end of a segment, or within. The finding has what is known of its other
    copy.
    """
    held = set(range(20))
    text = "e2 w2 a1 0:[b1 b2] 10:[b1 b3] closed 19"
    seen = heard(text, {"b1": held, "b2": held, "b3": held}, {("b1", entry): ReadStatus.CORRUPT})
    (finding,) = judge_entry_by_entry(seen, TERMS).findings
    assert (Kind.ENTRY_CORRUPT, entry, Entries(((entry, entry),), 1)) == (
        finding.kind,
        worst_entry_of(finding),
        finding.entries,
    )
    assert finding.copies is not None
    assert finding.segment is not None
    assert (1, 1, 0 if entry < 10 else 10) == (
        finding.copies.confirmed,
        finding.copies.unknown,
        finding.segment.first_entry_id,
    )


def test_a_corrupt_copy_where_none_should_be_is_no_finding() -> None:
    """Bookie b1 should hold nothing of the second segment."""
    held = set(range(20))
    seen = heard(
        "e1 w1 a1 0:[b1] 10:[b2] closed 19",
        {"b1": held, "b2": held},
        {("b1", 15): ReadStatus.CORRUPT},
    )
    assert () == judge_entry_by_entry(seen, TERMS).findings


def test_of_a_bookie_that_was_not_asked_nothing_is_known() -> None:
    """It counts like a silent one."""
    opinion = judge_entry_by_entry(heard("e2 w2 a1 0:[b1 b2] closed 5", {"b1": ALL}, {}), TERMS)
    assert (Standing.INDETERMINATE, {Unknown.BOOKIE_SILENT}) == (
        opinion.standing,
        set(opinion.unknowns),
    )


@pytest.mark.parametrize(
    ("status", "mark", "expected"),
    [
        (RecordStatus.GONE, None, (Standing.EXEMPT, Exempt.DELETED, set(), [])),
        (RecordStatus.MALFORMED, None, (Standing.VIOLATED, None, set(), [Kind.METADATA_MALFORMED])),
        (
            RecordStatus.UNREADABLE,
            None,
            (Standing.INDETERMINATE, None, {Unknown.METADATA_UNREADABLE}, []),
        ),
        (
            RecordStatus.UNREADABLE,
            Mark(NOW_MS, None),
            (
                Standing.INDETERMINATE,
                Exempt.MARKED_UNDERREPLICATED,
                {Unknown.METADATA_UNREADABLE},
                [],
            ),
        ),
        (
            RecordStatus.UNREADABLE,
            Mark(NOW_MS - GRACE_MS - 1, None),
            (
                Standing.VIOLATED,
                Exempt.MARKED_UNDERREPLICATED,
                {Unknown.METADATA_UNREADABLE},
                [Kind.UNDERREPLICATED_BEYOND_GRACE],
            ),
        ),
    ],
)
def test_what_is_said_of_a_ledger_without_metadata(
    status: RecordStatus,
    mark: Mark | None,
    expected: tuple[Standing, Exempt | None, set[Unknown], list[Kind]],
) -> None:
    """The metadata is gone, cannot be decoded, or could not be read: then only the mark is
    known.
    """
    bad = Malformed("not UTF-8", 17, 99, "ab" * 32) if status is RecordStatus.MALFORMED else None
    record = LedgerRecord(LEDGER, 0, NOW_MS, status, mark=mark, malformed=bad)
    found = judge_entry_by_entry(LedgerEvidence(LEDGER, (Look(record, {}, {}),) * 2), TERMS)
    assert expected == (
        found.standing,
        found.exempt,
        set(found.unknowns),
        [one.kind for one in found.findings],
    )
