"""Witnesses of the entry family.

They say where the entry belongs, what each bookie said, how many copies there are, and how far the
search went.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.model.evidence import Look
from auditor.model.facts import CorruptFacts, EntryFacts, Search, UnavailableFacts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, EntryId
from auditor.witness.entry_answers import (
    answer_sentences,
    gave_a_list,
    is_list_outdated,
    list_sentence,
    newest_state_looks,
    rests_on_a_sample,
)
from auditor.witness.neighbours import neighbour_sentences
from auditor.witness.phrases import NAMES_SHOWN, join_names, name_some, runs
from auditor.witness.sentences import TellLedger

CORRUPT_BOOKIES_SHOWN = 5
"""A sentence names at most this many bookies with corrupt copies. The facts have all."""

GARBAGE_COLLECTION = (
    "Garbage collection there may delete these copies at its next check for over-replicated"
    " ledgers. Checks are 24 h apart by default (gcOverreplicatedLedgerWaitTime), and the next one"
    " may be minutes away."
)
"""When a stranded copy may be deleted (ScanAndCompareGarbageCollector)."""

_LOST = (Kind.ENTRY_WITHOUT_REPLICA, Kind.UNDERREPLICATED_UNRECOVERABLE)


def entry_sentences(finding: Finding, facts: EntryFacts, looks: Sequence[Look]) -> str:
    """Return the witness: the worst entry, what its bookies said, and all entries that are hit."""
    lines = [
        _place_sentence(finding, facts.worst_entry, facts.write_set),
        *answer_sentences(facts.worst_entry, facts.write_set, facts.gone, looks),
        _count_sentence(finding, facts.worst_entry, facts.write_set, looks),
    ]
    lines += _outside_sentences(facts, looks)
    if finding.entries_total > 1:
        hit = runs(finding.entries, finding.entries_total)
        lines.append(f"{finding.entries_total} entries are hit: {hit}.")
    if facts.at_tail:
        lines.append(_tail_sentence(finding))
    if facts.search is not None:
        lines += _search_sentences(facts.search, newest_state_looks(looks))
    elif finding.kind in _LOST:
        lines.append("No other bookie was searched.")
    lines += neighbour_sentences(finding, facts, looks)
    return " ".join(lines)


def _outside_sentences(facts: EntryFacts, looks: Sequence[Look]) -> Iterator[str]:
    """Say which bookies list the entry though they are not in its write set."""
    entry = f"entry {facts.worst_entry}"
    now = [one for one in facts.listed_outside if not is_list_outdated(one, looks)]
    if now:
        verb = "lists" if len(now) == 1 else "list"
        yield f"Outside the write set {join_names(now)} {verb} {entry}."
    for bookie in [one for one in facts.listed_outside if one not in now][:NAMES_SHOWN]:
        yield f"Outside the write set {list_sentence(bookie, entry, looks)}"


def _place_sentence(finding: Finding, entry: EntryId, write_set: Sequence[BookieId]) -> str:
    segment = finding.segment
    assert segment is not None, finding
    return (
        f"Entry {entry} of ledger {finding.ledger_id} belongs on {join_names(write_set)}"
        f" (segment {segment.first_entry_id}-{segment.last_entry_id},"
        f" ensemble {name_some(segment.ensemble)})."
    )


def _count_sentence(
    finding: Finding, entry: EntryId, write_set: Sequence[BookieId], looks: Sequence[Look]
) -> str:
    """Count copies of the worst entry. On a bookie that cannot list, other entries may decide."""
    copies = finding.copies
    assert copies is not None, finding
    chain = newest_state_looks(looks)
    is_assumed = any(rests_on_a_sample(bookie, entry, chain) for bookie in write_set)
    found = " or assumed" if is_assumed else ""
    unknown = f", {copies.unknown} unknown" if copies.unknown else ""
    return (
        f"{copies.confirmed} of {copies.write_quorum} copies found{found}{unknown};"
        f" ack quorum is {copies.ack_quorum}."
    )


def _tail_sentence(finding: Finding) -> str:
    """Say that only the end is missing, and that a writer does not depend on more copies."""
    lacking = [bookie for bookie, _ in finding.missing_on]
    verb = "lacks" if len(lacking) == 1 else "lack"
    return (
        f"{join_names(lacking)} {verb} only the end of the ledger: a writer may close a ledger when"
        " the ack quorum has stored its last entries, and not wait for the rest."
    )


def _search_sentences(search: Search, looks: Sequence[Look]) -> Iterator[str]:
    """Say how far the entries without a copy were searched for on other bookies, and the result."""
    total, searched = search.entries + search.entries_left, len(search.searched)
    if total == 1:
        what, each = "it", ""
    else:
        share = f"all {total}" if not search.entries_left else f"{search.entries} of the {total}"
        what, each = f"{share} entries without a copy", " for one or more of them"
    if searched:
        others = f"{searched} other {'bookie' if searched == 1 else 'bookies'}"
        yield f"Searched {others} for {what}: {_found_words(search, looks)}."
    elif search.found_on:
        yield f"No other bookie answered every read for {what}: {_found_words(search, looks)}."
    elif search.unheard or search.not_asked:
        yield f"No other bookie could be searched for {what}."
    if search.corrupt_on:
        yield f"{join_names(search.corrupt_on)} sent a copy with a wrong digest or under other ids."
    if search.unheard:
        yield f"{join_names(search.unheard)} gave no conclusive answer{each}."
    if search.not_asked:
        verb = "was" if len(search.not_asked) == 1 else "were"
        yield (
            f"{join_names(search.not_asked)} {verb} not read{each},"
            " because of the limit for one bookie and run."
        )
    if search.found_unnamed:
        unnamed = join_names(search.found_unnamed)
        yield f"No segment of the ledger names {unnamed}. {GARBAGE_COLLECTION}"


def _found_words(search: Search, looks: Sequence[Look]) -> str:
    """Say which bookies hold the entries.

    A bookie that sent an entry "has" it, one that names it "lists" it.
    """
    if not search.found_on:
        if search.corrupt_on:
            return "none holds a good copy"
        return "none has it" if search.entries == 1 else "none has any"
    is_one = len(search.found_on) == 1
    by_list = {gave_a_list(bookie, looks) for bookie in search.found_on}
    verbs = {True: "lists" if is_one else "list", False: "has" if is_one else "have"}
    verb = " or ".join(verbs[one] for one in sorted(by_list, reverse=True))
    if search.entries == 1:
        return f"{join_names(search.found_on)} {verb} it"
    count = "all" if search.entries_found == search.entries else search.entries_found
    of_what = f"these {search.entries}" if search.entries_left else "them"
    together = "" if is_one else "together "
    return f"{join_names(search.found_on)} {together}{verb} {count} of {of_what}"


def _unavailable_sentences(finding: Finding, facts: UnavailableFacts, looks: Sequence[Look]) -> str:
    """Return the witness: the entry, what each bookie said, and which bookies may have a copy."""
    may_hold = (*facts.unregistered, *facts.failed)
    lines = [
        _place_sentence(finding, facts.worst_entry, facts.write_set),
        *answer_sentences(facts.worst_entry, facts.write_set, facts.gone, looks),
        _count_sentence(finding, facts.worst_entry, facts.write_set, looks),
        f"Nobody can read entry {facts.worst_entry} now. It is not proven lost:"
        f" {join_names(may_hold)} may have a copy.",
    ]
    if finding.entries_total > 1:
        hit = runs(finding.entries, finding.entries_total)
        lines.append(f"{finding.entries_total} entries are hit: {hit}.")
    return " ".join(lines)


def _corrupt_sentences(finding: Finding, facts: CorruptFacts, looks: Sequence[Look]) -> str:
    copies = [
        f"{bookie}, {'entry' if len(entries) == 1 else 'entries'}"
        f" {name_some(entries[:NAMES_SHOWN])}"
        + (" and others" if len(entries) > NAMES_SHOWN else "")
        for bookie, entries in facts.copies[:CORRUPT_BOOKIES_SHOWN]
    ]
    more = len(facts.copies) - len(copies)
    if more > 0:
        copies.append(f"and copies on {more} other {'bookie' if more == 1 else 'bookies'}")
    lines = (
        _place_sentence(finding, facts.worst_entry, facts.write_set),
        *answer_sentences(facts.worst_entry, facts.write_set, (), looks),
        _count_sentence(finding, facts.worst_entry, facts.write_set, looks),
        "Copies that were read at two looks, with the right ids and a digest that does not match"
        f" their bytes: {'; '.join(copies)}.",
    )
    return " ".join(lines)


TELL: dict[Kind, TellLedger] = {
    Kind.ENTRY_WITHOUT_REPLICA: entry_sentences,
    Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE: entry_sentences,
    Kind.ENTRY_UNAVAILABLE: _unavailable_sentences,
    Kind.ENTRY_BELOW_ACK_QUORUM: entry_sentences,
    Kind.ENTRY_CORRUPT: _corrupt_sentences,
    Kind.ENTRY_BELOW_WRITE_QUORUM: entry_sentences,
}
