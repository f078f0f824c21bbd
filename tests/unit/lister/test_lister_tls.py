"""A lister inside TLS: it keeps the contract there, and says nothing outside of it."""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.bookie_contract import groups, listing, statuses
from support.command_line import command
from support.contract_of_listers import CASES_OF_LISTERS, check_lister
from support.lanes import BlockingLane
from support.listers import INSTANCE, ListerUnderTest, lister_command, lister_in_process
from support.pki import Pki
from support.raw_bookie import (
    BookieClosedConnection,
    RawBookie,
    frame,
    info_request,
    list_request,
    request,
    status_name,
)

from auditor.bookie.listers import ListerLane
from auditor.bookie.questions import ListQuestion
from auditor.config import BookieLimits
from auditor.config.access import BookieAccess, ServedTls, TlsFiles
from auditor.credentials.tls import RenewedContext, client_context
from auditor.model.availability import AnswerStatus, Greeting
from auditor.sandbox.listener import HOST
from auditor.wire.lister_fields import ListerIdentity

CANARY = "canary-of-a-lister"
IN_CLEAR_ONLY = "start_tls_is_a_bad_request_and_the_connection_stays_usable"
LIMITS = BookieLimits(
    rpc_timeout_ms=5_000, bookie_connect_timeout_ms=5_000, bookie_deadline_ms=60_000
)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


def client_files(pki: Pki, *, by: str | None = "ca", ca: str = "ca") -> TlsFiles:
    """What an audit has: a certificate signed `by` a CA (None: none), and whom it trusts."""
    files = TlsFiles("bookie", ca=str(pki.ca(ca)))
    if by is None:
        return files
    ours = pki.issue("auditor", by=by)
    return replace(files, certificate=str(ours.certificate), key=str(ours.key))


def served(pki: Pki, *, wants_certificate: bool = True) -> RenewedContext:
    own = pki.issue("lister")
    ca = str(pki.ca()) if wants_certificate else None
    return RenewedContext(ServedTls(str(own.certificate), "own", str(own.key), client_ca=ca))


@pytest.fixture(scope="module")
def lister(pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListerUnderTest]:
    """A lister that wants client certificates, and a client that has one."""
    context = client_context(client_files(pki))
    folder = tmp_path_factory.mktemp("lister")
    with lister_in_process(folder, tls=served(pki), context=context) as lister:
        yield lister


def ask(lister: ListerUnderTest, access: BookieAccess) -> tuple[Greeting, str, list[AnswerStatus]]:
    """Greet the lister as an audit does, and ask it for ledger 7."""
    identity = ListerIdentity(lister.bookie_id, INSTANCE)
    limits = replace(LIMITS, access=access)
    with BlockingLane(
        ListerLane(identity, (lister.host, lister.port), limits, 1, lambda: 1)
    ) as lane:
        greeting, why = lane.greet()
        return greeting, why, [one.status for one in lane.lists([ListQuestion(7)])]


@pytest.mark.parametrize("name", [one for one in CASES_OF_LISTERS if one != IN_CLEAR_ONLY])
def test_a_lister_keeps_the_contract_of_bookies_inside_tls(
    lister: ListerUnderTest, name: str
) -> None:
    """Each case as it is in clear; but for the one that TLS is not offered."""
    check_lister(name, lister)


def test_nothing_is_said_in_clear(lister: ListerUnderTest) -> None:
    """EUA to everything, as from a bookie that wants a login. The connection may ask for TLS."""
    lister.hold(7, (0, 9))
    assert lister.context is not None
    with RawBookie(lister.host, lister.port) as connection:
        for number, message in enumerate((info_request(3, 5), list_request(7, 6)), start=5):
            response = connection.ask(message)
            assert (status_name(response.status), response.header.txnId) == ("EUA", number)
            assert not response.HasField("getListOfEntriesOfLedgerResponse")
        wrong = connection.ask(request("AUTH", 7, version="VERSION_TWO"))
        assert "EBADVERSION" == status_name(wrong.status)
        connection.start_tls(lister.context)
        assert [(0, 0, 10, 0)] == groups(connection.ask(list_request(7, 8)))


def test_an_audit_asks_inside_tls(lister: ListerUnderTest, pki: Pki) -> None:
    """With the settings of TLS to listers; without them the reason names the setting."""
    lister.hold(7, (0, 9))
    secured = BookieAccess(lister_tls=client_files(pki))
    assert (Greeting.ANSWERED, "", [AnswerStatus.HELD]) == ask(lister, secured)
    greeting, why, _ = ask(lister, BookieAccess(tls=client_files(pki)))
    assert greeting is Greeting.REFUSED
    assert "answers inside TLS alone: set --lister-tls on" in why


@pytest.mark.parametrize("by", [None, "other"])
def test_a_client_without_a_certificate_of_the_right_ca_is_refused(
    lister: ListerUnderTest, pki: Pki, by: str | None
) -> None:
    """None at all, and one of another CA. Nothing is listed, and others are served on."""
    access = BookieAccess(lister_tls=client_files(pki, by=by))
    greeting, why, answers = ask(lister, access)
    assert greeting is Greeting.REFUSED, (greeting, why)
    assert "client certificate" in why or "refused our certificate" in why, why
    assert AnswerStatus.HELD not in answers
    assert "EOK" == listing(lister, 7)[0]


