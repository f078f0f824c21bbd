"""Sentences of a report on bookies that cannot list, are away or renamed, and on placement."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auditor.model.availability import Greeting
from auditor.model.placement import Policy
from auditor.model.verdict import Unknown
from auditor.report.layout import count, of, printable, wrap
from auditor.summary.assurance import NO_SUCH_BOOKIE, NOT_ASKED, NOT_REGISTERED
from auditor.summary.sweeps import SAMPLING
from auditor.witness.finding_lines import PROBED

BOOKIES_NAMED_MAX = 10
"""Bookies named in one sentence; further ones are only counted."""
AWAY_NAMED_MAX = 3
"""Bookies named that are away for an upgrade: the sentence ends with what to do."""
SENTENCE_LINES_MAX = 6
LISTER_DETAIL_MAX = 400
"""Characters shown of what a lister said, which may be anything."""
UNINDEXED_SHOWN_MAX = 3
"""Bookies with an index that lost entries that get a sentence each; summary.json has more."""
RENAMED_SHOWN_MAX = 3
"""Renamed bookies that get a sentence each; summary.json has all of them."""

_FOUND: dict[str, str] = {
    NOT_REGISTERED: "not registered",
    Greeting.SILENT.value: "registered and silent",
    Greeting.REFUSED.value: "registered and refusing",
    Greeting.ADDRESS_UNKNOWN.value: "registered without a readable address",
    NOT_ASKED: "registered and not asked",
    Greeting.ANSWERED.value: "answering",
}
"""The words for how a bookie in maintenance was found. Other words are shown unchanged."""


def note_lines(summary: Mapping[str, Any], width: int) -> Iterator[str]:
    """Yield the lines of `note_sentences`."""
    for sentence in note_sentences(summary):
        yield from wrap(sentence, width, "", SENTENCE_LINES_MAX)


def note_sentences(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a reader must know before the counts.

    That is which bookies cannot list, are in maintenance, are away for an upgrade, or were renamed.
    """
    absent = (upgrade_sentence(summary), *renamed_sentences(summary))
    probed = (assurance_sentence(summary), *sampling_sentences(summary))
    yield from filter(
        None, (*probed, *lister_sentences(summary), *maintenance_sentences(summary), *absent)
    )


REPLICATION_DISABLED = (
    "Auto-recovery is disabled in this cluster: nothing will be repaired until it is enabled."
)


