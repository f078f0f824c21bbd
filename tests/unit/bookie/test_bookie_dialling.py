"""How a connection to a bookie becomes secure, and what is said of each refusal."""

from __future__ import annotations

import asyncio
import re
import shlex
import ssl
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.guarded_bookie import AUTH, CHALLENGE, START_TLS, USER, GuardedBookie
from support.lanes import BlockingLane
from support.pki import Pki
from support.scripted_bookie import INFO, Connection, info_answer

from auditor.bookie import dialling
from auditor.bookie.dialling import (
    AUTH_TIMEOUT_MAX_S,
    LOST_AFTER_HANDSHAKE,
    WANTS_ROLE,
    Dialler,
    Lost,
    Replies,
    require_ok,
)
from auditor.bookie.lane import AsyncLane, ListQuestion
from auditor.bookie.link import Link
from auditor.config import BookieLimits
from auditor.config.access import BookieAccess, SaslLogin, SecretSource, TlsFiles
from auditor.credentials import secret_reading
from auditor.credentials.tls import shared_context
from auditor.errors import BookieRefused, BookieUnreachable, ConfigError, PeerProtocolError
from auditor.model.availability import NOT_ADMITTED, AnswerStatus, Greeting
from auditor.wire.bookie_connection import Answered, AnswerTooLarge
from auditor.wire.frames import Operation, Status
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

PASSWORD = "pässword"
QUICK = BookieLimits(
    rpc_timeout_ms=20_000, bookie_connect_timeout_ms=10_000, bookie_deadline_ms=20_000
)
SHORT = replace(QUICK, rpc_timeout_ms=2_000)
"""For a bookie that is silent first, and answers then."""
SHORTEST = replace(QUICK, rpc_timeout_ms=400)
"""For a bookie that never answers."""

WORDS_FOR_OUR_CERTIFICATE = (
    "wants a client certificate",
    "refused our certificate",
    "our certificate has expired",
    "our certificate is not valid yet",
)


class Unused:
    """A listener of links on which nothing is asked."""

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: None


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def login(tmp_path: Path) -> SaslLogin:
    return user(tmp_path, PASSWORD)


def user(folder: Path, password: str, name: str = USER) -> SaslLogin:
    path = folder / f"{len(password)}.secret"
    path.write_text(password)
    return SaslLogin(
        name, SecretSource("the password for --bookie-sasl", "AUDITOR_X", file=str(path))
    )


def tls(pki: Pki, **files: Any) -> TlsFiles:
    return TlsFiles("bookie", **{"ca": str(pki.ca()), **files})


def lane(
    bookie: GuardedBookie,
    access: BookieAccess,
    host: str = "127.0.0.1",
    limits: BookieLimits = QUICK,
) -> BlockingLane:
    return BlockingLane(
        AsyncLane("b1", host, bookie.port, replace(limits, access=access), 1, lambda: 1)
    )


def greet(
    bookie: GuardedBookie,
    access: BookieAccess,
    host: str = "127.0.0.1",
    limits: BookieLimits = QUICK,
) -> tuple[Greeting, str]:
    with bookie, lane(bookie, access, host, limits) as one:
        return one.greet()


def refusal(
    bookie: GuardedBookie,
    access: BookieAccess,
    host: str = "127.0.0.1",
    limits: BookieLimits = QUICK,
) -> str:
    """Why the bookie was not talked to. It was dialled once: refused credentials are not tried
    again.
    """
    greeting, detail = greet(bookie, access, host, limits)
    assert greeting is Greeting.REFUSED, (greeting, detail)
    assert detail.startswith(NOT_ADMITTED)
    assert len(bookie.connections) <= 1
    return detail


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("wants_login", [False, True])
def test_a_bookie_is_asked_inside_tls_and_logged_in_there(
    pki: Pki, login: SaslLogin, version: ssl.TLSVersion, wants_login: bool
) -> None:
    """Only START_TLS goes in clear. The second answer to START_TLS is ignored. The user's name is
    not ASCII.
    """
    bookie = GuardedBookie(
        tls=pki.issue("b"), password=PASSWORD if wants_login else None, version=version
    )
    access = BookieAccess(tls(pki), login if wants_login else None)
    with bookie, lane(bookie, access) as one:
        answers = one.lists([ListQuestion(1), ListQuestion(2)])
        assert one.greeting()[0] is Greeting.ANSWERED
        probes = one.probes
    assert [answer.status for answer in answers] == [AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER]
    assert bookie.seen_in_clear == [START_TLS]
    assert probes == [operation for _, operation, _, _ in bookie.requests].count(INFO)


