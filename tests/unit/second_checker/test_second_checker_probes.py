"""Which entries the second checker says are to be read on a bookie that cannot list."""

from __future__ import annotations

import pytest
from support.stories import GRACE_MS, LEDGER, NOW_MS

from auditor.first_checker.probing import ProbePlan, plan_probes
from auditor.first_checker.schedule import expected_entries, extents, positions
from auditor.model.evidence import Terms
from auditor.sandbox.notation import ledger
from auditor.second_checker.blocks import blocks
from auditor.second_checker.probes import Due, reads_due
from auditor.second_checker.schedule import stretches

LONG = "e3 w2 a2 0:[b1 b2 b3] 100:[b4 b2 b3] closed 499"
MANY_SEGMENTS = f"e3 w2 a2 {' '.join(f'{at}:[b1 b{2 + at % 3} b5]' for at in range(0, 2000, 20))} closed 1999"
TOO_LONG = f"e3 w2 a2 0:[b1 b2 b3] 100:[b4 b2 b3] closed {10**9}"


def due_of(text: str, bookie: str, terms: Terms) -> Due:
    parts = stretches(ledger(text))
    chosen, _ = blocks(LEDGER, parts, {}, (), terms)
    return reads_due(LEDGER, bookie, parts, chosen, terms)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("text", "bookie"), [(LONG, "b1"), (LONG, "b2"), (LONG, "b4"), (MANY_SEGMENTS, "b1")])
def test_both_checkers_draw_the_same_entries(seed: int, text: str, bookie: str) -> None:
    """Decision 0014: the hash is what they agree on; of which entries it draws, each finds out alone."""
    terms = Terms(NOW_MS, GRACE_MS, 16, 5, probe_entries=8, probe_seed=seed)
    metadata = ledger(text)
    wants = [
        expected_entries(one, at, 3, 2) for one in extents(metadata) if (at := positions(one.segment.ensemble).get(bookie))
    ]
    plan = ProbePlan.of(terms, LEDGER)
    assert plan is not None
    first = plan_probes(plan, bookie, wants)
    assert Due(frozenset(first.ends), frozenset(first.random), 8) == due_of(text, bookie, terms)


@pytest.mark.parametrize(
    ("bookie", "is_known", "ends"),
    [("b1", True, {0, 99}), ("b2", False, {0, 99, 100, 10**9}), ("b4", False, {101, 10**9 - 1})],
)
def test_of_a_bookie_of_a_segment_too_long_to_be_looked_at_any_sample_will_do(
    bookie: str, is_known: bool, ends: set[int]
) -> None:
    """As many entries are due as the terms say; of a bookie of short segments it is known which."""
    found = due_of(TOO_LONG, bookie, Terms(NOW_MS, GRACE_MS, 16, 5, probe_entries=8))
    assert (ends, is_known, 8) == (found.ends, found.drawn is not None, found.drawn_count)


@pytest.mark.parametrize(
    ("count", "read", "expected"),
    [(0, {0, 9}, True), (2, {0, 3, 4, 9}, True), (2, {0, 3, 9}, False), (2, {0, 3, 4, 5}, False), (2, {0, 3, 4, 5, 9}, True)],
)
def test_of_a_sample_that_is_not_known_the_number_counts(count: int, read: set[int], expected: bool) -> None:
    """Entries 0 and 9 are ends: they must have been read, and do not count."""
    assert expected is Due(frozenset({0, 9}), None, count).was_read(read)


@pytest.mark.parametrize(("left_out", "expected_answer"), [(None, True), (0, False), (1, False), (7, False)])
def test_all_that_is_due_must_have_been_read(left_out: int | None, expected_answer: bool) -> None:
    """An end that is missing counts as much as one of the sample."""
    found = due_of("e2 w2 a1 0:[b1 b2] closed 7", "b1", Terms(NOW_MS, GRACE_MS, 16, 5, probe_entries=100))
    assert expected_answer is found.was_read(set(range(8)) - {left_out})
