"""Which ledgers the written references show as lost, and which as orphans: laws of both looks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest
from support.tables_in_memory import Tables
from support.topics import closed

from auditor.evidence.rows import Row, ledger_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, REFERENCES
from auditor.findings.reference_findings import reference_findings
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.model.topic import ManagedLedger, TopicRecord, TopicStatus
from auditor.pulsar.reference_rows import (
    listing_problem_row,
    partition_problem_row,
    partition_row,
    reference_rows,
)
from auditor.pulsar.topic_paths import parse_topic
from auditor.sandbox.stories import with_owner
from auditor.summary.about import About

NOW_MS, AGE_MS = 1_000_000, 100_000
FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
TERMS = Terms(NOW_MS, 1_000, 16, 5, orphan_age_ms=AGE_MS)
ABOUT = About("20260101T030000Z-000001", "2026-01-01T03:00:00Z", FACTS, TERMS, "warning", False)
WHOLE = LedgerMetadata(3, LedgerState.CLOSED, 3, 2, 2, 9, 100, (Segment(0, ("b1", "b2", "b3")),))
EMPTY = TopicRecord(parse_topic("public/default/t"), 5, TopicStatus.FOUND, ManagedLedger())
SHUT = TopicStatus.UNREADABLE


def topic(*ledgers: int, name: str = "t", **changes: Any) -> TopicRecord:
    """Return a topic that recorded eleven entries of each ledger. The ledgers have ten."""
    managed = ManagedLedger(tuple(closed(n, 11) for n in ledgers))
    named = parse_topic(name if "/" in name else f"public/default/{name}")
    return replace(EMPTY, **{"topic": named, "managed_ledger": managed, **changes})


def ledger_at(ledger_id: int, look: int, metadata: LedgerMetadata | None = WHOLE) -> LedgerRecord:
    """Return a ledger at one look; without metadata it is gone."""
    status = RecordStatus.GONE if metadata is None else RecordStatus.FOUND
    stamp = None if metadata is None else ZnodeStamp(1, 0, 0)
    return LedgerRecord(ledger_id, look, 1_000 * look, status, stamp, metadata)


def run(
    first: Iterable[TopicRecord],
    again: Iterable[TopicRecord],
    listed: Iterable[LedgerRecord] | None,
    read: Iterable[LedgerRecord] | None,
    problems: Iterable[Row] = (),
) -> Place:
    """Return a run with what both looks read of topics, all ledgers, and the ledgers read for their
    references. A table that was not written is None.
    """
    made = Tables()
    rows = [row for one in first for row in reference_rows(one, 1)]
    rows += [row for one in again for row in reference_rows(one, 2)]
    made.write_table("evidence/references", table(REFERENCES, [*rows, *problems]), "all")
    for name, ledgers in (("ledgers", listed), ("referenced_ledgers", read)):
        if ledgers is not None:
            made.write_table(f"evidence/{name}", table(LEDGERS, map(ledger_row, ledgers)), "all")
    return cast(Place, made)


def find_losses(place: Place) -> list[tuple[Kind, int | None]]:
    """Return the findings on referenced ledgers."""
    found = [one.as_json() for one in reference_findings(place, ABOUT).findings]
    return [(Kind(one["kind"]), one["ledger_id"]) for one in found if one["ledger_id"]]


LOST, CUT = Kind.REFERENCED_LEDGER_MISSING, Kind.LEDGER_TRUNCATED
NEWEST = Kind.NEWEST_LEDGER_MISSING


def test_each_ledger_is_judged_by_the_topics_that_name_it() -> None:
    """Both looks must show the loss. The first look at a listed ledger is that of the run."""
    topics = (topic(7, 8, 10), topic(7, 11, name="u"), topic(99, name="v"))
    gone = [
        ledger_at(7, 1, None),
        ledger_at(7, 2, None),
        ledger_at(8, 1, None),
    ]
    listed = [ledger_at(10, 1), ledger_at(11, 1), ledger_at(10, 2), ledger_at(12, 1)]
    place = run(topics, topics, listed, [*gone, ledger_at(10, 2), ledger_at(12, 2)])
    assert [(LOST, 7), (CUT, 10)] == find_losses(place)


@pytest.mark.parametrize(("first", "again"), [((7,), ()), ((), (7,))])
def test_a_reference_of_one_look_is_no_finding(
    first: tuple[int, ...], again: tuple[int, ...]
) -> None:
    """The reference was added or removed between the looks, and the ledger with it."""
    place = run(
        (topic(*first),), (topic(*again),), [], [ledger_at(7, 1, None), ledger_at(7, 2, None)]
    )
    assert [] == find_losses(place)


def test_a_partition_that_lost_its_znode_between_the_looks_needs_no_ledger() -> None:
    """The second look has only the row of the partition, which names no ledger."""
    read = [ledger_at(7, 1, None), ledger_at(7, 2, None)]
    lone = partition_row(EMPTY.topic, 2, 5)
    assert [] == find_losses(run((topic(7),), (), [], read, (lone,)))


def test_the_newest_ledger_of_a_topic_is_known_at_each_look() -> None:
    """Pulsar records no entries for its newest ledger. Without a record an absence proves that
    entries are lost only if the ledger is not the newest at the second look.
    """
    data = closed(7)
    unknown = replace(data, entries=None)

    def with_ledgers(*ledgers: Any) -> TopicRecord:
        return replace(EMPTY, managed_ledger=ManagedLedger(ledgers))

    read = [ledger_at(7, 1, None), ledger_at(7, 2, None)]
    newest = with_ledgers(closed(5), unknown)
    older = with_ledgers(closed(8), unknown, closed(6))
    assert [(NEWEST, 7)] == find_losses(run((newest,), (newest,), [], read))
    assert [(LOST, 7)] == find_losses(run((older,), (older,), [], read))
    assert [(LOST, 7)] == find_losses(run((newest,), (older,), [], read))
    assert [(NEWEST, 7)] == find_losses(run((older,), (newest,), [], read))


def test_without_ledgers_that_were_read_for_it_nothing_is_found() -> None:
    """No ledger was in question, and the table was not written."""
    assert [] == find_losses(run((topic(7),), (), [], None))
    assert not orphan(run((topic(7),), (topic(7),), [old(2)], None))


def old(ledger_id: int, look: int = 1, **changes: Any) -> LedgerRecord:
    """Return a ledger of topic `t` that was created long ago."""
    return ledger_at(ledger_id, look, replace(with_owner(WHOLE, "t"), **{"ctime_ms": 1, **changes}))


def orphan(place: Place) -> bool:
    """Return whether there is a finding on orphans."""
    found = [one.as_json() for one in reference_findings(place, ABOUT).findings]
    return Kind.LEDGER_ORPHANED.value in [one["kind"] for one in found]


HERE = (topic(1),)
ELSEWHERE = topic(name="public/other/u", status=SHUT, problems=("shut",))
NOTHING = topic()
ABSENT = replace(EMPTY, status=TopicStatus.MISSING, managed_ledger=None)
LONE = tuple(partition_row(EMPTY.topic, look, 5) for look in (1, 2))


@pytest.mark.parametrize(
    ("first", "again", "problems"),
    [
        (HERE, HERE, ()),
        ((NOTHING,), (NOTHING,), ()),
        ((*HERE, ELSEWHERE), HERE, ()),
        (HERE, (*HERE, ELSEWHERE), ()),
        (HERE, HERE, (listing_problem_row(1, 5, "shut", "public/other"),)),
        (HERE, HERE, (partition_problem_row(1, 5, "shut", "public/other"),)),
        (HERE, HERE, (partition_row(parse_topic("public/default/u"), 1, 5),)),
    ],
)
def test_a_ledger_that_no_topic_of_its_namespace_names_is_an_orphan(
    first: tuple[TopicRecord, ...], again: tuple[TopicRecord, ...], problems: tuple[Row, ...]
) -> None:
    """Its topic may have no ledgers, another namespace may be unreadable, and another topic may be
    a partition without a znode.
    """
    assert orphan(run(first, again, [ledger_at(1, 1), old(2)], [old(2, 2)], problems))


@pytest.mark.parametrize(
    ("first", "again", "problems"),
    [
        ((), HERE, ()),
        ((topic(1, name="public/other/u"),), HERE, ()),
        ((ABSENT,), HERE, ()),
        (HERE, (), ()),
        (HERE, (topic(1, problems=("shut",)),), ()),
        (HERE, (*HERE, topic(name="u", status=SHUT, problems=("shut",))), ()),
        (HERE, HERE, (listing_problem_row(1, 5, "shut"),)),
        (HERE, HERE, (listing_problem_row(2, 5, "shut"),)),
        (HERE, HERE, (listing_problem_row(2, 5, "shut", "public/default"),)),
        (HERE, HERE, (partition_problem_row(1, 5, "shut", "public/default"),)),
        ((topic(1, name="u"),), (), LONE),
        ((topic(1, name="u"),), HERE, LONE[:1]),
        ((topic(1, 2),), (topic(1),), ()),
        ((*HERE, topic(2, name="u")), HERE, ()),
        (HERE, (topic(1, 2),), ()),
    ],
)
def test_a_ledger_that_a_topic_may_name_is_not_an_orphan(
    first: tuple[TopicRecord, ...], again: tuple[TopicRecord, ...], problems: tuple[Row, ...]
) -> None:
    """Its own topic counts at either look, any topic at the first look, and any that could not be
    read. A partition without a znode may still need its ledgers.
    """
    assert not orphan(run(first, again, [ledger_at(1, 1), old(2)], [old(2, 2)], problems))


@pytest.mark.parametrize(
    ("listed", "read"),
    [
        ([ledger_at(2, 1, replace(WHOLE, ctime_ms=1))], [old(2, 2)]),
        ([old(2)], []),
        ([old(2)], [old(2, 1)]),
        ([old(2)], [ledger_at(2, 2, None)]),
        ([old(2)], [replace(old(2, 2), stamp=ZnodeStamp(9, 0, 0))]),
        ([old(2), old(2, 2)], []),
        ([ledger_at(1, 1), old(2, 2)], [old(2, 2)]),
        ([old(2, ctime_ms=NOW_MS - AGE_MS)], [old(2, 2)]),
    ],
)
def test_a_ledger_is_an_orphan_only_if_both_looks_show_it(
    listed: list[LedgerRecord], read: list[LedgerRecord]
) -> None:
    """Pulsar must have created it, it must be old enough, and the same ledger at the second
    look.
    """
    assert not orphan(run(HERE, HERE, listed, read))


def test_the_age_of_a_ledger_without_one_is_that_of_its_znode() -> None:
    """Metadata of an earlier format has no time of creation."""
    young = replace(old(2, ctime_ms=None), stamp=ZnodeStamp(1, 0, NOW_MS - AGE_MS))
    aged = replace(young, stamp=ZnodeStamp(1, 0, NOW_MS - AGE_MS - 1))
    assert not orphan(run(HERE, HERE, [young], [young, replace(young, look=2)]))
    assert orphan(run(HERE, HERE, [aged], [replace(aged, look=2, read_at_ms=2_000)]))
