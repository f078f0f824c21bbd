"""The report for people: what was found, how much was judged, and what to do.

The last line is for machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.model.verdict import Exempt
from auditor.report.carried_text import carried_section
from auditor.report.findings_text import (
    causes_section,
    changes_words,
    findings_section,
    mutes_sentences,
    next_section,
)
from auditor.report.layout import (
    PLAIN,
    Screen,
    count,
    duration,
    moment,
    of,
    printable,
    share,
    table,
)
from auditor.report.metadata_text import metadata_section
from auditor.report.outcome_text import (
    EXEMPT_WORDS,
    HUES,
    SEVERITY_HUES,
    STANDING_HUES,
    doubt_words,
    exit_code_words,
    machine_line,
    outcome_sentences,
    verified_share_meaning,
)
from auditor.report.references_text import references_section
from auditor.report.surroundings_text import REPLICATION_DISABLED, note_lines, requests_section
from auditor.report.tally import tally_lines, tally_of
from auditor.report.unjudged_text import unjudged_section

_AGES = {
    "under_1h": "under 1 h",
    "under_1d": "1 h to 1 d",
    "under_1w": "1 d to 1 w",
    "older": "older",
}
"""The age classes of `marks_by_age`, in words."""


def marks_section(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield lines on the marks; none if there is no mark or the summary does not count marks."""
    marks = summary.marks
    if marks is None or not marks.total:
        return
    yield screen.paint("Marks (under-replicated)", "bold")
    of_what = " of the named ledgers" if summary.is_partial else ""
    head = f"{of(marks.total, 'mark')}{of_what}: {count(marks.within_grace)} within grace, "
    yield from screen.wrap(f"{head}{count(marks.beyond_grace)} beyond it", "  ")
    ages = summary.marks_by_age
    ages_text = ", ".join(
        f"{words} {count(ages[name])}" for name, words in _AGES.items() if ages[name]
    )
    yield from screen.wrap(f"by age: {ages_text}", "  ")
    if marks.stale:
        are = "mark is" if marks.stale == 1 else "marks are"
        yield from screen.wrap(
            f"{count(marks.stale)} {are} stale: every copy was listed or read where the metadata"
            " says",
            "  ",
        )
    if marks.without_ledger:
        are = (
            "mark has no ledger: its"
            if marks.without_ledger == 1
            else "marks have no ledger: their"
        )
        yield from screen.wrap(f"{count(marks.without_ledger)} {are} metadata does not exist", "  ")
    yield ""


_NO_VERDICT = "No verdict was given; the results of earlier runs are left as they were."

_COMMAND = re.compile(r"auditor run --resume [^\s;]+")
"""A command in a sentence. It stays on one line: it can be copied."""
_NO_BREAK = "\0"
"""Replaces a space at which no line may break. Printable text never has this character."""

_HANG = " " * len("cluster   ")

LAST_LINES = 5
"""Lines kept of the end of a sentence that is too long."""
WIDTH_MIN = 80
WIDTH_MAX = 120


def render(
    summary: Summary,
    findings: Sequence[FindingRecord],
    *,
    run_dir: str = "",
    screen: Screen = PLAIN,
) -> str:
    """Return the whole report. Pure.

    It is printable ASCII except for colours, has the machine line last, and ends in one newline.
    `findings` are all of them, or the worst. The number of lines is bounded, however many ledgers
    have findings.
    """
    screen = fit(screen)
    return assemble(
        _heading(summary, screen),
        _tally(summary, screen),
        causes_section(summary, screen),
        _ledgers(summary, screen),
        marks_section(summary, screen),
        carried_section(summary, screen),
        metadata_section(summary, screen),
        references_section(summary, screen),
        findings_section(summary, findings, screen),
        unjudged_section(summary, screen),
        requests_section(summary, screen),
        next_section(findings, screen),
        _files(summary, run_dir, screen),
        [machine_line(summary.outcome, summary.run_id, summary.ledgers)],
    )


def render_unreachable(
    run_id: str,
    sentence: str,
    *,
    screen: Screen = PLAIN,
    lines_max: int | None = None,
) -> str:
    """Return the report of a run that could not reach, read or understand what it needs (exit 5).

    `sentence` is the message of the error. If it has more than `lines_max` lines, its middle is
    left out: the advice at its end stays.
    """
    return assemble(
        _without_counts("UNREACHABLE", sentence, _NO_VERDICT, screen, lines_max),
        [machine_line("UNREACHABLE", run_id)],
    )


def render_fault(
    run_id: str,
    sentence: str,
    *,
    run_dir: str = "",
    screen: Screen = PLAIN,
    lines_max: int | None = None,
) -> str:
    """Return the report, without counts, of a run in which the auditor itself failed (exit 4).

    For example, the ledgers do not add up, or an unexpected exception was raised. `lines_max` is as
    in `render_unreachable`.
    """
    where = ""
    if run_dir:
        path = printable(run_dir, 1_000 if lines_max is None else 200)
        where = f" The evidence is kept in {path}."
    after = (
        f"This is the auditor's own fault, not the cluster's: no counts are published.{where}"
        " Please report it."
    )
    return assemble(
        _without_counts("AUDITOR_FAULT", sentence, after, screen, lines_max),
        [machine_line("AUDITOR_FAULT", run_id)],
    )


def _without_counts(
    outcome: str, sentence: str, after: str, screen: Screen, lines_max: int | None
) -> Iterator[str]:
    shown = printable(sentence, 4_000)
    whole = _COMMAND.sub(lambda found: found.group().replace(" ", _NO_BREAK), shown)
    lines = [line.replace(_NO_BREAK, " ") for line in fit(screen).wrap(f"{outcome}: {whole}")]
    if lines_max is not None and len(lines) > lines_max:
        lines = [*lines[: lines_max - LAST_LINES - 1], "...", *lines[-LAST_LINES:]]
    yield lines[0].replace(outcome, screen.paint(outcome, HUES[outcome]), 1)
    yield from lines[1:]
    yield from fit(screen).wrap(after)
    yield ""


