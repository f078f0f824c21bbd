"""Sentences on the outcome of a run: what was found, how much was verified, what was not."""

from __future__ import annotations

from dataclasses import asdict

from auditor.model.finding import CATALOGUE, Family, Kind, KindFacts, Severity, Subject
from auditor.model.summary import BookieCounts, LedgerCounts, Summary
from auditor.model.verdict import Exempt, Unknown
from auditor.report.copies_words import sampled_words, verified_words
from auditor.report.layout import count, of, printable

OUTCOMES = ("SOUND", "VIOLATED", "INCOMPLETE", "AUDITOR_FAULT", "UNREACHABLE")
"""The outcomes (docs/names.md, "Outcome words"). Those that give a verdict come first."""

HUES = {
    "SOUND": "green",
    "VIOLATED": "red",
    "INCOMPLETE": "yellow",
    "AUDITOR_FAULT": "red",
    "UNREACHABLE": "red",
}
"""The colour of each outcome on a terminal."""


def machine_line(outcome: str, run_id: str, ledgers: LedgerCounts | None = None) -> str:
    """Return the last line of a report, for machines (docs/names.md, "Outcome words").

    Without `ledgers` it has no counts.
    """
    assert outcome in OUTCOMES, outcome
    run = printable(run_id).replace(" ", "_") or "-"
    line = f"auditor: {outcome} run={run}"
    if ledgers is None:
        return line
    return " ".join((line, *(f"{name}={number}" for name, number in asdict(ledgers).items())))


def outcome_sentences(summary: Summary) -> str:
    """Return at most four sentences on what was found. Pure.

    If copies were assumed from a sample, they say how few were verified.
    """
    said = headline(summary)
    return said if summary.outcome == "SOUND" else f"{said} {sampled_words(summary)}".rstrip()


def headline(summary: Summary) -> str:
    """Return the sentences of `outcome_sentences` without `sampled_words`.

    The claim of a SOUND outcome contains these.
    """
    outcome = summary.outcome
    say = {
        "SOUND": _sound,
        "VIOLATED": _violated_sentence,
        "INCOMPLETE": _incomplete,
        "AUDITOR_FAULT": _fault,
    }
    assert outcome in say, f"{outcome} has no counts to speak of"
    only = " Only the ledgers that were named were looked at." if summary.is_partial else ""
    return f"{say[outcome](summary)}{only}"


def exit_code_words(summary: Summary) -> str:
    """Return why the exit code is not that of findings although there are some; else ""."""
    code = summary.exit_code
    if summary.outcome != "VIOLATED" or code == 1:
        return ""
    muted = summary.mutes.findings
    which = "no finding that is not muted" if muted else "no finding"
    return f"The exit code is {code}, because {which} reaches --fail-on."


def _sound(summary: Summary) -> str:
    ledgers = summary.ledgers
    if ledgers.listed == 0:
        return "no ledger was listed, which --allow-empty accepts."
    if ledgers.sound == 0:
        reasons = ", ".join(
            f"{count(number)} {r.value}" for r in Exempt if (number := summary.exempt(r))
        )
        why = f" ({reasons})" if reasons else ""
        exempt = of(ledgers.exempt, "ledger is exempt", "ledgers are exempt")
        other = " other" if _has_excused_marks(summary) else ""
        said = f"{_nothing_wrong(summary)}, and there was no{other} entry to judge"
        return f"{said}: {exempt}{why}."
    exempt = f" {of(ledgers.exempt, 'ledger is', 'ledgers are')} exempt." if ledgers.exempt else ""
    return f"{_sound_claim(summary, ledgers.sound)}{exempt}"


def _sound_claim(summary: Summary, sound: int) -> str:
    """Return the claim of a SOUND outcome.

    It says "every acknowledged entry" only if each copy was listed or read, and "listed" unless
    each was read.
    """
    copies = summary.copies
    if copies is None:
        return f"nothing wrong was found in {of(sound, 'sound ledger')}."
    if copies.assumed:
        return (
            f"nothing wrong in the {verified_words(copies)};"
            f" the other {count(copies.assumed)} are assumed from a sample."
        )
    have = of(sound, "ledger has", "ledgers have")
    listed = "listed " if copies.listed else ""
    there = f"{listed}where the metadata says it is, in as many copies as was promised"
    if copies.listed and copies.read:
        there += f" ({count(copies.read)} of {count(copies.expected)} copies were read)"
    beyond = summary.hits(Kind.ENTRIES_BEYOND_END)
    if beyond:
        return (
            f"{have} every entry up to the recorded end {there}; whether entries beyond the end of"
            f" {of(beyond, 'ledger')} were acknowledged is not known."
        )
    return f"{have} every acknowledged entry {there}; {_nothing_wrong(summary)}."


