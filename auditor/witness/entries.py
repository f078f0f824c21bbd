"""Witnesses of the entry family.

They say where the entry belongs, what each bookie said, how many copies there are, and how far the
search went. What a bookie said is its answer to a list request, and its reads.

A hint says that copies lie where a neighbouring segment would have them. A writer that kept the old
bookies after an ensemble change leaves its entries at the same positions of the segment before. The
hint needs at least one copy that lies there, and no bookie that should then have a copy and lacks
it. A bookie that said nothing of the entry does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import iter_unpack

from auditor.first_checker.recheck import newest_state_start
from auditor.model.availability import ABSENT_READS, VALID_ANSWERS, Answer, AnswerStatus, ReadStatus
from auditor.model.evidence import Look
from auditor.model.facts import (
    CorruptFacts,
    EntryFacts,
    Search,
    UnavailableFacts,
    UnrecoverableFacts,
)
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, Segment
from auditor.witness.phrases import NAMES_SHOWN, TellLedger, join_names, name_some, runs

GONE = "is gone: it has neither a registration nor a cookie"


def gave_a_list(bookie: BookieId, looks: Sequence[Look]) -> bool:
    """Return whether the bookie's entries are known from a list, not from single reads."""
    asked = [look for look in looks if bookie in look.answers]
    return (
        bool(asked) and _newest_answered(bookie, asked).answers[bookie].status is AnswerStatus.HELD
    )


def answer_sentences(
    entry: EntryId, write_set: Sequence[BookieId], gone: Sequence[BookieId], looks: Sequence[Look]
) -> Iterator[str]:
    """Say what each bookie of the write set said of the entry.

    That is its newest conclusive answer or read, and whether it was silent since.
    """
    chain = newest_state_looks(looks)
    for bookie in write_set[:NAMES_SHOWN]:
        if bookie in gone:
            yield f"{bookie} {GONE}."
        else:
            yield from _newest_answer_sentences(bookie, entry, chain)
    more = len(write_set) - NAMES_SHOWN
    if more > 0:
        yield f"What {more} more said is not shown."


def has_entry(bookie: BookieId, entry: EntryId, looks: Sequence[Look]) -> bool | None:
    """Return whether the bookie has the entry, or None if it did not say.

    Its newest conclusive read decides, else its newest list.
    """
    for look in reversed(looks):
        read = look.reads.get((bookie, entry))
        if read is not None and read.status in ABSENT_READS | {ReadStatus.PRESENT}:
            return read.status is ReadStatus.PRESENT
    for look in reversed(looks):
        answer = look.answers.get(bookie)
        if answer is not None and answer.status in VALID_ANSWERS:
            return answer.status is AnswerStatus.HELD and _lists(answer, entry)
    return None


def bookie_sentences(bookies: Sequence[BookieId], looks: Sequence[Look]) -> Iterator[str]:
    """Say what each bookie last answered about the ledger."""
    asked = [look for look in newest_state_looks(looks) if look.answers]
    for bookie in bookies[:NAMES_SHOWN]:
        answers = [look.answers[bookie] for look in asked if bookie in look.answers]
        if answers:
            newest = answers[-1]
            yield f"{bookie} {GONE if newest.is_gone else _ANSWERED.get(newest.status, _LISTED)}."
    more = len(bookies) - NAMES_SHOWN
    if more > 0:
        yield f"What {more} more said is not shown."


def list_sentence(bookie: BookieId, entries: str, looks: Sequence[Look]) -> str:
    """Say that the list of the bookie names the entries, and at which look if it gave none since.

    `entries` are words such as "entries 7-9".
    """
    asked = [look for look in newest_state_looks(looks) if bookie in look.answers]
    if not is_list_outdated(bookie, looks):
        return f"{bookie} lists {entries}."
    listed = [look for look in asked if look.answers[bookie].status is AnswerStatus.HELD]
    return (
        f"{bookie} listed {entries} at look {listed[-1].record.look}. At look"
        f" {asked[-1].record.look} it {_ANSWERED[asked[-1].answers[bookie].status]}."
    )


