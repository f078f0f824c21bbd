"""Healthy ledgers by the counts of their answers: what Spark counts, and what must not be sound."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from support.entry_by_entry import expected_on

from auditor.config import JudgingLimits
from auditor.evidence.rows import expected_answer_row, ledger_row, read_row, table
from auditor.evidence.run_tables import seen_rows
from auditor.evidence.schemas import ANSWERS, COUNTED, LEDGERS, READS
from auditor.judging.healthy_ledgers import Healthy, healthy_by_counts, healthy_ledgers
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus, SequenceGroup
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import PlacementRule, Policy, Terms
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import is_in_sample
from auditor.spark.executor import count_answers
from auditor.spark.store import local_rows
from auditor.stages import steps
from auditor.wire.entry_availability import canonical

pytestmark = pytest.mark.spark

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
LIMITS = JudgingLimits()
TERMS = Terms(1_000, 0, 16, 5)
CLEAR = ledger("e3 w2 a2 0:[b1 b2 b3] closed 29")
Cells = dict[str, Any]
Change = Callable[[list[Cells]], Iterable[Cells]]


def said(ledger_id: int) -> list[Cells]:
    """Return the answers of three bookies, all as expected."""
    return [
        dict(
            zip(
                ANSWERS.names,
                expected_answer_row(
                    Answer(
                        bookie,
                        ledger_id,
                        1,
                        0,
                        AnswerStatus.HELD,
                        canonical(SequenceGroup(entry, entry, 1, 0) for entry in sorted(entries)),
                    ),
                    is_kept=False,
                ),
                strict=True,
            )
        )
        for bookie, entries in expected_on(CLEAR).items()
    ]


def with_cells(**cells: Any) -> Change:
    """Return a change of the first answer."""
    return lambda answers: [{**answers[0], **cells}, *answers[1:]]


UNHEALTHY: dict[str, Change] = {
    "an answer was lost": lambda answers: answers[1:],
    "no answer came": lambda _: [],
    "an answer was doubled": lambda answers: [*answers, answers[0]],
    "one was lost and one doubled": lambda answers: [answers[0], *answers[:2]],
    "one was lost and one came twice more": lambda answers: [answers[0]] * 3,
    "another bookie answered too": lambda answers: [*answers, {**answers[0], "bookie_id": "b9"}],
    "another bookie answered instead": with_cells(bookie_id="b9"),
    "the answer has no bookie": with_cells(bookie_id=None),
    "one is of another look": with_cells(look=2),
    "one has no look": with_cells(look=None),
    "one was not compared": with_cells(is_as_expected=None),
    "one differs": with_cells(is_as_expected=False, groups=b""),
    "one is no list": with_cells(status="timed_out"),
    "one has no status": with_cells(status=None),
    "one is odd": with_cells(non_canonical=True),
    "it is not said whether one is odd": with_cells(non_canonical=None),
    "one leaves a log out": with_cells(missing_logs=[("1.log", 1, [[0, 0]])]),
    "one lacks an entry that was read": with_cells(read_unlisted=[3]),
}
MARKED, NOT_ASKED, WRONGLY_READ, READ, SOUND, NO_ENTRY = range(1001, 1007)


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return evidence in which each ledger of UNHEALTHY has one of its changes; some others."""
    records = [
        LedgerRecord(i, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0, 0), CLEAR)
        for i in (*range(len(UNHEALTHY)), WRONGLY_READ, READ, SOUND, NO_ENTRY)
    ]
    records.append(replace(records[0], ledger_id=MARKED, mark=Mark(0, 0)))
    records.append(
        replace(records[0], ledger_id=NOT_ASKED, status=RecordStatus.UNREADABLE, metadata=None)
    )
    rows = [row for i, change in enumerate(UNHEALTHY.values()) for row in change(said(i))]
    rows += [row for i in (MARKED, WRONGLY_READ, READ, SOUND, NO_ENTRY) for row in said(i)]
    rows[-1] = {**rows[-1], "status": "no_such_ledger", "groups": b""}  # as if it should hold none
    rows.append({**rows[0], "ledger_id": None, "status": "answered"})
    reads = [
        EntryRead("b1", READ, 6, 1, 0, ReadStatus.PRESENT, is_spot=True),
        EntryRead("b1", WRONGLY_READ, 6, 1, 0, ReadStatus.NO_ENTRY, is_spot=True),
    ]
    return (
        pa.Table.from_batches([table(LEDGERS, map(ledger_row, records))]),
        pa.Table.from_pylist(rows, schema=ANSWERS),
        pa.Table.from_batches([table(READS, map(read_row, reads))]),
    )


