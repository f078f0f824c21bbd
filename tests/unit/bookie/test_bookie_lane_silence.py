"""A lane to something that is not a bookie is silent; a bookie with a failing disk is not."""

from __future__ import annotations

from collections import Counter

import pytest
from support.lanes import (
    HELD,
    LOOK,
    NOW_MS,
    SILENT,
    BlockingLane,
    ask,
    ledgers,
    statuses,
)
from support.scripted_bookie import (
    INFO,
    Connection,
    ScriptedBookie,
    info_answer,
)

from auditor.bookie.lane import AsyncLane, ListQuestion
from auditor.config import BookieLimits
from auditor.model.availability import Greeting
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb


@pytest.mark.parametrize(
    "host",
    [
        "",
        "a" * 70 + ".example",
        "nobody.invalid",
        "::zz",
        "a b",
        "\0",
        "127.0.0.1:99",
        "münchen..de",
    ],
)
def test_a_name_that_cannot_be_resolved_is_silence(host: str) -> None:
    """Whatever stands in the metadata as a host: SILENT with a reason, never an exception."""
    with BlockingLane(
        AsyncLane(
            "b1",
            host,
            1,
            BookieLimits(bookie_connect_attempts=1, bookie_connect_timeout_ms=2000),
            LOOK,
            lambda: NOW_MS,
        )
    ) as asker:
        (only,) = asker.lists([ListQuestion(1)])
        assert (SILENT, True) == (only.status, "no connection to" in only.detail)


@pytest.mark.parametrize("port", [0, -1, 70_000])
def test_a_port_that_is_none_is_silence(port: int) -> None:
    """As for a host."""
    with BlockingLane(
        AsyncLane(
            "b1", "127.0.0.1", port, BookieLimits(bookie_connect_attempts=1), LOOK, lambda: NOW_MS
        )
    ) as asker:
        assert [SILENT] == statuses(asker.lists([ListQuestion(1)]))


def test_something_that_is_no_bookie_is_silent() -> None:
    """A peer that speaks another protocol: three breaches, then silence with the reason."""
    with ScriptedBookie(
        ledgers(9), greet=lambda connection: connection.send(b"SSH-2.0-OpenSSH_9.2\r\n" * 9)
    ) as bookie:
        answers, (greeting, why) = ask(bookie, range(1, 10))
    assert {SILENT: 9} == Counter(statuses(answers))
    assert (Greeting.SILENT, True) == (greeting, "does not begin as an answer does" in why)


def test_a_failing_disk_does_not_make_a_bookie_silent() -> None:
    """GET_BOOKIE_INFO answered EIO is an answer: the bookie is there and is asked."""

    def eio(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation != INFO:
            return False
        connection.send(info_answer(request.header.txnId, pb.EIO))
        return True

    with ScriptedBookie(ledgers(3), eio) as bookie:
        answers, (greeting, _) = ask(bookie, [1, 2, 3])
    assert {HELD: 3} == Counter(statuses(answers))
    assert Greeting.ANSWERED is greeting
