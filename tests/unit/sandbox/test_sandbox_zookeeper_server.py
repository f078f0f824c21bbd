"""The embedded ZooKeeper: it serves, and it never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from support.process_ends import alive, gone

from auditor.errors import StoreUnavailable
from auditor.java import JavaHome
from auditor.sandbox.zookeeper_server import EmbeddedZooKeeper, zookeeper_jars

PARENT = """
import sys
from pathlib import Path
from auditor.sandbox.zookeeper_server import EmbeddedZooKeeper
server = EmbeddedZooKeeper(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
sys.stdin.read()
"""


def test_started_server_accepts_sessions_and_keeps_data(tmp_path: Path) -> None:
    """Once it is started, a session can be opened, and what is written can be read back. Stopping
    ends the process.
    """
    with EmbeddedZooKeeper(tmp_path / "zk") as server:
        client = KazooClient(server.connect_string)
        client.start(timeout=20)
        try:
            client.create("/a", b"bytes")
            assert client.get("/a")[0] == b"bytes"
        finally:
            client.stop()
            client.close()
        pid = server.pid
        assert pid is not None
        assert os.getpgid(pid) == os.getpgid(0)
    assert gone(pid)
    assert server.pid is None


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_server_dies_with_its_parent(tmp_path: Path, end: signal.Signals) -> None:
    """However its parent ends, the server ends too."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(end)
        parent.wait(30)
        assert gone(pid)
    finally:
        parent.kill()
        parent.communicate(timeout=30)


def test_java_that_ends_at_once_is_reported_with_its_words(tmp_path: Path) -> None:
    """The error of a server that cannot start quotes its output."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho no heap for you >&2\nexit 1\n")
    java.chmod(0o755)
    server = EmbeddedZooKeeper(tmp_path / "zk", JavaHome(tmp_path / "java", "JAVA_HOME", "17.0.1"))
    with pytest.raises(StoreUnavailable, match="no heap for you"):
        server.start()
    assert server.pid is None


def test_jars_of_spark_home_serve_where_pyspark_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without PySpark's jars, the jars of ZooKeeper in SPARK_HOME are used. Without either, the
    error names SPARK_HOME.
    """
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with pytest.raises(StoreUnavailable, match="SPARK_HOME"):
        zookeeper_jars()
    (tmp_path / "jars").mkdir()
    for jar in ("zookeeper-3.9.1.jar", "zookeeper-jute-3.9.1.jar", "spark-core.jar"):
        (tmp_path / "jars" / jar).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert [jar.name for jar in zookeeper_jars()] == [
        "zookeeper-3.9.1.jar",
        "zookeeper-jute-3.9.1.jar",
    ]
