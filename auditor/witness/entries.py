"""Witnesses of the entry family: where the entry belongs, what each bookie said, the count, how far
the search went.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import iter_unpack

from auditor.first_checker.recheck import newest_state_start
from auditor.model.availability import VALID_ANSWERS, Answer, AnswerStatus, ReadStatus
from auditor.model.evidence import Look
from auditor.model.facts import CorruptFacts, EntryFacts, Search
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, EntryId
from auditor.witness.phrases import NAMES_TOLD, join_names, name_some, runs
from auditor.witness.sentences import TellLedger

CORRUPT_BOOKIES_TOLD = 5
"""Bookies with corrupt copies in a sentence; the facts have all."""

GARBAGE_COLLECTION = (
    "Garbage collection there may delete these copies at its next check for over-replicated"
    " ledgers. Checks are 24 h apart by default (gcOverreplicatedLedgerWaitTime), and the next one"
    " may be minutes away."
)
"""When a stranded copy may be deleted (ScanAndCompareGarbageCollector)."""


GONE = "is gone: it has neither a registration nor a cookie"

_LOST = (Kind.ENTRY_WITHOUT_REPLICA, Kind.UNDERREPLICATED_UNRECOVERABLE)


def entry_sentences(finding: Finding, facts: EntryFacts, looks: Sequence[Look]) -> str:
    """Return the witness: the worst entry, what its bookies said, and all entries that are hit."""
    lines = [
        _place_sentence(finding, facts.worst_entry, facts.write_set),
        *_answer_sentences(facts.worst_entry, facts.write_set, facts.gone, looks),
        _count_sentence(finding, facts.worst_entry, facts.write_set, looks),
    ]
    if facts.listed_outside:
        verb = "lists" if len(facts.listed_outside) == 1 else "list"
        lines.append(
            f"Outside the write set {join_names(facts.listed_outside)} {verb} entry"
            f" {facts.worst_entry}."
        )
    if finding.entries_total > 1:
        lines.append(
            f"{finding.entries_total} entries are hit:"
            f" {runs(finding.entries, finding.entries_total)}."
        )
    if facts.at_tail:
        lines.append(_tail_sentence(finding))
    if facts.search is not None:
        lines += _search_sentences(facts.search, _newest_state_looks(looks))
    elif finding.kind in _LOST:
        lines.append("No other bookie was searched.")
    return " ".join(lines)


def _place_sentence(finding: Finding, entry: EntryId, write_set: Sequence[BookieId]) -> str:
    segment = finding.segment
    assert segment is not None, finding
    return (
        f"Entry {entry} of ledger {finding.ledger_id} belongs on {join_names(write_set)} (segment"
        f" {segment.first_entry_id}-{segment.last_entry_id}, ensemble"
        f" {name_some(segment.ensemble)})."
    )


def _count_sentence(
    finding: Finding, entry: EntryId, write_set: Sequence[BookieId], looks: Sequence[Look]
) -> str:
    """Count copies of the worst entry. A bookie that cannot list may count by other entries."""
    copies = finding.copies
    assert copies is not None, finding
    chain = _newest_state_looks(looks)
    assumed = (
        " or assumed"
        if any(_rests_on_a_sample(bookie, entry, chain) for bookie in write_set)
        else ""
    )
    unknown = f", {copies.unknown} unknown" if copies.unknown else ""
    return (
        f"{copies.confirmed} of {copies.write_quorum} copies found{assumed}{unknown}; ack quorum is"
        f" {copies.ack_quorum}."
    )


def _tail_sentence(finding: Finding) -> str:
    """Say that only the end is missing, and that a writer need not wait for more copies."""
    lacking = [bookie for bookie, _ in finding.missing_on]
    verb = "lacks" if len(lacking) == 1 else "lack"
    said = f"{join_names(lacking)} {verb} only the end of the ledger"
    return (
        f"{said}: a writer may close a ledger when the ack quorum has stored its last entries, and"
        " not wait for the rest."
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
            f"{join_names(search.not_asked)} {verb} not read{each}, because of the limit for one"
            " bookie and run."
        )
    if search.found_unnamed:
        yield (
            f"No segment of the ledger names {join_names(search.found_unnamed)}."
            f" {GARBAGE_COLLECTION}"
        )


def _found_words(search: Search, looks: Sequence[Look]) -> str:
    """Say who holds the entries: a bookie that sent one has it, one that only names it lists it."""
    if not search.found_on:
        return (
            "none holds a good copy"
            if search.corrupt_on
            else "none has it"
            if search.entries == 1
            else "none has any"
        )
    is_one = len(search.found_on) == 1
    by_list = {_gave_a_list(bookie, looks) for bookie in search.found_on}
    verbs = {True: "lists" if is_one else "list", False: "has" if is_one else "have"}
    verb = " or ".join(verbs[one] for one in sorted(by_list, reverse=True))
    if search.entries == 1:
        return f"{join_names(search.found_on)} {verb} it"
    count = "all" if search.entries_found == search.entries else search.entries_found
    of_what = f"these {search.entries}" if search.entries_left else "them"
    return (
        f"{join_names(search.found_on)} {verb if is_one else f'together {verb}'} {count} of"
        f" {of_what}"
    )


def _gave_a_list(bookie: BookieId, looks: Sequence[Look]) -> bool:
    heard = [look for look in looks if bookie in look.answers]
    return (
        bool(heard) and _newest_answered(bookie, heard).answers[bookie].status is AnswerStatus.HELD
    )


def _corrupt_sentences(finding: Finding, facts: CorruptFacts, looks: Sequence[Look]) -> str:
    copies = [
        f"{bookie}, {'entry' if len(entries) == 1 else 'entries'} {name_some(entries[:NAMES_TOLD])}"
        + (" and others" if len(entries) > NAMES_TOLD else "")
        for bookie, entries in facts.copies[:CORRUPT_BOOKIES_TOLD]
    ]
    more = len(facts.copies) - len(copies)
    others = (
        f"; and copies on {more} other {'bookie' if more == 1 else 'bookies'}" if more > 0 else ""
    )
    return " ".join(
        (
            _place_sentence(finding, facts.worst_entry, facts.write_set),
            *_answer_sentences(facts.worst_entry, facts.write_set, (), looks),
            _count_sentence(finding, facts.worst_entry, facts.write_set, looks),
            (
                "Copies that were read at two looks, with the right ids and a digest that does not"
                f" match their bytes: {'; '.join(copies)}{others}."
            ),
        )
    )


def _answer_sentences(
    entry: EntryId, write_set: Sequence[BookieId], gone: Sequence[BookieId], looks: Sequence[Look]
) -> Iterator[str]:
    """Say what each bookie of the write set said of the entry: its newest conclusive word, and
    whether it was silent since.
    """
    chain = _newest_state_looks(looks)
    for bookie in write_set[:NAMES_TOLD]:
        if bookie in gone:
            yield f"{bookie} {GONE}."
        else:
            yield from _newest_answer_sentences(bookie, entry, chain)
    more = len(write_set) - NAMES_TOLD
    if more > 0:
        yield f"What {more} more said is not shown."


def _newest_state_looks(looks: Sequence[Look]) -> Sequence[Look]:
    """Return the looks that saw the newest state of the metadata; no others count."""
    return looks[newest_state_start(looks) :]


def _newest_answer_sentences(
    bookie: BookieId, entry: EntryId, looks: Sequence[Look]
) -> Iterator[str]:
    heard = [look for look in looks if bookie in look.answers]
    if not heard:
        return
    newest, deciding = heard[-1], _deciding_look(bookie, entry, heard)
    word = f"{_word(deciding, bookie, entry)}{_of_other_entries(bookie, entry, heard)}"
    if deciding is newest:
        yield f"{bookie} {word}."
    else:
        yield f"At look {deciding.record.look} {bookie} {word}."
        yield f"At look {newest.record.look} it {_word(newest, bookie, entry)}."


def _deciding_look(bookie: BookieId, entry: EntryId, heard: Sequence[Look]) -> Look:
    """Return the look whose word on the entry counts.

    It is the newest list or, if that lacks the entry, the newest conclusive read. A read of a wrong
    digest counts whatever the list says.
    """
    answered = _newest_answered(bookie, heard)
    read = next(
        (look for look in reversed(heard) if _read_status(look, bookie, entry) in _CONCLUSIVE),
        answered,
    )
    answer = answered.answers[bookie]
    is_listed = answer.status is AnswerStatus.HELD and _lists(answer, entry)
    return (
        answered
        if is_listed and _read_status(read, bookie, entry) is not ReadStatus.CORRUPT
        else read
    )


def _newest_answered(bookie: BookieId, heard: Sequence[Look]) -> Look:
    """Return the newest look at which the bookie listed or was sampled, else the newest look."""
    return next((look for look in reversed(heard) if _says_what_is_there(look, bookie)), heard[-1])


def _says_what_is_there(look: Look, bookie: BookieId) -> bool:
    status = look.answers[bookie].status
    return status in VALID_ANSWERS or (
        status is AnswerStatus.UNSUPPORTED and bool(_sample(look, bookie))
    )


def _sample(look: Look, bookie: BookieId) -> dict[EntryId, ReadStatus]:
    """Return the results of reading entries that the bookie should hold."""
    return {
        at: read.status
        for (where, at), read in look.reads.items()
        if where == bookie and not read.is_search
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


def _of_other_entries(bookie: BookieId, entry: EntryId, heard: Sequence[Look]) -> str:
    """Say what reads of other entries show, for a bookie that cannot list and was not read."""
    answer = _newest_answered(bookie, heard).answers[bookie]
    if answer.status is not AnswerStatus.UNSUPPORTED or any(
        (bookie, entry) in look.reads for look in heard
    ):
        return ""
    newest = next((found for look in reversed(heard) if (found := _sample(look, bookie))), {})
    without_ledger = [at for at, status in newest.items() if status is ReadStatus.NO_LEDGER]
    if without_ledger:
        return (
            f" and, read for entry {min(without_ledger)}, has no such ledger (READ_ENTRY:"
            " ENOLEDGER)"
        )
    return " and was read for other entries, not for this one" if newest else " and was not read"


def _rests_on_a_sample(bookie: BookieId, entry: EntryId, looks: Sequence[Look]) -> bool:
    """Return whether the bookie's copy is assumed: it cannot list, but sent other entries."""
    heard = [look for look in looks if bookie in look.answers]
    if (
        not heard
        or _newest_answered(bookie, heard).answers[bookie].status is not AnswerStatus.UNSUPPORTED
    ):
        return False
    samples = [_sample(look, bookie) for look in heard]
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
    ReadStatus.REFUSED: "refused to send it",
    ReadStatus.INVALID: "sent something else when it was read",
    ReadStatus.CORRUPT: "sent it with a digest that does not match",
    ReadStatus.TOO_LARGE: "sent an entry beyond the frame limit",
    ReadStatus.UNREGISTERED: "was no longer registered when it was to be read",
    ReadStatus.ADDRESS_UNKNOWN: "had no known address to read from",
    ReadStatus.NOT_ASKED: "was not read, because of the limit for one bookie and run",
}
assert _READ.keys() == set(ReadStatus), "each way a reading ends has its words"

_CONCLUSIVE = frozenset(
    {ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER, ReadStatus.CORRUPT}
)
"""Results of a read that say what the bookie has."""
_SPEAK_FOR_OTHERS = frozenset({ReadStatus.PRESENT, ReadStatus.NO_ENTRY})
"""Results that let entries which were not read be assumed present."""


def _lists(answer: Answer, entry: EntryId) -> bool:
    """Return whether one of the answer's groups (first, last, size, period) contains the entry."""
    return any(
        first <= entry <= last + size - 1 and (period == 0 or (entry - first) % period < size)
        for first, last, size, period in iter_unpack(">qqii", answer.groups)
    )


TELL: dict[Kind, TellLedger] = {
    Kind.ENTRY_WITHOUT_REPLICA: entry_sentences,
    Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE: entry_sentences,
    Kind.ENTRY_BELOW_ACK_QUORUM: entry_sentences,
    Kind.ENTRY_CORRUPT: _corrupt_sentences,
    Kind.ENTRY_BELOW_WRITE_QUORUM: entry_sentences,
}
