"""`auditor demo --nights 2 --keep` on a terminal shows progress and two screens, and each command
that it prints does what it says.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.command_line import command_here, environment_of
from support.process_ends import alive
from support.terminal import rows_of

ROWS, COLUMNS = 50, 200
STARTED_WITHIN_S = 240.0
ENDED_WITHIN_S = 60.0
POLL_S = 0.05
LAST_LINE = "  auditor topic public/default/story-270 --config auditor.toml"


@dataclass
class OnTerminal:
    """A command on a terminal of its own, in `home`. `written` is what it has written so far."""

    home: Path
    process: subprocess.Popen[bytes]
    terminal: int
    written: bytearray = field(default_factory=bytearray)

    def read(self) -> None:
        """Read until the command has closed the terminal."""
        while True:
            try:
                self.written += os.read(self.terminal, 65_536)
            except OSError:  # EIO: nobody has the other side
                return

    @property
    def rows(self) -> list[str]:
        return rows_of(self.written.decode(errors="replace"))

    def await_row(self, row: str) -> None:
        deadline = time.monotonic() + STARTED_WITHIN_S
        while row not in self.rows:
            assert self.process.poll() is None and time.monotonic() < deadline, self.rows
            time.sleep(POLL_S)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnTerminal]:
    """Yield the demo when it has audited both nights, and keeps its cluster."""
    home = tmp_path_factory.mktemp("nights")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "auditor", "demo", "--nights", "2", "--keep"],
        cwd=home,
        env=environment_of(TERM="xterm", NO_COLOR="1", TMPDIR=str(home)),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    command = OnTerminal(home, process, ours)
    reader = threading.Thread(target=command.read, daemon=True)
    reader.start()
    try:
        command.await_row(LAST_LINE)
        yield command
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(ENDED_WITHIN_S)
        reader.join(ENDED_WITHIN_S)
        os.close(ours)


def printed_commands(demo: OnTerminal) -> list[list[str]]:
    return [shlex.split(row)[1:] for row in demo.rows if row.startswith("  auditor ")]


def test_a_terminal_shows_two_screens_and_nothing_else(demo: OnTerminal):
    """No bar is left, no line is glued to another, and the log does not repeat the report."""
    rows = demo.rows
    assert rows[0].startswith("An embedded cluster with ")
    ends = [n for n, row in enumerate(rows) if row.startswith("auditor: VIOLATED run=")]
    night = next(n for n, row in enumerate(rows) if row.startswith("A night later: "))
    (behind,) = (n for n, row in enumerate(rows) if row.startswith("Two nights are stored."))
    assert [night - 2, behind - 2] == ends and ends[0] < ROWS
    assert not any("━" in row or "/?" in row or "violation  " in row for row in rows)
    said = " ".join(" ".join(rows[night:]).split())
    assert "4 new since the run of" in said
    assert "1 worse, 32 as before, 1 resolved" in said


def test_each_command_on_the_cluster_does_what_it_says(
    demo: OnTerminal, monkeypatch: pytest.MonkeyPatch
):
    """`init` writes a file that `run`, `ledger` and `topic` take. It never overwrites one."""
    monkeypatch.chdir(demo.home)
    names = ("init", "run", "ledger", "topic")
    init, *others = [words for words in printed_commands(demo) if words[0] in names]
    done = command_here(*init, AUDITOR_RPC_TIMEOUT="2s")
    assert 0 == done.returncode, done.stderr
    assert "cannot list (DbLedgerStorage, which Pulsar deploys): b12" in done.stdout
    assert "Pulsar's topics are read below /" in done.stdout and "such as b1 in" in done.stdout
    file = demo.home / "auditor.toml"
    written = tomllib.loads(file.read_text())
    assert {"metadata_service_uri", "output", "topology", "rpc_timeout"} == set(written)
    for key in ("cluster", "metrics_textfile", "pushgateway", "placement_policy", "maintenance"):
        assert re.search(rf"^# {key} = ", file.read_text(), re.MULTILINE)
    assert "# No answer now: b6" in file.read_text()
    again = command_here(*init)
    assert (2, written) == (again.returncode, tomllib.loads(file.read_text()))
    assert "exists already" in again.stderr
    changed = command_here("config", "--config", "auditor.toml", "--changed", "--format", "json")
    assert {*written, "format"} == set(json.loads(changed.stdout))
    assert ["run", "ledger", "topic"] == [words[0] for words in others]
    placed = command_here(
        "ledger", "170", "171", "--config", "auditor.toml", "--placement-policy", "zone",
        "--format", "json",
    )  # fmt: skip
    assert [("PLACEMENT_SOFT", 170)] == [
        (one["kind"], one["ledger_id"]) for one in json.loads(placed.stdout)["findings"]
    ]
    for words in others:
        done = command_here(*words)
        assert 1 == done.returncode and "VIOLATED" in done.stdout, (words, done.stderr)


def test_ctrl_c_ends_the_cluster_and_the_nights_stay(
    demo: OnTerminal, monkeypatch: pytest.MonkeyPatch
):
    """The exit code is that of the audit, no process is left, and each command on the two nights
    does what it says.
    """
    os.killpg(demo.process.pid, signal.SIGINT)
    assert 1 == demo.process.wait(ENDED_WITHIN_S)
    assert not alive(demo.process.pid) and "The cluster has ended." in demo.rows[-2]
    monkeypatch.chdir(demo.home)
    exits = {"diff": 1, "explain": 0, "mute": 0, "report": 1}
    commands = [words for words in printed_commands(demo) if words[0] in exits]
    assert list(exits) == [words[0] for words in commands]
    for words in commands:
        done = command_here(*words)
        assert exits[words[0]] == done.returncode, (words, done.stdout, done.stderr)
