"""Write report.html of a finished run. No failure here ends the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyarrow import fs

from auditor.after.page.contents import PageContents
from auditor.after.page.reading import read_contents
from auditor.after.page.rendering import render_page
from auditor.context import Context
from auditor.errors import ConfigError, OutputError
from auditor.evidence.local_files import restrict_new_files
from auditor.evidence.run_directory import Place
from auditor.evidence.table_scan import file_errors
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.report.first_screen import PAGE


def publish_page(
    context: Context,
    directory: Place,
    summary: Summary,
    findings: Sequence[FindingRecord],
    report: str,
) -> bool:
    """Write report.html into the directory of a published run, and return whether it was written.

    A failure does not change the run's outcome: it is logged, with what to do.
    """
    try:
        contents = read_contents(directory, summary, findings, report, context.settings.runbooks)
        directory.write_text(PAGE, render_page(contents))
    except Exception as error:  # a page must not cost a run its verdicts
        advice = (
            f"the results are complete; auditor report {directory.address} --html FILE tries again"
        )
        context.logger.exception(
            "page_not_written", file=PAGE, error=type(error).__name__, advice=advice
        )
        return False
    context.logger.info("page_written", file=f"{directory.address}/{PAGE}")
    return True


def has_page(directory: Place) -> bool:
    """Return whether a run has a page. Raises OutputError."""
    return directory.has_file(PAGE)


def save_page(context: Context, contents: PageContents, file: str) -> None:
    """Write the page of a stored run to the given file. Raises ConfigError if that fails."""
    path = Path(file).absolute()
    home = Place(fs.LocalFileSystem(), str(path.parent), f"file://{path.parent}")
    page = render_page(contents)
    try:
        with restrict_new_files(context.settings.output_umask), file_errors(f"write {file}"):
            home.write_text(path.name, page)
    except OutputError as error:
        raise ConfigError(str(error)) from error
    context.note(f"The page is in {path}")
