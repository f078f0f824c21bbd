"""How fast ledgers are judged on one core, and that judging a stripe costs the same whatever its length.

.venv/bin/python -m benchmarks.judging
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from auditor.evidence.gathered import evidence_by_ledger
from auditor.evidence.rows import answer_row, ledger_row, table
from auditor.evidence.schemas import SEEN
from auditor.judging.settle import Todo, settle
from auditor.model.availability import Answer, AnswerStatus, SequenceGroup
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerRecord, LedgerState, RecordStatus, Segment, ZnodeStamp
from auditor.model.verdict import Standing
from auditor.wire.entry_availability import canonical
from benchmarks.targets import Target

PAIRS_PER_S_MIN = 100_000
STRIPE_RATIO_MAX = 2.0
LEDGERS = 20_000
BATCH_LEDGERS = 2_000
"""Ledgers in one Arrow batch, as the run writes them."""
ROUNDS = 5
SHORT_ENTRIES, LONG_ENTRIES = 1_000, 1_000_000_000
STRIPES = 2_000
ENTRIES = (3, 6, 1_000, 100_000)
"""Entries of the healthy ledgers, in turn."""
BOOKIES = tuple(f"b{number}:3181" for number in range(1, 6))
TERMS = Terms(judged_at_ms=1_700_000_000_000, underreplication_grace_ms=72 * 3_600_000, confirming_reads_max=16, looks_max=5)
ENSEMBLE, WRITE_QUORUM, ACK_QUORUM = 3, 2, 2


def healthy(ledger_id: int, entries: int) -> LedgerEvidence:
    """A closed striped ledger, E 3 W 2 A 2, on which each bookie holds what it should, each list in its canonical form."""
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
    record = LedgerRecord(ledger_id, 1, TERMS.judged_at_ms, RecordStatus.FOUND, ZnodeStamp(ledger_id, 1, 0), metadata)
    answers = {
        bookie: Answer(bookie, ledger_id, 1, TERMS.judged_at_ms, AnswerStatus.HELD, canonical(_runs(position, entries)))
        for position, bookie in enumerate(ensemble)
    }
    return LedgerEvidence(ledger_id, (Look(record, answers),))


def _runs(position: int, entries: int) -> Iterator[SequenceGroup]:
    """What striping puts on the bookie at `position`: two entries of every three, cut at both ends."""
    start = position - WRITE_QUORUM + 1
    if start < 0:
        yield SequenceGroup(0, 0, WRITE_QUORUM + start, 0)
        start += ENSEMBLE
    whole = (entries - WRITE_QUORUM - start) // ENSEMBLE + 1
    if whole > 0:
        yield SequenceGroup(start, start + (whole - 1) * ENSEMBLE, WRITE_QUORUM, ENSEMBLE if whole > 1 else 0)
        start += whole * ENSEMBLE
    if start < entries:
        yield SequenceGroup(start, start, entries - start, 0)


def _seconds(work: Callable[[], None]) -> float:
    """The best of ROUNDS: other work on the machine only ever slows one down. CPU seconds of this process."""
    found = []
    for _ in range(ROUNDS):
        gc.collect()
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def _settle_all(ledgers: Iterable[LedgerEvidence]) -> None:
    for evidence in ledgers:
        step = settle(evidence, TERMS)
        assert step.todo is Todo.NOTHING and step.verdict.standing is Standing.SOUND, f"not found sound: {step}"


def _batches(ledgers: Sequence[LedgerEvidence]) -> list[pa.RecordBatch]:
    """The ledgers as SEEN batches."""
    rows = [
        (one.ledger_id, [ledger_row(one.looks[0].record)], [answer_row(a) for a in one.looks[0].answers.values()], None)
        for one in ledgers
    ]
    return [table(SEEN, rows[start : start + BATCH_LEDGERS]) for start in range(0, len(rows), BATCH_LEDGERS)]


def rate(ledgers: int = LEDGERS) -> Target:
    """Healthy (ledger, bookie) pairs judged a second, from values and from the columns they are stored as."""
    seen = [healthy(ledger_id, ENTRIES[ledger_id % len(ENTRIES)]) for ledger_id in range(ledgers)]
    batches = _batches(seen)
    pairs = sum(len(one.looks[0].answers) for one in seen)
    judged = pairs / _seconds(lambda: _settle_all(seen))
    decoded = pairs / _seconds(lambda: _settle_all(one for batch in batches for one in evidence_by_ledger(batch)))
    return Target(
        f"judging: at least {PAIRS_PER_S_MIN:,} healthy (ledger, bookie) pairs a second on one core",
        judged >= PAIRS_PER_S_MIN,
        (f"{judged:,.0f} pairs/s judged, {decoded:,.0f} pairs/s with decoding from Arrow; {ledgers:,} ledgers, all sound",),
    )


def stripe() -> Target:
    """A stripe of a billion entries beside one of a thousand, both stored as periodic groups."""
    short, long = (
        _seconds(partial(_settle_all, [healthy(ledger_id, entries) for ledger_id in range(STRIPES)]))
        for entries in (SHORT_ENTRIES, LONG_ENTRIES)
    )
    return Target(
        f"judging: a stripe of {LONG_ENTRIES:,} entries takes at most {STRIPE_RATIO_MAX:g} times one of {SHORT_ENTRIES:,}",
        long <= STRIPE_RATIO_MAX * short,
        (f"ratio {long / short:.2f}: {long / STRIPES * 1e6:.1f} us a ledger beside {short / STRIPES * 1e6:.1f} us",),
    )


def targets() -> list[Target]:
    return [rate(), stripe()]


if __name__ == "__main__":
    print(*targets(), sep="\n")