def is_list_outdated(bookie: BookieId, looks: Sequence[Look]) -> bool:
    """Return whether the bookie listed the ledger at some look, and not at the newest that asked
    it.
    """
    asked = [look.answers[bookie] for look in newest_state_looks(looks) if bookie in look.answers]
    is_held = [answer.status is AnswerStatus.HELD for answer in asked]
    return any(is_held) and not is_held[-1]


def newest_state_looks(looks: Sequence[Look]) -> Sequence[Look]:
    """Return the looks that saw the newest state of the metadata; no others count."""
    return looks[newest_state_start(looks) :]


def _newest_answer_sentences(
    bookie: BookieId, entry: EntryId, looks: Sequence[Look]
) -> Iterator[str]:
    asked = [look for look in looks if bookie in look.answers]
    if not asked:
        return
    newest, deciding = asked[-1], _deciding_look(bookie, entry, asked)
    word = f"{_word(deciding, bookie, entry)}{_of_other_entries(bookie, entry, asked)}"
    if deciding is newest:
        yield f"{bookie} {word}."
    else:
        yield f"At look {deciding.record.look} {bookie} {word}."
        yield f"At look {newest.record.look} it {_word(newest, bookie, entry)}."


def _deciding_look(bookie: BookieId, entry: EntryId, looks: Sequence[Look]) -> Look:
    """Return the look whose answer or read of the entry counts.

    It is the newest list or, if that lacks the entry, the newest conclusive read. A read of a wrong
    digest counts whatever the list says.
    """
    answered = _newest_answered(bookie, looks)
    read = next(
        (look for look in reversed(looks) if _read_status(look, bookie, entry) in _CONCLUSIVE),
        answered,
    )
    answer = answered.answers[bookie]
    is_listed = answer.status is AnswerStatus.HELD and _lists(answer, entry)
    return (
        answered
        if is_listed and _read_status(read, bookie, entry) is not ReadStatus.CORRUPT
        else read
    )


def _newest_answered(bookie: BookieId, looks: Sequence[Look]) -> Look:
    """Return the newest look at which the bookie listed or was sampled, else the newest look."""
    return next((look for look in reversed(looks) if _says_what_is_there(look, bookie)), looks[-1])


def _says_what_is_there(look: Look, bookie: BookieId) -> bool:
    status = look.answers[bookie].status
    return status in VALID_ANSWERS or (
        status is AnswerStatus.UNSUPPORTED and bool(_sample(look, bookie))
    )


def _sample(look: Look, bookie: BookieId) -> dict[EntryId, ReadStatus]:
    """Return the results of reading entries that the bookie should hold."""
    metadata = look.record.metadata
    last = None if metadata is None else metadata.last_entry_id
    return {
        at: read.status
        for (where, at), read in look.reads.items()
        if where == bookie and not read.is_search and at >= 0 and (last is None or at <= last)
    }


def _read_status(look: Look, bookie: BookieId, entry: EntryId) -> ReadStatus | None:
    read = look.reads.get((bookie, entry))
    return None if read is None else read.status


def _word(look: Look, bookie: BookieId, entry: EntryId) -> str:
    answer, read = look.answers[bookie], look.reads.get((bookie, entry))
    if answer.status is AnswerStatus.HELD:
        listed = "lists it" if _lists(answer, entry) else "does not list it"
    elif answer.is_gone:
        listed = GONE
    else:
        listed = _ANSWERED[answer.status]
    return listed if read is None else f"{listed} and {_READ[read.status]}"


