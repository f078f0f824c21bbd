"""Marks of ledgers without metadata: the finding on the cluster, its facts, and what is
withheld.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditor.evidence.rows import Row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import MARKS
from auditor.findings.on_cluster import (
    FIRST_LOOK,
    LAST_LOOK,
    LISTED,
    MARKS_AT,
    MarkFindings,
    mark_findings,
    mark_row,
    problem_row,
)
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.ledger import Mark
from auditor.summary.about import About
from auditor.summary.counts import UnlistedMark

FACTS = ClusterFacts(
    "zk://h:1/bk/ledgers", ("h:1",), "/bk/ledgers", "hierarchical", "inst", True, None
)
NOW_MS, GRACE_MS = 1_000_000, 100_000
ABOUT = About(
    "20260101T030000Z-000001",
    "2026-01-01T03:00:00Z",
    FACTS,
    Terms(NOW_MS, GRACE_MS, 16, 5),
    "warning",
    False,
)
OLD = Mark(1_000)


@pytest.fixture
def run(tmp_path: Path) -> Place:
    return place(str(tmp_path / "run"))


def write_marks(run: Place, *rows: Row) -> None:
    run.write_table(MARKS_AT, table(MARKS, rows), "all")


def mark_at_two_looks(
    ledger: int, first_ms: int, again_ms: int, mark: Mark = OLD
) -> tuple[Row, Row]:
    """Return a mark of a ledger without metadata, as both looks saw it."""
    return mark_row(ledger, FIRST_LOOK, first_ms, mark, False), mark_row(
        ledger, LAST_LOOK, again_ms, mark, False
    )


def line(found: MarkFindings) -> dict[str, Any]:
    (finding,) = found.findings
    return finding.as_json()


def test_a_mark_without_a_ledger_at_two_looks_is_a_finding(run: Place) -> None:
    """All of them are one finding on the cluster. It has their ids, the path of the oldest mark,
    and the time between the looks.
    """
    write_marks(
        run,
        *mark_at_two_looks(9, 20_000, 70_000),
        *mark_at_two_looks(7, 30_000, 60_000, Mark(500)),
        *mark_at_two_looks(8, 5, 6, Mark(NOW_MS)),
    )
    found = mark_findings(run, ABOUT)
    finding = line(found)
    names = ("kind", "ledger_id", "bookie_id")
    assert ["MARK_WITHOUT_LEDGER", None, None] == [finding[name] for name in names]
    facts = {
        "marks": 2, "some_ledgers": [7, 9], "oldest_age_ms": NOW_MS - 500, "grace_ms": GRACE_MS,
        "unchecked": 0,
        "oldest_path": "/bk/ledgers/underreplication/ledgers/0000/0000/0000/0007/urL0000000007",
        "apart_ms": 30_000, "replication_disabled": True,
    }  # fmt: skip
    assert facts == {name: finding["facts"][name] for name in facts}
    assert ((7, 9), ()) == (found.ledger_ids, found.withheld)


def test_the_looks_of_the_finding_are_the_times_that_all_its_marks_were_seen_at(run: Place) -> None:
    """The first look ended with the last mark, the second began with the first mark. Each counts
    the marks.
    """
    write_marks(run, *mark_at_two_looks(9, 20_000, 70_000), *mark_at_two_looks(7, 30_000, 60_000))
    looks = [(look["at"], look["answers"]) for look in line(mark_findings(run, ABOUT))["looks"]]
    said = {"marks": "2 without a ledger"}
    assert [("1970-01-01T00:00:30.000Z", said), ("1970-01-01T00:01:00.000Z", said)] == looks


def test_a_mark_within_grace_or_with_a_ledger_is_not_a_finding(run: Place) -> None:
    """It is counted with its age, and nothing is withheld."""
    write_marks(
        run,
        *mark_at_two_looks(1, 5, 6, Mark(NOW_MS - GRACE_MS)),
        mark_row(2, FIRST_LOOK, 5, OLD, True),
    )
    unlisted = (UnlistedMark(GRACE_MS, False), UnlistedMark(NOW_MS - 1_000, True))
    assert MarkFindings(unlisted=unlisted) == mark_findings(run, ABOUT)


def test_what_could_not_be_judged_is_said(run: Place) -> None:
    """One mark could not be read twice, one was only listed, and listing ended with a problem."""
    write_marks(
        run,
        *mark_at_two_looks(1, 5, 6),
        mark_row(2, FIRST_LOOK, 5, OLD, None),
        mark_row(3, LISTED, 5, OLD, None),
        problem_row(7, "no access"),
    )
    found = mark_findings(run, ABOUT)
    problem, unread, unchecked = found.withheld
    assert problem.startswith("no access; ")
    assert unread.startswith("1 mark of a ledger that was not listed could not be read twice")
    assert unchecked.startswith("1 more marks are of ledgers that were not listed")
    assert (1, (1,)) == (line(found)["facts"]["unchecked"], found.ledger_ids)


def test_without_marks_there_is_no_finding(run: Place) -> None:
    """Nothing is withheld either."""
    write_marks(run)
    assert MarkFindings() == mark_findings(run, ABOUT)


def test_a_partial_run_does_not_judge_marks(run: Place) -> None:
    """It did not list the ledgers, and cannot know which marks have one."""
    write_marks(run, *mark_at_two_looks(1, 5, 6))
    assert MarkFindings() == mark_findings(run, replace(ABOUT, partial=True))
