"""Ledgers that harm the process that judges them, in Spark's workers or in this process.

    plant_in_workers(monkeypatch, {3: "SIGSEGV"})  # the worker that judges ledger 3 reads address 0
    plant_here(monkeypatch, {3: "SIGSEGV"})        # the same in this process or a child of it

The product has no switch for this. `auditor.judging.settle.settle` is replaced for the named
ledgers, and for no others.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import pytest
from pyspark import cloudpickle

from auditor.judging import settle as judgement
from auditor.judging.healthy_ledgers import Healthy
from auditor.judging.judge import POISON_MAX
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.ledger import LedgerRecord

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # a worker cannot import what tests share

Settle = Callable[[LedgerEvidence, Terms], judgement.Step]


class NobodyForesaw(Exception):
    """An error that judging raises and no code expects."""


def _raises() -> NoReturn:
    raise NobodyForesaw("a ledger from another world")


def _spins() -> NoReturn:
    while True:
        try:
            while True:
                pass
        except Exception:  # even an interruption is caught
            continue


def _spins_in_c() -> None:
    """Spend a quarter of an hour in a C function that does not check for signals."""
    hashlib.pbkdf2_hmac("sha256", b"poison", b"", 2**31 - 1)


def _waits_in_c() -> None:
    """Wait for a lock that it holds itself, without computing, and ignore every signal."""
    lock, library = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    library.pthread_mutex_lock(lock)
    library.pthread_mutex_lock(lock)


def _hoards() -> NoReturn:
    hoard: list[Any] = []
    while True:
        hoard.append(bytes(2**26))


HARM: Mapping[str, Callable[[], object]] = {
    "an exception": _raises,
    "a loop in Python": _spins,
    "a loop in C": _spins_in_c,
    "a wait in C": _waits_in_c,
    "all memory": _hoards,
    "SIGSEGV": lambda: ctypes.string_at(0),
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "an exit": lambda: os._exit(7),
    "sys.exit": lambda: sys.exit(3),
}
"""What judging a poisoned ledger does, by name."""


@dataclass(frozen=True)
class Poison:
    """The harm by ledger. It happens from the given look on, so that the ledger may be judged well
    before.

    `stopped_max` replaces POISON_MAX in the process that judges.
    """

    harm: Mapping[int, str]
    from_look: int = 1
    stopped_max: int = POISON_MAX

    def settle(self, sound: Settle) -> Settle:
        """Return a sound verdict, except for the poisoned ledgers."""

        def settled(evidence: LedgerEvidence, terms: Terms) -> judgement.Step:
            if evidence.ledger_id in self.harm and len(evidence.looks) >= self.from_look:
                HARM[self.harm[evidence.ledger_id]]()
            return sound(evidence, terms)

        return settled


def plant_in_workers(monkeypatch: pytest.MonkeyPatch, poison: Poison) -> None:
    """Poison the ledgers in every stage that judges, in a task or in this process."""
    from auditor.stages import stages

    make = stages.judge_of

    def made(*arguments: Any, **named: Any) -> Any:
        work = make(*arguments, **named)

        def poisoned(batches: Any) -> Any:
            with pytest.MonkeyPatch.context() as planted:
                plant_here(planted, poison)
                yield from work(batches)

        return poisoned

    monkeypatch.setattr(stages, "judge_of", made)


def plant_in_askers(monkeypatch: pytest.MonkeyPatch, ledger_id: int) -> None:
    """Raise in every stage that asks bookies, when it determines whom to ask about this ledger."""
    from auditor.stages import stages

    make = stages.asker_of

    def made(*arguments: Any, **options: Any) -> Any:
        work = make(*arguments, **options)

        def poisoned(batches: Any) -> Any:
            sound = judgement.questions_of

            def demanded(record: LedgerRecord) -> Any:
                return _raises() if record.ledger_id == ledger_id else sound(record)

            with pytest.MonkeyPatch.context() as planted:
                planted.setattr("auditor.judging.settle.questions_of", demanded)
                yield from work(batches)

        return poisoned

    monkeypatch.setattr(stages, "asker_of", made)


def plant_here(monkeypatch: pytest.MonkeyPatch, poison: Poison) -> None:
    """Poison the ledgers in this process and its children. No comparison of columns settles them
    before.
    """
    from auditor.stages import steps

    find = steps.healthy_ledgers

    def found(batch: Any, terms: Terms) -> dict[int, Healthy]:
        ids = batch["ledger_id"].to_pylist()
        return {
            number: copies
            for number, copies in find(batch, terms).items()
            if ids[number] not in poison.harm
        }

    monkeypatch.setattr(steps, "healthy_ledgers", found)
    monkeypatch.setattr("auditor.judging.settle.settle", poison.settle(judgement.settle))
    monkeypatch.setattr("auditor.judging.judge.POISON_MAX", poison.stopped_max)
