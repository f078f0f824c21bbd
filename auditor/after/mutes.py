"""Mutes: findings that an operator knows and accepts until a day, in a file for people and for git.

The file has one JSON object a line. Each records the state of its finding when it was muted. A mute
does not apply to a finding of another kind, or to one that became worse or is about something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from auditor.model.codec import decode, encode
from auditor.model.finding import CATALOGUE, Family, Kind, Ranges
from auditor.model.finding_record import FindingRecord, Muted
from auditor.model.identity import BookieId, LedgerId
from auditor.model.summary import ExpiredMute, MuteCounts, OutgrownMute

RANGES_MAX = 20
"""A finding keeps at most this many ranges of its entries, and for each bookie. One with so many
may have more."""

GROWS: Mapping[Kind, tuple[str, ...]] = {
    **dict.fromkeys(CATALOGUE, ()),
    Kind.BOOKIE_LOST_UNNOTICED: ("unmarked_ledgers",),
    Kind.BOOKIE_LOST_CONTENT: ("lacking_most", "absent"),
    Kind.ENTRY_LOG_LOST: ("logs", "ledgers", "entries"),
    Kind.BOOKIE_UNREADABLE_ENTRIES: ("failed", "ledgers"),
    Kind.BOOKIE_FAILING_REQUESTS: ("ledgers",),
    Kind.BOOKIE_DISK_SHRANK: ("missing_percent", "missing_directories"),
    Kind.MARK_WITHOUT_LEDGER: ("marks",),
    Kind.VERIFICATION_OVERDUE: ("bookies",),
    Kind.RECOVERY_BLOCKED: ("blocked_write_sets",),
    Kind.LEDGER_ORPHANED: ("ledgers",),
    Kind.REFERENCED_LEDGER_MISSING: ("topics", "uses"),
    Kind.NEWEST_LEDGER_MISSING: ("topics", "uses"),
    Kind.LEDGER_TRUNCATED: ("topics", "uses", "entries"),
    Kind.LEDGER_DROPPED_FROM_TOPIC: ("topics",),
    Kind.POSITION_BEYOND_END: ("positions",),
}
"""The facts that make a finding worse when they grow."""
STAYS: Mapping[Kind, tuple[str, ...]] = {
    **dict.fromkeys(CATALOGUE, ()),
    Kind.ENTRY_CORRUPT: ("copies",),
    Kind.ENSEMBLE_DUPLICATE_BOOKIE: ("positions",),
    Kind.PLACEMENT_FAILED: ("policy", "deciding", "shown"),
    Kind.PLACEMENT_SOFT: ("policy", "deciding", "shown"),
    Kind.UNDERREPLICATED_BEYOND_GRACE: ("missing_replicas", "state"),
    Kind.METADATA_MALFORMED: ("reason", "sha256", "contradictions", "total"),
    Kind.RECOVERY_BLOCKED: ("ensemble",),
    Kind.COOKIE_OF_ANOTHER_INSTANCE: ("cookie_instance_id", "instance_id"),
    Kind.LEDGER_STUCK: ("state",),
    Kind.LEDGER_POPULATION_DROPPED: ("previous_run", "ledgers"),
    Kind.CLOSED_METADATA_CHANGED: ("earlier_run", "fields"),
    Kind.LEDGER_TRUNCATED: ("last_entry_id",),
    Kind.LEDGER_DROPPED_FROM_TOPIC: ("earlier_run",),
    Kind.POSITION_BEYOND_END: ("last_entry_id",),
}
"""The facts that identify a finding."""
AMONG: Mapping[Kind, tuple[str, str, tuple[str, ...]]] = {
    Kind.BOOKIE_LOST_UNNOTICED: ("some_ledgers", "unmarked_ledgers", ()),
    Kind.BOOKIE_LOST_CONTENT: ("some_ledgers", "lacking_most", ()),
    Kind.BOOKIE_FAILING_REQUESTS: ("some_ledgers", "ledgers", ()),
    Kind.ENTRY_LOG_LOST: ("some_logs", "logs", ("path",)),
    Kind.MARK_WITHOUT_LEDGER: ("some_ledgers", "marks", ()),
    Kind.LEDGER_ORPHANED: ("some_ledgers", "ledgers", ()),
    Kind.REFERENCED_LEDGER_MISSING: ("some_uses", "uses", ("topic", "role", "name")),
    Kind.NEWEST_LEDGER_MISSING: ("some_uses", "uses", ("topic", "role", "name")),
    Kind.LEDGER_TRUNCATED: ("some_uses", "uses", ("topic", "role", "name")),
    Kind.LEDGER_DROPPED_FROM_TOPIC: ("some_topics", "topics", ()),
    Kind.POSITION_BEYOND_END: ("some_positions", "positions", ("topic", "subscription", "what")),
}
"""By kind: the fact with its first ledgers, logs or uses, the fact that counts all of them, and the
fields that identify an item. Later items must be among the muted ones."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of a muted finding: its entries, where copies are missing, its copies, and the
    facts that matter.
    """

    entries: Ranges
    entries_total: int
    missing_on: Mapping[str, Ranges]
    copies_confirmed: int | None
    copies_unknown: int | None
    ensemble: tuple[str, ...] | None
    grows: Mapping[str, int]
    stays: Mapping[str, object]
    among: tuple[object, ...]
    among_total: int

    @classmethod
    def from_json(cls, stored: object) -> State:
        """Return the state in a line of the file. Raises KeyError, TypeError or ValueError for
        anything else.
        """
        state = decode(cls, stored)
        for ranges in (state.entries, *state.missing_on.values()):
            if not all(0 <= first <= last for first, last in ranges):
                raise ValueError("its state has ranges that are none")
        return state


def state_of(finding: FindingRecord) -> State:
    """Return the state of a finding."""
    kind, facts, copies = finding.kind, finding.facts.values, finding.copies
    segment = finding.segment if finding.family is Family.PLACEMENT else None
    return State(
        finding.entries,
        finding.entries_total,
        finding.missing_on,
        copies.confirmed if copies else None,
        copies.unknown if copies else None,
        None if segment is None else segment.ensemble,
        {name: int(facts[name] or 0) for name in GROWS[kind]},
        {name: facts.get(name) for name in STAYS[kind]},
        *_items_of(kind, facts),
    )


def _items_of(kind: Kind, facts: Mapping[str, Any]) -> tuple[tuple[object, ...], int]:
    """Return the ledgers, logs or uses that the facts name, and how many there are."""
    if kind not in AMONG:
        return (), 0
    name, total, keys = AMONG[kind]
    items = ([item[key] for key in keys] if keys else item for item in facts[name])
    return tuple(items), int(facts[total])


def why_outgrown(kind: Kind, before: State, finding: FindingRecord) -> str:
    """Return why a mute of a finding no longer applies; "" if it does.

    It applies to a finding of the same kind, on entries and bookies that were muted, with as many
    copies, and with no fact that is worse or different.
    """
    if finding.kind is not kind:
        return f"it is {finding.kind.value} now and was {kind.value}"
    now = state_of(finding)
    return (
        _why_worse_entries(before, now)
        or _why_fewer_copies(before, now)
        or _why_other_facts(before, now)
    )


def _why_worse_entries(before: State, now: State) -> str:
    if now.entries_total > before.entries_total:
        return f"it has {now.entries_total:,} entries now and had {before.entries_total:,}"
    is_cut = any(
        len(ranges) >= RANGES_MAX
        for state in (before, now)
        for ranges in (state.entries, *state.missing_on.values())
    )
    if is_cut:
        is_same = (before.entries, before.entries_total, before.missing_on) == (
            now.entries,
            now.entries_total,
            now.missing_on,
        )
        return "" if is_same else "its entries are not those that were muted"
    if not covers(before.entries, now.entries):
        return "it has entries that were not muted"
    more = [
        bookie
        for bookie, ranges in now.missing_on.items()
        if not covers(before.missing_on.get(bookie, ()), ranges)
    ]
    return f"{more[0]} lacks entries that it did not lack" if more else ""


def _why_fewer_copies(before: State, now: State) -> str:
    if before.copies_confirmed is None or now.copies_confirmed is None:
        return (
            ""
            if before.copies_confirmed == now.copies_confirmed
            else "its copies were not counted alike"
        )
    if now.copies_confirmed < before.copies_confirmed:
        return (
            f"an entry has {now.copies_confirmed} confirmed copies now and had"
            f" {before.copies_confirmed}"
        )
    had, has = (
        int(state.copies_confirmed or 0) + int(state.copies_unknown or 0) for state in (before, now)
    )
    return f"an entry has at most {has} copies now and had {had}" if has < had else ""


def _why_other_facts(before: State, now: State) -> str:
    if before.ensemble != now.ensemble:
        return "its ensemble is another one"
    for name, number in now.grows.items():
        if number > before.grows.get(name, 0):
            return f"{name} is {number:,} now and was {before.grows.get(name, 0):,}"
    is_cut = any(len(state.among) < state.among_total for state in (before, now))
    more = [name for name in now.among if name not in before.among]
    if more or (is_cut and before.among != now.among):
        return (
            f"it names {more[0]}, which was not muted"
            if more
            else "it names others than those that were muted"
        )
    other = [name for name, value in now.stays.items() if before.stays.get(name) != value]
    return f"its {other[0]} is not what was muted" if other else ""


def covers(outer: Sequence[Sequence[int]], inner: Sequence[Sequence[int]]) -> bool:
    """Return whether each inclusive range of `inner` lies within one of `outer`, which are
    sorted.
    """
    return all(any(first <= low and high <= last for first, last in outer) for low, high in inner)


MUTES_FILE = "mutes.jsonl"
"""The file's name in OUTPUT."""
MUTES_MAX = 10_000
"""One file has at most this many mutes. To mute more, use --fail-on."""
WHY_CHARS_MAX = 500


