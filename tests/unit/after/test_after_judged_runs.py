"""What is known of how a run judged ledgers and bookies, gathered from its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from support.report_stories import changed_summary, finding, summary

from auditor.after.compared_finding import ComparedFinding
from auditor.after.rechecks import Judged, Row, judged_run, terms_json
from auditor.evidence import table_scan
from auditor.evidence.rows import answer_row, read_row, table
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.evidence.schemas import VERDICTS as VERDICTS_SCHEMA
from auditor.evidence.table_scan import TableScan, scan_rows
from auditor.model.availability import (
    LISTED_BY_LISTER,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    ReadStatus,
)
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration, Surroundings
from auditor.model.evidence import LastPopulation, Terms
from auditor.model.finding import Kind
from auditor.summary.about import About

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
TERMS = Terms(1, 2, 3, 4, stuck_after_ms=5, around=Surroundings(maintenance=frozenset({"b9"})))
ABOUT = About("r1", "2026-01-01T03:00:00Z", FACTS, TERMS, "warning", False)
SUMMARY = summary(withheld=[])
VERDICTS = pa.table(
    {
        "ledger_id": pa.array([7, 8, 9, 10], pa.int64()),
        "exempt": [None, "deleted", None, None],
        "unknowns": pa.array([[], [], ["bookie_silent"], []], pa.list_(pa.string())),
        "assurance": [None, None, None, "probed"],
    }
)
EMPTY = pa.Table.from_pylist([], schema=VERDICTS_SCHEMA)
ROWS = {
    7: Row(None, ()),
    8: Row("deleted", ()),
    9: Row(None, ("bookie_silent",)),
    10: Row(None, (), "probed"),
}


def gather_judged(
    *ledgers: int,
    about: About = ABOUT,
    records: tuple[BookieRecord, ...] = (),
    verdicts: TableScan | None = None,
    **changes: Any,
) -> Judged:
    scan = scan_rows(VERDICTS) if verdicts is None else verdicts
    others = [ComparedFinding.of(finding(Kind.LEDGER_STUCK, ledger)) for ledger in ledgers]
    return judged_run(None, about, changed_summary(SUMMARY, **changes), scan, records, others)


def record(bookie: str, look: int, greeting: Greeting | None, **changes: Any) -> BookieRecord:
    return replace(
        BookieRecord(bookie, look, 0, Registration.WRITABLE, greeting=greeting), **changes
    )


def test_the_rows_of_the_ledgers_asked_for_are_known():
    """A ledger that the run did not list has no row."""
    assert ROWS == gather_judged(10, 9, 8, 7).rows
    assert {7: ROWS[7]} == gather_judged(7, 11).rows
    assert {} == gather_judged().rows


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 5])
def test_all_rows_are_known_however_many_are_looked_up_at_once(
    monkeypatch: pytest.MonkeyPatch, at_once: int
):
    """No row is lost between two lookups."""
    monkeypatch.setattr(table_scan, "LEDGERS_AT_ONCE", at_once)
    assert ROWS == gather_judged(9, 7, 10, 8).rows


class Recorder:
    """A dataset that records the expressions by which it is filtered."""

    def __init__(self) -> None:
        self.rows, self.filters = ds.dataset(VERDICTS), list[str]()
        self.schema = self.rows.schema

    def get_fragments(self) -> Any:
        return self.rows.get_fragments()

    def to_batches(self, **options: Any) -> Any:
        self.filters.append(str(options["filter"]))
        return self.rows.to_batches(**options)


def test_a_ledger_is_looked_up_once_however_many_findings_it_has(monkeypatch: pytest.MonkeyPatch):
    """The lookups have a bounded size and are in the order of the ledgers."""
    monkeypatch.setattr(table_scan, "LEDGERS_AT_ONCE", 2)
    dataset: Any = Recorder()
    assert {7, 8, 9} == set(
        gather_judged(9, 7, 9, 8, 7, verdicts=TableScan("verdicts", dataset)).rows
    )
    assert 2 == len(dataset.filters)
    assert ("7" in dataset.filters[0], "8" in dataset.filters[0]) == (True, True)
    assert "9" in dataset.filters[1]


def test_a_bookie_is_known_as_its_last_look_saw_it():
    """The order of the records does not matter."""
    first = record("b1", 1, Greeting.SILENT)
    last = record("b1", 2, Greeting.ANSWERED, registration=Registration.READONLY)
    for records in ((first, last), (last, first)):
        assert {"b1": (Registration.READONLY, True)} == gather_judged(records=records).bookies


def test_a_bookie_answers_if_it_greets_whether_or_not_it_can_list():
    """A bookie that was not greeted or did not answer the greeting has not answered."""
    greetings = [*Greeting, None]
    records = tuple(record(f"b{n}", 1, one) for n, one in enumerate(greetings))
    answered = {
        one
        for (_, has_answered), one in zip(
            gather_judged(records=records).bookies.values(), greetings, strict=True
        )
        if has_answered
    }
    assert {Greeting.ANSWERED, Greeting.UNSUPPORTED} == answered


def test_the_listers_are_those_that_listed_at_the_last_look():
    """A bookie that listed by itself at the last look has no lister."""
    detail = f"{LISTED_BY_LISTER}10.0.0.1:1"
    records = (
        record("b1", 1, Greeting.ANSWERED, greeting_detail=detail),
        record("b2", 1, Greeting.ANSWERED, greeting_detail=detail),
        record("b2", 2, Greeting.ANSWERED, greeting_detail=""),
        record("b3", 1, Greeting.ANSWERED, greeting_detail=f"not {detail}"),
    )
    assert frozenset({"b1"}) == gather_judged(records=records).listers


def test_what_a_run_is_about_is_known():
    """A run knows whether it is of named ledgers, which bookies are in maintenance, and the run it
    was compared with.
    """
    plain = gather_judged()
    assert (False, frozenset({"b9"}), None) == (
        plain.is_partial,
        plain.maintenance,
        plain.baseline,
    )
    about = replace(
        ABOUT, partial=True, previous_population=LastPopulation("r0", "2025-12-31T00:00:00Z", 9, 5)
    )
    assert (True, "r0") == (
        gather_judged(about=about).is_partial,
        gather_judged(about=about).baseline,
    )


def test_a_run_withholds_if_its_summary_names_anything_withheld():
    """A run whose summary names nothing withholds nothing."""
    assert (False, True) == (
        gather_judged(withheld=[]).withholds,
        gather_judged(withheld=["a sentence"]).withholds,
    )


@pytest.mark.parametrize(
    ("references", "is_known"),
    [
        (None, False),
        ({"unreadable": 0, "unknown": 0}, True),
        ({"unreadable": 1, "unknown": 0}, False),
        ({"unreadable": 0, "unknown": 1}, False),
    ],
)
def test_references_are_known_if_all_were_read(references: dict[str, int] | None, is_known: bool):
    """A run that did not look for references knows none."""
    assert is_known is gather_judged(references=references).are_references_known


def test_the_terms_are_those_of_the_file_with_the_bookies_in_maintenance():
    """They are in the form of run.json, and the terms of two runs can be compared. The drop of the
    number of ledgers that is allowed is one of them; it is null without an earlier number.
    """
    assert gather_judged().terms == terms_json(ABOUT)
    plain = {**ABOUT.as_json()["terms"], "maintenance": ["b9"]}
    assert {**plain, "population_drop": None} == terms_json(ABOUT)
    counted = replace(ABOUT, previous_population=LastPopulation("r0", "2025-12-31", 9, 5))
    assert {**plain, "population_drop": 5} == terms_json(counted)


@pytest.mark.parametrize("is_so", [True, False])
def test_a_run_knows_whether_any_bookie_answered(is_so: bool):
    """Its summary says so."""
    assert is_so is gather_judged(nobody_answered=is_so).nobody_answered


def test_what_a_run_asked_again_is_looked_for_of_those_findings_alone_that_need_it(tmp_path: Path):
    """Copies were read again of a ledger that had a corrupt one; and what a bookie holds is unknown
    if it had lost content. A ledger or a bookie with another finding is not looked for.
    """
    run = place(str(tmp_path))
    answers = [
        answer_row(Answer(bookie, ledger, 1, 0, AnswerStatus.TIMED_OUT))
        for bookie in ("b1", "b2")
        for ledger in range(4)
    ]
    answers += [answer_row(Answer("b1", ledger, 1, 0, AnswerStatus.HELD)) for ledger in (7, 8)]
    run.write_table("evidence/answers", table(ANSWERS, answers), "all")
    reads = [read_row(EntryRead("b1", ledger, 4, 1, 0, ReadStatus.PRESENT)) for ledger in (7, 8)]
    run.write_table("evidence/reads", table(READS, reads), "all")
    facts = {"copies": [["b1", [4]]]}
    others = [
        finding(Kind.ENTRY_CORRUPT, 7, facts=facts),
        finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 8, facts=facts),
        finding(Kind.BOOKIE_LOST_CONTENT, "b1"),
        finding(Kind.BOOKIE_FAILING_REQUESTS, "b2"),
    ]
    compared = [*map(ComparedFinding.of, others)]
    records = [record(bookie, 1, Greeting.ANSWERED) for bookie in ("b1", "b2")]
    judged = [
        judged_run(one, ABOUT, SUMMARY, scan_rows(EMPTY), records, compared) for one in (run, None)
    ]
    assert [{7}, set()] == [one.reread for one in judged]
    why = "it answered for 2 of 6 ledgers"
    assert [{"b1": why}, {}] == [one.content_unknown for one in judged]
