"""What the lists of topics of two runs show: a ledger that is gone from behind others, and the
ones that a broker trimmed or dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from support.topics import closed

from auditor.evidence.rows import named_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import DROPPED_LEDGERS, LISTING, REFERENCES
from auditor.findings import dropped_ledgers
from auditor.findings.dropped_ledgers import (
    DROPPED_AT,
    compare_lists,
    judge_drops,
    topics_with_drops,
)
from auditor.findings.reference_tables import AGAIN, FIRST, WHERE
from auditor.model.facts import LOOKS_APART_MIN_MS, DroppedLedgerFacts
from auditor.model.finding import Finding
from auditor.model.topic import DataLedger, ManagedLedger, TopicRecord, TopicStatus
from auditor.pulsar.reference_rows import reference_rows
from auditor.pulsar.topic_paths import parse_topic

THEN, NOW = "20251231T030000Z-000001", "20260101T030000Z-000001"
NAME = "persistent://public/default/t"


def topic(
    ids: Iterable[int | DataLedger],
    name: str = "t",
    at_ms: int = 0,
    status: TopicStatus = TopicStatus.FOUND,
) -> TopicRecord:
    ledgers = (i if isinstance(i, DataLedger) else closed(i) for i in ids)
    managed = ManagedLedger(tuple(ledgers)) if status is TopicStatus.FOUND else None
    return TopicRecord(parse_topic(f"public/default/{name}"), at_ms, status, managed)


def write_look(run: Place, topics: Sequence[TopicRecord], look: int = FIRST) -> Place:
    rows = [row for record in topics for row in reference_rows(record, look)]
    run.write_table(WHERE, table(REFERENCES, rows), f"look-{look}")
    if look == FIRST:
        run.write_table("evidence/listing", table(LISTING, [(2,)]), "all")
    return run


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Place, Place]:
    return place(str(tmp_path / "earlier")), place(str(tmp_path / "run"))


def dropped(runs: tuple[Place, Place], *now: TopicRecord) -> list[tuple[int, int, int | None]]:
    """Return each dropped ledger with its neighbours, by the first looks."""
    rows = compare_lists(runs[0], THEN, write_look(runs[1], now))
    columns = ("ledger_id", "before", "after")
    return list(zip(*(rows[name].to_pylist() for name in columns), strict=True))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ([1, 2, 3, 4], []),
        ([2, 3, 4], []),
        ([4], []),
        ([1, 2, 3], []),
        ([1, 2, 3, 5], []),
        ([1, 3, 4], [(2, 1, 3)]),
        ([1, 4, 5], [(2, 1, 4), (3, 1, 4)]),
        ([2, 4, 9], [(3, 2, 4)]),
        ([7, 8], []),
        ([], []),
    ],
    ids=[
        "same", "trimmed", "trimmed to the last", "last dropped", "rolled over", "middle",
        "two", "trimmed and middle", "made anew", "emptied",
    ],
)  # fmt: skip
def test_only_a_ledger_between_two_that_stayed_was_dropped(
    runs: tuple[Place, Place], now: list[int], expected: list[tuple[int, int, int]]
) -> None:
    """Retention trims from the front, and an empty ledger is dropped at the end. Another topic with
    the same ledger does not stand for this one.
    """
    write_look(runs[0], [topic([1, 2, 3, closed(4, 0)]), topic([2], "u")])
    assert expected == dropped(runs, topic([2], "u"), topic(now))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ([1, 2], [(3, 2, None), (4, 2, None)]),
        ([2, 9], [(3, 2, None), (4, 2, None)]),
        ([1, 2, 4], [(3, 2, 4)]),
        ([4, 5], []),
        ([9], []),
    ],
    ids=["an older list", "written since", "middle", "trimmed", "made anew"],
)
def test_a_ledger_with_entries_does_not_leave_the_end_of_a_list(
    runs: tuple[Place, Place], now: list[int], expected: list[tuple[int, int, int | None]]
) -> None:
    """A list that was restored from an older state lacks its newest ledgers. Of the last one, to
    which the broker still wrote, no entries were recorded.
    """
    write_look(runs[0], [topic([1, 2, 3, 4, DataLedger(5)])])
    assert expected == dropped(runs, topic(now))


@pytest.mark.parametrize("at_once", [1, 7, 40, 1_000])
def test_lists_that_are_compared_in_parts_lose_what_each_of_them_lost(
    runs: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Topics have the same ledgers, and each lost another one. Each row is of its own topic."""
    monkeypatch.setattr(dropped_ledgers, "PAIRS_AT_ONCE", at_once)
    names = [f"t{number}" for number in range(20)]
    write_look(runs[0], [topic([1, *range(2, 5), 9], name) for name in names])
    lists = [[1, *({2, 3, 4} - {2 + number % 3}), 9] for number in range(20)]
    write_look(runs[1], [topic(ids, name) for ids, name in zip(lists, names, strict=True)])
    rows = compare_lists(runs[0], THEN, runs[1])
    found = {tuple(row.values()) for row in rows.select(["topic", "ledger_id"]).to_pylist()}
    assert {(f"{NAME}{number}", 2 + number % 3) for number in range(20)} == found
    assert 20 == rows.num_rows


def test_a_topic_that_was_deleted_or_not_read_dropped_nothing(runs: tuple[Place, Place]) -> None:
    """Nor did one whose topics the earlier run did not look for."""
    now = topic([], status=TopicStatus.UNREADABLE)
    assert [] == compare_lists(runs[0] / "none", THEN, runs[1]).to_pylist()
    write_look(runs[0], [topic([1, 2, 3]), topic([4, 5, 6], "u")])
    assert [] == dropped(runs, now)


