"""Choose a stored run, and print it. An error in reading it becomes one sentence.

`auditor.after.stored_runs` says which run an argument means. Anybody may have written the files of
a run. `auditor.after.finished_run` reads them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePath
from traceback import extract_tb

from auditor.after.finished_run import UNREADABLE
from auditor.after.stored_runs import StoredRuns
from auditor.context import Context
from auditor.errors import ConfigError, OutputError
from auditor.evidence.run_directory import Place, place
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.report import text
from auditor.report.first_screen import PAGE, Whereabouts, render_first_screen
from auditor.report.layout import printable

DETAIL_CHARS_MAX = 200
"""At most this many characters of an exception's text are shown."""


@contextmanager
def refuse_damaged_run(context: Context, *run_dirs: str) -> Iterator[None]:
    """Raise ConfigError if files of a stored run cannot be read, or have values that no run writes.

    The sentence says where the error occurred, and that a fault of the auditor looks the same. The
    log has the traceback with --verbose.
    """
    try:
        yield
    except OutputError as error:
        raise ConfigError(str(error)) from error
    except UNREADABLE as error:
        context.logger.debug("stored_run_unreadable", run_dirs=list(run_dirs), exc_info=error)
        raise ConfigError(
            f"{' or '.join(run_dirs)} cannot be used ({describe_fault(error)}): "
            "its files are damaged, were changed, or come from another version of the auditor; "
            "if none of this is so, please report it"
        ) from error


def open_run(run_dir: str) -> Place:
    """Return a run's directory, whose missing tables are empty. Raises ConfigError without a
    run.json.
    """
    run = replace(place(run_dir), missing_is_empty=True)
    if run.read_text("run.json") is None:
        raise ConfigError(f"{run_dir} is not a run directory: it has no run.json")
    return run


def describe_fault(error: Exception) -> str:
    """Return the text of an exception, and where it was raised, in one printable line."""
    at = extract_tb(error.__traceback__)[-1]
    said = printable(f"{type(error).__name__}: {error}".partition("\n")[0], DETAIL_CHARS_MAX)
    return f"{said}, at {PurePath(at.filename).name}:{at.lineno}"


def choose_run(context: Context, text: str | None) -> str:
    """Return the path or URI of the run that an argument means; None means the newest finished one.

    Raises ConfigError where there is no such run (`auditor.after.stored_runs`).
    """
    with _as_usage_error():
        return StoredRuns.at(context.settings.output).find(text).address


def choose_two_runs(context: Context, earlier: str | None, later: str | None) -> tuple[str, str]:
    """Return the runs to compare. By default `later` is the newest finished run of the whole
    cluster, and `earlier` the one before it. Raises ConfigError where there are not two.
    """
    with _as_usage_error():
        runs = StoredRuns.at(context.settings.output)
        newer = runs.find(later)
        older = runs.before(newer) if earlier is None else runs.find(earlier)
        return older.address, newer.address


@contextmanager
def _as_usage_error() -> Iterator[None]:
    """Raise ConfigError where --output cannot be read: nothing was contacted."""
    try:
        yield
    except OutputError as error:
        raise ConfigError(str(error)) from error


def show_report(
    context: Context,
    summary: Summary,
    findings: Sequence[FindingRecord],
    run: Place,
    *,
    is_replay: bool = False,
    written: Mapping[str, object] | None = None,
    lines_above: int = 0,
) -> None:
    """Print the first screen of a run; with --full the whole report, with --format json both files.

    `is_replay`: the files in the run's directory are not those of this report. `written` is the
    object in summary.json of a stored run, which may have other fields than this version writes.
    `lines_above`: lines that the screen has already.
    """
    if context.settings.format == "json":
        found = [finding.as_json() for finding in findings]
        both = {"summary": written or summary.as_json(), "findings": found}
        context.say(json.dumps({**both, "run_dir": run.address}) + "\n")
    elif context.settings.full:
        context.say(text.render(summary, findings, run_dir=run.address, screen=context.screen))
    else:
        where = whereabouts(context, run, is_replay=is_replay)
        context.say(
            render_first_screen(
                summary, findings, where, lines_above=lines_above, screen=context.screen
            )
        )


def whereabouts(context: Context, run: Place, *, is_replay: bool = False) -> Whereabouts:
    """Return where a run is, and the words that make a command take it.

    There are none if the run is the newest one where commands look by themselves.
    """
    return Whereabouts(
        _shown_path(run.address),
        _choice(context, run, is_replay=is_replay),
        has_page=_has_page(run),
        again="replay" if is_replay else "report",
        is_stored=not is_replay,
    )


def _choice(context: Context, run: Place, *, is_replay: bool) -> str:
    if not is_replay and _is_newest(context, run):
        output = context.settings.output
        return "" if output == context.output_by_default else f"--output {shlex.quote(output)}"
    return shlex.quote(_shown_path(run.address))


def _is_newest(context: Context, run: Place) -> bool:
    """Return whether a command takes this run if it is told OUTPUT and no run."""
    try:
        newest = StoredRuns.at(context.settings.output).output.latest()
    except (OutputError, OSError):
        return False
    return newest is not None and newest.address == run.address


def _has_page(run: Place) -> bool:
    try:
        return run.has_file(PAGE)
    except (OutputError, OSError):
        return False


def _shown_path(address: str) -> str:
    """Return the path of a local directory below the current one from there, else the address."""
    with suppress(ValueError, OSError):
        return str(Path(address).relative_to(Path.cwd()))
    return address
