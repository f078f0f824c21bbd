"""Findings on bookies and on the cluster, made by both checkers over seeded runs: they agree, and a
bug in one shows.

Every failure names its seed: `support.night_stories.night(seed)` makes that run again.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import pytest
from support.falsehoods import FIRST, ON_BOOKIES_AND_CLUSTER, SECOND
from support.night_stories import Night, night
from support.quick_forms import few_or_all, one_in

SWARM, FEW = 600, 100
FOUND_MIN_OF = 50
"""One run in so many, at least, has a finding of each kind, so that agreement means something."""

cached_night = cache(night)


def differing(one: Night) -> list[dict[str, str]]:
    """Return the checkers' differences, as the summary has them."""
    return list(one.concluded().summary["findings_differ"])


@pytest.mark.parametrize("count", few_or_all(FEW, SWARM))
def test_both_checkers_agree_on_bookies_and_the_cluster(count: int) -> None:
    """No finding of any run is withheld; each kind occurs often, with renamed bookies among
    them."""
    wrong, found, renamed = {}, Counter[str](), 0
    for seed in range(count):
        done = cached_night(seed).concluded()
        if done.summary["findings_differ"]:
            wrong[seed] = done.summary["findings_differ"]
        findings = [json.loads(line) for line in done.findings]
        found.update(one["kind"] for one in findings)
        renamed += sum(one["facts"].get("renamed_to") is not None for one in findings)
    assert {} == wrong
    kinds = {
        "BOOKIE_SILENT_YET_REGISTERED", "BOOKIE_LOST_UNNOTICED", "BOOKIE_LOST_CONTENT",
        "BOOKIE_FAILING_REQUESTS",
        "MARK_WITHOUT_LEDGER", "LEDGER_POPULATION_DROPPED", "REFERENCED_LEDGER_MISSING",
        "LEDGER_TRUNCATED",
        "LEDGER_ORPHANED",
    }  # fmt: skip
    assert kinds == found.keys()
    assert min(*found.values(), renamed) >= count // FOUND_MIN_OF, (found, renamed)


@pytest.mark.parametrize("checker", [FIRST, SECOND], ids=["first", "second"])
@pytest.mark.parametrize("name", one_in(8, ON_BOOKIES_AND_CLUSTER))
def test_a_false_fact_of_one_checker_withholds_the_finding(
    name: str, checker: dict[type, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for each sort of fact; the withheld kind is the one with the false fact."""
    falsehood = ON_BOOKIES_AND_CLUSTER[name]
    falsehood.plant(monkeypatch, checker)
    withheld = next(
        (differ for seed in range(SWARM) if (differ := differing(cached_night(seed)))), []
    )
    assert withheld, name
    assert 1 == len({one["kind"] for one in withheld}), withheld
