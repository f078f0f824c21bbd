"""Findings for a person: grouped by kind, worst first, bounded however many ledgers are hit."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from auditor.confirm.next_commands import CHANGES
from auditor.model.finding import CATALOGUE, Kind, Severity, Subject
from auditor.report.layout import moment, of, paint, printable, ranges, table, wrapped
from auditor.report.words import hits

FindingRow: TypeAlias = Mapping[str, Any]
"""A finding as contract section 4 writes it."""

DETAILED_KINDS_MAX = 2
"""Kinds whose worst finding is shown in full."""
LEDGERS_SHOWN_MAX = 5
LEDGERS_SHOWN_BRIEF_MAX = 3
CAUSES_SHOWN_MAX = 2
MATRIX_BOOKIES_MAX = 8
MATRIX_LOOKS_MAX = 4
WITNESS_LINES_MAX = 6
COMMANDS_OF_A_KIND_MAX = 3
LOOK_COMMANDS_MAX = 6
CHANGE_COMMANDS_MAX = 4
COMMAND_CHARS_MAX = 1_000
"""A command is shown whole, however wide, so that it can be copied."""

_ANSWERED = frozenset({"held", "no_such_ledger"})


def by_kind(findings: Sequence[FindingRow]) -> dict[Kind, list[FindingRow]]:
    """Findings by kind, the worst kind first: by severity, then by the catalogue's order. Cost: one pass."""
    groups: dict[Kind, list[FindingRow]] = defaultdict(list)
    for finding in findings:
        groups[Kind(finding["kind"])].append(finding)
    return {kind: groups[kind] for kind in worst_kinds_first() if kind in groups}


def worst_kinds_first() -> list[Kind]:
    return sorted(CATALOGUE, key=lambda kind: -CATALOGUE[kind].severity)


def worst(findings: Sequence[FindingRow], number: int) -> list[FindingRow]:
    """The `number` worst of one kind: fewest copies possible, then fewest confirmed, then most entries, then lowest id."""
    return heapq.nsmallest(number, findings, key=_badness)


def _badness(finding: FindingRow) -> tuple[int, int, int, int, str]:
    copies = finding.get("copies") or {}
    confirmed = int(copies.get("confirmed", 0))
    possible = confirmed + int(copies.get("unknown", 0))
    ledger_id = finding.get("ledger_id")
    return possible, confirmed, -int(finding.get("entries_total") or 0), ledger_id or 0, finding.get("bookie_id") or ""


def findings_section(summary: Mapping[str, Any], findings: Sequence[FindingRow], width: int, color: bool) -> Iterator[str]:
    """Lines about every kind that was found. `findings` may be a part: the counts come from `summary`."""
    groups = by_kind(findings)
    found = [kind for kind in worst_kinds_first() if hits(summary, kind) or kind in groups]
    if not found:
        return
    yield paint("Findings, worst first", "bold", color)
    for rank, kind in enumerate(found):
        yield from _kind(kind, hits(summary, kind), groups.get(kind, []), rank < DETAILED_KINDS_MAX, width, color)
    yield ""


def _kind(kind: Kind, hit: int, group: list[FindingRow], in_full: bool, width: int, color: bool) -> Iterator[str]:
    facts = CATALOGUE[kind]
    hue = "red" if facts.severity is Severity.CRITICAL else "yellow"
    subject = "bookie" if facts.subject is Subject.BOOKIE else "ledger"
    yield f"  {paint(facts.severity.word.upper() + ' ' + kind.value, hue, color)}  {of(hit, subject)}"
    yield from wrapped(facts.says, width, "    ")
    yield from causes(group, width)
    shown = worst(group, LEDGERS_SHOWN_MAX if in_full else LEDGERS_SHOWN_BRIEF_MAX)
    for place, finding in enumerate(shown):
        yield from wrapped("- " + one_line(finding), width, "    ", 2, hang="  ")
        if in_full and place == 0:
            yield from wrapped(printable(finding.get("witness") or "", 2_000), width, "        ", WITNESS_LINES_MAX)
            yield from matrix(finding, "        ")
    if hit > len(shown):
        yield f"    ... and {of(hit - len(shown), 'more ' + subject, 'more ' + subject + 's')} in findings.jsonl"