class BadMutes(Exception):
    """`mute` did not write this file. `str` says which line is wrong, and why."""


@dataclass(frozen=True, slots=True)
class Mute:
    """One muted finding. It is muted to the end of the day `until`, in UTC.

    `on` names the subject of the finding for people. `state`: how bad the finding was in the run
    `run_id`.
    """

    id: str
    until: date
    why: str
    kind: Kind
    on: str
    run_id: str
    state: State

    def line(self) -> str:
        """Return the mute as a line of the file, which `parse_mutes` reads."""
        return json.dumps(
            {
                "id": self.id,
                "until": self.until.isoformat(),
                "why": self.why,
                "kind": self.kind.value,
                "on": self.on,
                "run_id": self.run_id,
                "state": encode(self.state),
            }
        )


@dataclass(frozen=True, slots=True)
class Applied:
    """Which findings are muted. `muted` has their mutes by id and kind.

    `outgrown`: mutes that do not apply, each with the reason; `expired`: mutes whose day is over,
    of findings that still exist.
    """

    muted: Mapping[tuple[str, Kind], Mute]
    outgrown: Sequence[tuple[Mute, str]] = ()
    expired: Sequence[Mute] = ()

    def of(self, finding: FindingRecord) -> Muted | None:
        """Return until when a finding is muted, and why; None if it is not."""
        mute = self.muted.get((finding.id, finding.kind))
        return None if mute is None else Muted(mute.until.isoformat(), mute.why)