def test_a_login_without_tls_is_answered_like_one_inside(login: SaslLogin) -> None:
    """The password itself is never sent."""
    bookie = GuardedBookie(password=PASSWORD)
    with bookie, lane(bookie, BookieAccess(sasl=login)) as one:
        assert [answer.status for answer in one.lists([ListQuestion(1)])] == [AnswerStatus.HELD]


def test_a_bookie_that_wants_no_login_takes_ours(login: SaslLogin) -> None:
    """It answers AUTH with its plug-in AuthDisabledPlugin."""
    assert greet(GuardedBookie(), BookieAccess(sasl=login)) == (Greeting.ANSWERED, "")


def test_a_client_certificate_is_sent(pki: Pki) -> None:
    """And accepted, with TLS 1.3 after the handshake only."""
    ours = pki.issue("auditor")
    access = BookieAccess(tls(pki, certificate=str(ours.certificate), key=str(ours.key)))
    assert greet(GuardedBookie(tls=pki.issue("b"), ca=pki.ca()), access) == (Greeting.ANSWERED, "")


def test_a_bookie_without_tls_is_never_asked_in_clear(pki: Pki, login: SaslLogin) -> None:
    """No request and no login follows its refusal."""
    bookie = GuardedBookie(password=PASSWORD)
    assert "offers no TLS" in refusal(bookie, BookieAccess(tls(pki), login))
    assert [operation for _, operation, _, _ in bookie.requests] == [START_TLS]


def test_bytes_in_clear_behind_the_answer_to_start_tls_end_the_connection(pki: Pki) -> None:
    """Whoever can put them there could answer in the place of the bookie."""
    for injected in (info_answer(2), b"\0"):
        bookie = GuardedBookie(tls=pki.issue("b"), in_clear=injected)
        greeting, detail = greet(bookie, BookieAccess(tls(pki)))
        assert greeting is Greeting.REFUSED
        assert "broke the protocol" in detail
        assert len(bookie.connections) == QUICK.bookie_connect_attempts


@pytest.mark.parametrize(
    ("issued", "host", "why"),
    [
        ({"by": "other"}, "127.0.0.1", "not from a CA in --bookie-tls-ca"),
        ({"is_expired": True}, "127.0.0.1", "certificate has expired"),
        ({"san": "DNS:elsewhere"}, "127.0.0.1", "is for another name"),
        ({"san": "DNS:elsewhere"}, "localhost", "is for another name"),
    ],
)
def test_each_fault_of_the_bookies_certificate_has_its_word(
    pki: Pki, issued: Any, host: str, why: str
) -> None:
    """Unknown CA, expired, another name: and the name of an address is that of the address."""
    assert why in refusal(
        GuardedBookie(tls=pki.issue("faulty", **issued)), BookieAccess(tls(pki)), host
    )


