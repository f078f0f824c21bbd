"""Reads secrets from files, environment variables and commands. They are kept nowhere else."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

from auditor.config.access import SecretSource
from auditor.config.small_file import read_small_file
from auditor.errors import ConfigError

SECRET_BYTES_MAX = 4_096
"""Longest secret read, in bytes."""
COMMAND_TIMEOUT_S = 30.0
"""How long a command may take to print a secret, in seconds: time for a request to a vault."""
COMMAND_KEPT_S = 300.0
"""How long what a command printed is used, in seconds. A process that asks many bookies runs it once;
a password that changed is noticed within this time."""

_printed: dict[str, tuple[float, bytes]] = {}
"""What each command printed, and when, by time.monotonic()."""


def read_secret(source: SecretSource) -> str:
    """Return the secret, without the line break at its end. Raises ConfigError, never with the secret."""
    secret = _read(source).decode("utf-8", "surrogateescape")
    secret = secret.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise ConfigError(f"{source.what} is empty")
    if not secret.isprintable():
        raise ConfigError(f"{source.what} is not one line of printable UTF-8 text")
    return secret


def read_digest(source: SecretSource) -> str:
    """Return `user:password` for ZooKeeper's scheme digest. Raises ConfigError, never with the secret."""
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
    secret = os.environ.get(source.variable)
    if secret is None:
        raise ConfigError(f"{source.what} is not given on this machine: {source.variable} is not set here")
    return secret.encode("utf-8", "surrogateescape")


def _run_command(command: str, what: str) -> bytes:
    """Return what the command printed on stdout. It runs without a shell and without input."""
    kept = _printed.get(command)
    if kept is not None and time.monotonic() - kept[0] < COMMAND_KEPT_S:
        return kept[1]
    try:
        words = shlex.split(command)
        done = subprocess.run(  # noqa: S603 - the operator's own command
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, ValueError, IndexError) as error:
        raise ConfigError(f"the command for {what} cannot be run: {error}") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"the command for {what} took longer than {COMMAND_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        raise ConfigError(f"the command for {what} exited with {done.returncode}: run it by hand to see why")
    if len(done.stdout) > SECRET_BYTES_MAX:
        raise ConfigError(f"the command for {what} printed more than {SECRET_BYTES_MAX} bytes")
    _printed[command] = time.monotonic(), done.stdout
    return done.stdout
