"""The summary field `sampling`: how likely lost entries are found on a bookie that cannot list.

The field carries the series of sweeps from run to run. A run that does not count passes it on
unchanged: a run of named ledgers, one that judged no ledger by probes, or one without a sweep.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from auditor.first_checker.probing import STEP_MAX, Draw, hit_probability
from auditor.model.evidence import Sweep
from auditor.model.summary import Sampling, SweepSeries, SweepSpan, Together
from auditor.summary.about import About

LENGTHS = (1, 10, 100, 1_000)
"""Numbers of lost entries in a row for which the probability is reported. A row has entries that
one bookie should hold of one ledger, with no other such entry between them."""
SPANS_MAX = 50
"""At most this many spans of a series are kept: the step changes when the cluster doubles or
halves. Older spans are forgotten, which only lowers the reported probability."""
TURNS_MAX = 10_000
"""At most this many newest turns of a span are counted: 27 years of nights."""


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive runs with the same step. `since`: when the earliest of them began (RFC 3339,
    UTC).
    """

    step: int
    first_turn: int
    last_turn: int
    runs: int
    since: str

    def can_take(self, sweep: Sweep) -> bool:
        """Return whether a run has the next turn of this span, or one of its turns."""
        return sweep.step == self.step and self.first_turn <= sweep.turn <= self.last_turn + 1

    def with_run(self, sweep: Sweep, started_at: str) -> Span:
        """Return the span with one more run, which `can_take` accepts."""
        newest, since = max(self.last_turn, sweep.turn), min(self.since, started_at)
        return replace(self, last_turn=newest, runs=self.runs + 1, since=since)

    def draws(self) -> Iterable[Draw]:
        """Yield what each turn reads; turns that repeat earlier ones are left out."""
        first = max(self.first_turn, self.last_turn + 1 - min(self.step, TURNS_MAX))
        return (Draw(self.step, turn) for turn in range(first, self.last_turn + 1))


@dataclass(frozen=True, slots=True)
class Series:
    """The sweeps of successive runs with one seed.

    `next_turn` is the turn of the next run. `copies`: how many entries the fullest bookie should
    hold, by the last counted run. `spans` are oldest first.
    """

    seed: int
    next_turn: int
    copies: float
    spans: tuple[Span, ...] = ()

    @property
    def stored(self) -> SweepSeries:
        """The series as the summary has it, from which `series_from` continues."""
        spans = (
            SweepSpan(span.step, span.first_turn, span.last_turn, span.runs, span.since)
            for span in self.spans
        )
        return SweepSeries(self.seed, self.next_turn, round(self.copies), tuple(spans))

    def after(self, sweep: Sweep, started_at: str, copies: float) -> Series:
        """Return the series with one more run. A run with another seed begins a new series."""
        begun = begin_series(sweep, started_at, copies)
        if self.seed != sweep.seed:
            return begun
        if self.spans and self.spans[-1].can_take(sweep):
            spans = (*self.spans[:-1], self.spans[-1].with_run(sweep, started_at))
        else:
            spans = (*self.spans, *begun.spans)
        return replace(
            begun, next_turn=max(begun.next_turn, self.next_turn), spans=spans[-SPANS_MAX:]
        )


def begin_series(sweep: Sweep, started_at: str, copies: float) -> Series:
    """Return the series of one run."""
    return Series(
        sweep.seed,
        sweep.turn + 1,
        copies,
        (Span(sweep.step, sweep.turn, sweep.turn, 1, started_at),),
    )


@dataclass(frozen=True, slots=True)
class SweptRun:
    """The sweep of a run. `probed`: ledgers judged by probes. `copies` as in `Series`.

    `partial`: not all ledgers were asked about.
    """

    sweep: Sweep
    started_at: str
    partial: bool
    probed: int
    copies: float

    @property
    def is_counted(self) -> bool:
        """Whether later runs may continue the series of this one."""
        return self.sweep.step > 0 and self.probed > 0 and not self.partial


def continue_series(about: About, series: Series | None) -> About:
    """Return the run as the next one of a series. Without a series it begins one, with its own
    seed.
    """
    if series is None:
        return about
    sweep = replace(
        about.terms.sweep, seed=series.seed, turn=series.next_turn, copies_before=series.copies
    )
    return replace(about, terms=replace(about.terms, sweep=sweep))


def sampling_of(run: SweptRun, before: Series | None) -> Sampling:
    """Return how sure the run found a loss.

    `before` is the series that the previous run left, if there was one.
    `bounds` are for this run alone and `accumulated` for all counted runs; null if no ledger was
    judged by a sweep. Each probability is rounded down.
    """
    series = before
    if run.is_counted:
        outcome = (run.sweep, run.started_at, run.copies)
        series = before.after(*outcome) if before else begin_series(*outcome)
    is_swept = run.sweep.step > 0 and run.probed > 0
    spans = series.spans if series is not None and is_swept else ()
    return Sampling(
        run.sweep.budget,
        run.sweep.step if is_swept else None,
        bounds_of([Draw(run.sweep.step, run.sweep.turn)]) if is_swept else None,
        _accumulated(spans) if spans else None,
        series.stored if series is not None else None,
    )


def _accumulated(spans: tuple[Span, ...]) -> Together:
    draws = [draw for span in spans for draw in span.draws()]
    runs, since = sum(span.runs for span in spans), min(span.since for span in spans)
    return Together(runs, since, bounds_of(draws))


def bounds_of(draws: Iterable[Draw]) -> dict[str, float]:
    """Return, for each of LENGTHS, the probability that the sweeps hit so many entries in a row.

    It is rounded down.
    """
    kept = list(draws)
    return {
        str(length): math.floor(hit_probability(kept, length) * 1e6) / 1e6 for length in LENGTHS
    }


def series_from(sampling: Sampling | None) -> Series | None:
    """Return the series that an earlier run left; None if it has none, or an impossible one."""
    stored = sampling.series if sampling else None
    if stored is None or not all(map(_is_possible, stored.spans)):
        return None
    spans = (
        Span(span.step, span.first_turn, span.last_turn, span.runs, span.since)
        for span in stored.spans
    )
    return Series(stored.seed, stored.next_turn, float(stored.copies), tuple(spans))


def _is_possible(span: SweepSpan) -> bool:
    is_step = 0 < span.step <= STEP_MAX and span.step & (span.step - 1) == 0
    return is_step and 0 <= span.first_turn <= span.last_turn and span.runs > 0