def causes(group: Sequence[FindingRow], width: int) -> Iterator[str]:
    """One line for each bookie that lacks entries of many ledgers: forty thousand ledgers on one wiped disk are one cause."""
    lacking: Counter[str] = Counter()
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for finding in group:
        # The closing look asks no bookie, so the newest answer is not always in the newest look.
        newest = {bookie: status for look in finding.get("looks") or () for bookie, status in look.get("answers", {}).items()}
        for bookie in finding.get("missing_on") or {}:
            lacking[bookie] += 1
            said[bookie][newest.get(bookie, "")] += 1
    for bookie, ledgers in sorted(lacking.items(), key=lambda item: (-item[1], item[0]))[:CAUSES_SHOWN_MAX]:
        if ledgers < 2:
            return
        answers = ", ".join(f"{word}: {n:,}" for word, n in said[bookie].most_common(3) if word)
        alive = " It answers, so it is up and lacks what it should hold." if any(w in _ANSWERED for w in said[bookie]) else ""
        yield from wrapped(
            f"cause: {printable(bookie)} lacks entries of {ledgers:,} of these {len(group):,} ledgers ({answers}).{alive}",
            width,
            "    ",
        )


def one_line(finding: FindingRow) -> str:
    """Which ledger or bookie, whose, which entries, how many copies."""
    if finding.get("bookie_id"):
        return f"bookie {printable(finding['bookie_id'])}"
    parts = [f"ledger {finding['ledger_id']}"]
    if owner := finding.get("owner"):
        parts[0] += f" of {owner_text(owner)}"
    if finding.get("entries"):
        parts.append(f"entries {ranges(finding['entries'])} ({of(int(finding['entries_total']), 'entry', 'entries')})")
    if copies := finding.get("copies"):
        unknown = f", {copies['unknown']} unknown" if copies["unknown"] else ""
        parts.append(f"{copies['confirmed']} of {copies['write_quorum']} copies{unknown}, ack quorum {copies['ack_quorum']}")
    return ", ".join(parts)


def owner_text(owner: Mapping[str, Any]) -> str:
    """Application, component and name of an owner, as far as they are there."""
    return printable(" ".join(str(owner[part]) for part in ("application", "component", "name") if owner.get(part)))


def matrix(finding: FindingRow, indent: str) -> Iterator[str]:
    """Who said what at which look, bookies that lack entries first. At most MATRIX_BOOKIES_MAX rows."""
    looks = list(finding.get("looks") or [])
    bookies = sorted({b for look in looks for b in look.get("answers", {})})
    if not bookies:
        return
    shown_looks = looks if len(looks) <= MATRIX_LOOKS_MAX else [looks[0], *looks[1 - MATRIX_LOOKS_MAX :]]
    missing = finding.get("missing_on") or {}
    bookies.sort(key=lambda bookie: bookie not in missing)
    header = ["bookie", *(f"{_clock(look)} v{look.get('znode_version')}" for look in shown_looks), "lacks"]
    rows = [
        [
            printable(b, 50),
            *(printable(look.get("answers", {}).get(b, "-"), 24) for look in shown_looks),
            ranges(missing.get(b, [])),
        ]
        for b in bookies[:MATRIX_BOOKIES_MAX]
    ]
    yield from table([header, *rows], indent)
    if len(bookies) > MATRIX_BOOKIES_MAX:
        yield f"{indent}... and {of(len(bookies) - MATRIX_BOOKIES_MAX, 'more bookie')}"


def _clock(look: Mapping[str, Any]) -> str:
    """Hours, minutes, seconds (UTC) of the moment a look was taken at."""
    return f"{moment(str(look['at'])):%H:%M:%S}"


def next_section(findings: Sequence[FindingRow], color: bool) -> Iterator[str]:
    """Commands from the worst finding of each kind: those that look first, then those that change things, marked so."""
    look: dict[str, None] = {}
    change: dict[str, None] = {}
    for group in by_kind(findings).values():
        commands = [str(item) for item in worst(group, 1)[0].get("next") or []]
        changing = [command.removeprefix(CHANGES) for command in commands if command.startswith(CHANGES)]
        look.update(dict.fromkeys([c for c in commands if not c.startswith(CHANGES)][:COMMANDS_OF_A_KIND_MAX]))
        change.update(dict.fromkeys(changing[:COMMANDS_OF_A_KIND_MAX]))
    if not look and not change:
        return
    yield paint("Next: look first", "bold", color)
    yield from (f"  {printable(command, COMMAND_CHARS_MAX)}" for command in list(look)[:LOOK_COMMANDS_MAX])
    if change:
        yield paint("Then, and this CHANGES THE CLUSTER", "bold", color)
        yield from (f"  {printable(command, COMMAND_CHARS_MAX)}" for command in list(change)[:CHANGE_COMMANDS_MAX])
    yield ""
