"""Which verdicts of an earlier run are carried over, row by row, and what ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.report_stories import unchecked

from auditor.after.history import UNCHECKED
from auditor.evidence.ids import Ids
from auditor.evidence.journal import PROBLEMS, StageResult
from auditor.evidence.rows import answer_row, bookie_row, ledger_row, named_row, table
from auditor.evidence.run_directory import Place, make_directory, place, write_json
from auditor.evidence.schemas import (
    ANSWERS,
    BOOKIES,
    CARRIED,
    CARRIED_TABLE,
    DUE,
    DUE_TABLE,
    LEDGERS,
    LISTING,
    READS,
    VERDICTS,
)
from auditor.evidence.shard_files import ShardFiles, ledgers_read
from auditor.evidence.table_scan import scan_rows
from auditor.first_checker.circle import NO_ARC, WHOLE, Arc, arc_from
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    Answer,
    AnswerStatus,
    Greeting,
    ReadStatus,
)
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.run import carried_reads, choosing
from auditor.run.carried_reads import arcs_of, copies_read_before
from auditor.run.carrying import Carrying, arcs_in
from auditor.run.choosing import CHOSEN_AT_ONCE
from auditor.sandbox.cluster import ledger
from auditor.stages.asking import COUNTED_READS
from auditor.stages.selection import DUE_LISTING
from auditor.summary.about import About, RunBase
from auditor.summary.carried import (
    carried_by_bookie,
    carried_from,
    carried_of,
    read_carried_ids,
    unheard_of_carried,
)
from auditor.summary.due_copies import Due
from auditor.summary.due_ledgers import hash_ids, newly_doubted, why_not_comparable
from auditor.summary.reading_plan import BookieReads, ReadingPlan
from auditor.zookeeper.ledgers import Marks

HOUR_MS = 3_600_000
PERIOD_MS = 10_000 * HOUR_MS  # so long that no ledger has its turn in an hour
FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "id", False, None)
ABOUT = About(
    *("now", "2026-01-01T03:00:00Z", FACTS, Terms(0, 0, 16, 5), "warning", False),
    reading=ReadingPlan(began_at_ms=1_000 * HOUR_MS),
    within_ms=PERIOD_MS,
    base=RunBase("before", 999 * HOUR_MS),
)
KNOWN_COOKIES = replace(ABOUT, cookie_czxids={"b1": 7, "b2": 7, "b3": 7})
IDS = range(1, 13)
SOUND = {
    "standing": "sound",
    "todo": "nothing",
    "assurance": "listed",
    "looks": 1,
    "listing_false_negatives": 0,
    "unknowns": [],
    "findings": [],
    "lacks": [],
    "only_maintenance": False,
    "is_mark_stale": False,
}
BOOKIE = BookieRecord(
    "b1", 1, 0, Registration.WRITABLE, "h", 3181, True, greeting=Greeting.ANSWERED, cookie_czxid=7
)


def bookies(*names: str) -> list[BookieRecord]:
    return [replace(BOOKIE, bookie_id=name) for name in names]


@dataclass
class Store:
    """What ZooKeeper has now."""

    registered: list[BookieRecord] = field(default_factory=lambda: bookies("b1", "b2", "b3"))
    changed: frozenset[int] = frozenset()
    listed_marks: Marks = field(default_factory=Marks)
    read: list[int] = field(default_factory=list)

    def bookies(self, look: int, now_ms: Callable[[], int]) -> list[BookieRecord]:
        return self.registered

    def marks(self) -> Marks:
        return self.listed_marks

    def sync(self) -> None:
        """Do nothing."""

    def changed_ids(self, ids: Ids, czxids: Ids, versions: Ids) -> Ids:
        assert (ids + 100).tolist() == czxids.tolist()
        assert {3} == set(versions.tolist())
        self.read += ids.tolist()
        return ids[np.isin(ids, list(self.changed))]


@dataclass
class Case:
    """A base, and a run that lists the same ledgers. Even ledgers are on b1 and b2, odd ones on b2
    and b3.
    """

    run: Place
    base: Place
    store: Store = field(default_factory=Store)
    verdicts: dict[int, dict[str, Any]] = field(default_factory=lambda: dict.fromkeys(IDS, SOUND))
    records: dict[int, LedgerRecord] = field(default_factory=dict)
    carried_before: dict[int, int] = field(default_factory=dict)
    about: About = ABOUT
    base_about: About = KNOWN_COOKIES
    scrubbed: tuple[int, ...] = ()
    wanted: list[dict[str, Any]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    """How many reads were given at once."""
    said_of: dict[int, ReadStatus] = field(default_factory=dict)
    length_of: dict[tuple[int, int], int] = field(default_factory=dict)
    before: list[BookieRecord] = field(default_factory=lambda: bookies("b1", "b2", "b3"))

    def __post_init__(self) -> None:
        for i in IDS:
            metadata = ledger(f"e2 w2 a2 0:[{'b2 b3' if i % 2 else 'b1 b2'}] closed 9")
            stamp = ZnodeStamp(100 + i, 3, 0, 0)
            self.records[i] = LedgerRecord(i, 1, 0, RecordStatus.FOUND, stamp, metadata)

    def choose(self) -> tuple[set[int], StageResult]:
        """Return the ledgers that are carried over, and the result of the stage."""
        rows = [named_row(VERDICTS, ledger_id=i, **row) for i, row in self.verdicts.items()]
        self.base.write_table("verdicts", table(VERDICTS, rows), "all")
        records = table(LEDGERS, map(ledger_row, self.records.values()))
        self.base.write_table("evidence/ledgers", records, "all")
        write_json(self.base, "run.json", self.base_about.as_json())
        known = table(BOOKIES, map(bookie_row, self.before))
        self.base.write_table("evidence/bookies", known, "all")
        if self.carried_before:
            before = [(i, "older", at_ms) for i, at_ms in self.carried_before.items()]
            self.base.write_table(CARRIED_TABLE, table(CARRIED, before), "carried")
        listing = table(LISTING, [(i,) for i in IDS])
        self.run.write_table("evidence/listing", listing, "all")
        self.run.write_table("evidence/reads", COUNTED_READS.empty_table(), "none")
        said = self.carrying().choose(self.scrubbed)
        carried = read_carried_ids(self.run).tolist()
        due = self.run.read_table(DUE_LISTING, LISTING)["ledger_id"].to_pylist()
        assert sorted([*carried, *due]) == [*IDS]
        assert len(due) == sum(self.due().values())
        return set(carried), said

    def due(self) -> dict[str, int]:
        rows = self.run.read_table(DUE_TABLE, DUE).to_pylist()
        return {row["why"]: row["ledgers"] for row in rows if row["ledgers"]}

    def carrying(self) -> Carrying:
        store: Any = self.store
        return Carrying(self.run, self.base, self.about, store, lambda: None, self.read)

    def read(self, wanted: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer each read as `refused_reads` says, by ledger."""
        for batch in wanted:
            self.wanted += batch.to_pylist()
            self.batches.append(batch.num_rows)
            yield table(
                COUNTED_READS,
                [
                    named_row(
                        COUNTED_READS,
                        **{name: row[name] for name in ("bookie_id", "ledger_id", "entry_id")},
                        look=1,
                        status=self.said_of.get(row["ledger_id"], ReadStatus.PRESENT).value,
                        is_spot=True,
                        length_bytes=self.length_of.get((row["ledger_id"], row["entry_id"])),
                    )
                    for row in batch.to_pylist()
                ],
            )


