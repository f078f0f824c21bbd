"""What a run knows of another run's subjects, gathered from its files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from support.report_stories import summary

from auditor.evidence import table_scan
from auditor.evidence.table_scan import TableScan, scan_rows
from auditor.first_checker.population import LastPopulation
from auditor.model.availability import LISTED_BY_LISTER, Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration, Surroundings
from auditor.model.evidence import Terms
from auditor.summary.about import About
from auditor.summary.changes.judged_runs import judged_run, terms_json
from auditor.summary.changes.rechecks import Judged, Row

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
TERMS = Terms(1, 2, 3, 4, stuck_after_ms=5, around=Surroundings(maintenance=frozenset({"b9"})))
ABOUT = About("r1", "2026-01-01T03:00:00Z", FACTS, TERMS, "warning", False)
SUMMARY = summary(withheld={})
VERDICTS = pa.table(
    {
        "ledger_id": pa.array([7, 8, 9, 10], pa.int64()),
        "exempt": [None, "deleted", None, None],
        "unknowns": pa.array([[], [], ["bookie_silent"], []], pa.list_(pa.string())),
        "assurance": [None, None, None, "probed"],
    }
)
ROWS = {
    7: Row(None, ()),
    8: Row("deleted", ()),
    9: Row(None, ("bookie_silent",)),
    10: Row(None, (), "probed"),
}


def judged(
    *ledgers: int,
    about: About = ABOUT,
    records: tuple[BookieRecord, ...] = (),
    verdicts: TableScan | None = None,
    **changes: Any,
) -> Judged:
    scan = scan_rows(VERDICTS) if verdicts is None else verdicts
    return judged_run(about, {**SUMMARY, **changes}, scan, records, ledgers)


def record(bookie: str, look: int, greeting: Greeting | None, **changes: Any) -> BookieRecord:
    return replace(
        BookieRecord(bookie, look, 0, Registration.WRITABLE, greeting=greeting), **changes
    )


def test_the_rows_of_the_ledgers_asked_for_are_known():
    """Those that the run listed, each as its verdict has it, and no other."""
    assert ROWS == judged(10, 9, 8, 7).rows
    assert {7: ROWS[7]} == judged(7, 11).rows
    assert {} == judged().rows


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 5])
def test_all_rows_are_known_however_many_are_looked_up_at_once(
    monkeypatch: pytest.MonkeyPatch, at_once: int
):
    """None is lost where one lookup ends and the next begins."""
    monkeypatch.setattr(table_scan, "LEDGERS_AT_ONCE", at_once)
    assert ROWS == judged(9, 7, 10, 8).rows


class Recorder:
    """A dataset that writes down by which expressions it is filtered."""

    def __init__(self) -> None:
        self.rows, self.filters = ds.dataset(VERDICTS), list[str]()
        self.schema = self.rows.schema

    def to_batches(self, **options: Any) -> Any:
        self.filters.append(str(options["filter"]))
        return self.rows.to_batches(**options)


def test_a_ledger_is_looked_up_once_however_many_findings_it_has(monkeypatch: pytest.MonkeyPatch):
    """Only its row is read, in lookups of a bounded size, in the order of the ledgers."""
    monkeypatch.setattr(table_scan, "LEDGERS_AT_ONCE", 2)
    dataset: Any = Recorder()
    assert {7, 8, 9} == set(judged(9, 7, 9, 8, 7, verdicts=TableScan("verdicts", dataset)).rows)
    assert 2 == len(dataset.filters)
    assert ("7" in dataset.filters[0], "8" in dataset.filters[0]) == (True, True)
    assert "9" in dataset.filters[1]


def test_a_bookie_is_known_as_its_last_look_saw_it():
    """Whatever the order of the records."""
    first = record("b1", 1, Greeting.SILENT)
    last = record("b1", 2, Greeting.ANSWERED, registration=Registration.READONLY)
    for records in ((first, last), (last, first)):
        assert {"b1": (Registration.READONLY, True)} == judged(records=records).bookies


def test_a_bookie_answers_if_it_greets_whether_or_not_it_can_list():
    """A bookie that was not greeted, or that said nothing, does not."""
    greetings = [*Greeting, None]
    records = tuple(record(f"b{n}", 1, one) for n, one in enumerate(greetings))
    answered = {
        one
        for (_, has_answered), one in zip(
            judged(records=records).bookies.values(), greetings, strict=True
        )
        if has_answered
    }
    assert {Greeting.ANSWERED, Greeting.UNSUPPORTED} == answered


def test_the_listers_are_those_that_listed_at_the_last_look():
    """A bookie that answered itself has none."""
    detail = f"{LISTED_BY_LISTER}10.0.0.1:1"
    records = (
        record("b1", 1, Greeting.ANSWERED, greeting_detail=detail),
        record("b2", 1, Greeting.ANSWERED, greeting_detail=detail),
        record("b2", 2, Greeting.ANSWERED, greeting_detail=""),
        record("b3", 1, Greeting.ANSWERED, greeting_detail=f"not {detail}"),
    )
    assert frozenset({"b1"}) == judged(records=records).listers


def test_what_a_run_is_about_is_known():
    """Whether it is of named ledgers, who is in maintenance, and what it was compared with."""
    plain = judged()
    assert (False, frozenset({"b9"}), None) == (
        plain.is_partial,
        plain.maintenance,
        plain.baseline,
    )
    about = replace(
        ABOUT, partial=True, previous_population=LastPopulation("r0", "2025-12-31T00:00:00Z", 9, 5)
    )
    assert (True, "r0") == (judged(about=about).is_partial, judged(about=about).baseline)


def test_a_run_withholds_if_its_summary_names_anything_withheld():
    """Nothing named is nothing withheld."""
    assert (False, True) == (
        judged(withheld={}).withholds,
        judged(withheld={"bookies": 1}).withholds,
    )


@pytest.mark.parametrize(
    ("references", "is_known"),
    [
        (None, False),
        ({}, False),
        ({"unreadable": 0, "unknown": 0}, True),
        ({"unreadable": 1, "unknown": 0}, False),
        ({"unreadable": 0, "unknown": 1}, False),
    ],
)
def test_references_are_known_if_all_were_read(references: dict[str, int] | None, is_known: bool):
    """A run that did not look knows none."""
    assert is_known is judged(references=references).are_references_known


def test_the_terms_are_those_of_the_file_with_the_bookies_in_maintenance():
    """As run.json has them, so that the terms of two runs compare."""
    assert judged().terms == terms_json(ABOUT)
    assert {**ABOUT.as_json()["terms"], "maintenance": ["b9"]} == terms_json(ABOUT)
