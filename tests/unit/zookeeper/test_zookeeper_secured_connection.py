"""What is kept of the reasons for which servers refuse, and when waiting is of no use."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest
from kazoo.exceptions import AuthFailedError, NoAuthError, SessionClosedRequireSaslError
from support.pki import Pki

from auditor.config.access import SecretSource, TlsFiles, ZooKeeperAccess
from auditor.credentials.tls_context import client_context
from auditor.errors import StoreUnavailable
from auditor.zookeeper.kazoo_threads import KazooThreads
from auditor.zookeeper.multi_read import AUTH_FAILED, CONNECTION_LOSS, SASL_REQUIRED
from auditor.zookeeper.secured_connection import (
    WANTS_SASL,
    WRONG_LOGIN,
    Credentials,
    Refusals,
    await_unless_refused,
    is_refusal,
)

ONE, TWO = ("h1", 2281), ("h2", 2281)
WAIT_S = 10.0


def test_only_refusals_of_every_server_end_the_wait() -> None:
    """One server may have a bad certificate; what may pass does not count."""
    refusals = Refusals()
    refusals.note(ONE, "first")
    refusals.suspect("perhaps")
    assert (refusals.last, refusals.has_all([ONE, TWO]), refusals.has_all([])) == ("perhaps", False, False)
    refusals.note(TWO, "second")
    assert (refusals.last, refusals.has_all([ONE, TWO])) == ("second", True)
    assert not await_unless_refused(threading.Event(), refusals, [ONE, TWO], 1_000)
    refusals.clear()
    assert (refusals.last, refusals.has_all([ONE])) == ("", False)


def test_a_connection_that_stands_ends_the_wait_too() -> None:
    """And time does."""
    live = threading.Event()
    assert not await_unless_refused(live, Refusals(), [ONE], 0.05)
    live.set()
    assert await_unless_refused(live, Refusals(), [ONE], 1_000)


def test_a_refused_session_is_what_its_lost_reads_say() -> None:
    """A refused request is not: NoAuth is about one znode."""
    refusals = Refusals()
    refusals.note_error(NoAuthError())
    assert (refusals.last, refusals.loss_code) == ("", CONNECTION_LOSS)
    refusals.note_error(SessionClosedRequireSaslError())
    assert (refusals.last, refusals.loss_code) == (WANTS_SASL, SASL_REQUIRED)
    refusals.clear()
    assert refusals.loss_code == CONNECTION_LOSS
    refusals.note_error(AuthFailedError())
    assert (refusals.last, refusals.loss_code) == (WRONG_LOGIN, AUTH_FAILED)
    refusals.note(ONE, "why")
    refusals.note_error(AuthFailedError())
    assert refusals.last == "why"
    errors = (AuthFailedError(), SessionClosedRequireSaslError(), NoAuthError())
    assert [is_refusal(error) for error in errors] == [True, True, False]


def test_credentials_that_cannot_be_read_make_the_store_unavailable() -> None:
    """In a task of Spark that is an error which ends the job with its sentence."""
    missing = SecretSource("the digest", "AUDITOR_X", file="/no/such/file")
    with pytest.raises(StoreUnavailable, match="our credentials for ZooKeeper could not be read: the file with the digest"):
        Credentials(ZooKeeperAccess(digest=missing))


def test_bytes_that_tls_has_decrypted_are_not_waited_for(tmp_path: Path) -> None:
    """A server may put several replies into one record: the second is here, and nothing more comes from the network."""
    pki = Pki(tmp_path / "pki")
    issued = pki.issue("server")
    ours, theirs = socket.socketpair()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(issued.certificate, issued.key)

    def serve() -> None:
        with serving.wrap_socket(theirs, server_side=True) as server:
            server.sendall(b"firstsecond")
            over.wait(WAIT_S)

    over = threading.Event()
    thread = threading.Thread(target=serve)
    thread.start()
    context = client_context(TlsFiles("zookeeper", ca=str(pki.ca()), is_hostname_verified=False))
    handler = KazooThreads(context)
    with context.wrap_socket(ours) as client:
        assert client.recv(5) == b"first"
        assert handler.select([client], [], [], 0.0) == ([client], [], [])
        assert client.recv(6) == b"second"
        assert handler.select([client], [], [], 0.0) == ([], [], [])
        over.set()
    thread.join()
