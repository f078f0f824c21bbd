"""The report's sections on findings, grouped by kind with the worst first, and on next commands.

Their number of lines is bounded, however many ledgers have findings.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from auditor.model.finding import CATALOGUE, Kind, Ranges, Severity, Subject
from auditor.model.finding_record import FindingRecord, Owner, RecordedLook
from auditor.model.identity import BookieId
from auditor.model.summary import Summary
from auditor.report.layout import count, moment, of, paint, printable, ranges, table, wrap
from auditor.witness.finding_lines import gist
from auditor.witness.next_commands import sort_steps

DETAILED_KINDS_MAX = 2
"""The worst finding is shown in full for so many kinds, and for every critical kind."""
LEDGERS_SHOWN_MAX = 5
LEDGERS_SHOWN_BRIEF_MAX = 2
MATRIX_BOOKIES_MAX = 8
MATRIX_LOOKS_MAX = 4
WITNESS_LINES_MAX = 8
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


def _badness(finding: FindingRecord) -> tuple[int, int, int, int, str]:
    confirmed = finding.copies.confirmed if finding.copies else 0
    unknown = finding.copies.unknown if finding.copies else 0
    where = (finding.ledger_id or 0, finding.bookie_id or "")
    return (confirmed + unknown, confirmed, -finding.entries_total, *where)


def findings_section(
    summary: Summary, findings: Sequence[FindingRecord], width: int, color: bool
) -> Iterator[str]:
    """Yield lines on each kind found. `findings` may be only some: the counts come from
    `summary`.
    """
    groups = by_kind(findings)
    found = [kind for kind in worst_kinds_first() if summary.hits(kind) or kind in groups]
    if not found:
        return
    yield paint("Findings, worst first", "bold", color)
    for rank, kind in enumerate(found):
        in_full = rank < DETAILED_KINDS_MAX or CATALOGUE[kind].severity is Severity.CRITICAL
        shown_max = LEDGERS_SHOWN_MAX if rank < DETAILED_KINDS_MAX else LEDGERS_SHOWN_BRIEF_MAX
        yield from _kind(
            kind, summary.hits(kind), worst(groups.get(kind, []), shown_max), in_full, width, color
        )
    yield ""


def _kind(
    kind: Kind, hit: int, shown: Sequence[FindingRecord], in_full: bool, width: int, color: bool
) -> Iterator[str]:
    facts = CATALOGUE[kind]
    hue = "red" if facts.severity is Severity.CRITICAL else "yellow"
    subject = facts.subject.value
    hits_what = "the cluster" if facts.subject is Subject.CLUSTER else of(hit, subject)
    yield f"  {paint(facts.severity.word.upper() + ' ' + kind.value, hue, color)}  {hits_what}"
    yield from wrap(facts.says, width, "    ")
    for place, finding in enumerate(shown):
        is_in_full = in_full and place == 0
        line = (
            one_line(finding)
            if is_in_full
            else ": ".join(filter(None, (one_line(finding), one_fact(finding))))
        )
        yield from wrap("- " + line, width, "    ", FINDING_LINES_MAX, hang="  ")
        if is_in_full:
            witness = printable(finding.witness, 2_000)
            yield from wrap(witness, width, "        ", WITNESS_LINES_MAX)
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


def next_section(findings: Sequence[FindingRecord], width: int, color: bool) -> Iterator[str]:
    """Yield commands for the worst finding of each of the worst kinds.

    For each finding, what has to be saved comes first, then commands that only look, then those
    that change the cluster. The latter are left out unless all of the former are shown.
    """
    with_commands = [
        finding for group in by_kind(findings).values() if (finding := worst(group, 1)[0]).next
    ]
    if not with_commands:
        return
    yield paint("Next: save, then look", "bold", color)
    for finding in with_commands[:NEXT_FINDINGS_MAX]:
        yield f"  for {subject_words(finding)} ({finding.kind.value})"
        yield from commands_of(finding, width)
    if rest := [finding.kind.value for finding in with_commands[NEXT_FINDINGS_MAX:]]:
        yield from wrap(
            f"for {', '.join(rest)}: the field `next` in findings.jsonl", width, "  ", hang="  "
        )
    yield ""


def commands_of(finding: FindingRecord, width: int) -> Iterator[str]:
    """Yield what to do about a finding: what to save, what looks, what changes the cluster."""
    yield from command_lines(subject_words(finding), finding.next, width)


def command_lines(subject: str, lines: Sequence[str], width: int) -> Iterator[str]:
    """Yield the lines of a field `next`, each group below a heading that says what it does."""
    steps = sort_steps(lines)
    for note in steps.notes:
        yield from wrap(printable(note, COMMAND_CHARS_MAX), width, "    ", hang="    ")
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
