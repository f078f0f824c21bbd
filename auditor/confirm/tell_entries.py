"""Witnesses of the entry family: which entry, its write set, and what each of these bookies said."""

from __future__ import annotations

from collections.abc import Sequence
from struct import iter_unpack

from auditor.confirm.telling import Facts, TellLedger
from auditor.confirm.words import RUNS_TOLD, named, runs
from auditor.model.availability import VALID_ANSWERS, Answer, AnswerStatus, ReadStatus
from auditor.model.evidence import Look
from auditor.model.finding import Finding, Kind


def tell_entries(finding: Finding, facts: Facts, looks: Sequence[Look]) -> str:
    """The worst entry, what each bookie of its write set said of it, and how many entries are so."""
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
    lines += _elsewhere(facts)
    return " ".join(lines)


def _elsewhere(facts: Facts) -> list[str]:
    """What came of asking the bookies that should hold none of the ledger."""
    if "looked_for" not in facts:
        return []
    looked_for, alive, rest = int(facts["looked_for"]), int(facts["alive"]), int(facts["not_looked_for"])
    asked = "It was" if looked_for == 1 else f"{looked_for} of them were"
    where = "looked for on every other registered bookie"
    if not alive:
        lines = [f"{asked} {where} too, and found on none."]
    else:
        count = "it is" if looked_for == 1 else "all are" if alive == looked_for else f"{alive} are"
        total, known = int(facts["holders_total"]), int(facts.get("holders_named_total", "0"))
        found = f"{asked} {where}: {count} alive on {named(facts['holders'], total)}"
        if not known:
            lines = [f"{found}, which the metadata does not name. {GARBAGE_COLLECTION}"]
        else:
            lines = [f"{found}. The metadata names {named(facts['holders_named'], known)}, but for none of its entries."]
            lines += [f"It does not name the rest. {GARBAGE_COLLECTION}"] if total > known else []
    if rest:
        lines.append(f"{rest} more were not looked for there.")
    if facts["unheard"]:
        lines.append(f"No conclusive answer came from {named(facts['unheard'], int(facts['unheard_total']))}.")
    return lines


GARBAGE_COLLECTION = (
    "Its garbage collection may take it once 24 h have passed since the bookie started or last looked for such ledgers "
    "(gcOverreplicatedLedgerWaitTime): with default settings that may be within 10 min (gcWaitTime), at the earliest."
)
"""When a stranded copy may be gone (ScanAndCompareGarbageCollector)."""


def _corrupt(finding: Finding, facts: Facts, looks: Sequence[Look]) -> str:
    segment, copies = finding.segment, finding.copies
    assert segment is not None and copies is not None, finding
    entry = int(facts["worst_entry"])
    on = [text.split() for name, text in finding.facts if name == "corrupt_on"]
    told = "; ".join(f"bookie {bookie} entry {', '.join(entries[:RUNS_TOLD])}" for bookie, *entries in on[:_BOOKIES_TOLD])
    more = f"; so it is on {len(on) - _BOOKIES_TOLD} more bookies" if len(on) > _BOOKIES_TOLD else ""
    lines = [
        f"Let entry {entry} of ledger {finding.ledger_id} be in segment {segment.first_entry_id}-{segment.last_entry_id} with "
        f"ensemble {', '.join(segment.ensemble)}; then its write set is {', '.join(facts['write_set'].split())}.",
        *_said(entry, facts["write_set"].split(), looks),
        f"So at two looks what was read had the right ids and a digest that does not match its bytes: {told}{more}.",
        f"Of entry {entry} {copies.confirmed} of {copies.write_quorum} copies are confirmed.",
    ]
    return " ".join(lines)


_BOOKIES_TOLD = 5
"""Bookies with corrupt copies told in a sentence."""


def _said(entry: int, write_set: Sequence[str], looks: Sequence[Look]) -> list[str]:
    """What each bookie of the write set said of the entry, by its newest conclusive look; and that it says nothing since."""
    return [f"Bookie {one} {told}." for one in write_set if (told := _told(one, entry, looks))]


def _told(bookie: str, entry: int, looks: Sequence[Look]) -> str:
    heard = [look for look in looks if bookie in look.answers]
    if not heard:
        return ""
    newest = heard[-1]
    told = next((look for look in reversed(heard) if _is_conclusive(look, bookie, entry)), newest)
    said = _word(told, bookie, entry)
    if told is newest:
        return said
    return f"at look {told.record.look} {said}; at look {newest.record.look} it {_word(newest, bookie, entry)}"


def _is_conclusive(look: Look, bookie: str, entry: int) -> bool:
    """Whether the bookie said at this look, by its list or when it was read, what it has."""
    read = look.reads.get((bookie, entry))
    return look.answers[bookie].status in VALID_ANSWERS or (read is not None and read.status in _TELLING)


def _word(look: Look, bookie: str, entry: int) -> str:
    answer, read = look.answers[bookie], look.reads.get((bookie, entry))
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

_TELLING = frozenset({ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER, ReadStatus.CORRUPT})
"""Ways it ends that say what the bookie has."""


def _lists(answer: Answer, entry: int) -> bool:
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
