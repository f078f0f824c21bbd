"""How fast ledgers are judged on one core, and that judging a stripe costs the same whatever its
length.

.venv/bin/python -m benchmarks.judging
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import JudgingLimits
from auditor.evidence.gathered import evidence_by_ledger
from auditor.evidence.rows import answer_row, ledger_row, table
from auditor.evidence.schemas import SEEN
from auditor.judging.settle import Todo, settle
from auditor.model.availability import Answer, AnswerStatus, SequenceGroup
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.ledger import (
    DigestType,
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.model.verdict import Standing
from auditor.stages.steps import judge_of
from auditor.wire.entry_availability import canonical
from benchmarks.targets import Target

PAIRS_PER_S_MIN = 250_000
STRIPE_RATIO_MAX = 2.0
LEDGERS = 20_000
BATCH_LEDGERS = 2_000
"""Ledgers in one Arrow batch, as the run writes them."""
ROUNDS = 5
SHORT_ENTRIES, LONG_ENTRIES = 1_000, 1_000_000_000
STRIPES = 2_000
ENTRIES = (3, 6, 1_000, 100_000)
"""Entries of the healthy ledgers, in turn."""
SOUND_SAMPLE = 0.01
"""The default of `--sound-sample`."""
FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
BOOKIES = tuple(f"b{number}:3181" for number in range(1, 6))
TERMS = Terms(
    judged_at_ms=1_700_000_000_000,
    underreplication_grace_ms=72 * 3_600_000,
    confirming_reads_max=16,
    looks_max=5,
)
ENSEMBLE, WRITE_QUORUM, ACK_QUORUM = 3, 2, 2


def healthy(ledger_id: int, entries: int) -> LedgerEvidence:
    """A closed striped ledger, E 3 W 2 A 2, on which each bookie holds what it should, each list in
    its canonical form.
    """
    ensemble = tuple(BOOKIES[(ledger_id + position) % len(BOOKIES)] for position in range(ENSEMBLE))
    metadata = LedgerMetadata(
        format_version=3,
        state=LedgerState.CLOSED,
        ensemble_size=ENSEMBLE,
        write_quorum=WRITE_QUORUM,
        ack_quorum=ACK_QUORUM,
        last_entry_id=entries - 1,
        length=8 * entries,
        segments=(Segment(0, ensemble),),
        digest_type=DigestType.CRC32C,
    )
    record = LedgerRecord(
        ledger_id, 1, TERMS.judged_at_ms, RecordStatus.FOUND, ZnodeStamp(ledger_id, 1, 0), metadata
    )
    answers = {
        bookie: Answer(
            bookie,
            ledger_id,
            1,
            TERMS.judged_at_ms,
            AnswerStatus.HELD,
            canonical(_runs(position, entries)),
        )
        for position, bookie in enumerate(ensemble)
    }
    return LedgerEvidence(ledger_id, (Look(record, answers),))


def _runs(position: int, entries: int) -> Iterator[SequenceGroup]:
    """What striping puts on the bookie at `position`: two entries of every three, cut at both
    ends.
    """
    start = position - WRITE_QUORUM + 1
    if start < 0:
        yield SequenceGroup(0, 0, WRITE_QUORUM + start, 0)
        start += ENSEMBLE
    whole = (entries - WRITE_QUORUM - start) // ENSEMBLE + 1
    if whole > 0:
        yield SequenceGroup(
            start, start + (whole - 1) * ENSEMBLE, WRITE_QUORUM, ENSEMBLE if whole > 1 else 0
        )
        start += whole * ENSEMBLE
    if start < entries:
        yield SequenceGroup(start, start, entries - start, 0)


def _seconds(work: Callable[[], None]) -> float:
    """The best of ROUNDS: other work on the machine only ever slows one down. CPU seconds of this
    process.
    """
    (seconds,) = _alternating(work)
    return seconds


def _alternating(*works: Callable[[], None]) -> list[float]:
    """CPU seconds of each work, the best of ROUNDS in which all take turns: noise that lasts hits
    all alike.
    """
    found: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS):
        for of_work, work in zip(found, works, strict=True):
            gc.collect()
            began = time.process_time()
            work()
            of_work.append(time.process_time() - began)
    return [min(of_work) for of_work in found]


def _settle_all(ledgers: Iterable[LedgerEvidence]) -> None:
    for evidence in ledgers:
        step = settle(evidence, TERMS)
        assert step.todo is Todo.NOTHING and step.verdict.standing is Standing.SOUND, (
            f"not found sound: {step}"
        )


def _batches(ledgers: Sequence[LedgerEvidence]) -> list[pa.RecordBatch]:
    """The ledgers as SEEN batches."""
    rows = [
        (
            one.ledger_id,
            [ledger_row(one.looks[0].record)],
            [answer_row(a) for a in one.looks[0].answers.values()],
            None,
        )
        for one in ledgers
    ]
    return [
        table(SEEN, rows[start : start + BATCH_LEDGERS])
        for start in range(0, len(rows), BATCH_LEDGERS)
    ]


def _judge_batches(batches: Sequence[pa.RecordBatch], terms: Terms, *, by_columns: bool) -> None:
    """Judge SEEN batches as a task of a run does: from stored columns to the rows that it
    writes.
    """
    work = judge_of(terms, FACTS, JudgingLimits(), by_columns=by_columns)
    standings = pa.chunked_array([rows["standing"] for rows in work(iter(batches))])
    assert pc.all(pc.equal(standings, Standing.SOUND.word)).as_py(), "not found sound"


def rate(ledgers: int = LEDGERS) -> Target:
    """Healthy (ledger, bookie) pairs judged a second: by the columns they are stored as, and beside
    it ledger by ledger.
    """
    seen = [healthy(ledger_id, ENTRIES[ledger_id % len(ENTRIES)]) for ledger_id in range(ledgers)]
    batches = _batches(seen)
    pairs = sum(len(one.looks[0].answers) for one in seen)
    sampled = replace(TERMS, sound_sample=SOUND_SAMPLE)
    works: dict[str, Callable[[], None]] = {
        "columns": lambda: _judge_batches(batches, TERMS, by_columns=True),
        "sample": lambda: _judge_batches(batches, sampled, by_columns=True),
        "plain": lambda: _judge_batches(batches, TERMS, by_columns=False),
        "decoded": lambda: _settle_all(
            one for batch in batches for one in evidence_by_ledger(batch)
        ),
        "values": lambda: _settle_all(seen),
    }
    a_second = {
        name: pairs / seconds
        for name, seconds in zip(works, _alternating(*works.values()), strict=True)
    }
    return Target(
        f"judging: at least {PAIRS_PER_S_MIN:,} healthy (ledger, bookie) pairs a second on one"
        " core, from Arrow to Arrow",
        a_second["columns"] >= PAIRS_PER_S_MIN,
        (
            (
                f"{a_second['columns']:,.0f} pairs/s by columns, {a_second['sample']:,.0f} with a"
                f" sample of {SOUND_SAMPLE:.0%} for both checkers; {ledgers:,} ledgers, all sound"
            ),
            (
                f"ledger by ledger {a_second['plain']:,.0f} pairs/s; decoding and judging alone"
                f" {a_second['decoded']:,.0f}; judging values alone {a_second['values']:,.0f}"
            ),
        ),
    )


def stripe() -> Target:
    """A stripe of a billion entries beside one of a thousand, both stored as periodic groups."""
    short, long = (
        _seconds(
            partial(_settle_all, [healthy(ledger_id, entries) for ledger_id in range(STRIPES)])
        )
        for entries in (SHORT_ENTRIES, LONG_ENTRIES)
    )
    return Target(
        f"judging: a stripe of {LONG_ENTRIES:,} entries takes at most {STRIPE_RATIO_MAX:g} times"
        f" one of {SHORT_ENTRIES:,}",
        long <= STRIPE_RATIO_MAX * short,
        (
            (
                f"ratio {long / short:.2f}: {long / STRIPES * 1e6:.1f} us a ledger beside"
                f" {short / STRIPES * 1e6:.1f} us"
            ),
        ),
    )


def targets() -> list[Target]:
    return [rate(), stripe()]


if __name__ == "__main__":
    print(*targets(), sep="\n")
