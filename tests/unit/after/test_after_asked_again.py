"""What a run asked again: if it read corrupt copies, and how far it knows a bookie's content."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from support.report_stories import finding

from auditor.after.compared_finding import ComparedFinding
from auditor.after.rechecks import ledgers_put_back, ledgers_reread, why_content_unknown
from auditor.evidence.rows import answer_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS, VERDICTS
from auditor.evidence.table_scan import TableScan, scan_rows
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.finding import RANGES_MAX, Kind
from auditor.model.finding_record import RecordedFacts
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.sandbox import cluster

HELD, TIMED_OUT = AnswerStatus.HELD, AnswerStatus.TIMED_OUT
Said = Iterable[tuple[str, int, AnswerStatus]]


def run_of(
    tmp_path: Path, said: Said = (), reads: Iterable[tuple[str, int, int, ReadStatus]] = ()
) -> Place:
    """Return a run with these answers (bookie, ledger, status) and reads (with the entry). Each
    answer of a bookie on a ledger is of a later look than the one before it.
    """
    run, looks = place(str(tmp_path)), dict[tuple[str, int], int]()
    rows = []
    for bookie, ledger, status in said:
        look = looks[bookie, ledger] = looks.get((bookie, ledger), 0) + 1
        rows.append(answer_row(Answer(bookie, ledger, look, 0, status)))
    run.write_table("evidence/answers", table(ANSWERS, rows), "all")
    read = [read_row(EntryRead(b, ledger, e, 1, 0, status)) for b, ledger, e, status in reads]
    run.write_table("evidence/reads", table(READS, read), "all")
    return run


def corrupt(*copies: tuple[str, list[int]]) -> list[ComparedFinding]:
    """Return the finding on ledger 7, with these corrupt copies."""
    facts = {"copies": [list(one) for one in copies]}
    return [ComparedFinding.of(finding(Kind.ENTRY_CORRUPT, 7, facts=facts))]


@pytest.mark.parametrize(
    ("reads", "is_reread"),
    [
        ([("b1", 7, 4, ReadStatus.PRESENT), ("b1", 7, 5, ReadStatus.PRESENT)], True),
        ([("b1", 7, 4, ReadStatus.PRESENT), ("b1", 7, 5, ReadStatus.NO_ENTRY)], True),
        ([("b1", 7, 4, ReadStatus.PRESENT)], False),
        ([("b1", 7, 4, ReadStatus.PRESENT), ("b1", 7, 5, ReadStatus.TIMED_OUT)], False),
        ([("b1", 7, 4, ReadStatus.PRESENT), ("b1", 7, 5, ReadStatus.CORRUPT)], False),
        ([("b1", 7, 4, ReadStatus.PRESENT), ("b2", 7, 5, ReadStatus.PRESENT)], False),
        ([("b1", 7, 4, ReadStatus.PRESENT), ("b1", 8, 5, ReadStatus.PRESENT)], False),
        ([], False),
    ],
)
def test_a_ledger_is_reread_if_each_corrupt_copy_was_read_and_is_not_corrupt(
    tmp_path: Path, reads: list[tuple[str, int, int, ReadStatus]], is_reread: bool
):
    """A copy that the bookie does not have any more is not corrupt. A read without an answer shows
    nothing, and neither does another copy.
    """
    run = run_of(tmp_path, [("b1", 7, HELD), ("b2", 7, HELD)], reads)
    assert is_reread is (7 in ledgers_reread(run, corrupt(("b1", [4, 5]))))


def test_a_copy_that_was_corrupt_at_one_look_is_not_reread(tmp_path: Path):
    """The bytes were wrong once more."""
    reads = [("b1", 7, 4, ReadStatus.PRESENT), ("b1", 7, 4, ReadStatus.CORRUPT)]
    run = run_of(tmp_path, [("b1", 7, HELD)], reads)
    assert frozenset() == ledgers_reread(run, corrupt(("b1", [4])))


def test_a_corrupt_copy_is_gone_if_its_bookie_is_not_asked_any_more(tmp_path: Path):
    """The ledger names other bookies now. A ledger for which no bookie was asked shows nothing."""
    run = run_of(tmp_path, [("b2", 7, HELD)])
    assert {7} == ledgers_reread(run, corrupt(("b1", [4])))
    assert frozenset() == ledgers_reread(run, corrupt(("b1", [4]), ("b2", [4])))
    empty = run_of(tmp_path / "empty")
    assert frozenset() == ledgers_reread(empty, corrupt(("b1", [4])))


def test_a_finding_that_may_not_name_all_copies_is_not_reread(tmp_path: Path):
    """A finding names RANGES_MAX entries of a bookie. One that an earlier version handed on names
    none.
    """
    some = list(range(RANGES_MAX))
    run = run_of(
        tmp_path, [("b1", 7, HELD)], [("b1", 7, entry, ReadStatus.PRESENT) for entry in some]
    )
    assert {7} == ledgers_reread(run, corrupt(("b1", some[1:])))
    assert frozenset() == ledgers_reread(run, corrupt(("b1", some)))
    for facts in (None, RecordedFacts(), RecordedFacts({"copies": []})):
        assert frozenset() == ledgers_reread(run, [replace(corrupt()[0], facts=facts)])


def verdicts_of(*lacking: int) -> TableScan:
    """Return verdicts by which b1 lacks 6 of 10 entries of these ledgers, and b2 5 of 10."""
    lacks = [
        {"bookie_id": bookie, "expected": 10, "absent": absent}
        for bookie, absent in (("b1", 6), ("b2", 5))
    ]
    rows = [
        {"ledger_id": ledger, "standing": "exempt", "lacks": lacks if ledger in lacking else []}
        for ledger in range(20)
    ]
    return scan_rows(pa.Table.from_pylist(rows, schema=VERDICTS))


def why_unknown(
    run: Place, *lacking: int, greeting: Greeting = Greeting.ANSWERED, bookie: str = "b1"
) -> dict[str, str]:
    record = BookieRecord(bookie, 2, 0, Registration.WRITABLE, greeting=greeting)
    return why_content_unknown(run, verdicts_of(*lacking), [record], {bookie})


def said_by_b1(heard: int, named: int) -> list[tuple[str, int, AnswerStatus]]:
    return [("b1", n, HELD if n < heard else TIMED_OUT) for n in range(named)]


@pytest.mark.parametrize(
    ("heard", "named", "why"),
    [
        (0, 10, "it answered for 0 of 10 ledgers"),
        (4, 10, "it answered for 4 of 10 ledgers"),
        (5, 10, None),
        (10, 10, None),
        (0, 2, None),
        (0, 3, "it answered for 0 of 3 ledgers"),
    ],
)
def test_content_is_unknown_if_what_was_not_answered_for_may_be_lost(
    tmp_path: Path, heard: int, named: int, why: str | None
):
    """The finding needs most of a bookie's ledgers, and three at least. Fewer unknown ledgers do
    not leave it open.
    """
    assert ({} if why is None else {"b1": why}) == why_unknown(
        run_of(tmp_path, said_by_b1(heard, named))
    )


def test_ledgers_that_a_bookie_lacks_add_to_those_that_it_did_not_answer_for(tmp_path: Path):
    """Together they may be most of its ledgers. Half of a ledger's entries is not most of them."""
    run = run_of(tmp_path, said_by_b1(7, 10))
    assert {} == why_unknown(run, 0)
    assert {"b1": "it answered for 7 of 10 ledgers"} == why_unknown(run, 0, 1, 2)
    assert {} == why_unknown(run, 15, 16, 17), "ledgers that it should not hold"
    other = run_of(tmp_path / "b2", [("b2", n, HELD) for n in range(4)])
    assert {} == why_unknown(other, 0, 1, 2, 3, bookie="b2")


