"""Candidates for causes, and the choice of those that explain the ledgers of a family."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from auditor.evidence.ids import Ids
from auditor.model.identity import BookieId
from auditor.summary.causes.contrast import CAUSE_LEDGERS_MIN, Contrast
from auditor.summary.causes.periods import Period


class CauseKind(StrEnum):
    """What a cause is. If two candidates explain equally many ledgers, the earlier kind wins."""

    RACK = "rack"
    BOOKIE = "bookie"
    PERIOD = "period"
    AUTORECOVERY = "autorecovery"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may explain these ledgers of a family. `members`: the bookies of a rack that are hit."""

    kind: CauseKind
    subject: str
    family: str
    ledgers: Ids
    contrast: Contrast
    members: tuple[BookieId, ...] = ()
    period: Period | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """A candidate, and the ledgers that belong to it: no stronger cause of its family has them."""

    candidate: Candidate
    own: Ids


class Unexplained:
    """The affected ledgers of a family that no cause explains yet."""

    def __init__(self, affected: Ids) -> None:
        self._affected = affected
        self._open: npt.NDArray[np.bool_] = np.ones(len(affected), bool)

    def ledgers(self) -> Ids:
        return self._affected[self._open]

    def explain(self, candidates: Iterable[Candidate]) -> list[Chosen]:
        """Return candidates greedily: each time the one that explains most of the ledgers left.

        What a candidate explains only shrinks. It is therefore counted again only at its turn.
        Candidates that explain fewer than CAUSE_LEDGERS_MIN ledgers are dropped.
        """
        order = list(CauseKind)
        waiting: list[tuple[int, int, str, int, Candidate]] = [
            (-len(one.ledgers), order.index(one.kind), one.subject, number, one)
            for number, one in enumerate(candidates)
        ]
        heapq.heapify(waiting)
        chosen = []
        while waiting:
            believed, place, subject, number, one = heapq.heappop(waiting)
            at = np.searchsorted(self._affected, one.ledgers)
            at = at[self._open[at]]
            if len(at) < CAUSE_LEDGERS_MIN:
                continue
            if len(at) < -believed:
                heapq.heappush(waiting, (-len(at), place, subject, number, one))
                continue
            self._open[at] = False
            chosen.append(Chosen(one, self._affected[at]))
        return chosen
