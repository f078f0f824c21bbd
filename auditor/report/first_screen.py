"""The first screen of a run: what was found, what changed and what to do next.

It is as high as the terminal, or LINES_UNKNOWN. The verdict, the cluster, the numbers and the next
command are always there. Between them are kinds, what is not judged, causes, bookies, topics and
notes. Each item is one or two lines. What does not fit is left out, and each section says what it
had to leave out. The full report (`auditor.report.text`) has all the rest. Both use the same
sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditor.model.finding import CATALOGUE, Kind, Subject
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.report.findings_text import (
    SAYS_CHARS_MAX,
    by_kind,
    changes_words,
    mutes_sentences,
    worst,
    worst_finding,
    worst_kinds_first,
)
from auditor.report.layout import PLAIN, Screen, count, duration, moment, of, printable
from auditor.report.outcome_text import (
    HUES,
    SEVERITY_HUES,
    doubt_words,
    exit_code_words,
    headline,
    machine_line,
    verified_share_words,
)
from auditor.report.references_text import hit_words
from auditor.report.surroundings_text import REPLICATION_DISABLED, note_sentences, upgrade_sentence
from auditor.report.tally import UNJUDGED, tally_lines, tally_of
from auditor.report.unjudged_text import (
    most_frequent,
    name_bookies,
    name_examples,
    several_reasons_words,
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
    all. `one` and `many` name the items where those left out are counted: in the last line of the
    screen, or, if the items have short `names`, in the last line of the section, with as many names
    as fit in `width` columns. A section with a greater `weight` gets more items.
    """

    label: str
    blocks: Sequence[Sequence[str]]
    one: str
    many: str
    weight: int = 1
    names: Sequence[str] = ()
    width: int = 0

    def cost(self, shown: int) -> int:
        """Return how many lines of its own the section takes with its first `shown` items."""
        return sum(map(len, self.blocks[:shown])) + self._has_own_count(shown)

    def is_counted_below(self, shown: int) -> bool:
        """Return whether the last line of the screen counts what is left out."""
        return shown < len(self.blocks) and not self._has_own_count(shown)

    def count(self, shown: int) -> str:
        """Return how many items are left out after the first `shown`: "3 more kinds"."""
        left = len(self.blocks) - shown
        return f"{left:,} {'more ' if shown else ''}{self.one if left == 1 else self.many}"

    def lines(self, shown: int) -> list[str]:
        """Return these lines. If items with names are left out, the last line counts them."""
        lines = [line for block in self.blocks[:shown] for line in block]
        if self._has_own_count(shown):
            counted = f"{self.count(shown)}: "
            lines.append(counted + _as_fits(self.names[shown:], self.width - len(counted)))
        labels = [self.label, *[""] * len(lines)]
        return [f"{label:<{LABEL_CHARS}}{line}" for label, line in zip(labels, lines, strict=False)]

    def _has_own_count(self, shown: int) -> bool:
        return bool(self.names) and 0 < shown < len(self.blocks)


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

    Sections without items have no line. The last line counts what is left out of the others.
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
    left = [
        section.count(number)
        for section, number in zip(wanted, shown, strict=True)
        if section.is_counted_below(number)
    ]
    if left:
        lines.append(f"{'also':<{LABEL_CHARS}}{_as_fits(left, ALSO_CHARS_MAX)}")
    return lines


def _share(sections: Sequence[Section], lines_max: int) -> list[int]:
    """Return how many items of each section are shown.

    They take turns until nothing more fits: at first with one item each, then by their weights.
    """
    shown = [0] * len(sections)
    has_grown, turn = True, 0
    while has_grown or turn == 1:
        has_grown = False
        for place, section in enumerate(sections):
            for _ in range(section.weight if turn else 1):
                grown = [*shown[:place], shown[place] + 1, *shown[place + 1 :]]
                if shown[place] < len(section.blocks) and _cost(sections, grown) <= lines_max:
                    shown, has_grown = grown, True
        turn += 1
    return shown


def _cost(sections: Sequence[Section], shown: Sequence[int]) -> int:
    """Return how many lines they take, with the one that counts what is left out."""
    each = list(zip(sections, shown, strict=True))
    own = sum(section.cost(number) for section, number in each if number)
    return own + any(section.is_counted_below(number) for section, number in each)