def fit(screen: Screen) -> Screen:
    """Return a screen of a width at which a report can be read."""
    return screen.bounded(WIDTH_MIN, WIDTH_MAX)


def assemble(*parts: Iterator[str] | list[str]) -> str:
    return "".join(f"{line}\n" for part in parts for line in part)


def cluster_name(summary: Summary) -> str:
    """Return the cluster's service URI, with its instance id if it has one."""
    cluster = summary.cluster
    instance = f" (instance {printable(cluster.instance_id)})" if cluster.instance_id else ""
    return f"{printable(cluster.metadata_service_uri, 300)}{instance}"


def verdict_notes(summary: Summary) -> Iterator[str]:
    """Yield what a reader must know of the outcome besides its sentence."""
    yield from filter(None, [exit_code_words(summary)])
    if changed := changes_words(summary.changes):
        yield f"Changed: {changed}."
    for sentence in mutes_sentences(summary):
        yield f"Mutes: {sentence}."
    if summary.is_replication_disabled:
        yield REPLICATION_DISABLED


def _heading(summary: Summary, screen: Screen) -> Iterator[str]:
    outcome = summary.outcome
    lines = list(screen.wrap(f"{outcome}: {outcome_sentences(summary)}"))
    yield lines[0].replace(outcome, screen.paint(outcome, HUES[outcome]), 1)
    yield from lines[1:]
    for sentence in verdict_notes(summary):
        yield from screen.wrap(sentence)
    yield from note_lines(summary, screen)
    yield ""
    yield from screen.wrap(f"cluster   {cluster_name(summary)}", hang=_HANG)
    started, finished = moment(summary.started_at), moment(summary.finished_at)
    if started and finished:
        took = duration((finished - started).total_seconds())
        version = printable(summary.auditor_version)
        yield (
            f"audited   {started:%Y-%m-%d %H:%M:%S} to {finished:%H:%M:%S} UTC ({took}),"
            f" auditor {version}"
        )
    if resumed := summary.resumed_at:
        last = moment(resumed[-1])
        times = f" {len(resumed)} times, last" if len(resumed) > 1 else ""
        yield f"{_HANG}interrupted and resumed{times} at {last:%Y-%m-%d %H:%M:%S} UTC"
    yield ""


def _tally(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield the numbers of findings by severity; nothing if there is no finding."""
    hues = {severity.word: hue for severity, hue in SEVERITY_HUES.items()}
    lines = list(tally_lines(tally_of(summary)))
    for label, columns in lines:
        line = f"{label:<{len(_HANG)}}{columns}"
        yield screen.paint(line, hues[label]) if label in hues else line
    yield from [""] if lines else []


def _ledgers(summary: Summary, screen: Screen) -> Iterator[str]:
    ledgers = summary.ledgers
    yield screen.paint("Ledgers", "bold")
    hues = {standing.word: hue for standing, hue in STANDING_HUES.items()}
    for name, number in asdict(ledgers).items():
        line = f"  {name:<14}{count(number):>13}"
        has_hue = name in ("violated", "indeterminate") and number
        yield screen.paint(line, hues[name]) if has_hue else line
        if name == "exempt":
            yield from _exempt(summary)
    meaning = (
        "of the ledgers carry no reason to be unknown and are not merely excused by a mark"
        if ledgers.listed
        else "there was nothing to judge"
    )
    yield from _share_line("coverage", summary.coverage, meaning, screen)
    copies = summary.copies
    if copies is not None and copies.expected:
        meaning = verified_share_meaning(summary, copies)
        yield from _share_line("verified", summary.verified_ratio or 0.0, meaning, screen)
    if words := doubt_words(summary):
        yield from screen.wrap(f"in doubt: {words}", "  ")
    yield ""


def _share_line(name: str, ratio: float, meaning: str, screen: Screen) -> Iterator[str]:
    head = f"  {name:<14}{share(ratio):>13}  "
    first, *rest = screen.wrap(meaning, " " * len(head))
    yield head + first.strip()
    yield from rest


def _exempt(summary: Summary) -> Iterator[str]:
    rows = [(f"{count(n):>13}", EXEMPT_WORDS[r]) for r in Exempt if (n := summary.exempt(r))]
    yield from table(rows, " " * 16)


def _files(summary: Summary, run_dir: str, screen: Screen) -> Iterator[str]:
    if not run_dir:
        return
    where = printable(run_dir, 1_000).rstrip("/")
    yield screen.paint("Files", "bold")
    yield f"  {where}/"
    yield f"  findings.jsonl ({of(summary.findings_total, 'finding')}), summary.json, metrics.prom"
    if summary.causes:
        yield "  causes/ (the ledgers of each cause, for --ledgers-from)"
    has_stale_marks = summary.marks is not None and summary.marks.stale
    if has_stale_marks or summary.found(Kind.MARK_WITHOUT_LEDGER).findings:
        yield "  marks/ (the ledgers of stale marks, and those of MARK_WITHOUT_LEDGER)"
    if summary.open_recovery_blocked and summary.open_recovery_blocked.ledgers:
        yield "  open/ (the open ledgers that could not be recovered now)"
    if summary.references and summary.references.orphaned:
        yield "  references/ (the ledgers of LEDGER_ORPHANED)"
    if summary.topics_hit:
        yield f"  topics.jsonl ({of(summary.topics_hit, 'topic')} hit, worst first)"
    yield "  evidence/ (what ZooKeeper and the bookies said, and when), verdicts/"
    yield ""
