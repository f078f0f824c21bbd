"""Judging in Spark: all evidence on a ledger gathered into one row, and `judging.settle` over it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from auditor.config import JudgingLimits
from auditor.evidence.gathered import evidence_by_ledger
from auditor.evidence.rows import Row, table
from auditor.evidence.schemas import SEEN, VERDICTS
from auditor.first_checker.schedule import expected_list
from auditor.judging.judge import Judge
from auditor.judging.judged_rows import judge_to_row, set_aside, withheld
from auditor.judging.set_aside import stopped_detail
from auditor.judging.settle import Step, Todo, lists_demanded
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.identity import LedgerId
from auditor.spark.lanes import QUESTIONS, WANTED, wanted_rows
from auditor.spark.ledgers import Batches, Work
from auditor.spark.store import spark_type

STEPS = pa.schema([*VERDICTS, pa.field("wait", pa.bool_()), pa.field("wanted", pa.list_(pa.struct(WANTED)))])
"""Where a ledger stands after a look, and the confirming reads it still needs. Key: ledger_id."""

NOT_ASKED = "whom to ask about it could not be found out"
"""Why a ledger is set aside that wants lists after all that want them were asked about."""

NONE_DIFFER: Mapping[LedgerId, str] = MappingProxyType({})


def steps_name(look: int, judging: int) -> str:
    """Return the name of the table of the given judging of a look."""
    return f"{steps_prefix(look)}{judging}"


def steps_prefix(look: int) -> str:
    """Return how the names of all judgings of a look begin."""
    return f"steps/look-{look}-judging-"


def gather_evidence(ledgers: DataFrame, answers: DataFrame | None, reads: DataFrame | None, *, first: bool) -> DataFrame:
    """SEEN rows: each ledger of `ledgers` once, with all its records, answers and reads. Greetings are no answers.

    At the first look a ledger has one record, so nothing has to be gathered for it.
    """
    record = f.struct(*ledgers.columns)
    if first:
        rows = ledgers.select("ledger_id", f.array(record).alias("records"))
    else:
        rows = ledgers.groupBy("ledger_id").agg(f.collect_list(record).alias("records"))
    for name, said in (("answers", answers), ("reads", reads)):
        if said is None:
            rows = rows.withColumn(name, f.lit(None).cast(spark_type(SEEN)[name].dataType))
            continue
        by_ledger = (
            said.where(f.col("ledger_id").isNotNull())
            .groupBy("ledger_id")
            .agg(f.collect_list(f.struct(*said.columns)).alias(name))
        )
        rows = rows.join(by_ledger, "ledger_id", "left")
    return rows.select(*SEEN.names)


def asker_of(limits: JudgingLimits, *, careful: bool = False, has_listers: bool = False) -> Work:
    """Work on SEEN rows: the QUESTIONS the ledgers demand next. Nothing is judged: after the first look the rows are those of
    ledgers that judging left wanting lists. `careful`: in a child, so that this process outlives the ledger.

    A ledger on which this raises, or has to be stopped, is not asked about: judging sets it aside.
    """

    def asked(evidence: LedgerEvidence) -> list[Row]:
        metadata = evidence.looks[-1].record.metadata
        return [
            (
                one.bookie_id,
                evidence.ledger_id,
                one.expected_bytes,
                expected_list(metadata, one.bookie_id) if has_listers and metadata else None,
            )
            for one in lists_demanded(evidence)
        ]

    def unasked(_: LedgerEvidence, __: str) -> list[Row]:
        return []

    def work(batches: Batches) -> Batches:
        judge = Judge(asked, unasked, limits, careful=careful)
        for batch in batches:
            yield table(QUESTIONS, [row for rows in judge.judge_all(list(evidence_by_ledger(batch))) for row in rows])

    return work


def were_bookies_asked(look: int, only: tuple[int, Todo] | None) -> bool:
    """Return whether bookies were asked, earlier in this look, about all ledgers that want lists.

    `only`: the ledgers judged are those that an earlier judging of the look left with that todo.
    """
    return look == 1 or only is not None


def judge_of(
    terms: Terms,
    facts: ClusterFacts,
    limits: JudgingLimits,
    *,
    careful: bool = False,
    were_asked: bool = False,
    differing: Mapping[LedgerId, str] = NONE_DIFFER,
) -> Work:
    """Work on SEEN rows: a STEPS row for each ledger. `careful`: in a child, so that this process outlives the ledger.

    `were_asked`: bookies were asked about all ledgers that want lists. One that wants them still
    was left out because finding out whom to ask failed (`asker_of`): it is set aside.
    `differing`: ledgers on which the checkers were found to differ, and in what; they are told and not judged.
    """

    def row(evidence: LedgerEvidence) -> Row:
        step, verdict = judge_to_row(evidence, terms, facts)
        if were_asked and step.todo is Todo.LISTS:
            return aside(evidence, stopped_detail(NOT_ASKED))
        return _step_row(evidence, step, verdict)

    def aside(evidence: LedgerEvidence, why: str) -> Row:
        return _step_row(evidence, *set_aside(evidence, why, terms, facts))

    def work(batches: Batches) -> Batches:
        judge = Judge(row, aside, limits, careful=careful)
        for batch in batches:
            ledgers = list(evidence_by_ledger(batch))
            differing_ledgers = [one for one in ledgers if one.ledger_id in differing]
            rows = [_step_row(one, *withheld(one, differing[one.ledger_id], terms, facts)) for one in differing_ledgers]
            yield table(STEPS, [*judge.judge_all([one for one in ledgers if one.ledger_id not in differing]), *rows])

    return work


def _step_row(evidence: LedgerEvidence, step: Step, verdict: Row) -> Row:
    return (*verdict, step.wait, list(_wanted_rows(evidence, step)))


def _wanted_rows(evidence: LedgerEvidence, step: Step) -> Iterator[tuple[Any, ...]]:
    metadata = evidence.looks[-1].record.metadata
    digest = metadata.digest_type if metadata else None
    return wanted_rows(step.reads, evidence.ledger_id, digest, are_searches=step.are_searches)
