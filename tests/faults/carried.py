"""The detector of sums that are carried from run to run: each must count every run exactly once.

It reads what the runs wrote (summary.json, findings.jsonl, run.json, the evidence) and the
published metrics, and uses none of the auditor's code. A run that was killed before it was
published does not count. The run that is published counts what the killed one found:

    chain = [Finished(run_1), Finished(run_2, before=run_1, baseline=run_1)]
    breaches_of_carried(chain, samples)    # `samples`: the metrics after each process, in order

A sum that is too small lost a run, one that is too large counted a run twice. `CARRIED` is the
table of everything that is carried.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from faults.detector import Sort
from faults.reported import written_files

Json = Mapping[str, Any]
Numbers = Mapping[tuple[str, ...], int]
"""A carried field as numbers by key."""

AGREEING_RUNS = 3
"""Consecutive runs that found the number of ledgers dropped, to about the same number: after these
it is the baseline of the next run.
"""
VALID = frozenset({"held", "no_such_ledger"})
CONCLUSIVE = frozenset({"present", "no_entry", "no_ledger", "corrupt"})
SAMPLE = re.compile(
    r'^bookkeeper_auditor_(\w+)_total\{.*(?:kind|outcome)="(\w+)".*\} ([0-9.e+]+)$', re.MULTILINE
)


@dataclass(frozen=True)
class Finished:
    """A published run. `before`: the newest run published before it; `baseline`: the newest run
    when it began.
    """

    directory: Path
    before: Path | None = None
    baseline: Path | None = None


@dataclass(frozen=True)
class Breach:
    """What happened to which number of which carried field, in which run (or in which sample of the
    metrics).
    """

    sort: Sort
    field: str
    key: tuple[str, ...]
    where: str
    expected: object
    actual: object


@dataclass(frozen=True)
class Sum:
    """A field of summary.json that adds up over runs. `adds`: what a run adds to it, given the run
    before it.
    """

    name: str
    actual: Callable[[Path], Numbers]
    adds: Callable[[Path, Path | None], Numbers]


@dataclass(frozen=True)
class Handed:
    """A value that a run takes over from an earlier run: `actual` of the run must be `expected` of
    its predecessors.
    """

    name: str
    actual: Callable[[Path], object]
    expected: Callable[[Finished], object]


def summary_of(run: Path) -> dict[str, Any]:
    """Return summary.json of a run."""
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return found


def _findings(run: Path | None) -> Counter[tuple[str, str]]:
    lines = (run / "findings.jsonl").read_text().splitlines() if run else []
    return Counter((found["id"], found["kind"]) for found in map(json.loads, lines))


def _new_findings(run: Path, before: Path | None) -> Numbers:
    """Return the number of findings by kind that the run before did not have, had with another
    kind, or handed on unchecked.
    """
    known = set(_findings(before)) | set(_handed_on(before))
    return Counter({(kind,): 0 for _, kind in _findings(run)}) + Counter(
        (kind,) for found_id, kind in _findings(run) if (found_id, kind) not in known
    )


def _handed_on(run: Path | None) -> Iterator[tuple[str, str]]:
    file = None if run is None else run / "not_checked_again.jsonl"
    lines = file.read_text().splitlines() if file is not None and file.exists() else []
    return ((found["id"], found["kind"]) for found in map(json.loads, lines))


def _requests(run: Path, before: Path | None) -> Numbers:
    """Return the requests by service and outcome. Those to bookies are counted from the
    evidence.
    """
    answers, reads = (_rows(run / "evidence" / name) for name in ("answers", "reads"))
    renames = _rows(run / "evidence" / "renames")
    sent = sum(row["requests"] for row in (*answers, *reads, *renames))
    failed = sum(row["retries"] for row in (*answers, *reads, *renames))
    failed += sum(
        row["requests"] > 0 and row["status"] not in VALID
        for row in answers
        if row["ledger_id"] is not None
    )
    failed += sum(row["requests"] > 0 and row["status"] not in CONCLUSIVE for row in reads)
    greetings = [row for row in (*answers, *renames) if row["ledger_id"] is None]
    failed += sum(row["requests"] > 0 and row["status"] == "silent" for row in greetings)
    read, unread = (_znodes(run, name) for name in ("zookeeper_reads", "zookeeper_reads_failed"))
    return {
        ("bookie_requests", "answered"): max(0, sent - failed),
        ("bookie_requests", "failed"): failed,
        ("zookeeper_reads", "answered"): read - unread,
        ("zookeeper_reads", "failed"): unread,
    }


def _znodes(run: Path, column: str) -> int:
    """Return the reads of znodes as the tables state them."""
    tables = [path for path in sorted((run / "evidence").iterdir()) if path.is_dir()]
    return sum(row.get(column) or 0 for table in tables for row in _rows(table))


def _rows(table: Path) -> list[dict[str, Any]]:
    return [
        row
        for path in written_files(table)
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]


def _request_totals(run: Path) -> Numbers:
    return {
        (name, outcome): n
        for name, by in summary_of(run)["request_totals"].items()
        for outcome, n in by.items()
    }


def _baseline(run: Path | None) -> object:
    """Return the number of ledgers with which the next run is compared."""
    if run is None:
        return None
    summary = summary_of(run)
    listed = summary["ledgers"]["listed"]
    last = json.loads((run / "run.json").read_text())["previous_population"]
    if last and "LEDGER_POPULATION_DROPPED" in {kind for _, kind in _findings(run)}:
        low = [*last["low_listed"], listed]
        low = low if min(low) * 100 >= max(low) * (100 - last["drop_percent"]) else [listed]
        if len(low) < AGREEING_RUNS:
            return last["run_id"], last["finished_at"], last["listed"], low
    return summary["run_id"], summary["finished_at"], listed, []


def _stated_baseline(run: Path) -> object:
    last = json.loads((run / "run.json").read_text())["previous_population"]
    return last and (last["run_id"], last["finished_at"], last["listed"], list(last["low_listed"]))


def _absent(run: Path | None) -> object:
    """Return since when, in ms, each bookie has been unregistered, as the run stored it for the
    next one.
    """
    return (
        {}
        if run is None
        else {
            one["bookie_id"]: _ms(one["since"]) for one in summary_of(run)["bookies_unregistered"]
        }
    )


def _stated_absent(run: Path) -> object:
    return json.loads((run / "run.json").read_text()).get("unregistered_since_ms", {})


def _sweep(run: Path) -> Json:
    """Return what determines the entries that a run reads by rank."""
    sweep: Json = json.loads((run / "run.json").read_text())["terms"]["sweep"]
    return sweep


def _series(run: Path) -> Json | None:
    """Return the series of sweeps as a run stored it; None if no run so far belonged to one."""
    series: Json | None = summary_of(run)["sampling"]["series"]
    return series


def _is_of_series(run: Path) -> bool:
    """Return whether it read by rank, and everything that it should: only then may later runs build
    on it.
    """
    summary = summary_of(run)
    return _sweep(run)["step"] > 0 and summary["assurance"]["probed"] > 0 and not summary["partial"]


def _next_turn(one: Finished) -> object:
    """Return the turn after that of the run that was the newest when this one began; the same turn
    if that run has no part in the series.
    """
    if one.baseline is None or _series(one.baseline) is None:
        return 0
    return _sweep(one.baseline)["turn"] + _is_of_series(one.baseline)


def _runs(run: Path) -> int:
    """Return how many runs a run's promise rests on."""
    series = _series(run)
    return sum(span["runs"] for span in series["spans"]) if series is not None else 0


