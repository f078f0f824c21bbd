"""What explains that ledgers are not listed any more: what topics referenced then, and now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from support.scan_counts import count_rows_read
from support.topics import closed

from auditor.evidence.rows import named_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LISTING, REFERENCES
from auditor.findings.dropped_ledgers import DROPPED_AT, compare_lists
from auditor.findings.gone_ledgers import GONE_AT, Gone, compare_listings, gone_ledgers
from auditor.findings.reference_tables import FIRST, WHERE
from auditor.model.topic import (
    Cursor,
    ManagedLedger,
    Position,
    Subscription,
    TopicRecord,
    TopicStatus,
)
from auditor.pulsar.reference_rows import reference_rows
from auditor.pulsar.topic_paths import parse_topic


def topic(
    name: str,
    ids: Iterable[int],
    cursor: int | None = None,
    deleted: Iterable[int] = (),
    empty: Iterable[int] = (),
) -> TopicRecord:
    ledgers = tuple(
        closed(i, 0 if i in empty else 10, offloaded=i in deleted, deleted=i in deleted)
        for i in ids
    )
    subscription = Subscription("s", Cursor(cursor, Position(1, 0)))
    return TopicRecord(
        parse_topic(f"public/{name}"), 5, TopicStatus.FOUND, ManagedLedger(ledgers),
        () if cursor is None else (subscription,),
    )  # fmt: skip


def write_run(run: Place, listed: Iterable[int], topics: Sequence[TopicRecord] | None) -> Place:
    run.write_table("evidence/listing", table(LISTING, [(i,) for i in listed]), "all")
    if topics is not None:
        rows = [row for record in topics for row in reference_rows(record, FIRST)]
        run.write_table(WHERE, table(REFERENCES, rows), "first")
    return run


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Place, Place]:
    return place(str(tmp_path / "earlier")), place(str(tmp_path / "run"))


def reasons(earlier: Place, run: Place) -> dict[int, str]:
    rows = compare_listings(earlier, run)
    return dict(zip(rows["ledger_id"].to_pylist(), rows["why"].to_pylist(), strict=True))


def test_each_ledger_that_is_gone_has_one_reason(runs: tuple[Place, Place]) -> None:
    """What retention, a new cursor, a deleted topic and long-term storage explain is kept apart
    from what nothing explains.
    """
    then = [
        topic("a/trimmed", (1, 2, 3, 4), cursor=20),
        topic("a/emptied", (5,)),
        topic("a/middle", (6, 7, 8)),
        topic("b/rolled", (9, 10), empty=(10,)),
        topic("b/deleted", (11,)),
        topic("b/kept", (12, 13, 14)),
        topic("b/unread", (15,)),
        topic("b/missing", (16,)),
        topic("c/cut", (40, 41)),
    ]
    now = [
        topic("a/trimmed", (3, 4), cursor=21),
        topic("a/emptied", ()),
        topic("a/middle", (6, 8)),
        topic("b/rolled", (9, 17)),
        topic("b/kept", (12, 13, 14), deleted=(13,)),
        topic("c/cut", (40, 42)),
        replace(topic("b/unread", ()), status=TopicStatus.UNREADABLE, managed_ledger=None),
        replace(topic("b/missing", ()), status=TopicStatus.MISSING, managed_ledger=None),
    ]
    earlier = write_run(runs[0], (*range(1, 31), 40, 41), then)
    listed = (3, 4, 6, 8, 9, 14, 17, *range(18, 20), *range(21, 30), 40)
    run = write_run(runs[1], listed, now)
    expected = {
        **dict.fromkeys((1, 2, 5), Gone.TRIMMED),
        **dict.fromkeys((7, 41), Gone.DROPPED),
        10: Gone.REPLACED,
        **dict.fromkeys((11, 16), Gone.TOPIC_DELETED),
        12: Gone.REFERENCED,
        13: Gone.OFFLOADED,
        20: Gone.REPLACED,
        **dict.fromkeys((15, 30), Gone.UNEXPLAINED),
    }
    run.write_table(DROPPED_AT, compare_lists(earlier, "then", run), "compared")
    assert expected == reasons(earlier, run)
    run.write_table(GONE_AT, compare_listings(earlier, run), "earlier")
    gone = gone_ledgers(run)
    assert [7, 15, 30, 41] == gone.unexplained.tolist()
    assert {why.value: list(expected.values()).count(why) for why in Gone} == gone.by_reason
    assert {"public/b": 6, "public/a": 5, "public/c": 1} == {
        n.namespace: n.ledgers for n in gone.namespaces
    }


def test_a_topic_that_may_have_been_missed_is_not_called_deleted(runs: tuple[Place, Place]) -> None:
    """Its namespace could not be listed."""
    earlier, run = write_run(runs[0], (1, 2), [topic("a/t", (1, 2))]), write_run(runs[1], (2,), [])
    problem = named_row(REFERENCES, namespace="public/a", look=FIRST, row="problem", problem="no")
    run.write_table(WHERE, table(REFERENCES, [problem]), "problem")
    assert {1: Gone.UNEXPLAINED} == reasons(earlier, run)


def test_nothing_is_explained_where_no_topics_were_read(runs: tuple[Place, Place]) -> None:
    """A run of a cluster without Pulsar knows only that they are gone."""
    earlier, run = write_run(runs[0], (1, 2, 3), None), write_run(runs[1], (2, 4), None)
    assert dict.fromkeys((1, 3), Gone.UNEXPLAINED) == reasons(earlier, run)
    assert gone_ledgers(run).unexplained.tolist() == []


def test_without_a_ledger_that_is_gone_nothing_is_counted(runs: tuple[Place, Place]) -> None:
    earlier, run = write_run(runs[0], (1,), []), write_run(runs[1], (1, 2), [])
    assert {} == reasons(earlier, run)


@pytest.mark.parametrize("at_once", [1, 7, 1_000])
@pytest.mark.parametrize("seed", range(10))
def test_the_ledgers_that_are_gone_are_found_range_by_range(
    seed: int, at_once: int, runs: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids of a range are in memory at a time."""
    monkeypatch.setattr("auditor.findings.gone_ledgers.COMPARED_AT_ONCE", at_once)
    read = count_rows_read(monkeypatch)
    dice = Random(seed)
    then, now = (dice.sample(range(60), dice.randint(0, 40)) for _ in range(2))
    rows = compare_listings(write_run(runs[0], then, None), write_run(runs[1], now, None))
    assert sorted({*then} - {*now}) == rows["ledger_id"].to_pylist()
    if at_once < len(then):
        assert len(read) >= 2 * (len(then) // at_once)
