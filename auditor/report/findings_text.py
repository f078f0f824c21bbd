"""The report's sections on findings, grouped by kind with the worst first, and on next commands.

Also on their causes (the cause that explains most ledgers comes first), what changed since the last
run, since when a finding is seen, and what is muted. Their number of lines is bounded, however many
ledgers have findings. One finding is rendered in full.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from auditor.model.finding import (
    CATALOGUE,
    CAUSE_LEDGERS_MIN,
    RANGES_MAX,
    Kind,
    Ranges,
    Severity,
    Subject,
)
from auditor.model.finding_record import FindingRecord, Owner, RecordedLook
from auditor.model.identity import BookieId
from auditor.model.summary import CauseRecord, ChangeCounts, MuteCounts, Summary
from auditor.report.layout import Screen, count, moment, of, printable, ranges, table
from auditor.report.outcome_text import SEVERITY_HUES
from auditor.witness.finding_lines import gist
from auditor.witness.next_commands import sort_steps
from auditor.witness.phrases import percent

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
    mutes = summary.mutes or MuteCounts()
    said = [printable(mutes.problem, PROBLEM_CHARS_MAX)] if mutes.problem else []
    if mutes.findings:
        muted = of(mutes.findings, "finding is muted and does", "findings are muted and do")
        said.append(f"{muted} not count for the exit code")
    outgrown = mutes.outgrown
    said += [
        f"the mute of {printable(mute.id)} ({printable(mute.on)}) does not apply:"
        f" {printable(mute.why)}"
        for mute in outgrown[:OUTGROWN_SHOWN_MAX]
    ]
    if len(outgrown) > OUTGROWN_SHOWN_MAX:
        said.append(
            f"{len(outgrown) - OUTGROWN_SHOWN_MAX:,} more mutes do not apply: see summary.json"
        )
    expired = mutes.expired
    if expired:
        said.append(
            f"{of(len(expired), 'mute of a finding is', 'mutes of findings are')} over"
            f" ({printable(expired[0].id)})"
        )
    return said


KINDS_SHOWN_MAX = 4
"""At most this many kinds and reasons are named for one cause; further ones are only counted."""
SAYS_CHARS_MAX = 400
"""Characters shown of a cause's sentence."""
SAYS_LINES_MAX = 4
GROUPED = "whose cause is looked for"
"""Names the findings for which causes are looked for."""
BECAUSE_OF_A_BOOKIE = "because a bookie was silent, refused or had no readable address"
"""Names the unjudged ledgers for which causes are looked for: those with a reason of `SILENCES`."""


