"""No accusation without a witness: a finding told so that a person can check it by hand, and its outside form.

The outside form is contract section 4's object, one a finding: plain JSON values, the same bytes for the same evidence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from struct import iter_unpack
from typing import Any

from auditor.confirm.next_commands import next_commands
from auditor.confirm.owner import owner_of
from auditor.model.availability import Answer, AnswerStatus, ReadStatus
from auditor.model.cluster import BookieRecord, ClusterFacts
from auditor.model.evidence import Look
from auditor.model.finding import CATALOGUE, Finding, Kind, Ranges

Json = dict[str, Any]
Facts = Mapping[str, str]


def ledger_testimony(finding: Finding, looks: Sequence[Look], facts: ClusterFacts) -> Json:
    """A finding on a ledger, with every look taken at it."""
    told = _TELL[finding.kind](finding, dict(finding.facts), looks)
    owner = owner_of(looks[-1].record.metadata)
    return _outside(finding, facts, f"{told} {_again(looks)}".strip(), [ledger_look(look) for look in looks], owner)


def bookie_testimony(finding: Finding, looks: Sequence[BookieRecord], facts: ClusterFacts) -> Json:
    """A finding on a bookie, with how it was registered and what it answered at every look."""
    told = _TELL_BOOKIE[finding.kind](finding, dict(finding.facts))
    return _outside(finding, facts, told, [_bookie_look(record) for record in looks])


def gist(witness: str) -> str:
    """What a witness concludes, without what it starts from and without the closing look: for a screen with a line for it."""
    stated = witness.partition("; then ")[2] or witness
    return stated.partition(" Again at look ")[0]


def finding_id(finding: Finding, facts: ClusterFacts) -> str:
    """Stable over runs: the cluster, the family, the ledger or bookie, the segment's first entry."""
    cluster = facts.instance_id or f"{facts.root} {' '.join(sorted(facts.hosts))}"
    subject = finding.bookie_id if finding.ledger_id is None else str(finding.ledger_id)
    first = "" if finding.segment is None else str(finding.segment.first_entry_id)
    text = "\n".join((cluster, finding.family.value, str(subject), first))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def finding_line(testimony: Json) -> str:
    """A finding as one line of JSON: ASCII, keys in the contract's order."""
    return json.dumps(testimony, ensure_ascii=True, separators=(",", ":"))


def _outside(finding: Finding, facts: ClusterFacts, witness: str, looks: list[Json], owner: Json | None = None) -> Json:
    segment, copies = finding.segment, finding.copies
    return {
        "id": finding_id(finding, facts),
        "kind": finding.kind.value,
        "family": finding.family.value,
        "severity": finding.severity.word,
        "ledger_id": finding.ledger_id,
        "bookie_id": finding.bookie_id,
        "owner": owner,
        "segment": segment
        and {
            "first_entry_id": segment.first_entry_id,
            "last_entry_id": segment.last_entry_id,
            "ensemble": list(segment.ensemble),
        },
        "entries": [list(run) for run in finding.entries],
        "entries_total": finding.entries_total,
        "missing_on": {bookie: [list(run) for run in runs] for bookie, runs in finding.missing_on},
        "copies": copies
        and {
            "write_quorum": copies.write_quorum,
            "ack_quorum": copies.ack_quorum,
            "confirmed": copies.confirmed,
            "unknown": copies.unknown,
        },
        "witness": witness,
        "looks": looks,
        "next": next_commands(finding, replication_disabled=facts.replication_disabled),
        "runbook": None,
    }


def ledger_look(look: Look) -> Json:
    """One look at a ledger in its outside form."""
    record = look.record
    return {
        "at": _moment(record.read_at_ms),
        "znode_version": None if record.stamp is None else record.stamp.version,
        "marked": record.mark is not None,
        "answers": {bookie: answer.status.value for bookie, answer in sorted(look.answers.items())},
    }


def _bookie_look(record: BookieRecord) -> Json:
    greeting = record.greeting.value if record.greeting else "not_asked"
    return {"at": _moment(record.read_at_ms), "znode_version": None, "marked": False, "answers": {record.bookie_id: greeting}}


def _again(looks: Sequence[Look]) -> str:
    """The last sentence: what was read once more before this was said."""
    last = looks[-1].record
    if len(looks) < 2:
        return ""
    state = "marked under-replicated" if last.mark is not None else "not marked"
    version = "" if last.stamp is None else f" in version {last.stamp.version}"
    return f"Again at look {len(looks)}: the metadata was read once more{version} and the ledger was {state}."


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
        lines.append(f"In all {finding.entries_total} entries are so: {_runs(finding.entries, finding.entries_total)}.")
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


