"""`auditor replay` judges a stored run again."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from auditor.after.finished_run import UNREADABLE, read_about
from auditor.commands.stored_run import (
    describe_fault,
    open_run,
    refuse_damaged_run,
    show_report,
)
from auditor.context import EXIT_FAULT, Context
from auditor.errors import AccountingError, ConfigError, OutputError
from auditor.evidence import findings_file
from auditor.evidence.journal import Journal
from auditor.evidence.rows import bookie_records
from auditor.evidence.run_directory import Place
from auditor.evidence.run_tables import require_stored
from auditor.evidence.schemas import BOOKIES, LEDGERS, LISTING, VERDICTS
from auditor.evidence.shard_files import is_carried
from auditor.evidence.table_scan import scan_rows
from auditor.judging.judge import TooManyPoisoned
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.report import text
from auditor.run.conclusion import Conclusion, conclude, restore_history
from auditor.run.replay import judge_again
from auditor.summary.about import About
from auditor.summary.carried import read_carried_ids
from auditor.summary.previous_run import (
    NO_PREVIOUS,
    read_findings,
    read_summary,
)

CARRIED_OVER = "ledgers whose verdicts the run carried over from earlier runs"
"""What a replay does not judge again."""


def replay(context: Context, run_dir: str) -> int:
    """Judge the stored evidence with the current code, print the report, and return the exit code.

    Logs whether the findings equal the stored ones byte for byte. Raises ConfigError if the run
    cannot be read, or has nothing to judge.
    """
    with refuse_damaged_run(context, run_dir):
        run = open_run(run_dir)
        about, summary = read_about(run), read_summary(run)
        if summary is None:
            _refuse_what_died_early(run, run_dir)
        else:
            require_stored(run, summary.stored)
        stored = read_stored_findings(context, run) if summary else ()
    try:
        conclusion = restore_history(
            _conclude_again(context, run, about, summary), about, stored, summary
        )
    except OutputError as error:
        raise ConfigError(str(error)) from error
    except (AccountingError, TooManyPoisoned, *UNREADABLE) as error:
        context.logger.debug("replay_failed", run_dir=run_dir, exc_info=error)
        said = (
            str(error)
            if isinstance(error, (AccountingError, TooManyPoisoned))
            else describe_fault(error)
        )
        context.say(text.render_fault("replay", said, run_dir=run_dir, screen=context.screen))
        return EXIT_FAULT
    _compare(context, run, conclusion)
    with refuse_damaged_run(context, run_dir):  # the summary has times, which are not judged again
        show_report(context, conclusion.summary, conclusion.findings, run, is_replay=True)
    return conclusion.summary.exit_code


def _conclude_again(
    context: Context, run: Place, about: About, summary: Summary | None
) -> Conclusion:
    return conclude(
        run,
        about,
        bookie_records(run.read_table("evidence/bookies", BOOKIES)),
        NO_PREVIOUS,
        verdicts=scan_rows(judge_again(run, about, context.settings.judging_limits())),
        finished_at=str(summary.finished_at) if summary else about.started_at,
        duration_s=summary.duration_s if summary else {},
    )


def read_stored_findings(context: Context, run: Place) -> Sequence[FindingRecord]:
    """Return the findings that the run stored; none if they cannot be read.

    The evidence is judged anyway.
    """
    try:
        return read_findings(run)
    except (OutputError, *UNREADABLE) as error:
        context.logger.warning(
            "stored_findings_unreadable", error=str(error), effect="findings have no history"
        )
        return ()


def _refuse_what_died_early(run: Place, run_dir: str) -> None:
    """Raise ConfigError if the run died before it had read every ledger's metadata once.

    Raise OutputError if it lost a part of what its journal names.
    """
    if lost := Journal.read(run).lost():
        raise OutputError(lost)
    listed = run.count("evidence/listing", LISTING)
    read = run.count("evidence/ledgers", LEDGERS, pc.field("look") == 1)
    if read < listed or read == 0:
        raise ConfigError(
            f"{run_dir}: that run died before it had read the metadata of every ledger ({read} of"
            f" {listed} listed): there is no evidence to judge; run the audit again"
        )
    copied = sum(run.count(file, VERDICTS) for file in run.files_in("verdicts") if is_carried(file))
    if copied < len(read_carried_ids(run)):
        raise ConfigError(
            f"{run_dir}: that run died before it had carried over the verdicts of earlier runs: run"
            " the audit again"
        )


def _compare(context: Context, run: Place, conclusion: Conclusion) -> None:
    """Log whether the new findings are those that the run stored."""
    try:
        stored = run.read_text("findings.jsonl")
    except OutputError as error:
        context.logger.warning("replay", findings=f"cannot be compared: {error}")
        return
    if stored is None:
        context.logger.warning(
            "replay", findings="the run did not finish: it stored none to compare with"
        )
        return
    today = findings_file.text(conclusion.findings)
    before, after = set(stored.splitlines()), set(today.splitlines())
    carried = len(read_carried_ids(run))
    beside = {"not_replayed": carried, "why": CARRIED_OVER} if carried else {}
    if stored == today:
        context.logger.info(
            "replay", findings="byte-identical to the stored ones", count=len(after), **beside
        )
    else:
        context.logger.warning(
            "replay",
            findings="differ from the stored ones",
            new=len(after - before),
            gone=len(before - after),
            **beside,
        )
