"""The state of an audit of single ledgers.

It has their looks, where each ledger stands, and what is known about the bookies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from auditor.bookie.address_table import SearchBudget
from auditor.judging.judge import Judge, poison_step
from auditor.judging.settle import Step, settle_and_check
from auditor.model.availability import Answer, EntryRead, ReadStatus
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerRecord
from auditor.run.asker import Asker


@dataclass(slots=True)
class LedgerLooks:
    """The looks at one ledger so far."""

    records: list[LedgerRecord] = field(default_factory=list)
    answers: dict[int, dict[BookieId, Answer]] = field(default_factory=dict)
    reads: dict[int, dict[tuple[BookieId, EntryId], EntryRead]] = field(default_factory=dict)

    def drop_probes(self, look: int, bookie: BookieId) -> None:
        """Forget the reads on a bookie while its list was overdue, except those of a wrong digest.

        The ledger is then judged as if the list had come in time. Otherwise probes would use up the
        confirming reads of that bookie.
        """
        reads = self.reads.get(look, {})
        for key, read in list(reads.items()):
            if key[0] == bookie and read.status is not ReadStatus.CORRUPT:
                del reads[key]

    def evidence(self) -> LedgerEvidence:
        looks = tuple(
            Look(r, self.answers.get(r.look, {}), self.reads.get(r.look, {})) for r in self.records
        )
        return LedgerEvidence(self.records[0].ledger_id, looks)


@dataclass(slots=True)
class AuditState:
    """The state of one audit, kept from look to look.

    `unsupported` bookies cannot list. `listed` bookies gave a list of their own. `denied` has what
    a bookie contradicted of its lister's lists.
    """

    asker: Asker
    terms: Terms
    searches: SearchBudget
    looks: dict[LedgerId, LedgerLooks]
    denied: dict[BookieId, str]
    steps: dict[LedgerId, Step] = field(default_factory=dict)
    unsupported: set[BookieId] = field(default_factory=set)
    listed: set[BookieId] = field(default_factory=set)

    @classmethod
    def of(cls, asker: Asker, ids: Sequence[LedgerId], terms: Terms) -> AuditState:
        """Return the state before the first look. A lister is not believed once its bookie is in
        `denied`.
        """
        denied: dict[BookieId, str] = {}
        if asker.listers is not None:
            asker = replace(asker, listers=replace(asker.listers, not_believed=denied))
        bound = asker.search_reads_max
        bookies = terms.around.writable | terms.around.readonly
        searches = SearchBudget(None if bound is None else dict.fromkeys(bookies, bound))
        return cls(asker, terms, searches, {one: LedgerLooks() for one in ids}, denied)

    def settle(self, ids: Iterable[LedgerId]) -> None:
        """Set where each of these ledgers stands.

        They are judged in a child: a ledger that cannot be judged is set aside, and the command
        survives.
        """
        ledgers = [self.looks[i].evidence() for i in ids]

        def aside(one: LedgerEvidence, detail: str) -> tuple[Step, str]:
            return poison_step(one.ledger_id), detail

        judge = Judge(
            lambda one: settle_and_check(one, self.terms), aside, self.asker.judging, careful=True
        )
        for one, (step, detail) in zip(ledgers, judge.judge_all(ledgers), strict=True):
            self.steps[one.ledger_id] = step
            if detail:
                self.asker.set_aside[one.ledger_id] = detail
