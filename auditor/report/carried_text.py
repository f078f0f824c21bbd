"""Sentences on verdicts that were carried over from earlier runs (`auditor run --within`)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from auditor.model.summary import Carried, CarriedLedger, DueFor, Summary
from auditor.report.layout import Screen, count, duration, moment, name_some, of, printable

_REASON_WORDS = {
    DueFor.UNREADABLE: "because the run before or the marks cannot be read",
    DueFor.NEW: "without a verdict before",
    DueFor.NOT_SOUND: "not sound, open or not judged by lists of one look",
    DueFor.MARKED: "marked under-replicated",
    DueFor.BOOKIE: "on a bookie that changed, failed or came into doubt, or has no readable cookie",
    DueFor.SCRUB: "with entries that a scrub names",
    DueFor.AGE: "whose lists may be too old at the next run",
    DueFor.TURN: "in turn",
    DueFor.CHANGED: "with changed or unreadable metadata",
    DueFor.READ: "of which an entry could not be read, or is not as the metadata says",
}
assert _REASON_WORDS.keys() == set(DueFor), "each reason has its words"
RUNS_SHOWN_MAX = 3


def carried_words(summary: Summary) -> str:
    """Return how many ledgers were not asked about, and how old their lists may be, as a sentence;
    "" if all were asked about.
    """
    carried = summary.carried
    if carried is None or not carried.ledgers:
        return ""
    were = "was" if carried.ledgers == 1 else "were"
    return (
        f"{count(carried.ledgers)} of {of(summary.ledgers.listed, 'ledger')} {were} not asked about"
        f" now: what is said of them rests on lists since {_when(carried.oldest_listed_at)}."
    )


def carried_section(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield lines on what was carried over; none if the run asked about every ledger by default."""
    carried = summary.carried
    if carried is None:
        return
    yield screen.paint("Carried over", "bold")
    for sentence in carried_sentences(carried):
        yield from screen.wrap(sentence, "  ")
    yield ""


def carried_sentences(carried: Carried) -> Iterator[str]:
    """Yield what was carried over and from which runs, and why the other ledgers were due."""
    period = duration(carried.within_s)
    if carried.base is None:
        yield (
            f"every ledger was asked about, although --within is {period}:"
            f" {printable(carried.problem, 400)}"
        )
        return
    if carried.ledgers:
        names = [f"{one.run_id} ({of(one.ledgers, 'ledger')})" for one in carried.runs]
        unnamed = carried.ledgers - sum(one.ledgers for one in carried.runs)
        more = f", and others named in evidence/carried ({count(unnamed)})" if unnamed else ""
        yield (
            f"{of(carried.ledgers, 'ledger was', 'ledgers were')} not asked about (--within"
            f" {period}): closed, sound by the lists of an earlier run, unmarked, and with the same"
            f" znode. Lists of {name_some(names, shown_max=RUNS_SHOWN_MAX)}{more}; the oldest run"
            f" began at {_when(carried.oldest_listed_at)}"
        )
    if carried.withheld:
        are = "is" if carried.withheld == 1 else "are"
        yield (
            f"{count(carried.withheld)} of them {are} unknown by what this run learned, and will be"
            " asked about by the next run"
        )
    reasons = [f"{count(number)} {said}" for said, number in due_reasons(carried)]
    yield (
        f"{of(carried.asked, 'ledger was', 'ledgers were')} asked about"
        + (f": {', '.join(reasons)}" if reasons else "")
    )
    yield from _next_sentences(carried)


def _next_sentences(carried: Carried) -> Iterator[str]:
    """Yield what the next run with this period asks about of the carried ledgers."""
    oldest = moment(carried.oldest_listed_at)
    if oldest is not None:
        limit = oldest + timedelta(seconds=carried.within_s)
        yield (
            "the next run asks again about those in turn, and about what is new, changed, marked or"
            f" not sound; the oldest lists are to be renewed by {limit:%Y-%m-%d %H:%M:%S} UTC"
        )


def carried_runs(carried: Carried) -> Iterator[tuple[str, str, int]]:
    """Yield the runs whose lists were carried over, oldest first: the name, when it began, and how
    many ledgers. The last row may be about those that are not named.
    """
    for one in carried.runs:
        yield printable(one.run_id), _when(one.listed_at), one.ledgers
    unnamed = carried.ledgers - sum(one.ledgers for one in carried.runs)
    if unnamed:
        yield "others", "later", unnamed


def due_reasons(carried: Carried) -> Iterator[tuple[str, int]]:
    """Yield why ledgers were asked about, in words, and how many; in order of precedence."""
    words = {why.value: said for why, said in _REASON_WORDS.items()}
    for why, number in carried.due.items():
        if number:
            yield words.get(why) or printable(why), number


def ledger_carried_sentence(carried: CarriedLedger) -> str:
    """Return which run's lists the verdict on a ledger rests on that was not asked about."""
    return (
        f"This run did not ask about it: its lists are from run {printable(carried.run_id)}, which"
        f" began at {_when(carried.listed_at)}, and its metadata had not changed since."
        " `auditor ledger` asks now."
    )


def _when(text: str | None) -> str:
    at = moment(text)
    return "an unknown time" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
