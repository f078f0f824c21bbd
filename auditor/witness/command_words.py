"""Quote names that others chose for a command line that a person will paste into a shell."""

from __future__ import annotations

import shlex

_NO_WORD = "\x00"
"""Stands in a command in place of a name that no command may have. No shell takes it."""


def quote_word(name: str) -> str:
    """Return a name quoted for a shell.

    A name that would be taken for an option, or that has characters that a terminal acts on,
    becomes a word that `can_be_pasted` refuses: quotes do not help against either.
    """
    return _NO_WORD if name.startswith("-") or not name.isprintable() else shlex.quote(name)


def can_be_pasted(command: str) -> bool:
    """Return whether a command may be shown: it has no character that a terminal acts on."""
    return command.isprintable()
