"""A finding as findings.jsonl has it: what was judged, its witness, its looks and its history.

`FindingRecord` is what every reader of findings works with: reports, the page, diffs, mutes and the
interface for scripts. `from_json` and `as_json` are the only places that know the names of its
fields in the file (docs/names.md, "Fields of a finding").
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditor.model.finding import (
    Copies,
    FindingSegment,
    Kind,
    OfKind,
    Ranges,
)
from auditor.model.identity import BookieId, EntryId, LedgerId

FIELDS = (
    "id", "kind", "family", "severity", "ledger_id", "bookie_id", "owner", "segment", "entries",
    "entries_total",
    "missing_on", "copies", "facts", "witness", "looks", "next", "runbook", "assurance",
)  # fmt: skip
"""The fields of docs/names.md, "Fields of a finding", in the order in which they are written."""
HISTORY_FIELDS = ("first_seen", "runs_seen", "muted", "change", "news_since")
"""The fields that follow. A file of an earlier version may lack them."""
CHANGES = ("new", "worse", "still", "better")
"""What became of a finding that a run has (docs/names.md, "What became of a finding")."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose ledger it is, as far as its metadata or a topic that references it says."""

    application: str | None = None
    component: str | None = None
    name: str | None = None

    def as_json(self) -> dict[str, str | None]:
        """Return the field `owner`, which `from_json` reads."""
        return {"application": self.application, "component": self.component, "name": self.name}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Owner:
        """Return what `as_json` wrote. Raises TypeError for a part that is no text."""
        return cls(
            *(_text_or_none(stored.get(name)) for name in ("application", "component", "name"))
        )


@dataclass(frozen=True, slots=True)
class RecordedLook:
    """One look at what a finding is on: when it was, and what each bookie answered.

    `at` is RFC 3339 in UTC. `listed` has for each bookie with a list `(listed, due)`: how many
    entries it should hold, and how many of these its list names; None for a finding that is not on
    a ledger. A look at the cluster has what was looked at instead of bookies ("listing").
    """

    at: str
    znode_version: int | None
    marked: bool
    answers: Mapping[BookieId, str]
    listed: Mapping[BookieId, tuple[int, int]] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the look as an item of the field `looks`, which `from_json` reads."""
        written: dict[str, Any] = {
            "at": self.at,
            "znode_version": self.znode_version,
            "marked": self.marked,
            "answers": dict(self.answers),
        }
        if self.listed is not None:
            written["listed"] = {bookie: list(counts) for bookie, counts in self.listed.items()}
        return written

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RecordedLook:
        """Return what `as_json` wrote. Raises KeyError, TypeError or ValueError for anything
        else.
        """
        version, listed = stored.get("znode_version"), stored.get("listed")
        return cls(
            _text(stored["at"]),
            None if version is None else int(version),
            bool(stored.get("marked")),
            {bookie: _text(said) for bookie, said in (stored.get("answers") or {}).items()},
            None
            if listed is None
            else {bookie: _pair(counts) for bookie, counts in listed.items()},
        )


@dataclass(frozen=True, slots=True)
class RecordedFacts:
    """The facts of a finding as the file has them, by the names of `model.facts`.

    Another version of the auditor may have written them: a fact may be missing.
    """

    values: Mapping[str, Any] = field(default_factory=dict)

    def count(self, name: str) -> int:
        """Return a fact that is a number. Raises KeyError without it."""
        return int(self.values[name])

    def parts(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return a fact that is a list of objects; empty without it."""
        return [part for part in self.values.get(name) or () if isinstance(part, Mapping)]

    @property
    def on_entries(self) -> RecordedFacts:
        """The facts on entries. Those of UNDERREPLICATED_UNRECOVERABLE are one level down."""
        inner = self.values.get("entries")
        return RecordedFacts(inner) if isinstance(inner, Mapping) else self

    @property
    def corrupt_copies(self) -> dict[BookieId, tuple[EntryId, ...]]:
        """The bookies that sent entries with a wrong digest, with these entries (ENTRY_CORRUPT)."""
        copies = self.on_entries.values.get("copies") or ()
        return {str(bookie): tuple(map(int, entries)) for bookie, entries in copies}

    @property
    def metadata_before(self) -> dict[str, str]:
        """The fields of metadata that changed, with the value that each had
        (CLOSED_METADATA_CHANGED).
        """
        fields = self.values.get("fields") or ()
        return {str(field["name"]): str(field["before"]) for field in fields}

    @property
    def found_first(self) -> dict[BookieId, EntryId]:
        """The bookies on which the search found entries, each with the lowest of them."""
        search = self.on_entries.values.get("search") or {}
        pairs = zip(search.get("found_on") or (), search.get("found_first") or (), strict=False)
        return {str(bookie): int(entry) for bookie, entry in pairs}

    @property
    def write_set(self) -> tuple[BookieId, ...]:
        """The bookies that should hold the worst entry."""
        return tuple(map(str, self.on_entries.values.get("write_set") or ()))

    @property
    def worst_entry(self) -> EntryId | None:
        """The entry with the fewest copies; None where the finding is not on entries."""
        entry = self.on_entries.values.get("worst_entry")
        return None if entry is None else int(entry)

    @property
    def baseline(self) -> str | None:
        """The run whose number of ledgers this run's was compared with."""
        run_id = self.values.get("previous_run")
        return None if run_id is None else str(run_id)


