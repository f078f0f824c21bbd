"""Read secrets from files, environment variables, commands and JAAS files. Store them nowhere."""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from auditor.config.access import SecretSource
from auditor.config.jaas import read_password
from auditor.config.operator_files import read_small_file
from auditor.errors import ConfigError
from auditor.local_faults import start_fault

SECRET_BYTES_MAX = 4_096
"""Longest secret read, in bytes."""
COMMAND_TIMEOUT_S = 30.0
"""How long a command may take to print a secret, in seconds: time for a request to a vault."""
COMMAND_KEPT_S = 300.0
"""How long the output of a command is reused, in seconds. A process that asks many bookies runs the
command once, and notices a changed password within this time."""

FAILURE_KEPT_S = 30.0
"""How long a failed command is not run again, in seconds. Many bookies must not hammer a vault that
is down. One that is up again is noticed within this time."""

_printed: dict[str, tuple[float, bytes]] = {}
"""The output of each command, and when it was printed, by time.monotonic()."""
_failed: dict[str, tuple[float, str]] = {}
"""When each command failed, and the end of the sentence that says how."""
_one_at_a_time = threading.Lock()
"""Held while a command runs: others who need the same secret wait for it."""


class _CommandFailed(Exception):
    """A command printed no secret. The text is the end of a sentence, and never has the output."""


def read_secret(source: SecretSource) -> str:
    """Return the secret, without the line break at its end. Raises ConfigError without the
    secret.
    """
    secret = _read(source).decode("utf-8", "surrogateescape")
    secret = secret.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise ConfigError(f"{source.what} is empty")
    if not secret.isprintable():
        raise ConfigError(f"{source.what} is not one line of printable UTF-8 text")
    return secret


def read_digest(source: SecretSource) -> str:
    """Return `user:password` for ZooKeeper's scheme digest. Raises ConfigError without the
    secret.
    """
    digest = read_secret(source)
    user, _, password = digest.partition(":")
    if not user or not password:
        raise ConfigError(f"{source.what} is not of the form user:password")
    return digest


def _read(source: SecretSource) -> bytes:
    if source.file is not None:
        return read_small_file(Path(source.file), SECRET_BYTES_MAX, f"the file with {source.what}")
    if source.command is not None:
        return _run_command(source.command, source.what)
    if source.jaas_file is not None:
        return read_password(source.jaas_file, source.jaas_section).encode()
    secret = os.environ.get(source.variable)
    if secret is None:
        raise ConfigError(
            f"{source.what} is not given on this machine: {source.variable} is not set here"
        )
    return secret.encode("utf-8", "surrogateescape")


def _run_command(command: str, what: str) -> bytes:
    """Return what the command prints on stdout, or what it printed a short while ago."""
    with _one_at_a_time:
        now = time.monotonic()
        printed, failed = _printed.get(command), _failed.get(command)
        if printed is not None and now - printed[0] < COMMAND_KEPT_S:
            return printed[1]
        if failed is not None and now - failed[0] < FAILURE_KEPT_S:
            raise ConfigError(f"the command for {what} {failed[1]}")
        try:
            _printed[command] = time.monotonic(), _output_of(command)
        except _CommandFailed as error:
            _failed[command] = time.monotonic(), str(error)
            raise ConfigError(f"the command for {what} {error}") from None
        return _printed[command][1]


def _output_of(command: str) -> bytes:
    """Run a command without a shell and without input, and return its output.

    Raises _CommandFailed.
    """
    try:
        words = shlex.split(command)
        process = subprocess.Popen(  # noqa: S603 - the operator's own command
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError, IndexError) as error:
        fault = start_fault(error) if isinstance(error, OSError) else None
        if fault is not None:
            raise fault from error
        raise _CommandFailed(f"cannot be run: {error}") from None
    with process:
        try:
            output = _read_bounded(process, time.monotonic() + COMMAND_TIMEOUT_S)
        finally:
            _kill(process)
    if process.returncode != 0:
        raise _CommandFailed(f"exited with {process.returncode}: run it by hand to see why")
    return output


def _read_bounded(process: subprocess.Popen[bytes], until: float) -> bytes:
    """Return everything that the process prints until it ends.

    Raises _CommandFailed if it is too much or takes too long.
    """
    assert process.stdout is not None
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, until - time.monotonic())):
            piece = os.read(process.stdout.fileno(), SECRET_BYTES_MAX + 1)
            output += piece
            if len(output) > SECRET_BYTES_MAX:
                raise _CommandFailed(f"printed more than {SECRET_BYTES_MAX} bytes")
            if not piece:
                break
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise _CommandFailed(f"took longer than {COMMAND_TIMEOUT_S:g} s") from None
    return bytes(output)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children if it has not ended."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
