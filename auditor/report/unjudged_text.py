"""The report's section on what could not be judged: reasons, bookies, and what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from auditor.model.availability import AnswerStatus, Greeting
from auditor.model.finding_record import RecordedLook
from auditor.model.summary import Summary
from auditor.model.verdict import Exempt, Standing, Unknown
from auditor.report.layout import Screen, count, of, printable
from auditor.report.outcome_text import EXEMPT_WORDS, UNKNOWN_WORDS

REASONS_EXPLAINED_MAX = 5
"""At most this many reasons are explained. One line counts the ledgers of the others."""
BOOKIES_NAMED_MAX = 10
WITHHELD_SHOWN_MAX = 5
WITHHELD_LINES_MAX = 4
DETAIL_LINES_MAX = 3
"""Lines shown of why one ledger could not be judged."""

_OUR_FAULTS = (Unknown.POISON, Unknown.CHECKERS_DISAGREE)
"""Reasons for which summary.json names some ledgers, in a field with the name of the reason."""

Unheard = Mapping[str, Sequence[str]]
"""Bookies by how they failed to answer; the keys are values of `Greeting`."""

_CAUSES: dict[Unknown, tuple[Greeting, ...]] = {
    Unknown.BOOKIE_SILENT: (Greeting.SILENT, Greeting.UNREGISTERED),
    Unknown.BOOKIE_REFUSED: (Greeting.REFUSED,),
    Unknown.BOOKIE_UNSUPPORTED: (Greeting.UNSUPPORTED,),
    Unknown.ADDRESS_UNKNOWN: (Greeting.ADDRESS_UNKNOWN,),
    Unknown.AUDITOR_LIMITED: (Greeting.AUDITOR_LIMITED,),
}
_STATES: dict[str, str] = {
    Greeting.SILENT: "silent",
    Greeting.UNREGISTERED: "not registered",
    Greeting.REFUSED: "refused",
    Greeting.UNSUPPORTED: "gave no list",
    Greeting.ADDRESS_UNKNOWN: "without a readable address",
    Greeting.AUDITOR_LIMITED: "out of this host's reach",
}
_UNREGISTERED_DO = (
    "a bookie that is not registered is down, or was removed: start it again, or have its ledgers"
    " re-replicated (`bookkeeper shell listledgers -bookieid {bookie}` lists the ledgers that"
    " name it)"
)


_MAINTENANCE_DO = (
    "nothing as long as that maintenance lasts: run again when what is down for it is back"
)


def unjudged_section(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield each reason with its ledgers, bookies, meaning and remedy, then what was withheld.

    The number of lines is bounded.
    """
    most = most_frequent(summary)
    withheld = summary.withheld
    if not most and not withheld:
        return
    yield screen.paint("What could not be judged, or not in full", "bold")
    if sum_words := reasons_sum_words(summary):
        yield from screen.wrap(sum_words, "  ")
    unheard = summary.bookies_unheard
    away = summary.maintenance.bookie_ids
    for reason, number in most[:REASONS_EXPLAINED_MAX]:
        yield from screen.wrap(
            f"{reason.value}  {of(number, 'ledger')}{name_examples(summary, reason, number)}"
            f"{name_bookies(reason, unheard)}",
            "  ",
            hang="  ",
        )
        yield from screen.wrap(f"{UNKNOWN_WORDS[reason].means}.", "    ")
        for aside in summary.set_aside(reason) if reason in _OUR_FAULTS else ():
            line = printable(f"ledger {aside.ledger_id}: {aside.detail}", 1_000)
            yield from screen.wrap(line, "    ", DETAIL_LINES_MAX, hang="  ")
        yield from screen.wrap(f"to do: {what_to_do(reason, unheard, away)}", "    ")
    rest = ", ".join(f"{reason.value} {count(n)}" for reason, n in most[REASONS_EXPLAINED_MAX:])
    yield from screen.wrap(f"also {rest}", "  ") if rest else ()
    if most and summary.unjudged:
        yield "  all ids: unjudged/REASON.txt in the run's directory; `auditor explain LEDGER`"
    for sentence in withheld[:WITHHELD_SHOWN_MAX]:
        yield from screen.wrap(
            f"- {printable(sentence, 1_000)}", "  ", WITHHELD_LINES_MAX, hang="  "
        )
    if len(withheld) > WITHHELD_SHOWN_MAX:
        yield f"  ... and {count(len(withheld) - WITHHELD_SHOWN_MAX)} more in summary.json"
    yield ""


