"""Which entries the second checker requires to be read on a bookie that cannot list."""

from __future__ import annotations

import pytest
from support.stories import GRACE_MS, LEDGER, NOW_MS

from auditor.first_checker.probing import SWEPT_ENTRIES_MAX, Planned, ProbePlan, plan_probes
from auditor.first_checker.schedule import expected_entries, extents, positions
from auditor.model.evidence import Sweep, Terms
from auditor.sandbox.cluster import ledger
from auditor.second_checker.blocks import blocks, stretches
from auditor.second_checker.copies import Due, reads_due

LONG = "e3 w2 a2 0:[b1 b2 b3] 100:[b4 b2 b3] closed 499"
MANY_SEGMENTS = (
    f"e3 w2 a2 {' '.join(f'{at}:[b1 b{2 + at % 3} b5]' for at in range(0, 2000, 20))} closed 1999"
)


def due_of(text: str, bookie: str, terms: Terms) -> Due:
    parts = stretches(ledger(text))
    chosen, _ = blocks(LEDGER, parts, {}, (), terms)
    return reads_due(LEDGER, bookie, parts, chosen, terms)


def planned(text: str, bookie: str, terms: Terms) -> Planned:
    """Return the reads that the first checker plans."""
    metadata, plan = ledger(text), ProbePlan.of(terms, LEDGER)
    assert plan is not None
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    found = [(one, positions(one.segment.ensemble).get(bookie)) for one in extents(metadata)]
    return plan_probes(
        plan, bookie, [expected_entries(one, at, size, quorum) for one, at in found if at]
    )


SWEEPS = (
    Sweep(),
    Sweep(5, 0, 9, 1),
    Sweep(6, 3, 9, 2),
    Sweep(7, 1_000, 9, 16),
    Sweep(8, 77, 9, 256),
)
"""Turns of a sweep: none, one that reads every entry, and some that read fewer."""


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("text", "bookie"), [(LONG, "b1"), (LONG, "b2"), (LONG, "b4"), (MANY_SEGMENTS, "b1")]
)
def test_both_checkers_draw_the_same_entries(
    seed: int, text: str, bookie: str, sweep: Sweep
) -> None:
    """The hash is shared (decision 0014). Each checker finds out by itself which entries it
    draws.
    """
    terms = Terms(NOW_MS, GRACE_MS, 16, 5, probe_entries=8, probe_seed=seed, sweep=sweep)
    first, second = planned(text, bookie, terms), due_of(text, bookie, terms)
    assert (frozenset(first.ends), frozenset(first.random)) == (second.ends, second.drawn)
    assert set(first.all) == second.ends | second.ranked | (second.drawn or set())
    assert len(first.random) == second.drawn_count == (0 if sweep.step == 1 else 8)


def test_where_all_is_read_by_rank_nothing_is_left_to_draw() -> None:
    """This includes a segment too long to be looked at: no sample is due of an empty rest."""
    terms = Terms(NOW_MS, GRACE_MS, 16, 5, probe_entries=8, sweep=Sweep(3, 0, 9, 1))
    text = "e2 w1 a1 0:[b1 b2] closed 1000001"
    found = due_of(text, "b1", terms)
    assert (None, 0, 500_001) == (found.drawn, found.drawn_count, len(found.ranked))
    assert found.was_read(range(0, 1_000_001, 2)) and not found.was_read(range(2, 1_000_001, 2))


def test_a_share_beyond_the_bound_is_not_read_by_rank() -> None:
    """Both checkers have the same limit of entries."""
    terms = Terms(NOW_MS, GRACE_MS, 16, 5, probe_entries=1, sweep=Sweep(3, 0, 9, 2**22))
    for last, count in ((SWEPT_ENTRIES_MAX - 1, 512), (SWEPT_ENTRIES_MAX, 0)):
        text = f"e1 w1 a1 0:[b1] closed {last}"
        found = due_of(text, "b1", terms)
        assert count == len(found.ranked) and found.was_read(planned(text, "b1", terms).all)
