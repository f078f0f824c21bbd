"""A child that judges leaves the connections of its parent's threads to the JVM alone."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.clientserver import JavaClient, JavaParameters, PythonParameters

from auditor.config import JudgingLimits
from auditor.judging.judge import judge_in_child
from auditor.spark.private_spark import own_connection

WAIT_S = 20.0


@pytest.fixture
def jvm() -> Iterator[tuple[Any, socket.socket]]:
    """Yield a session whose JVM is a socket that accepts connections, and that socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_S)
        port = server.getsockname()[1]
        shared = SimpleNamespace(pool=None)
        client = JavaClient(JavaParameters(port=port), PythonParameters(), shared)
        gateway = SimpleNamespace(_gateway_client=client)
        yield SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway)), server


@pytest.mark.parametrize("is_held", [True, False])
def test_a_thread_keeps_the_connection_that_it_holds(
    jvm: tuple[Any, socket.socket], is_held: bool
) -> None:
    """A child ends the connection of a thread that is between two calls, unless the thread holds
    it. If it did not, nothing would have to be held.
    """
    spark, server = jvm
    is_connected, may_end = Event(), Event()

    def work() -> None:
        _held = own_connection(spark)
        if not is_held:
            del _held
        is_connected.set()
        may_end.wait(WAIT_S)

    thread = Thread(target=work)
    thread.start()
    with server.accept()[0] as of_jvm:
        assert is_connected.wait(WAIT_S)
        assert [1, 4] == list(judge_in_child([1, 2], lambda one: one * one, JudgingLimits()))
        of_jvm.setblocking(False)
        try:
            is_ended = of_jvm.recv(1) == b""
        except BlockingIOError:
            is_ended = False
        may_end.set()
        thread.join()
    assert is_held == (not is_ended)


def test_a_thread_has_one_connection(jvm: tuple[Any, socket.socket]) -> None:
    """A second call makes none."""
    spark, server = jvm
    first, second = own_connection(spark), own_connection(spark)
    assert first is second
    server.setblocking(False)
    server.accept()[0].close()
    with pytest.raises(BlockingIOError):
        server.accept()


@pytest.mark.parametrize("gateway", [None, SimpleNamespace(_gateway_client=None)])
def test_nothing_is_held_where_no_thread_has_a_connection_of_its_own(gateway: object) -> None:
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway))
    assert own_connection(spark) is None