def render_verdict(verdict: Mapping[str, Any], summary: Summary, screen: Screen) -> str:
    """Return what a run says of a ledger without a finding: its standing, and each reason for it.

    `verdict` has the columns of VERDICTS.
    """
    standing, ledger = Standing[str(verdict["standing"]).upper()], verdict["ledger_id"]
    lines = list(screen.wrap(f"Ledger {ledger} is {standing.name}. No finding is on it."))
    if verdict["exempt"]:
        lines += screen.wrap(EXEMPT_WORDS[Exempt(verdict["exempt"])] + ".", "  ")
    unheard = summary.bookies_unheard
    for reason in map(Unknown, verdict["unknowns"] or ()):
        lines += screen.wrap(f"{reason.value}{name_bookies(reason, unheard)}", "  ", hang="  ")
        lines += screen.wrap(f"{UNKNOWN_WORDS[reason].means}.", "    ")
        lines += screen.wrap(
            f"to do: {what_to_do(reason, unheard, summary.maintenance.bookie_ids)}", "    "
        )
    if verdict["detail"]:
        detail = printable(verdict["detail"], 1_000)
        lines += screen.wrap(detail, "  ", DETAIL_LINES_MAX, hang="  ")
    looks = of(int(verdict["looks"] or 0), "look")
    lines += screen.wrap(f"{looks}. `auditor ledger {ledger}` asks about it again.", "  ")
    return "".join(f"{line}\n" for line in lines)


def name_examples(summary: Summary, reason: Unknown, number: int) -> str:
    """Return the first ledgers of a reason after a colon, ": 200, 201, 202 ..."; "" if unknown."""
    unjudged = summary.unjudged
    some = unjudged.some.get(reason.value, ()) if unjudged else ()
    more = " ..." if number > len(some) else ""
    return f": {', '.join(map(str, some))}{more}" if some else ""


def reasons_sum_words(summary: Summary) -> str:
    """Return why the numbers of the reasons do not add up to the number of unjudged ledgers.

    Return "" if they do.
    """
    unjudged = summary.unjudged
    if unjudged is None:
        return ""
    said = []
    if unjudged.in_part:
        said.append(
            f"{of(unjudged.in_part, 'ledger')} with another standing"
            f" {'was' if unjudged.in_part == 1 else 'were'} not judged in full"
        )
    said += filter(None, [several_reasons_words(summary)])
    if not said:
        return ""
    judged = unjudged.ledgers - unjudged.in_part
    return f"{of(judged, 'ledger')} not judged; {'; '.join(said)}"


def several_reasons_words(summary: Summary) -> str:
    """Return how many ledgers count at more than one reason; "" if none."""
    several = summary.unjudged.several_reasons if summary.unjudged else 0
    have = "has" if several == 1 else "have"
    return f"{of(several, 'ledger')} {have} more than one reason" if several else ""


def most_frequent(summary: Summary) -> list[tuple[Unknown, int]]:
    """Return the reasons why ledgers could not be judged, with their ledgers, the most frequent
    first.
    """
    reasons = {reason: summary.unknown(reason) for reason in Unknown}
    return [(reason, n) for reason, n in sorted(reasons.items(), key=lambda item: -item[1]) if n]


def what_to_do(reason: Unknown, unheard: Unheard, away: frozenset[str] = frozenset()) -> str:
    """Return the remedy for a reason.

    A bookie that is not registered needs another remedy than a silent one. If only bookies in
    maintenance (`away`) are silent or not registered, the remedy is to wait.
    """
    do = UNKNOWN_WORDS[reason].do
    if reason is not Unknown.BOOKIE_SILENT:
        return do
    silent, gone = (
        [b for b in unheard.get(state) or () if b not in away] for state in _CAUSES[reason]
    )
    if not silent and not gone and any(unheard.get(state) for state in _CAUSES[reason]):
        return _MAINTENANCE_DO
    if not gone:
        return do
    restore = _UNREGISTERED_DO.format(bookie=printable(gone[0]))
    return f"{do}; {restore}" if silent else restore


def bookies_behind(reason: Unknown, unheard: Unheard) -> str:
    """Return the bookies behind a reason, "b6 silent; b7, b8 not registered"; "" if unknown."""
    parts = []
    for greeting in _CAUSES.get(reason, ()):
        bookies = list(unheard.get(greeting) or ())
        if bookies:
            named = ", ".join(printable(bookie) for bookie in bookies[:BOOKIES_NAMED_MAX])
            # summary.json names at most ten bookies: there may be more
            parts.append(
                f"{named}{' ...' if len(bookies) >= BOOKIES_NAMED_MAX else ''} {_STATES[greeting]}"
            )
    return "; ".join(parts)


def unheard_at(looks: Sequence[RecordedLook], gone: Collection[str] = ()) -> dict[str, list[str]]:
    """Return the bookies of one ledger whose newest answer is a failure, by the kind of failure.

    Bookies in `gone` are left out: what they should hold counts as absent, not as unknown.
    """
    newest = {bookie: status for look in looks for bookie, status in look.answers.items()}
    newest = {b: AnswerStatus.REFUSED if s == AnswerStatus.FAILED else s for b, s in newest.items()}
    words = {
        AnswerStatus(greeting.value): greeting
        for greetings in _CAUSES.values()
        for greeting in greetings
    }
    return {
        greeting.value: sorted(b for b, said in newest.items() if said == status and b not in gone)
        for status, greeting in words.items()
    }


def name_bookies(reason: Unknown, unheard: Unheard) -> str:
    """Return the bookies behind a reason in brackets, for the end of a line; "" if unknown."""
    bookies = bookies_behind(reason, unheard)
    return f"  ({bookies})" if bookies else ""
