"""The end of a run: every ledger is accounted for first, then counted, from written evidence
alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from auditor.errors import AccountingError
from auditor.evidence.rows import answer_row, greeting_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, MARKS, READS, RENAMES, VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.findings.failing_requests import refusals_of
from auditor.findings.on_cluster import FIRST_LOOK, LAST_LOOK, LISTED, mark_row
from auditor.model.availability import (
    LISTED_BY_LISTER,
    NOT_DIALLED,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    MissingLog,
    ReadStatus,
    SequenceGroup,
)
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import Terms
from auditor.model.finding import Family, Finding, Kind
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Mark,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.model.summary import RequestTotals
from auditor.run.conclusion import Conclusion, conclude, missing_sentences
from auditor.run.request_counts import write_read_counts
from auditor.summary.about import About
from auditor.summary.previous_run import NO_PREVIOUS, Previous
from auditor.wire.entry_availability import canonical
from auditor.witness.finding_lines import finding_id
from auditor.zookeeper.session import ReadCounts

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
ABOUT = About(
    "20260101T030000Z-000001",
    "2026-01-01T03:00:00Z",
    FACTS,
    Terms(9_000, 1_000, 16, 5),
    "warning",
    False,
)
SILENT = ("indeterminate", ["bookie_silent"])


def write(run: Place, name: str, schema: pa.Schema, *rows: tuple[Any, ...]) -> None:
    run.write_table(f"evidence/{name}", table(schema, rows), "all")


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """Return a run of two ledgers. Ledger 2 names a bookie that is not registered, which was asked
    about it at two looks.
    """
    run = place(str(tmp_path / "run-20260101T030000Z-000001"))
    gone, held, timed = AnswerStatus.UNREGISTERED, AnswerStatus.HELD, AnswerStatus.TIMED_OUT
    write(run, "listing", LISTING, (1,), (2,))
    write(run, "marks", MARKS)
    shut = LedgerRecord(1, 1, 0, RecordStatus.NOT_AUTHORISED)
    write(run, "ledgers", LEDGERS, *map(ledger_row, (shut, *(seen(look) for look in (1, 2, 3)))))
    write(
        run, "answers", ANSWERS,
        greeting_row("b1", 1, 0, Greeting.ANSWERED, ""),
        answer_row(Answer("b1", 1, 1, 0, held, requests=1, received_bytes=100)),
        answer_row(Answer("b1", 2, 1, 0, held, requests=3, retries=2, received_bytes=50)),
        answer_row(Answer("b2", 2, 1, 0, timed, requests=2, retries=1)),
        answer_row(Answer("gone", 2, 1, 0, gone)),
        answer_row(Answer("gone", 2, 2, 0, gone)),
    )  # fmt: skip
    reads = [("b1", ReadStatus.NO_ENTRY), ("b1", ReadStatus.PRESENT), ("b2", ReadStatus.SILENT)]
    write(
        run, "reads", READS,
        *(read_row(EntryRead(b, 2, n, 1, 0, s, requests=1, received_bytes=10)) for n,
        (b, s) in enumerate(reads)),
    )  # fmt: skip
    return run


def seen(look: int, **changes: Any) -> LedgerRecord:
    """Return ledger 2 at one look."""
    return replace(LedgerRecord(2, look, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0)), **changes)


def bookies(*, gone_at: tuple[int, int] = (0, 20_000), cookie: bool = False) -> list[BookieRecord]:
    records = []
    for look, at in enumerate(gone_at, start=1):
        records.append(
            BookieRecord("b1", look, at, Registration.WRITABLE, "h", 1, True, "", Greeting.ANSWERED)
        )
        records.append(
            BookieRecord(
                "gone", look, at, Registration.NONE, None, None, cookie, "", Greeting.UNREGISTERED
            )
        )
    return records


def concluded(
    run: Place, standings: dict[int, tuple[str, list[str]]], **changes: Any
) -> Conclusion:
    rows = [
        {
            "ledger_id": i,
            "standing": s,
            "unknowns": u,
            "findings": [],
            "listing_false_negatives": 0,
            "looks": 1,
            "todo": "nothing",
        }
        for i, (s, u) in standings.items()
    ]
    arguments: dict[str, Any] = {
        "about": ABOUT,
        "bookies": bookies(),
        "previous": NO_PREVIOUS,
    } | changes
    verdicts = scan_rows(pa.Table.from_pylist(rows, schema=VERDICTS))
    return conclude(
        run, arguments["about"], arguments["bookies"], arguments["previous"],
        verdicts=verdicts, finished_at="2026-01-01T03:01:00Z", duration_s={"ask": 1.0},
    )  # fmt: skip


BOTH = {1: ("sound", []), 2: SILENT}


def test_ledgers_and_verdicts_must_add_up(run: Place):
    """A listed ledger has no verdict, or a verdict has no listed ledger."""
    for standings in ({1: ("sound", [])}, {**BOTH, 3: ("sound", [])}):
        with pytest.raises(AccountingError):
            concluded(run, standings)


def test_costs_are_what_was_written(run: Place):
    """Each row counts once. A greeting is a request, but not an answer about a ledger. The znodes
    include those that the driver read.
    """
    write_read_counts(run, ReadCounts(reads=8, reads_ok=7))
    said = concluded(run, BOTH).summary.as_json()
    expected = {
        "zookeeper_reads": 8, "bookie_requests": 1 + 1 + 3 + 2 + 3, "bookie_bytes": 180,
        "retries": 3,
        "confirming_reads": 3, "spot_reads": 0, "doubt_reads": 0, "scrub_reads": 0,
        "listing_false_negatives": 0,
    }  # fmt: skip
    assert expected == said["requests"]
    unanswered = (
        3 + 1 + 1
    )  # retries, the last try of b2, a silent read; a request that was never sent did not fail
    assert {"answered": 10 - unanswered, "failed": unanswered} == said["request_totals"][
        "bookie_requests"
    ]
    assert {"answered": 7, "failed": 1} == said["request_totals"]["zookeeper_reads"]
    assert 3 == said["bookies"]["named_by_ledgers"]


def test_a_bookie_that_nobody_misses_is_found(run: Place):
    """It is not registered at both looks and has no cookie, and the ledger that names it is not
    marked.
    """
    done = concluded(run, {1: ("sound", []), 2: ("violated", [])})
    (line,) = done.findings
    assert ("BOOKIE_LOST_UNNOTICED", "gone") == (
        line.kind.value,
        line.bookie_id,
    )
    assert ("VIOLATED", 1) == (
        done.summary.outcome,
        done.summary.exit_code,
    )


def test_a_bookie_that_was_not_dialled_is_reported_and_not_accused(run: Place):
    """A registered bookie to which no connection could be made has a finding. A bookie that
    was not dialled gets a sentence under what is withheld.
    """
    for detail, kinds, said in (
        ("no connection", ["BOOKIE_SILENT_YET_REGISTERED"], 0),
        (f"{NOT_DIALLED}no KDC", [], 1),
    ):
        silent = [
            BookieRecord(
                "b2", look, look, Registration.WRITABLE, "h", 1, True, "", Greeting.SILENT, detail
            )
            for look in (1, 2)
        ]
        records = [one for one in bookies() if one.bookie_id == "b1"] + silent
        done = concluded(run, BOTH, bookies=records)
        assert [line.kind.value for line in done.findings] == kinds
        undialled = [
            one for one in done.summary.as_json()["withheld"] if "asked nothing at the last" in one
        ]
        assert len(undialled) == said


@pytest.mark.parametrize(("count", "gap_ms"), [(0, 9_999), (1, 10_000)])
def test_a_bookie_with_a_cookie_may_be_restarting(run: Place, count: int, gap_ms: int):
    """It is found only if the looks lie at least a session time-out apart."""
    assert count == len(
        concluded(run, BOTH, bookies=bookies(gone_at=(0, gap_ms), cookie=True)).findings
    )


@pytest.mark.parametrize(
    "last",
    [
        seen(4, stamp=ZnodeStamp(1, 1, 0)),
        seen(4, status=RecordStatus.GONE, stamp=None),
        seen(4, status=RecordStatus.NOT_AUTHORISED, stamp=None),
    ],
)
def test_a_ledger_that_no_longer_names_the_lost_bookie_accuses_nobody(
    run: Place, last: LedgerRecord
):
    """Its metadata changed, it was deleted, or it may not be read any more."""
    run.write_table("evidence/ledgers", table(LEDGERS, [ledger_row(last)]), "last")
    assert [] == concluded(run, BOTH).findings


def test_while_the_cluster_marks_its_ledgers_nobody_is_accused(run: Place):
    """Ledger 2 was marked after the first look: there is no finding, and none is withheld. As soon
    as ledger 1 names the bookie too and is not marked, the finding is withheld with a sentence.
    """
    marked = seen(4, mark=Mark(0))
    run.write_table("evidence/ledgers", table(LEDGERS, [ledger_row(marked)]), "last")
    done = concluded(run, BOTH)
    assert ([], []) == (done.findings, done.summary.as_json()["withheld"])
    rows = [ledger_row(replace(seen(look), ledger_id=1)) for look in (2, 3)]
    run.write_table("evidence/ledgers", table(LEDGERS, rows), "first")
    asked = [answer_row(Answer("gone", 1, look, 0, AnswerStatus.UNREGISTERED)) for look in (2, 3)]
    run.write_table("evidence/answers", table(ANSWERS, asked), "more")
    done = concluded(run, BOTH)
    assert [] == done.findings
    assert any(
        "replication is being arranged: 1 of 2 ledgers are marked" in sentence
        for sentence in done.summary.as_json()["withheld"]
    )


def test_what_earlier_runs_saw_of_a_bookie_is_used_and_passed_on(run: Place):
    """An earlier run saw the bookie unregistered. The session time-out is over since then, although
    the looks of this run lie close together.
    """
    records = bookies(gone_at=(100_000, 101_000), cookie=True)
    fresh = concluded(run, BOTH, bookies=records)
    assert ([], [{"bookie_id": "gone", "since": "1970-01-01T00:01:40.000Z"}]) == (
        fresh.findings,
        fresh.summary.as_json()["bookies_unregistered"],
    )
    later = concluded(
        run, BOTH, bookies=records, about=replace(ABOUT, unregistered_since_ms={"gone": 91_000})
    )
    assert ["BOOKIE_LOST_UNNOTICED"] == [line.kind.value for line in later.findings]
    assert [{"bookie_id": "gone", "since": "1970-01-01T00:01:31.000Z"}] == later.summary.as_json()[
        "bookies_unregistered"
    ]


def refuse(run: Place, ledgers: range) -> None:
    """Add the answers of b9, which refuses the lists of these ledgers at two looks."""
    asked = [
        answer_row(Answer("b9", i, look, 0, AnswerStatus.REFUSED, detail="EIO: x"))
        for i in ledgers
        for look in (1, 2)
    ]
    run.write_table("evidence/answers", table(ANSWERS, asked), "refused")


@pytest.mark.parametrize(("ledgers", "found"), [(2, []), (3, ["BOOKIE_FAILING_REQUESTS"])])
def test_a_bookie_that_fails_every_request_is_found(run: Place, ledgers: int, found: list[str]):
    """Three refused ledgers are enough, two are not. In a run over named ledgers the finding is
    withheld.
    """
    refuse(run, range(10, 10 + ledgers))
    records = [
        BookieRecord("b9", k, 0, Registration.WRITABLE, "h", 1, True, "", Greeting.ANSWERED)
        for k in (1, 2)
    ]
    served = [one for one in bookies() if one.bookie_id == "b1"]
    done = concluded(run, BOTH, bookies=[*served, *records])
    assert found == [line.kind.value for line in done.findings]
    part = concluded(run, BOTH, bookies=[*served, *records], about=replace(ABOUT, partial=True))
    assert ([], len(found)) == (
        part.findings,
        sum("bookie b9 refused" in sentence for sentence in part.summary.as_json()["withheld"]),
    )


def lose_log(run: Place) -> list[BookieRecord]:
    """Let b9's lister leave an entry log out at two looks, and b9 fail to read from it. Return the
    bookies of the run.
    """
    lost = (MissingLog("/d/current/1.log", 5, ((0, 4),)),)
    where = f"{LISTED_BY_LISTER}h:2"
    held = [
        Answer("b9", 2, look, 0, AnswerStatus.HELD, detail=where, missing_logs=lost)
        for look in (1, 2)
    ]
    failed = [EntryRead("b9", 2, 4, look, 0, ReadStatus.FAILED, "EIO: x") for look in (1, 2)]
    run.write_table("evidence/answers", table(ANSWERS, map(answer_row, held)), "listed")
    run.write_table("evidence/reads", table(READS, map(read_row, failed)), "failed")
    up = [
        BookieRecord("b9", k, 0, Registration.WRITABLE, "h", 1, True, "", Greeting.ANSWERED)
        for k in (1, 2)
    ]
    return [*(one for one in bookies() if one.bookie_id == "b1"), *up]


@pytest.mark.parametrize(
    ("age_ms", "logs", "found"),
    [
        (600_000, (), [{"bookie_id": "b9", "ledgers": 1, "some": [[2, 4]]}]),
        (599_999, (), []),
        (600_000, (MissingLog("/d/1.log", 1, ((4, 4),)),), []),
    ],
)
def test_entries_that_only_an_index_lost_are_reported(
    run: Place, age_ms: int, logs: tuple[MissingLog, ...], found: list[dict[str, Any]]
):
    """They are reported once the bookie must have flushed them. Entries in a missing log are in the
    index. There is no finding, because the copy exists.
    """
    said = Answer("b9", 2, 1, age_ms, AnswerStatus.HELD, missing_logs=logs, read_unlisted=(7, 4))
    run.write_table("evidence/answers", table(ANSWERS, [answer_row(said)]), "unlisted")
    done = concluded(run, {1: ("sound", []), 2: ("sound", [])}, bookies=bookies()[::2])
    assert (found, []) == (done.summary.as_json()["listers"]["unindexed"], done.findings)


@pytest.mark.parametrize("is_partial", [False, True])
def test_a_bookie_that_lost_an_entry_log_is_found(run: Place, is_partial: bool):
    """This includes a run over named ledgers: a missing file proves it by itself."""
    done = concluded(run, BOTH, bookies=lose_log(run), about=replace(ABOUT, partial=is_partial))
    (line,) = done.findings
    assert ("ENTRY_LOG_LOST", "b9", "critical") == tuple(
        line.as_json()[k] for k in ("kind", "bookie_id", "severity")
    )
    assert {"ledgers": 0, "bookies": 1, "findings": 1} == done.summary.as_json()["findings"][
        "ENTRY_LOG_LOST"
    ]
    assert [] == [one for one in done.summary.as_json()["withheld"] if "ENTRY_LOG_LOST" in one]


def test_a_bookie_is_accused_of_refusing_only_if_another_bookie_served_a_request(tmp_path: Path):
    """Our credentials may be at fault as long as no other bookie served a request. A search that
    the accused bookie served itself does not count.
    """
    run = place(str(tmp_path / "alone"))
    write(run, "answers", ANSWERS)
    refuse(run, range(10, 14))
    search = EntryRead("b9", 10, 0, 1, 0, ReadStatus.PRESENT, requests=1, is_search=True)
    run.write_table("evidence/reads", table(READS, [read_row(search)]), "search")
    assert {} == refusals_of(run)
    other = answer_row(Answer("b1", 10, 1, 0, AnswerStatus.HELD, requests=1))
    run.write_table("evidence/answers", table(ANSWERS, [other]), "served")
    assert ["b9"] == list(refusals_of(run))


def test_unanswered_requests_of_the_rename_search_count_as_failed(run: Place):
    """A request for a list that timed out counts as failed, and so do its retries."""
    before = concluded(run, BOTH).summary.as_json()["request_totals"]["bookie_requests"]["failed"]
    rows = [(["gone"], "new", 2, None, 0, "timed_out", b"", "", 4, 3, 0)]
    run.write_table("evidence/renames", table(RENAMES, rows), "asked")
    assert (
        before + 4
        == concluded(run, BOTH).summary.as_json()["request_totals"]["bookie_requests"]["failed"]
    )


def test_a_renamed_bookie_is_reported_with_the_finding_and_in_the_summary(run: Place):
    """The evidence has what registered bookies answered about its ledger. These requests count
    too.
    """
    metadata = LedgerMetadata(3, LedgerState.CLOSED, 2, 2, 2, 9, 99, (Segment(0, ("b1", "gone")),))
    run.write_table(
        "evidence/ledgers", table(LEDGERS, [ledger_row(seen(4, metadata=metadata))]), "last"
    )
    held = canonical([SequenceGroup(0, 0, 10, 0)])
    rows = [
        (["gone"], "new", 2, None, 0, "held", held, "", 1, 0, 240),
        (["gone"], "other", 2, None, 0, "no_such_ledger", b"", "", 1, 0, 20),
        ([], "new", None, None, 0, "answered", b"", "", 1, 0, 0),
    ]
    run.write_table("evidence/renames", table(RENAMES, rows), "asked")
    done = concluded(run, BOTH)
    assert [{"bookie_id": "gone", "renamed_to": "new", "ledgers": [2]}] == done.summary.as_json()[
        "bookies_renamed"
    ]
    (facts,) = [line.facts.values for line in done.findings]
    assert "new" == facts["renamed_to"]
    assert 10 + 3 == done.summary.as_json()["requests"]["bookie_requests"], "what was asked counts"


def test_a_finding_that_was_there_before_is_not_new(run: Place):
    """Its id is the same in both runs: the total of its kind does not grow."""
    first = concluded(run, BOTH)
    known = frozenset((one.id, one.kind) for one in first.findings)
    again = concluded(run, BOTH, previous=Previous(first.summary.totals, RequestTotals(), known))
    assert (
        1
        == first.summary.as_json()["totals"]["BOOKIE_LOST_UNNOTICED"]
        == again.summary.as_json()["totals"]["BOOKIE_LOST_UNNOTICED"]
    )


def test_when_no_bookie_answered_none_is_accused(run: Place):
    """If every bookie is silent or refuses at both looks, our network may be at fault. There is no
    finding on bookies, and the outcome is INCOMPLETE.
    """
    refusing = [
        BookieRecord(b, look, 0, Registration.WRITABLE, "h", 1, True, "", greeting)
        for look in (1, 2)
        for b, greeting in (("b1", Greeting.SILENT), ("b2", Greeting.REFUSED))
    ]
    done = concluded(run, BOTH, bookies=refusing)
    assert ([], True, "INCOMPLETE", 3) == (
        done.findings,
        *(done.summary.as_json()[k] for k in ("nobody_answered", "outcome", "exit_code")),
    )


DAY_MS = 24 * 3600 * 1000
MARKED_ABOUT = replace(
    ABOUT,
    terms=replace(ABOUT.terms, judged_at_ms=100 * DAY_MS, underreplication_grace_ms=3 * DAY_MS),
)


def marked(run: Place, about: About = MARKED_ABOUT) -> Conclusion:
    """Return the conclusion of a run with marks. Ledger 1 has a stale mark. Ledgers 7 and 8 are
    marked and have no metadata, and the mark of 8 is young. Ledger 9 is marked and has metadata.
    """
    old, young = Mark(90 * DAY_MS), Mark(99 * DAY_MS)
    seen = [(7, old, False), (8, young, False), (9, old, True)]
    rows = [mark_row(i, FIRST_LOOK, 100 * DAY_MS, mark, has) for i, mark, has in seen]
    write(
        run,
        "marks",
        MARKS,
        *rows,
        mark_row(7, LAST_LOOK, 100 * DAY_MS + 300_000, old, False),
        mark_row(5, LISTED, 0, old, None),
    )
    row = [
        {"ledger_id": 1, "standing": "exempt", "exempt": "marked_underreplicated", "unknowns": [],
        "findings": [],
         "mark_age_ms": DAY_MS, "is_mark_stale": True},
        {"ledger_id": 2, "standing": "sound", "unknowns": [], "findings": []},
    ]  # fmt: skip
    return conclude(
        run, about, bookies(), NO_PREVIOUS,
        verdicts=scan_rows(pa.Table.from_pylist(row, schema=VERDICTS)),
        finished_at="2026-01-01T03:01:00Z", duration_s={},
    )  # fmt: skip


def on_marks(done: Conclusion) -> list[dict[str, Any]]:
    """Return the findings of the mark family."""
    return [one.as_json() for one in done.findings if one.family is Family.MARK]


def test_marks_without_a_ledger_are_one_finding_on_the_cluster(run: Place):
    """It names the old mark that had no metadata at both looks. The other marks are only
    counted.
    """
    done = marked(run)
    (found,) = on_marks(done)
    assert ("MARK_WITHOUT_LEDGER", "mark", "warning", None, None) == tuple(
        found[name] for name in ("kind", "family", "severity", "ledger_id", "bookie_id")
    )
    assert [{"marks": "1 without a ledger"}] * 2 == [look["answers"] for look in found["looks"]]
    assert "Ledger 7 is marked under-replicated, and it has no metadata" in found["witness"]
    assert "/ledgers/underreplication/ledgers/0000/0000/0000/0007/urL0000000007" in found["witness"]
    assert ("VIOLATED", 0) == (
        done.summary.outcome,
        done.summary.as_json()["ledgers"]["violated"],
    )
    expected = {"total": 5, "within_grace": 2, "beyond_grace": 3, "stale": 1, "without_ledger": 2}
    assert expected == done.summary.as_json()["marks"]
    assert 86_400 == done.summary.as_json()["oldest_underreplicated_s"], (
        "marks without a ledger do not measure replication"
    )
    assert {"marks/stale.txt": [1], "marks/without_ledger.txt": [7]} == {
        name: ids.tolist() for name, ids in done.ledger_files.items()
    }
    (sentence,) = done.summary.as_json()["withheld"]
    assert "1 more marks" in sentence


def test_a_run_of_a_part_says_nothing_of_marks_of_others(run: Place):
    """A run over named ledgers listed no others."""
    done = marked(run, replace(MARKED_ABOUT, partial=True))
    assert ([], 1) == (on_marks(done), done.summary.as_json()["marks"]["total"])


def test_the_finding_on_marks_is_the_same_one_in_every_run(run: Place):
    """Its id depends on the kind and the cluster. It differs from that of the finding on the
    population.
    """
    (found,) = on_marks(marked(run))
    dropped = Finding(Kind.LEDGER_POPULATION_DROPPED, found["facts"])
    assert found["id"] == finding_id(Finding(Kind.MARK_WITHOUT_LEDGER, dropped.facts), FACTS)
    assert found["id"] != finding_id(dropped, FACTS)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ([], []),
        ([7], ["1 of the ledgers named does not exist (7): see whether the ids are right"]),
        ([7, 9], ["2 of the ledgers named do not exist (7, 9): see whether the ids are right"]),
    ],
)
def test_ledgers_that_do_not_exist_are_named(missing: list[int], said: list[str]):
    """An operator who mistyped an id sees which."""
    assert said == missing_sentences(missing)
    many = " ".join(missing_sentences(range(2_000)))
    assert "2,000 of the ledgers named do not exist (such as 0, 1, 2," in many and "10" not in many
