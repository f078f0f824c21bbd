"""Report an audit that ends without a verdict, as text or JSON."""

from __future__ import annotations

import json

from auditor.context import EXIT_FAULT, EXIT_UNREACHABLE, Context
from auditor.errors import BookieRefused, KdcUnreachable, LocalFault, StoreUnavailable
from auditor.report import text

UNREACHABLE = (StoreUnavailable, BookieRefused, KdcUnreachable, LocalFault)
"""Errors that end a command without a verdict: ZooKeeper, every bookie, the KDC or our own host
does not let us ask."""

SENTENCE_LINES_MAX = 15
"""Lines of the reason on a first screen, which has 25. --full shows all of it."""


def end_without_verdict(
    context: Context, run_id: str, outcome: str, sentence: str, run_dir: str = ""
) -> int:
    """Print the outcome and its reason, and return the exit code: 5 UNREACHABLE, 4 AUDITOR_FAULT.

    UNREACHABLE means that something the audit needs does not answer, or that this host lacks it.
    AUDITOR_FAULT means that the auditor is wrong; `run_dir` then holds the evidence, if the command
    wrote any.
    """
    lines_max = None if context.settings.full else SENTENCE_LINES_MAX
    is_fault = outcome == "AUDITOR_FAULT"
    assert is_fault or outcome == "UNREACHABLE", outcome
    if context.settings.format == "json":
        context.say(
            json.dumps({"summary": {"run_id": run_id, "outcome": outcome}, "error": sentence})
            + "\n"
        )
    elif is_fault:
        context.say(
            text.render_fault(
                run_id, sentence, run_dir=run_dir, lines_max=lines_max, screen=context.screen
            )
        )
    else:
        context.say(
            text.render_unreachable(run_id, sentence, lines_max=lines_max, screen=context.screen)
        )
    return EXIT_FAULT if is_fault else EXIT_UNREACHABLE
