"""`auditor doctor` has a line for each thing that a run needs, and says when it is missing."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.command_line import command_here, environment_of

from auditor import host_limits
from auditor.clock import now_ms
from auditor.commands import doctor
from auditor.evidence import output_lock
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import place
from auditor.sandbox.cluster import SandboxCluster

NOWHERE = "127.0.0.1:1"
"""An address at which nobody listens."""


def missing(*words: str, **environment: str) -> list[tuple[str, str]]:
    """Return name and sentence of each check that fails, and see that the exit code agrees."""
    done = command_here("doctor", *words, "--format", "json", **environment)
    found = json.loads(done.stdout)
    bad = [(one["name"], one["sentence"]) for one in found["checks"] if one["state"] == "missing"]
    assert (5 if bad else 0) == done.returncode == found["exit_code"]
    return bad


def only(name: str, bad: list[tuple[str, str]]) -> str:
    """Return the sentence of the one check that failed."""
    assert [name] == [one for one, _ in bad], bad
    return bad[0][1]


def sentence(name: str, *words: str, **environment: str) -> str:
    """Return the sentence of the one check of this name, which must be good."""
    found = json.loads(command_here("doctor", *words, "--format", "json", **environment).stdout)
    (one,) = [one for one in found["checks"] if one["name"] == name]
    assert "ok" == one["state"], one
    return str(one["sentence"])


class Gateway(BaseHTTPRequestHandler):
    """A Pushgateway that is ready for one user: the path of the URL says how it answers."""

    asked: list[tuple[str, str]] = []

    def do_GET(self) -> None:
        """Answer 401 without a login where the path begins with /login, and 404 below /other."""
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        has_login = "Authorization" in self.headers
        code = 401 if self.path.startswith("/login") and not has_login else 200
        self.send_response(404 if self.path.startswith("/other") else code)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Print nothing."""


@pytest.fixture
def gateway() -> Iterator[str]:
    """Yield the address of a Pushgateway."""
    Gateway.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_output_that_cannot_be_made_is_missing(tmp_path: Path) -> None:
    """A file lies where its directory should be made."""
    (tmp_path / "file").write_text("")
    said = only("output", missing("--output", str(tmp_path / "file" / "audits")))
    assert f"{tmp_path}/file/audits" in said