def lister_sentences(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield which listers did not list, and which are not believed. Stored runs may lack the
    field.
    """
    listers = summary.get("listers") or {}
    for one in listers.get("not_believed") or ():
        why = printable(one["detail"], LISTER_DETAIL_MAX)
        yield (
            f"The lister of bookie {printable(one['bookie_id'])} is not believed: {why}. No list of"
            " it counts from then on."
        )
    silent = listers.get("silent") or ()
    if silent:
        first = silent[0]
        more = f", and {len(silent) - 1} more" if len(silent) > 1 else ""
        named = (
            f"bookie {printable(first['bookie_id'])}"
            f" ({printable(first['detail'], LISTER_DETAIL_MAX)}){more}"
        )
        yield f"No list came from the lister of {named}: the bookie was asked as without one."
    for one in (listers.get("unindexed") or ())[:UNINDEXED_SHOWN_MAX]:
        ledger, entry = one["some"][0]
        more = (
            f" (and entries of {of(one['ledgers'] - 1, 'ledger')} more)"
            if one["ledgers"] > 1
            else ""
        )
        yield unindexed_sentence(one["bookie_id"], f"entry {entry} of ledger {ledger}{more}")


REBUILD = "bookkeeper shell rebuild-db-ledger-locations-index"


def unindexed_sentence(bookie: str, entries: str) -> str:
    """Return what is known of entries that a bookie's index lost, and how they are indexed
    again.
    """
    return (
        f"Bookie {printable(bookie)} sends {entries} although its index does not have it, long"
        " after it was written: the index lost it, the bytes exist. While the bookie is STOPPED,"
        f" {REBUILD} indexes it again. Never run that while the bookie is up: it says Done, and"
        " from its next start the bookie finds none of its entries."
    )


def assurance_sentence(summary: Mapping[str, Any]) -> str:
    """Return how many bookies cannot list, and what is known of their ledgers; "" if all can."""
    bookies, assurance = summary.get("bookies"), summary.get("assurance") or {}
    unable = int(bookies["unsupported"]) if bookies else len(assurance.get("bookies_unable") or ())
    if not unable and not assurance.get("probed"):
        return ""
    of_all = (
        f"{count(unable)} of {of(int(bookies['registered']), 'bookie')}"
        if bookies
        else of(unable, "bookie")
    )
    head = f"{of_all} cannot list entries (DbLedgerStorage): "
    if not assurance.get("probe_entries"):
        unjudged = int(summary["indeterminate"].get(Unknown.BOOKIE_UNSUPPORTED.value, 0))
        return (
            f"{head}{of(unjudged, 'ledger is', 'ledgers are')} not judged on their account, because"
            " probing is off; --probe-entries 3 has a few of their entries read instead."
        )
    return head + probed_words(assurance)


def sampling_sentences(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield how sure a run of lost entries was found on a bookie that cannot list.

    Yields nothing if no ledger was judged by probes. Stored runs may lack the field.
    """
    told = summary.get(SAMPLING)
    if not told or not (summary.get("assurance") or {}).get(PROBED):
        return
    alone, together = told["bounds"], told["accumulated"] or {}
    if not alone:
        yield (
            "No chance can be given that a run of lost entries was found there: none was read by"
            " rank (--probe-budget)."
        )
    elif alone["1"] == 1.0:
        yield (
            "Of each of these that was judged in full, every entry that such a bookie should hold"
            " was read."
        )
    else:
        yield (
            f"Of each of these that was judged in full, 1 in {count(told['step'])} of the entries"
            " that such a bookie should hold was read, other ones in each run. A run of entries of"
            f" one such ledger that one bookie lost was found with a chance of {_chances(alone)} in"
            " this run."
        )
    if alone and alone["1"] < 1.0 and int(together.get("runs") or 0) > 1:
        yield (
            f"If it was lost before {together['since']}, with {_chances(together['bounds'])} in the"
            f" {count(together['runs'])} counted runs since then, in ledgers that did not change"
            " and that each of these runs judged so."
        )


def _chances(bounds: Mapping[str, float]) -> str:
    """Return probabilities by number of entries as per cent, rounded down."""
    *most, last = (
        f"{_at_least(float(chance))} ({of(int(length), 'entry', 'entries')})"
        for length, chance in bounds.items()
    )
    return f"{', '.join(most)} and {last}"


def _at_least(chance: float) -> str:
    return f"{math.floor(chance * 10_000 + 1e-9) / 100:.2f} %"


def probed_words(assurance: Mapping[str, Any]) -> str:
    """Return how many entries were read instead of listed, and a bound on what is missing.

    The bound says how much may be missing that the sample did not hit. There is none if something
    read is missing.
    """
    probed, read, drawn = (
        int(assurance.get(name) or 0) for name in ("probed", "probes", "random_probes")
    )
    at_random = f", {count(drawn)} of them drawn at random" if drawn else ""
    said = (
        f"{of(probed, 'ledger was', 'ledgers were')} judged by reading {count(read)} of their"
        f" entries{at_random}"
    )
    bound = assurance.get("missing_bound")
    if bound is not None:
        return (
            f"{said}; none missing: at most {_at_most(float(bound))} of what was sampled from is"
            " missing at 95 %."
        )
    return (
        f"{said}; some of what was read is missing, so no bound can be given."
        if drawn
        else f"{said}."
    )


def _at_most(ratio: float) -> str:
    """Return a bound as per cent, rounded up."""
    return f"{min(100.0, math.ceil(ratio * 10_000 - 1e-9) / 100):.2f} %"


def maintenance_sentences(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield which bookies are in planned maintenance, how each was found, and what that costs.

    Yields nothing if none is in maintenance.
    """
    maintenance = summary.get("maintenance") or {}
    found: dict[str, list[str]] = {}
    for one in maintenance.get("bookies") or ():
        found.setdefault(str(one["found"]), []).append(str(one["bookie_id"]))
    unknown, answering = found.pop(NO_SUCH_BOOKIE, []), found.get(Greeting.ANSWERED.value, [])
    if found:
        parts = "; ".join(
            f"{name_some(bookies)} {_FOUND.get(word, word)}"
            for word, bookies in sorted(found.items())
        )
        ledgers = int(maintenance.get("ledgers") or 0)
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


def upgrade_sentence(summary: Mapping[str, Any]) -> str:
    """Return which bookies are not reported as lost because auto-recovery is disabled.

    Returns "" if there are none.
    """
    planned = {
        str(one["bookie_id"]) for one in (summary.get("maintenance") or {}).get("bookies") or ()
    }
    away = [str(bookie) for bookie in summary.get("bookies_away") or () if bookie not in planned]
    if not away or not summary.get("replication_disabled"):
        return ""
    are = "is not registered and has" if len(away) == 1 else "are not registered and have"
    return (
        f"{name_some(away[:AWAY_NAMED_MAX], len(away))} {are} a cookie. While auto-recovery is"
        " disabled, as during an upgrade, that is not reported as a lost bookie: enable it when"
        " the upgrade is over."
    )


def renamed_sentences(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence on each bookie that was probably renamed, at most RENAMED_SHOWN_MAX."""
    for one in (summary.get("bookies_renamed") or ())[:RENAMED_SHOWN_MAX]:
        ledgers = ("ledger " if len(one["ledgers"]) == 1 else "ledgers ") + ", ".join(
            map(str, one["ledgers"])
        )
        old, new = printable(str(one["bookie_id"])), printable(str(one["renamed_to"]))
        yield (
            f"{old} was probably renamed to {new}, which holds what {old} should hold of {ledgers}."
            " Clients cannot read there until the metadata of the ledgers names it."
        )


def missing_words(summary: Mapping[str, Any]) -> str:
    """Return which bookies are not registered: away (with a cookie) or gone (without a cookie).

    Returns "" if there are none.
    """
    said = {
        "away": "with a cookie and no registration",
        "gone": "gone, with neither a cookie nor a registration",
    }
    numbers = {name: int(summary["bookies"].get(name, 0)) for name in said}
    return "".join(
        f"; {count(number)} {said[name]}"
        f" ({name_some(summary.get(f'bookies_{name}') or (), number)})"
        for name, number in numbers.items()
        if number
    )


def placement_words(summary: Mapping[str, Any]) -> str:
    """Return the policy that ensembles were judged by; "" if the summary does not say."""
    placement = summary.get("placement")
    if not placement:
        return ""
    if placement["policy"] == Policy.NONE.value:
        return "placement: not judged (placement_policy is none)"
    how = (
        "as BookKeeper's own classes judge"
        if placement["compat"] == "java"
        else "by assigned location"
    )
    without = int(placement.get("without_location") or 0)
    lack = (
        f"; no location of {name_some(placement.get('bookies_without_location') or (), without)}"
        if without
        else ""
    )
    return f"placement {placement['policy']}-aware, {how}{lack}"


def name_some(bookies: Sequence[str], number: int | None = None) -> str:
    """Return the first BOOKIES_NAMED_MAX bookies by name, with a count of the rest.

    `number` is how many bookies there are, if `bookies` does not have all of them.
    """
    shown = [printable(bookie) for bookie in bookies[:BOOKIES_NAMED_MAX]]
    more = (len(bookies) if number is None else number) - len(shown)
    return ", ".join(shown) + (f" and {count(more)} more" if more > 0 else "")
