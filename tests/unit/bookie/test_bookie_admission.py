"""Whether any bookie accepts us, before an audit begins."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from support.guarded_bookie import GuardedBookie
from support.real_processes import free_port
from support.scripted_bookie import ScriptedBookie

from auditor.bookie.admission import refusal_of_all
from auditor.config import BookieLimits
from auditor.model.cluster import BookieRecord, Registration

LIMITS = BookieLimits(rpc_timeout_ms=400, connect_timeout_ms=400, connect_attempts_max=1)


def record(name: str, port: int | None) -> BookieRecord:
    host = None if port is None else "127.0.0.1"
    return BookieRecord(name, 0, 0, Registration.WRITABLE, host, port)


def said(*bookies: BookieRecord) -> str:
    return asyncio.run(refusal_of_all(bookies, LIMITS, lambda: 1))


@pytest.fixture
def refusing():
    """Two bookies that want a login."""
    with ExitStack() as stack:
        yield [stack.enter_context(GuardedBookie(password="p")) for _ in range(2)]


def test_bookies_that_all_refuse_are_told_with_the_first_reason(refusing: list[GuardedBookie]) -> None:
    """Each was asked once; one whose address is not known says nothing either way."""
    records = [record("lost", None), *(record(f"b{n}", bookie.port) for n, bookie in enumerate(refusing, 1))]
    sentence = said(*records)
    assert sentence.startswith("all 2 bookies refuse this client, so that nothing can be audited (b1: EUA")
    assert [len(bookie.connections) for bookie in refusing] == [1, 1]
    assert said(records[1]).startswith("the only bookie refuses this client")


def test_nobody_is_asked_after_one_that_does_not_refuse(refusing: list[GuardedBookie]) -> None:
    """One that answers, and one that is silent: it may accept us when it is back."""
    with ScriptedBookie() as open_to_all:
        assert said(record("b1", refusing[0].port), record("b2", open_to_all.port), record("b3", refusing[1].port)) == ""
    assert not refusing[1].connections
    assert said(record("b1", free_port()), record("b2", refusing[1].port)) == ""
    assert not refusing[1].connections


def test_a_cluster_without_bookies_refuses_nobody() -> None:
    """That is for the run to say."""
    assert said() == ""
    assert said(record("lost", None)) == ""
