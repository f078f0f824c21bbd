"""A stranger on the same machine connects to every port of a running Spark, and gets nothing.

Another user may connect to loopback like ourselves, so that a connection from this process shows
what any of them gets.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

WAIT_S = 1.0
"""How long an answer is awaited. One of Spark's comes in milliseconds."""
LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""
REFUSAL = b"Expected SaslMessage"
JAVA_OBJECT = b"\xac\xed\x00\x05t\x00\x01x"
"""A serialized Java object: a string."""


def processes_of(pid: int) -> Iterator[int]:
    """Yield a process and all its descendants. A thread or process that ends meanwhile has none."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in (task / "children").read_text().split():
                yield from processes_of(int(child))


def is_java(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return b"java" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    return False


def ports_of(pids: Iterable[int]) -> list[int]:
    """Return the ports at which these processes listen."""
    inodes: set[str] = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(descriptor)
            except OSError:  # closed meanwhile
                continue
            inodes.add(target.removeprefix("socket:[").removesuffix("]"))
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return sorted(
        int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == LISTENS and row[9] in inodes
    )


def answer_to(port: int, sent: bytes) -> bytes:
    """Return what a stranger receives who sends this."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as stranger:
        stranger.settimeout(WAIT_S)
        stranger.sendall(sent)
        try:
            while part := stranger.recv(4_096):
                got += part
        except OSError:  # reset, or nothing more comes
            return got
    return got


def request(body: bytes) -> bytes:
    """Return an RPC request of Spark's network library."""
    message = b"\x03" + struct.pack(">q", 1) + struct.pack(">i", len(body)) + body
    return struct.pack(">q", 8 + len(message)) + message


def open_blocks(application: str, *blocks: bytes) -> bytes:
    """Return a request to open blocks of the driver, as an executor sends it to fetch them."""

    def text(of: bytes) -> bytes:
        return struct.pack(">i", len(of)) + of

    body = b"\x00" + text(application.encode()) + text(b"driver") + struct.pack(">i", len(blocks))
    return request(body + b"".join(text(block) for block in blocks))


@pytest.mark.spark
def test_no_port_of_spark_serves_a_stranger(spark: SparkSession) -> None:
    """Neither shuffled rows, nor Java's deserialization, nor a worker of Python."""
    rows = spark.sparkContext.parallelize(range(100), 2).map(lambda n: (n, n)).groupByKey(2)
    assert 100 == rows.count()
    processes = list(processes_of(os.getpid()))
    of_java = ports_of(pid for pid in processes if is_java(pid))
    blocks = open_blocks(spark.sparkContext.applicationId, b"shuffle_0_0_0")
    refused = [port for port in of_java if REFUSAL in answer_to(port, blocks)]
    assert 2 == len(refused), "the driver's and the block manager's"
    assert all(REFUSAL in answer_to(port, request(JAVA_OBJECT)) for port in refused)
    secrets = b"\x00\x00\x00\x05wrong" + bytes(200)
    for port in ports_of(processes):
        if port not in refused:  # py4j's, and Python's
            said = answer_to(port, secrets)
            # Python's daemon sends the id of the process that will refuse.
            assert not said or said[:1] == b"!" or said[4:] == b"\x00\x00\x00\x03err", said


@pytest.mark.spark
def test_the_secret_of_a_session_stands_nowhere(spark: SparkSession) -> None:
    """Neither in a setting, which the web interface and the log of events show, nor in an argument
    or a variable, which `ps` shows.
    """
    settings = dict(spark.sparkContext.getConf().getAll())
    assert "true" == settings["spark.authenticate"]
    assert "false" == settings["spark.ui.enabled"]
    assert not [key for key in settings if "secret" in key.lower()]
    words, variables = {}, {}
    for pid in processes_of(os.getpid()):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            words[pid] = Path(f"/proc/{pid}/cmdline").read_bytes()
            variables[pid] = Path(f"/proc/{pid}/environ").read_bytes()
    assert os.getpid() in variables and any(map(is_java, variables))
    assert [] == [pid for pid, said in words.items() if b"authenticate.secret" in said]
    assert [] == [pid for pid, said in variables.items() if b"_SPARK_AUTH_SECRET" in said]
