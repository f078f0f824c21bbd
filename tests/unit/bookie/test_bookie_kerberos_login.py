"""How we log in to a bookie with a ticket, and what is said of each refusal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.guarded_bookie import AUTH, GuardedBookie
from support.kerberos import Kdc, require_kerberos
from support.kerberos_bookie import KerberosBookie
from support.lanes import BlockingLane
from support.scripted_bookie import INFO, Connection, ScriptedBookie, frame
from support.scripted_bookie import answer as scripted_answer

from auditor.bookie import dialling
from auditor.bookie.dialling import ROUNDS_MAX, STILL_UNAUTHORISED, GssapiLogin
from auditor.bookie.lane import AsyncLane, ListQuestion
from auditor.config import BookieLimits
from auditor.config.access import BookieAccess, KerberosLogin
from auditor.credentials import kerberos
from auditor.credentials.kerberos import KerberosExchange
from auditor.errors import BookieUnreachable
from auditor.model.availability import NOT_ADMITTED, NOT_DIALLED, AnswerStatus, Greeting
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

SERVER, OURS = "bookkeeper/localhost", "bookkeeper-auditor"
QUICK = BookieLimits(
    rpc_timeout_ms=20_000, bookie_connect_timeout_ms=10_000, bookie_deadline_ms=20_000
)
SHORT = replace(QUICK, rpc_timeout_ms=2_000)
"""For a bookie that says nothing to our ticket, and answers the next request."""


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    require_kerberos()
    with Kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        kdc.add(SERVER)
        kdc.add(OURS)
        yield kdc


@pytest.fixture(autouse=True)
def realm(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is in the realm, and no failure is remembered."""
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.config))
    monkeypatch.setattr(kerberos, "_failed", {})


@pytest.fixture
def login(kdc: Kdc) -> KerberosLogin:
    return KerberosLogin("bookie", "bookkeeper", keytab=str(kdc.folder / f"{OURS}.keytab"))


@pytest.fixture
def keytab(kdc: Kdc) -> Path:
    return kdc.folder / "bookkeeper-localhost.keytab"


def lane(
    bookie: ScriptedBookie, login: KerberosLogin, limits: BookieLimits = QUICK
) -> BlockingLane:
    limits = replace(limits, access=BookieAccess(sasl=login))
    return BlockingLane(AsyncLane("b1", "localhost", bookie.port, limits, 1, lambda: 1))


def refusal(bookie: ScriptedBookie, login: KerberosLogin, limits: BookieLimits = QUICK) -> str:
    """Why the bookie was not talked to. It was dialled once at most."""
    with bookie, lane(bookie, login, limits) as one:
        greeting, detail = one.greet()
    assert greeting is Greeting.REFUSED, (greeting, detail)
    assert detail.startswith(NOT_ADMITTED)
    assert len(bookie.connections) <= 1
    return detail


def test_a_bookie_is_asked_once_it_accepted_our_ticket(login: KerberosLogin, keytab: Path) -> None:
    """Three messages, and each GET_BOOKIE_INFO behind them is counted."""
    bookie = KerberosBookie(keytab)
    with bookie, lane(bookie, login) as one:
        answers = one.lists([ListQuestion(1), ListQuestion(2)])
        assert one.greeting()[0] is Greeting.ANSWERED
        probes = one.probes
    assert [answer.status for answer in answers] == [AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER]
    assert [len(token) > 0 for token in bookie.tokens] == [True, False, True]
    assert probes == [operation for _, operation, _, _ in bookie.requests].count(INFO)


def test_each_connection_has_a_ticket_of_its_own(login: KerberosLogin, keytab: Path) -> None:
    """A message that is sent again would be refused as a replay."""
    bookie = KerberosBookie(keytab)

    async def dial() -> None:
        limits = replace(QUICK, access=BookieAccess(sasl=login))
        dialler = dialling.Dialler(("localhost", bookie.port), limits)
        for _ in range(2):
            (await dialler.open(Unused())).abort()

    with bookie:
        asyncio.run(dial())
    first, second = bookie.tokens[0], bookie.tokens[3]
    assert first != second


