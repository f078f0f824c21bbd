"""Whether any bookie accepts us, before an audit begins."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from support.guarded_bookie import GuardedBookie
from support.real_processes import free_port
from support.scripted_bookie import ScriptedBookie

from auditor.bookie import lane
from auditor.bookie.lane import GREETED_AT_ONCE, refusal_of_all
from auditor.config import BookieLimits
from auditor.config.access import BookieAccess, SaslLogin, SecretSource
from auditor.errors import BookieRefused, KdcUnreachable
from auditor.model.availability import NOT_DIALLED, Greeting
from auditor.model.cluster import BookieRecord, Registration

LIMITS = BookieLimits(
    rpc_timeout_ms=20_000, bookie_connect_timeout_ms=20_000, bookie_connect_attempts=1
)


def record(name: str, port: int | None) -> BookieRecord:
    host = None if port is None else "127.0.0.1"
    return BookieRecord(name, 0, 0, Registration.WRITABLE, host, port)


def clock() -> int:
    return 1


def said(*bookies: BookieRecord) -> str:
    """Return the sentence for a refusal by every bookie, "" if an audit may begin."""
    error = asyncio.run(refusal_of_all(bookies, LIMITS, clock))
    assert error is None or type(error) is BookieRefused
    return str(error or "")


@pytest.fixture
def refusing():
    """Two bookies that want a login."""
    with ExitStack() as stack:
        yield [stack.enter_context(GuardedBookie(password="p")) for _ in range(2)]


def test_bookies_that_all_refuse_are_reported_with_the_first_reason(
    refusing: list[GuardedBookie],
) -> None:
    """Each was asked once; one whose address is not known says nothing either way."""
    records = [
        record("lost", None),
        *(record(f"b{n}", bookie.port) for n, bookie in enumerate(refusing, 1)),
    ]
    sentence = said(*records)
    assert sentence.startswith(
        "all 2 bookies refuse this client, so that nothing can be audited (b1: EUA"
    )
    assert [len(bookie.connections) for bookie in refusing] == [1, 1]
    assert said(records[1]).startswith("the only bookie refuses this client")


def test_nobody_is_asked_after_one_that_does_not_refuse(refusing: list[GuardedBookie]) -> None:
    """One that answers, and one that is silent: it may accept us when it is back."""
    with ScriptedBookie() as open_to_all:
        assert said(record("b1", open_to_all.port), record("b2", refusing[0].port)) == ""
    assert not refusing[0].connections
    assert said(record("b1", free_port()), record("b2", refusing[1].port)) == ""
    assert not refusing[1].connections
    with ScriptedBookie() as open_to_all:
        ports = [refusing[0].port, *[open_to_all.port] * GREETED_AT_ONCE, refusing[1].port]
        assert said(*(record(f"b{n}", port) for n, port in enumerate(ports))) == ""
    assert not refusing[1].connections


def test_a_secret_that_comes_too_late_is_not_taken_for_a_kdc(
    refusing: list[GuardedBookie], tmp_path: Path
) -> None:
    """The deadline passes while a command gives the password: nobody awaited a Kerberos ticket."""
    command = f"sh -c 'sleep 1; echo p' {tmp_path}"  # what a command gave is remembered
    login = SaslLogin("u", SecretSource("the password", "AUDITOR_X", command=command))
    limits = replace(LIMITS, bookie_deadline_ms=100, access=BookieAccess(sasl=login))
    assert asyncio.run(refusal_of_all([record("b1", refusing[0].port)], limits, clock)) is None
    assert not refusing[0].connections


def test_many_bookies_that_refuse_are_asked_several_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cluster of hundreds whose bookies refuse slowly is not asked one by one. Each is asked
    once.
    """
    now, most, asked = 0, 0, []
    lanes: list[tuple[object, ...]] = []

    class BlockingLane:
        def __init__(self, bookie_id: str, *given: object) -> None:
            self.bookie_id = bookie_id
            lanes.append((bookie_id, *given))

        async def greet(self) -> tuple[Greeting, str]:
            nonlocal now, most
            now, most = now + 1, max(most, now + 1)
            asked.append(self.bookie_id)
            await asyncio.sleep(0)
            now -= 1
            return Greeting.REFUSED, f"no {self.bookie_id}"

        async def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(lane, "AsyncLane", BlockingLane)
    names = [f"b{n}" for n in range(3 * GREETED_AT_ONCE)]
    sentence = said(*(record(name, 1) for name in names))
    assert (most, asked) == (GREETED_AT_ONCE, names)
    assert [(name, "127.0.0.1", 1, LIMITS, 0, clock) for name in names] == lanes
    assert f"all {len(names)} bookies refuse" in sentence
    assert "(b0: no b0)" in sentence


