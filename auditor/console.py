"""Standard output and error of this process, made to accept all text."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

EXIT_UNPRINTED = 5
"""Exit code of a command that could not print its result, if it stores the result nowhere else."""
_OF_ANSWERS = frozenset({0, 1, 3})
"""Exit codes that stand for a result. The others say why there is none, and do not change."""
STDERR_DESCRIPTOR = 2


class ConsoleStream(io.TextIOBase):
    """Write text to `stream`, and never raise: not for its encoding, its reader or a full disk.

    Characters outside the encoding become backslash escapes (`\u65e5`). After the reader has closed
    the pipe (`| head`), or a write has failed, all output is discarded. The stream has no `buffer`:
    click would write UTF-8 to it whatever the encoding is.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        stream.reconfigure(errors="backslashreplace")
        self._stream = stream
        self.failure: OSError | None = None
        """Why text was lost; None if none was, or if the reader closed the pipe."""
        self.is_answer = True
        """Whether the text is the command's only result."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream."""
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """How the stream handles characters outside its encoding."""
        return self._stream.errors

    def write(self, text: str) -> int:
        """Write `text`; return its length."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._discard(error)
            return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        try:
            self._stream.flush()
        except OSError as error:
            self._discard(error)

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._stream.fileno()

    def _discard(self, error: OSError) -> None:
        """Send buffered and later output to the null device."""
        if self.failure is None and not isinstance(error, BrokenPipeError):
            self.failure = error
        with suppress(OSError):  # without a free descriptor, each later write fails and is ignored
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)


def without_controls(text: str) -> str:
    """Return a text with escapes for the characters that control a terminal, except line breaks.

    Used for errors, which may quote a file or a peer. Letters of all scripts stay as they are.
    """
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def secure_standard_streams() -> None:
    """Replace `sys.stdout` and `sys.stderr` by a `ConsoleStream` each.

    A stream that is None becomes the null device. One that is not a TextIOWrapper stays.
    """
    _occupy_standard_descriptors()
    sys.stdout, sys.stderr = _secure(sys.stdout), _secure(sys.stderr)


def _occupy_standard_descriptors() -> None:
    """Open the null device in place of each standard stream that is closed.

    Otherwise the next file or connection gets its descriptor, and receives what a library or a
    child writes to standard error.
    """
    with suppress(OSError):
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR_DESCRIPTOR:
            os.set_inheritable(descriptor, True)
        os.close(descriptor)


def code_after_printing(code: int) -> int:
    """Return the exit code of a command that would exit with `code`, after its text was printed.

    If stdout lost text, a sentence on stderr says so. The code is then EXIT_UNPRINTED if the text
    was the result, and `code` if the result is stored elsewhere, or there is none.
    """
    out = sys.stdout
    out.flush()
    failure = out.failure if isinstance(out, ConsoleStream) else None
    if failure is None or not isinstance(out, ConsoleStream):
        return code
    is_lost = out.is_answer and code in _OF_ANSWERS
    end = "the answer is lost: run the command again" if is_lost else "the exit code is unchanged"
    sys.stderr.write(
        f"auditor: stdout could not be written ({failure.strerror or failure}); {end}\n"
    )
    return EXIT_UNPRINTED if is_lost else code


def _secure(stream: TextIO | None) -> TextIO:
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8", errors="backslashreplace")
    # TextIO declares a `buffer`, but a stream need not have one.
    return ConsoleStream(stream) if isinstance(stream, io.TextIOWrapper) else stream  # type: ignore[return-value]
