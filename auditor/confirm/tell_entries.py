"""Witnesses of the entry family: which entry, its write set, and what each of these bookies said."""

from __future__ import annotations

from collections.abc import Sequence
from struct import iter_unpack

from auditor.confirm.telling import Facts, TellLedger
from auditor.confirm.words import runs
from auditor.model.availability import Answer, AnswerStatus, ReadStatus
from auditor.model.evidence import Look
from auditor.model.finding import Finding, Kind


def _entries(finding: Finding, facts: Facts, looks: Sequence[Look]) -> str:
    segment, copies = finding.segment, finding.copies
    assert segment is not None and copies is not None, finding
    entry = int(facts["worst_entry"])
    lines = [
        f"Let entry {entry} of ledger {finding.ledger_id} be in segment {segment.first_entry_id}-{segment.last_entry_id} with "
        f"ensemble {', '.join(segment.ensemble)}; then its write set is {', '.join(facts['write_set'].split())}.",
        *_said(entry, facts["write_set"].split(), looks),
        f"So {copies.confirmed} of {copies.write_quorum} copies are confirmed and {copies.unknown} are unknown "
        f"(ack quorum {copies.ack_quorum}).",
    ]
    if finding.entries_total > 1:
        lines.append(f"In all {finding.entries_total} entries are so: {runs(finding.entries, finding.entries_total)}.")
    if facts["held_outside_write_set"]:
        lines.append(f"Outside its write set the entry is held by {facts['held_outside_write_set']}.")
    return " ".join(lines)


def _said(entry: int, write_set: Sequence[str], looks: Sequence[Look]) -> list[str]:
    """What each bookie of the write set said of the entry, by its newest conclusive look."""
    lines = []
    for bookie in write_set:
        words = [word for look in looks if (word := _word(look, bookie, entry))]
        if words:
            lines.append(f"Bookie {bookie} {words[-1]}.")
    return lines


def _word(look: Look, bookie: str, entry: int) -> str:
    answer, read = look.answers.get(bookie), look.reads.get((bookie, entry))
    if answer is None:
        return ""
    if answer.status is AnswerStatus.HELD:
        listed = "lists it" if _lists(answer, entry) else "does not list it"
    elif answer.status is AnswerStatus.NO_SUCH_LEDGER:
        listed = "says it knows no such ledger"
    else:
        listed = f"gave no valid answer ({answer.status.value})"
    return listed if read is None else f"{listed}, and asked for that entry it {_READ[read.status]}"


_READ: dict[ReadStatus, str] = {
    ReadStatus.PRESENT: "sent it",
    ReadStatus.NO_ENTRY: "said it has no such entry",
    ReadStatus.NO_LEDGER: "said it has no such ledger",
    ReadStatus.SILENT: "was silent",
    ReadStatus.TIMED_OUT: "did not answer in time",
    ReadStatus.REFUSED: "refused",
    ReadStatus.INVALID: "gave no answer that could be read",
    ReadStatus.CORRUPT: "sent it with a digest that does not match",
    ReadStatus.TOO_LARGE: "gave an answer beyond the frame limit",
    ReadStatus.UNREGISTERED: "was no longer registered",
    ReadStatus.ADDRESS_UNKNOWN: "had no known address",
}
assert _READ.keys() == set(ReadStatus), "each way a reading ends has its words"


def _lists(answer: Answer, entry: int) -> bool:
    """Whether one of the answer's groups (first, last, size, period) contains the entry."""
    return any(
        first <= entry <= last + size - 1 and (period == 0 or (entry - first) % period < size)
        for first, last, size, period in iter_unpack(">qqii", answer.groups)
    )


TELL: dict[Kind, TellLedger] = {
    Kind.ENTRY_WITHOUT_REPLICA: _entries,
    Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE: _entries,
    Kind.ENTRY_BELOW_ACK_QUORUM: _entries,
    Kind.ENTRY_CORRUPT: _entries,
    Kind.ENTRY_BELOW_WRITE_QUORUM: _entries,
}
