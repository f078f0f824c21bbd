"""Which entries the second checker says are to be read on a bookie that cannot list."""

from __future__ import annotations

import pytest
from support.stories import GRACE_MS, LEDGER, NOW_MS

from auditor.confirm.enumerated_blocks import blocks
from auditor.confirm.enumerated_probes import Due, due
from auditor.confirm.enumerated_schedule import stretches
from auditor.model.evidence import Terms
from auditor.sandbox.notation import ledger
from auditor.verify.probing import ProbePlan, planned
from auditor.verify.schedule import expected, extents, positions

LONG = "e3 w2 a2 0:[b1 b2 b3] 100:[b4 b2 b3] closed 499"


def due_of(text: str, bookie: str, terms: Terms) -> Due:
    parts = stretches(ledger(text))
    chosen, _ = blocks(LEDGER, parts, (), (), terms)
    return due(LEDGER, bookie, parts, chosen, terms)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bookie", ["b1", "b2", "b4"])
def test_both_checkers_draw_the_same_entries(seed: int, bookie: str) -> None:
    """Decision 0014: the hash is what they agree on; of which entries it draws, each finds out alone."""
    terms = Terms(NOW_MS, GRACE_MS, 16, 5, probe_entries=8, probe_seed=seed)
    metadata = ledger(LONG)
    wants = [expected(one, at, 3, 2) for one in extents(metadata) if (at := positions(one.segment.ensemble).get(bookie))]
    plan = ProbePlan.of(terms, LEDGER)
    assert plan is not None
    first = planned(plan, bookie, wants)
    second = due_of(LONG, bookie, terms)
    assert (set(first.ends), set(first.random)) == (second.ends, second.drawn)


@pytest.mark.parametrize(("left_out", "expected_answer"), [(None, True), (0, False), (7, False)])
def test_all_that_is_due_must_have_been_read(left_out: int | None, expected_answer: bool) -> None:
    """An end that is missing counts as much as one of the sample."""
    found = due_of("e2 w2 a1 0:[b1 b2] closed 7", "b1", Terms(NOW_MS, GRACE_MS, 16, 5, probe_entries=100))
    assert expected_answer is found.was_read(set(range(8)) - {left_out})
