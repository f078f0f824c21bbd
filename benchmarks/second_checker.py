"""What the second checker costs: judging with and without it, on one core.

    .venv/bin/python -m benchmarks.second_checker

Garbage is collected as seldom as in a run's workers.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from auditor.judging.settle import settle, settle_and_check
from auditor.model.availability import EntryRead, ReadStatus
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.verdict import Standing
from auditor.spark.worker_daemon import GARBAGE_THRESHOLDS
from benchmarks.judging import ENTRIES, SOUND_SAMPLE, TERMS, _alternating, _seconds, healthy
from benchmarks.targets import Target

LEDGERS = 2_000
SUSPECTS = 200
SUSPECTS_IN_TURN = 10
"""Suspects that one checker judges, or both, before it is the other's turn: few milliseconds, so
that other work on the machine is no longer than a turn in some round."""
SUSPECT_ENTRIES = 50_000
"""Entries of a ledger that Pulsar rolled over."""
SUSPECT_RATIO_MAX = 1.5
"""Judging suspects with both checkers, against judging them with the first alone."""
RATIO_MAX = 3.0
"""Judging a sound cluster with the default sample, against judging it without: measured 1.15, some
3 us a ledger more.
"""


def _judge(ledgers: Sequence[LedgerEvidence], terms: Terms) -> None:
    for evidence in ledgers:
        _, detail = settle_and_check(evidence, terms)
        assert not detail, detail


def _settle(ledgers: Sequence[LedgerEvidence]) -> None:
    for evidence in ledgers:
        assert settle(evidence, TERMS).verdict.standing is Standing.VIOLATED


def suspect(ledger_id: int, ledger_entries: int = SUSPECT_ENTRIES) -> LedgerEvidence:
    """A wiped bookie: at two looks it lists nothing and, read, has nothing; then the metadata is
    read once more.
    """
    first = healthy(ledger_id, ledger_entries).looks[0]
    bookie = next(iter(first.answers))
    answers = {**first.answers, bookie: replace(first.answers[bookie], groups=b"")}
    entries = (1, 2, ledger_entries // 2, ledger_entries - 2, ledger_entries - 1)
    looks = []
    for look in (1, 2):
        record = replace(first.record, look=look)
        reads = {
            (bookie, e): EntryRead(
                bookie, ledger_id, e, look, TERMS.judged_at_ms, ReadStatus.NO_ENTRY
            )
            for e in entries
        }
        looks.append(Look(record, answers, reads))
    return LedgerEvidence(ledger_id, (*looks, Look(replace(first.record, look=3))))


def ratio() -> Target:
    """The whole cluster sound: only the sample is judged twice."""
    seen = [healthy(ledger_id, ENTRIES[ledger_id % len(ENTRIES)]) for ledger_id in range(LEDGERS)]
    without, sampled, all_of_it = (
        _seconds(partial(_judge, seen, replace(TERMS, sound_sample=share)))
        for share in (0.0, SOUND_SAMPLE, 1.0)
    )
    return Target(
        f"second checker: a sample of {SOUND_SAMPLE:.0%} makes judging sound ledgers at most"
        f" {RATIO_MAX:g} times as long",
        sampled <= RATIO_MAX * without,
        (
            (
                f"{sampled / without:.2f} times as long with {SOUND_SAMPLE:.0%},"
                f" {all_of_it / without:.0f} times with all; {without / LEDGERS * 1e6:.0f} us a"
                f" ledger without, {all_of_it / LEDGERS * 1e6:.0f} us with both checkers"
            ),
        ),
    )


def suspects() -> Target:
    """Every suspect is judged twice."""
    without = both = 0.0
    for first in range(0, SUSPECTS, SUSPECTS_IN_TURN):
        seen = [suspect(ledger_id) for ledger_id in range(first, first + SUSPECTS_IN_TURN)]
        one, two = _alternating(partial(_settle, seen), partial(_judge, seen, TERMS))
        without, both = without + one, both + two
    return Target(
        f"second checker: judging suspects takes at most {SUSPECT_RATIO_MAX:g} times as long"
        " with it",
        both <= SUSPECT_RATIO_MAX * without,
        (
            (
                f"{both / without:.2f} times as long; a suspect of {SUSPECT_ENTRIES:,} entries"
                f" takes {without / SUSPECTS * 1e3:.2f} ms without, {both / SUSPECTS * 1e3:.2f} ms"
                " with it"
            ),
        ),
    )


def targets() -> list[Target]:
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    return [ratio(), suspects()]


if __name__ == "__main__":
    print(*targets(), sep="\n")
