"""The first screen of a run: at most 25 lines on what was found, what changed and what to do next.

Its sections are kinds, causes, bookies, topics, what is unknown, and notes. Each item is one or two
lines. What does not fit is left out, and each section says what it had to leave out. The full
report (`auditor.report.text`) has all the rest. Both use the same sentences.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from auditor.model.finding import CATALOGUE, Kind, Severity, Subject
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.report.findings_text import (
    SAYS_CHARS_MAX,
    by_kind,
    changes_words,
    mutes_sentences,
    subject_words,
    worst,
    worst_kinds_first,
)
from auditor.report.layout import PLAIN, Screen, duration, moment, of, printable
from auditor.report.outcome_text import (
    HUES,
    doubt_words,
    exit_code_words,
    headline,
    machine_line,
    verified_share_words,
)
from auditor.report.references_text import hit_words
from auditor.report.surroundings_text import REPLICATION_DISABLED, note_sentences, upgrade_sentence
from auditor.report.unjudged_text import (
    most_frequent,
    name_bookies,
    name_examples,
    reasons_sum_words,
    what_to_do,
)

LABEL_CHARS = 10
"""Characters before the text of a line. On the first line of a section its label takes their
place."""

ALSO_CHARS_MAX = 70
"""Characters of the line that names what did not fit: one line at the least width."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a screen, with a label of at most LABEL_CHARS - 1 characters.

    `blocks` are the lines of its items, the most important first. An item is shown whole or not at
    all. `one` and `many` name the items in the line that counts those left out. A section with a
    greater `weight` gets more items. `names` are short names of the items: the line that counts
    those left out has as many of them as fit in `width` columns.
    """

    label: str
    blocks: Sequence[Sequence[str]]
    one: str
    many: str
    weight: int = 1
    names: Sequence[str] = ()
    width: int = 0

    def cost(self, shown: int) -> int:
        """Return how many lines the section takes with its first `shown` items."""
        return sum(map(len, self.blocks[:shown])) + (shown < len(self.blocks))

    def count(self, shown: int) -> str:
        """Return how many items are left out after the first `shown`: "3 more kinds"."""
        left = len(self.blocks) - shown
        return f"{left:,} {'more ' if shown else ''}{self.one if left == 1 else self.many}"

    def lines(self, shown: int) -> list[str]:
        """Return these lines. If items are left out, the last line counts them."""
        lines = [line for block in self.blocks[:shown] for line in block]
        if shown < len(self.blocks):
            lines.append(self._left_out(shown))
        labels = [self.label, *[""] * len(lines)]
        return [f"{label:<{LABEL_CHARS}}{line}" for label, line in zip(labels, lines, strict=False)]

    def _left_out(self, shown: int) -> str:
        if not self.names:
            return f"{self.count(shown)} in the full report"
        counted = f"{self.count(shown)}: "
        return counted + _as_fits(self.names[shown:], self.width - len(counted))


def _as_fits(names: Sequence[str], width: int) -> str:
    """Return as many names as fit, each whole; "..." stands for the others."""
    line = ""
    for place, name in enumerate(names):
        longer = f"{line}{', ' if place else ''}{name}"
        if len(longer) > width - (len(", ...") if place + 1 < len(names) else 0):
            return f"{line}{', ' if place else ''}..."
        line = longer
    return line


def fill(sections: Sequence[Section], lines_max: int) -> list[str]:
    """Return at most `lines_max` lines of the sections, in their order.

    Sections without items have no line. Sections of which nothing fits share the last line.
    """
    assert lines_max >= 1, lines_max
    wanted = [section for section in sections if section.blocks]
    shown = _share(wanted, lines_max)
    lines = [
        line
        for section, number in zip(wanted, shown, strict=True)
        if number
        for line in section.lines(number)
    ]
    if not all(shown):
        named = [
            section.count(0) for section, number in zip(wanted, shown, strict=True) if not number
        ]
        lines.append(f"{'also':<{LABEL_CHARS}}{_as_fits(named, ALSO_CHARS_MAX)}")
    return lines


def _share(sections: Sequence[Section], lines_max: int) -> list[int]:
    """Return how many items of each section are shown. They take turns until nothing more fits."""
    shown = [0] * len(sections)
    has_grown = True
    while has_grown:
        has_grown = False
        for place, section in enumerate(sections):
            for _ in range(section.weight):
                grown = [*shown[:place], shown[place] + 1, *shown[place + 1 :]]
                if shown[place] < len(section.blocks) and _cost(sections, grown) <= lines_max:
                    shown, has_grown = grown, True
    return shown


def _cost(sections: Sequence[Section], shown: Sequence[int]) -> int:
    """Return how many lines they take. Sections of which nothing is shown share one line."""
    own = sum(
        section.cost(number) for section, number in zip(sections, shown, strict=True) if number
    )
    return own + (not all(shown))


ITEM_LINES_MAX = 2
"""Lines of an item that is one sentence among several."""
NOTE_LINES_MAX = 6
EXAMPLE_CHARS_MIN = 12
"""Columns reserved for the worst example of a kind, however wide the rest of its row is."""

_STYLES = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: ""}


def kinds_section(summary: Summary, findings: Sequence[FindingRecord], screen: Screen) -> Section:
    """Return a row for each kind found, the worst first: severity, kind, number, worst example."""
    groups = by_kind(findings)
    found = [kind for kind in worst_kinds_first() if summary.hits(kind) or kind in groups]
    rows = [_row(summary, kind, groups.get(kind, [])) for kind in found]
    styles = [_STYLES[CATALOGUE[kind].severity] for kind in found]
    lines = [[line] for line in _table(rows, styles, screen)]
    names = [f"{kind.value} {summary.hits(kind):,}" for kind in found]
    return Section("found", lines, "kind", "kinds", weight=4, names=names, width=screen.width)


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


def _table(rows: Sequence[Sequence[str]], styles: Sequence[str], screen: Screen) -> list[str]:
    """Return one line that fits the screen for each row; the last column is cut."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    left = max(EXAMPLE_CHARS_MIN, screen.width - sum(columns + 2 for columns in widths if columns))
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
        file=out,
        width=screen.width,
        force_terminal=screen.color,
        color_system="standard" if screen.color else None,
    )
    console.print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def causes_section(summary: Summary, screen: Screen) -> Section:
    """Return the causes, the one that explains most first."""
    items = [
        list(screen.wrap(printable(row.says, SAYS_CHARS_MAX), "", ITEM_LINES_MAX))
        for row in summary.causes
    ]
    return Section("causes", items, "cause", "causes")


