"""`auditor` as run from a shell: its exit code, and its output on stdout and stderr.

    done = command("run", "--output", str(tmp_path), AUDITOR_RPC_TIMEOUT="1s")  # a process: 1 s
    done = command_here("run", "--fail-on", "sometimes")                        # here: milliseconds

The AUDITOR_* variables of the test run's own environment are hidden; only the named ones are set.
"""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import structlog

from auditor.__main__ import main
from auditor.sandbox.cluster import SandboxCluster

PROJECT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 200
SOUND, LOST = range(1, 9), 9
"""The ledgers of `cluster_with_a_loss`."""

Done = subprocess.CompletedProcess[str]


@contextmanager
def cluster_with_a_loss(directory: Path) -> Iterator[SandboxCluster]:
    """Yield a cluster of two bookies with eight sound ledgers, and ledger 9, of which b2 lacks
    entry 4.
    """
    with SandboxCluster(directory, 2) as cluster:
        for ledger_id in SOUND:
            cluster.place(ledger_id, cluster.ledger("e2 w2 a2 0:[b1 b2] closed 9"))
        cluster.place(LOST, cluster.ledger("e2 w2 a1 0:[b1 b2] closed 9"), {"b2": "4"})
        yield cluster


def at(cluster: SandboxCluster) -> list[str]:
    """Return the flags for this cluster, with short time-outs and delays."""
    return [
        "--metadata-service-uri",
        cluster.metadata_service_uri,
        "--second-look-delay",
        "0s",
        "--rpc-timeout",
        "2s",
    ]


def command(*arguments: str, **environment: str) -> Done:
    """Run `python -m auditor`."""
    env = environment_of(**environment)
    line = [sys.executable, "-m", "auditor", *arguments]
    return subprocess.run(
        line, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def environment_of(**environment: str) -> dict[str, str]:
    """Return the environment of such a process."""
    return {**_without_settings(), "PYTHONPATH": str(PROJECT), **environment}


def command_here(*arguments: str, **environment: str) -> Done:
    """Run the same command in this process, with its Spark session if there is one.

    For tests that do not need a process of their own.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        as_it_was(),
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["auditor", *arguments])
        for name in os.environ.keys() - _without_settings().keys():
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
    assert isinstance(ended.value.code, int), ended.value.code
    return Done(["auditor", *arguments], ended.value.code, out.getvalue(), err.getvalue())


def _without_settings() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("AUDITOR_")}


@contextmanager
def as_it_was() -> Iterator[None]:
    """Restore the signal handlers, the log and its bound run, which the command line sets up for
    its process. It begins without a run.
    """
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    loggers = [
        logging.getLogger(),
        *(logging.getLogger(name) for name in list(logging.root.manager.loggerDict)),
    ]
    levels, handlers, log = (
        [one.level for one in loggers],
        logging.root.handlers[:],
        structlog.get_config(),
    )
    bound = structlog.contextvars.get_contextvars()
    structlog.contextvars.clear_contextvars()
    try:
        yield
    finally:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(**bound)
        for number, handler in signals.items():
            signal.signal(number, handler)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        logging.root.handlers[:] = handlers
        structlog.configure(**log)
