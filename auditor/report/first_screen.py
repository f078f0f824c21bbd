"""The first screen of a run: at most 25 lines on what was found, what changed and what to do next.

The full report (`auditor.report.text`) has all the rest. Both use the same sentences.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.report.changes_text import changes_words
from auditor.report.copies_words import doubt_words, verified_share_words
from auditor.report.findings_text import by_kind, worst
from auditor.report.layout import of, paint, printable, wrap
from auditor.report.line_budget import LABEL_CHARS, fill
from auditor.report.outcome_words import (
    HUES,
    exit_code_words,
    headline,
    machine_line,
)
from auditor.report.screen_sections import (
    audited_section,
    bookies_section,
    causes_section,
    kinds_section,
    mutes_section,
    notes_section,
    topics_section,
    unjudged_section,
    upgrade_section,
)
from auditor.report.unjudged_text import most_frequent, what_to_do

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
    width: int = 100,
    color: bool = False,
    lines_max: int = SCREEN_LINES_MAX,
) -> str:
    """Return at most `lines_max` lines of at most `width` columns, the machine line last. Pure.

    Only the machine line and a command may be longer. The terminal wraps them, and the rows that
    they then take are counted. The text is printable ASCII except for colours.
    """
    width = max(WIDTH_MIN, min(width, WIDTH_MAX))
    head = _head(summary, width, color)
    foot = _foot(summary, findings, where, width)
    taken = len(head) + sum(-(-len(line) // width) for line in foot)
    text_width = width - LABEL_CHARS
    sections = [
        mutes_section(summary, text_width),
        kinds_section(summary, findings, text_width, color),
        unjudged_section(summary, text_width),
        upgrade_section(summary, text_width),
        causes_section(summary, text_width),
        bookies_section(findings, text_width),
        topics_section(summary, text_width),
        notes_section(summary, text_width),
        audited_section(summary, text_width),
    ]
    middle = fill(sections, max(1, lines_max - taken))
    return "".join(f"{line}\n" for line in (*head, *middle, *foot))


def _head(summary: Summary, width: int, color: bool) -> list[str]:
    outcome = summary.outcome
    lines = list(wrap(f"{outcome}: {headline(summary)}", width))
    lines[0] = lines[0].replace(outcome, paint(outcome, HUES[outcome], color), 1)
    if said := exit_code_words(summary):
        lines += wrap(said, width)
    text_width = width - LABEL_CHARS
    for label, words in (
        ("verified", verified_share_words(summary)),
        ("in doubt", doubt_words(summary)),
        ("changed", changes_words(summary.changes)),
    ):
        lines += label_lines(label, wrap(words, text_width, "", PART_LINES_MAX))
    return lines


def _foot(
    summary: Summary, findings: Sequence[FindingRecord], where: Whereabouts, width: int
) -> list[str]:
    machine = machine_line(summary.outcome, summary.run_id, summary.ledgers)
    text_width = width - LABEL_CHARS
    step = _next_command(findings, where)
    steps = [step] if step else list(wrap(_next_sentence(summary), text_width, "", PART_LINES_MAX))
    rest = wrap(_rest_words(summary, where), text_width, "", PART_LINES_MAX)
    return [*label_lines("next", steps), *label_lines("all of it", rest), machine]


def _next_command(findings: Sequence[FindingRecord], where: Whereabouts) -> str:
    """Return the command that shows the worst finding in full; "" without findings.

    A finding that is muted comes after those that are not.
    """
    if not findings:
        return ""
    if not where.is_stored:
        return f"auditor {where.again} {where.directory()} --full"
    groups = by_kind([one for one in findings if not one.is_muted] or findings)
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
