"""Which run an argument means: its id, its directory's name, or its path or URI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from auditor.context import Context
from auditor.errors import ConfigError, OutputError
from auditor.evidence.newest_run import run_name
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import place
from auditor.summary.previous_run import read_summary


def is_run(text: str) -> bool:
    """Return whether an argument means a run, not a finding, a ledger or a bookie."""
    return run_name(text) is not None or "/" in text or Path(text).is_dir()


def choose_run(context: Context, text: str | None) -> str:
    """Return the path or URI of the run that an argument means; None means the newest finished one.

    An id and a name are looked for in --output, unless a directory here has that name. Raises
    ConfigError where --output has no finished run.
    """
    output = _output(context)
    if text is None:
        with _as_usage_error():
            newest = output.latest()
        if newest is None:
            raise ConfigError(
                f"{context.settings.output} has no finished run: give the id or the directory of a"
                " run"
            )
        return newest.address
    name = run_name(text)
    return text if name is None or Path(text).is_dir() else (output.root / name).address


def choose_two_runs(context: Context, earlier: str | None, later: str | None) -> tuple[str, str]:
    """Return the runs to compare. By default `later` is the newest finished run of the whole
    cluster, and `earlier` the one before it. Raises ConfigError where there are not two.
    """
    newer = choose_run(context, later)
    if earlier is not None:
        return choose_run(context, earlier), newer
    with _as_usage_error():
        for run in reversed(_output(context).runs()):
            if run.path < place(newer).path:
                summary = read_summary(run)
                if summary is not None and not summary.is_partial:
                    return run.address, newer
    raise ConfigError(
        f"{context.settings.output} has one finished run of the whole cluster: give two runs to"
        " compare"
    )


def _output(context: Context) -> Output:
    with _as_usage_error():
        return Output(place(context.settings.output))


@contextmanager
def _as_usage_error() -> Iterator[None]:
    """Raise ConfigError where --output cannot be read: nothing was contacted."""
    try:
        yield
    except OutputError as error:
        raise ConfigError(str(error)) from error
