"""The checkers differ on a finding on a bookie or the cluster: it is withheld, a sentence says so,
and the outcome is a fault of the auditor.
"""

from __future__ import annotations

import json

import pytest
from support.falsehoods import FIRST, ON_BOOKIES_AND_CLUSTER
from support.night_stories import night

from auditor.report.outcome_words import outcome_sentences
from auditor.run.conclusion import Conclusion

FACTS = {
    "a silent bookie was looked at once more": "BOOKIE_SILENT_YET_REGISTERED",
    "one ledger more is unmarked": "BOOKIE_LOST_UNNOTICED",
    "a bookie answered for one ledger more": "BOOKIE_LOST_CONTENT",
    "one ledger more was refused": "BOOKIE_FAILING_REQUESTS",
    "one mark more has no ledger": "MARK_WITHOUT_LEDGER",
    "one ledger less is listed": "LEDGER_POPULATION_DROPPED",
    "one topic more needs a missing ledger": "REFERENCED_LEDGER_MISSING",
    "one entry more was recorded": "LEDGER_TRUNCATED",
    "one orphan more": "LEDGER_ORPHANED",
}
"""Planted faults, each of which makes a fact of its kind wrong in the first checker."""
SEEDS = range(200)


def first_with(kind: str) -> tuple[int, Conclusion]:
    """Return the seed and the conclusion of the first seeded run with a finding of this kind."""
    nights = ((seed, night(seed).concluded()) for seed in SEEDS)
    return next(
        (seed, done) for seed, done in nights if any(kind in line for line in done.findings)
    )


@pytest.mark.parametrize(("name", "kind"), FACTS.items())
def test_what_the_checkers_differ_on_is_withheld_and_all_else_stands(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary names it, the outcome is a fault, and no standing changes. The seed is that of
    the first run with a finding of the kind.
    """
    seed, before = first_with(kind)
    ON_BOOKIES_AND_CLUSTER[name].plant(monkeypatch, FIRST)
    after = night(seed).concluded()
    kinds = [json.loads(line)["kind"] for line in before.findings]
    assert [one for one in kinds if one != kind] == [
        json.loads(line)["kind"] for line in after.findings
    ], seed
    assert {kind} == {one["kind"] for one in after.summary["findings_differ"]}, seed
    assert any(
        f"{kind} on " in sentence and "is withheld" in sentence
        for sentence in after.summary["withheld"]
    ), seed
    assert ("AUDITOR_FAULT", 4) == (after.summary["outcome"], after.summary["exit_code"]), seed
    assert before.summary["ledgers"] == after.summary["ledgers"], seed
    assert 0 == after.summary["findings"][kind]["findings"], seed
    of = "1 finding" if kinds.count(kind) == 1 else f"{kinds.count(kind)} findings"
    assert (
        f"its two checkers differ on the same evidence for {of} on bookies, references or the"
        " cluster" in outcome_sentences(after.summary)
    ), seed
