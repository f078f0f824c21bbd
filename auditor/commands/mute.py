"""`auditor mute` accepts a finding until a day, lists what is accepted, and takes it back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date

from auditor.after.finished_run import open_finished_run, read_all_findings
from auditor.after.mutes import WHY_CHARS_MAX, Mute, state_of
from auditor.clock import utc_now
from auditor.commands.explain import choose_findings, complete_id
from auditor.commands.stored_run import choose_run
from auditor.context import EXIT_SOUND, Context
from auditor.errors import ConfigError, OutputError
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place
from auditor.model.finding_record import FindingRecord
from auditor.report.findings_text import subject_words
from auditor.report.layout import printable
from auditor.run.mutes_file import edit_mutes, mutes_place


def mute(
    context: Context, name: str, until: str | None, why: str | None, run_dir: str | None
) -> int:
    """Add a finding of a stored run to the file of mutes, or replace its line. Returns 0.

    `run_dir` is as `choose_run` takes it. Raises ConfigError if the name does
    not mean exactly one finding, if the day is over, or if the file is bad. The file is then
    unchanged.
    """
    try:
        output = Output(place(context.settings.output))
        day, reason = _day(until), _reason(why)
        run_id, finding = _choose_one(context, name, run_dir)
        new = Mute(
            finding.id,
            day,
            reason,
            finding.kind,
            subject_words(finding),
            run_id,
            state_of(finding),
        )
        directory, file = mutes_place(context, output)
        kept = [mute for mute in edit_mutes(directory, file) if mute.id != new.id]
        _write(directory, file, [*kept, new])
    except OutputError as error:
        raise ConfigError(str(error)) from error
    where = f"{directory.address}/{file}"
    if context.settings.format == "json":
        context.say(json.dumps({"muted": json.loads(new.line()), "file": where}) + "\n")
    else:
        context.say(
            f"{new.kind.value} on {printable(new.on)} ({printable(new.id)}) is muted until {day}"
            f" (UTC) in {where}\n"
        )
    return EXIT_SOUND


def remove_mute(context: Context, name: str) -> int:
    """Remove the mute of the finding with this id, of which the beginning is enough. Returns 0.

    Raises ConfigError if there is none, or if several ids begin so.
    """
    try:
        directory, file = mutes_place(context, Output(place(context.settings.output)))
        mutes = edit_mutes(directory, file)
        muted_id = complete_id({mute.id for mute in mutes}, name)
        removed = next((mute for mute in mutes if mute.id == muted_id), None)
        if removed is None:
            raise ConfigError(
                f"{directory.address}/{file} has no mute of {name}: auditor mute --list shows"
                " the ids"
            )
        _write(directory, file, [mute for mute in mutes if mute.id != removed.id])
    except OutputError as error:
        raise ConfigError(str(error)) from error
    where = f"{directory.address}/{file}"
    if context.settings.format == "json":
        context.say(json.dumps({"removed": json.loads(removed.line()), "file": where}) + "\n")
    else:
        context.say(f"{printable(removed.id)} is not muted any more in {where}\n")
    return EXIT_SOUND


def list_mutes(context: Context) -> int:
    """Print the mutes, one a line; as JSON one array. Returns 0."""
    try:
        directory, file = mutes_place(context, Output(place(context.settings.output)))
        mutes = edit_mutes(directory, file)
    except OutputError as error:
        raise ConfigError(str(error)) from error
    today = utc_now().date()
    if context.settings.format == "json":
        rows = [{**json.loads(mute.line()), "is_over": mute.until < today} for mute in mutes]
        context.say(json.dumps(rows) + "\n")
        return EXIT_SOUND
    for mute in mutes:
        over = "over" if mute.until < today else "until"
        on, why = printable(mute.on), printable(mute.why, WHY_CHARS_MAX)
        context.say(f"{printable(mute.id)}  {over} {mute.until}  {mute.kind.value}  {on}  {why}\n")
    return EXIT_SOUND


def _day(until: str | None) -> date:
    if until is None:
        raise ConfigError(
            "--until DATE is missing: a mute ends some day, such as --until 2027-01-31"
        )
    try:
        day = date.fromisoformat(until)
    except ValueError:
        raise ConfigError(f"--until {until} is not a date: write it as 2027-01-31") from None
    if day < utc_now().date():
        raise ConfigError(f"--until {until} is over: give a day from today on (UTC)")
    return day


def _reason(why: str | None) -> str:
    reason = " ".join((why or "").split())
    if not reason or len(reason) > WHY_CHARS_MAX:
        raise ConfigError(
            f"--why TEXT is missing, or longer than {WHY_CHARS_MAX} characters: say why the finding"
            " is accepted"
        )
    return reason


def _choose_one(context: Context, name: str, run_dir: str | None) -> tuple[str, FindingRecord]:
    """Return the id of the run and the finding. Raises ConfigError unless the name means exactly
    one.
    """
    run, summary = open_finished_run(choose_run(context, run_dir))
    chosen = choose_findings(read_all_findings(run, summary), name)
    if not chosen:
        raise ConfigError(
            f"{run.address} has no finding {name}: give the id of a finding (auditor explain"
            " shows it)"
        )
    if len(chosen) > 1:
        ids = ", ".join(f"{finding.id} {finding.kind.value}" for finding in chosen[:10])
        raise ConfigError(
            f"{name} has {len(chosen)} findings in {run.address}: give the id of one of them"
            f" ({ids})"
        )
    return summary.run_id, chosen[0]


def _write(directory: Place, file: str, mutes: Sequence[Mute]) -> None:
    directory.create()
    directory.write_text(file, "".join(f"{mute.line()}\n" for mute in mutes))
