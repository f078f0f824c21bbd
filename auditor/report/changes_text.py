"""Sentences on what changed since the last run, since when a finding is seen, and what is muted."""

from __future__ import annotations

from auditor.model.finding_record import FindingRecord
from auditor.model.summary import ChangeCounts, Summary
from auditor.report.layout import moment, of, printable

OUTGROWN_SHOWN_MAX = 3
"""At most this many outdated mutes are explained; further ones are counted."""
PROBLEM_CHARS_MAX = 400


def changes_words(changes: ChangeCounts | None) -> str:
    """Return what changed since the earlier run; "" if there was none.

    `changes` is the field of the summary. Each number counts findings, as `auditor diff` does.
    """
    if not changes:
        return ""
    if changes.since is None:
        return f"not known: {printable(changes.problem, PROBLEM_CHARS_MAX)}"
    began = f"{moment(changes.since.started_at):%Y-%m-%d %H:%M} UTC"
    new = f"{changes.new:,} new" if changes.new else "nothing new"
    numbers = {
        "worse": changes.worse,
        "as before": changes.still,
        "better": changes.better,
        "resolved": changes.resolved,
        "could not be checked again": changes.not_checked_again - changes.gone,
        "on ledgers that are not listed any more": changes.gone,
    }
    parts = [
        f"{new} since the run of {began}",
        *(f"{number:,} {words}" for words, number in numbers.items() if number),
    ]
    return f"{'on the ledgers named: ' if changes.partial else ''}{', '.join(parts)}"


def seen_words(finding: FindingRecord) -> str:
    """Return since when a finding is seen; "" if that is not known."""
    history = finding.history
    if history is None or not history.first_seen or not history.runs_seen:
        return ""
    first, runs = history.first_seen, history.runs_seen
    began = f"{moment(first):%Y-%m-%d %H:%M} UTC"
    return (
        f"first seen by the run of {began}"
        if runs == 1
        else f"seen by {runs:,} runs since that of {began}"
    )


def muted_words(finding: FindingRecord) -> str:
    """Return until when a finding is muted and why; "" if it is not."""
    muted = finding.muted
    return (
        f"muted until {printable(muted.until)}: {printable(muted.why, PROBLEM_CHARS_MAX)}"
        if muted
        else ""
    )


def mutes_sentences(summary: Summary) -> list[str]:
    """Return how many findings are muted, which mutes do not apply, and which are over."""
    mutes = summary.mutes
    said = [printable(mutes.problem, PROBLEM_CHARS_MAX)] if mutes.problem else []
    if mutes.findings:
        muted = of(mutes.findings, "finding is muted and does", "findings are muted and do")
        said.append(f"{muted} not count for the exit code")
    outgrown = mutes.outgrown
    said += [
        f"the mute of {printable(one.id)} ({printable(one.on)}) does not apply:"
        f" {printable(one.why)}"
        for one in outgrown[:OUTGROWN_SHOWN_MAX]
    ]
    if len(outgrown) > OUTGROWN_SHOWN_MAX:
        said.append(
            f"{len(outgrown) - OUTGROWN_SHOWN_MAX:,} more mutes do not apply: see summary.json"
        )
    expired = mutes.expired
    if expired:
        said.append(
            f"{of(len(expired), 'mute of a finding is', 'mutes of findings are')} over"
            f" ({printable(expired[0])})"
        )
    return said
