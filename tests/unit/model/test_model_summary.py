"""The summary of a run by its parts, and what it says where a part is missing or damaged."""

from __future__ import annotations

import pytest
from support import report_stories as stories

from auditor.model.finding import Kind
from auditor.model.verdict import CopyCounts, Exempt, Standing, Unknown


def test_the_counts_are_read_by_name() -> None:
    """Ledgers by standing, and by each reason; a reason that is not counted is 0."""
    summary = stories.summary(indeterminate={"poison": 2})
    numbers = [summary.ledgers.of(standing) for standing in Standing]
    assert ([990, 10, 0, 0], 1000) == (numbers, summary.ledgers.listed)
    assert (9, 0, 2, 0) == (
        summary.exempt(Exempt.OPEN),
        summary.exempt(Exempt.DELETED),
        summary.unknown(Unknown.POISON),
        summary.unknown(Unknown.UNSETTLED),
    )
    assert CopyCounts(40_000, 40_000, 0, 0) == summary.copies


def test_a_kind_hits_what_it_is_on() -> None:
    """Ledgers, bookies, or the cluster, of which the findings count."""
    found = [
        stories.finding(Kind.PLACEMENT_FAILED, 7),
        stories.finding(Kind.PLACEMENT_FAILED, 8),
        stories.finding(Kind.BOOKIE_LOST_CONTENT, "b1"),
        stories.finding(Kind.LEDGER_ORPHANED, "cluster"),
    ]
    summary = stories.summary(findings=stories.counted(found))
    kinds = (Kind.PLACEMENT_FAILED, Kind.BOOKIE_LOST_CONTENT, Kind.LEDGER_ORPHANED)
    assert ([2, 1, 1], 4) == ([summary.hits(kind) for kind in kinds], summary.findings_total)


def test_what_was_not_counted_is_empty_or_none() -> None:
    """An earlier version did not count it, or it does not apply. Nothing is made up for it."""
    summary = stories.summary_without("copies", "bookies", "verified_ratio")
    for part in (summary.copies, summary.marks, summary.unjudged, summary.references):
        assert part is None
    for part in (summary.changes, summary.bookies, summary.sampling, summary.verified_ratio):
        assert part is None
    assert not (summary.has_looked_at_open or summary.has_causes_counted or summary.is_compared)
    assert ((), 0, ()) == (summary.causes, summary.doubt.copies, summary.withheld)


@pytest.mark.parametrize(
    "name",
    [
        "run_id",
        "cluster",
        "outcome",
        "exit_code",
        "ledgers",
        "findings",
        "indeterminate",
        "complete",
    ],
)
def test_what_every_run_has_is_never_made_up(name: str) -> None:
    """A file without it is damaged."""
    with pytest.raises(KeyError):
        stories.summary_without(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ledgers", []), ("ledgers", {"listed": 1}),
        ("ledgers", {"listed": "1", "sound": 1, "exempt": 0, "indeterminate": 0, "violated": 0}),
    ],
)  # fmt: skip
def test_a_part_of_another_form_is_refused(name: str, value: object) -> None:
    """A standing that is missing is not taken for none."""
    with pytest.raises((TypeError, KeyError)):
        stories.summary(**{name: value})
