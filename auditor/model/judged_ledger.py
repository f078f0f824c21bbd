"""A ledger as `auditor ledger` and `auditor topic` report it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditor.model.codec import Part, encode
from auditor.model.finding_record import Owner, RecordedLook
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.verdict import CopyCounts, Exempt, Unknown

NO_SUCH_LEDGER = "no_such_ledger"
"""The standing of a ledger that no look found."""


@dataclass(frozen=True, slots=True)
class ShownSegment:
    """A segment: its first entry and its ensemble."""

    first_entry_id: EntryId
    ensemble: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True)
class ShownMetadata:
    """The metadata of a ledger as it was read last."""

    state: str
    format_version: int
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    last_entry_id: EntryId | None
    segments: tuple[ShownSegment, ...]


@dataclass(frozen=True, slots=True)
class JudgedLedger(Part):
    """A ledger with its standing, reasons and metadata, and the answers at each look.

    `gone` are the bookies with neither a registration nor a cookie. `listed_by` has the address of
    the lister of each bookie that one listed for. `odd_lists` says of bookies why their newest list
    cannot be used, or what is odd about it. `unindexed` has the lowest entry that a bookie sends
    although its index lost it.
    """

    ledger_id: LedgerId
    standing: str
    exempt: Exempt | None = None
    unknowns: tuple[Unknown, ...] = ()
    metadata: ShownMetadata | None = None
    owner: Owner | None = None
    looks: tuple[RecordedLook, ...] = ()
    listing_false_negatives: int = 0
    gone: tuple[BookieId, ...] = ()
    listed_by: Mapping[BookieId, str] = field(default_factory=dict)
    odd_lists: Mapping[BookieId, str] = field(default_factory=dict)
    unindexed: Mapping[BookieId, EntryId] = field(default_factory=dict)
    assurance: str | None = None
    probes: int = 0
    random_probes: int = 0
    copies: CopyCounts | None = None
    only_maintenance: bool = False
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the ledger as an item of `ledgers` in the output."""
        written: dict[str, Any] = encode(self)
        if self.has("looks"):
            written["looks"] = [look.as_json() for look in self.looks]
        return written
