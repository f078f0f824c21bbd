"""The end of a run over many ledgers of one bookie: what it lost, what is behind what was found, and the files of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import report_stories as stories

from auditor.commands.ledger_ids import read_ledger_ids
from auditor.evidence.rows import answer_row, greeting_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place, write_ledger_files
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, MARKS, READS, VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration, Surroundings
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, Mark, RecordStatus, Segment, ZnodeStamp
from auditor.run.conclusion import Conclusion, conclude
from auditor.summary.about import About
from auditor.summary.run_summary import NO_PREVIOUS

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
RACKS = {"b1": "/r1", "b2": "/r1", "b3": "/r2", "b4": "/r2"}
TERMS = Terms(9_000, 1_000, 16, 5, around=Surroundings(locations=RACKS))
ABOUT = About("20260101T030000Z-000001", "2026-01-01T03:00:00Z", FACTS, TERMS, "warning", False)
HELD = range(1, 9)
"""Ledgers that b1, b2 and b3 answer for; ledger 9 is marked."""
BESIDE = range(101, 161)
"""Sound ledgers on b1, b3 and b4: what hits are compared with."""

BORN = [1_000 * n for n in (3, 0, 5, 1, 6, 2, 4)]
"""Ledgers that are neighbours by id were created far apart."""


def named(ledger: int) -> LedgerMetadata:
    ensemble = ("b1", "b3", "b4") if ledger in BESIDE else ("b1", "b2", "b3")
    return LedgerMetadata(3, LedgerState.CLOSED, 3, 3, 2, 9, 100, (Segment(0, ensemble),))


def write(run: Place, name: str, schema: pa.Schema, rows: list[tuple[Any, ...]]) -> None:
    run.write_table(f"evidence/{name}", table(schema, rows), "all")
    run.write_table("evidence/marks", MARKS.empty_table(), "none")


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """Ledgers 1 to 9, each on b1, b2 and b3; the first six were asked about twice. Ledger 9 is marked since long. Nothing is
    wrong with the ledgers beside."""
    run = place(str(tmp_path / "run-20260101T030000Z-000001"))
    write(run, "listing", LISTING, [(ledger,) for ledger in (*range(1, 10), *BESIDE)])
    mark = Mark(0, missing_replicas=("b4",))
    records = [
        LedgerRecord(
            ledger,
            look,
            0,
            RecordStatus.FOUND,
            ZnodeStamp(1, 0, BORN[ledger % 7] + ledger),
            named(ledger),
            mark=mark if ledger == 9 else None,
        )
        for ledger in (*range(1, 10), *BESIDE)
        for look in (1, 2)
        if look == 1 or ledger < 7 or ledger == 9
    ]
    write(run, "ledgers", LEDGERS, [ledger_row(record) for record in records])
    answers = [greeting_row(b, 1, 0, Greeting.ANSWERED, "") for b in RACKS]
    answers += [
        answer_row(Answer(b, ledger, look, 0, AnswerStatus.NO_SUCH_LEDGER if b == "b2" else AnswerStatus.HELD))
        for b in ("b1", "b2", "b3")
        for ledger in HELD
        for look in (1, 2)
        if look == 1 or ledger < 7
    ]
    write(run, "answers", ANSWERS, answers)
    write(run, "reads", READS, [read_row(EntryRead("b2", 1, 0, 1, 0, ReadStatus.NO_LEDGER))])
    return run


def verdict(ledger: int, kind: Kind | None = None, **lacks: tuple[int, int]) -> dict[str, Any]:
    found = [] if kind is None else [json.dumps(stories.finding(kind, ledger, missing_on={b: [[0, 9]] for b in lacks}))]
    lacked = [{"bookie_id": b, "expected": expected, "absent": absent} for b, (expected, absent) in lacks.items()]
    rest = {"unknowns": [], "listing_false_negatives": 0, "looks": 2, "todo": "nothing", "assurance": "listed"}
    standing = "violated" if kind else "sound"
    return {"ledger_id": ledger, "standing": standing, "findings": found, "lacks": lacked, "only_maintenance": False, **rest}


def concluded(run: Place, about: About = ABOUT, lost: int = 5, greeting: Greeting = Greeting.ANSWERED) -> Conclusion:
    """The run's end where b2 lacks all of so many ledgers and an entry of ledger 7, b3 an entry of ledger 8."""
    below = Kind.ENTRY_BELOW_WRITE_QUORUM
    rows = {ledger: verdict(ledger) for ledger in (*HELD, *BESIDE)}
    rows |= {7: verdict(7, below, b2=(10, 1)), 8: verdict(8, below, b3=(10, 1))}
    rows |= {ledger: verdict(ledger, below, b2=(10, 10)) for ledger in list(HELD)[:lost]}
    rows |= {9: verdict(9, Kind.UNDERREPLICATED_BEYOND_GRACE)}
    records = [BookieRecord(b, k, 0, Registration.WRITABLE, "h", 1, True, "", greeting) for k in (1, 2) for b in RACKS]
    verdicts = scan_rows(pa.Table.from_pylist(list(rows.values()), schema=VERDICTS))
    return conclude(run, about, records, NO_PREVIOUS, verdicts=verdicts, finished_at="2026-01-01T03:01:00Z", duration_s={})


