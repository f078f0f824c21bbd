"""Sentences on what each bookie said of one entry: its answer to a list request, and its reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import iter_unpack

from auditor.first_checker.recheck import newest_state_start
from auditor.model.availability import (
    ABSENT_READS,
    VALID_ANSWERS,
    Answer,
    AnswerStatus,
    ReadStatus,
)
from auditor.model.evidence import Look
from auditor.model.identity import BookieId, EntryId
from auditor.witness.phrases import NAMES_SHOWN

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