@dataclass(frozen=True, slots=True)
class Muted:
    """Until when a finding is muted (a day, ISO 8601), and why."""

    until: str
    why: str


@dataclass(frozen=True, slots=True)
class FindingHistory:
    """Since when a finding is seen (RFC 3339, UTC), in how many runs, and whether it is muted.

    The first two are None if they are not known, and so is `change`, one of CHANGES: what became of
    the finding since the run before. `news_since`: the id of the first run since which it is news
    of which nobody was told; None if it is not news.
    """

    first_seen: str | None = None
    runs_seen: int | None = None
    muted: Muted | None = None
    change: str | None = None
    news_since: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return HISTORY_FIELDS, which `from_json` reads."""
        muted = self.muted and {"until": self.muted.until, "why": self.muted.why}
        values = (self.first_seen, self.runs_seen, muted, self.change, self.news_since)
        return dict(zip(HISTORY_FIELDS, values, strict=True))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> FindingHistory:
        """Return what `as_json` wrote. Raises KeyError, TypeError or ValueError for anything
        else.
        """
        first_seen, runs_seen, muted, change, since = map(stored.get, HISTORY_FIELDS)
        if change is not None and change not in CHANGES:
            raise ValueError(f"{change!a:.40} is not a change of a finding")
        return cls(
            _text_or_none(first_seen),
            None if runs_seen is None else int(runs_seen),
            Muted(_text(muted["until"]), _text(muted["why"])) if muted else None,
            change,
            _text_or_none(since),
        )


@dataclass(frozen=True, slots=True)
class FindingRecord(OfKind):
    """One finding with its witness and its looks. docs/names.md says what each field means.

    `entries` are inclusive ranges, at most RANGES_MAX; `entries_total` counts all entries.
    `history` is None until the run was compared with an earlier one.
    """

    id: str
    kind: Kind
    ledger_id: LedgerId | None
    bookie_id: BookieId | None
    owner: Owner | None
    segment: FindingSegment | None
    entries: Ranges
    entries_total: int
    missing_on: Mapping[BookieId, Ranges]
    copies: Copies | None
    facts: RecordedFacts
    witness: str
    looks: tuple[RecordedLook, ...]
    next: tuple[str, ...]
    runbook: str
    assurance: str | None
    history: FindingHistory | None = None

    @property
    def is_on_cluster(self) -> bool:
        """Whether the finding is neither on a ledger nor on a bookie."""
        return self.ledger_id is None and self.bookie_id is None

    @property
    def entries_unnamed(self) -> int:
        """How many entries are hit beyond those that `entries` names."""
        return max(0, self.entries_total - sum(last - first + 1 for first, last in self.entries))

    @property
    def muted(self) -> Muted | None:
        """Until when the finding is muted, and why; None if it is not."""
        return self.history.muted if self.history else None

    @property
    def is_muted(self) -> bool:
        """Whether the finding does not count for the exit code."""
        return self.muted is not None

    @property
    def change(self) -> str | None:
        """What became of the finding since the run before: one of CHANGES, None if unknown."""
        return self.history.change if self.history else None

    @property
    def news_since(self) -> str | None:
        """The run since which the finding is news; None if it is not news."""
        return self.history.news_since if self.history else None

    @property
    def fields(self) -> dict[str, Any]:
        """The whole object of findings.jsonl (docs/names.md, "Fields of a finding")."""
        return self.as_json()

    def as_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object, with the fields in the documented order.

        `from_json` reads it.
        """
        return {
            "id": self.id,
            "kind": self.kind.value,
            "family": self.family.value,
            "severity": self.severity.word,
            "ledger_id": self.ledger_id,
            "bookie_id": self.bookie_id,
            "owner": self.owner and self.owner.as_json(),
            "segment": self.segment and _segment_json(self.segment),
            "entries": _ranges_json(self.entries),
            "entries_total": self.entries_total,
            "missing_on": write_ranges(self.missing_on),
            "copies": self.copies and _copies_json(self.copies),
            "facts": self.facts.values,
            "witness": self.witness,
            "looks": [look.as_json() for look in self.looks],
            "next": list(self.next),
            "runbook": self.runbook,
            "assurance": self.assurance,
            **(self.history.as_json() if self.history else {}),
        }

    def line(self) -> str:
        """Return the finding as one line of JSON: ASCII, without blanks and without a newline."""
        return json.dumps(self.as_json(), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str) -> FindingRecord:
        """Return the finding that `line` wrote."""
        return cls.from_json(json.loads(line))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> FindingRecord:
        """Return what `as_json` wrote. A field that is null or missing is read as empty.

        Raises KeyError, TypeError or ValueError for anything else.
        """
        ledger, total = stored["ledger_id"], stored.get("entries_total")
        owner, segment, copies = (stored.get(name) for name in ("owner", "segment", "copies"))
        is_traced = any(name in stored for name in HISTORY_FIELDS)
        return cls(
            id=_text(stored["id"]),
            kind=Kind(stored["kind"]),
            ledger_id=None if ledger is None else int(ledger),
            bookie_id=_text_or_none(stored["bookie_id"]),
            owner=None if owner is None else Owner.from_json(owner),
            segment=None if segment is None else _segment(segment),
            entries=_ranges(stored.get("entries") or ()),
            entries_total=0 if total is None else int(total),
            missing_on=read_ranges(stored.get("missing_on") or {}),
            copies=None if copies is None else _copies(copies),
            facts=RecordedFacts(dict(stored.get("facts") or {})),
            witness=_text(stored.get("witness") or ""),
            looks=tuple(map(RecordedLook.from_json, stored.get("looks") or ())),
            next=tuple(map(_text, stored.get("next") or ())),
            runbook=_text(stored.get("runbook") or ""),
            assurance=_text_or_none(stored.get("assurance")),
            history=FindingHistory.from_json(stored) if is_traced else None,
        )