def causes_section(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield the lines on causes: about three for each of at most ten causes (`summary.causes`).

    A last line counts the ledgers that have findings or could not be judged, without a cause.
    """
    rows, unexplained = summary.causes, summary.ledgers_without_cause
    if not rows and not unexplained:
        return
    yield screen.paint("Causes, the one that explains most first" if rows else "Causes", "bold")
    for number, row in enumerate(rows, start=1):
        cause = cause_words(row)
        yield from screen.wrap(f"{number}. {cause.says}", "  ", SAYS_LINES_MAX, hang="   ")
        yield from screen.wrap(cause.explains, "     ", 2, hang="  ")
        yield f"     ids: {cause.file}"
    if more := more_causes(summary):
        yield f"  ... and {more}"
    yield from screen.wrap(without_cause(summary), "  ")
    yield ""


class CauseWords(NamedTuple):
    """A cause in words: what it is, what it explains, and the file with the ids of its ledgers."""

    says: str
    explains: str
    file: str


def cause_words(row: CauseRecord) -> CauseWords:
    """Return one of `summary.causes` in words."""
    explained = f"{of(row.ledgers, 'ledger')} ({percent(row.share)} of all hit)"
    says = printable(row.says, SAYS_CHARS_MAX)
    return CauseWords(says, f"{explained}: {_kinds(row.kinds)}", printable(row.file))


def more_causes(summary: Summary) -> str:
    """Return how many causes `summary.causes` leaves out; "" if none."""
    rest = summary.causes_rest
    if not rest.causes:
        return ""
    return f"{of(rest.causes, 'more cause')} of {of(rest.ledgers, 'ledger')}, without a file"


def without_cause(summary: Summary) -> str:
    """Return how many ledgers have findings or could not be judged, without a common cause.

    Counts only findings of the kinds that are grouped, and only ledgers unjudged because of a whole
    bookie (`auditor.after.causes`): others may have findings or be unjudged too.
    """
    unexplained, has_causes = summary.ledgers_without_cause, bool(summary.causes)
    unjudged = summary.unjudged_without_cause
    found = unexplained - unjudged
    said = []
    if has_causes:
        if found:
            said.append(f"the findings on {of(found, 'more ledger')}")
        if unjudged:
            said.append(f"{of(unjudged, 'more ledger')} not judged {BECAUSE_OF_A_BOOKIE}")
        return f"No common cause was found for {', nor for '.join(said)}." if said else ""
    if found:
        said.append(f"{of(found, 'ledger has', 'ledgers have')} findings {GROUPED}")
    if unjudged:
        said.append(f"{of(unjudged, 'ledger')} could not be judged {BECAUSE_OF_A_BOOKIE}")
    sentence = ", and ".join(said)
    if unexplained < CAUSE_LEDGERS_MIN:
        return f"{sentence}: too few to have a common cause."
    return f"{sentence}. No common cause could be shown."


def _kinds(kinds: Mapping[str, int]) -> str:
    shown = [
        f"{printable(kind)} {count(int(number))}"
        for kind, number in list(kinds.items())[:KINDS_SHOWN_MAX]
    ]
    more = len(kinds) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


DETAILED_KINDS_MAX = 2
"""The worst finding is shown in full for so many kinds, and for every critical kind."""
LEDGERS_SHOWN_MAX = 5
LEDGERS_SHOWN_BRIEF_MAX = 2
MATRIX_BOOKIES_MAX = 8
MATRIX_LOOKS_MAX = 4
WITNESS_LINES_MAX = 10
FINDING_LINES_MAX = 4
BOOKIES_LACKING_SHOWN_MAX = 3
NEXT_FINDINGS_MAX = 5
"""The commands of this many findings are shown: the worst finding of each of the worst kinds."""
COMMANDS_OF_A_FINDING_MAX = 10
COMMAND_CHARS_MAX = 1_000
"""At most this many characters of a command are shown. It is not wrapped: it can be copied."""


def by_kind(findings: Sequence[FindingRecord]) -> dict[Kind, list[FindingRecord]]:
    """Return the findings by kind, the worst kind first. Costs one pass.

    Kinds are ordered by severity, then as in the catalogue.
    """
    groups: dict[Kind, list[FindingRecord]] = defaultdict(list)
    for finding in findings:
        groups[finding.kind].append(finding)
    return {kind: groups[kind] for kind in worst_kinds_first() if kind in groups}


def worst_kinds_first() -> list[Kind]:
    return sorted(CATALOGUE, key=lambda kind: -CATALOGUE[kind].severity)


def worst(findings: Sequence[FindingRecord], number: int) -> list[FindingRecord]:
    """Return the `number` worst findings of one kind.

    The worst has the fewest copies that are confirmed or unknown; then the fewest confirmed, the
    most entries, and the lowest id.
    """
    return heapq.nsmallest(number, findings, key=_badness)


def worst_finding(findings: Sequence[FindingRecord]) -> FindingRecord | None:
    """Return the worst finding of the worst kind; None without findings.

    A finding that is muted comes after those that are not.
    """
    groups = by_kind([finding for finding in findings if not finding.is_muted] or findings)
    return worst(next(iter(groups.values())), 1)[0] if groups else None


def _badness(finding: FindingRecord) -> tuple[int, int, int, int, str]:
    confirmed = finding.copies.confirmed if finding.copies else 0
    unknown = finding.copies.unknown if finding.copies else 0
    where = (finding.ledger_id or 0, finding.bookie_id or "")
    return (confirmed + unknown, confirmed, -finding.entries_total, *where)


def findings_section(
    summary: Summary, findings: Sequence[FindingRecord], screen: Screen
) -> Iterator[str]:
    """Yield lines on each kind found. `findings` may be only some: the counts come from
    `summary`.
    """
    groups = by_kind(findings)
    found = [kind for kind in worst_kinds_first() if summary.hits(kind) or kind in groups]
    if not found:
        return
    yield screen.paint("Findings, worst first", "bold")
    for rank, kind in enumerate(found):
        in_full = rank < DETAILED_KINDS_MAX or CATALOGUE[kind].severity is Severity.CRITICAL
        shown_max = LEDGERS_SHOWN_MAX if rank < DETAILED_KINDS_MAX else LEDGERS_SHOWN_BRIEF_MAX
        yield from _kind(
            kind, summary.hits(kind), worst(groups.get(kind, []), shown_max), in_full, screen
        )
    yield ""


def _kind(
    kind: Kind, hit: int, shown: Sequence[FindingRecord], in_full: bool, screen: Screen
) -> Iterator[str]:
    facts = CATALOGUE[kind]
    hue = SEVERITY_HUES[facts.severity]
    subject = facts.subject.value
    hits_what = "the cluster" if facts.subject is Subject.CLUSTER else of(hit, subject)
    yield f"  {screen.paint(facts.severity.word.upper() + ' ' + kind.value, hue)}  {hits_what}"
    yield from screen.wrap(facts.says, "    ")
    for place, finding in enumerate(shown):
        is_in_full = in_full and place == 0
        line = (
            one_line(finding)
            if is_in_full
            else ": ".join(filter(None, (one_line(finding), one_fact(finding))))
        )
        yield from screen.wrap("- " + line, "    ", FINDING_LINES_MAX, hang="  ")
        if is_in_full:
            witness = printable(finding.witness, 2_000)
            yield from screen.wrap(witness, "        ", WITNESS_LINES_MAX)
            yield from matrix(finding, "        ")
    if hit > len(shown):
        yield (
            f"    ... and {of(hit - len(shown), 'more ' + subject, 'more ' + subject + 's')} in"
            " findings.jsonl"
        )


def one_line(finding: FindingRecord) -> str:
    """Return the ledger or bookie of a finding, its owner, the entries and the number of copies."""
    parts = [subject_words(finding)]
    if finding.owner:
        parts[0] += f" of {owner_text(finding.owner)}"
    if finding.entries:
        total, said = finding.entries_total, ranges(finding.entries)
        parts.append(
            f"entry {said}" if total == 1 else f"entries {said} ({of(total, 'entry', 'entries')})"
        )
    if copies := finding.copies:
        unknown = f", {copies.unknown} unknown" if copies.unknown else ""
        parts.append(
            f"{copies.confirmed} of {copies.write_quorum} copies{unknown}, ack quorum"
            f" {copies.ack_quorum}"
        )
    muted = finding.muted
    return ", ".join(parts) + (f" (muted until {printable(muted.until)})" if muted else "")


def one_fact(finding: FindingRecord) -> str:
    """Return the main fact of a finding that is not shown in full.

    It says which bookies lack which entries, or else what the witness concludes.
    """
    missing = finding.missing_on
    if not missing:
        return printable(gist(finding.witness), 1_000)
    shown = [
        f"{printable(bookie)} lacks {ranges(runs)}"
        for bookie, runs in list(missing.items())[:BOOKIES_LACKING_SHOWN_MAX]
    ]
    more = len(missing) - len(shown)
    return "; ".join(shown) + (f"; so do {more} more" if more else "")


def owner_text(owner: Owner) -> str:
    """Return an owner's application, component and name, if known."""
    return printable(" ".join(filter(None, (owner.application, owner.component, owner.name))))


def matrix(finding: FindingRecord, indent: str) -> Iterator[str]:
    """Yield a table of what each bookie answered at each look, bookies that lack entries first."""
    heading = "" if finding.is_on_cluster else "bookie"
    yield from looks_table(finding.looks, indent, finding.missing_on, heading)


_NOTHING: Mapping[BookieId, Ranges] = {}


def looks_table(
    looks: Sequence[RecordedLook],
    indent: str,
    missing: Mapping[BookieId, Ranges] = _NOTHING,
    heading: str = "bookie",
) -> Iterator[str]:
    """Yield a table of who answered what at each look, those that lack entries first.

    It has at most MATRIX_BOOKIES_MAX bookies and MATRIX_LOOKS_MAX looks.
    """
    bookies = sorted({b for look in looks for b in look.answers})
    if not bookies:
        return
    shown_looks = (
        looks if len(looks) <= MATRIX_LOOKS_MAX else [looks[0], *looks[1 - MATRIX_LOOKS_MAX :]]
    )
    bookies.sort(key=lambda bookie: bookie not in missing)
    header = [
        heading,
        *(_clock(look) for look in shown_looks),
        "lacks" if missing else "",
    ]
    rows = [
        [
            printable(b, 50),
            *(answer_words(look, b) or "-" for look in shown_looks),
            ranges(missing.get(b, ())),
        ]
        for b in bookies[:MATRIX_BOOKIES_MAX]
    ]
    yield from table([header, *rows], indent)
    if len(bookies) > MATRIX_BOOKIES_MAX:
        yield f"{indent}... and {of(len(bookies) - MATRIX_BOOKIES_MAX, 'more bookie')}"


def answer_words(look: RecordedLook, bookie: BookieId) -> str:
    """Return what a bookie said at a look; for a list, how much of what it should hold it names.

    Return "" if the bookie was not asked.
    """
    if look.listed and bookie in look.listed:
        listed, due = look.listed[bookie]
        return f"{count(listed)} of {count(due)} listed" if due else "should hold none"
    return printable(look.answers.get(bookie, ""), 40)


def _clock(look: RecordedLook) -> str:
    """Return the time of a look as HH:MM:SS (UTC), with the version of the ledger's znode."""
    version = look.znode_version
    return f"{moment(look.at):%H:%M:%S}" + ("" if version is None else f" v{version}")


def next_section(findings: Sequence[FindingRecord], screen: Screen) -> Iterator[str]:
    """Yield commands for the worst finding of each of the worst kinds.

    For each finding, what has to be saved comes first, then commands that only look, then those
    that change the cluster. The latter are left out unless all of the former are shown.
    """
    with_commands = [
        finding for group in by_kind(findings).values() if (finding := worst(group, 1)[0]).next
    ]
    if not with_commands:
        return
    yield screen.paint("Next: save, then look", "bold")
    for finding in with_commands[:NEXT_FINDINGS_MAX]:
        yield f"  for {subject_words(finding)} ({finding.kind.value})"
        yield from commands_of(finding, screen)
    if rest := [finding.kind.value for finding in with_commands[NEXT_FINDINGS_MAX:]]:
        yield from screen.wrap(
            f"for {', '.join(rest)}: the field `next` in findings.jsonl", "  ", hang="  "
        )
    yield ""


def commands_of(finding: FindingRecord, screen: Screen) -> Iterator[str]:
    """Yield what to do about a finding: what to save, what looks, what changes the cluster."""
    yield from command_lines(subject_words(finding), finding.next, screen)


def command_lines(subject: str, lines: Sequence[str], screen: Screen) -> Iterator[str]:
    """Yield the lines of a field `next`, each group below a heading that says what it does."""
    steps = sort_steps(lines)
    for note in steps.notes:
        yield from screen.wrap(printable(note, COMMAND_CHARS_MAX), "    ", hang="    ")
    left = 0
    for heading, commands in (
        ("save this first; these commands only read" if steps.save else "", steps.save),
        ("then look; these commands change nothing" if steps.save else "", steps.look),
    ):
        if commands and heading:
            yield f"  {heading}"
        shown = [command for command in commands if _is_exact(command)][:COMMANDS_OF_A_FINDING_MAX]
        yield from (f"    {command}" for command in shown)
        left += len(commands) - len(shown)
    if left:
        yield f"    ... and {left} more in its field `next`, before anything is changed"
    elif steps.change:
        yield f"  then for {subject}, and this CHANGES THE CLUSTER"
        shown = [command for command in steps.change if _is_exact(command)]
        yield from (f"    {command}" for command in shown[:COMMANDS_OF_A_FINDING_MAX])
        if left := len(steps.change) - len(shown[:COMMANDS_OF_A_FINDING_MAX]):
            yield f"    ... and {left} more in its field `next`"


def _is_exact(command: str) -> bool:
    """Return whether a command can be shown unchanged. Escaped or cut, it would be a different
    one.
    """
    return printable(command, COMMAND_CHARS_MAX) == command


def subject_words(finding: FindingRecord) -> str:
    """Return the subject of a finding: "bookie b7", "ledger 42" or "the cluster"."""
    if finding.bookie_id:
        return f"bookie {printable(finding.bookie_id)}"
    return "the cluster" if finding.ledger_id is None else f"ledger {finding.ledger_id}"


WITNESS_CHARS_MAX = 20_000
"""At most this many characters of a witness are shown. It is a few sentences."""
LOOKS_INDENT = "    "


def render_finding(finding: FindingRecord, screen: Screen) -> str:
    """Return everything that is known of a finding: facts, witness, looks, commands and page."""
    return "\n".join([*_lines(finding, screen), ""])


def _lines(finding: FindingRecord, screen: Screen) -> Iterator[str]:
    hue = SEVERITY_HUES[finding.severity]
    head = f"{finding.severity.name} {finding.kind.value}"
    yield f"{screen.paint(head, hue)}  {printable(finding.id)}"
    yield from screen.wrap(CATALOGUE[finding.kind].says, "  ")
    yield from screen.wrap(one_line(finding), "  ", hang="  ")
    for words in filter(None, (seen_words(finding), muted_words(finding))):
        yield from screen.wrap(words, "  ", hang="  ")
    yield ""
    yield from screen.wrap(printable(finding.witness, WITNESS_CHARS_MAX), "  ")
    yield ""
    yield from _entries(finding, screen)
    answers = list(matrix(finding, LOOKS_INDENT))
    if answers:
        yield from ("  What each bookie answered", *answers, "")
    if finding.next:
        has_saves = bool(sort_steps(finding.next).save)
        yield f"  What to do{': save, then look' if has_saves else ''}"
        yield from commands_of(finding, screen)
        yield ""
    yield from table([["page", printable(finding.runbook or "none")]], "  ")


def _entries(finding: FindingRecord, screen: Screen) -> Iterator[str]:
    """Yield every stored range of entries, and what each bookie lacks."""
    stored, rest = finding.entries, finding.entries_unnamed
    if not stored:
        return
    more = f", and {of(rest, 'more entry', 'more entries')}" if rest > 0 else ""
    yield from screen.wrap(f"Entries {ranges(stored, len(stored))}{more}", "  ", hang="  ")
    for bookie, lacking in finding.missing_on.items():
        yield from screen.wrap(
            f"{printable(bookie)} lacks {ranges(lacking, len(lacking))}{_more_ranges(lacking)}",
            LOOKS_INDENT,
            hang="  ",
        )
    yield ""


def _more_ranges(stored: Sequence[Sequence[int]]) -> str:
    """Return the words after stored ranges that may not be all: further ranges are not counted."""
    return " ..." if len(stored) >= RANGES_MAX else ""
