"""Sentences on the outcome of a run: what was found, how much was verified, what was not.

Copies that were verified are told from those assumed from a sample. Each reason to be exempt or
unknown comes with what it means and what a person can do about it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import NamedTuple

from auditor.model.finding import BESIDE_VERDICTS, CATALOGUE, Kind, Severity, Subject
from auditor.model.summary import BookieCounts, DoubtCounts, LedgerCounts, Summary
from auditor.model.verdict import CopyCounts, Exempt, Standing, Unknown
from auditor.report.carried_text import carried_words
from auditor.report.layout import count, name_some, of, printable, share


def verified_words(copies: CopyCounts) -> str:
    """Return how many copies were verified: "600 of 40,000 copies that were read"."""
    expected = of(copies.expected, "copy", "copies")
    return f"{_verified_count(copies)} of {expected} that were {_how(copies)}"


def sampled_words(summary: Summary) -> str:
    """Return how few copies were verified if some were assumed from a sample; "" if none was."""
    copies = summary.copies
    if copies is None or not copies.assumed:
        return ""
    how = "verified" if doubt_words(summary) else _how(copies)
    return (
        f"Only {_verified_count(copies)} of {_expected_count(summary, copies)} were {how};"
        f" {count(copies.assumed)} are assumed from a sample."
    )


def verified_share_words(summary: Summary) -> str:
    """Return which share of the copies was verified; "" if there was no copy to verify."""
    copies = summary.copies
    if copies is None or not copies.expected:
        return ""
    assumed = f", {count(copies.assumed)} assumed from a sample" if copies.assumed else ""
    ratio = share(summary.verified_ratio or 0.0)
    doubt = summary.doubt.copies
    how = "" if doubt else f" {_how(copies)}"
    rest = f"{assumed}, {count(doubt)} in doubt" if doubt else assumed
    return f"{ratio} of {_expected_count(summary, copies)}{how}{_only_listed(copies)}{rest}"


def verified_share_meaning(summary: Summary, copies: CopyCounts) -> str:
    """Return the whole of which the verified share is a part, for a line that begins with the
    share.
    """
    how = "verified" if doubt_words(summary) else "listed or read"
    return (
        f"of the copies{_where(summary)} were {how}"
        f" ({_verified_count(copies)} of {count(copies.expected)}){_only_listed(copies)}"
    )


def _expected_count(summary: Summary, copies: CopyCounts) -> str:
    return of(copies.expected, "copy", "copies") + _where(summary)


def _where(summary: Summary) -> str:
    """Return in which ledgers copies are counted; "" if those are all ledgers."""
    ledgers = summary.ledgers
    return "" if ledgers.listed == ledgers.sound else " in judged closed ledgers"


def _verified_count(copies: CopyCounts) -> str:
    return count(copies.listed + copies.read)


def doubt_words(summary: Summary) -> str:
    """Return how many copies only bookies in doubt list; "" if none. Stored runs may lack the
    field.
    """
    doubt = summary.doubt
    if not doubt.copies:
        return ""
    copies = of(doubt.copies, "copy", "copies")
    are = "is" if doubt.copies == 1 else "are"
    return (
        f"{copies} {are} only listed by {name_some(doubt.some_bookies, doubt.bookies)}, which"
        f" failed reads or lack entries, and {are} not counted as verified{_read_in_doubt(doubt)}"
    )


def _read_in_doubt(doubt: DoubtCounts) -> str:
    """Return how many copies were read on bookies in doubt; "" if a stored run does not say."""
    if not doubt.due:
        return ""
    were = "was" if doubt.read == 1 else "were"
    return f" ({count(doubt.read)} of {of(doubt.due, 'copy', 'copies')} there {were} read)"


def _only_listed(copies: CopyCounts) -> str:
    """Return how many of the verified copies only a list names; "" if each was read.

    The words differ from those on copies in doubt, which are listed and not verified.
    """
    return f", {count(copies.listed)} by lists alone" if copies.listed else ""


def _how(copies: CopyCounts) -> str:
    return "listed or read" if copies.listed else "read"


EXEMPT_WORDS: dict[Exempt, str] = {
    Exempt.DELETED: "not there when its metadata was read last",
    Exempt.MARKED_UNDERREPLICATED: "marked under-replicated",
    Exempt.IN_RECOVERY: "in recovery: its last entry is not agreed on yet",
    Exempt.OPEN: "open: its last entry is not known yet",
    Exempt.EMPTY: "closed without entries, and none was found",
}


class Reason(NamedTuple):
    """Why a ledger could not be judged, or not in full, and what a person can do about it."""

    means: str
    do: str


UNKNOWN_WORDS: dict[Unknown, Reason] = {
    Unknown.BOOKIE_SILENT: Reason(
        "a bookie that should hold entries of it gave no answer at any look",
        "see whether the bookie is up and reachable from this host, then run again",
    ),
    Unknown.BOOKIE_REFUSED: Reason(
        "a bookie answered and would not say: not authorised, an I/O error, or an unknown ledger"
        " state",
        "look at that bookie's log; where it says unauthorised, give the auditor credentials; where"
        " it says Too many open files, raise the bookie's limit on them and restart it",
    ),
    Unknown.BOOKIE_UNSUPPORTED: Reason(
        "a bookie gave no list of entries, though it answers otherwise (as with DbLedgerStorage)",
        "that a bookie cannot list is not a fault by itself; have a few entries of the ledger read"
        " instead (--probe-entries)",
    ),
    Unknown.ANSWER_TIMEOUT: Reason(
        "a bookie answered other requests, but not those about this ledger in time",
        "run again when the bookie is less busy, or raise --rpc-timeout",
    ),
    Unknown.ANSWER_INVALID: Reason(
        "a bookie's answer could not be decoded, or what it read back had a wrong id or digest",
        "read the evidence of one such ledger with `auditor ledger ID`; where a digest is wrong,"
        " check the disks of that bookie",
    ),
    Unknown.ANSWER_TOO_LARGE: Reason(
        "a bookie's list of entries exceeds the frame limit",
        "raise --frame-bytes-max",
    ),
    Unknown.ADDRESS_UNKNOWN: Reason(
        "a bookie is registered without an address that could be read",
        "look at its registration znode; a bookie newer than this auditor may register in another"
        " form",
    ),
    Unknown.METADATA_UNREADABLE: Reason(
        "its metadata could not be read, or has a format newer than ours",
        "see the ACL of its znode, or update the auditor",
    ),
    Unknown.TOPOLOGY_UNKNOWN: Reason(
        "the location of a bookie in its ensemble is not known, or it has too many write sets to"
        " look at",
        "give the auditor the locations of all bookies",
    ),
    Unknown.AUDITOR_LIMITED: Reason(
        "the auditor's own host has no way to a bookie that should hold entries of it (no route, no"
        " local port, a resolver that fails), or its clock lies behind that of ZooKeeper, which"
        " leaves the age of a mark unknown",
        "see what `auditor doctor` says of this host's network and clock, then run again",
    ),
    Unknown.UNSETTLED: Reason(
        "its metadata kept changing between looks, so no two looks that count saw the same",
        "run again when recovery or replication has come to rest",
    ),
    Unknown.POISON: Reason(
        "judging it failed, did not end, or ended its process, so it was set aside to save the"
        " rest",
        "please report this with its evidence, poison/ledger-<id> in the directory of the run: it"
        " is our fault",
    ),
    Unknown.CHECKERS_DISAGREE: Reason(
        "our two checkers differ on the same evidence, or its lists were compared by a process that"
        " was wrong about others, so nothing is said about it",
        "please report this with its evidence, poison/ledger-<id> in the directory of the run: it"
        " is our fault",
    ),
}


OUTCOMES = ("SOUND", "VIOLATED", "INCOMPLETE", "AUDITOR_FAULT", "UNREACHABLE")
"""The outcomes (docs/names.md, "Outcome words"). Those that give a verdict come first."""

HUES = {
    "SOUND": "green",
    "VIOLATED": "red",
    "INCOMPLETE": "yellow",
    "AUDITOR_FAULT": "purple",
    "UNREACHABLE": "purple",
}
"""The colour of each outcome on a terminal, on the page and on the dashboard. Purple: the auditor
has no verdict."""
SEVERITY_HUES = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: "grey"}
STANDING_HUES = {
    Standing.VIOLATED: "red",
    Standing.INDETERMINATE: "yellow",
    Standing.EXEMPT: "grey",
    Standing.SOUND: "green",
}
"""The colours of severities and standings in the same places."""


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
    carried = carried_words(summary)
    return f"{say[outcome](summary)}{only}{' ' if carried else ''}{carried}"


def exit_code_words(summary: Summary) -> str:
    """Return why the exit code is not that of findings although there are some; else ""."""
    code = summary.exit_code
    if summary.outcome != "VIOLATED" or code == 1:
        return ""
    has_muted = summary.mutes is not None and summary.mutes.findings
    which = "that are not muted " if has_muted else ""
    return f"The exit code is {code}, because none of the findings {which}counts for --fail-on."


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
    parts = []
    if ledgers.violated:
        parts.append(f"{count(ledgers.violated)} of {of(ledgers.listed, 'ledger')} in violation")
    for kinds, one, many in _BESIDE:
        if ledgers_hit := sum(map(summary.hits, kinds)):
            parts.append(of(ledgers_hit, one, many))
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
    return f"{', '.join(parts)}.{_unjudged_words(ledgers)}"


_BESIDE: tuple[tuple[frozenset[Kind], str, str], ...] = (
    (
        frozenset({
            Kind.REFERENCED_LEDGER_MISSING, Kind.NEWEST_LEDGER_MISSING, Kind.LEDGER_TRUNCATED,
        }),
        "ledger that topics need is missing or cut short",
        "ledgers that topics need are missing or cut short",
    ),
    (
        frozenset({Kind.LEDGER_DROPPED_FROM_TOPIC}),
        "ledger is gone from the middle or the end of a topic",
        "ledgers are gone from the middle or the end of a topic",
    ),
    (
        frozenset({Kind.POSITION_BEYOND_END}),
        "ledger ends before what a subscription acknowledged",
        "ledgers end before what subscriptions acknowledged",
    ),
    (
        frozenset({Kind.CLOSED_METADATA_CHANGED}),
        "closed ledger has other metadata than in an earlier run",
        "closed ledgers have other metadata than in an earlier run",
    ),
)  # fmt: skip
"""What is said of ledgers with findings beside the verdicts: no ledger counts as violated because
of them."""
assert frozenset().union(*(kinds for kinds, *_ in _BESIDE)) == BESIDE_VERDICTS


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
        are_all_named = differ == len(summary.checkers_disagree)
        or_lists = "" if are_all_named else ", or it compared lists wrongly,"
        why = f": its two checkers differ on the same evidence{or_lists} for {of(differ, 'ledger')}"
    below = " Other findings are below." if summary.findings_total else ""
    return (
        f"the auditor is wrong{why}. What they differ on is withheld and the evidence is kept;"
        f" please report it.{below}{_unjudged_words(summary.ledgers)}"
    )
