"""What the command that runs a lister does with errors that reach no caller."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any, cast

from structlog.testing import CapturingLogger

from auditor.commands.lister import _on_loop_error
from auditor.context import Context


class Loop:
    """Notes what asyncio itself would report."""

    def __init__(self) -> None:
        self.reported: list[dict[str, Any]] = []

    def default_exception_handler(self, said: dict[str, Any]) -> None:
        self.reported.append(said)


def handled(error: Exception | None) -> tuple[list[str], int]:
    """Return the events that are logged for an error, and how many asyncio reports."""
    logger, loop = CapturingLogger(), Loop()
    context = cast(Context, SimpleNamespace(logger=logger))
    said: dict[str, Any] = {"message": "m"} | ({} if error is None else {"exception": error})
    _on_loop_error(context)(cast(asyncio.AbstractEventLoop, loop), said)
    return [call.args[0] for call in logger.calls], len(loop.reported)


def test_a_connection_for_which_no_descriptor_is_left_is_one_line_in_the_log() -> None:
    """asyncio would print a traceback each second."""
    assert (["lister_host_limited"], 0) == handled(OSError(errno.EMFILE, "Too many open files"))


def test_other_errors_are_left_to_asyncio() -> None:
    """They are not expected, and their tracebacks are needed."""
    assert ([], 1) == handled(ValueError("unforeseen"))
    assert ([], 1) == handled(None)