@pytest.fixture(params=[CHOSEN_AT_ONCE, 5], ids=["at-once", "by-ranges"])
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Return a case whose ledgers are chosen together, or in three ranges."""
    monkeypatch.setattr(choosing, "CHOSEN_AT_ONCE", request.param)
    return Case(place(str(tmp_path / "run")), place(str(tmp_path / "base")))


EVERY_COPY = {
    (bookie, i, entry)
    for i in IDS
    for bookie in (("b2", "b3") if i % 2 else ("b1", "b2"))
    for entry in range(10)
}
"""The copies of all ledgers."""
OVERDUE = BookieReads(since_ms=1)
"""What earlier runs read of a bookie that is due to be read as a whole."""
READING = replace(
    ABOUT,
    terms=replace(ABOUT.terms, spot_reads=16),
    reading=ReadingPlan(
        began_at_ms=1_000 * HOUR_MS,
        period_ms=HOUR_MS,
        bytes_per_second=10**9,
        before=dict.fromkeys(("b1", "b2", "b3"), OVERDUE),
    ),
)


def wanted_of(case: Case) -> set[tuple[str, int, int]]:
    found = [(row["bookie_id"], row["ledger_id"], row["entry_id"]) for row in case.wanted]
    assert len(found) == len(set(found))
    return set(found)


def test_the_copies_of_carried_ledgers_are_read_whose_place_is_in_the_arc(case: Case) -> None:
    """As a whole run reads them: here all, and of a ledger that is due none."""
    case.about = READING
    case.store.changed = frozenset({5})
    carried, said = case.choose()
    assert {*IDS} - {5} == carried
    assert {one for one in EVERY_COPY if one[1] != 5} == wanted_of(case)
    assert {"b1": WHOLE, "b2": WHOLE, "b3": WHOLE} == arcs_in(said)
    rows = case.run.read_table("evidence/reads", READS).to_pylist()
    assert wanted_of(case) == {
        (row["bookie_id"], row["ledger_id"], row["entry_id"]) for row in rows
    }
    assert frozenset() == copies_read_before(case.run)


def test_a_bounded_number_of_copies_is_read_at_once(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a ledger together, of which there are 20 here. All are read."""
    monkeypatch.setattr(carried_reads, "QUESTIONS_AT_ONCE", 50)
    monkeypatch.setattr(carried_reads, "RECORDS_AT_ONCE", 5)
    case.about = READING
    case.choose()
    assert EVERY_COPY == wanted_of(case)
    assert [60, 60, 60, 60] == case.batches