class Unused:
    """A listener of links on which nothing is asked."""

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: None


def test_a_bookie_that_wants_no_login_takes_our_ticket(login: KerberosLogin) -> None:
    """It answers AUTH with its plug-in AuthDisabledPlugin."""
    bookie = GuardedBookie()
    with bookie, lane(bookie, login) as one:
        assert one.greet() == (Greeting.ANSWERED, "")


def test_a_principal_that_is_not_admitted_is_reported_without_waiting(
    login: KerberosLogin, keytab: Path
) -> None:
    """The bookie never answers our last message. The request behind it does."""
    assert "accepted our ticket, and refuses our principal" in refusal(
        KerberosBookie(keytab, admits=False), login
    )


@pytest.mark.parametrize(
    ("admits", "greeting"),
    [
        (True, (Greeting.ANSWERED, "")),
        (False, (Greeting.REFUSED, f"{NOT_ADMITTED}{dialling.NOT_ALLOWED}")),
    ],
)
def test_a_bookie_that_answers_our_last_message_is_believed_by_what_it_does(
    login: KerberosLogin, keytab: Path, admits: bool, greeting: tuple[Greeting, str]
) -> None:
    """The request behind it tells, as it does of one that says nothing."""
    bookie = KerberosBookie(keytab, admits=admits, last_reply=b"")
    with bookie, lane(bookie, login) as one:
        assert one.greet() == greeting


def test_an_error_to_our_last_message_may_pass(login: KerberosLogin, keytab: Path) -> None:
    """The bookie may be starting: it is dialled again."""
    bookie = KerberosBookie(keytab, last_reply=pb.EIO)
    limits = replace(QUICK, access=BookieAccess(sasl=login))

    async def dial() -> None:
        await dialling.Dialler(("localhost", bookie.port), limits).open(Unused())

    with bookie, pytest.raises(BookieUnreachable, match="answered EIO to AUTH"):
        asyncio.run(dial())


def test_a_bookie_that_wants_no_login_and_refuses_all_the_same_is_reported(
    login: KerberosLogin, keytab: Path
) -> None:
    """Its plug-in AuthDisabledPlugin took our ticket for a login."""
    bookie = KerberosBookie(keytab)
    guard = bookie.act

    def want_no_login(connection: Any, request: pb.Request) -> bool:
        if request.header.operation != AUTH:
            return guard(connection, request)
        message = scripted_answer(AUTH, request.header.txnId, pb.EOK)
        message.authResponse.authPluginName = "AuthDisabledPlugin"
        message.authResponse.payload = b""
        connection.send(frame(message))
        return True

    bookie.act = want_no_login
    assert refusal(bookie, login) == f"{NOT_ADMITTED}{STILL_UNAUTHORISED}"


def test_a_ticket_that_is_not_accepted_is_distinguished_from_another_mechanism(
    login: KerberosLogin, keytab: Path
) -> None:
    """A bookie says nothing to the one, and answers with its challenge where it has the other."""
    silent = KerberosBookie(keytab, replies=(None,))
    said = refusal(silent, login, SHORT)
    assert "did not accept our ticket for bookkeeper/localhost" in said
    assert "clock" in said
    assert len(silent.tokens) == 1
    digest = KerberosBookie(keytab, offers_digest=True)
    assert "does not offer SASL GSSAPI, but DIGEST-MD5" in refusal(digest, login)


@pytest.mark.parametrize(
    ("replies", "word"),
    [
        ((pb.EUA,), "does not offer SASL GSSAPI (EUA to AUTH)"),
        ((b"garbage",), "could not prove that it has the key of bookkeeper/localhost"),
        ((b"",), "answered AUTH without a challenge"),
    ],
)
def test_each_other_answer_has_its_word(
    login: KerberosLogin, keytab: Path, replies: tuple[Any, ...], word: str
) -> None:
    """Another plug-in, another server in its place, no token at all."""
    assert word in refusal(KerberosBookie(keytab, replies=replies), login)


