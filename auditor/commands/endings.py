"""Reports an audit that ends without a verdict, as text or JSON."""

from __future__ import annotations

import json

from auditor.commands.context import EXIT_FAULT, EXIT_UNREACHABLE, Context
from auditor.report import text


def end_without_verdict(context: Context, run_id: str, outcome: str, sentence: str, run_dir: str = "") -> int:
    """Print the outcome and its reason, and return the exit code: 5 UNREACHABLE, 4 AUDITOR_FAULT.

    UNREACHABLE means that something the audit needs does not answer. AUDITOR_FAULT means that the
    auditor is wrong; `run_dir` then holds the evidence, if the command wrote any.
    """
    is_fault = outcome == "AUDITOR_FAULT"
    assert is_fault or outcome == "UNREACHABLE", outcome
    if context.settings.format == "json":
        context.say(json.dumps({"summary": {"run_id": run_id, "outcome": outcome}, "error": sentence}) + "\n")
    elif is_fault:
        context.say(text.render_fault(run_id, sentence, run_dir=run_dir, width=context.width, color=context.color))
    else:
        context.say(text.render_unreachable(run_id, sentence, width=context.width, color=context.color))
    return EXIT_FAULT if is_fault else EXIT_UNREACHABLE
