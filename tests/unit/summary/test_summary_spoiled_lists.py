"""Which ledgers rest on lists of a lister that its bookie contradicted."""

from __future__ import annotations

from typing import cast

from support.tables_in_memory import Tables

from auditor.evidence.rows import answer_row, greeting_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    Answer,
    AnswerStatus,
    Greeting,
)
from auditor.summary.doubted_lists import contradicting_bookies, spoiled_ledgers


def spoiled(run: Place) -> dict[str, list[int]]:
    return {reason.value: sorted(ids.to_pylist()) for reason, ids in spoiled_ledgers(run).items()}


WHERE = f"{LISTED_BY_LISTER}h:3182"


def test_ledgers_that_were_listed_before_or_after_are_spoiled() -> None:
    """Lists of that lister at any look count. Lists of another lister or of the bookie itself do
    not, nor answers without a list.
    """
    run = cast(Place, Tables())
    listed = [
        Answer("b1", ledger, look, 0, AnswerStatus.HELD, detail=WHERE)
        for ledger, look in ((1, 1), (2, 2))
    ]
    others = [
        Answer("b2", 3, 1, 0, AnswerStatus.HELD, detail=WHERE),
        Answer("b1", 4, 1, 0, AnswerStatus.HELD),
        Answer("b1", 5, 1, 0, AnswerStatus.INVALID, detail=f"{LISTER_CONTRADICTED}x"),
        Answer("b1", 6, 1, 0, AnswerStatus.NO_SUCH_LEDGER, detail=WHERE),
    ]
    greetings = [greeting_row(bookie, 1, 0, Greeting.ANSWERED, WHERE) for bookie in ("b1", "b2")]
    rows = [*greetings, *map(answer_row, (*listed, *others))]
    run.write_table("evidence/answers", table(ANSWERS, rows), "first")
    assert {"answer_invalid": [], "checkers_disagree": []} == spoiled(run)
    denied = greeting_row("b1", 1, 0, Greeting.ANSWERED, f"{LISTER_CONTRADICTED}it lists entry 3")
    run.write_table("evidence/answers", table(ANSWERS, [denied]), "second")
    assert {"answer_invalid": [1, 2], "checkers_disagree": []} == spoiled(run)
    assert ["b1"] == contradicting_bookies(run).to_pylist()
