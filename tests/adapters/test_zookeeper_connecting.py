"""Connecting to ZooKeeper, and the errors when that fails."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import GetData
from support.real_processes import free_port
from support.zookeeper_process import ZooKeeperProcess, zookeeper
from support.zookeeper_proxy import refusing
from support.zookeeper_znodes import QUICK, STEADY, Znodes, ledger_bytes, uri

from auditor.errors import StoreUnavailable
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import open_store
from auditor.zookeeper.session import connect

IMPATIENT = replace(QUICK, zookeeper_connect_timeout_ms=3_000)


@pytest.mark.timeout(60)
def test_hosts_that_do_not_answer_are_named(server: ZooKeeperProcess) -> None:
    """The error says which hosts, what was seen last, and what to do."""
    hosts = f"127.0.0.1:{free_port()},localhost:{free_port()}"
    with pytest.raises(StoreUnavailable, match="did not let us connect within 3000 ms") as raised:
        connect(uri(hosts, "/ledgers"), IMPATIENT)
    for expected in (*hosts.split(","), "refused", "check the hosts in the metadata service URI"):
        assert expected in str(raised.value)


@pytest.mark.timeout(60)
def test_a_host_without_address_is_unavailable() -> None:
    """A name that cannot be resolved is the same error, and the name is in it."""
    with pytest.raises(StoreUnavailable, match=r"Cannot resolve no-such-host\.invalid"):
        connect(uri("no-such-host.invalid:2181", "/ledgers"), IMPATIENT)


@pytest.mark.timeout(60)
def test_one_host_that_answers_is_enough(server: ZooKeeperProcess, tree: Znodes) -> None:
    """A dead server in the list does not matter."""
    hosts = f"127.0.0.1:{free_port()},{server.hosts}"
    with connect(uri(hosts, "/ledgers"), QUICK) as session:
        assert session.is_connected


@pytest.mark.timeout(60)
def test_a_server_without_its_quorum_is_not_read(tmp_path: Path) -> None:
    """A server that serves read-only because its quorum is gone may be arbitrarily stale: it does
    not count as a metadata service.
    """
    cut_off = ZooKeeperProcess(tmp_path / "zookeeper", cut_off_from_quorum=True)
    try:
        cut_off.start()
        with pytest.raises(StoreUnavailable, match="did not let us connect"):
            connect(
                uri(cut_off.hosts, "/ledgers"), replace(QUICK, zookeeper_connect_timeout_ms=2_000)
            )
    finally:
        cut_off.stop()


def test_nothing_of_a_ledger_reaches_the_log(
    server: ZooKeeperProcess,
    tree: Znodes,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """kazoo logs each answer at DEBUG, and metadata has the password: even with everything logged,
    it is not there.
    """
    root = "/quiet/ledgers"
    tree.layout(root, LedgerLayout.HIERARCHICAL)
    tree.ledgers(root, LedgerLayout.HIERARCHICAL, [1], ledger_bytes(password=b"hunter2"))
    caplog.set_level(logging.DEBUG)
    logging.getLogger("kazoo").setLevel(1)
    try:
        with open_store(uri(server.hosts, root), QUICK) as store:
            assert {1: b"hunter2"} == store.passwords([1])
            store._session.multi_read = False
            assert {1: b"hunter2"} == store.passwords([1])
    finally:
        logging.getLogger("kazoo").setLevel(logging.NOTSET)
    out, err = capfd.readouterr()
    assert "hunter2" not in caplog.text + out + err


@pytest.mark.timeout(60)
def test_replies_out_of_order_are_a_line_of_the_log_and_the_read_is_repeated(
    server: ZooKeeperProcess,
    tree: Znodes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kazoo's thread ends on such a reply: there is no traceback, and the next connection
    answers.
    """
    unhandled: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    port = int(server.hosts.rsplit(":", 1)[1])
    with (
        refusing(port, GetData.type, renumbered=True) as proxy,
        connect(uri(proxy.hosts, "/ledgers"), STEADY) as session,
    ):
        data, _ = session.ask(GetData("/", None))
        assert (b"", 1) == (data, session.counts.repeats)
    assert [] == unhandled
    (said,) = [record for record in caplog.records if record.name == "auditor.zookeeper"]
    assert (logging.WARNING, None) == (said.levelno, said.exc_info)
    assert "the connection to ZooKeeper broke down (RuntimeError: " in said.getMessage()
    assert "\n" not in said.getMessage()


def test_a_refused_read_says_how(server: ZooKeeperProcess, tree: Znodes) -> None:
    """`ask` raises what the server said about a request it answered, and does not repeat it."""
    with connect(uri(server.hosts, "/ledgers"), STEADY) as session:
        with pytest.raises(NoNodeError):
            session.ask(GetData("/nope", None))
        assert session.counts.repeats == 0


@pytest.mark.timeout(60)
def test_a_sync_without_server_is_unavailable(tmp_path: Path) -> None:
    """Without a sync the second look is not taken: the error is raised within the permitted
    attempts, and at once afterwards.
    """
    with (
        zookeeper(tmp_path / "zookeeper") as own,
        connect(uri(own.hosts, "/ledgers"), QUICK) as session,
    ):
        session.sync("/")
        own.stop()
        for _ in range(50):
            with pytest.raises(StoreUnavailable, match="did not answer"):
                session.sync("/")


def test_closing_twice_is_no_trouble(server: ZooKeeperProcess) -> None:
    """A closed session can be closed again."""
    session = connect(uri(server.hosts, "/ledgers"), QUICK)
    session.close()
    session.close()
    assert not session.is_connected
