"""DbLedgerStorage, Pulsar's default, never lists what it holds: on the wire, and in the product's
client.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.bookie_contract import BookieUnderTest
from support.bookies_under_test import RealBookieUnderTest, sandbox_bookies
from support.lanes import BlockingLane
from support.raw_bookie import RawBookie, info_request, list_request, read_request, status_name
from support.real_cluster import RealCluster

from auditor.bookie.exchange import UNTRIED
from auditor.bookie.lane import AsyncLane, ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.model.availability import AnswerStatus, Greeting, ReadStatus
from auditor.model.ledger import DigestType

DB = "DbLedgerStorage"
HELD = range(10, 70)
UNKNOWN = 5
LOOK, NOW_MS = 1, 1_700_000_000_000


@pytest.fixture(scope="module", params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
def bookie(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BookieUnderTest]:
    """Yield a bookie with DbLedgerStorage that holds entries 0 to 2 of each ledger in HELD."""
    if request.param == "sandbox":
        with sandbox_bookies({"db": DB}) as bookies:
            yield seeded(bookies["db"])
    else:
        with RealCluster(tmp_path_factory.mktemp("db"), bookies=1, storage=DB) as cluster:
            yield seeded(RealBookieUnderTest("real-db", DB, *cluster.address("b1")))


def seeded(bookie: BookieUnderTest) -> BookieUnderTest:
    for ledger_id in HELD:
        bookie.hold(ledger_id, (0, 2))
    return bookie


def test_the_list_of_a_held_ledger_is_never_answered(bookie: BookieUnderTest) -> None:
    """Every later request on the same connection is answered, ENOLEDGER too; the request for the
    list is not.
    """
    messages = [
        list_request(HELD[0], 1),
        list_request(UNKNOWN, 2),
        read_request(HELD[0], 0, 3),
        info_request(1, 4),
    ]
    with RawBookie(bookie.host, bookie.port) as connection:
        connection.send(*messages)
        answers = [connection.receive() for _ in messages[1:]]
        again = connection.ask(info_request(1, 5))
    said = {answer.header.txnId: status_name(answer.status) for answer in answers}
    assert said == {2: "ENOLEDGER", 3: "EOK", 4: "EOK"}
    assert again.header.txnId == 5


def test_it_is_found_out_once(bookie: BookieUnderTest) -> None:
    """The lane answers UNSUPPORTED for every held ledger after three requests, and reports what the
    bookie lacks; reads work.

    One request at a time, with a time-out of three seconds each, for every ledger would exceed the
    deadline and end as SILENT.
    """
    limits = BookieLimits(bookie_inflight=1, rpc_timeout_ms=3_000, bookie_deadline_ms=30_000)
    with BlockingLane(
        AsyncLane("b1", bookie.host, bookie.port, limits, LOOK, lambda: NOW_MS)
    ) as lane:
        answers = lane.lists([ListQuestion(UNKNOWN), *map(ListQuestion, HELD)])
        reads = lane.reads(
            [ReadQuestion(HELD[0], 0, DigestType.CRC32C, b""), ReadQuestion(HELD[0], 3)]
        )
        greeting, _ = lane.greeting()

    assert [answer.status for answer in answers] == [AnswerStatus.NO_SUCH_LEDGER] + [
        AnswerStatus.UNSUPPORTED
    ] * len(HELD)
    assert [answer.ledger_id for answer in answers if answer.requests] == [UNKNOWN, *HELD[:3]]
    assert [read.status for read in reads] == [ReadStatus.PRESENT, ReadStatus.NO_ENTRY]
    assert greeting is Greeting.UNSUPPORTED


def test_it_is_read_beside_a_list_that_is_overdue(bookie: BookieUnderTest) -> None:
    """With the patience of `auditor ledger` this is long before the time-out of a request; the list
    is requested once.
    """
    limits = BookieLimits(rpc_timeout_ms=120_000)
    with BlockingLane(
        AsyncLane("b1", bookie.host, bookie.port, limits, LOOK, lambda: NOW_MS, patience=UNTRIED)
    ) as lane:
        assumed = lane.lists([ListQuestion(HELD[0])])
        reads = lane.reads(
            [ReadQuestion(HELD[0], 0, DigestType.CRC32C, b""), ReadQuestion(HELD[0], 3)]
        )
        (answer,) = lane.settle_late_lists()
        greeting, detail = lane.greeting()

    assert [read.status for read in reads] == [ReadStatus.PRESENT, ReadStatus.NO_ENTRY]
    assert [answer.status, 1] == [AnswerStatus.UNSUPPORTED, answer.requests]
    assert assumed[0].status is AnswerStatus.UNSUPPORTED
    assert (greeting, detail) == (Greeting.UNSUPPORTED, answer.detail)