def test_a_lister_of_another_ca_is_not_asked(lister: ListerUnderTest, pki: Pki) -> None:
    """Another server in its place could hide a loss."""
    greeting, why, _ = ask(lister, BookieAccess(lister_tls=client_files(pki, ca="other")))
    assert (greeting, "not from a CA in --bookie-tls-ca" in why) == (Greeting.REFUSED, True)


def test_a_lister_without_tls_is_not_asked_in_clear(pki: Pki, tmp_path: Path) -> None:
    """Where the audit wants TLS. The sentence is about the lister and its setting."""
    with lister_in_process(tmp_path) as plain:
        greeting, why, _ = ask(plain, BookieAccess(lister_tls=client_files(pki)))
    assert greeting is Greeting.REFUSED
    assert "the lister offers no TLS, and with --lister-tls on it is not asked in clear" in why


def test_a_certificate_is_asked_for_only_where_it_is_wanted(pki: Pki, tmp_path: Path) -> None:
    """Without tlsClientAuthentication TLS alone is enough."""
    with lister_in_process(tmp_path, tls=served(pki, wants_certificate=False)) as lister:
        lister.hold(7, (0, 9))
        access = BookieAccess(lister_tls=client_files(pki, by=None))
        assert (Greeting.ANSWERED, "", [AnswerStatus.HELD]) == ask(lister, access)


@pytest.mark.parametrize("behind", [frame(info_request(3, 2)), b"\0", b"\0\0\0"])
def test_what_comes_in_clear_behind_start_tls_ends_the_connection(
    lister: ListerUnderTest, behind: bytes
) -> None:
    """It may come from another sender than the handshake. No request of it is answered."""
    with RawBookie(lister.host, lister.port) as connection:
        connection.send_bytes(frame(request("START_TLS", 1)) + behind)
        assert connection.is_closed_by_peer()


def test_a_renewed_certificate_counts_for_the_next_connection(pki: Pki, tmp_path: Path) -> None:
    """Listers run for months. While the files are bad nobody gets TLS, and nothing in clear."""
    old, new = pki.issue("old"), pki.issue("new", by="other")
    files = tmp_path / "lister.pem", tmp_path / "lister.key"
    for here, issued in zip(files, (old.certificate, old.key), strict=True):
        shutil.copy(issued, here)
    tls = RenewedContext(ServedTls(str(files[0]), "own", str(files[1])))
    trusting = {ca: client_context(client_files(pki, by=None, ca=ca)) for ca in ("ca", "other")}
    with lister_in_process(tmp_path / "it", tls=tls) as lister:
        assert "EOK" == info_inside(lister, trusting["ca"])
        for here, issued in zip(files, (new.certificate, new.key), strict=True):
            shutil.copy(issued, here)
            os.utime(here, ns=(1, 1))
        assert "EOK" == info_inside(lister, trusting["other"])
        files[0].write_text("no certificate")
        with pytest.raises(BookieClosedConnection):
            info_inside(lister, trusting["other"])


def info_inside(lister: ListerUnderTest, context: ssl.SSLContext) -> str:
    with RawBookie(lister.host, lister.port) as connection:
        connection.start_tls(context)
        return statuses(connection.ask(info_request(3, 2)), "getBookieInfoResponse")[0]


def test_the_command_takes_tls_from_the_bookies_configuration(pki: Pki, tmp_path: Path) -> None:
    """And shows the password of its key to nobody."""
    issued = pki.issue("command")
    password = tmp_path / "password"
    password.write_text(CANARY)
    with lister_in_process(tmp_path / "beside") as beside:
        conf = tmp_path / "bookkeeper.conf"
        lines = {
            "ledgerDirectories": beside.index.directory,
            "bookieId": beside.bookie_id,
            "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
            "tlsKeyStoreType": "PEM",
            "tlsKeyStore": issued.encrypted_key(CANARY),
            "tlsCertificatePath": issued.certificate,
            "tlsKeyStorePasswordPath": password,
            "tlsClientAuthentication": "true",
            "tlsTrustStore": pki.ca(),
        }
        conf.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        address = f"{HOST}:{beside.bookie_listener.port}"
        beside.hold(7, (0, 9))
        with lister_command("--bookkeeper-conf", str(conf), "--bookie-address", address) as where:
            host, port = where.rsplit(":", 1)
            own = replace(beside, host=host, port=int(port))
            own = replace(own, context=client_context(client_files(pki)))
            assert ("EOK", "EOK", True, [(0, 0, 10, 0)]) == listing(own, 7)
            assert "EUA" == listing(replace(own, context=None), 7)[0]
            command_lines = Path("/proc").glob("[0-9]*/cmdline")
            assert [] == [one for one in command_lines if CANARY.encode() in bytes_of(one)]
        password.write_text("wrong")
        done = command("lister", "--bookkeeper-conf", str(conf), "--listen", f"{HOST}:0")
    assert (2, "") == (done.returncode, done.stdout)
    assert "the password given is not that of the key" in done.stderr
    assert CANARY not in done.stderr


def bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # the process has ended
