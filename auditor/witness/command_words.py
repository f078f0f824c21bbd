"""Quote names that others chose for a command line that a person will paste into a shell."""

from __future__ import annotations

import shlex

_NO_WORD = "\x00"
"""Replaces a name that no command may contain. No shell accepts it."""


def quote_word(name: str) -> str:
    """Return a name quoted for a shell.

    A name that looks like an option, or has characters that control a terminal, becomes a word that
    `can_be_pasted` refuses: quotes do not help against either.
    """
    return _NO_WORD if name.startswith("-") or not name.isprintable() else shlex.quote(name)


def can_be_pasted(command: str) -> bool:
    """Return whether a command may be shown: it has no character that controls a terminal."""
    return command.isprintable()
