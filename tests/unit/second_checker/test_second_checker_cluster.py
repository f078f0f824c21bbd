"""The second checker's findings on the cluster: marks whose ledgers have no metadata, and a drop of
the population."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.cluster import ClusterFacts
from auditor.model.cluster_facts import PopulationFacts
from auditor.model.evidence import Terms
from auditor.model.identity import LEDGER_ID_MAX
from auditor.second_checker.cluster import (
    Earlier,
    MarkSeen,
    marks_without_ledger,
    population_dropped,
)
from auditor.wire.znode_paths import mark_path

CLUSTER = ClusterFacts(
    "zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None
)
TERMS = Terms(10_000, 1_000, 16, 5)
OLD, YOUNG = (5_000,), (9_000,)


def looked(
    ledger: int, *times: tuple[int, ...], has_metadata: bool | None = False, look: int = 1
) -> list[MarkSeen]:
    return [
        MarkSeen(ledger, at, at * 100 + ledger, one, has_metadata)
        for at, one in enumerate(times, look)
    ]


@pytest.mark.parametrize(
    "seen",
    [
        [],
        looked(1, OLD),
        looked(1, OLD, ()),
        looked(1, (), OLD),
        looked(1, YOUNG, YOUNG),
        looked(1, OLD, OLD, has_metadata=True),
        looked(1, OLD, OLD, has_metadata=None),
        looked(1, OLD, look=0),
    ],
)
def test_a_mark_counts_that_was_too_old_at_two_looks_without_metadata(seen: list[MarkSeen]) -> None:
    """Nothing less counts: a mark exactly at its grace is not beyond it."""
    assert marks_without_ledger(seen, TERMS, CLUSTER) is None


def test_all_marks_are_reported_together_the_oldest_first() -> None:
    """Marks are sorted by the older of two times, then by id. Those only listed are counted, and
    one that was looked at once is not."""
    seen = [
        *looked(3, OLD, OLD),
        *looked(2, OLD, OLD),
        *looked(9, (8_000, 4_000), (8_000, 4_000)),
        *looked(7, OLD, look=0),
        *looked(5, OLD),
    ]
    facts = marks_without_ledger(seen, TERMS, CLUSTER)
    assert facts is not None
    assert (3, (9, 2, 3), 6_000, f"/ledgers{mark_path(9)}") == (
        facts.marks, facts.some_ledgers, facts.oldest_age_ms, facts.oldest_path,
    )  # fmt: skip
    assert (1_000, 1, 202 - 109) == (facts.grace_ms, facts.unchecked, facts.apart_ms)


@pytest.mark.parametrize("ledger", [0, 255, 10**10, LEDGER_ID_MAX])
def test_a_mark_lies_where_its_id_says(ledger: int) -> None:
    """Both checkers compute the same path."""
    facts = marks_without_ledger(looked(ledger, OLD, OLD), TERMS, CLUSTER)
    assert facts is not None and facts.oldest_path == f"/ledgers{mark_path(ledger)}"


@pytest.mark.parametrize(
    ("before", "drop", "counts", "found"),
    [
        (200, 50, (99, 98), True),
        (200, 50, (100, 98), False),
        (200, 50, (99, 100), False),
        (200, 50, (99,), False),
        (200, 0, (1, 1), False),
        (99, 50, (1, 1), False),
        (100, 50, (49, 49), True),
    ],
)
def test_a_population_dropped_when_two_listings_are_too_short(
    before: int, drop: int, counts: tuple[int, ...], found: bool
) -> None:
    """Both listings are below the remaining share of a run that listed enough ledgers."""
    listed = dict(enumerate(counts, 1))
    began_ms = {one: one * 60_000 for one in listed}
    facts = population_dropped(
        Earlier("r", "then", before, drop, 2), began_ms, listed, range(40, 20, -1), "inst"
    )
    assert found == (facts is not None)
    if facts:
        gone = tuple(range(21, 31))
        assert PopulationFacts("r", "then", before, *counts, 60_000, drop, gone, "inst", 3) == facts


@pytest.mark.parametrize("made_at_ms", [10_000, 10_001])
def test_a_mark_of_this_moment_has_no_age(made_at_ms: int) -> None:
    """Without grace it is not too old either, and a clock ahead of ours changes nothing."""
    without_grace = replace(TERMS, underreplication_grace_ms=0)
    assert (
        marks_without_ledger(looked(1, (made_at_ms,), (made_at_ms,)), without_grace, CLUSTER)
        is None
    )


@pytest.mark.parametrize("disabled", [False, True])
def test_a_finding_on_marks_says_whether_anyone_repairs(disabled: bool) -> None:
    """The facts say whether auto-recovery runs."""
    facts = marks_without_ledger(
        looked(1, OLD, OLD), TERMS, replace(CLUSTER, replication_disabled=disabled)
    )
    assert facts is not None and disabled is facts.replication_disabled