def _of_other_entries(bookie: BookieId, entry: EntryId, looks: Sequence[Look]) -> str:
    """Say what reads of other entries show, if the bookie cannot list and this entry was not
    read.
    """
    answer = _newest_answered(bookie, looks).answers[bookie]
    if answer.status is not AnswerStatus.UNSUPPORTED or any(
        (bookie, entry) in look.reads for look in looks
    ):
        return ""
    newest = next((found for look in reversed(looks) if (found := _sample(look, bookie))), {})
    without_ledger = [at for at, status in newest.items() if status is ReadStatus.NO_LEDGER]
    if without_ledger:
        return (
            f" and, read for entry {min(without_ledger)}, has no such ledger (READ_ENTRY:"
            " ENOLEDGER)"
        )
    return " and was read for other entries, not for this one" if newest else " and was not read"


def rests_on_a_sample(bookie: BookieId, entry: EntryId, looks: Sequence[Look]) -> bool:
    """Return whether the bookie's copy is assumed: it cannot list, but sent other entries."""
    asked = [look for look in looks if bookie in look.answers]
    if (
        not asked
        or _newest_answered(bookie, asked).answers[bookie].status is not AnswerStatus.UNSUPPORTED
    ):
        return False
    samples = [_sample(look, bookie) for look in asked]
    if any(entry in sample for sample in samples):
        return False
    answered = [_CONCLUSIVE.intersection(sample.values()) for sample in samples]
    newest = next((statuses for statuses in reversed(answered) if statuses), frozenset())
    lacks_ledger = ReadStatus.NO_LEDGER in newest and newest.isdisjoint(
        {ReadStatus.PRESENT, ReadStatus.CORRUPT}
    )
    return not lacks_ledger and any(
        not statuses.isdisjoint(_SPEAK_FOR_OTHERS) for statuses in answered
    )


_ANSWERED: dict[AnswerStatus, str] = {
    AnswerStatus.NO_SUCH_LEDGER: "does not know the ledger (ENOLEDGER)",
    AnswerStatus.SILENT: "did not answer",
    AnswerStatus.TIMED_OUT: "did not answer for this ledger in time",
    AnswerStatus.REFUSED: "refused to list the ledger",
    AnswerStatus.FAILED: "failed to list the ledger",
    AnswerStatus.INVALID: "sent a list that cannot be used",
    AnswerStatus.TOO_LARGE: "sent a list beyond the frame limit",
    AnswerStatus.UNSUPPORTED: "gave no list",
    AnswerStatus.UNREGISTERED: "is not registered",
    AnswerStatus.ADDRESS_UNKNOWN: "has no known address",
    AnswerStatus.AUDITOR_LIMITED: "could not be asked by the auditor's host",
}


assert _ANSWERED.keys() | {AnswerStatus.HELD} == set(AnswerStatus), "each answer has its words"


_LISTED = "gave a list"
"""What a bookie that listed the ledger did."""

_READ: dict[ReadStatus, str] = {
    ReadStatus.PRESENT: "sent it when it was read",
    ReadStatus.NO_ENTRY: "has no such entry (READ_ENTRY: ENOENTRY)",
    ReadStatus.NO_LEDGER: "has no such ledger (READ_ENTRY: ENOLEDGER)",
    ReadStatus.SILENT: "did not answer when it was read",
    ReadStatus.TIMED_OUT: "did not answer in time when it was read",
    ReadStatus.REFUSED: "refused to send it",
    ReadStatus.FAILED: "failed to send it",
    ReadStatus.INVALID: "sent something else when it was read",
    ReadStatus.CORRUPT: "sent it with a digest that does not match",
    ReadStatus.TOO_LARGE: "sent an entry beyond the frame limit",
    ReadStatus.UNREGISTERED: "was no longer registered when it was to be read",
    ReadStatus.ADDRESS_UNKNOWN: "had no known address to read from",
    ReadStatus.AUDITOR_LIMITED: "could not be read by the auditor's host",
    ReadStatus.NOT_ASKED: "was not read, because of the limit for one bookie and run",
}


