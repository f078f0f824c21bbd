"""The end of a run in which one bookie lost ledgers: the finding on it, the causes, and the files
of ledgers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from support import report_stories as stories
from support.tables_in_memory import Tables

from auditor.after.causes import causes
from auditor.commands.ledger_ids import read_ledger_ids
from auditor.evidence.rows import answer_row, greeting_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place, write_ledger_files
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, READS, VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.findings.lost_content import gather_heard
from auditor.findings.renaming import Renamed
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration, Surroundings
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Mark,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.run.conclusion import Conclusion, conclude
from auditor.summary.about import About
from auditor.summary.previous_run import NO_PREVIOUS

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


def metadata_of(ledger: int) -> LedgerMetadata:
    ensemble = ("b1", "b3", "b4") if ledger in BESIDE else ("b1", "b2", "b3")
    return LedgerMetadata(3, LedgerState.CLOSED, 3, 3, 2, 9, 100, (Segment(0, ensemble),))


def write(run: Tables, name: str, schema: pa.Schema, rows: list[tuple[Any, ...]]) -> None:
    run.write_table(f"evidence/{name}", table(schema, rows), "all")


@pytest.fixture
def run() -> Tables:
    """Return a run with ledgers 1 to 9 on b1, b2 and b3; the first six were asked about twice.
    Ledger 9 has an old mark. Nothing is wrong with the ledgers BESIDE.
    """
    run = Tables()
    write(run, "listing", LISTING, [(ledger,) for ledger in (*range(1, 10), *BESIDE)])
    mark = Mark(0, missing_replicas=("b4",))
    records = [
        LedgerRecord(
            ledger,
            look,
            0,
            RecordStatus.FOUND,
            ZnodeStamp(1, 0, BORN[ledger % 7] + ledger),
            metadata_of(ledger),
            mark=mark if ledger == 9 else None,
        )
        for ledger in (*range(1, 10), *BESIDE)
        for look in (1, 2)
        if look == 1 or ledger < 7 or ledger == 9
    ]
    write(run, "ledgers", LEDGERS, [ledger_row(record) for record in records])
    answers = [greeting_row(b, 1, 0, Greeting.ANSWERED, "") for b in RACKS]
    answers += [
        answer_row(
            Answer(
                b, ledger, look, 0, AnswerStatus.NO_SUCH_LEDGER if b == "b2" else AnswerStatus.HELD
            )
        )
        for b in ("b1", "b2", "b3")
        for ledger in HELD
        for look in (1, 2)
        if look == 1 or ledger < 7
    ]
    write(run, "answers", ANSWERS, answers)
    write(run, "reads", READS, [read_row(EntryRead("b2", 1, 0, 1, 0, ReadStatus.NO_LEDGER))])
    return run


def verdict(ledger: int, kind: Kind | None = None, **lacks: tuple[int, int]) -> dict[str, Any]:
    found = (
        []
        if kind is None
        else [stories.finding(kind, ledger, missing_on={b: [[0, 9]] for b in lacks}).line()]
    )
    lacked = [
        {"bookie_id": b, "expected": expected, "absent": absent}
        for b, (expected, absent) in lacks.items()
    ]
    rest = {
        "unknowns": [],
        "listing_false_negatives": 0,
        "looks": 2,
        "todo": "nothing",
        "assurance": "listed",
    }
    standing = "violated" if kind else "sound"
    return {
        "ledger_id": ledger,
        "standing": standing,
        "findings": found,
        "lacks": lacked,
        "only_maintenance": False,
        **rest,
    }


def conclude_run(
    run: Tables, about: About = ABOUT, lost: int = 5, greeting: Greeting = Greeting.ANSWERED
) -> Conclusion:
    """Conclude a run where b2 lacks all of the first `lost` ledgers and an entry of ledger 7, and
    b3 lacks an entry of ledger 8.
    """
    below = Kind.ENTRY_BELOW_WRITE_QUORUM
    rows = {ledger: verdict(ledger) for ledger in (*HELD, *BESIDE)}
    rows |= {7: verdict(7, below, b2=(10, 1)), 8: verdict(8, below, b3=(10, 1))}
    rows |= {ledger: verdict(ledger, below, b2=(10, 10)) for ledger in list(HELD)[:lost]}
    rows |= {9: verdict(9, Kind.UNDERREPLICATED_BEYOND_GRACE)}
    records = [
        BookieRecord(b, k, 0, Registration.WRITABLE, "h", 1, True, "", greeting)
        for k in (1, 2)
        for b in RACKS
    ]
    verdicts = scan_rows(pa.Table.from_pylist(list(rows.values()), schema=VERDICTS))
    return conclude(
        cast(Place, run),
        about,
        records,
        NO_PREVIOUS,
        verdicts=verdicts,
        finished_at="2026-01-01T03:01:00Z",
        duration_s={},
    )


def on_bookies(done: Conclusion) -> list[tuple[str, str]]:
    return [(one.kind.value, one.bookie_id) for one in done.findings if one.bookie_id]


@pytest.mark.parametrize(("lost", "found"), [(4, []), (5, ["b2"])])
def test_a_bookie_that_lacks_most_of_what_it_answered_for(run: Tables, lost: int, found: list[str]):
    """Four of eight ledgers are half of them, five are most. b3, which lost an entry, is not
    accused.
    """
    assert [("BOOKIE_LOST_CONTENT", bookie) for bookie in found] == on_bookies(
        conclude_run(run, lost=lost)
    )


def test_the_finding_carries_what_was_counted(run: Tables):
    """The witness says how many ledgers the bookie answered for and which it lacks. The looks are
    those at the bookie.
    """
    lost = Kind.BOOKIE_LOST_CONTENT
    (found,) = (one for one in conclude_run(run).findings if one.kind is lost)
    said = (
        "answered for 8 ledgers. Of 5 of them (1, 2, 3, 4, 5) it lacked, at two looks, more than"
        " half of the entries it should hold: together 50 of 50."
    )
    assert said in found.witness
    assert [{"b2": "answered"}] * 2 == [look.answers for look in found.looks]


def test_ledgers_that_an_operator_named_accuse_no_bookie(run: Tables):
    """The named ledgers may be those of a cause, most of them hit. They do not show what the bookie
    holds of others, and the accusation is withheld.
    """
    done = conclude_run(run, replace(ABOUT, partial=True))
    assert [] == on_bookies(done)
    (withheld,) = done.summary.as_json()["withheld"]
    assert withheld.startswith("bookie b2 lacks most of 5 of the 8 ledgers it was asked about")


def test_a_bookie_in_planned_maintenance_is_not_accused(run: Tables):
    """Its cause is reported with the maintenance, and there is no finding on the bookie."""
    about = replace(
        ABOUT, terms=replace(TERMS, around=replace(TERMS.around, maintenance=frozenset({"b2"})))
    )
    done = conclude_run(run, about)
    assert [] == on_bookies(done)
    assert (
        "bookie b2, in planned maintenance, answers and lacks"
        in done.summary.as_json()["causes"][0]["says"]
    )


def test_a_summary_has_its_causes_without_their_ledgers(run: Tables):
    """The cause is b2. Ledger 8 and the mark of ledger 9 have no cause in common with others."""
    summary = conclude_run(run).summary.as_json()
    (cause,) = summary["causes"]
    assert ("bookie", "b2", 6, 0.75) == (
        cause["cause"],
        cause["subject"],
        cause["ledgers"],
        cause["share"],
    )
    assert {"ENTRY_BELOW_WRITE_QUORUM": 6} == cause["kinds"]
    assert (
        "bookie b2 lost content and lacks entries of 6 ledgers (66 % of its 9 ledgers, 0.5 % on the"
        " rest)" == cause["says"]
    )
    contrast = [
        cause[name]
        for name in ("family", "touched", "touched_hit", "share_touched", "others", "others_hit")
    ]
    assert ["entry", 9, 6, 0.6667, 198, 1] == contrast
    assert cause["share_others"] == 0.005051
    assert ({"causes": 0, "ledgers": 0}, 2, 0) == (
        summary["causes_rest"], summary["ledgers_without_cause"], summary["unjudged_without_cause"],
    )  # fmt: skip


def test_a_causes_file_can_be_audited_again(run: Tables, tmp_path: Path):
    """It has one id a line, ascending, as --ledgers-from reads it, and the name that the summary
    gives.
    """
    done = conclude_run(run)
    write_ledger_files(place(str(tmp_path)), done.ledger_files)
    (name,) = (cause["file"] for cause in done.summary.as_json()["causes"])
    assert [1, 2, 3, 4, 5, 7] == read_ledger_ids(tmp_path / name)
    assert ["01-bookie-b2.txt"] == [file.name for file in (tmp_path / "causes").iterdir()]


def test_a_bookie_that_is_not_registered_explains_what_it_leaves_unjudged(run: Tables):
    """b4 left 30 ledgers unjudged. The mark of ledger 9 names it too, but is a single hit of
    another family.
    """
    gone = [
        answer_row(Answer("b4", n, look, 0, AnswerStatus.UNREGISTERED))
        for n in BESIDE[:30]
        for look in (1, 2)
    ]
    run.write_table("evidence/answers", table(ANSWERS, gone), "later")
    rows = {n: verdict(n) for n in (*HELD, *BESIDE)} | {
        9: verdict(9, Kind.UNDERREPLICATED_BEYOND_GRACE)
    }
    rows |= {
        n: verdict(n) | {"standing": "indeterminate", "unknowns": ["bookie_silent"]}
        for n in BESIDE[:30]
    }
    records = [
        BookieRecord("b1", k, 0, Registration.WRITABLE, "h", 1, True, "", Greeting.ANSWERED)
        for k in (1, 2)
    ]
    records += [
        BookieRecord("b4", k, 0, Registration.NONE, None, None, True, "", Greeting.UNREGISTERED)
        for k in (1, 2)
    ]
    verdicts = scan_rows(pa.Table.from_pylist(list(rows.values()), schema=VERDICTS))
    done = conclude(
        cast(Place, run),
        ABOUT,
        records,
        NO_PREVIOUS,
        verdicts=verdicts,
        finished_at="2026-01-01T03:01:00Z",
        duration_s={},
    )
    (cause,) = done.summary.as_json()["causes"]
    assert ("unjudged", {"bookie_silent": 30}) == (cause["family"], cause["kinds"])
    assert (
        "bookie b4 is not registered and leaves copies of 30 ledgers unknown (50 % of its 60"
        " ledgers, 0 % on the rest)" == cause["says"]
    )
    assert (1, 0) == (
        done.summary.ledgers_without_cause,
        done.summary.unjudged_without_cause,
    )


def test_where_no_bookie_answered_no_silence_is_a_cause(run: Tables):
    """Our network or our credentials are at fault then: no bookie is blamed for unjudged
    ledgers.
    """
    silent = [
        answer_row(Answer("b4", n, look, 0, AnswerStatus.SILENT))
        for n in BESIDE[:30]
        for look in (1, 2)
    ]
    run.write_table("evidence/answers", table(ANSWERS, silent), "later")
    rows = {n: verdict(n) for n in (*HELD, 9, *BESIDE)}
    rows |= {
        n: verdict(n) | {"standing": "indeterminate", "unknowns": ["bookie_silent"]}
        for n in BESIDE[:30]
    }
    verdicts = scan_rows(pa.Table.from_pylist(list(rows.values()), schema=VERDICTS))
    for greeted, said in ((Greeting.ANSWERED, ["b4"]), (Greeting.SILENT, [])):
        greetings = {b: greeted if b == "b1" else Greeting.SILENT for b in RACKS}
        records = [
            BookieRecord(b, k, 0, Registration.WRITABLE, "h", 1, True, "", greetings[b])
            for k in (1, 2)
            for b in RACKS
        ]
        looks = [
            {record.bookie_id: record for record in records if record.look == k} for k in (1, 2)
        ]
        heard = gather_heard(cast(Place, run), verdicts, records)
        found = causes(cast(Place, run), ABOUT, verdicts, looks, (), heard, {})
        assert said == [row.subject for row in found.rows]
        assert (30, 30) == (
            found.unexplained + 30 * len(said),
            found.unexplained_unjudged + 30 * len(said),
        )


def sentences_of(
    run: Tables,
    hits: Iterable[FindingRecord],
    about: About = ABOUT,
    *,
    gone: str = "",
    **renamed: str,
) -> list[str]:
    """Return the sentences of the causes of a run with these findings; `gone` is not registered."""
    verdicts = scan_rows(
        pa.Table.from_pylist([verdict(n) for n in (*HELD, 9, *BESIDE)], schema=VERDICTS)
    )
    looks = [
        {
            b: BookieRecord(b, 1, 0, Registration.WRITABLE, "h", 1, True, "", Greeting.ANSWERED)
            for b in RACKS
            if b != gone
        }
    ]
    heard = gather_heard(cast(Place, run), verdicts, [*looks[0].values()])
    run.asked.clear()
    new_names = {bookie: Renamed(name, (1,)) for bookie, name in renamed.items()}
    found = causes(cast(Place, run), about, verdicts, looks, hits, heard, new_names)
    return [row.says for row in found.rows]


def write_marks(run: Tables) -> None:
    """Write marks of 40 of the ledgers BESIDE, seen at the second look."""
    records = [
        LedgerRecord(n, 2, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata_of(n), mark=Mark(0))
        for n in BESIDE[:40]
    ]
    run.write_table(
        "evidence/ledgers", table(LEDGERS, [ledger_row(one) for one in records]), "later"
    )


def too_old(ledgers: Iterable[int]) -> list[dict[str, Any]]:
    return [
        stories.finding(Kind.UNDERREPLICATED_BEYOND_GRACE, n, missing_on={}, segment=None)
        for n in ledgers
    ]


def test_where_nothing_is_hit_nothing_is_read(run: Tables):
    """Without findings no table of the run is read."""
    assert ([], []) == (sentences_of(run, ()), run.asked)


def test_the_newest_mark_of_a_ledger_says_what_is_missing(run: Tables):
    """A bookie that all newest marks name as missing is the cause, whatever older marks name."""
    looks = [Mark(0), Mark(0, missing_replicas=("b5",))]
    records = [
        LedgerRecord(n, look, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata_of(n), mark=mark)
        for n in BESIDE[:20]
        for look, mark in enumerate(looks, 1)
    ]
    run.write_table(
        "evidence/ledgers", table(LEDGERS, [ledger_row(one) for one in records]), "later"
    )
    (said,) = sentences_of(run, too_old(BESIDE[:20]))
    assert "b5" in said and "named missing by the marks of 20 ledgers" in said


def test_auto_recovery_that_is_disabled_is_a_cause(run: Tables):
    """The share is of all marks, because those within grace wait as well. The mark of ledger 9 is
    one of them.
    """
    write_marks(run)
    about = replace(ABOUT, facts=replace(FACTS, replication_disabled=True))
    (said,) = sentences_of(run, too_old(range(101, 121)), about)
    assert (
        "auto-recovery is disabled: the marks of 20 ledgers wait for it (48 % of 41 marked ledgers)"
        == said
    )
    assert [] == sentences_of(run, too_old(range(101, 121)))


def test_a_time_in_which_ledgers_were_created_is_a_cause(run: Tables):
    """The period is compared with the ledgers created at other times. Each ledger counts once,
    though two looks saw it.
    """
    run.tables["evidence/ledgers"] = run.tables["evidence/ledgers"].slice(0, 0)
    records = [
        LedgerRecord(n, look, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 1_000 * n), metadata_of(n))
        for n in range(1, 101)
        for look in (1, 2)
    ]
    run.write_table(
        "evidence/ledgers", table(LEDGERS, [ledger_row(one) for one in records]), "later"
    )
    malformed = [stories.finding(Kind.METADATA_MALFORMED, n) for n in range(41, 61)]
    (said,) = sentences_of(run, malformed)
    assert (
        "20 ledgers created from 1970-01-01T00:00:41.000Z to 1970-01-01T00:01:00.000Z are hit (100"
        " % of the 20 ledgers created then, 0 % of the rest)" == said
    )


def test_a_bookie_that_is_gone_is_the_cause_of_ledgers_that_name_it(run: Tables):
    """It answered nothing, so no finding says that it lacks an entry. Ledgers without enough copies
    name it.
    """
    below = [stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, n, missing_on={}) for n in BESIDE]
    (said,) = sentences_of(run, below, gone="b4")
    does = "bookie b4 is not registered and should hold copies of 60 ledgers"
    assert f"{does} (100 % of its 60 ledgers, 0 % on the rest)" == said


def test_a_cause_names_the_new_name_of_a_gone_bookie(run: Tables):
    """The sentence says that the new name is probable."""
    below = [
        stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, n, missing_on={"b2": [[0, 9]]}) for n in HELD
    ]
    (said,) = sentences_of(run, below, b2="b9")
    assert said.startswith("bookie b2 (probably renamed to b9) ")


def test_reads_count_for_a_bookie_that_cannot_list(run: Tables):
    """Ledgers of which it answered a read count beside those it listed. If all bookies can list,
    the table of reads is not read.
    """
    verdicts = scan_rows(
        pa.Table.from_pylist(
            [verdict(1, Kind.ENTRY_BELOW_WRITE_QUORUM, b2=(10, 10))], schema=VERDICTS
        )
    )
    reads = [
        EntryRead("b2", n, 0, 1, 0, how)
        for n, how in ((8, ReadStatus.PRESENT), (101, ReadStatus.NO_LEDGER))
    ]
    reads += [
        EntryRead("b2", 102, 0, 1, 0, ReadStatus.TIMED_OUT),
        EntryRead("b1", 103, 0, 1, 0, ReadStatus.PRESENT),
    ]
    run.write_table("evidence/reads", table(READS, [read_row(one) for one in reads]), "later")
    records = [
        BookieRecord(b, 1, 0, Registration.WRITABLE, "h", 1, True, "", Greeting.ANSWERED)
        for b in RACKS
    ]
    unable = [
        replace(one, greeting=Greeting.UNSUPPORTED) if one.bookie_id == "b2" else one
        for one in records
    ]
    heard = gather_heard(cast(Place, run), verdicts, unable)
    assert ({"b1": 8, "b2": 9, "b3": 8}, True) == (
        heard.words.asked,
        heard.contents["b2"].was_probed,
    )
    run.asked.clear()
    heard = gather_heard(cast(Place, run), verdicts, records)
    assert ({"b1": 8, "b2": 8, "b3": 8}, False) == (
        heard.words.asked,
        heard.contents["b2"].was_probed,
    )
    assert "evidence/reads" not in run.asked


def test_the_last_answer_of_a_bookie_for_a_ledger_counts(run: Tables):
    """b1 answered for ledgers 1 and 2 at the first look and was silent at the last."""
    later = [answer_row(Answer("b1", n, 3, 0, AnswerStatus.SILENT)) for n in (1, 2)]
    run.write_table("evidence/answers", table(ANSWERS, later), "later")
    rows = [verdict(1) | {"standing": "indeterminate", "unknowns": ["bookie_silent"]}, verdict(2)]
    heard = gather_heard(
        cast(Place, run), scan_rows(pa.Table.from_pylist(rows, schema=VERDICTS)), []
    )
    assert {"b1": 6, "b2": 8, "b3": 8} == heard.words.asked
    assert {"b1": [1]} == {bookie: ids.tolist() for bookie, ids in heard.words.unheard.items()}
