"""`auditor report` renders a stored run again."""

from __future__ import annotations

from auditor.after.finished_run import read_all_findings
from auditor.after.page.reading import read_contents
from auditor.commands.page import save_page
from auditor.commands.stored_run import open_run, refuse_damaged_run, show_report
from auditor.context import EXIT_FAULT, EXIT_FINDINGS, EXIT_SOUND, EXIT_UNKNOWN, Context
from auditor.errors import ConfigError
from auditor.evidence.run_tables import require_stored
from auditor.model.summary import Summary
from auditor.report import text
from auditor.summary.previous_run import read_summary, read_summary_object


def report(context: Context, run_dir: str, page: str | None = None) -> int:
    """Print the report of a stored run, and return that run's exit code. Raises ConfigError.

    `page` names a file to which the run's page is written, before anything is printed.
    """
    with refuse_damaged_run(context, run_dir):
        run = open_run(run_dir)
        summary = read_summary(run)
        if summary is None:
            raise ConfigError(
                f"{run_dir} holds no summary.json: that run did not finish (auditor replay judges"
                " its evidence)"
            )
        require_stored(run, summary.stored)
        findings = read_all_findings(run, summary)
        code = _exit_code(summary)
        if page is not None:
            whole = text.render(summary, findings, run_dir=run.address, screen=context.screen.plain)
            save_page(
                context,
                read_contents(run, summary, findings, whole, context.settings.runbooks),
                page,
            )
        show_report(context, summary, findings, run, written=read_summary_object(run))
    return code


def _exit_code(summary: Summary) -> int:
    """Return the exit code that the run recorded. Raises ValueError for an impossible one."""
    code = summary.exit_code
    if code not in (EXIT_SOUND, EXIT_FINDINGS, EXIT_UNKNOWN, EXIT_FAULT):
        raise ValueError(f"exit_code is {code!r}")
    return code
