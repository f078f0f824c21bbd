"""Laws of choosing the entries that test lists."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.entry_by_entry import expected_on

from auditor.first_checker.circle import NO_ARC, WHOLE, Arc, Starts, arc_of
from auditor.first_checker.probing import Draw, step_within
from auditor.first_checker.spot_reads import (
    Density,
    ListTests,
    end_copies,
    expected_among,
    spot_copies,
)
from auditor.model.availability import Answer, AnswerStatus
from auditor.model.evidence import LedgerEvidence, Look
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.sandbox.cluster import ledger

SHAPES = (
    "e3 w2 a2 0:[b1 b2 b3] closed 29",
    "e5 w3 a2 0:[b1 b2 b3 b4 b5] 17:[b1 b6 b3 b4 b5] closed 99",
    "e3 w2 a2 0:[b1 b2 b1] closed 9",
    "e1 w1 a1 0:[b1] closed 0",
)


def one_of(step: int) -> Arc:
    """Return an arc with one of `step` copies."""
    return arc_of(Draw(step, 0))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_whole_circle_reads_every_copy_once(shape: str) -> None:
    """That is what a small bookie gets."""
    metadata = ledger(shape)
    arcs = dict.fromkeys(expected_on(metadata), WHOLE)
    due = sorted((b, e) for b, entries in expected_on(metadata).items() for e in entries)
    assert due == sorted(spot_copies(metadata, 7, Starts(1), arcs))


@pytest.mark.parametrize("shape", SHAPES)
def test_only_copies_that_are_promised_are_read(shape: str) -> None:
    """Whatever the arc, and only on bookies that have one."""
    metadata = ledger(shape)
    wants = expected_on(metadata)
    for step in (2, 4, 64):
        for bookie, entry in spot_copies(metadata, 7, Starts(step), {"b1": one_of(step)}):
            assert bookie == "b1" and entry in wants["b1"]


def test_the_entries_of_a_bookie_are_read_downwards() -> None:
    """A bookie reads ahead, and would serve from memory what its disk has lost."""
    entries = [
        e
        for _, e in spot_copies(
            ledger("e1 w1 a1 0:[b1] closed 99"), 7, Starts(1), {"b1": one_of(4)}
        )
    ]
    assert entries == sorted(entries, reverse=True) and 25 == len(entries)


def test_a_bookie_is_read_no_more_often_than_allowed() -> None:
    """Over many ledgers, within the budget from which the arc follows."""
    metadata = ledger("e1 w1 a1 0:[b1] closed 6")
    copies, budget = 7 * 5_000, 500
    arcs = {"b1": one_of(step_within(budget, copies))}
    made = Counter(
        bookie
        for number in range(5_000)
        for bookie, _ in spot_copies(metadata, number, Starts(3), arcs)
    )
    assert budget / 4 < made["b1"] <= budget


def test_another_run_reads_other_entries() -> None:
    """The seed decides where counting starts. With one seed, other arcs have other entries."""
    metadata = ledger("e1 w1 a1 0:[b1] closed 999")
    runs = {tuple(spot_copies(metadata, 7, Starts(seed), {"b1": one_of(64)})) for seed in range(20)}
    assert len(runs) > 10
    arcs = [arc_of(Draw(64, turn)) for turn in range(64)]
    read = [copy for arc in arcs for copy in spot_copies(metadata, 7, Starts(1), {"b1": arc})]
    assert 1000 == len(read) == len(set(read))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_ends_are_the_first_and_the_last_copy_of_each_segment(shape: str) -> None:
    """Of each bookie that should hold some of it."""
    metadata = ledger(shape)
    bounds = [one.first_entry_id for one in metadata.segments[1:]] + [metadata.last_entry_id + 1]
    due = set()
    for bookie, entries in expected_on(metadata).items():
        for segment, end in zip(metadata.segments, bounds, strict=True):
            mine = [e for e in entries if segment.first_entry_id <= e < end]
            due |= {(bookie, e) for e in mine[:0] or ([min(mine), max(mine)] if mine else [])}
    assert due == set(end_copies(metadata))


@pytest.mark.parametrize("shape", [*SHAPES, "e2 w2 a2 0:[b1 b2] open"])
def test_of_named_copies_those_are_expected_that_are_promised(shape: str) -> None:
    """Each once, and the highest of each bookie first. An open ledger promises none by its end."""
    metadata = ledger(shape)
    bookies = ("b1", "b2", "b6", "unknown")
    named = [(bookie, entry) for bookie in bookies for entry in (*range(120), 2**62, 3)]
    expected = expected_on(metadata) if "closed" in shape else {}
    assert expected_among(metadata, named) == [
        (bookie, entry)
        for bookie in sorted(bookies)
        for entry in sorted(set(expected.get(bookie, ())), reverse=True)
    ]


@pytest.mark.parametrize("seed", [0, 3, 2**62])
def test_an_end_is_chosen_for_one_ledger_as_for_many(seed: int) -> None:
    """Ledgers are found in columns, and what is read of each is drawn one by one."""
    metadata = ledger("e3 w2 a2 0:[b1 b2 b3] 17:[b2 b1 b4] closed 40")
    ends = sorted(end_copies(metadata))
    tests = ListTests(
        Starts(seed), {f"b{number}": Density(NO_ARC, number) for number in range(4)}, of_lists=True
    )
    found = Counter[int]()
    for ledger_id in (*range(100), 2**63 - 1):
        record = LedgerRecord(ledger_id, 1, 0, RecordStatus.FOUND, None, metadata)
        said = {b: Answer(b, ledger_id, 1, 0, AnswerStatus.HELD) for b in ("b1", "b2", "b3", "b4")}
        copies = set(tests.copies(LedgerEvidence(ledger_id, (Look(record, said),))))
        for bookie, entry in ends:
            density = tests.bookies.get(bookie)
            cells = np.array([ledger_id]), np.array([entry])
            is_chosen = density is not None and tests.chosen_ends(bookie, *cells).tolist() == [True]
            assert is_chosen is ((bookie, entry) in copies)
            found[is_chosen] += 1
    assert found[True] > 100 < found[False]