def test_an_output_in_use_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that starts now would end in exit code 2."""
    monkeypatch.setattr(output_lock, "LOCK_WAIT_S", 0.1)
    with Output(place(str(tmp_path))).hold_lock():
        said = only("output", missing("--output", str(tmp_path)))
    assert "another run is at work" in said


def test_an_output_of_an_unknown_file_system_is_missing() -> None:
    """The scheme is named."""
    assert "gopher" in only("output", missing("--output", "gopher://h/audits"))


def test_an_output_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    """Doctor tries it and leaves nothing; where OUTPUT exists, an empty lock file."""
    assert "can be locked and written" in sentence("output", "--output", f"{tmp_path}/a/b")
    assert [] == [*tmp_path.iterdir()]
    sentence("output", "--output", str(tmp_path))
    assert [".lock"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["missing/a.prom", "directory.prom"])
def test_a_metrics_file_that_cannot_be_written_is_missing(tmp_path: Path, name: str) -> None:
    """Its directory is not there, or it is one itself."""
    (tmp_path / "directory.prom").mkdir()
    bad = missing("--output", str(tmp_path), "--metrics-textfile", str(tmp_path / name))
    assert str(tmp_path / name) in only("metrics", bad)


def test_a_metrics_file_stays_as_it_is(tmp_path: Path) -> None:
    """Doctor tries its directory with a file of another name, which it removes."""
    (tmp_path / "a.prom").write_text("old 1\n")
    assert "a.prom" in sentence("metrics", "--metrics-textfile", str(tmp_path / "a.prom"))
    assert ["a.prom"] == [path.name for path in tmp_path.iterdir()]
    assert "old 1\n" == (tmp_path / "a.prom").read_text()


def test_a_pushgateway_that_does_not_answer_is_missing() -> None:
    """Its password is not shown."""
    said = only("metrics", missing(AUDITOR_PUSHGATEWAY=f"http://u:geheim@{NOWHERE}"))
    assert f"http://{NOWHERE}" in said and "geheim" not in said


@pytest.mark.parametrize(("path", "code"), [("login", "401"), ("other", "404")])
def test_a_server_that_is_no_ready_pushgateway_is_missing(
    gateway: str, path: str, code: str
) -> None:
    """It wants a login, or is something else."""
    said = only("metrics", missing("--pushgateway", f"http://{gateway}/{path}"))
    assert f"answers {code}" in said


def test_a_pushgateway_is_asked_with_its_login_and_pushed_nothing(gateway: str) -> None:
    """One GET of /-/ready below its path."""
    login = base64.b64encode(b"u:p w").decode()
    sentence("metrics", AUDITOR_PUSHGATEWAY=f"http://u:p%20w@{gateway}/login/")
    assert [("/login/-/ready", f"Basic {login}")] == Gateway.asked


@pytest.mark.parametrize(
    ("script", "word"),
    [("#!/bin/sh\nexit 3\n", "ended with exit code 3"), ("#!/no/such/sh\n", "cannot be started")],
)
def test_a_topology_script_that_fails_is_missing(tmp_path: Path, script: str, word: str) -> None:
    """It is called without arguments, as BookKeeper does; no cluster is needed for it."""
    (tmp_path / "script").write_text(script)
    (tmp_path / "script").chmod(0o755)
    bad = missing("--topology", f"script:{tmp_path}/script", "--output", str(tmp_path))
    assert word in only("topology", bad)


def test_a_bookie_without_a_location_is_missing(tmp_path: Path) -> None:
    """A script that says nothing of it, and a table that has it."""
    with SandboxCluster(tmp_path / "cluster", 1) as cluster:
        at = ("--metadata-service-uri", cluster.metadata_service_uri, "--output", str(tmp_path))
        (tmp_path / "empty").write_text("elsewhere:3181 /rack1\n")
        said = only("topology", missing(*at, "--topology", f"file:{tmp_path}/empty"))
        assert f"1 of 1 bookies have no location, such as {cluster.id_of('b1')}" in said
        (tmp_path / "table").write_text(f"{cluster.id_of('b1')} /rack1\n")
        good = sentence("topology", *at, "--topology", f"file:{tmp_path}/table")
        assert "each of 1 bookies has a location" == good
        elsewhere = ("--pulsar-metadata-uri", f"zk:{NOWHERE}/", "--zookeeper-connect-timeout", "1s")
        assert NOWHERE in only("pulsar", missing(*at, *elsewhere))


def test_a_file_of_mutes_that_mutes_nothing_is_missing(tmp_path: Path) -> None:
    """Named or in OUTPUT: it is not there, or has a line that is not a mute."""
    bad = missing("--output", str(tmp_path), "--mutes", str(tmp_path / "none.jsonl"))
    assert "there is no such file" in only("mutes", bad)
    (tmp_path / "mutes.jsonl").write_text("{}\n")
    assert "mutes nothing" in only("mutes", missing("--output", str(tmp_path)))


@pytest.mark.parametrize(
    ("limit", "name"), [("ulimit -n 24", "descriptors"), ("ulimit -v 1500000", "memory")]
)
def test_a_host_that_gives_too_little_is_missing(tmp_path: Path, limit: str, name: str) -> None:
    """A hard limit on files or on the address space, in kilobytes."""
    doctor = [sys.executable, "-m", "auditor", "doctor", "--output", str(tmp_path)]
    done = subprocess.run(
        ["bash", "-c", f"{limit}; exec {shlex.join([*doctor, '--format', 'json'])}"],
        env=environment_of(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert 5 == done.returncode, done.stdout + done.stderr
    found = json.loads(done.stdout)["checks"]
    assert name in {one["name"] for one in found if one["state"] == "missing"}


def test_a_full_disk_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where OUTPUT lies, or would lie."""
    full = namedtuple("usage", "total used free")(2**30, 2**30, 1_000)
    monkeypatch.setattr(host_limits.shutil, "disk_usage", lambda path: full)
    assert f"{tmp_path}/audits" in only("disk", missing("--output", f"{tmp_path}/audits"))


@pytest.mark.parametrize("days", [1, 10_000])
def test_a_clock_behind_zookeepers_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """By a day, with which ages are unknown; by decades, with which no run begins."""
    with SandboxCluster(tmp_path / "cluster", 1) as cluster:
        at = ("--metadata-service-uri", cluster.metadata_service_uri, "--output", str(tmp_path))
        assert "younger than now" in sentence("clock", *at)
        monkeypatch.setattr(doctor, "now_ms", lambda: now_ms() - days * 86_400_000)
        assert "the clock of this host" in only("clock", missing(*at))
