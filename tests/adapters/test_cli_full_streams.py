"""stdout or stderr is full, closed, or has lost its reader: what is published stays, and an answer
that could not be printed has an exit code of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.command_line import TIMEOUT_S, at, cluster_with_a_loss, environment_of
from support.stored_run import store_run

from auditor.sandbox.cluster import SandboxCluster

ANSWER, STORED = "the answer is lost", "the exit code is unchanged"
STATES = {"full": "/dev/full", "closed": "&-", "unread": "&9"}
"""States of a stream, and where bash directs it. Descriptor 9 is a pipe whose reader has ended."""
COMMANDS: Mapping[str, tuple[str, int, int]] = {
    "report": ("report RUN", 1, 5),
    "report in JSON": ("report RUN --format json", 1, 5),
    "replay": ("replay RUN", 1, 5),
    "diff": ("diff RUN RUN", 0, 5),
    "margin": ("margin RUN", 3, 5),
    "explain": ("explain 8 RUN", 0, 5),
    "config": ("config", 0, 5),
    "help": ("--help", 0, 5),
    "help of a command": ("run --help", 0, 5),
    "version": ("--version", 0, 5),
    "bundle": ("bundle RUN --file BUNDLE", 0, 0),
    "wrong option": ("config --bogus", 2, 2),
    "no such run": ("report /nowhere", 2, 2),
    "nobody listens": (
        "ledger 7 --metadata-service-uri zk://127.0.0.1:1/x --zookeeper-connect-timeout 500ms",
        5,
        5,
    ),
}
"""Commands, each with its exit code, and with that where stdout is full."""
SOME = ("report", "bundle", "wrong option")
"""Commands that are tried with every pair of states."""


def in_bash(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `auditor` is the command, and `>&9` leads to no reader."""
    script = (
        f'auditor() {{ "{sys.executable}" -m auditor "$@"; }}\n'
        f"exec 9> >(exit 0); sleep 0.2\n{line}\necho $?"
    )
    return subprocess.run(
        ["bash", "-c", script], env=environment_of(), capture_output=True, text=True,
        timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_run(tmp_path_factory.mktemp("runs"))


def line_of(name: str, run_dir: Path, tmp_path: Path) -> str:
    line = COMMANDS[name][0]
    for word, path in (("RUN", run_dir), ("BUNDLE", tmp_path / "b")):
        line = " ".join(str(path) if one == word else one for one in line.split(" "))
    return f"auditor {line}"


@pytest.mark.parametrize("name", COMMANDS)
def test_an_answer_that_cannot_be_printed_ends_in_code_5(
    name: str, run_dir: Path, tmp_path: Path
) -> None:
    """A command with another result, or without an answer, keeps its code. stderr says so in one
    sentence.
    """
    _, code, full = COMMANDS[name]
    done = in_bash(f"{line_of(name, run_dir, tmp_path)} > /dev/full")
    assert f"{full}\n" == done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    said = done.stderr.count("stdout could not be written (No space left on device)")
    assert (code != 2) == said, done.stderr
    assert (code != full) == (ANSWER in done.stderr)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in SOME else [pytest.mark.long]) for name in COMMANDS],
)
def test_a_full_stderr_changes_no_code(name: str, run_dir: Path, tmp_path: Path) -> None:
    """Nothing that is said there is a result."""
    done = in_bash(f"{line_of(name, run_dir, tmp_path)} > /dev/null 2> /dev/full")
    assert f"{COMMANDS[name][1]}\n" == done.stdout


PAIRS = [(name, out, err) for name in SOME for out in STATES for err in STATES]


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, marks=[pytest.mark.long] if number % 4 else [])
        for number, pair in enumerate(PAIRS)
    ],
    ids="-".join,
)
def test_only_a_full_stdout_changes_a_code(
    pair: tuple[str, str, str], run_dir: Path, tmp_path: Path
) -> None:
    """Whoever closes a stream, or stops reading, does not want the rest."""
    name, out, err = pair
    _, code, full = COMMANDS[name]
    done = in_bash(f"{line_of(name, run_dir, tmp_path)} >{STATES[out]} 2>{STATES[err]}")
    assert f"{full if out == 'full' else code}\n" == done.stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    with cluster_with_a_loss(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.mark.parametrize("err", [pytest.param("/dev/full", marks=pytest.mark.long), "&2"])
def test_a_published_run_keeps_its_outcome_where_nothing_can_be_printed(
    cluster: SandboxCluster, tmp_path: Path, err: str
) -> None:
    """Exit code, latest.json and the metrics are those of the run."""
    metrics = tmp_path / "auditor.prom"
    flags = " ".join([*at(cluster), "--output", str(tmp_path), "--metrics-textfile", str(metrics)])
    done = in_bash(f"auditor run {flags} > /dev/full 2>{err}")
    assert "1\n" == done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    assert (err == "&2") == (STORED in done.stderr)
    run = tmp_path / json.loads((tmp_path / "latest.json").read_text())["run"]
    assert "VIOLATED" == json.loads((run / "summary.json").read_text())["outcome"]
    assert (run / "metrics.prom").read_text() == metrics.read_text()
    planned = in_bash(f"auditor run {flags} --dry-run > /dev/full")
    assert "5\n" == planned.stdout, planned.stderr
    single = in_bash(f"auditor ledger 9 {' '.join(at(cluster))} > /dev/full")
    assert "5\n" == single.stdout, single.stderr
