"""A finding as far as it is compared with that of another run: what it is on, and how far it
reaches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from auditor.model.finding import MATCHED_BY_KIND, Family, Kind, OfKind, Ranges
from auditor.model.finding_record import (
    FindingRecord,
    Owner,
    RecordedFacts,
    read_ranges,
    write_ranges,
)
from auditor.model.identity import BookieId, EntryId, LedgerId

_LOOKED_UP = frozenset({Kind.ENTRY_CORRUPT, Kind.CLOSED_METADATA_CHANGED})


class Subjects(NamedTuple):
    """The key by which findings are matched. Both ids are None for a finding on the cluster.

    Findings on bookies and the cluster, and those of MATCHED_BY_KIND, are matched by kind too: no
    kind is a weaker form of another.
    """

    ledger_id: LedgerId | None
    bookie_id: BookieId | None
    family: Family
    kind: Kind | None = None


Key = tuple[Subjects, EntryId | None]
"""The key by which a later finding is matched: placement has one finding for each segment."""


@dataclass(frozen=True, slots=True)
class ComparedFinding(OfKind):
    """The part of a finding that is compared. A whole record takes some 6 kB of memory.

    `first_entry_id` is that of its segment. `missing_on` has ranges of entries that each bookie
    lacks; None where an earlier version did not store them. `facts` is None for a finding whose
    facts are not compared.
    """

    id: str
    kind: Kind
    ledger_id: LedgerId | None
    bookie_id: BookieId | None
    owner: Owner | None
    entries_total: int
    assurance: str | None
    missing_on: Mapping[BookieId, Ranges] | None
    first_entry_id: EntryId | None
    facts: RecordedFacts | None

    @property
    def subjects(self) -> Subjects:
        """What the finding is matched by within one pair of runs."""
        is_by_kind = self.ledger_id is None or self.kind in MATCHED_BY_KIND
        kind = self.kind if is_by_kind else None
        return Subjects(self.ledger_id, self.bookie_id, self.family, kind)

    @property
    def key(self) -> Key:
        """What the finding is matched by over runs."""
        is_of_segment = self.family is Family.PLACEMENT
        return self.subjects, self.first_entry_id if is_of_segment else None

    @property
    def extent(self) -> int:
        """How far the finding reaches: how many entries are hit. For a finding on the cluster it is
        what its facts count: marks, ledgers or bookies.
        """
        facts = self.facts or RecordedFacts()
        if self.kind is Kind.MARK_WITHOUT_LEDGER:
            return facts.count("marks")
        if self.kind is Kind.LEDGER_ORPHANED:
            return facts.count("ledgers")
        if self.kind is Kind.VERIFICATION_OVERDUE:
            return facts.count("bookies")
        if self.kind is Kind.LEDGER_POPULATION_DROPPED:
            return facts.count("previous_ledgers") - facts.count("ledgers")
        return self.entries_total

    @property
    def baseline(self) -> str | None:
        """The run whose number of ledgers this finding's run was compared with."""
        return self.facts.baseline if self.facts else None

    @classmethod
    def of(cls, finding: FindingRecord) -> ComparedFinding:
        """Return the part of a finding that is compared."""
        # The facts of findings on the cluster have their extent. What those of the other kinds say
        # is looked up again.
        needs_facts = finding.is_on_cluster or finding.kind in _LOOKED_UP
        return cls(
            finding.id,
            finding.kind,
            finding.ledger_id,
            finding.bookie_id,
            finding.owner,
            finding.entries_total,
            finding.assurance,
            finding.missing_on,
            finding.segment.first_entry_id if finding.segment else None,
            finding.facts if needs_facts else None,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object, which `from_json` reads."""
        segment, lacking = self.first_entry_id, self.missing_on
        written: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind.value,
            "family": self.family.value,
            "severity": self.severity.word,
            "ledger_id": self.ledger_id,
            "bookie_id": self.bookie_id,
            "owner": self.owner and self.owner.as_json(),
            "entries_total": self.entries_total,
            "assurance": self.assurance,
            "missing_on": None if lacking is None else write_ranges(lacking),
            "segment": None if segment is None else {"first_entry_id": segment},
        }
        return written | ({} if self.facts is None else {"facts": self.facts.values})

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ComparedFinding:
        """Return what `as_json` wrote. Raises KeyError, TypeError or ValueError for anything
        else.
        """
        ledger, bookie, owner = stored["ledger_id"], stored["bookie_id"], stored.get("owner")
        lacking, segment, facts = (stored.get(name) for name in ("missing_on", "segment", "facts"))
        return cls(
            str(stored["id"]),
            Kind(stored["kind"]),
            None if ledger is None else int(ledger),
            None if bookie is None else str(bookie),
            Owner.from_json(owner) if owner else None,
            int(stored.get("entries_total") or 0),
            stored.get("assurance"),
            None if lacking is None else read_ranges(lacking),
            int(segment["first_entry_id"]) if segment else None,
            RecordedFacts(dict(facts)) if facts is not None else None,
        )
