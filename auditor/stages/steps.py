"""Judge the evidence of ledgers, batch by batch.

A judging says which bookies to ask, which entries to read, and where each ledger stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import JudgingLimits
from auditor.evidence.gathered import evidence_by_ledger
from auditor.evidence.rows import Row, repeat_row, table
from auditor.evidence.schemas import VERDICTS
from auditor.first_checker.schedule import expected_list, positions_asked
from auditor.first_checker.spot_reads import ListTests, NamedEntries, expected_among
from auditor.judging.healthy_ledgers import (
    ClearLedger,
    Healthy,
    clear_ledgers,
    healthy_ledgers,
    healthy_verdict,
)
from auditor.judging.judge import Judge, stopped_detail
from auditor.judging.settle import Step, Todo, lists_demanded
from auditor.judging.tested_ledgers import may_have_reads
from auditor.judging.verdict_rows import (
    judge_claimed,
    judge_to_row,
    set_aside,
    verdict_row,
    withheld,
)
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.identity import LedgerId
from auditor.model.ledger import (
    LedgerRecord,
    RecordStatus,
)
from auditor.model.verdict import CopyCounts, Standing, Verdict, cap_copies
from auditor.second_checker.agreement import are_in_sample, is_in_sample
from auditor.stages.asking import QUESTIONS, WANTED, wanted_rows
from auditor.stages.reading import Batches, Work

STEPS = pa.schema(
    [
        *VERDICTS,
        pa.field("wait", pa.bool_()),
        pa.field("asks_next", pa.bool_()),
        pa.field("wanted", pa.list_(pa.struct(WANTED))),
    ]
)
"""Where a ledger stands after a look, and the confirming reads it still needs. Key: ledger_id."""

NOT_ASKED = "whom to ask about it could not be found out"
"""Why a ledger is set aside that still demands lists after all demanded lists were asked for."""

Cells: TypeAlias = Sequence[int] | pa.Array


class Unchanged(NamedTuple):
    """Ledgers of which this look demands lists if it read the same metadata as the look before."""

    look: int
    ledgers: frozenset[LedgerId]


NONE_DIFFER: Mapping[LedgerId, str] = MappingProxyType({})


def steps_name(look: int, judging: int) -> str:
    """Return the name of the table of the given judging of a look."""
    return f"{steps_prefix(look)}{judging}"


def steps_prefix(look: int) -> str:
    """Return how the names of all judgings of a look begin."""
    return f"steps/look-{look}-judging-"


def packed_answers(name: str) -> str:
    """Return the table that has LANE_ANSWERS until the file of evidence/answers is written."""
    return f"steps/lists-{name}"


def asker_of(
    terms: Terms, limits: JudgingLimits, *, careful: bool = False, with_expected: bool = False
) -> Work:
    """Return work on SEEN rows: the QUESTIONS that the ledgers demand.

    Nothing is judged. After the first look the rows are those of ledgers for which judging demanded
    lists. At the first look the lists of clear ledgers are compared when they come, and kept for
    the sample that both checkers judge (docs/decisions/0062). `with_expected`: the questions about
    other ledgers say what the bookie should hold as well. The questions of a batch are in the order
    of their ledgers.

    `careful`: in a child process, because a ledger may end the process. A ledger on which this
    raises, or which has to be stopped, is not asked about: judging sets it aside. Clear ledgers
    need no child: their questions are those of their shape.
    """

    def asked(evidence: LedgerEvidence) -> list[Row]:
        metadata = evidence.looks[-1].record.metadata
        return [
            (
                question.bookie_id,
                evidence.ledger_id,
                question.expected_bytes,
                expected_list(metadata, question.bookie_id) if with_expected and metadata else None,
                False,
                True,
                None,
            )
            for question in lists_demanded(evidence)
        ]

    def unasked(_: LedgerEvidence, __: str) -> list[Row]:
        return []

    def work(batches: Batches) -> Batches:
        judge = Judge(asked, unasked, limits, careful=careful)
        for batch in batches:
            clear = clear_ledgers(batch) if pc.all(_is_unasked(batch)).as_py() else {}
            others = [number for number in range(batch.num_rows) if number not in clear]
            rest = batch.take(pa.array(others, pa.int64())) if clear else batch
            ledgers = list(evidence_by_ledger(rest))
            asks = table(QUESTIONS, [row for rows in judge.judge_all(ledgers) for row in rows])
            if clear:
                of_clear = _clear_questions(batch["ledger_id"].to_pylist(), clear, terms)
                both = pa.Table.from_batches([of_clear, asks]).sort_by("ledger_id")
                yield from both.combine_chunks().to_batches()
            else:
                yield asks

    return work


def _is_unasked(batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return which ledgers of a SEEN batch no bookie was asked about."""
    return pc.equal(pc.fill_null(pc.list_value_length(batch["answers"]), 0), 0)


