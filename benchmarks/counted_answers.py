"""Judging on Spark when lists were compared as they came, beside judging stored lists.

.venv/bin/python -m benchmarks.counted_answers [--ledgers 60000] [--rounds 3]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import cast

from auditor.config import JudgingLimits
from auditor.evidence.ids import EVERYTHING
from auditor.evidence.rows import Row, answer_row, expected_answer_row, ledger_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.judging.settle import Todo
from auditor.model.availability import Answer
from auditor.model.identity import LedgerId
from auditor.model.verdict import Standing
from auditor.second_checker.agreement import is_in_sample
from auditor.spark.executor import SparkExecutor
from auditor.spark.session import spark_session
from auditor.stages.selection import Ledgers, Suspects
from auditor.stages.steps import STEPS, count_of, judge_of
from auditor.stop import StopRequest
from auditor.zookeeper.metadata_store import StoreAddress
from benchmarks.judging import BOOKIES, FACTS, SOUND_SAMPLE, healthy
from benchmarks.judging import TERMS as UNSAMPLED
from benchmarks.targets import Target, measure_rows

LEDGERS_DEFAULT, ROUNDS_DEFAULT = 60_000, 3
PORTION = 20_000
"""Ledgers in one file of a table."""
DAMAGED_EVERY = 1_000
"""One ledger of so many lacks a list."""
ENTRIES_MIN = 1_000
"""Entries of the first ledger. Each further one has one more: no two lists are equal."""
RATIO_MAX = 0.8
TERMS = replace(UNSAMPLED, sound_sample=SOUND_SAMPLE)
Encode = Callable[[LedgerId, Answer], Row]


def _write_evidence(run: Place, ledgers: int, encode: Encode) -> None:
    run.write_table("evidence/reads", READS.empty_table(), "none")
    for start in range(0, ledgers, PORTION):
        part = [
            healthy(ledger_id, ENTRIES_MIN + ledger_id)
            for ledger_id in range(start, min(ledgers, start + PORTION))
        ]
        records = (ledger_row(one.looks[0].record) for one in part)
        run.write_stream("evidence/ledgers", [table(LEDGERS, records)], LEDGERS, f"{start}")
        answers = (
            encode(one.ledger_id, answer)
            for one in part
            for place_, answer in enumerate(one.looks[0].answers.values())
            if place_ or one.ledger_id % DAMAGED_EVERY
        )
        run.write_stream("evidence/answers", [table(ANSWERS, answers)], ANSWERS, f"{start}")


def _compared(ledger_id: LedgerId, answer: Answer) -> Row:
    return expected_answer_row(answer, is_kept=is_in_sample(ledger_id, TERMS))


def _judge_lists(by: SparkExecutor) -> None:
    """Judge as before lists were compared: the lists of each ledger are gathered."""
    work = judge_of(TERMS, FACTS, JudgingLimits(), by_columns=True)
    by.write(by.derive(by.evidence(Ledgers(1), answered=True), work, STEPS), "steps/lists", "")


def _judge_counts(by: SparkExecutor) -> None:
    """Judge as a run does."""
    counted = iter([Suspects(by.run).counted(EVERYTHING)])
    rows = count_of(TERMS, FACTS)(counted)
    by.run.write_stream("steps/look-1-judging-0", rows, STEPS, "suspects")
    left = Ledgers(1, left_by=0, todo=Todo.EVIDENCE)
    work = judge_of(TERMS, FACTS, JudgingLimits(), by_columns=True)
    by.write(by.derive(by.evidence(left, answered=True), work, STEPS), "steps/left", "")


def _sound(run: Place, names: Iterable[str]) -> int:
    return sum(
        run.read_table(name, STEPS, None, ["standing"])["standing"]
        .to_pylist()
        .count(Standing.SOUND.word)
        for name in names
    )


def _bytes_of_answers(run: Place) -> int:
    return sum(
        size
        for name, size in run.file_sizes("evidence").items()
        if name.startswith("evidence/answers")
    )


def targets(scratch: Path, ledgers: int, rounds: int) -> Iterator[Target]:
    """Measure both ways in turn, in one warm session."""
    stop, pairs = StopRequest(), ledgers * 3
    ways: dict[str, tuple[Encode, Callable[[SparkExecutor], None], tuple[str, ...]]] = {
        "lists": (lambda _, answer: answer_row(answer), _judge_lists, ("steps/lists",)),
        "counts": (_compared, _judge_counts, ("steps/look-1-judging-0", "steps/left")),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    runs = {name: place(str(scratch / name)) for name in ways}
    for name, (encode, _, _) in ways.items():
        _write_evidence(runs[name], ledgers, encode)
    address = cast("StoreAddress", None)  # nothing reads ZooKeeper
    with spark_session(len(BOOKIES), None, stop) as spark:
        for _ in range(rounds + 1):
            for name, (_, judge, written) in ways.items():
                by = SparkExecutor(
                    spark, stop, runs[name], address, 1, lambda _: None, float("inf")
                )
                began = time.monotonic()
                judge(by)
                seconds[name].append(time.monotonic() - began)
                damaged = len(range(0, ledgers, DAMAGED_EVERY))
                assert _sound(runs[name], written) == ledgers - damaged, name
                for table_name in written:
                    runs[name].remove(table_name)
    warm = {name: median(times[1:]) for name, times in seconds.items()}
    stored = {name: _bytes_of_answers(run) for name, run in runs.items()}
    yield Target(
        f"judging on Spark takes at most {RATIO_MAX} times as long if lists were compared when"
        " they came",
        warm["counts"] <= RATIO_MAX * warm["lists"],
        tuple(
            f"{name:7} {warm[name]:5.1f} s, {warm[name] / pairs * 1e6:4.1f} us a pair"
            f" ({', '.join(f'{one:.1f}' for one in seconds[name][1:])});"
            f" {stored[name] / pairs:.1f} bytes of answers a pair"
            for name in ways
        ),
    )


if __name__ == "__main__":
    sys.exit(measure_rows(__doc__, targets, LEDGERS_DEFAULT, ROUNDS_DEFAULT))
