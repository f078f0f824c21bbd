"""Decide whether a muted finding is worse now, or a different one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from auditor.model.finding import CATALOGUE, Family, Kind, Ranges
from auditor.model.finding_record import FindingRecord

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
    Kind.MARK_WITHOUT_LEDGER: ("marks",),
    Kind.RECOVERY_BLOCKED: ("blocked_write_sets",),
    Kind.LEDGER_ORPHANED: ("ledgers",),
    Kind.REFERENCED_LEDGER_MISSING: ("topics", "uses"),
    Kind.NEWEST_LEDGER_MISSING: ("topics", "uses"),
    Kind.LEDGER_TRUNCATED: ("topics", "uses", "entries"),
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
    Kind.LEDGER_STUCK: ("state",),
    Kind.LEDGER_POPULATION_DROPPED: ("previous_run", "ledgers"),
    Kind.LEDGER_TRUNCATED: ("last_entry_id",),
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
    ensemble: Sequence[str] | None
    grows: Mapping[str, int]
    stays: Mapping[str, Any]
    among: Sequence[Any]
    among_total: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> State:
        """Return what `as_json` wrote. Raises KeyError, TypeError or ValueError for anything
        else.
        """
        values = {one.name: stored[one.name] for one in fields(cls)}
        values["entries"] = _read_ranges(values["entries"])
        values["missing_on"] = {b: _read_ranges(one) for b, one in values["missing_on"].items()}
        numbers = [values["entries_total"], values["among_total"], *values["grows"].values()]
        copies = [values["copies_confirmed"], values["copies_unknown"]]
        if (
            not isinstance(values["among"], list)
            or not all(isinstance(number, int) for number in numbers)
            or not all(number is None or isinstance(number, int) for number in copies)
            or not isinstance(values["ensemble"], list | None)
            or not isinstance(values["stays"], Mapping)
        ):
            raise ValueError("its state has not the numbers of a finding")
        return cls(**values)


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
        None if segment is None else list(segment.ensemble),
        {name: int(facts[name] or 0) for name in GROWS[kind]},
        {name: facts.get(name) for name in STAYS[kind]},
        *_items_of(kind, facts),
    )


def _items_of(kind: Kind, facts: Mapping[str, Any]) -> tuple[list[Any], int]:
    """Return the ledgers, logs or uses that the facts name, and how many there are."""
    if kind not in AMONG:
        return [], 0
    name, total, keys = AMONG[kind]
    return [[one[key] for key in keys] if keys else one for one in facts[name]], int(facts[total])


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
    more = [one for one in now.among if one not in before.among]
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


def _read_ranges(stored: Iterable[Any]) -> Ranges:
    """Return ranges of a file. Raises TypeError or ValueError for anything else."""
    ranges = tuple((first, last) for first, last in stored)
    for first, last in ranges:
        if not (isinstance(first, int) and isinstance(last, int) and 0 <= first <= last):
            raise ValueError("its state has ranges that are none")
    return ranges
