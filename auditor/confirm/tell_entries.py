"""Witnesses of the entry family: where the entry belongs, what each bookie said, the count, how far the search went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import iter_unpack

from auditor.confirm.telling import TellLedger
from auditor.confirm.words import named, runs
from auditor.model.availability import Answer, AnswerStatus, ReadStatus
from auditor.model.evidence import Look
from auditor.model.facts import CorruptFacts, EntryFacts, Search
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, EntryId

CORRUPT_BOOKIES_TOLD = 5
"""Bookies with corrupt copies in a sentence; the facts have all."""

GARBAGE_COLLECTION = (
    "Its garbage collection may delete them once 24 h have passed since the bookie started or last looked for such ledgers "
    "(gcOverreplicatedLedgerWaitTime): with default settings within 10 min (gcWaitTime), at the earliest."
)
"""When a stranded copy may be gone (ScanAndCompareGarbageCollector)."""


def tell_entries(finding: Finding, facts: EntryFacts, looks: Sequence[Look]) -> str:
    """Return what there is to say of the worst entry, of its bookies, and of all entries that are hit."""
    copies = finding.copies
    assert copies is not None, finding
    unknown = f", {copies.unknown} unknown" if copies.unknown else ""
    lines = [
        _belongs(finding, facts.worst_entry, facts.write_set),
        *_said(facts.worst_entry, facts.write_set, facts.gone, looks),
        f"{copies.confirmed} of {copies.write_quorum} copies found{unknown}{_sampled(facts, looks)}; "
        f"ack quorum is {copies.ack_quorum}.",
    ]
    if finding.entries_total > 1:
        lines.append(f"{finding.entries_total} entries are hit: {runs(finding.entries, finding.entries_total)}.")
    if facts.at_tail:
        lines.append(
            f"Only the end of the ledger is missing on {named(_lacking(finding))}: a writer closes a ledger once the ack "
            "quorum holds every entry."
        )
    if facts.listed_outside:
        verb = "lists" if len(facts.listed_outside) == 1 else "list"
        lines.append(f"Outside the write set {named(facts.listed_outside)} {verb} entry {facts.worst_entry}.")
    if facts.search is not None:
        lines += _search(facts.search)
    return " ".join(lines)


def _lacking(finding: Finding) -> list[BookieId]:
    return [bookie for bookie, _ in finding.missing_on]


def _belongs(finding: Finding, entry: EntryId, write_set: Sequence[BookieId]) -> str:
    segment = finding.segment
    assert segment is not None, finding
    return (
        f"Entry {entry} of ledger {finding.ledger_id} belongs on {' and '.join(write_set)} (segment {segment.first_entry_id}-"
        f"{segment.last_entry_id}, ensemble {', '.join(segment.ensemble)})."
    )


def _sampled(facts: EntryFacts, looks: Sequence[Look]) -> str:
    """Name the bookies of the write set that cannot list and were not read for this entry: a sample stands for them."""
    sampled = [b for b in facts.write_set if _rests_on_a_sample(b, facts.worst_entry, _settled(looks))]
    return f" ({named(sampled)}: by a sample of other entries)" if sampled else ""


def _rests_on_a_sample(bookie: BookieId, entry: EntryId, looks: Sequence[Look]) -> bool:
    answers = [look.answers[bookie] for look in looks if bookie in look.answers]
    was_read = any((bookie, entry) in look.reads for look in looks)
    return bool(answers) and answers[-1].status is AnswerStatus.UNSUPPORTED and not was_read


def _search(search: Search) -> Iterator[str]:
    """Say how far the entries without a copy were looked for on other bookies, and what came of it."""
    total = search.entries + search.entries_left
    what = "" if total == 1 else f" for all {total} of them" if not search.entries_left else (
        f" for {search.entries} of the {total} entries without a copy"
    )  # fmt: skip
    searched = len(search.searched)
    if searched:
        others = f"{searched} other {'bookie' if searched == 1 else 'bookies'}"
        yield f"Searched {others}{what}: {_found(search)}."
    elif search.unheard or search.not_asked:
        yield "No other bookie could be searched."
    if search.corrupt_on:
        yield f"A copy with a wrong digest or wrong ids came from {named(search.corrupt_on)}."
    if search.unheard:
        yield f"No conclusive answer came from {named(search.unheard)}."
    if search.not_asked:
        yield f"Not asked, because of the limit for one bookie and run: {named(search.not_asked)}."
    if search.found_unnamed:
        yield f"No segment of the ledger names {named(search.found_unnamed)}. {GARBAGE_COLLECTION}"


def _found(search: Search) -> str:
    """Say who holds what was looked for."""
    if not search.found_on:
        return "none holds a good copy" if search.corrupt_on else "none has it" if search.entries == 1 else "none has any"
    verb = "has" if len(search.found_on) == 1 else "have"
    if search.entries == 1:
        return f"{named(search.found_on)} {verb} it"
    return f"{named(search.found_on)} {verb} {search.entries_found} of them"


def _corrupt(finding: Finding, facts: CorruptFacts, looks: Sequence[Look]) -> str:
    copies = finding.copies
    assert copies is not None, finding
    told = "; ".join(f"{bookie} entry {named(entries)}" for bookie, entries in facts.copies[:CORRUPT_BOOKIES_TOLD])
    more = len(facts.copies) - CORRUPT_BOOKIES_TOLD
    return " ".join(
        (
            _belongs(finding, facts.worst_entry, facts.write_set),
            *_said(facts.worst_entry, facts.write_set, (), looks),
            f"At two looks these copies had the right ids and a digest that does not match their bytes: {told}"
            + (f" and copies on {more} more bookies." if more > 0 else "."),
            f"{copies.confirmed} of {copies.write_quorum} copies of entry {facts.worst_entry} found.",
        )
    )


def _said(entry: EntryId, write_set: Sequence[BookieId], gone: Sequence[BookieId], looks: Sequence[Look]) -> Iterator[str]:
    """What each bookie of the write set said of the entry: its newest conclusive word, and whether it was silent since."""
    chain = _settled(looks)
    for bookie in write_set:
        if bookie in gone:
            yield f"{bookie} is gone: neither registered nor known by a cookie."
        elif told := _newest_word(bookie, entry, chain):
            yield f"{bookie} {told}."


def _settled(looks: Sequence[Look]) -> Sequence[Look]:
    """The looks that saw the newest state of the metadata: nothing else counts."""
    newest, at = looks[-1].record, len(looks) - 1
    while at > 0 and (looks[at - 1].record.status, looks[at - 1].record.stamp) == (newest.status, newest.stamp):
        at -= 1
    return looks[at:]


def _newest_word(bookie: BookieId, entry: EntryId, looks: Sequence[Look]) -> str:
    heard = [look for look in looks if bookie in look.answers]
    if not heard:
        return ""
    newest = heard[-1]
    told = next((look for look in reversed(heard) if _is_conclusive(look, bookie, entry)), newest)
    said = _word(told, bookie, entry)
    if told is newest:
        return said
    return f"{said} at look {told.record.look}; at look {newest.record.look} it {_word(newest, bookie, entry)}"


def _is_conclusive(look: Look, bookie: BookieId, entry: EntryId) -> bool:
    """Whether the bookie said at this look, by its list or when it was read, what it has."""
    read = look.reads.get((bookie, entry))
    listed = look.answers[bookie].status in (AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER)
    return listed or (read is not None and read.status in _TELLING)


def _word(look: Look, bookie: BookieId, entry: EntryId) -> str:
    answer, read = look.answers[bookie], look.reads.get((bookie, entry))
    if answer.status is AnswerStatus.HELD:
        listed = "lists it" if _lists(answer, entry) else "does not list it"
    else:
        listed = _ANSWERED[answer.status]
    return listed if read is None else f"{listed} and {_READ[read.status]}"


_ANSWERED: dict[AnswerStatus, str] = {
    AnswerStatus.NO_SUCH_LEDGER: "does not know the ledger (ENOLEDGER)",
    AnswerStatus.SILENT: "did not answer",
    AnswerStatus.TIMED_OUT: "did not answer for this ledger in time",
    AnswerStatus.REFUSED: "refused to list it",
    AnswerStatus.INVALID: "sent a list that cannot be used",
    AnswerStatus.TOO_LARGE: "sent a list beyond the frame limit",
    AnswerStatus.UNSUPPORTED: "cannot list entries",
    AnswerStatus.UNREGISTERED: "is not registered",
    AnswerStatus.ADDRESS_UNKNOWN: "has no known address",
}
assert _ANSWERED.keys() | {AnswerStatus.HELD} == set(AnswerStatus), "each answer has its words"

_READ: dict[ReadStatus, str] = {
    ReadStatus.PRESENT: "sent it when it was read",
    ReadStatus.NO_ENTRY: "has no such entry (READ_ENTRY: ENOENTRY)",
    ReadStatus.NO_LEDGER: "has no such ledger (READ_ENTRY: ENOLEDGER)",
    ReadStatus.SILENT: "did not answer when it was read",
    ReadStatus.TIMED_OUT: "did not answer in time when it was read",
    ReadStatus.REFUSED: "refused to read it",
    ReadStatus.INVALID: "sent something else when it was read",
    ReadStatus.CORRUPT: "sent it with a digest that does not match",
    ReadStatus.TOO_LARGE: "sent an entry beyond the frame limit",
    ReadStatus.UNREGISTERED: "was no longer registered when it was to be read",
    ReadStatus.ADDRESS_UNKNOWN: "had no known address to read from",
    ReadStatus.NOT_ASKED: "was not read, because of the limit for one bookie and run",
}
assert _READ.keys() == set(ReadStatus), "each way a reading ends has its words"

_TELLING = frozenset({ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER, ReadStatus.CORRUPT})
"""Ways it ends that say what the bookie has."""


def _lists(answer: Answer, entry: EntryId) -> bool:
    """Whether one of the answer's groups (first, last, size, period) contains the entry."""
    return any(
        first <= entry <= last + size - 1 and (period == 0 or (entry - first) % period < size)
        for first, last, size, period in iter_unpack(">qqii", answer.groups)
    )


TELL: dict[Kind, TellLedger] = {
    Kind.ENTRY_WITHOUT_REPLICA: tell_entries,
    Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE: tell_entries,
    Kind.ENTRY_BELOW_ACK_QUORUM: tell_entries,
    Kind.ENTRY_CORRUPT: _corrupt,
    Kind.ENTRY_BELOW_WRITE_QUORUM: tell_entries,
}