ITEM_LINES_MAX = 2
"""Lines of an item that is one sentence among several."""
NOTE_LINES_MAX = 6


def kinds_section(summary: Summary, findings: Sequence[FindingRecord], screen: Screen) -> Section:
    """Return a line for each kind found, the worst first: severity, kind, what it hits."""
    groups = by_kind(findings)
    found = [kind for kind in worst_kinds_first() if summary.hits(kind) or kind in groups]
    widest = max((len(kind.value) for kind in found), default=0)
    lines = [[_kind_line(summary, kind, groups.get(kind, []), widest, screen)] for kind in found]
    names = [f"{kind.value} {summary.hits(kind):,}" for kind in found]
    return Section("found", lines, "kind", "kinds", weight=2, names=names, width=screen.width)


def _kind_line(
    summary: Summary, kind: Kind, findings: Sequence[FindingRecord], widest: int, screen: Screen
) -> str:
    """Return the line of a kind, which fits the screen. No name in it is cut."""
    severity = CATALOGUE[kind].severity
    word = severity.word.upper()
    head = f"{word:<8}  {kind.value:<{widest}}  "
    says = _longest_that_fits(_hits(summary, kind, findings), screen.width - len(head))
    return (head + says).replace(word, screen.paint(word, SEVERITY_HUES[severity]), 1)


def _hits(summary: Summary, kind: Kind, findings: Sequence[FindingRecord]) -> Iterator[str]:
    """Yield what findings of a kind hit, with ever fewer names: of its worst example the owner, the
    end of the owner's name, and the example itself are left out in this order.
    """
    hits, subject = summary.hits(kind), CATALOGUE[kind].subject
    noted = "".join(f", {words}" for words in _new_and_muted_words(summary, kind, findings))
    if subject is Subject.CLUSTER:
        yield f"the cluster{noted}"
        return
    counted = f"{of(hits, subject.value)}{noted}"
    if findings:
        example = worst(findings, 1)[0]
        name = example.bookie_id if subject is Subject.BOOKIE else str(example.ledger_id)
        named = printable(name, NAME_CHARS_MAX)
        whole = f"{subject.value} {named}"
        owned = (*(f"{whole} of {owner}" for owner in _owners(example)), whole)
        yield from (f"{it}{noted}" if hits == 1 else f"{counted}; worst: {it}" for it in owned)
        yield from [] if hits == 1 else [f"{counted}; worst: {named}"]
    yield counted


NAME_CHARS_MAX = 1_000
"""Characters of a name that may be shown. A longer one fits no screen."""


def _owners(finding: FindingRecord) -> Iterator[str]:
    """Yield the owner's name, then ends of it: a topic's last parts tell it from others."""
    name = printable(finding.owner.name, NAME_CHARS_MAX) if finding.owner else ""
    parts = name.split("/")
    yield from ([name] if name else [])
    yield from (f".../{'/'.join(parts[place:])}" for place in range(1, len(parts)))


def _longest_that_fits(texts: Iterable[str], width: int) -> str:
    """Return the first of the texts that fits; if none does, as much of the last one as fits."""
    text = ""
    for text in texts:
        if len(text) <= width:
            return text
    return printable(text, width)


def _new_and_muted_words(
    summary: Summary, kind: Kind, findings: Sequence[FindingRecord]
) -> Iterator[str]:
    """Yield how many of the findings are new, and how many are muted."""
    new = summary.changes.new_of(kind) if summary.changes else 0
    muted = sum(finding.is_muted for finding in findings)
    for number, word in ((new, "new"), (muted, "muted")):
        if number:
            yield word if number == summary.hits(kind) == 1 else f"{count(number)} {word}"


def causes_section(summary: Summary, screen: Screen) -> Section:
    """Return the causes, the one that explains most first."""
    items = [
        list(screen.wrap(printable(row.says, SAYS_CHARS_MAX), "", ITEM_LINES_MAX))
        for row in summary.causes
    ]
    return Section("causes", items, "cause", "causes")


