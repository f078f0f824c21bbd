"""Standard output and error of this process, made to accept all text."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO


class ConsoleStream(io.TextIOBase):
    """Write text to `stream` and never fail because of its encoding or its reader.

    Characters outside the encoding become backslash escapes (`\\u65e5`). After the reader has
    closed the pipe (`| head`), all output is discarded. The stream has no `buffer`, because click
    would write UTF-8 to it whatever the encoding is.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        stream.reconfigure(errors="backslashreplace")
        self._stream = stream

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
        except BrokenPipeError:
            self._discard()
            return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._discard()

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._stream.fileno()

    def _discard(self) -> None:
        """Send buffered and later output to the null device."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)


def without_controls(text: str) -> str:
    """Return a text whose characters that a terminal acts on are escapes, except line breaks.

    For errors, which may quote a file or a peer. Letters of all scripts stay as they are.
    """
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def secure_standard_streams() -> None:
    """Replace `sys.stdout` and `sys.stderr` by a `ConsoleStream` each.

    A stream that is None becomes the null device. One that is not a TextIOWrapper stays.
    """
    sys.stdout, sys.stderr = _secure(sys.stdout), _secure(sys.stderr)


def _secure(stream: TextIO | None) -> TextIO:
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8", errors="backslashreplace")
    # TextIO declares a `buffer`, but a stream need not have one.
    return ConsoleStream(stream) if isinstance(stream, io.TextIOWrapper) else stream  # type: ignore[return-value]