def greeted(monkeypatch: pytest.MonkeyPatch, *greetings: tuple[Greeting, str]) -> list[int]:
    """Let the bookie at port 0, 1, ... greet like this; return the ports that are asked."""
    asked: list[int] = []

    class BlockingLane:
        def __init__(self, bookie_id: str, host: str, port: int, *given: object) -> None:
            self.port = port

        async def greet(self) -> tuple[Greeting, str]:
            asked.append(self.port)
            return greetings[self.port]

        async def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(lane, "AsyncLane", BlockingLane)
    return asked


AWAY = Greeting.SILENT, f"{NOT_DIALLED}no KDC"
NO = Greeting.REFUSED, "not admitted"


@pytest.mark.parametrize(
    "greetings", [[AWAY], [AWAY, AWAY], [AWAY, NO], [NO, AWAY], [NO, NO, AWAY]]
)
def test_bookies_that_nobody_can_dial_without_a_kdc_are_no_refusal(
    monkeypatch: pytest.MonkeyPatch, greetings: list[tuple[Greeting, str]]
) -> None:
    """Trying again helps when the KDC is back, whatever other bookies refused meanwhile."""
    greeted(monkeypatch, *greetings)
    bookies = [record(f"b{n}", n) for n in range(len(greetings))]
    error = asyncio.run(refusal_of_all(bookies, LIMITS, clock))
    assert isinstance(error, KdcUnreachable)
    name = f"b{greetings.index(AWAY)}"
    assert f"no bookie can be asked, so that nothing can be audited ({name}: not dialled" in str(
        error
    )


def test_a_bookie_that_answers_or_is_silent_while_a_kdc_is_away_lets_the_audit_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ticket for it may be in the cache."""
    for other in (Greeting.ANSWERED, ""), (Greeting.SILENT, "no connection"):
        greeted(monkeypatch, AWAY, other)
        assert said(record("b0", 0), record("b1", 1)) == ""


@pytest.mark.parametrize("away", [[*range(3 * GREETED_AT_ONCE)], [0], [1], [GREETED_AT_ONCE]])
def test_a_kdc_that_is_away_is_not_waited_for_by_each_group(
    monkeypatch: pytest.MonkeyPatch, away: list[int]
) -> None:
    """The first bookie, one group, and no more, however many of them refuse: a silent KDC takes
    25 s for each.
    """
    number = 3 * GREETED_AT_ONCE
    asked = greeted(monkeypatch, *(AWAY if n in away else NO for n in range(number)))
    bookies = [record(f"b{n}", n) for n in range(number)]
    assert isinstance(asyncio.run(refusal_of_all(bookies, LIMITS, clock)), KdcUnreachable)
    assert asked == list(range(1 + GREETED_AT_ONCE))


def test_a_cluster_without_bookies_refuses_nobody() -> None:
    """That is for the run to say."""
    assert said() == ""
    assert said(record("lost", None)) == ""
    assert said(BookieRecord("half", 0, 0, Registration.WRITABLE, "127.0.0.1", None)) == ""