def bookies_section(summary: Summary, findings: Sequence[FindingRecord], screen: Screen) -> Section:
    """Return one line: how many bookies there are and answered, and those with findings, the worst
    first.
    """
    named = list(
        dict.fromkeys(
            printable(finding.bookie_id)
            for group in by_kind(findings).values()
            for finding in group
            if finding.bookie_id
        )
    )
    says = "; ".join(filter(None, (_bookie_counts(summary), _count_with_findings(named))))
    line = says + (f": {_as_fits(named, screen.width - len(says) - 2)}" if named else "")
    return Section("bookies", [[line]] if line else [], "list of bookies", "lists of bookies")


def _bookie_counts(summary: Summary) -> str:
    """Return how many bookies are registered, and how many did not answer; "" if not counted."""
    counts = summary.bookies
    if counts is None or not counts.registered:
        return ""
    numbers = {
        "silent": counts.silent,
        "refused": counts.refused,
        "not registered": counts.away,
        "gone": counts.gone,
    }
    odd = [f"{count(number)} {words}" for words, number in numbers.items() if number]
    return ", ".join([f"{count(counts.registered)} registered", *odd])


def _count_with_findings(named: Sequence[str]) -> str:
    return f"{len(named):,} with findings" if named else ""


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
    """Return each reason why ledgers could not be judged, how the reasons add up, and what else
    could not be decided.
    """
    unheard = summary.bookies_unheard
    items = [
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
    for sentence in filter(None, (several_reasons_words(summary), *summary.withheld)):
        items.append(list(screen.wrap(printable(sentence, 1_000), "", ITEM_LINES_MAX)))
    return Section(UNJUDGED, items, "line on what is unknown", "lines on what is unknown")


def doubt_section(summary: Summary, screen: Screen) -> Section:
    """Return how many copies only bookies in doubt list."""
    words = doubt_words(summary)
    items = [list(screen.wrap(words, "", NOTE_LINES_MAX))] if words else []
    return Section("in doubt", items, "line on copies in doubt", "lines on copies in doubt")


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


def audited_lines(summary: Summary, screen: Screen) -> list[str]:
    """Return which cluster was audited, and when."""
    started, finished = moment(summary.started_at), moment(summary.finished_at)
    when = ""
    if started and finished:
        took = duration((finished - started).total_seconds())
        when = f"{started:%Y-%m-%d %H:%M:%S} to {finished:%H:%M:%S} UTC ({took})"
    name = _middle_cut(printable(summary.cluster.metadata_service_uri, 300), screen.width)
    both = f"{name}, {when}" if when else name
    return [both] if len(both) <= screen.width else [name, when]


def _middle_cut(text: str, width: int) -> str:
    """Return the text with the middle left out if it is too long: its two ends say most."""
    if len(text) <= width:
        return text
    tail = (width - len(" ... ")) // 2
    return f"{text[: width - tail - len(' ... ')]} ... {text[-tail:]}"


WIDTH_MIN, WIDTH_MAX = 80, 200
PART_LINES_MAX = 2
"""Lines of one sentence below the verdict."""
PAGE, REPORT = "report.html", "report.txt"
"""Files of a run's directory."""
BESIDE_PAGE = f" ({REPORT}: all of it)"
ESCAPE_CHARS_MAX = 10
"""Characters of the longest escape that `printable` gives for a character."""
COMMAND_ROWS = 2
"""Rows kept for a command that names OUTPUT, however long that is."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where the rest of a run is, and how commands find it.

    `directory`: the run's directory, for people. `choice`: the words after a command that make it
    take this run, quoted for a shell; "" if it does by default. `has_page`: report.html is in the
    directory. `again` is the command that prints the report with --full. `is_stored`: the files in
    the directory belong to this report; after a replay they do not.
    """

    directory: str
    choice: str = ""
    has_page: bool = True
    again: str = "report"
    is_stored: bool = True

    def command(self, *words: str) -> str:
        """Return a command on this run, as it can be run."""
        return " ".join(filter(None, ("auditor", *words, self.choice)))

    def page(self, width: int) -> str:
        """Return where the page is, and that the whole report is beside it if there is room.

        Of a path that does not fit, the last directories are shown.
        """
        path = f"{self.directory}/{PAGE if self.has_page else REPORT}"
        more, parts = BESIDE_PAGE if self.has_page else "", path.split("/")
        ends = [".../" + "/".join(parts[first:]) for first in range(1, len(parts))]
        for shown in (f"{path}{more}", path, *(f"{end}{more}" for end in ends)):
            if len(printable(shown, len(shown) * ESCAPE_CHARS_MAX)) <= width:
                return printable(shown, width)
        return printable(f"{parts[-1]}{more}", width)


def render_first_screen(
    summary: Summary,
    findings: Sequence[FindingRecord],
    where: Whereabouts,
    *,
    screen: Screen = PLAIN,
    lines_above: int = 0,
) -> str:
    """Return lines that fit the screen below `lines_above` others, the machine line last. Pure.

    Only the machine line and a command may be longer. The terminal wraps them, and the rows that
    they then take are counted. The text is printable ASCII except for colours.
    """
    screen = screen.bounded(WIDTH_MIN, WIDTH_MAX)
    head = _head(summary, screen)
    foot = _foot(summary, findings, where, screen)
    taken = lines_above + len(head) + sum(_rows(line, where, screen) for line in foot)
    inner = screen.narrowed(LABEL_CHARS)
    sections = [
        mutes_section(summary, inner),
        kinds_section(summary, findings, inner),
        unjudged_section(summary, inner),
        bookies_section(summary, findings, inner),
        upgrade_section(summary, inner),
        causes_section(summary, inner),
        topics_section(summary, inner),
        doubt_section(summary, inner),
        notes_section(summary, inner),
    ]
    middle = fill(sections, max(1, screen.height - taken))
    return "".join(f"{line}\n" for line in (*head, *middle, *foot))


def _head(summary: Summary, screen: Screen) -> list[str]:
    outcome = summary.outcome
    lines = list(screen.wrap(f"{outcome}: {headline(summary)}"))
    lines[0] = lines[0].replace(outcome, screen.paint(outcome, HUES[outcome]), 1)
    if said := exit_code_words(summary):
        lines += screen.wrap(said)
    inner = screen.narrowed(LABEL_CHARS)
    lines += label_lines("audited", audited_lines(summary, inner))
    for label, columns in tally_lines(tally_of(summary)):
        shown = f"{label:<{LABEL_CHARS}}{columns}"
        hue = _HUES.get(label)
        lines.append(shown.replace(label, screen.paint(label, hue), 1) if hue else shown)
    for label, words in (
        ("verified", verified_share_words(summary)),
        ("changed", changes_words(summary.changes)),
    ):
        lines += label_lines(label, inner.wrap(words, "", PART_LINES_MAX))
    return lines


_HUES = {severity.word: hue for severity, hue in SEVERITY_HUES.items()}


def _foot(
    summary: Summary, findings: Sequence[FindingRecord], where: Whereabouts, screen: Screen
) -> list[str]:
    machine = machine_line(summary.outcome, summary.run_id, summary.ledgers)
    inner = screen.narrowed(LABEL_CHARS)
    step = _next_command(findings, where)
    steps = [step] if step else list(inner.wrap(_next_sentence(summary), "", PART_LINES_MAX))
    page = [where.page(inner.width)] if where.is_stored else []
    return [
        *label_lines("next", steps),
        *label_lines("page" if where.has_page else "report", page),
        machine,
    ]


def _rows(line: str, where: Whereabouts, screen: Screen) -> int:
    """Return the rows that a line of the foot takes, or may take with another OUTPUT."""
    rows = -(-len(line) // screen.width)
    has_path = where.choice and line.endswith(where.choice)
    return max(rows, COMMAND_ROWS) if has_path else rows


def _next_command(findings: Sequence[FindingRecord], where: Whereabouts) -> str:
    """Return the command that shows the worst finding in full; "" without findings."""
    first = worst_finding(findings)
    if first is None:
        return ""
    if not where.is_stored:
        return where.command(where.again, "--full")
    return where.command("explain", printable(first.id))


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


def label_lines(label: str, lines: Iterable[str]) -> list[str]:
    """Return the lines, with the label before the first one."""
    return [
        f"{label if not place else '':<{LABEL_CHARS}}{line}" for place, line in enumerate(lines)
    ]
