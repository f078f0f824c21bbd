"""`auditor status` lists the runs that OUTPUT holds, from their summaries alone."""

from __future__ import annotations

import json

from auditor.after.stored_runs import ListedRun, RunState, StoredRuns
from auditor.after.stored_runs_text import RunsStatus
from auditor.clock import utc_now
from auditor.context import EXIT_UNKNOWN, EXIT_USAGE, Context
from auditor.errors import ConfigError, OutputError


def status(context: Context, output: str | None, limit: int) -> int:
    """Print the newest runs, and return the exit code of the newest finished one.

    `output` is None for --output. Without a finished run of the whole cluster the code is 3; if it
    cannot be read, 2. Raises ConfigError where OUTPUT holds no run.
    """
    where = output or context.settings.output
    try:
        runs = StoredRuns.at(where)
        total = len(runs.names())
        if not total:
            raise ConfigError(
                f"{runs.output.root.address} holds no run: give the directory that --output names"
            )
        listed, latest = runs.newest(limit), runs.latest()
        is_damaged = runs.has_damaged_latest()
    except OutputError as error:
        raise ConfigError(str(error)) from error
    address = runs.output.root.address
    code = EXIT_USAGE if is_damaged else _exit_code(latest)
    found = RunsStatus(address, utc_now(), listed, total, latest, code, is_damaged)
    is_json = context.settings.format == "json"
    context.say(json.dumps(found.as_json()) + "\n" if is_json else found.text(context.screen))
    return found.exit_code


def _exit_code(latest: ListedRun | None) -> int:
    if latest is None:
        return EXIT_UNKNOWN
    if latest.summary is None or latest.state is RunState.DAMAGED:
        return EXIT_USAGE
    return latest.summary.exit_code