def test_the_share_that_is_read_is_that_of_the_lists_that_are_asked_for(case: Case) -> None:
    """Of 2,000,000 segments a bookie, a run that asks about none has the time for 10 seconds."""
    due = {"b1": Due(10_000.0, 0.0, 0.0, 2_000_000.0)}
    plan = replace(READING.reading, bytes_per_second=4_096, requests_per_second=2_000.0)
    arcs = [arcs_of(plan, due, share, 1)["b1"].length for share in (1.0, 0.5, 0.02, 0.0)]
    allowed = [plan.length_allowed(Due(10_000.0, 0.0, 0.0, s)) for s in (2e6, 1e6, 4e4, 0)]
    assert arcs == [arc_from(0, length).length for length in allowed]
    assert arcs[0] > arcs[1] > arcs[2] > arcs[3]


def test_the_share_is_counted_over_all_ledgers_that_are_listed(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever range of ids they are in. So is what each bookie should hold."""
    asked: list[tuple[dict[str, Due], float]] = []

    def record(
        plan: ReadingPlan, due: dict[str, Due], asked_share: float, spot_reads: int
    ) -> dict[str, Arc]:
        asked.append((due, asked_share))
        return {}

    monkeypatch.setattr(choosing, "arcs_of", record)
    case.about = READING
    case.store.changed = frozenset({2, 5, 12})
    case.choose()
    ((due, share),) = asked
    assert {"b1": 6.0, "b2": 12.0, "b3": 6.0} == {name: one.segments for name, one in due.items()}
    assert pytest.approx(3 / 12) == share


@pytest.mark.parametrize(
    ("said", "is_due"),
    [
        (ReadStatus.PRESENT, False),
        (ReadStatus.NO_ENTRY, True),
        (ReadStatus.NO_LEDGER, True),
        (ReadStatus.CORRUPT, True),
        (ReadStatus.FAILED, True),
        (ReadStatus.INVALID, True),
        (ReadStatus.TOO_LARGE, True),
        (ReadStatus.TIMED_OUT, False),
        (ReadStatus.SILENT, False),
        (ReadStatus.REFUSED, False),
    ],
)
def test_a_read_that_does_not_bring_the_entry_makes_its_ledger_due(
    case: Case, said: ReadStatus, is_due: bool
) -> None:
    """It is read once. A bookie that says nothing of the entry says nothing against the ledger."""
    case.about = READING
    case.said_of = {4: said}
    carried, _ = case.choose()
    assert ({*IDS} - ({4} if is_due else set()), {"read": 1} if is_due else {}) == (
        carried,
        case.due(),
    )
    read = {(i, bookie, entry) for bookie, i, entry in wanted_of(case) if i == 4}
    assert (read if is_due else set()) == copies_read_before(case.run)


@pytest.mark.parametrize(
    ("entry", "more", "is_due"), [(9, 0, False), (9, 1, True), (9, -1, True), (8, 1, False)]
)
def test_a_last_entry_that_contradicts_the_length_makes_its_ledger_due(
    case: Case, entry: int, more: int, is_due: bool
) -> None:
    """The header of the last entry has the length of the ledger."""
    case.about = READING
    metadata = case.records[4].metadata
    assert metadata is not None
    case.length_of = {(4, entry): metadata.length + more}
    assert ({*IDS} - ({4} if is_due else set())) == case.choose()[0]


@pytest.mark.parametrize("spot_reads", ["0", "16"])
def test_nothing_is_read_on_a_bookie_whose_lister_listed_or_without_spot_reads(
    case: Case, spot_reads: str
) -> None:
    """A read makes such a bookie cache what its index may have lost."""
    case.about = replace(READING, terms=replace(READING.terms, spot_reads=int(spot_reads)))
    case.before = [
        replace(one, greeting_detail=f"{LISTED_BY_LISTER}h:1") if one.bookie_id == "b2" else one
        for one in case.before
    ]
    _, said = case.choose()
    if spot_reads == "0":
        assert (set(), {}) == (wanted_of(case), arcs_in(said))
    else:
        assert {one for one in EVERY_COPY if one[0] != "b2"} == wanted_of(case)
        assert NO_ARC == arcs_in(said)["b2"]


def test_nothing_is_read_where_nothing_is_carried(case: Case) -> None:
    case.about = READING
    case.store.listed_marks = Marks(problem="not authorised")
    _, said = case.choose()
    assert (set(), {}) == (wanted_of(case), arcs_in(said))


def test_what_nothing_speaks_against_is_carried_over(case: Case) -> None:
    """Its znode alone is read, and its rows are those of the base."""
    carried, _ = case.choose()
    assert (set(IDS), [*IDS], {}) == (carried, case.store.read, case.due())
    case.carrying().write_ledgers()
    assert {"evidence/ledgers/carried-0000.parquet"} == case.run.files_in("evidence/ledgers")
    assert 0 == ledgers_read(ShardFiles(case.run)).count()
    assert {"b1": 6, "b2": 12, "b3": 6} == carried_by_bookie(case.run)
    rows = case.run.read_table("evidence/ledgers", LEDGERS)
    assert rows.equals(case.base.read_table("evidence/ledgers", LEDGERS))


def test_rows_are_carried_over_in_files_of_bounded_size(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads a range of ids opens few of them, and holds few rows."""
    monkeypatch.setattr("auditor.evidence.table_scan.BATCH_ROWS", 2)
    monkeypatch.setattr("auditor.run.carrying.ROWS_A_FILE", 5)
    assert {("sound", ())} == {
        (one, tuple(why)) for one, why in verdicts_after(case, ANSWERED).values()
    }
    for name, schema in (("evidence/ledgers", LEDGERS), ("verdicts", VERDICTS)):
        files = sorted(case.run.files_in(name))
        assert [f"{name}/carried-{number:04}.parquet" for number in range(2)] == files
        assert [6, 6] == [case.run.count(file, schema) for file in files]
        assert case.run.read_table(name, schema).equals(case.base.read_table(name, schema))


@pytest.mark.parametrize(
    "other",
    [
        {"standing": "violated"},
        {"standing": "exempt", "exempt": "empty"},
        {"todo": "look"},
        {"assurance": "probed"},
        {"looks": 2},
        {"listing_false_negatives": 1},
        {"findings": ["{}"]},
        {"lacks": [{"bookie_id": "b1", "expected": 1, "absent": 1}]},
    ],
)
def test_a_verdict_that_is_not_plainly_sound_is_not_carried_over(
    case: Case, other: dict[str, Any]
) -> None:
    case.verdicts[5] = SOUND | other
    assert ({*IDS} - {5}, {"not_sound": 1}) == (case.choose()[0], case.due())


def test_a_ledger_that_was_not_read_closed_and_unmarked_is_not_carried_over(case: Case) -> None:
    case.records[3] = replace(case.records[3], mark=Mark(0, 0, ()))
    still_open = ledger("e2 w2 a2 0:[b1 b2] open")
    case.records[4] = replace(case.records[4], metadata=still_open)
    case.records[5] = replace(case.records[5], look=2)
    case.records[6] = replace(case.records[6], stamp=None)
    del case.records[7]
    assert ({*IDS} - {3, 4, 5, 6, 7}, {"not_sound": 5}) == (case.choose()[0], case.due())


def test_a_ledger_without_a_verdict_is_new(case: Case) -> None:
    del case.verdicts[2]
    assert ({*IDS} - {2}, {"new": 1}) == (case.choose()[0], case.due())


def test_a_marked_and_a_changed_ledger_are_due(case: Case) -> None:
    case.store.listed_marks = Marks(dict.fromkeys((2, 12), Mark(0, 0, ())))
    case.store.changed = frozenset({3, 11})
    assert ({*IDS} - {2, 3, 11, 12}, {"marked": 2, "changed": 2}) == (case.choose()[0], case.due())
    assert {2, 12}.isdisjoint(case.store.read)


def test_nothing_is_carried_over_if_not_all_marks_are_known(case: Case) -> None:
    """Also ledgers without a verdict count as such."""
    case.store.listed_marks = Marks(problem="not authorised")
    del case.verdicts[2]
    carried, said = case.choose()
    assert (set(), {"unreadable": 12}) == (carried, case.due())
    assert "not authorised" in said[PROBLEMS][0]


def test_a_bookie_that_is_gone_makes_its_ledgers_due(case: Case) -> None:
    case.store.registered = bookies("b2", "b3")
    assert ({1, 3, 5, 7, 9, 11}, {"bookie": 6}) == (case.choose()[0], case.due())


def test_a_bookie_that_was_wiped_while_the_base_ran_makes_its_ledgers_due(case: Case) -> None:
    """Each look of the base saw the new cookie, and the lists may be older."""
    case.base_about = replace(ABOUT, cookie_czxids={"b1": 6, "b2": 7, "b3": 7})
    assert ({1, 3, 5, 7, 9, 11}, {"bookie": 6}) == (case.choose()[0], case.due())


def test_a_ledger_of_which_a_scrub_names_entries_is_due(case: Case) -> None:
    """A ledger that is due for a reason before that counts for it, others are not listed."""
    case.scrubbed = (2, 3, 12, 999)
    case.store.listed_marks = Marks({2: Mark(0, 0, ())})
    assert ({*IDS} - {2, 3, 12}, {"marked": 1, "scrub": 2}) == (case.choose()[0], case.due())


def test_the_time_of_the_lists_is_that_of_the_run_that_asked(case: Case) -> None:
    """Carried twice, a ledger is as old as its lists."""
    case.carried_before = dict.fromkeys((1, 12), 990 * HOUR_MS)
    case.choose()
    older, newer = carried_from(case.run, 1), carried_from(case.run, 3)
    assert older is not None and newer is not None
    assert older == carried_from(case.run, 12)
    assert ("older", "before") == (older.run_id, newer.run_id)
    said = carried_of(case.run, case.about, scan_rows(VERDICTS.empty_table()))
    assert said is not None
    assert (12, older.listed_at) == (said.ledgers, said.oldest_listed_at)
    assert [("older", 2), ("before", 10)] == [(one.run_id, one.ledgers) for one in said.runs]


def test_lists_that_would_be_too_old_at_the_next_run_are_due(case: Case) -> None:
    limit_ms = ABOUT.reading.began_at_ms - PERIOD_MS + HOUR_MS
    case.carried_before = {1: limit_ms, 2: limit_ms - 1, 3: limit_ms + 1}
    case.choose()
    assert {2} <= {*IDS} - set(read_carried_ids(case.run).tolist())
    assert 1 == case.due()["age"]


def test_a_ledger_has_its_turn_by_its_place(case: Case) -> None:
    """In a period of four hours, an hour is two sevenths of the circle."""
    case.about = replace(ABOUT, within_ms=4 * HOUR_MS)
    turn_ms = 7 * HOUR_MS // 2
    places = hash_ids(np.array(IDS, np.int64)) % np.uint64(turn_ms)
    passed = {
        i
        for i, at in zip(IDS, places.tolist(), strict=True)
        if (1_000 * HOUR_MS - at) // turn_ms > (999 * HOUR_MS - at) // turn_ms
    }
    assert 0 < len(passed) < len(IDS)
    assert {*IDS} - passed == case.choose()[0]
    assert {"turn": len(passed)} == case.due()


ANSWERED = {"b1": Greeting.ANSWERED, "b2": Greeting.ANSWERED, "b3": Greeting.ANSWERED}


@pytest.mark.parametrize(
    ("greeting", "why"),
    [
        (Greeting.SILENT, "bookie_silent"),
        (Greeting.REFUSED, "bookie_refused"),
        (Greeting.UNSUPPORTED, "bookie_unsupported"),
        (Greeting.UNREGISTERED, "bookie_silent"),
        (None, "bookie_silent"),
    ],
)
def test_a_bookie_without_an_answer_ends_the_verdicts_on_its_ledgers(
    case: Case, greeting: Greeting | None, why: str
) -> None:
    assert verdicts_after(case, {**ANSWERED, "b3": greeting}) == {
        i: ("indeterminate", [why]) if i % 2 else ("sound", []) for i in IDS
    }


def test_a_bookie_that_no_look_saw_ends_them_too(case: Case) -> None:
    """It is named as the bookie behind them."""
    said = {"b2": Greeting.ANSWERED, "b3": Greeting.ANSWERED}
    unknown = {i for i, one in verdicts_after(case, said).items() if one[0] != "sound"}
    assert {2, 4, 6, 8, 10, 12} == unknown
    seen = [replace(one, greeting=Greeting.ANSWERED) for one in bookies("b2", "b3")]
    found = unheard_of_carried(case.run, seen, np.array(sorted(unknown), np.int64))
    assert {"b1": sorted(unknown)} == {bookie: ids.tolist() for bookie, ids in found.items()}


def test_a_lister_that_its_bookie_contradicted_ends_them(case: Case) -> None:
    contradicted = Answer("b1", 0, 1, 0, AnswerStatus.HELD, detail=LISTER_CONTRADICTED)
    row = dict(zip(ANSWERS.names, answer_row(contradicted), strict=True))
    greeting = named_row(ANSWERS, **(row | {"ledger_id": None, "status": "answered"}))
    found = verdicts_after(case, ANSWERED, [greeting])
    assert {i: ("sound", []) if i % 2 else ("indeterminate", ["answer_invalid"]) for i in IDS} == (
        found
    )


def test_ledgers_wait_for_maintenance_alone_where_all_silent_bookies_are_in_it(case: Case) -> None:
    """Even ledgers are on b1 and b2, odd ones on b2 and b3."""
    around = replace(ABOUT.terms.around, maintenance=frozenset({"b3", "b9"}))
    case.about = replace(ABOUT, terms=replace(ABOUT.terms, around=around))
    verdicts_after(case, {**ANSWERED, "b3": Greeting.SILENT})
    assert {1, 3, 5, 7, 9, 11} == waiting(case)


@pytest.mark.parametrize(
    "said",
    [
        {"b2": Greeting.SILENT, "b3": Greeting.SILENT},
        {"b3": Greeting.REFUSED},
        {"b3": Greeting.UNSUPPORTED},
    ],
)
def test_they_do_not_wait_for_maintenance_alone_if_more_is_wrong(
    case: Case, said: dict[str, Greeting | None]
) -> None:
    around = replace(ABOUT.terms.around, maintenance=frozenset({"b3"}))
    case.about = replace(ABOUT, terms=replace(ABOUT.terms, around=around))
    assert "indeterminate" in {
        one[0] for one in verdicts_after(case, {**ANSWERED, **said}).values()
    }
    assert set() == waiting(case)


def waiting(case: Case) -> set[int]:
    """Return the ledgers that only planned maintenance kept from being judged."""
    rows = case.run.read_table("verdicts", VERDICTS).to_pylist()
    return {row["ledger_id"] for row in rows if row["only_maintenance"]}


def test_a_wrong_comparison_ends_them_all(case: Case) -> None:
    """A stored list that was said to be as expected is not."""
    wrong = Answer("b1", 2, 1, 0, AnswerStatus.HELD, groups=b"")
    row = (*answer_row(wrong)[:-1], True)
    found = verdicts_after(case, ANSWERED, [row])
    assert {("indeterminate", ("checkers_disagree",))} == {
        (standing, tuple(why)) for standing, why in found.values()
    }


def verdicts_after(
    case: Case, said: dict[str, Greeting | None], answers: Iterable[Any] = ()
) -> dict[int, tuple[str, list[str]]]:
    """Return the standings and reasons of the carried ledgers, after the bookies greeted so."""
    _, chosen = case.choose()
    case.run.write_table("evidence/answers", table(ANSWERS, answers), "all")
    case.carrying().write_ledgers()
    seen = [replace(one, greeting=said[one.bookie_id]) for one in bookies(*said)]
    case.carrying().write_verdicts(chosen, seen)
    rows = case.run.read_table("verdicts", VERDICTS).to_pylist()
    assert [*IDS] == sorted(row["ledger_id"] for row in rows)
    withheld = sum(row["standing"] != "sound" for row in rows)
    counted = carried_of(case.run, ABOUT, case.run.scan("verdicts", VERDICTS))
    assert counted is not None
    assert (12, withheld) == (counted.ledgers, counted.withheld)
    return {row["ledger_id"]: (row["standing"], row["unknowns"]) for row in rows}


def test_a_base_must_have_what_decides_verdicts() -> None:
    assert "" == why_not_comparable(ABOUT, ABOUT)
    drawn = replace(ABOUT, terms=replace(ABOUT.terms, judged_at_ms=9, probe_seed=4))
    assert "" == why_not_comparable(drawn, ABOUT)
    assert "named ledgers" in why_not_comparable(replace(ABOUT, partial=True), ABOUT)
    assert "version 0.0.9" in why_not_comparable(replace(ABOUT, auditor_version="0.0.9"), ABOUT)
    other = replace(ABOUT, terms=replace(ABOUT.terms, probe_entries=9))
    assert "(probe_entries)" in why_not_comparable(other, ABOUT)


@dataclass
class Found:
    change: str | None
    bookie_id: str | None = None
    missing_on: dict[str, Any] = field(default_factory=dict)
    kind: Kind = Kind.BOOKIE_LOST_CONTENT


def test_only_what_is_new_puts_a_bookie_in_doubt() -> None:
    found: list[Any] = [
        Found("new", missing_on={"b1": ()}),
        Found("still", missing_on={"b2": ()}),
        Found("better", "b3"),
        Found("worse", "b4"),
        Found(None, "b5"),
    ]
    assert {"b1", "b4", "b5"} == newly_doubted(found)


def test_a_bookie_in_doubt_makes_the_ledgers_due_that_the_base_carried(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that the base asked about itself are not due: their lists are from after the doubt."""
    monkeypatch.setattr("auditor.run.choosing.read_findings", lambda _: [Found("new", "b1")])
    case.carried_before = dict.fromkeys((1, 2, 4), 998 * HOUR_MS)
    assert ({*IDS} - {2, 4}, {"bookie": 2}) == (case.choose()[0], case.due())


def test_a_bookie_that_could_not_send_what_it_lists_makes_its_ledgers_due(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if that is known for long: its lists prove nothing."""
    found = [Found("still", "b1", kind=Kind.BOOKIE_UNREADABLE_ENTRIES), Found("still", "b3")]
    monkeypatch.setattr("auditor.run.choosing.read_findings", lambda _: found)
    assert ({1, 3, 5, 7, 9, 11}, {"bookie": 6}) == (case.choose()[0], case.due())


def test_what_the_base_could_not_check_again_counts_too(case: Case) -> None:
    make_directory(case.base)
    case.base.write_text(UNCHECKED, unchecked(Kind.BOOKIE_UNREADABLE_ENTRIES, "b1"))
    assert ({1, 3, 5, 7, 9, 11}, {"bookie": 6}) == (case.choose()[0], case.due())


def test_a_damaged_file_of_what_was_not_checked_again_makes_every_ledger_due(case: Case) -> None:
    make_directory(case.base)
    case.base.write_text(UNCHECKED, "{}\n")
    carried, said = case.choose()
    assert (set(), {"unreadable": 12}) == (carried, case.due())
    assert UNCHECKED in said[PROBLEMS][0]


def test_a_base_that_cannot_be_read_makes_every_ledger_due(case: Case) -> None:
    case.run.write_table("evidence/listing", table(LISTING, [(i,) for i in IDS]), "all")
    said = case.carrying().choose()
    assert (0, {"unreadable": 12}) == (len(read_carried_ids(case.run)), case.due())
    assert "no verdict is carried over" in said[PROBLEMS][0]


def test_without_a_base_every_ledger_is_due(case: Case) -> None:
    case.run.write_table("evidence/listing", table(LISTING, [(i,) for i in IDS]), "all")
    replace(case.carrying(), base=None).choose()
    assert (0, {"new": 12}) == (len(read_carried_ids(case.run)), case.due())