def _runs_due(one: Finished) -> object:
    """Return the runs of the run before it, if that is part of the same series, plus one if this
    run is part of it.
    """
    series = _series(one.before) if one.before is not None else None
    is_same = series is not None and series["seed"] == _sweep(one.directory)["seed"]
    return _is_of_series(one.directory) + (
        _runs(one.before) if one.before is not None and is_same else 0
    )


def _ms(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1_000)


SUMS = (
    Sum(
        "totals",
        lambda run: {(kind,): n for kind, n in summary_of(run)["totals"].items()},
        _new_findings,
    ),
    Sum("request_totals", _request_totals, _requests),
)
HANDED = (
    Handed("previous_population", _stated_baseline, lambda one: _baseline(one.baseline)),
    Handed("sweep", lambda run: _sweep(run)["turn"], _next_turn),
    Handed("sampling", _runs, _runs_due),
    Handed("unregistered_since_ms", _stated_absent, lambda one: _absent(one.baseline)),
)
CARRIED = (*SUMS, *HANDED)
"""Everything that a run hands on to the next one."""


def breaches_of_carried(chain: Sequence[Finished], samples: Sequence[str] = ()) -> list[Breach]:
    """Return everything that does not add up, in the order in which the runs were published."""
    found = [breach for one in chain for carried in CARRIED for breach in _of_run(carried, one)]
    return [*found, *_of_samples([one.directory for one in chain], samples)]


def _of_run(carried: Sum | Handed, one: Finished) -> Iterator[Breach]:
    where = one.directory.name
    if isinstance(carried, Handed):
        actual, expected = carried.actual(one.directory), carried.expected(one)
        if actual != expected:
            sort = Sort.LOSS if actual is None else Sort.CORRUPTION
            yield Breach(sort, carried.name, (), where, expected, actual)
        return
    before = carried.actual(one.before) if one.before else {}
    adds, numbers = carried.adds(one.directory, one.before), carried.actual(one.directory)
    for key in sorted({*before, *adds, *numbers}):
        due, stated_number = before.get(key, 0) + adds.get(key, 0), numbers.get(key, 0)
        if due != stated_number:
            yield Breach(_sort(due, stated_number), carried.name, key, where, due, stated_number)


def _sort(due: int, number: int) -> Sort:
    return Sort.LOSS if number < due else Sort.DUPLICATION


def _of_samples(published: Sequence[Path], samples: Sequence[str]) -> Iterator[Breach]:
    """Yield breaches of published counters. Each sample has the sums of one published run, and no
    sample is older than the one before it.
    """
    sums = [_counters_due(run) for run in published]
    at = 0
    for number, sample in enumerate(map(counters_of, samples), start=1):
        later = [n for n in range(at, len(sums)) if sums[n] == sample]
        if (
            later or not sample
        ):  # a run that failed before the first complete one has no counters to show
            at = later[0] if later else at
            continue
        for key in sorted({*sums[at], *sample}):
            due, actual = sums[at].get(key, 0), sample.get(key, 0)
            if due != actual:
                yield Breach(_sort(due, actual), "metrics", key, f"sample {number}", due, actual)


def _counters_due(run: Path) -> Numbers:
    return {("violations", *key): n for key, n in SUMS[0].actual(run).items()} | dict(
        SUMS[1].actual(run)
    )


def counters_of(text: str) -> Numbers:
    """Return the counters in a text of metrics, by name and label."""
    return {(name, label): int(float(value)) for name, label, value in SAMPLE.findall(text)}