def bookies_section(findings: Sequence[FindingRecord], screen: Screen) -> Section:
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
        [[printable(sentence, screen.width)]] if named else [],
        "list of bookies",
        "lists of bookies",
    )


def mutes_section(summary: Summary, screen: Screen) -> Section:
    """Return what is muted, and which mutes do not apply any more."""
    items = [
        list(screen.wrap(sentence, "", ITEM_LINES_MAX)) for sentence in mutes_sentences(summary)
    ]
    return Section("muted", items, "line on mutes", "lines on mutes", weight=2)


def topics_section(summary: Summary, screen: Screen) -> Section:
    """Return how many topics are hit."""
    items = [list(screen.wrap(hit_words(summary)))] if summary.topics_hit else []
    return Section("topics", items, "line on topics", "lines on topics")


def unjudged_section(summary: Summary, screen: Screen) -> Section:
    """Return how the reasons add up, each reason why ledgers could not be judged, then what else
    could not be decided.
    """
    unheard = summary.bookies_unheard
    sum_words = reasons_sum_words(summary)
    items = [list(screen.wrap(sum_words, "", ITEM_LINES_MAX))] if sum_words else []
    items += [
        list(
            screen.wrap(
                f"{reason.value}  {of(number, 'ledger')}{name_examples(summary, reason, number)}"
                f"{name_bookies(reason, unheard)}",
                "",
                ITEM_LINES_MAX,
            )
        )
        for reason, number in most_frequent(summary)
    ]
    for sentence in summary.withheld:
        items.append(list(screen.wrap(printable(sentence, 1_000), "", ITEM_LINES_MAX)))
    return Section(
        "unknown", items, "line on what is unknown", "lines on what is unknown", weight=2
    )


def upgrade_section(summary: Summary, screen: Screen) -> Section:
    """Return the section on disabled auto-recovery, and the bookies not reported as lost because of
    it.
    """
    sentence = upgrade_sentence(summary) or (
        REPLICATION_DISABLED if summary.is_replication_disabled else ""
    )
    items = [list(screen.wrap(sentence, "", NOTE_LINES_MAX))] if sentence else []
    return Section("recovery", items, "note on auto-recovery", "notes on auto-recovery")


def notes_section(summary: Summary, screen: Screen) -> Section:
    """Return what else limits the run.

    That is: bookies that cannot list, maintenance, bookies that were renamed, open ledgers that
    could not be recovered.
    """
    said = upgrade_sentence(summary)
    items = [
        list(screen.wrap(sentence, "", NOTE_LINES_MAX))
        for sentence in note_sentences(summary)
        if sentence != said
    ]
    return Section("notes", items, "note", "notes")


def audited_section(summary: Summary, screen: Screen) -> Section:
    """Return which cluster was audited, and when."""
    started, finished = moment(summary.started_at), moment(summary.finished_at)
    when = ""
    if started and finished:
        took = duration((finished - started).total_seconds())
        when = f", {started:%Y-%m-%d %H:%M:%S} to {finished:%H:%M:%S} UTC ({took})"
    name = printable(summary.cluster.metadata_service_uri, 300)
    items = [list(screen.wrap(f"{name}{when}", "", ITEM_LINES_MAX))]
    return Section("audited", items, "line on cluster and time", "lines on cluster and time")


