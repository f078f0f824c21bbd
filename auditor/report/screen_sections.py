"""The sections of the first screen: kinds, causes, bookies, topics, what is unknown, notes.

Each item is one or two lines; `auditor.report.line_budget` chooses how many of them are shown.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from auditor.model.finding import CATALOGUE, Kind, Severity, Subject
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.report.causes_text import SAYS_CHARS_MAX
from auditor.report.changes_text import mutes_sentences
from auditor.report.findings_text import (
    by_kind,
    subject_words,
    worst,
    worst_kinds_first,
)
from auditor.report.layout import duration, moment, of, printable, wrap
from auditor.report.line_budget import Section
from auditor.report.references_text import hit_words
from auditor.report.surroundings_text import REPLICATION_DISABLED, note_sentences, upgrade_sentence
from auditor.report.unjudged_text import (
    most_frequent,
    name_bookies,
    name_examples,
    reasons_sum_words,
)

ITEM_LINES_MAX = 2
"""Lines of an item that is one sentence among several."""
NOTE_LINES_MAX = 6
EXAMPLE_CHARS_MIN = 12
"""Columns reserved for the worst example of a kind, however wide the rest of its row is."""

_STYLES = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: ""}


def kinds_section(
    summary: Summary, findings: Sequence[FindingRecord], width: int, color: bool
) -> Section:
    """Return a row for each kind found, the worst first: severity, kind, number, worst example."""
    groups = by_kind(findings)
    found = [kind for kind in worst_kinds_first() if summary.hits(kind) or kind in groups]
    rows = [_row(summary, kind, groups.get(kind, [])) for kind in found]
    styles = [_STYLES[CATALOGUE[kind].severity] for kind in found]
    lines = [[line] for line in _table(rows, styles, width, color)]
    names = [f"{kind.value} {summary.hits(kind):,}" for kind in found]
    return Section("found", lines, "kind", "kinds", weight=4, names=names, width=width)


def _row(summary: Summary, kind: Kind, findings: Sequence[FindingRecord]) -> list[str]:
    facts = CATALOGUE[kind]
    hit = (
        "the cluster"
        if facts.subject is Subject.CLUSTER
        else of(summary.hits(kind), facts.subject.value)
    )
    return [
        facts.severity.word.upper(),
        kind.value,
        hit,
        _new_and_muted_words(summary, kind, findings),
        _example(findings),
    ]


def _new_and_muted_words(summary: Summary, kind: Kind, findings: Sequence[FindingRecord]) -> str:
    """Return how many of the findings are new, and how many are muted."""
    new = summary.changes.new_of(kind) if summary.changes else 0
    muted = sum(finding.is_muted for finding in findings)
    return ", ".join(
        f"{number:,} {word}" for number, word in ((new, "new"), (muted, "muted")) if number
    )


def _example(findings: Sequence[FindingRecord]) -> str:
    if not findings or findings[0].is_on_cluster:
        return ""
    shown = worst(findings, 1)[0]
    name = shown.owner.name if shown.owner else None
    owner = f" ({printable(name)})" if name else ""
    return f"{subject_words(shown)}{owner}"


def _table(
    rows: Sequence[Sequence[str]], styles: Sequence[str], width: int, color: bool
) -> list[str]:
    """Return one line of at most `width` columns for each row; the last column is cut to fit."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    left = max(EXAMPLE_CHARS_MIN, width - sum(one + 2 for one in widths if one))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for column in [0, 1, 2, *([3] if widths[3] else []), 4]:
        table.add_column(
            no_wrap=True, overflow="crop", min_width=widths[column] if column < 4 else None
        )
    for row, style in zip(rows, styles, strict=True):
        shown = [*row[: 4 if widths[3] else 3], printable(row[4], left)]
        table.add_row(Text(shown[0], style), *map(Text, shown[1:]))
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=color, color_system="standard" if color else None
    )
    console.print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def causes_section(summary: Summary, width: int) -> Section:
    """Return the causes, the one that explains most first."""
    items = [
        list(wrap(printable(row.says, SAYS_CHARS_MAX), width, "", ITEM_LINES_MAX))
        for row in summary.causes
    ]
    return Section("causes", items, "cause", "causes")


def bookies_section(findings: Sequence[FindingRecord], width: int) -> Section:
    """Return the bookies that have findings in one line, the worst first."""
    named = dict.fromkeys(
        finding.bookie_id
        for group in by_kind(findings).values()
        for finding in group
        if finding.bookie_id
    )
    sentence = f"{len(named):,} with findings: {', '.join(map(printable, named))}"
    return Section(
        "bookies",
        [[printable(sentence, width)]] if named else [],
        "list of bookies",
        "lists of bookies",
    )


def mutes_section(summary: Summary, width: int) -> Section:
    """Return what is muted, and which mutes do not apply any more."""
    items = [
        list(wrap(sentence, width, "", ITEM_LINES_MAX)) for sentence in mutes_sentences(summary)
    ]
    return Section("muted", items, "line on mutes", "lines on mutes", weight=2)


def topics_section(summary: Summary, width: int) -> Section:
    """Return how many topics are hit."""
    items = [list(wrap(hit_words(summary), width))] if summary.topics_hit else []
    return Section("topics", items, "line on topics", "lines on topics")


def unjudged_section(summary: Summary, width: int) -> Section:
    """Return each reason why ledgers could not be judged, then what else could not be decided."""
    unheard = summary.bookies_unheard
    items = [
        list(
            wrap(
                f"{reason.value}  {of(number, 'ledger')}{name_examples(summary, reason, number)}"
                f"{name_bookies(reason, unheard)}",
                width,
                "",
                ITEM_LINES_MAX,
            )
        )
        for reason, number in most_frequent(summary)
    ]
    if sum_words := reasons_sum_words(summary):
        items.append(list(wrap(sum_words, width, "", ITEM_LINES_MAX)))
    for sentence in summary.withheld:
        items.append(list(wrap(printable(sentence, 1_000), width, "", ITEM_LINES_MAX)))
    return Section(
        "unknown", items, "line on what is unknown", "lines on what is unknown", weight=2
    )


def upgrade_section(summary: Summary, width: int) -> Section:
    """Return the section on disabled auto-recovery, and the bookies not reported as lost because of
    it.
    """
    sentence = upgrade_sentence(summary) or (
        REPLICATION_DISABLED if summary.is_replication_disabled else ""
    )
    items = [list(wrap(sentence, width, "", NOTE_LINES_MAX))] if sentence else []
    return Section("recovery", items, "note on auto-recovery", "notes on auto-recovery")


def notes_section(summary: Summary, width: int) -> Section:
    """Return what else limits the run.

    That is: bookies that cannot list, maintenance, bookies that were renamed, open ledgers that
    could not be recovered.
    """
    said = upgrade_sentence(summary)
    items = [
        list(wrap(sentence, width, "", NOTE_LINES_MAX))
        for sentence in note_sentences(summary)
        if sentence != said
    ]
    return Section("notes", items, "note", "notes")


def audited_section(summary: Summary, width: int) -> Section:
    """Return which cluster was audited, and when."""
    started, finished = moment(summary.started_at), moment(summary.finished_at)
    when = ""
    if started and finished:
        took = duration((finished - started).total_seconds())
        when = f", {started:%Y-%m-%d %H:%M:%S} to {finished:%H:%M:%S} UTC ({took})"
    name = printable(summary.cluster.metadata_service_uri, 300)
    items = [list(wrap(f"{name}{when}", width, "", ITEM_LINES_MAX))]
    return Section("audited", items, "line on cluster and time", "lines on cluster and time")
