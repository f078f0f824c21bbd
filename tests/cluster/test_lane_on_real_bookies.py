"""The product's client gets the same evidence from real bookies as from the sandbox's, and gives up
a bookie that cannot list.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from support.bookie_contract import BookieUnderTest
from support.bookies_under_test import STORAGES, SandboxBookieUnderTest, real_bookie
from support.lanes import BlockingLane
from support.real_cluster import RealCluster

from auditor.bookie.lane import AsyncLane, ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.model.availability import AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.model.ledger import DigestType
from auditor.sandbox.cluster import holds
from auditor.wire.entry_availability import groups_of

pytestmark = pytest.mark.real

LOOK, NOW_MS = 1, 1_700_000_000_000
LEDGER_ID = 800_000
"""Far from the ids of other tests, and the same on every implementation, so that whole answers can
be compared.
"""
HELD = {0: "0-9", 1: "0-1 3-4 6-7 9", 2: "1200-1202 1205-1999", 3: "0", 4: "0-1024", 5: "7 900000"}
UNKNOWN, EMPTY = 6, 7
READS = (
    (0, 0),
    (0, 9),
    (0, 10),
    (1, 2),
    (1, 3),
    (2, 0),
    (3, 0),
    (4, 1024),
    (5, 900_000),
    (UNKNOWN, 0),
    (EMPTY, 0),
)
STRIPED_RUNS = 5_000


def lane(bookie: BookieUnderTest, limits: BookieLimits | None = None) -> BlockingLane:
    """Return a lane that uses one date and one bookie name for everything."""
    return BlockingLane(
        AsyncLane("b", bookie.host, bookie.port, limits or BookieLimits(), LOOK, lambda: NOW_MS)
    )


def unweighed(read: EntryRead) -> EntryRead:
    """Return the read without its size: the answer's maxLAC, which is not read here, varies in
    length on the wire.
    """
    assert read.received_bytes > 0, "an answer without bytes"
    return replace(read, received_bytes=0)


@pytest.fixture(scope="module")
def seeded(
    shared_cluster: RealCluster, sandbox: dict[str, SandboxBookieUnderTest]
) -> dict[str, tuple[SandboxBookieUnderTest, BookieUnderTest]]:
    """Return, for each storage, the sandbox's bookie and a real one with the same ledgers."""
    pairs = {kind: (sandbox[kind], real_bookie(shared_cluster, kind)) for kind in STORAGES}
    for pair in pairs.values():
        for bookie in pair:
            for number, runs in HELD.items():
                bookie.hold(LEDGER_ID + number, *holds(runs))
            bookie.know_empty(LEDGER_ID + EMPTY)
    return pairs


@pytest.mark.parametrize("kind", STORAGES)
def test_lists_are_the_same_evidence(
    seeded: dict[str, tuple[BookieUnderTest, BookieUnderTest]], kind: str
) -> None:
    """Lists, ENOLEDGER and empty lists give equal answers, including groups, bytes received and
    frames sent.
    """
    questions = [ListQuestion(LEDGER_ID + number) for number in (*HELD, UNKNOWN, EMPTY)]
    with lane(seeded[kind][0]) as to_sandbox, lane(seeded[kind][1]) as to_real:
        assert to_sandbox.greet() == to_real.greet() == (Greeting.ANSWERED, "")
        answers = to_real.lists(questions)
        assert to_sandbox.lists(questions) == answers

    assert [answer.status for answer in answers] == [AnswerStatus.HELD] * 6 + [
        AnswerStatus.NO_SUCH_LEDGER,
        AnswerStatus.HELD,
    ]
    unlisted = 1 if kind == "interleaved" else 0
    listed = [
        sum(
            ((last - first) // (period or 1) + 1) * size
            for first, last, size, period in groups_of(answer.groups)
        )
        for answer in answers
    ]
    assert listed == [10, 7, 798, 1 - unlisted, 1025 - unlisted, 2, 0, 0]


def test_a_real_bookie_tells_the_size_of_its_disk(
    shared_cluster: RealCluster, seeded: dict[str, tuple[BookieUnderTest, BookieUnderTest]]
) -> None:
    """It is that of the file system of its ledger directories; no more than that is free."""
    real = seeded["sorted"][1]
    with lane(real) as to_real:
        to_real.greet()
        disk = to_real.disk
    assert disk is not None
    assert disk.total_bytes == shutil.disk_usage(shared_cluster.directory("b1")).total
    assert disk.free_bytes is not None
    assert 0 < disk.free_bytes <= disk.total_bytes


@pytest.mark.parametrize("kind", STORAGES)
def test_reads_are_the_same_evidence(
    seeded: dict[str, tuple[BookieUnderTest, BookieUnderTest]], kind: str
) -> None:
    """Each confirming read, with its digest verified, gives equal evidence, also for the entries
    that a list omits.
    """
    questions = [
        ReadQuestion(LEDGER_ID + number, entry_id, DigestType.CRC32C, b"")
        for number, entry_id in READS
    ]
    with lane(seeded[kind][0]) as to_sandbox, lane(seeded[kind][1]) as to_real:
        reads = [unweighed(read) for read in to_real.reads(questions)]
        assert [unweighed(read) for read in to_sandbox.reads(questions)] == reads

    present, no_entry, no_ledger = ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER
    expected = [
        present,
        present,
        no_entry,
        no_entry,
        present,
        no_entry,
        present,
        present,
        present,
        no_ledger,
        no_entry,
    ]
    assert [(read.status, read.detail) for read in reads] == [(status, "") for status in expected]


@pytest.mark.parametrize("kind", STORAGES)
def test_many_questions_in_flight_are_all_answered(
    seeded: dict[str, tuple[BookieUnderTest, BookieUnderTest]], kind: str
) -> None:
    """A thousand lists pipelined to a real bookie get a thousand answers, in the order of the
    questions.
    """
    questions = [ListQuestion(LEDGER_ID + number % 8) for number in range(1000)]
    with lane(seeded[kind][1], BookieLimits(bookie_requests_per_second=0)) as to_real:
        answers = to_real.lists(questions)
    assert [answer.ledger_id for answer in answers] == [
        question.ledger_id for question in questions
    ]
    assert {answer.status for answer in answers} == {AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER}


def test_the_canonical_form_of_a_real_list_is_one_group_a_stripe(
    shared_cluster: RealCluster,
) -> None:
    """A striped ledger that a real bookie lists run by run is stored as one periodic group."""
    ledger_id = LEDGER_ID + 8
    bookie = real_bookie(shared_cluster, "sorted")
    bookie.hold(ledger_id, *((first, first + 1) for first in range(0, 3 * STRIPED_RUNS, 3)))
    with lane(bookie) as to_real:
        (answer,) = to_real.lists([ListQuestion(ledger_id)])
    assert groups_of(answer.groups) == ((0, 3 * (STRIPED_RUNS - 1), 2, 3),)