def parse_mutes(text: str) -> list[Mute]:
    """Return the mutes of a file, in its order. Blank lines are skipped.

    Raises BadMutes. A file with a bad line mutes nothing, because its intent is unknown.
    """
    mutes: dict[str, Mute] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        mute = _parse(line, number)
        if mute.id in mutes:
            raise BadMutes(
                f"line {number} mutes {mute.id} for the second time: keep one of the two lines"
            )
        mutes[mute.id] = mute
        if len(mutes) > MUTES_MAX:
            raise BadMutes(f"there are more than {MUTES_MAX} lines: use --fail-on instead")
    return list(mutes.values())


def _parse(line: str, number: int) -> Mute:
    try:
        fields = json.loads(line)
        texts = [fields[name] for name in ("id", "why", "on", "run_id")]
        if (
            not all(isinstance(text, str) for text in texts)
            or not fields["id"]
            or not fields["why"].strip()
        ):
            raise ValueError("id, why, on and run_id must be texts, and id and why not empty")
        state = State.from_json(fields["state"])
        return Mute(
            fields["id"],
            date.fromisoformat(fields["until"]),
            fields["why"],
            Kind(fields["kind"]),
            fields["on"],
            fields["run_id"],
            state,
        )
    except KeyError as error:
        raise BadMutes(f"line {number} lacks {error}: write it with `auditor mute`") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadMutes(
            f"line {number} is not a mute ({error}): write it with `auditor mute`"
        ) from None


def apply_mutes(mutes: Iterable[Mute], findings: Iterable[FindingRecord], today: date) -> Applied:
    """Return which of these findings are muted today (UTC). Pure."""
    by_id: dict[str, list[FindingRecord]] = {}
    for finding in findings:
        by_id.setdefault(finding.id, []).append(finding)
    muted: dict[tuple[str, Kind], Mute] = {}
    outgrown, expired = [], []
    for mute in mutes:
        for finding in by_id.get(mute.id, ()):
            if mute.until < today:
                expired.append(mute)
            elif why := why_outgrown(mute.kind, mute.state, finding):
                outgrown.append((mute, why))
            else:
                muted[mute.id, finding.kind] = mute
    return Applied(muted, outgrown, list({mute.id: mute for mute in expired}.values()))


def count_muted(
    applied: Applied, findings: Iterable[FindingRecord], problem: str | None
) -> MuteCounts:
    """Return what is muted, for the summary.

    `by_kind` counts, for each kind, the ledgers or bookies (1 for the cluster) all of whose
    findings of that kind are muted. It is subtracted from the number that have the kind.
    """
    subjects: dict[str, dict[tuple[LedgerId | None, BookieId | None], bool]] = {}
    count = 0
    for finding in findings:
        kind, is_muted = finding.kind.value, applied.of(finding) is not None
        count += is_muted
        subject = (finding.ledger_id, finding.bookie_id)
        known = subjects.setdefault(kind, {})
        known[subject] = known.get(subject, True) and is_muted
    by_kind = {kind: sum(known.values()) for kind, known in subjects.items()}
    return MuteCounts(
        problem,
        count,
        {kind: number for kind, number in sorted(by_kind.items()) if number},
        tuple(OutgrownMute(mute.id, mute.on, why) for mute, why in applied.outgrown),
        tuple(ExpiredMute(mute.id, mute.on, mute.until.isoformat()) for mute in applied.expired),
    )


@dataclass(frozen=True, slots=True)
class Mutes:
    """The mutes of a file on a day (UTC). `problem` says why the file could not be read, or is
    "".
    """

    mutes: Sequence[Mute]
    today: date
    problem: str | None = None
