"""Reads a file that an operator names, within a bound."""

from __future__ import annotations

from pathlib import Path

from auditor.errors import ConfigError


def read_small_file(path: Path, bytes_max: int, what: str) -> bytes:
    """Return the content of a file of at most `bytes_max` bytes.

    Raises ConfigError, which calls the file `what`, if it is larger or cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be read: {error.strerror or error}") from None
    if len(content) > bytes_max:
        raise ConfigError(f"{what} {path} is larger than {bytes_max} bytes")
    return content
