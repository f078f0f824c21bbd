"""Audit a few ledgers without Spark in about a second: the same requests and judgement as a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from auditor.judging.contradicted_lists import spoil_verdict
from auditor.judging.settle import Step, Todo
from auditor.model.availability import AnswerStatus
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.identity import BookieId, LedgerId
from auditor.run.asker import Asker
from auditor.run.single_ledger_looks import SingleLook
from auditor.run.single_ledger_state import AuditState


def audit_ledgers(
    asker: Asker, ids: Sequence[LedgerId], terms: Terms
) -> list[tuple[LedgerEvidence, Step]]:
    """Return each ledger's evidence and final step, in the order of `ids`.

    Takes looks until every verdict may stand, as the terms allow.
    """
    state = AuditState.of(asker, ids, terms)
    asker, looks, steps = state.asker, state.looks, state.steps
    open_ids = list(looks)
    for look in range(1, terms.looks_max + 3):
        if look > 1:
            if any(steps[i].wait for i in open_ids):
                asker.wait(asker.second_look_delay_ms / 1000)
            asker.store.sync()
        for record in asker.store.read_ledgers(open_ids, look, asker.now_ms, with_marks=True):
            looks[record.ledger_id].records.append(record)
        state.settle(open_ids)
        asyncio.run(SingleLook(state, look).ask(open_ids))
        open_ids = [i for i in open_ids if steps[i].todo is not Todo.NOTHING]
        if not open_ids:
            break
    assert not open_ids, f"ledgers {open_ids[:5]} did not settle within {terms.looks_max} looks"
    return [_spoil((looks[i].evidence(), steps[i]), frozenset(state.denied)) for i in looks]


def _spoil(
    judged: tuple[LedgerEvidence, Step], denied: frozenset[BookieId]
) -> tuple[LedgerEvidence, Step]:
    """Correct a verdict that rests on lists which a bookie contradicted later."""
    evidence, step = judged
    answers = (
        answer
        for look in evidence.looks
        for bookie, answer in look.answers.items()
        if bookie in denied
    )
    if any(one.is_from_lister and one.status is AnswerStatus.HELD for one in answers):
        return evidence, replace(step, verdict=spoil_verdict(step.verdict))
    return judged