SCREEN_LINES_MAX = 25
"""Lines of the first screen at 80 columns and more: those of a terminal window."""
WIDTH_MIN, WIDTH_MAX = 80, 200
PART_LINES_MAX = 2
"""Lines of one sentence below the verdict."""
RUN_DIR_CHARS_MAX = 100
"""The next command names the run's directory if it has at most this many characters."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where the full report is. `run_dir`: the run's directory as commands take it.

    `again` is the command that prints the report with --full. `is_stored`: the files in `run_dir`
    belong to this report; after a replay they do not.
    """

    run_dir: str
    again: str = "report"
    is_stored: bool = True

    @property
    def is_short(self) -> bool:
        return (
            len(self._shell_word) <= RUN_DIR_CHARS_MAX
            and self.run_dir.isascii()
            and self.run_dir.isprintable()
        )

    @property
    def _shell_word(self) -> str:
        return shlex.quote(self.run_dir)

    def directory(self) -> str:
        """Return the directory for a command line, or a placeholder if it is too long."""
        return self._shell_word if self.is_short else "RUN_DIR"


def render_first_screen(
    summary: Summary,
    findings: Sequence[FindingRecord],
    where: Whereabouts,
    *,
    screen: Screen = PLAIN,
    lines_max: int = SCREEN_LINES_MAX,
) -> str:
    """Return at most `lines_max` lines that fit the screen, the machine line last. Pure.

    Only the machine line and a command may be longer. The terminal wraps them, and the rows that
    they then take are counted. The text is printable ASCII except for colours.
    """
    screen = screen.bounded(WIDTH_MIN, WIDTH_MAX)
    head = _head(summary, screen)
    foot = _foot(summary, findings, where, screen)
    taken = len(head) + sum(-(-len(line) // screen.width) for line in foot)
    inner = screen.narrowed(LABEL_CHARS)
    sections = [
        mutes_section(summary, inner),
        kinds_section(summary, findings, inner),
        unjudged_section(summary, inner),
        upgrade_section(summary, inner),
        causes_section(summary, inner),
        bookies_section(findings, inner),
        topics_section(summary, inner),
        notes_section(summary, inner),
        audited_section(summary, inner),
    ]
    middle = fill(sections, max(1, lines_max - taken))
    return "".join(f"{line}\n" for line in (*head, *middle, *foot))


def _head(summary: Summary, screen: Screen) -> list[str]:
    outcome = summary.outcome
    lines = list(screen.wrap(f"{outcome}: {headline(summary)}"))
    lines[0] = lines[0].replace(outcome, screen.paint(outcome, HUES[outcome]), 1)
    if said := exit_code_words(summary):
        lines += screen.wrap(said)
    inner = screen.narrowed(LABEL_CHARS)
    for label, words in (
        ("verified", verified_share_words(summary)),
        ("in doubt", doubt_words(summary)),
        ("changed", changes_words(summary.changes)),
    ):
        lines += label_lines(label, inner.wrap(words, "", PART_LINES_MAX))
    return lines


def _foot(
    summary: Summary, findings: Sequence[FindingRecord], where: Whereabouts, screen: Screen
) -> list[str]:
    machine = machine_line(summary.outcome, summary.run_id, summary.ledgers)
    inner = screen.narrowed(LABEL_CHARS)
    step = _next_command(findings, where)
    steps = [step] if step else list(inner.wrap(_next_sentence(summary), "", PART_LINES_MAX))
    rest = inner.wrap(_rest_words(summary, where), "", PART_LINES_MAX)
    return [*label_lines("next", steps), *label_lines("all of it", rest), machine]


def _next_command(findings: Sequence[FindingRecord], where: Whereabouts) -> str:
    """Return the command that shows the worst finding in full; "" without findings.

    A finding that is muted comes after those that are not.
    """
    if not findings:
        return ""
    if not where.is_stored:
        return f"auditor {where.again} {where.directory()} --full"
    groups = by_kind([finding for finding in findings if not finding.is_muted] or findings)
    first = worst(next(iter(groups.values())), 1)[0]
    return f"auditor explain {printable(first.id)} {where.directory()}"


def _next_sentence(summary: Summary) -> str:
    """Return what to do about what could not be judged, if nothing was found."""
    if summary.ledgers.listed == 0 and summary.exit_code != 0:
        return "auditor doctor shows what the metadata service has at this address"
    reasons = most_frequent(summary)
    if not reasons:
        return ""
    reason = reasons[0][0]
    return (
        f"{reason.value}:"
        f" {what_to_do(reason, summary.bookies_unheard, summary.maintenance.bookie_ids)}"
    )


def _rest_words(summary: Summary, where: Whereabouts) -> str:
    """Return where the full report is."""
    if not where.is_stored:
        return f"auditor {where.again} {where.directory()} --full"
    found = of(summary.findings_total, "finding")
    files = f"report.txt (auditor report --full) and findings.jsonl ({found})"
    return f"{files} in {printable(where.run_dir, RUN_DIR_CHARS_MAX)}"


def label_lines(label: str, lines: Iterable[str]) -> list[str]:
    """Return the lines, with the label before the first one."""
    return [
        f"{label if not place else '':<{LABEL_CHARS}}{line}" for place, line in enumerate(lines)
    ]