def seen_of(tables: tuple[pa.Table, pa.Table, pa.Table]) -> pa.RecordBatch:
    """Return the evidence as SEEN rows."""
    records, answers, reads = tables
    (batch,) = seen_rows(records, answers.filter(pc.is_valid(answers["ledger_id"])), reads)
    return batch


@pytest.fixture(scope="module")
def counted(spark: SparkSession, tables: tuple[pa.Table, pa.Table, pa.Table]) -> pa.RecordBatch:
    ours = (local_rows(spark, one.combine_chunks().to_batches()[0]) for one in tables)
    (batch,) = count_answers(*ours).toArrow().cast(COUNTED).combine_chunks().to_batches()
    return batch


def test_a_ledger_is_healthy_only_if_each_of_its_bookies_was_as_expected_once(
    counted: pa.RecordBatch,
) -> None:
    """Each ledger of the evidence is counted once, whatever was said of it."""
    ids = counted["ledger_id"].to_pylist()
    assert sorted(ids) == [*range(len(UNHEALTHY)), *range(MARKED, NO_ENTRY + 1)]
    found = {ids[number]: one for number, one in healthy_by_counts(counted, TERMS).items()}
    names = list(UNHEALTHY)
    assert [] == [names[one] for one in found if one < len(names)]
    whole = Healthy(60, 0)
    assert {READ: Healthy(60, 1), SOUND: whole, NO_ENTRY: whole} == found


def test_what_counts_call_healthy_the_gathered_evidence_calls_healthy_too(
    counted: pa.RecordBatch, tables: tuple[pa.Table, pa.Table, pa.Table]
) -> None:
    seen = seen_of(tables)
    by_evidence = {
        seen["ledger_id"][number].as_py(): one
        for number, one in healthy_ledgers(seen, TERMS).items()
    }
    assert by_evidence == {
        counted["ledger_id"][number].as_py(): one
        for number, one in healthy_by_counts(counted, TERMS).items()
    }


def test_what_is_not_settled_by_counts_is_left(counted: pa.RecordBatch) -> None:
    """So is the sample. The rows of settled ledgers are those of `judge_of`."""
    half = replace(TERMS, sound_sample=0.5)
    rows = pa.Table.from_batches(list(steps.count_of(half, FACTS)(iter([counted])))).to_pylist()
    assert sorted(row["ledger_id"] for row in rows) == sorted(counted["ledger_id"].to_pylist())
    healthy = {READ, SOUND, NO_ENTRY}
    settled = {row["ledger_id"] for row in rows if row["todo"] == "nothing"}
    assert settled == {one for one in healthy if not is_in_sample(one, half)}
    assert {"evidence"} == {row["todo"] for row in rows if row["ledger_id"] not in settled}
    assert not any(row["findings"] for row in rows)


def test_nothing_is_settled_by_counts_where_placement_is_judged(counted: pa.RecordBatch) -> None:
    terms = replace(TERMS, placement=PlacementRule(Policy.RACK))
    assert {} == healthy_by_counts(counted, terms)


def test_settled_rows_are_those_of_the_gathered_evidence(
    counted: pa.RecordBatch, tables: tuple[pa.Table, pa.Table, pa.Table]
) -> None:
    """They are equal in every cell."""
    ids, seen = pa.array([READ, SOUND]), seen_of(tables)
    sound = seen.filter(pc.is_in(seen["ledger_id"], ids))
    judged = pa.Table.from_batches(list(steps.judge_of(TERMS, FACTS, LIMITS)(iter([sound]))))
    rows = pa.Table.from_batches(list(steps.count_of(TERMS, FACTS)(iter([counted]))))
    settled = rows.filter(pc.is_in(rows["ledger_id"], ids)).sort_by("ledger_id")
    assert judged.to_pylist() == settled.to_pylist()