def test_a_bookie_that_refuses_after_its_first_token_is_refused(
    login: KerberosLogin, keytab: Path
) -> None:
    """EUA in the place of its offer."""
    bookie = KerberosBookie(keytab)
    guard, auths = bookie.act, []

    def refuse_second(connection: Any, request: pb.Request) -> bool:
        if request.header.operation == AUTH:
            auths.append(request)
            if len(auths) == 2:
                bookie._say(connection, request.header.txnId, pb.EUA)
                return True
        return guard(connection, request)

    bookie.act = refuse_second
    assert "did not accept our ticket" in refusal(bookie, login)


def test_a_bookie_that_never_ends_the_login_is_left(
    login: KerberosLogin, keytab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer is a request of ours: the number is bounded."""
    monkeypatch.setattr(KerberosExchange, "respond", lambda self, token: b"again")
    bookie = KerberosBookie(keytab, replies=(b"token",) * 10)
    assert f"answered {ROUNDS_MAX} times and came to no end" in refusal(bookie, login)
    assert len(bookie.tokens) == ROUNDS_MAX + 1


def test_without_a_ticket_the_bookie_is_not_dialled(login: KerberosLogin, keytab: Path) -> None:
    """The KDC knows no such server: nothing is asked of the bookie."""
    bookie = KerberosBookie(keytab)
    said = refusal(bookie, replace(login, service="nobody"))
    assert "no Kerberos ticket for this bookie: the KDC knows no principal nobody/localhost" in said
    assert not bookie.connections


def test_a_bookie_is_asked_when_the_kdc_is_back(
    kdc: Kdc, keytab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A KDC that is away for a moment costs an attempt, and the bookie is not dialled for it."""
    own = KerberosLogin("bookie", "bookkeeper", keytab=str(kdc.add("bookkeeper-late")))
    bookie, failures = KerberosBookie(keytab), []
    prepare = GssapiLogin.prepare

    async def prepare_or_start_the_kdc(login: GssapiLogin) -> None:
        try:
            await prepare(login)
        except BookieUnreachable as error:
            failures.append(error)
            kdc.start()
            raise

    monkeypatch.setattr(GssapiLogin, "prepare", prepare_or_start_the_kdc)
    kdc.stop()
    with bookie, lane(bookie, own) as one:
        assert one.greet() == (Greeting.ANSWERED, "")
    assert len(failures) == 1
    assert len(bookie.connections) == 1


def test_a_bookie_without_a_kdc_is_unreachable_and_not_refused(kdc: Kdc, keytab: Path) -> None:
    """After the attempts of any bookie that cannot be reached. It is not dialled once."""
    own = KerberosLogin("bookie", "bookkeeper", keytab=str(kdc.add("bookkeeper-lonely")))
    bookie = KerberosBookie(keytab)
    with kdc.away(), bookie, lane(bookie, own) as one:
        [answer] = one.lists([ListQuestion(1)])
        greeting, detail = one.greeting()
    assert (answer.status, greeting) == (AnswerStatus.SILENT, Greeting.SILENT)
    assert answer.detail == detail
    said = f"{NOT_DIALLED}no Kerberos ticket for {SERVER}: no KDC of the realm answered"
    assert detail.startswith(said)
    assert "AUDITOR.TEST" in detail
    assert detail.endswith("(3 attempts)")
    assert not bookie.connections


def test_a_kdc_that_is_awaited_does_not_hold_up_other_conversations(
    login: KerberosLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ticket comes when another task of the loop has done its part."""
    may_come = threading.Event()

    def start(self: KerberosExchange) -> bytes:
        assert may_come.wait(20)
        return b"token"

    async def let_it_come() -> None:
        may_come.set()

    async def prepare() -> None:
        await asyncio.gather(GssapiLogin(login, "localhost").prepare(), let_it_come())

    monkeypatch.setattr(KerberosExchange, "start", start)
    asyncio.run(prepare())


def test_a_kdc_that_says_nothing_is_given_up(
    login: KerberosLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the named time, and nobody waits for the thread that still asks."""
    may_end = threading.Event()
    monkeypatch.setattr(KerberosExchange, "start", lambda self: may_end.wait(60) and b"")
    monkeypatch.setattr(dialling, "TICKET_TIMEOUT_S", 0.05)
    unhandled: list[object] = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    said = rf"^{NOT_DIALLED}no Kerberos ticket for bookkeeper/b1: .* not answer within 0\.05 s$"
    with pytest.raises(BookieUnreachable, match=said):
        asyncio.run(GssapiLogin(login, "b1").prepare())
    asking = [thread for thread in threading.enumerate() if thread.name == "kerberos"]
    assert asking and all(thread.daemon for thread in asking)
    may_end.set()
    for thread in asking:
        thread.join(20)
    assert not unhandled, "an answer that comes too late troubles nobody"


def test_a_deadline_that_passes_while_a_kdc_is_awaited_says_nothing_of_the_bookie(
    login: KerberosLogin, keytab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its detail says that it was not dialled, and no finding accuses such a bookie."""
    may_end = threading.Event()
    monkeypatch.setattr(KerberosExchange, "start", lambda self: may_end.wait(60) and b"")
    limits = replace(QUICK, bookie_deadline_ms=3_000, access=BookieAccess(sasl=login))
    bookie = KerberosBookie(keytab)
    with (
        bookie,
        BlockingLane(AsyncLane("b1", "localhost", bookie.port, limits, 1, lambda: 1)) as one,
    ):
        greeting = one.greet()
    may_end.set()
    said = "no KDC gave us a Kerberos ticket before the conversation's deadline of 3000 ms passed"
    assert (Greeting.SILENT, f"{NOT_DIALLED}{said}") == greeting
    assert not bookie.connections


def test_a_bookie_that_was_dialled_before_a_kdc_is_awaited_is_silent(
    login: KerberosLogin, keytab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closed its first connection: that says something of the bookie."""
    may_end = threading.Event()
    tickets = iter([lambda: b"token", lambda: may_end.wait(60) and b""])
    monkeypatch.setattr(KerberosExchange, "start", lambda self: next(tickets)())
    limits = replace(QUICK, bookie_deadline_ms=3_000, access=BookieAccess(sasl=login))
    bookie = KerberosBookie(keytab)
    bookie.greet = Connection.close
    with (
        bookie,
        BlockingLane(AsyncLane("b1", "localhost", bookie.port, limits, 1, lambda: 1)) as one,
    ):
        greeting = one.greet()
    may_end.set()
    said = "the conversation's deadline of 3000 ms passed"
    assert (Greeting.SILENT, said) == greeting
    assert 1 == len(bookie.connections)


def test_a_bookie_that_says_nothing_to_our_ticket_until_the_deadline_is_silent(
    login: KerberosLogin, keytab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We had a ticket and dialled: nothing is left that a KDC could be blamed for."""
    monkeypatch.setattr(KerberosExchange, "start", lambda self: b"token")
    bookie = KerberosBookie(keytab, replies=(None,))
    with bookie, lane(bookie, login, replace(QUICK, bookie_deadline_ms=3_000)) as one:
        greeting = one.greet()
    assert (Greeting.SILENT, "the conversation's deadline of 3000 ms passed") == greeting
    assert 1 == len(bookie.connections)


def test_a_fault_of_ours_in_the_thread_is_raised(
    login: KerberosLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken for a KDC that says nothing."""

    def start(self: KerberosExchange) -> bytes:
        raise KeyError("ours")

    monkeypatch.setattr(KerberosExchange, "start", start)
    with pytest.raises(KeyError, match="ours"):
        asyncio.run(GssapiLogin(login, "b1").prepare())
