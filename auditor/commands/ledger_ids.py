"""Read ledger ids as people write them, from a word or a file."""

from __future__ import annotations

import sys
from pathlib import Path

from auditor.errors import ConfigError
from auditor.model.identity import LEDGER_ID_MAX

LEDGER_FILE_BYTES_MAX = 256 * 2**20
"""Largest --ledgers-from file that is read."""
LEDGER_ID_DIGITS_MAX = len(str(LEDGER_ID_MAX))
WORD_SHOWN_MAX = 40
"""An error quotes at most this many characters of a word that is not an id."""


STDIN = Path("-")
"""The path that stands for standard input."""


def read_ledger_ids(path: Path) -> list[int]:
    """Return the ledger ids in a file that has one id per line, in order and without repetitions.

    Blank lines and #-comments are skipped. `-` is standard input. Raises ConfigError if the file
    cannot be read, is too large, or has a line (which the error names) that is not an id.
    """
    try:
        data = _read(path)
        if len(data) > LEDGER_FILE_BYTES_MAX:
            raise ConfigError(
                f"--ledgers-from: {path} is larger than {LEDGER_FILE_BYTES_MAX} bytes"
            )
        lines = data.decode("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--ledgers-from: {path} cannot be read as a list of ids: {error}"
        ) from None
    ids: dict[int, None] = {}
    for number, line in enumerate(lines, start=1):
        word = line.split("#", 1)[0].strip()
        if word:
            ids[ledger_id(word, f"--ledgers-from: {path} line {number}")] = None
    return list(ids)


def _read(path: Path) -> bytes:
    """Return the file's bytes. One byte more than allowed is read, to notice a file that is too
    large.
    """
    if path == STDIN:
        return sys.stdin.buffer.read(LEDGER_FILE_BYTES_MAX + 1)
    with path.open("rb") as stream:
        return stream.read(LEDGER_FILE_BYTES_MAX + 1)


def ledger_id(word: str, where: str) -> int:
    """Return the ledger id that `word` spells in decimal. Raises ConfigError naming `where`."""
    digits = word.lstrip("0") or "0"
    if (
        not word.isascii()
        or not word.isdigit()
        or len(digits) > LEDGER_ID_DIGITS_MAX
        or int(digits) > LEDGER_ID_MAX
    ):
        raise ConfigError(
            f"{where}: {word[:WORD_SHOWN_MAX]!r} is not a ledger id (a whole number from 0 to"
            " 2^63-1)"
        )
    return int(digits)