def test_the_name_alone_may_be_left_unchecked(pki: Pki) -> None:
    """The CA is checked all the same."""
    access = BookieAccess(tls(pki, is_hostname_verified=False))
    assert (
        greet(GuardedBookie(tls=pki.issue("c", san="DNS:elsewhere")), access)[0]
        is Greeting.ANSWERED
    )
    assert "not from a CA" in refusal(
        GuardedBookie(tls=pki.issue("d", by="other", san="DNS:elsewhere")), access
    )


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("ours", "why"),
    [
        (None, "wants a client certificate"),
        ({"by": "other"}, "refused our certificate"),
        ({"is_expired": True}, "our certificate has expired"),
        ({"is_early": True}, "our certificate is not valid yet"),
    ],
)
def test_each_fault_of_our_certificate_has_its_word(
    pki: Pki, version: ssl.TLSVersion, ours: Any, why: str
) -> None:
    """Missing, of another CA, expired, not valid yet: each has its own word and no other. With TLS
    1.3 that comes after the handshake, or as a bare reset.
    """
    files: dict[str, str] = {}
    if ours is not None:
        issued = pki.issue("ours", **ours)
        files = {"certificate": str(issued.certificate), "key": str(issued.key)}
    bookie = GuardedBookie(tls=pki.issue("b"), ca=pki.ca(), version=version)
    greeting, detail = greet(bookie, BookieAccess(tls(pki, **files)))
    assert greeting is Greeting.REFUSED  # never silent, which would be a finding
    assert [word for word in WORDS_FOR_OUR_CERTIFICATE if word in detail] == [why], detail


@pytest.mark.parametrize("name", [USER, "nobody"])
@pytest.mark.parametrize("in_tls", [False, True])
def test_a_refused_login_is_reported_at_once_although_the_bookie_says_nothing(
    pki: Pki, tmp_path: Path, name: str, in_tls: bool
) -> None:
    """By the refusal of the request behind it, not by a time-out: nothing is awaited."""
    bookie = GuardedBookie(tls=pki.issue("b"), password=PASSWORD)
    login = user(tmp_path, "wrong" if name == USER else PASSWORD, name)
    detail = refusal(bookie, BookieAccess(tls(pki) if in_tls else None, login))
    assert "refused the user name or password" in detail


def test_a_bookie_that_cannot_prove_the_password_is_not_asked(login: SaslLogin) -> None:
    """Whoever is in its place would see what is audited."""
    bookie = GuardedBookie(password=PASSWORD, proof=b"rspauth=" + b"0" * 32)
    assert "could not prove that it knows the password" in refusal(bookie, BookieAccess(sasl=login))


@pytest.mark.parametrize("challenge", [None, b"\x60\x82\x02", b'realm="r"'])
def test_another_mechanism_is_reported(login: SaslLogin, challenge: bytes | None) -> None:
    """Of Kerberos, or of a plug-in that does not know SASL and stays silent."""
    bookie = GuardedBookie(password=PASSWORD, challenge=challenge)
    limits = SHORT if challenge is None else QUICK
    detail = refusal(bookie, BookieAccess(sasl=login), limits=limits)
    assert "does not offer SASL DIGEST-MD5" in detail