def judged(
    runs: tuple[Place, Place], first: TopicRecord, again: TopicRecord | None
) -> list[Finding | int]:
    """Return the findings, and the ledgers of which it is not known."""
    run = write_look(runs[1], [first])
    run.write_table(DROPPED_AT, compare_lists(runs[0], THEN, run), "compared")
    assert topics_with_drops(run)[0] == ([first.topic] if run_rows(run).num_rows else [])
    if again is not None:
        write_look(run, [again], AGAIN)
    return [one[0] if isinstance(one, tuple) else one for one in judge_drops(run)]


def run_rows(run: Place) -> pa.Table:
    return run.read_table(DROPPED_AT, DROPPED_LEDGERS)


LATER = 2 * LOOKS_APART_MIN_MS


def test_two_looks_at_the_list_are_a_finding(runs: tuple[Place, Place]) -> None:
    """It has the run that read the ledger, what the topic recorded, and the neighbours."""
    write_look(runs[0], [topic([1, closed(2, 7), 3])])
    (found,) = judged(runs, topic([1, 3]), topic([1, 3], at_ms=LATER))
    assert isinstance(found, Finding)
    assert DroppedLedgerFacts(
        THEN, 0, 1, (NAME,), 1, 3, 7, 700, is_offloaded=False, is_listed=True, apart_ms=LATER
    ) == found.facts  # fmt: skip
    assert (2, ((0, 6),), 7) == (found.ledger_id, found.entries, found.entries_total)


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (topic([1, 2, 3], at_ms=LATER), []),
        (topic([3], at_ms=LATER), []),
        (topic([], at_ms=LATER, status=TopicStatus.MISSING), []),
        (topic([], at_ms=LATER, status=TopicStatus.UNREADABLE), [2]),
        (None, [2]),
        (topic([1, 3], at_ms=LOOKS_APART_MIN_MS - 1), [2]),
    ],
    ids=["back", "trimmed meanwhile", "deleted", "unreadable", "not read again", "at once"],
)
def test_one_look_accuses_nobody(
    runs: tuple[Place, Place], again: TopicRecord | None, expected: list[int]
) -> None:
    """What the second look does not confirm is no finding. What it could not read is unknown."""
    write_look(runs[0], [topic([1, 2, 3])])
    assert expected == judged(runs, topic([1, 3]), again)


def test_a_ledger_without_entries_is_no_loss(runs: tuple[Place, Place]) -> None:
    write_look(runs[0], [topic([1, closed(2, 0), 3])])
    assert [] == judged(runs, topic([1, 3]), topic([1, 3], at_ms=LATER))


def test_a_dropped_ledger_is_found_on_every_night_until_the_topic_is_trimmed_beyond_it(
    runs: tuple[Place, Place], tmp_path: Path
) -> None:
    """The next run finds it by the row that was kept, and so does a run after one that could not
    read the topic.
    """
    write_look(runs[0], [topic([1, 2, 3])])
    judged(runs, topic([1, 3]), topic([1, 3], at_ms=LATER))
    unread = topic([], status=TopicStatus.UNREADABLE)
    hidden = (runs[1], place(str(tmp_path / "hidden")))
    assert [2] == judged(hidden, unread, None)
    for number, earlier in enumerate((runs[1], hidden[1])):
        pair = (earlier, place(str(tmp_path / f"later-{number}")))
        (found,) = judged(pair, topic([1, 3, 4]), topic([1, 3], at_ms=LATER))
        assert isinstance(found, Finding) and isinstance(found.facts, DroppedLedgerFacts)
        assert THEN == found.facts.earlier_run
    trimmed = (runs[1], place(str(tmp_path / "trimmed")))
    assert [] == judged(trimmed, topic([3]), topic([3], at_ms=LATER))


@pytest.mark.parametrize("missed", ["the topic", "all topics"])
def test_a_dropped_ledger_is_not_forgotten_by_a_run_that_missed_its_topic(
    runs: tuple[Place, Place], tmp_path: Path, missed: str
) -> None:
    """Its namespace could not be listed, or no topic was read."""
    write_look(runs[0], [topic([1, 2, 3])])
    judged(runs, topic([1, 3]), topic([1, 3], at_ms=LATER))
    between = place(str(tmp_path / "between"))
    if missed == "the topic":
        problem = named_row(
            REFERENCES, namespace="public/default", look=FIRST, row="problem", problem="no access"
        )
        between.write_table(WHERE, table(REFERENCES, [problem]), "look-1")
    between.write_table(DROPPED_AT, compare_lists(runs[1], NOW, between), "compared")
    later = (between, place(str(tmp_path / "later")))
    (found,) = judged(later, topic([1, 3]), topic([1, 3], at_ms=LATER))
    assert isinstance(found, Finding) and isinstance(found.facts, DroppedLedgerFacts)
    assert THEN == found.facts.earlier_run


def test_a_list_that_was_cut_is_found_until_it_is_trimmed_beyond_the_ledger(
    runs: tuple[Place, Place], tmp_path: Path
) -> None:
    """Also when the broker has written new ledgers since."""
    write_look(runs[0], [topic([1, 2, 3])])
    (found,) = judged(runs, topic([1, 2]), topic([1, 2, 9], at_ms=LATER))
    assert isinstance(found, Finding) and isinstance(found.facts, DroppedLedgerFacts)
    assert (3, 2, None) == (found.ledger_id, found.facts.before, found.facts.after)
    later = runs[1], place(str(tmp_path / "later"))
    assert 1 == len(judged(later, topic([2, 9]), topic([2, 9], at_ms=LATER)))
    trimmed = later[1], place(str(tmp_path / "trimmed"))
    assert [] == judged(trimmed, topic([9]), topic([9], at_ms=LATER))
