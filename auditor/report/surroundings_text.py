"""Sentences of a report on bookies that are in maintenance, away or renamed, and on placement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.model.availability import NON_CANONICAL, Greeting
from auditor.model.placement import Policy
from auditor.model.summary import Summary
from auditor.report.assurance_text import assurance_sentence, sampling_sentences
from auditor.report.layout import count, of, printable, wrap
from auditor.report.listers_text import lister_sentences
from auditor.summary.assurance import NO_SUCH_BOOKIE, NOT_ASKED, NOT_REGISTERED

BOOKIES_NAMED_MAX = 10
"""At most this many bookies are named in one sentence; further ones are only counted."""
AWAY_NAMED_MAX = 3
"""At most this many bookies that are away for an upgrade are named. The sentence ends with what to
do."""
SENTENCE_LINES_MAX = 6
RENAMED_SHOWN_MAX = 3
"""At most this many renamed bookies get a sentence each; summary.json has all of them."""

_FOUND: dict[str, str] = {
    NOT_REGISTERED: "not registered",
    Greeting.SILENT.value: "registered and silent",
    Greeting.REFUSED.value: "registered and refusing",
    Greeting.ADDRESS_UNKNOWN.value: "registered without a readable address",
    Greeting.AUDITOR_LIMITED.value: "registered and out of this host's reach",
    NOT_ASKED: "registered and not asked",
    Greeting.ANSWERED.value: "answering",
}
"""Words for the state of a bookie in maintenance. Other words are shown unchanged."""


def note_lines(summary: Summary, width: int) -> Iterator[str]:
    """Yield the lines of `note_sentences`."""
    for sentence in note_sentences(summary):
        yield from wrap(sentence, width, "", SENTENCE_LINES_MAX)


def note_sentences(summary: Summary) -> Iterator[str]:
    """Yield what a reader must know before the counts.

    That is which bookies cannot list, are in maintenance, are away for an upgrade, or were renamed,
    and which open ledgers could not be recovered.
    """
    blocked, renamed = blocked_open_sentence(summary), renamed_sentences(summary)
    absent = (
        blocked,
        odd_lists_sentence(summary),
        upgrade_sentence(summary),
        *renamed,
        malformed_sentence(summary),
    )
    probed = (assurance_sentence(summary), *sampling_sentences(summary))
    yield from filter(
        None, (*probed, *lister_sentences(summary), *maintenance_sentences(summary), *absent)
    )


def malformed_sentence(summary: Summary) -> str:
    """Return which znodes among the marks mark no ledger, and which tools fail at them; "" if
    none.
    """
    paths = [printable(path, 300) for path in summary.malformed_marks]
    if not paths:
        return ""
    rest = f" and {len(paths) - 1} more (malformed_marks in summary.json)" if paths[1:] else ""
    is_one = len(paths) == 1
    return (
        f"Malformed mark{'' if is_one else 's'} of under-replication: {paths[0]}{rest}"
        f" mark{'s' if is_one else ''} no ledger. BookKeeper's `listunderreplicated` fails at such"
        " a znode and lists no mark. Do not delete it before you know which ledger was meant."
    )


def blocked_open_sentence(summary: Summary) -> str:
    """Return how many open ledgers could not be recovered if their writers died, and why.

    Return "" if there are none, or if a stored run did not look for them.
    """
    if not summary.has_looked_at_open:
        return ""
    blocked = summary.open_recovery_blocked
    if blocked is None:
        return (
            "Whether open ledgers could be recovered if their writers died is not known: there were"
            " not two looks at the bookies."
        )
    number = blocked.ledgers
    if not number:
        return ""
    some = ", ".join(map(str, blocked.some)) + (" ..." if number > len(blocked.some) else "")
    writers = "its writer" if number == 1 else "their writers"
    bookies = ", ".join(printable(bookie) for bookie in blocked.bookies)
    return (
        f"{of(number, 'open ledger')} ({some}) could not be recovered if {writers} died now: too"
        f" many bookies of the last ensemble are not registered or silent ({bookies})."
    )


def odd_lists_sentence(summary: Summary) -> str:
    """Return how many lists are believed although no known bookie sends such lists; "" if none."""
    odd = summary.odd_lists
    if not odd.lists:
        return ""
    lists, are = of(odd.lists, "list"), "is" if odd.lists == 1 else "are"
    return (
        f"{lists} of {name_some(odd.some_bookies, odd.bookies)} {are} believed, but no bookie"
        f" is known to send such: {NON_CANONICAL}."
    )


REPLICATION_DISABLED = (
    "Auto-recovery is disabled in this cluster: it repairs nothing until it is enabled."
)


def maintenance_sentences(summary: Summary) -> Iterator[str]:
    """Yield which bookies are in planned maintenance, the state of each, and what that costs.

    Yields nothing if none is in maintenance.
    """
    maintenance = summary.maintenance
    found: dict[str, list[str]] = {}
    for one in maintenance.bookies:
        found.setdefault(one.says, []).append(one.bookie_id)
    unknown, answering = found.pop(NO_SUCH_BOOKIE, []), found.get(Greeting.ANSWERED.value, [])
    if found:
        parts = "; ".join(
            f"{name_some(bookies)} {_FOUND.get(word, word)}"
            for word, bookies in sorted(found.items())
        )
        ledgers = maintenance.ledgers
        cost = (
            f" {of(ledgers, 'ledger')} could not be judged for no other reason." if ledgers else ""
        )
        yield f"In planned maintenance: {parts}.{cost}"
    if answering:
        verb = "answers" if len(answering) == 1 else "answer"
        yield f"{name_some(answering)} {verb}: take what is back out of --maintenance."
    if unknown:
        yield (
            f"WARNING: no bookie of this cluster is named {name_some(unknown)}, as --maintenance"
            " has it."
        )


def upgrade_sentence(summary: Summary) -> str:
    """Return which bookies are not reported as lost because auto-recovery is disabled.

    Returns "" if there are none.
    """
    planned = summary.maintenance.bookie_ids
    away = [bookie for bookie in summary.bookies_away if bookie not in planned]
    if not away or not summary.is_replication_disabled:
        return ""
    are = "is not registered and has" if len(away) == 1 else "are not registered and have"
    return (
        f"{name_some(away[:AWAY_NAMED_MAX], len(away))} {are} a cookie. While auto-recovery is"
        " disabled, as during an upgrade, that is not reported as a lost bookie: enable it when"
        " the upgrade is over."
    )


def renamed_sentences(summary: Summary) -> Iterator[str]:
    """Yield a sentence on each bookie that was probably renamed, at most RENAMED_SHOWN_MAX."""
    for one in summary.bookies_renamed[:RENAMED_SHOWN_MAX]:
        noun = "ledger" if len(one.ledgers) == 1 else "ledgers"
        ledgers = f"{noun} {', '.join(map(str, one.ledgers))}"
        old, new = printable(one.bookie_id), printable(one.renamed_to)
        yield (
            f"{old} was probably renamed to {new}, which holds what {old} should hold of {ledgers}."
            " Clients cannot read there until the metadata of the ledgers names it."
        )


def missing_words(summary: Summary) -> str:
    """Return which bookies are not registered: away (with a cookie) or gone (without a cookie).

    Returns "" if there are none.
    """
    counts = summary.bookies
    if counts is None:
        return ""
    said = (
        (counts.away, "with a cookie and no registration", summary.bookies_away),
        (counts.gone, "gone, with neither a cookie nor a registration", summary.bookies_gone),
    )
    return "".join(
        f"; {count(number)} {words} ({name_some(some, number)})"
        for number, words, some in said
        if number
    )


def placement_words(summary: Summary) -> str:
    """Return the policy by which ensembles were judged; "" if the summary does not say."""
    placement = summary.placement
    if placement is None:
        return ""
    if placement.policy == Policy.NONE.value:
        return "placement: not judged (placement_policy is none)"
    is_java = placement.compat == "java"
    how = "as BookKeeper's own classes judge" if is_java else "by assigned location"
    without = placement.without_location
    lack = ""
    if without:
        lack = f"; no location of {name_some(placement.bookies_without_location, without)}"
    return f"placement {placement.policy}-aware, {how}{lack}"


def name_some(bookies: Sequence[str], number: int | None = None) -> str:
    """Return the first BOOKIES_NAMED_MAX bookies by name, with a count of the rest.

    `number` is how many bookies there are, if `bookies` does not have all of them.
    """
    shown = [printable(bookie) for bookie in bookies[:BOOKIES_NAMED_MAX]]
    more = (len(bookies) if number is None else number) - len(shown)
    return ", ".join(shown) + (f" and {count(more)} more" if more > 0 else "")
