"""`auditor margin --now` drives a rolling restart of five real bookies, while a client writes.

Each acknowledged entry is read again after each step, and while the bookie is down.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.audits import audit
from support.real_bookkeeper import LOG4J2_WARN
from support.real_cluster import RealCluster
from support.real_processes import JavaConversation, java_command

from auditor.after.margin_now import Purpose
from auditor.commands.margin import margin
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

pytestmark = [pytest.mark.real, pytest.mark.long]

KEEP_WRITING = Path(__file__).parent / "bookkeeper" / "KeepWriting.java"
BOOKIES = ("b1", "b2", "b3", "b4", "b5")
PAIR = 1_000_000
"""A closed ledger with two copies, on b1 and b2."""
ENTRIES_A_LEDGER, PAUSE_MS = 40, 20
READ_WAIT_S = 60.0
GO_WAIT_S = 60.0
"""How long the gate may take to say GO after a bookie is back, in seconds."""
ENTRIES_MIN = 100
"""The client has written this many entries before the first bookie is restarted."""


def ask(run_dir: Path, bookie: str) -> Any:
    """Return the gate's answer."""
    settings = parse(Layers(flags={"format": "json"}), command="margin")
    out = io.StringIO()
    context = Context(settings, out, log.setup(stream=io.StringIO()), Silent(), StopRequest())
    code = margin(context, str(run_dir), [bookie], Purpose.RESTART)
    answer = json.loads(out.getvalue())
    assert code == answer["exit_code"]
    return answer


def await_go(run_dir: Path, bookie: str) -> None:
    deadline = time.monotonic() + GO_WAIT_S
    while (answer := ask(run_dir, bookie))["answer"] != "GO":
        assert time.monotonic() < deadline, answer
        time.sleep(0.5)


class Client:
    """A client that writes all the time with three copies, two of them acknowledged."""

    def __init__(self, cluster: RealCluster, home: Path) -> None:
        arguments = (cluster.metadata_service_uri, "3", "3", "2")
        command = java_command(
            cluster.jars,
            str(KEEP_WRITING),
            *arguments,
            str(ENTRIES_A_LEDGER),
            str(PAUSE_MS),
            heap="256m",
            log4j2=LOG4J2_WARN,
        )
        self._java = JavaConversation("client", command, home / "client.log")

    def _ask(self, command: str, answer: str) -> str:
        """Return the line that answers. The log of the client's first seconds is on stdout too."""
        said = self._java.ask(command, READ_WAIT_S)
        while not said.startswith(answer):
            said = self._java.receive(READ_WAIT_S)
        return said

    def read_all(self) -> int:
        """Read every acknowledged entry, and return how many there are."""
        said = self._ask("read", "read ")
        _, read, _, unavailable, why = said.split(" ", 4)
        assert "0" == unavailable, why
        return int(read)

    def end(self) -> None:
        """Stop writing. No write was refused."""
        said = self._ask("end", "written ")
        assert " refused 0 " in said, said

    def kill(self) -> None:
        self._java.kill()


def test_a_rolling_restart_by_the_gate_makes_no_entry_unavailable(
    real_cluster: Callable[..., RealCluster], tmp_path: Path
):
    """Each bookie is restarted when the gate says GO. While one is down, the gate forbids the
    bookie that has the only other copy of a ledger.
    """
    cluster = real_cluster(bookies=len(BOOKIES))
    cluster.place(PAIR, cluster.ledger("e2 w2 a2 0:[b1 b2] closed 9"))
    client = Client(cluster, tmp_path)
    try:
        while client.read_all() < ENTRIES_MIN:
            time.sleep(0.5)
        run_dir = audit(cluster, tmp_path).run_dir
        assert run_dir is not None
        for bookie in BOOKIES:
            await_go(run_dir, bookie)
            cluster.end_bookie(bookie)
            while_down = client.read_all()
            if bookie == "b1":
                answer = ask(run_dir, "b2")
                assert ("NO_GO", [PAIR]) == (answer["answer"], answer["no_copy"]["ids"])
                assert ["b1"] == answer["bookies_missing"]
            cluster.start_bookie(bookie)
            assert client.read_all() >= while_down
        client.end()
        assert client.read_all() > ENTRIES_MIN
    finally:
        client.kill()