def write_ranges(missing_on: Mapping[BookieId, Ranges]) -> dict[BookieId, list[list[EntryId]]]:
    """Return the field `missing_on`, which `read_ranges` reads."""
    return {bookie: _ranges_json(ranges) for bookie, ranges in missing_on.items()}


def read_ranges(stored: Mapping[str, Any]) -> dict[BookieId, Ranges]:
    """Return what `write_ranges` wrote. Raises TypeError or ValueError for anything else."""
    return {bookie: _ranges(ranges) for bookie, ranges in stored.items()}


def _segment_json(segment: FindingSegment) -> dict[str, Any]:
    return {
        "first_entry_id": segment.first_entry_id,
        "last_entry_id": segment.last_entry_id,
        "ensemble": list(segment.ensemble),
    }


def _segment(stored: Mapping[str, Any]) -> FindingSegment:
    first, last = int(stored["first_entry_id"]), int(stored["last_entry_id"])
    return FindingSegment(first, last, tuple(map(_text, stored["ensemble"])))


def _copies_json(copies: Copies) -> dict[str, int]:
    return {
        "write_quorum": copies.write_quorum,
        "ack_quorum": copies.ack_quorum,
        "confirmed": copies.confirmed,
        "unknown": copies.unknown,
    }


def _copies(stored: Mapping[str, Any]) -> Copies:
    names = ("write_quorum", "ack_quorum", "confirmed", "unknown")
    return Copies(*(int(stored[name]) for name in names))


def _ranges_json(ranges: Ranges) -> list[list[EntryId]]:
    return [list(pair) for pair in ranges]


def _ranges(stored: Any) -> Ranges:
    return tuple(map(_pair, stored))


def _pair(stored: Any) -> tuple[int, int]:
    first, last = stored
    return int(first), int(last)


def _text(stored: Any) -> str:
    if not isinstance(stored, str):
        raise TypeError(f"{stored!a:.40} is not a text")
    return stored


def _text_or_none(stored: Any) -> str | None:
    return None if stored is None else _text(stored)