@pytest.mark.parametrize("plugin", ["", "sasl", "com.example.Other", "a" + "é" * 40])
def test_an_empty_challenge_is_no_proof_of_the_password(login: SaslLogin, plugin: str) -> None:
    """Only AuthDisabledPlugin says that no login is wanted."""
    bookie = GuardedBookie(password=PASSWORD)

    def say_nothing(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation != AUTH:
            return False
        bookie._say(connection, request.header.txnId, b"", plugin)
        return True

    bookie.act = say_nothing
    detail = refusal(bookie, BookieAccess(sasl=login))
    shown = plugin.encode()[:60].decode(errors="replace")
    assert (
        f"does not offer SASL DIGEST-MD5: its plug-in {shown!a} answered AUTH without a challenge"
        in detail
    )


def test_a_bookie_that_wants_no_login_and_refuses_all_the_same_is_reported(
    login: SaslLogin,
) -> None:
    """Another one stands behind AuthDisabledPlugin: nothing more is asked."""
    bookie = GuardedBookie()
    guard = bookie.act

    def refuse(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation != INFO:
            return guard(connection, request)
        connection.send(info_answer(request.header.txnId, pb.EUA))
        return True

    bookie.act = refuse
    detail = refusal(bookie, BookieAccess(sasl=login))
    assert "EUA: the bookie accepted the login and still does not let this client ask" in detail


def test_a_challenge_that_comes_late_is_no_refusal(login: SaslLogin) -> None:
    """A bookie in a pause of its garbage collection is slow. The next connection may find it
    quicker.
    """
    bookie = GuardedBookie(password=PASSWORD)
    guard = bookie.act
    late: list[pb.Request] = []

    def be_slow_at_first(connection: Connection, request: pb.Request) -> bool:
        if connection.number == bookie.connections[0].number:
            if request.header.operation == AUTH:
                late.append(request)
                return True
            return guard(connection, late.pop()) and guard(connection, request)
        return guard(connection, request)

    bookie.act = be_slow_at_first
    assert greet(bookie, BookieAccess(sasl=login), limits=SHORT) == (Greeting.ANSWERED, "")
    assert len(bookie.connections) == 2


def test_failures_before_a_success_do_not_count(pki: Pki, login: SaslLogin) -> None:
    """A bookie that is restarted now and then is not refused for good after a day."""
    bookie = GuardedBookie(password=PASSWORD)
    guard = bookie.act
    lost = [True]

    def lose_answers(connection: Connection, request: pb.Request) -> bool:
        if lost[0] and request.header.operation == AUTH and request.authRequest.payload:
            connection.reset()
            return True
        return guard(connection, request)

    async def dial_by_turns() -> None:
        dialler = Dialler(
            ("127.0.0.1", bookie.port), replace(QUICK, access=BookieAccess(sasl=login))
        )
        for _ in range(3):
            lost[0] = True
            for _ in range(QUICK.bookie_connect_attempts - 1):
                with pytest.raises(BookieUnreachable):
                    await dialler.open(Unused())
            lost[0] = False
            (await dialler.open(Unused())).abort()

    bookie.act = lose_answers
    with bookie:
        asyncio.run(dial_by_turns())


@pytest.mark.parametrize("in_tls", [False, True])
def test_a_bookie_that_says_nothing_at_all_is_silent_and_not_refusing(
    pki: Pki, login: SaslLogin, in_tls: bool
) -> None:
    """A paused process accepts connections and answers nothing: that is a finding, and no fault of
    ours.
    """
    bookie = GuardedBookie(tls=pki.issue("b"), password=PASSWORD)
    bookie.act = lambda connection, request: True
    access = BookieAccess(tls(pki) if in_tls else None, login)
    greeting, _ = greet(bookie, access, limits=SHORTEST)
    assert greeting is Greeting.SILENT


def test_a_bookie_that_loses_each_secured_connection_is_not_called_silent(pki: Pki) -> None:
    """It answers START_TLS: a bare reset can be its refusal of our certificate. Unknown, not a
    finding.
    """
    bookie = GuardedBookie(tls=pki.issue("b"))
    guard = bookie.act

    def lose_what_comes_inside(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation == START_TLS:
            return guard(connection, request)
        connection.reset()
        return True

    bookie.act = lose_what_comes_inside
    greeting, detail = greet(bookie, BookieAccess(tls(pki)))
    assert greeting is Greeting.REFUSED
    assert LOST_AFTER_HANDSHAKE in detail
    assert len(bookie.connections) == QUICK.bookie_connect_attempts


def test_a_login_that_is_not_given_is_asked_for(pki: Pki) -> None:
    """A bookie that wants one refuses every request, also inside TLS."""
    bookie = GuardedBookie(tls=pki.issue("b"), password=PASSWORD)
    assert f"{NOT_ADMITTED}{WANTS_ROLE}" == refusal(bookie, BookieAccess(tls(pki)))


def test_our_own_files_are_read_when_the_bookie_is_dialled(pki: Pki, tmp_path: Path) -> None:
    """Where an executor lacks one, that bookie is not asked, and the file is named."""
    bookie = GuardedBookie(tls=pki.issue("b"))
    assert "none.pem cannot be read" in refusal(
        bookie, BookieAccess(tls(pki, ca=str(tmp_path / "none.pem")))
    )
    assert not bookie.connections


def test_a_command_for_a_secret_does_not_hold_up_other_conversations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends when another task of the loop has done its part, so it must not stop the loop."""
    monkeypatch.setattr(secret_reading, "COMMAND_TIMEOUT_S", 30.0)
    there = tmp_path / "there"
    wait = (
        f"import pathlib, time\nwhile not pathlib.Path({str(there)!r}).exists(): time.sleep(0.01)"
    )
    program = f"{wait}\nprint({PASSWORD!r})"
    command = shlex.join([sys.executable, "-X", "utf8", "-c", program])
    login = SaslLogin(USER, SecretSource("the password", "AUDITOR_X", command=command))
    bookie = GuardedBookie(password=PASSWORD)

    async def answer_the_command() -> None:
        there.touch()

    async def dial() -> None:
        dialler = Dialler(
            ("127.0.0.1", bookie.port), replace(QUICK, access=BookieAccess(sasl=login))
        )
        link, _ = await asyncio.gather(dialler.open(Unused()), answer_the_command())
        link.abort()

    with bookie:
        asyncio.run(dial())


def test_credentials_are_read_once_for_a_bookie(
    pki: Pki, login: SaslLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command for a secret may take seconds, and a bookie is dialled again after each loss. What
    fails is tried again.
    """
    read: list[str] = []
    faults = [ConfigError("the vault is sealed")]

    def read_secret(source: SecretSource) -> str:
        read.append(source.what)
        if faults:
            raise faults.pop()
        return secret_reading.read_secret(source)

    async def dial(access: BookieAccess) -> None:
        dialler = Dialler(("127.0.0.1", bookie.port), replace(QUICK, access=access))
        if faults:
            with pytest.raises(BookieRefused, match="the vault is sealed"):
                await dialler.open(Unused())
        for _ in range(2):
            (await dialler.open(Unused())).abort()

    monkeypatch.setattr(dialling, "read_secret", read_secret)
    monkeypatch.setattr(
        dialling, "shared_context", lambda files: (read.append("tls"), shared_context(files))[1]
    )
    with GuardedBookie(tls=pki.issue("b"), password=PASSWORD) as bookie:
        asyncio.run(dial(BookieAccess(tls(pki), login)))
    assert read == ["tls", login.password.what] * 2
    read.clear()
    with GuardedBookie(tls=pki.issue("b")) as bookie:
        asyncio.run(dial(BookieAccess(tls(pki))))
    assert read == ["tls"]


def test_the_handshake_of_tls_has_the_time_for_connecting(
    pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing more is read in clear once the bookie agreed to it."""
    asked: list[Any] = []
    stop_reading = Link.stop_reading

    async def start_tls(self: Link, context: ssl.SSLContext, host: str, timeout_s: float) -> None:
        asked.append((host, timeout_s))
        raise OSError("no handshake")

    async def dial() -> None:
        with pytest.raises(BookieUnreachable, match="no handshake"):
            await Dialler(
                ("127.0.0.1", bookie.port), replace(QUICK, access=BookieAccess(tls(pki)))
            ).open(Unused())

    monkeypatch.setattr(Link, "start_tls", start_tls)
    monkeypatch.setattr(
        Link, "stop_reading", lambda self: (asked.append("stopped"), stop_reading(self))[1]
    )
    with GuardedBookie(tls=pki.issue("b")) as bookie:
        asyncio.run(dial())
    assert asked == ["stopped", ("127.0.0.1", QUICK.bookie_connect_timeout_ms / 1000)]


def test_each_login_has_a_nonce_of_its_own(login: SaslLogin) -> None:
    """32 hex digits, at random: with one that can be foreseen a proof could be prepared."""
    bookie = GuardedBookie(password=PASSWORD)
    guard, nonces = bookie.act, []

    def note_nonces(connection: Connection, request: pb.Request) -> bool:
        nonces.extend(re.findall(rb'cnonce="([0-9a-f]{32})"', request.authRequest.payload))
        return guard(connection, request)

    bookie.act = note_nonces
    with bookie:
        for _ in range(2):
            with lane(bookie, BookieAccess(sasl=login)) as one:
                assert one.greet() == (Greeting.ANSWERED, "")
    assert len(set(nonces)) == 2


@pytest.mark.parametrize(
    ("operation", "name"), [(Operation.START_TLS, "START_TLS"), (Operation.AUTH, "AUTH")]
)
def test_a_status_that_is_no_refusal_is_reported_with_what_it_answers(
    operation: Operation, name: str
) -> None:
    """The bookie may be starting: it is worth trying again."""
    with pytest.raises(BookieUnreachable, match=f"^the bookie answered EIO to {name}$"):
        require_ok(Answered(1, operation, Status.EIO, b"", 0, False))


@pytest.mark.parametrize(
    ("happen", "raised", "says"),
    [
        (
            lambda replies: replies.on_answers(None, [AnswerTooLarge(1, 9, 10**7, False)]),
            PeerProtocolError,
            "10000000 bytes",
        ),
        (
            lambda replies: replies.on_lost(None, "garbage", breach=True),
            PeerProtocolError,
            "garbage",
        ),
        (lambda replies: replies.on_lost(None, "reset", breach=False), Lost, "reset"),
        (lambda replies: replies.on_failed(KeyError("ours")), KeyError, "ours"),
    ],
)
def test_what_ends_a_connection_that_is_secured_ends_the_wait(
    happen: Callable[[Any], None], raised: type[Exception], says: str
) -> None:
    """With its own reason, whether it came before the wait or during it. What came first counts."""

    async def wait(*, has_happened: bool) -> None:
        replies = Replies(30.0)
        if has_happened:
            happen(replies)
            replies.on_lost(None, "later", breach=True)  # type: ignore[arg-type]
        else:
            asyncio.get_running_loop().call_soon(happen, replies)
        with pytest.raises(raised, match=says):
            await replies.next()

    for has_happened in (True, False):
        asyncio.run(wait(has_happened=has_happened))


def test_a_refused_certificate_is_not_a_missing_one(pki: Pki) -> None:
    """What to do differs: give one, or give another one."""
    alert = ssl.SSLError(1, "BAD_CERTIFICATE")
    alert.reason = "BAD_CERTIFICATE"
    ours = pki.issue("ours")
    given = {"certificate": str(ours.certificate), "key": str(ours.key)}
    for files, word in (({}, "wants a client certificate"), (given, "refused our certificate")):
        limits = replace(QUICK, access=BookieAccess(tls(pki, **files)))
        assert word in str(Dialler(("b1.example", 3181), limits)._after_loss(alert))


@pytest.mark.parametrize(("rpc_timeout_ms", "answer_s"), [(400, 0.4), (60_000, AUTH_TIMEOUT_MAX_S)])
def test_a_connection_is_opened_and_secured_in_the_time_that_is_set(
    monkeypatch: pytest.MonkeyPatch, login: SaslLogin, rpc_timeout_ms: int, answer_s: float
) -> None:
    """Secured or not. Nobody waits for AUTH as long as for a list."""
    asked: list[tuple[Any, ...]] = []

    async def open_link(*given: Any) -> None:
        asked.append(given)
        raise BookieUnreachable("nobody is there")

    async def dial(access: BookieAccess) -> None:
        limits = BookieLimits(
            rpc_timeout_ms=rpc_timeout_ms, bookie_connect_timeout_ms=2_500, access=access
        )
        with pytest.raises(BookieUnreachable, match="nobody is there"):
            await Dialler(("b1.example", 3181), limits).open(listener)

    listener = Unused()
    monkeypatch.setattr(dialling, "open_link", open_link)
    for access in (BookieAccess(), BookieAccess(sasl=login)):
        asyncio.run(dial(access))
    (plain, *where), (replies, *same) = asked
    assert ["b1.example", 3181, BookieLimits().frame_bytes_max, 2.5] == where == same
    assert (listener, answer_s) == (plain, replies._timeout_s)


def test_the_challenge_is_waited_for_a_few_seconds_at_most() -> None:
    """However long a list may take."""
    assert AUTH_TIMEOUT_MAX_S == 5.0
    assert CHALLENGE.startswith(b"realm=")
