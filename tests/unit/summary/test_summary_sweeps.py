"""The field `sampling`: what one run and all runs of a series promise to find, and what the next
run needs.
"""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest

from auditor.first_checker.probing import Draw, hit_probability
from auditor.model.cluster import ClusterFacts
from auditor.model.codec import Json, decode, encode
from auditor.model.evidence import Sweep, Terms
from auditor.model.summary import Sampling
from auditor.summary.about import About
from auditor.summary.sweeps import (
    LENGTHS,
    SPANS_MAX,
    Series,
    Span,
    SweptRun,
    bounds_of,
    continue_series,
    sampling_of,
    series_from,
)

FACTS = ClusterFacts("zk://h/ledgers", ("h:1",), "/ledgers", "hierarchical", "id", False, None)
ABOUT = About(
    "r",
    "2026-03-01T02:00:00Z",
    FACTS,
    Terms(0, 0, 16, 5, sweep=Sweep(99, budget=500)),
    "warning",
    False,
)


def night(number: int) -> str:
    return f"2026-03-{number + 1:02}T02:00:00Z"


def swept_run(
    step: int, turn: int, *, number: int = 0, seed: int = 7, probed: int = 5, partial: bool = False
) -> SweptRun:
    return SweptRun(Sweep(seed, turn, 500, step), night(number), partial, probed, 4_000.0)


def series_in(field: Json) -> Series | None:
    """Return the series that the next run reads in a field."""
    return series_from(decode(Sampling, json.loads(json.dumps(field))))


def sample_nights(*steps: int) -> tuple[Json, list[Draw]]:
    """Return the field `sampling` after nights with these steps, and the draws of those nights."""
    field: Json = {}
    draws = []
    for number, step in enumerate(steps):
        series = series_in(field)
        turn = series.next_turn if series else 0
        field = encode(sampling_of(swept_run(step, turn, number=number), series))
        draws.append(Draw(step, turn))
    return field, draws


def test_one_run_promises_what_its_step_gives():
    """A loss of L entries is found with probability L / step, at most 1. The first run of a series
    promises the same for the series.
    """
    field, _ = sample_nights(1024)
    assert {"1": 0.000976, "10": 0.009765, "100": 0.097656, "1000": 0.976562} == field["bounds"]
    assert {"runs": 1, "since": night(0), "bounds": field["bounds"]} == field["accumulated"]
    assert (500, 1024, 1) == (field["budget"], field["step"], field["series"]["next_turn"])


@pytest.mark.parametrize("seed", range(10))
def test_runs_add_up_to_what_their_draws_give_together(seed: int):
    """The step may change in between. The field passes through JSON, as the next run reads it."""
    draw = Random(seed)
    steps = [draw.choice((64, 64, 128, 4096)) for _ in range(draw.randrange(2, 25))]
    field, draws = sample_nights(*steps)
    assert bounds_of(draws) == field["accumulated"]["bounds"], steps
    assert (len(steps), night(0), len(steps)) == (
        *map(field["accumulated"].get, ("runs", "since")),
        field["series"]["next_turn"],
    )


def test_runs_of_one_step_are_one_span():
    """A span takes its own turns and the next one. An earlier turn, or a later one after a gap,
    begins another span.
    """
    span = Span(64, 2, 5, 4, night(0))
    assert [False, True, True, True, False] == [
        span.can_take(Sweep(7, turn, 500, 64)) for turn in (1, 2, 5, 6, 7)
    ]
    assert not span.can_take(Sweep(7, 5, 500, 128))
    (only_span,) = sample_nights(64, 64, 64)[0]["series"]["spans"]
    assert {"step": 64, "first_turn": 0, "last_turn": 2, "runs": 3, "since": night(0)} == only_span


def test_a_span_draws_each_place_once():
    """The newest turns count, at most as many as the step."""
    assert [Draw(4, turn) for turn in (6, 7, 8, 9)] == list(Span(4, 0, 9, 10, night(0)).draws())
    assert [Draw(64, turn) for turn in (3, 4, 5)] == list(Span(64, 3, 5, 3, night(0)).draws())


def test_the_smallest_run_counts():
    """One ledger rests on probes, and each of its entries was read."""
    field = encode(sampling_of(swept_run(1, 0, probed=1), None))
    assert ({"1": 1.0, "10": 1.0, "100": 1.0, "1000": 1.0}, 1) == (
        field["bounds"],
        field["series"]["next_turn"],
    )


def test_a_whole_series_finds_every_loss():
    """It has as many nights as the step. With one night less it does not."""
    assert 1.0 == sample_nights(*[16] * 16)[0]["accumulated"]["bounds"]["1"]
    assert 0.9375 == sample_nights(*[16] * 15)[0]["accumulated"]["bounds"]["1"]