def on_bookies(done: Conclusion) -> list[tuple[str, str]]:
    found = [json.loads(line) for line in done.findings]
    return [(one["kind"], one["bookie_id"]) for one in found if one["bookie_id"]]


@pytest.mark.parametrize(("lost", "found"), [(4, []), (5, ["b2"])])
def test_a_bookie_that_lacks_most_of_what_it_answered_for(run: Place, lost: int, found: list[str]):
    """Four of eight ledgers are half of them, five are most. Its neighbour, which lost an entry, is not accused."""
    assert [("BOOKIE_LOST_CONTENT", bookie) for bookie in found] == on_bookies(concluded(run, lost=lost))


def test_the_finding_carries_what_was_counted(run: Place):
    """The witness says of how many ledgers it was asked and which it lacks; looks are those at the bookie."""
    (found,) = (json.loads(line) for line in concluded(run).findings if "LOST_CONTENT" in line)
    said = (
        "answered for 8 ledgers. Of 5 of them (1, 2, 3, 4, 5) it lacked, at two looks, more than half of the entries it should "
        "hold: together 50 of 50."
    )
    assert said in found["witness"]
    assert [{"b2": "answered"}] * 2 == [look["answers"] for look in found["looks"]]


def test_ledgers_that_an_operator_named_accuse_no_bookie(run: Place):
    """Who audits the ledgers of a cause finds most of them hit: that says nothing about the rest, and that is said."""
    done = concluded(run, replace(ABOUT, partial=True))
    assert [] == on_bookies(done)
    (withheld,) = done.summary["withheld"]
    assert withheld.startswith("bookie b2 lacks most of 5 of the 8 ledgers it was asked about")


def test_a_bookie_in_planned_maintenance_is_not_accused(run: Place):
    """It is known to be worked on: in the report, no page."""
    about = replace(ABOUT, terms=replace(TERMS, around=replace(TERMS.around, maintenance=frozenset({"b2"}))))
    done = concluded(run, about)
    assert [] == on_bookies(done)
    assert "bookie b2, in planned maintenance, answers and lacks" in done.summary["causes"][0]["says"]


def test_a_summary_tells_its_causes_without_their_ledgers(run: Place):
    """The bookie first; ledger 8 and the mark of ledger 9 have no cause in common with others."""
    told = concluded(run).summary
    (cause,) = told["causes"]
    assert ("bookie", "b2", 6, 0.75) == (cause["cause"], cause["subject"], cause["ledgers"], cause["share"])
    assert {"ENTRY_BELOW_WRITE_QUORUM": 6} == cause["kinds"]
    assert "bookie b2 answers and lacks entries of 6 ledgers (66 % of its 9 ledgers, 0.5 % on the rest)" == cause["says"]
    contrast = [cause[name] for name in ("family", "touched", "touched_hit", "share_touched", "others", "others_hit")]
    assert ["entry", 9, 6, 0.6667, 198, 1] == contrast
    assert cause["share_others"] == 0.005051 and cause["p_value"] < 0.001
    assert ({"causes": 0, "ledgers": 0}, 2, 0) == (
        told["causes_rest"], told["ledgers_without_cause"], told["unjudged_without_cause"],
    )  # fmt: skip


