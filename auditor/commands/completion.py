"""Complete values in a shell: options with fixed words, files and directories.

click itself completes commands and options. Nothing here is called unless a shell asks.
"""

from __future__ import annotations

import os
import re
from typing import Final

import click
from click.shell_completion import CompletionItem

VARIABLE: Final = "_AUDITOR_COMPLETE"
"""The variable with which a shell requests completions of the `auditor` command, as click
names it."""
_WORDS: Final = re.compile(r"[a-z0-9-]+(\|[a-z0-9-]+)+")
_PATHS: Final = {
    "FILE": "file",
    "DIR": "dir",
    "RUN": "dir",
    "OUTPUT": "dir",
    "RUN_A": "dir",
    "RUN_B": "dir",
}


class CompletedText(click.types.StringParamType):
    """Text that a shell completes by its notation in help texts: `text|json`, `FILE`, `RUN`.

    It is only completed here. Wrong words are refused when settings are parsed.
    """

    def __init__(self, metavar: str) -> None:
        self.words = tuple(metavar.split("|")) if _WORDS.fullmatch(metavar) else ()
        self.path_kind = _PATHS.get(metavar.strip("[]"))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the words that begin with the text, or ask the shell to complete a path."""
        if self.path_kind is not None:
            return [CompletionItem(incomplete, type=self.path_kind)]
        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]


def is_completing() -> bool:
    """Return whether a shell asks for completions: click writes bytes then, not text."""
    return VARIABLE in os.environ
