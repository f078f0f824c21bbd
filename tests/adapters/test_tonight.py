"""docs/tonight.md, from its first command to an alert that fires in a real Prometheus."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.command_line import LOST, cluster_with_a_loss, environment_of
from support.documented_commands import PROJECT, shown_lines
from support.requirements import lack

WAIT_S = 120.0
POLL_S = 0.5
ADDRESS = "zk+hierarchical://zk1:2181,zk2:2181,zk3:2181/ledgers"
PACKAGES = {"promtool": "prometheus", "prometheus": "prometheus"}
FIRST = ["python3 -m venv auditor-venv", "auditor-venv/bin/pip install -c constraints.txt ."]
"""The installation, which tests/adapters/test_versions_installed.py tries with each Python."""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def in_background(line: str, home: Path) -> Iterator[None]:
    """Run a line that ends with `&`, and end it."""
    with (home / "background.log").open("ab") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line.removesuffix('&')}"],
            cwd=home,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_S)


def run_line(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=home,
        env=environment_of(AUDITOR_SECOND_LOOK_DELAY="0s", AUDITOR_RPC_TIMEOUT="2s"),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def test_eight_commands_lead_to_an_alert_that_fires(tmp_path: Path) -> None:
    """On a cluster that lost a copy. The ports and the address of ZooKeeper are the test's own, and
    Prometheus reads and evaluates each second.
    """
    for name in ("promtool", "prometheus", "prometheus-pushgateway"):
        if shutil.which(name) is None:
            lack(f"{name} is not installed (Debian: {PACKAGES.get(name, name)})")
    lines = [line.text for line in shown_lines() if line.where.startswith("docs/tonight.md:")]
    assert (8, FIRST) == (len(lines), lines[:2])
    shutil.copytree(PROJECT / "deploy" / "prometheus", tmp_path / "deploy" / "prometheus")
    gateway, prometheus = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    config = tmp_path / "deploy" / "prometheus" / "prometheus.yml"
    text = config.read_text()
    assert "127.0.0.1:9091" in text and text.count("30s") == 2
    config.write_text(text.replace("127.0.0.1:9091", gateway).replace("30s", "1s"))
    with cluster_with_a_loss(tmp_path / "cluster") as cluster, ExitStack() as stack:
        for line in lines[2:]:
            typed = (
                line.replace("auditor-venv/bin/auditor", f"{sys.executable} -m auditor")
                .replace(ADDRESS, cluster.metadata_service_uri)
                .replace("127.0.0.1:9091", gateway)
                .replace("127.0.0.1:9090", prometheus)
            )
            if typed.endswith("&"):
                stack.enter_context(in_background(typed, tmp_path))
                await_port(int(typed.split("127.0.0.1:")[1].split()[0]))
            elif line == lines[-1]:
                said = await_alert(typed, tmp_path)
                assert 'alertname="BookKeeperEntryBelowWriteQuorum"' in said
                assert 'cluster="prod"' in said and 'severity="warning"' in said
            else:
                done = run_line(typed, tmp_path)
                expected = 1 if " run " in typed else 0
                assert expected == done.returncode, (line, done.stdout, done.stderr)
                assert " run " not in typed or f"ledger {LOST}" in done.stdout


def await_port(port: int) -> None:
    """Return when something listens there."""
    deadline = time.monotonic() + WAIT_S
    while True:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


def await_alert(line: str, home: Path) -> str:
    """Return what the query says, as soon as it says something."""
    deadline = time.monotonic() + WAIT_S
    while True:
        done = run_line(line, home)
        if done.stdout.strip():
            return done.stdout
        assert time.monotonic() < deadline, (done, (home / "background.log").read_text()[-2000:])
        time.sleep(POLL_S)