def test_a_bookie_that_lacks_most_of_excused_ledgers_still_does(tmp_path: Path):
    """Its ledgers were marked under-replicated after the loss: the finding is gone, and the loss is
    not.
    """
    run = run_of(tmp_path, said_by_b1(10, 10))
    assert {
        "b1": "it lacks most of 6 of 10 ledgers, and those that are marked, exempt or not judged do"
        " not count"
    } == why_unknown(run, *range(6))
    assert {} == why_unknown(run, *range(5))


def test_the_last_answer_counts(tmp_path: Path):
    """A time-out after a valid answer leaves the ledger unknown, as for the finding itself."""
    lists = [("b1", n, HELD) for n in range(4)]
    late = [("b1", n, TIMED_OUT) for n in range(4)]
    assert {"b1": "it answered for 0 of 4 ledgers"} == why_unknown(run_of(tmp_path, lists + late))
    assert {} == why_unknown(run_of(tmp_path / "other", late + lists))


def test_a_bookie_that_cannot_list_answers_by_reads(tmp_path: Path):
    """Without probes it answered for nothing. The reads of a bookie that can list only confirm what
    its lists say.
    """
    said = [("b1", n, AnswerStatus.UNSUPPORTED) for n in range(4)]
    reads = [("b1", n, 0, ReadStatus.PRESENT) for n in range(4)]
    run = run_of(tmp_path, said, reads)
    assert {} == why_unknown(run, greeting=Greeting.UNSUPPORTED)
    assert {"b1": "it answered for 0 of 4 ledgers"} == why_unknown(run)
    unread = run_of(tmp_path / "unread", said)
    assert {"b1": "it answered for 0 of 4 ledgers"} == why_unknown(
        unread, greeting=Greeting.UNSUPPORTED
    )


def test_nothing_is_read_where_the_other_run_found_neither(tmp_path: Path):
    """The directory has no evidence, and none is missed. A bookie that no ledger names lacks
    nothing.
    """
    nowhere = place(str(tmp_path / "nowhere"))
    assert frozenset() == ledgers_reread(nowhere, [])
    assert {} == why_content_unknown(nowhere, verdicts_of(), [], set())
    assert {} == why_unknown(run_of(tmp_path))


@pytest.mark.parametrize(
    ("looks", "is_put_back"),
    [
        ((49,), True),
        ((39,), False),
        ((39, 49), True),
        ((49, 39), False),
        ((), False),
    ],
    ids=["as it was", "still changed", "put back between looks", "changed again", "not read"],
)
def test_metadata_is_put_back_if_the_newest_look_read_it_as_it_was(
    tmp_path: Path, looks: tuple[int, ...], is_put_back: bool
) -> None:
    """Whatever the run was compared with. Only the fields that changed count."""
    run = place(str(tmp_path))
    shapes = [cluster.ledger(f"e1 w1 a1 0:[b1] closed {end}") for end in looks]
    rows = [
        ledger_row(LedgerRecord(7, look, 0, RecordStatus.FOUND, metadata=shape))
        for look, shape in enumerate(shapes, 1)
    ]
    rows.append(ledger_row(LedgerRecord(8, 1, 0, RecordStatus.UNREADABLE)))
    run.write_table("evidence/ledgers", table(LEDGERS, rows), "look")
    facts = {"fields": [{"name": "lastEntryId", "before": "49", "after": "39"}]}
    changed = [
        ComparedFinding.of(finding(Kind.CLOSED_METADATA_CHANGED, number, facts=facts))
        for number in (7, 8, 9)
    ]
    assert frozenset({7} if is_put_back else ()) == ledgers_put_back(run, changed)
    assert frozenset() == ledgers_put_back(run, corrupt(("b1", [4])))
