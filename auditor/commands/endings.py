"""How an audit ends that gives no verdict: said in the form that was asked for."""

from __future__ import annotations

import json

from auditor.commands.context import EXIT_FAULT, EXIT_UNREACHABLE, Context
from auditor.report import text


def without_verdict(context: Context, run_id: str, outcome: str, sentence: str, run_dir: str = "") -> int:
    """UNREACHABLE: what is needed does not answer; AUDITOR_FAULT: the auditor is wrong, and `run_dir` has what was heard.

    Returns the exit code.
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