def _nothing_wrong(summary: Summary) -> str:
    """Return the claim that nothing was found except missing copies that a mark within grace
    excuses.
    """
    beside = " beside what is marked under-replicated" if _has_excused_marks(summary) else ""
    return f"nothing wrong was found{beside}"


def _has_excused_marks(summary: Summary) -> bool:
    marks = summary.marks
    within_grace = marks.within_grace if marks else 0
    return bool(summary.exempt(Exempt.MARKED_UNDERREPLICATED) or within_grace)


def _violated_sentence(summary: Summary) -> str:
    ledgers = summary.ledgers
    by_severity = {
        s: sum(summary.hits(k) for k, facts in CATALOGUE.items() if facts.severity is s)
        for s in Severity
    }
    parts = []
    if ledgers.violated:
        parts.append(f"{count(ledgers.violated)} of {of(ledgers.listed, 'ledger')} in violation")
    referenced = sum(summary.hits(k) for k, facts in CATALOGUE.items() if _is_of_references(facts))
    if referenced:
        parts.append(
            of(
                referenced,
                "ledger that topics need is missing or cut short",
                "ledgers that topics need are missing or cut short",
            )
        )
    bookies = sum(
        summary.hits(k) for k, facts in CATALOGUE.items() if facts.subject is Subject.BOOKIE
    )
    if bookies:
        parts.append(of(bookies, "bookie needs attention", "bookies need attention"))
    on_cluster = (
        k
        for k, facts in CATALOGUE.items()
        if facts.subject is Subject.CLUSTER and facts.severity > Severity.INFO
    )
    if any(summary.hits(k) for k in on_cluster):
        parts.append("the cluster as a whole needs attention")
    critical, warning = count(by_severity[Severity.CRITICAL]), count(by_severity[Severity.WARNING])
    said = f"{', '.join(parts)} (critical: {critical}, warning: {warning})."
    return said + _unjudged_words(ledgers)


def _is_of_references(facts: KindFacts) -> bool:
    """Return whether a kind is about a ledger and changes no standing.

    No ledger then counts as violated because of it.
    """
    return facts.family is Family.REFERENCE and facts.subject is Subject.LEDGER


def _unjudged_words(ledgers: LedgerCounts) -> str:
    if not ledgers.indeterminate:
        return ""
    return f" {of(ledgers.indeterminate, 'ledger')} could not be judged."


def _incomplete(summary: Summary) -> str:
    ledgers = summary.ledgers
    if ledgers.listed == 0:
        return (
            "no ledger was listed at all. Is this the right cluster, and the right root?"
            " (--allow-empty accepts an empty one.)"
        )
    head = f"{_nothing_wrong(summary)}, but the result is not complete:"
    if summary.has_no_answer:
        assert summary.bookies is not None, "a run counts its bookies"
        return _nobody_answered(summary.bookies)
    if not ledgers.indeterminate and summary.withheld:
        return f"{head} what could not be judged is shown below."
    if not ledgers.indeterminate:
        return f"{head} some ledgers carry a reason why they could not be judged in full."
    return (
        f"{head} {count(ledgers.indeterminate)} of {of(ledgers.listed, 'ledger')}"
        " could not be judged."
    )


def _nobody_answered(bookies: BookieCounts) -> str:
    registered, mute = bookies.registered, bookies.silent + bookies.refused
    were = (
        f"all {count(registered)} registered bookies were silent or refused"
        if mute == registered
        else f"{count(mute)} of {of(registered, 'registered bookie')} were silent or refused; the"
        " others were not asked"
    )
    return (
        f"no bookie answered this host: {were}. That is our network or our credentials, so nothing"
        " is said about them; no ledger could be judged by its entries."
    )


def _fault(summary: Summary) -> str:
    differ = summary.unknown(Unknown.CHECKERS_DISAGREE)
    why = ""
    if differ:
        why = f": its two checkers differ on the same evidence for {of(differ, 'ledger')}"
    return (
        f"the auditor is wrong{why}. What they differ on is withheld and the evidence is kept;"
        " please report it. Other findings are below."
        f"{_unjudged_words(summary.ledgers)}"
    )