assert _READ.keys() == set(ReadStatus), "each way a reading ends has its words"


_CONCLUSIVE = frozenset(
    {ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER, ReadStatus.CORRUPT}
)
"""Results of a read that say what the bookie has."""


_SPEAK_FOR_OTHERS = frozenset({ReadStatus.PRESENT, ReadStatus.NO_ENTRY})
"""Results of a read after which entries that were not read may be assumed present."""


def _lists(answer: Answer, entry: EntryId) -> bool:
    """Return whether one of the answer's groups (first, last, size, period) contains the entry."""
    return any(
        first <= entry <= last + size - 1 and (period == 0 or (entry - first) % period < size)
        for first, last, size, period in iter_unpack(">qqii", answer.groups)
    )


def neighbour_sentences(
    finding: Finding, facts: EntryFacts, looks: Sequence[Look]
) -> Iterator[str]:
    """Yield a sentence if copies lie at the same positions of a neighbouring segment.

    The segment before is tried first.
    """
    chain = newest_state_looks(looks)
    metadata, at = chain[-1].record.metadata, finding.segment
    if metadata is None or at is None:
        return
    firsts = [segment.first_entry_id for segment in metadata.segments]
    if firsts.count(at.first_entry_id) != 1 or metadata.ensemble_size != len(at.ensemble):
        return
    number = firsts.index(at.first_entry_id)
    found_first = facts.search.found_first if facts.search else ()
    entries = [
        entry
        for entry in dict.fromkeys((facts.worst_entry, *found_first))
        if at.first_entry_id <= entry <= at.last_entry_id
    ]
    for other in (number - 1, number + 1):
        if not 0 <= other < len(firsts):
            continue
        pairs = _misplaced(metadata, number, metadata.segments[other], entries, chain)
        if pairs:
            holders = join_names([f"{holder} in place of {member}" for holder, member in pairs])
            yield (
                f"Copies lie at the same positions of the segment from entry {firsts[other]}:"
                f" {holders}. These entries may have been written to its ensemble. If they were,"
                " corrected metadata makes them readable."
            )
            return


def has_misplaced_copies(finding: Finding, looks: Sequence[Look]) -> bool:
    """Return whether copies of the finding's entries lie where a neighbouring segment has them."""
    facts = (
        finding.facts.entries if isinstance(finding.facts, UnrecoverableFacts) else finding.facts
    )
    return isinstance(facts, EntryFacts) and any(neighbour_sentences(finding, facts, looks))


def _misplaced(
    metadata: LedgerMetadata,
    number: int,
    other: Segment,
    entries: Sequence[EntryId],
    looks: Sequence[Look],
) -> list[tuple[BookieId, BookieId]]:
    """Return the bookies of the other segment that have entries.

    Each comes with the bookie of this segment at the same position. Empty if one that should then
    have an entry lacks it.
    """
    ensemble, size = metadata.segments[number].ensemble, metadata.ensemble_size
    if len(other.ensemble) != size:
        return []
    pairs: dict[tuple[BookieId, BookieId], None] = {}
    for entry in entries:
        positions = [(entry + copy) % size for copy in range(metadata.write_quorum)]
        members = {ensemble[position] for position in positions}
        for position in positions:
            holder, member = other.ensemble[position], ensemble[position]
            if holder in members:
                continue
            word = has_entry(holder, entry, looks)
            if word is False:
                return []
            if word:
                pairs[holder, member] = None
    return list(pairs)


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
    now = [bookie for bookie in facts.listed_outside if not is_list_outdated(bookie, looks)]
    if now:
        verb = "lists" if len(now) == 1 else "list"
        yield f"Outside the write set {join_names(now)} {verb} {entry}."
    for bookie in [bookie for bookie in facts.listed_outside if bookie not in now][:NAMES_SHOWN]:
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
    verb = " or ".join(verbs[listed] for listed in sorted(by_list, reverse=True))
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
