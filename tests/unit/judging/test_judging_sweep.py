"""Lost entries on a bookie that cannot list become a finding exactly when the sweep promises it."""

from __future__ import annotations

from itertools import count

import pytest
from support.entry_by_entry import expected_on
from support.stories import LEDGER, Bookie, State, Story, drive

from auditor.first_checker.probing import Draw, first_rank, hit_probability
from auditor.model.availability import AnswerStatus
from auditor.model.evidence import Sweep
from auditor.model.verdict import Standing
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import differences

STEP = 16
METADATA = ledger("e3 w2 a2 0:[b1 b2 b3] 1000:[b1 b2 b4] closed 2999")
SHARES = expected_on(METADATA)


def verdict_standing(lost: set[int], sweep: Sweep) -> Standing:
    """Return the committed standing if b2 cannot list and lost these entries. Both checkers must
    agree.
    """
    bookies = {name: Bookie(frozenset(share)) for name, share in SHARES.items()}
    bookies["b2"] = Bookie(frozenset(SHARES["b2"] - lost), answer=AnswerStatus.UNSUPPORTED)
    terms = {"probe_entries": 1, "probe_seed": 5, "sweep": sweep}
    driven = drive(Story("swept", (State(METADATA, bookies),), more_terms=terms))
    assert () == differences(driven.step.verdict, driven.evidence, driven.story.terms)
    return driven.step.verdict.standing


def seeds_of_every_start() -> list[int]:
    """Return one seed for each rank at which counting may start on b2."""
    found: dict[int, int] = {}
    for seed in count():
        found.setdefault(first_rank(Sweep(seed, 0, 1, STEP), LEDGER, "b2"), seed)
        if len(found) == STEP:
            return list(found.values())
    raise AssertionError


@pytest.mark.parametrize(("first", "length"), [(100, 1), (200, 5), (660, 12), (1_500, 16)])
def test_a_loss_is_found_from_as_many_starts_as_promised(first: int, length: int):
    """Every start is tried, for losses of several lengths. One of them spans an ensemble change."""
    lost = set(sorted(SHARES["b2"])[first : first + length])
    found = [verdict_standing(lost, Sweep(seed, 0, 1, STEP)) for seed in seeds_of_every_start()]
    assert {Standing.SOUND, Standing.VIOLATED} >= set(found)
    ends_hit = any(min(SHARES["b2"] & set(range(at, 3000))) in lost for at in (0, 1000))
    due = STEP if ends_hit else round(STEP * hit_probability([Draw(STEP, 0)], length))
    assert due == found.count(Standing.VIOLATED)


def test_successive_turns_find_what_one_misses():
    """Of four turns, exactly one finds a loss of four entries, whatever the start. After four turns
    fewer than four entries lie between two that were read.
    """
    lost = set(sorted(SHARES["b2"])[300:304])
    for seed in seeds_of_every_start():
        found = [verdict_standing(lost, Sweep(seed, turn, 1, STEP)) for turn in range(4)]
        assert 1 == found.count(Standing.VIOLATED), seed