def test_no_bound_is_rounded_up():
    """Bounds are cut off after six digits."""
    for steps in ([4096] * 3, [2**22], [64, 512]):
        field, draws = sample_nights(*steps)
        for length in LENGTHS:
            shown, due = field["accumulated"]["bounds"][str(length)], hit_probability(draws, length)
            assert due - 1e-6 < shown <= due


@pytest.mark.parametrize("changes", [{"partial": True}, {"probed": 0}])
def test_a_run_that_does_not_count_hands_the_series_on(changes: dict[str, int]):
    """A run of named ledgers, or without a ledger that rests on probes, adds nothing to the series
    and forgets nothing.
    """
    before = sample_nights(64, 64)[0]
    series = series_in(before)
    assert series is not None
    field = encode(sampling_of(swept_run(64, 2, number=5, **changes), series))  # type: ignore[arg-type]
    assert before["series"] == field["series"]
    assert (field["accumulated"] is None) == (field["bounds"] is None) == ("probed" in changes)
    off = encode(sampling_of(swept_run(0, 2), series))
    assert (None, None, None, before["series"]) == tuple(
        off[name] for name in ("step", "bounds", "accumulated", "series")
    )


def test_without_a_series_nothing_is_handed_on():
    """The first run has no sweep."""
    off = encode(sampling_of(swept_run(0, 0), None))
    assert {"budget": 500, "step": None, "bounds": None, "accumulated": None, "series": None} == off


def test_another_seed_begins_a_series_anew():
    """Draws with another seed start from other places. The promise of the old series is
    forgotten.
    """
    series = series_in(sample_nights(*[64] * 20)[0])
    field = encode(sampling_of(swept_run(64, 9, number=5, seed=8), series))
    assert {"runs": 1, "since": night(5), "bounds": field["bounds"]} == field["accumulated"]
    assert (8, 10) == (field["series"]["seed"], field["series"]["next_turn"])


def test_a_turn_that_was_taken_already_promises_no_more():
    """An older run was resumed, and two runs have the same turn. A loss must be older than both to
    be promised.
    """
    series = series_in(sample_nights(64, 64, 64)[0])
    assert series is not None
    field = encode(
        sampling_of(
            SweptRun(Sweep(7, 1, 500, 64), "2026-02-27T00:00:00Z", False, 5, 4_000.0), series
        )
    )
    assert {"runs": 4, "since": "2026-02-27T00:00:00Z"}.items() <= field["accumulated"].items()
    assert bounds_of([Draw(64, turn) for turn in range(3)]) == field["accumulated"]["bounds"]
    assert 3 == field["series"]["next_turn"]


def test_old_spans_are_forgotten():
    """The field keeps SPANS_MAX spans. A forgotten span no longer adds to the promise."""
    steps = [64, 128] * 40
    field, draws = sample_nights(*steps[:28])
    assert 28 == len(field["series"]["spans"]) == len(draws)
    series = Series(
        7, 80, 1.0, tuple(Span(step, n, n, 1, night(0)) for n, step in enumerate(steps))
    )
    kept = series.after(Sweep(7, 80, 500, 64), night(1), 1.0).spans
    assert (SPANS_MAX, 80) == (len(kept), kept[-1].last_turn)


def _with_span(step: int, first_turn: int, runs: int = 1) -> Json:
    span = {"step": step, "first_turn": first_turn, "last_turn": 5, "runs": runs, "since": night(0)}
    return {"series": {"seed": 1, "next_turn": 1, "copies": 1, "spans": [span]}}


@pytest.mark.parametrize(
    "damage",
    [{}, {"series": None}]
    + [
        _with_span(step, first)
        for step, first in ((3, 0), (0, 0), (2**23, 0), (-4, 0), (4, 6), (4, -1))
    ]
    + [_with_span(4, 0, runs=0)],
)
def test_a_field_that_is_damaged_begins_a_series_anew(damage: Json):
    """It raises no error, and adds nothing to a promise."""
    assert all(series_in(_with_span(step, 0)) is not None for step in (1, 2, 4, 2**22))
    assert series_in(damage) is None


def test_the_next_run_takes_its_turn_of_the_series():
    """It takes the seed of the series and keeps its own budget. Without a series it keeps its own
    seed.
    """
    series = Series(7, 12, 4_000.0)
    expected = replace(ABOUT, terms=replace(ABOUT.terms, sweep=Sweep(7, 12, 500, 0, 4_000.0)))
    assert (expected, ABOUT) == (continue_series(ABOUT, series), continue_series(ABOUT, None))
    assert expected == About.from_json(json.loads(json.dumps(expected.as_json())))
