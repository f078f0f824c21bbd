"""Ask a script for locations, as BookKeeper's ScriptBasedMapping does.

Its arguments are IP addresses; its output is as many locations, separated by white space. No other
module of `auditor.topology` starts a program.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from auditor.config import ENVIRONMENT_PREFIX
from auditor.errors import ConfigError
from auditor.local_faults import start_fault

OUTPUT_BYTES_MAX = 2**20
"""Most bytes read from one call: a thousand locations of the greatest length fill a quarter."""
ERROR_CHARS_MAX = 200
"""Characters shown of a script's standard error."""
_READ_BYTES = 64 * 2**10
END_WITHIN_S = 5.0
"""How long a script may take to end once it has closed its output, in seconds."""


class ScriptFailure(Exception):
    """One call gave no locations; `str` is half a sentence to put behind the script's name."""


class CannotStart(ScriptFailure):
    """The file is not a program, or its interpreter is missing."""


@dataclass(frozen=True, slots=True)
class Script:
    """An executable file. A call may take `timeout_s`, and has at most `args_max` addresses."""

    path: Path
    args_max: int
    timeout_s: float

    def check(self) -> str:
        """Call the script without arguments, as BookKeeper does before it accepts a script.

        Return why BookKeeper would refuse it, or "". Raises ConfigError if it cannot be started.
        """
        try:
            self._output(())
        except CannotStart as failure:
            raise ConfigError(
                f"the topology script {self.path} {failure}. Its first line must name an "
                "interpreter that is there, as in #!/bin/sh"
            ) from None
        except ScriptFailure as failure:
            return (
                f"the topology script {self.path}, called without arguments, {failure}: BookKeeper"
                " would not take it"
            )
        return ""

    def locations(self, addresses: Sequence[str]) -> list[str]:
        """Return what the script says of each address, in order. Raises ScriptFailure."""
        assert 0 < len(addresses) <= self.args_max, len(addresses)
        words = self._output(addresses).split()
        if len(words) != len(addresses):
            raise ScriptFailure(f"answered {len(words)} locations to {len(addresses)} addresses")
        return words

    def _output(self, addresses: Sequence[str]) -> str:
        # Its own process group: its children end with it. Its environment has no secrets of ours.
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(ENVIRONMENT_PREFIX)
        }
        try:
            process = subprocess.Popen(  # noqa: S603 - the operator named this file; addresses are no options and no shell reads them
                [str(self.path), *addresses],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            if (fault := start_fault(error)) is not None:
                raise fault from error
            raise CannotStart(f"cannot be started: {error.strerror or error}") from None
        with process:
            try:
                out, err = _read_both(process, self.timeout_s)
                code = process.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                _end(process)
                raise ScriptFailure("closed its output and did not end") from None
            except BaseException:
                _end(process)
                raise
        if code != 0:
            raise ScriptFailure(f"ended with exit code {code}{_complaint(err)}")
        try:
            return out.decode("utf-8")
        except UnicodeDecodeError:
            raise ScriptFailure("answered with text that is not UTF-8") from None


def _read_both(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[bytes, bytes]:
    """Read standard output and error until both close. Raises ScriptFailure beyond a limit."""
    assert process.stdout is not None and process.stderr is not None
    said: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for stream in said:
            selector.register(stream, selectors.EVENT_READ, stream)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise ScriptFailure(f"did not end within {timeout_s:g} s (topology_script_timeout)")
            for key, _ in ready:
                chunk = os.read(key.fd, _READ_BYTES)
                said[key.data] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
                elif len(said[key.data]) > OUTPUT_BYTES_MAX:
                    raise ScriptFailure(f"wrote more than {OUTPUT_BYTES_MAX} bytes")
    return bytes(said[process.stdout]), bytes(said[process.stderr])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children. Its group id is still its own, as nobody waited for it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _complaint(err: bytes) -> str:
    text = " ".join(err.decode("utf-8", "replace").split())
    return f" and said {text[:ERROR_CHARS_MAX]!a}" if text else ""