def _moment(at_ms: int) -> str:
    """Milliseconds since 1970 as RFC 3339 in UTC; a time no calendar has is told as it is."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def _span(seconds: str) -> str:
    """Seconds as a person says them, the two largest units at most: "23 s", "1 h 5 min", "10 days"."""
    left = int(seconds)
    for number, unit, smaller, small_unit in ((86_400, "day", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if left >= number:
            whole, rest = divmod(left, number)
            plural = "s" if unit == "day" and whole > 1 else ""
            return f"{whole} {unit}{plural}" + (f" {rest // smaller} {small_unit}" if rest >= smaller else "")
    return f"{left} s"


def _runs(ranges: Ranges, total: int) -> str:
    """A few ranges in words; the rest is counted."""
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges[:_RUNS_TOLD])
    counted = sum(b - a + 1 for a, b in ranges[:_RUNS_TOLD])
    return shown if counted == total else f"{shown} and {total - counted} more"


_RUNS_TOLD = 5
"""Entry ranges told in a sentence; the finding itself carries more."""


def _duplicate(finding: Finding, facts: Facts, _looks: Sequence[Look]) -> str:
    assert finding.segment is not None, finding
    twice = "; ".join(f"{bookie} at positions {at.replace(' ', ' and ')}" for bookie, at in facts.items())
    return (
        f"Let segment {finding.segment.first_entry_id}-{finding.segment.last_entry_id} of ledger {finding.ledger_id} have the "
        f"ensemble {', '.join(finding.segment.ensemble)}; then {twice}: an entry striped to both positions has one copy there, "
        "not two."
    )


def _marked(finding: Finding, facts: Facts, _looks: Sequence[Look]) -> str:
    replicas = facts["missing_replicas"]
    missing = f", naming {', '.join(replicas.split())}" if replicas else ", naming no bookie"
    field, age = facts["mark_changed_at_ms"], _span(facts["age_s"])
    changed = f" and its own ctime field says {_moment(int(field))}" if field else " and it carries no ctime field"
    problem = (
        f" The mark cannot be read ({facts['mark_problem']}), so its znode's time counts." if facts["mark_problem"] else ""
    )
    return (
        f"Let ledger {finding.ledger_id} be marked under-replicated{missing}: the mark's znode was made at "
        f"{_moment(int(facts['marked_at_ms']))}{changed}; then the mark is, by the older of the two, {age} old, "
        f"and up to {_span(facts['grace_s'])} is acceptable.{problem}"
    )


def _malformed(finding: Finding, facts: Facts, looks: Sequence[Look]) -> str:
    if "undecodable" in facts:
        return (
            f"Let the metadata of ledger {finding.ledger_id} be the {facts['length_bytes']} bytes with SHA-256 "
            f"{facts['sha256']}; then decoding fails at byte {facts['offset_bytes']}: {facts['undecodable']}."
        )
    against = "; ".join(text for name, text in finding.facts if name == "contradiction")
    version = looks[-1].record.stamp.version if looks[-1].record.stamp else "?"
    return f"Let ledger {finding.ledger_id} be as in version {version} of its znode; then it contradicts itself: {against}."


def _silent_bookie(finding: Finding, facts: Facts) -> str:
    why = f" ({facts['detail']})" if facts["detail"] else ""
    return (
        f"Let bookie {finding.bookie_id} be registered as {facts['registration']} at {facts['address']}; then it should "
        f"answer, and it was silent at each of {facts['looks']} looks{why}, still registered at the last of them."
        f"{_disabled(facts)}"
    )


def _lost_bookie(finding: Finding, facts: Facts) -> str:
    cookie = "the bookie still has a cookie" if facts["has_cookie"] == "true" else "the bookie has no cookie"
    delay = facts["lost_bookie_recovery_delay_s"]
    patience = f" lostBookieRecoveryDelay is {_span(delay)}." if delay else ""
    number, some = int(facts["unmarked_ledgers"]), facts["some_ledgers"].split()
    names, is_not = ("closed ledger names", "is not") if number == 1 else ("closed ledgers name", "none of them is")
    more = f" and {number - len(some)} more" if number > len(some) else ""
    return (
        f"Let bookie {finding.bookie_id} not be registered; then {number} {names} it ({', '.join(some)}{more}) and {is_not} "
        f"marked under-replicated; {cookie}; all this again {_span(facts['apart_s'])} later.{patience}{_disabled(facts)}"
    )


def _disabled(facts: Facts) -> str:
    if facts.get("replication_disabled") != "true":
        return ""
    return " Auto-recovery is disabled (underreplication/disable exists), so nothing will be repaired until it is enabled."


_TELL: dict[Kind, Callable[[Finding, Facts, Sequence[Look]], str]] = {
    Kind.ENTRY_WITHOUT_REPLICA: _entries,
    Kind.ENTRY_BELOW_ACK_QUORUM: _entries,
    Kind.ENTRY_BELOW_WRITE_QUORUM: _entries,
    Kind.ENSEMBLE_DUPLICATE_BOOKIE: _duplicate,
    Kind.UNDERREPLICATED_BEYOND_GRACE: _marked,
    Kind.METADATA_MALFORMED: _malformed,
}
_TELL_BOOKIE: dict[Kind, Callable[[Finding, Facts], str]] = {
    Kind.BOOKIE_SILENT_YET_REGISTERED: _silent_bookie,
    Kind.BOOKIE_LOST_UNNOTICED: _lost_bookie,
}
assert _TELL.keys() | _TELL_BOOKIE.keys() == CATALOGUE.keys(), "each kind of the catalogue has its witness"
