"""How long `auditor margin` takes on a stored run of a million ledgers, Python's start included.

.venv/bin/python -m benchmarks.margin
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from auditor.clock import rfc3339, utc_now
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LEDGERS, VERDICTS
from auditor.run.conclusion import conclude
from auditor.summary.previous_run import NO_PREVIOUS
from benchmarks.driver_memory import ABOUT, MANY, PORTION, RECORDS, write_run
from benchmarks.judging import ENSEMBLE
from benchmarks.targets import Target

SECONDS_MAX = 10.0
"""CPU seconds that one answer may take."""
SEED = 1
MANY_BOOKIES = [f"bookie-{number}:3181" for number in range(1, 51)]
ANSWERED = (0, 1, 3)
"""Exit codes of an answer; any other means that there was none."""
WAIT_S = 300.0
"""How long one command may take, in seconds."""


def write_finished_run(directory: Path, ledgers: int) -> None:
    """Write a run that has just ended: one ledger in a hundred has findings."""
    run = place(str(directory))
    now = rfc3339(utc_now())
    about = replace(ABOUT, started_at=now)
    write_run(run, ledgers)
    _spread(run)
    (directory / "run.json").write_text(json.dumps(about.as_json()))
    verdicts = run.scan("verdicts", VERDICTS)
    done = conclude(
        run, about, RECORDS, NO_PREVIOUS, verdicts=verdicts, finished_at=now, duration_s={}
    )
    (directory / "summary.json").write_text(json.dumps(done.summary.as_json()))


def _spread(run: Place) -> None:
    """Draw the ensemble of every sound ledger from MANY_BOOKIES. There are 117,600 to draw, so that
    nothing is quick only because it repeats.
    """
    draw = random.Random(SEED)
    rows = run.read_table("evidence/ledgers", LEDGERS)
    is_last_look = pc.equal(rows["look"], 2)
    damaged = set(rows.filter(is_last_look)["ledger_id"].to_pylist())
    for number, start in enumerate(range(0, rows.num_rows, PORTION)):
        part = rows.slice(start, PORTION)
        ids, segments = part["ledger_id"].to_pylist(), part["segments"].to_pylist()
        for ledger_id, (segment, *_) in zip(ids, segments, strict=True):
            if ledger_id not in damaged:
                segment["ensemble"] = draw.sample(MANY_BOOKIES, ENSEMBLE)
        index = part.schema.get_field_index("segments")
        field = part.schema.field(index)
        spread = part.set_column(index, field, pa.array(segments, field.type))
        run.write_table("evidence/ledgers", spread, f"part-{number}")


def seconds_of(directory: Path, *without: str) -> tuple[float, float]:
    """Return what one command took, in CPU seconds and in seconds."""
    flags = [part for bookie in without for part in ("--without", bookie)]
    command = [sys.executable, "-m", "auditor", "margin", str(directory), *flags]
    before, began = _children_cpu_s(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    took_s = time.perf_counter() - began
    assert done.returncode in ANSWERED, done.stderr
    return _children_cpu_s() - before, took_s


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def target(scratch: Path, ledgers: int = MANY) -> Target:
    """Return what is promised of the cluster, of one bookie, and of three at once."""
    directory = scratch / "run-20260101T030000Z-000001"
    write_finished_run(directory, ledgers)
    cases = {
        "the whole cluster": (),
        "without one bookie": MANY_BOOKIES[:1],
        "without three at once": MANY_BOOKIES[:3],
    }
    found = {name: seconds_of(directory, *without) for name, without in cases.items()}
    return Target(
        f"auditor margin answers from {ledgers:,} ledgers within {SECONDS_MAX:g} CPU seconds",
        max(cpu_s for cpu_s, _ in found.values()) <= SECONDS_MAX,
        tuple(
            f"{cpu_s:5.2f} CPU s, {took_s:5.2f} s  {name}"
            for name, (cpu_s, took_s) in found.items()
        ),
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(target(Path(temporary)))