def test_a_causes_file_can_be_audited_again(run: Place):
    """One id a line, ascending, as --ledgers-from reads it; written under the name that the summary gives."""
    done = concluded(run)
    write_ledger_files(run, done.ledger_files)
    (name,) = (cause["file"] for cause in done.summary["causes"])
    assert [1, 2, 3, 4, 5, 7] == read_ledger_ids(Path(run.path) / name)
    assert ["01-bookie-b2.txt"] == [file.name for file in (Path(run.path) / "causes").iterdir()]


def test_where_nothing_is_hit_no_directory_is_made(run: Place):
    """An empty directory would look like something that was lost."""
    write_ledger_files(run, {})
    assert not (Path(run.path) / "causes").exists()


def test_a_bookie_that_is_not_registered_explains_what_it_leaves_unjudged(run: Place):
    """b4 left 30 ledgers unjudged; that the mark of ledger 9 names it too is another family, and one ledger."""
    gone = [answer_row(Answer("b4", n, look, 0, AnswerStatus.UNREGISTERED)) for n in BESIDE[:30] for look in (1, 2)]
    run.write_table("evidence/answers", table(ANSWERS, gone), "later")
    rows = {n: verdict(n) for n in (*HELD, *BESIDE)} | {9: verdict(9, Kind.UNDERREPLICATED_BEYOND_GRACE)}
    rows |= {n: verdict(n) | {"standing": "indeterminate", "unknowns": ["bookie_silent"]} for n in BESIDE[:30]}
    records = [BookieRecord("b1", k, 0, Registration.WRITABLE, "h", 1, True, "", Greeting.ANSWERED) for k in (1, 2)]
    records += [BookieRecord("b4", k, 0, Registration.NONE, None, None, True, "", Greeting.UNREGISTERED) for k in (1, 2)]
    verdicts = scan_rows(pa.Table.from_pylist(list(rows.values()), schema=VERDICTS))
    done = conclude(run, ABOUT, records, NO_PREVIOUS, verdicts=verdicts, finished_at="2026-01-01T03:01:00Z", duration_s={})
    (cause,) = done.summary["causes"]
    assert ("unjudged", {"bookie_silent": 30}) == (cause["family"], cause["kinds"])
    assert (
        "bookie b4 is not registered and leaves 30 ledgers unjudged (50 % of its 60 ledgers, 0 % on the rest)" == cause["says"]
    )
    assert (1, 0) == (done.summary["ledgers_without_cause"], done.summary["unjudged_without_cause"])


def test_where_no_bookie_answered_no_silence_is_a_cause(run: Place):
    """That is our network or our credentials: no bookie is blamed for what it leaves unjudged."""
    silent = [answer_row(Answer("b1", ledger, look, 0, AnswerStatus.SILENT)) for ledger in (7, 8) for look in (3, 4)]
    run.write_table("evidence/answers", table(ANSWERS, silent), "later")
    rows = {ledger: verdict(ledger) for ledger in (*HELD, 9, *BESIDE)}
    rows |= {n: verdict(n) | {"standing": "indeterminate", "unknowns": ["bookie_silent"]} for n in (7, 8)}
    records = [BookieRecord("b1", k, 0, Registration.WRITABLE, "h", 1, True, "", Greeting.SILENT) for k in (1, 2)]
    verdicts = scan_rows(pa.Table.from_pylist(list(rows.values()), schema=VERDICTS))
    done = conclude(run, ABOUT, records, NO_PREVIOUS, verdicts=verdicts, finished_at="2026-01-01T03:01:00Z", duration_s={})
    assert ([], 2, 2) == tuple(done.summary[name] for name in ("causes", "ledgers_without_cause", "unjudged_without_cause"))