SHAPES_MAX = 10_000
"""Shapes of clear ledgers whose questions are kept: a kilobyte each."""
_questions_of_shape = lru_cache(SHAPES_MAX)(positions_asked)


def _clear_questions(
    ids: Sequence[LedgerId], clear: Mapping[int, ClearLedger], terms: Terms
) -> pa.RecordBatch:
    """Return QUESTIONS rows about clear ledgers, whose lists are compared.

    `ids` has the ledger of each row number of `clear`.
    """
    columns: tuple[list[Any], ...] = tuple([] for _ in QUESTIONS)
    bookies, ledgers, sizes, lists, compared, kept, blocks = columns
    for number, (last, size, quorum, ensemble) in clear.items():
        positions, expected_bytes, expected = zip(
            *_questions_of_shape(last, size, quorum), strict=True
        )
        bookies.extend([ensemble[position] for position in positions])
        ledgers.extend([ids[number]] * size)
        sizes.extend(expected_bytes)
        lists.extend(expected)
        kept.extend([is_in_sample(ids[number], terms)] * size)
    compared.extend([True] * len(ledgers))
    blocks.extend([None] * len(ledgers))
    arrays = [pa.array(cells, field.type) for cells, field in zip(columns, QUESTIONS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=QUESTIONS)


def spots_of(tests: ListTests, limits: JudgingLimits, *, careful: bool = False) -> Work:
    """Return work on SEEN rows: the WANTED rows of the entries that test lists.

    `careful`: in a child process, which a ledger may end. A ledger on which this raises, or has to
    be stopped, is not tested: judging sets it aside.
    """

    def drawn(evidence: LedgerEvidence) -> list[Row]:
        ledger, metadata = evidence.ledger_id, evidence.looks[-1].record.metadata
        if metadata is None:
            return []
        digest = None if metadata.digest_type is None else int(metadata.digest_type)
        return [
            (bookie, ledger, entry, digest, False, True, tests.is_denser, False)
            for bookie, entry in tests.copies(evidence)
        ]

    def undrawn(_: LedgerEvidence, __: str) -> list[Row]:
        return []

    def work(batches: Batches) -> Batches:
        judge = Judge(drawn, undrawn, limits, careful=careful)
        for batch in batches:
            owners = pc.list_parent_indices(batch["records"]).to_numpy()
            chosen = np.unique(owners[may_have_reads(batch["records"].flatten(), tests)])
            ledgers = list(evidence_by_ledger(batch.take(pa.array(chosen))))
            yield table(WANTED, [row for rows in judge.judge_all(ledgers) for row in rows])

    return work


def named_of(named: NamedEntries, limits: JudgingLimits, *, careful: bool = False) -> Work:
    """Return work on SEEN rows: the WANTED rows of entries that scrubs named.

    An entry is read only on a bookie that should hold it, and once at a look. `careful`: as in
    `spots_of`.
    """

    def chosen(evidence: LedgerEvidence) -> list[Row]:
        ledger, metadata = evidence.ledger_id, evidence.looks[-1].record.metadata
        if metadata is None:
            return []
        digest = None if metadata.digest_type is None else int(metadata.digest_type)
        return [
            (bookie, ledger, entry, digest, False, True, False, True)
            for bookie, entry in expected_among(metadata, named.get(ledger, ()))
            if (bookie, entry) not in evidence.looks[-1].reads
        ]

    def none_chosen(_: LedgerEvidence, __: str) -> list[Row]:
        return []

    def work(batches: Batches) -> Batches:
        judge = Judge(chosen, none_chosen, limits, careful=careful)
        for batch in batches:
            ledgers = list(evidence_by_ledger(batch))
            yield table(WANTED, [row for rows in judge.judge_all(ledgers) for row in rows])

    return work


def judge_of(
    terms: Terms,
    facts: ClusterFacts,
    limits: JudgingLimits,
    *,
    careful: bool = False,
    were_asked: bool = False,
    differing: Mapping[LedgerId, str] = NONE_DIFFER,
    by_columns: bool = False,
    unchanged: Unchanged | None = None,
) -> Work:
    """Return work on SEEN rows: a STEPS row for each ledger.

    `careful`: in a child process, because a ledger may end the process.

    `were_asked`: bookies were asked about all ledgers that demand lists. A ledger that still
    demands them was left out because finding its bookies failed (`asker_of`): it is set aside.
    `differing`: ledgers on which the checkers differ, and how. They are withheld, not judged.
    `by_columns`: healthy ledgers are found in the columns, and only a sample of them is judged.
    `unchanged`: lists are demanded of these without judging them, unless other metadata was read.
    """

    def work(batches: Batches) -> Batches:
        steps = _Steps(terms, facts, were_asked)
        judge = Judge(steps.row, steps.set_aside, limits, careful=careful)
        for batch in batches:
            if unchanged is not None:
                is_same = pa.array(_are_unchanged(batch, unchanged))
                same, batch = batch.filter(is_same), batch.filter(pc.invert(is_same))
                row = steps.unjudged_row(Standing.INDETERMINATE, Todo.LISTS)
                yield repeat_row(STEPS, row, {"ledger_id": same["ledger_id"]})
            settled, steps.claims = _settle_by_columns(batch, terms) if by_columns else ({}, {})
            rest = tuple(number for number in range(batch.num_rows) if number not in settled)
            unsettled = batch.take(pa.array(rest, pa.int64())) if settled else batch
            ledgers = list(evidence_by_ledger(unsettled))
            differ = [ledger for ledger in ledgers if ledger.ledger_id in differing]
            withheld_rows = [
                steps.withhold(ledger, differing[ledger.ledger_id]) for ledger in differ
            ]
            judged = judge.judge_all(
                [ledger for ledger in ledgers if ledger.ledger_id not in differing]
            )
            rows = table(STEPS, [*judged, *withheld_rows])
            if settled:
                ids = batch["ledger_id"].take(pa.array(list(settled), pa.int64()))
                counts = [
                    cap_copies(CopyCounts(one.copies, one.copies - one.read, one.read, 0))
                    for one in settled.values()
                ]
                healthy = steps.healthy_rows(
                    ids,
                    expected=[copies.expected for copies in counts],
                    listed=[copies.listed for copies in counts],
                    read=[copies.read for copies in counts],
                )
                yield from _in_order({rest: rows, tuple(settled): healthy})
            else:
                yield rows

    return work


def count_of(terms: Terms, facts: ClusterFacts) -> Work:
    """Return work on COUNTED rows: a STEPS row for each ledger.

    The healthy ledgers outside the sample are settled. All others are left with Todo.EVIDENCE:
    those of the sample that are healthy by the counts as sound, to be compared with what their
    evidence says, and the rest as indeterminate.
    """

    def work(batches: Batches) -> Batches:
        steps = _Steps(terms, facts, were_asked=True)
        for batch in batches:
            is_healthy = pc.is_valid(batch["copies"])
            healthy, others = batch.filter(is_healthy), batch.filter(pc.invert(is_healthy))
            is_drawn = pa.array(are_in_sample(healthy["ledger_id"].to_numpy(), terms))
            settled, claimed = healthy.filter(pc.invert(is_drawn)), healthy.filter(is_drawn)
            copies, read = settled["copies"], settled["copies_read"]
            yield steps.healthy_rows(
                settled["ledger_id"],
                expected=copies,
                listed=pc.subtract(copies, read),
                read=read,
            )
            for standing, left in ((Standing.SOUND, claimed), (Standing.INDETERMINATE, others)):
                row = steps.unjudged_row(standing)
                yield repeat_row(STEPS, row, {"ledger_id": left["ledger_id"]})

    return work


@dataclass(slots=True)
class _Steps:
    """Makes the STEPS rows of ledgers. `claims`: what the columns say of the ledgers of the
    sample.
    """

    terms: Terms
    facts: ClusterFacts
    were_asked: bool
    claims: Mapping[LedgerId, Verdict] = field(default_factory=dict)

    def row(self, evidence: LedgerEvidence) -> Row:
        """Judge a ledger and return its row. Raises whatever a ledger may cause."""
        claim = self.claims.get(evidence.ledger_id)
        if claim is not None:
            return _step_row(evidence, *judge_claimed(evidence, claim, self.terms, self.facts))
        step, verdict = judge_to_row(evidence, self.terms, self.facts)
        if self.were_asked and step.todo is Todo.LISTS:
            return self.set_aside(evidence, stopped_detail(NOT_ASKED))
        return _step_row(evidence, step, verdict)

    def set_aside(self, evidence: LedgerEvidence, why: str) -> Row:
        """Return the row of a ledger that could not be judged."""
        return _step_row(evidence, *set_aside(evidence, why, self.terms, self.facts))

    def withhold(self, evidence: LedgerEvidence, detail: str) -> Row:
        """Return the row of a ledger on which the checkers differ."""
        return _step_row(evidence, *withheld(evidence, detail, self.terms, self.facts))

    def unjudged_row(self, standing: Standing, todo: Todo = Todo.EVIDENCE) -> Row:
        """Return the row of a ledger that is not judged yet."""
        step = Step(Verdict(0, standing), todo)
        return _step_row(_ANY_LEDGER, step, verdict_row(_ANY_LEDGER, step, self.terms, self.facts))

    def healthy_rows(
        self, ids: pa.Array, *, expected: Cells, listed: Cells, read: Cells
    ) -> pa.RecordBatch:
        """Return the rows of healthy ledgers, which are all alike but for these columns.

        The counts are the copies that each promises, and those of them that were listed or read.
        """
        step = Step(healthy_verdict(0, Healthy(0, 0)), Todo.NOTHING)
        row = _step_row(_ANY_LEDGER, step, verdict_row(_ANY_LEDGER, step, self.terms, self.facts))
        columns = {
            "ledger_id": ids,
            "copies_expected": expected,
            "copies_listed": listed,
            "copies_read": read,
        }
        return repeat_row(STEPS, row, columns)


_ANY_LEDGER = LedgerEvidence(0, (Look(LedgerRecord(0, 1, 0, RecordStatus.FOUND)),))
"""Stands for a ledger of which rows say the same as of all others, except the id."""


def _settle_by_columns(
    batch: pa.RecordBatch, terms: Terms
) -> tuple[dict[int, Healthy], dict[LedgerId, Verdict]]:
    """Return the healthy ledgers of a SEEN batch outside the sample, and the verdicts on those in
    it.

    The healthy ledgers are given as row numbers, with the copies of each ledger.
    """
    settled, claims = {}, {}
    ids = batch["ledger_id"].to_pylist()
    for number, copies in healthy_ledgers(batch, terms).items():
        if is_in_sample(ids[number], terms):
            claims[ids[number]] = healthy_verdict(ids[number], copies)
        else:
            settled[number] = copies
    return settled, claims


_STATE = ("status", "czxid", "znode_version", "znode_ctime_ms", "znode_mtime_ms")
"""The columns of LEDGERS that are equal if two looks read the same metadata."""


def _are_unchanged(batch: pa.RecordBatch, unchanged: Unchanged) -> npt.NDArray[np.bool_]:
    """Return which ledgers of a SEEN batch are among these, and have the same metadata at this look
    as at the one before, and no mark.
    """
    records = batch["records"].flatten()
    lengths = pc.list_value_length(batch["records"]).to_numpy()
    newest = np.cumsum(lengths) - 1
    found = np.array([i in unchanged.ledgers for i in batch["ledger_id"].to_pylist()], np.bool_)
    found &= lengths > 1
    two = [records.take(pa.array(at[found])) for at in (newest, newest - 1)]
    is_same = [pc.equal(*(rows.field(name) for rows in two)) for name in _STATE]
    is_same.append(pc.equal(two[0].field("look"), unchanged.look))
    is_same += [pc.is_null(rows.field("mark")) for rows in two]
    masks = [pc.fill_null(mask, False).to_numpy(zero_copy_only=False) for mask in is_same]
    found[found] = np.logical_and.reduce(masks)
    return found


def _in_order(parts: Mapping[tuple[int, ...], pa.RecordBatch]) -> Batches:
    """Yield rows in the order of their numbers, part by part."""
    numbers = [number for part in parts for number in part]
    yield from pa.Table.from_batches(list(parts.values())).take(np.argsort(numbers)).to_batches()


def _step_row(evidence: LedgerEvidence, step: Step, verdict: Row) -> Row:
    return (*verdict, step.wait, step.asks_next, list(_wanted_rows(evidence, step)))


def _wanted_rows(evidence: LedgerEvidence, step: Step) -> Iterator[tuple[Any, ...]]:
    metadata = evidence.looks[-1].record.metadata
    digest = metadata.digest_type if metadata else None
    return wanted_rows(step.reads, evidence.ledger_id, digest, are_searches=step.are_searches)
