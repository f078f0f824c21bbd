"""Judge many ledgers within their limits, in this process or in a child that may die.

A ledger on which judging raises, does not end or ends its process is set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from auditor.config import JudgingLimits
from auditor.errors import AuditorError, LocalFault
from auditor.judging.isolation import Guard, Raised, Stopped, judge_in_child
from auditor.judging.settle import Step, end_unjudged
from auditor.model.evidence import LedgerEvidence
from auditor.model.identity import LedgerId
from auditor.model.verdict import Unknown

_STOPPED = "judging was stopped: "


def poison_step(ledger_id: LedgerId) -> Step:
    """Return the final step of a ledger that could not be judged."""
    return end_unjudged(ledger_id, Unknown.POISON)


def stopped_detail(why: str) -> str:
    """Return the column `detail` of a ledger on which judging was stopped."""
    return f"{_STOPPED}{why}"


def is_stopped(detail: str) -> bool:
    """Return whether judging was stopped rather than raised: a replay does not try it again."""
    return detail.startswith(_STOPPED)


T = TypeVar("T")

POISON_MAX = 20
"""One task may be stopped on at most this many ledgers. Each costs up to the time limit. If there
are more, the fault is not in the ledgers."""


class TooManyPoisoned(AuditorError):
    """Judging was stopped on more than POISON_MAX ledgers of one task: our fault. Exit code 4."""


class Judge(Generic[T]):
    """Judges ledgers, and sets aside each on which judging raises or must be stopped.

    `work` judges one ledger. `aside` makes a result from a ledger and a text that says why. Each
    task needs an instance: it counts the ledgers on which it was stopped.

    `careful` judges in a child process, which may die. Otherwise a ledger that kills its process
    also ends this one.
    """

    def __init__(
        self,
        work: Callable[[LedgerEvidence], T],
        aside: Callable[[LedgerEvidence, str], T],
        limits: JudgingLimits,
        *,
        careful: bool,
    ) -> None:
        self._work, self._aside, self._limits, self._careful = work, aside, limits, careful
        self._stopped: list[str] = []
        self._killed = 0

    def judge_all(self, ledgers: Sequence[LedgerEvidence]) -> list[T]:
        """Return a result for each ledger, in order. Raises TooManyPoisoned and LocalFault."""
        results = (
            judge_in_child(ledgers, self._work, self._limits)
            if self._careful
            else self._judge_here(ledgers)
        )
        return [
            self._or_aside(ledger, result) for ledger, result in zip(ledgers, results, strict=True)
        ]

    def _judge_here(self, ledgers: Sequence[LedgerEvidence]) -> Iterator[T | Stopped | Raised]:
        with Guard(self._limits) as guard:
            for ledger in ledgers:
                yield guard.run(self._work, ledger)

    def _or_aside(self, ledger: LedgerEvidence, result: T | Stopped | Raised) -> T:
        if isinstance(result, Raised):
            return self._aside(ledger, result.why)
        if not isinstance(result, Stopped):
            return result
        self._stopped.append(f"ledger {ledger.ledger_id}: {result.why}")
        self._killed += result.was_killed
        if len(self._stopped) > POISON_MAX:
            if self._killed == len(self._stopped):
                raise LocalFault(
                    f"the process that judges was killed on more than {POISON_MAX} ledgers, twice"
                    " on each: this host runs out of memory, or something ends our processes; see"
                    " the log of the kernel"
                )
            raise TooManyPoisoned(
                f"judging was stopped on more than {POISON_MAX} ledgers"
                f" ({'; '.join(self._stopped[:3])} ...): this is a fault of the auditor or of the"
                " machine, not of the ledgers"
            )
        return self._aside(ledger, stopped_detail(result.why))
