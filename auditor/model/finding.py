"""The catalogue of finding kinds (docs/names.md, "Kinds"), and a finding as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from auditor.model.facts import Facts
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import Segment


class Severity(IntEnum):
    """How bad a finding is. Worse severities are greater."""

    INFO = 1
    WARNING = 2
    CRITICAL = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class Family(StrEnum):
    """Groups of kinds. Each (ledger, family) has at most one finding, of the strongest kind.

    PLACEMENT has at most one for each segment. LEDGER_CLOSED_SHORT is about entries that the
    metadata does not promise. It may stand beside a finding on entries that the metadata promises.
    CLOSED_METADATA_CHANGED is about an earlier run, and may stand beside a finding on the metadata.
    """

    ENTRY = "entry"
    PLACEMENT = "placement"
    MARK = "mark"
    BOOKIE = "bookie"
    METADATA = "metadata"
    REFERENCE = "reference"
    DISK = "disk"
    COOKIE = "cookie"


class Subject(StrEnum):
    """What a finding is about.

    Findings on a bookie or the cluster, and those of a kind in BESIDE_VERDICTS, change the outcome,
    never a ledger's standing.
    """

    LEDGER = "ledger"
    BOOKIE = "bookie"
    CLUSTER = "cluster"


class Kind(StrEnum):
    """Every kind this version can find. Within a family, ledger kinds go from strong to weak."""

    ENTRY_WITHOUT_REPLICA = "ENTRY_WITHOUT_REPLICA"
    ENTRY_ONLY_OUTSIDE_ENSEMBLE = "ENTRY_ONLY_OUTSIDE_ENSEMBLE"
    LEDGER_CLOSED_SHORT = "LEDGER_CLOSED_SHORT"
    ENTRY_UNAVAILABLE = "ENTRY_UNAVAILABLE"
    ENTRY_BELOW_ACK_QUORUM = "ENTRY_BELOW_ACK_QUORUM"
    ENTRY_CORRUPT = "ENTRY_CORRUPT"
    ENTRY_BELOW_WRITE_QUORUM = "ENTRY_BELOW_WRITE_QUORUM"
    ENSEMBLE_DUPLICATE_BOOKIE = "ENSEMBLE_DUPLICATE_BOOKIE"
    PLACEMENT_FAILED = "PLACEMENT_FAILED"
    PLACEMENT_SOFT = "PLACEMENT_SOFT"
    UNDERREPLICATED_UNRECOVERABLE = "UNDERREPLICATED_UNRECOVERABLE"
    UNDERREPLICATED_BEYOND_GRACE = "UNDERREPLICATED_BEYOND_GRACE"
    MARK_WITHOUT_LEDGER = "MARK_WITHOUT_LEDGER"
    BOOKIE_LOST_UNNOTICED = "BOOKIE_LOST_UNNOTICED"
    BOOKIE_LOST_CONTENT = "BOOKIE_LOST_CONTENT"
    ENTRY_LOG_LOST = "ENTRY_LOG_LOST"
    BOOKIE_UNREADABLE_ENTRIES = "BOOKIE_UNREADABLE_ENTRIES"
    BOOKIE_SILENT_YET_REGISTERED = "BOOKIE_SILENT_YET_REGISTERED"
    BOOKIE_FAILING_REQUESTS = "BOOKIE_FAILING_REQUESTS"
    BOOKIE_DISK_SHRANK = "BOOKIE_DISK_SHRANK"
    COOKIE_OF_ANOTHER_INSTANCE = "COOKIE_OF_ANOTHER_INSTANCE"
    LEDGER_POPULATION_DROPPED = "LEDGER_POPULATION_DROPPED"
    VERIFICATION_OVERDUE = "VERIFICATION_OVERDUE"
    CLOSED_METADATA_CHANGED = "CLOSED_METADATA_CHANGED"
    METADATA_MALFORMED = "METADATA_MALFORMED"
    RECOVERY_BLOCKED = "RECOVERY_BLOCKED"
    LEDGER_STUCK = "LEDGER_STUCK"
    ENTRIES_BEYOND_END = "ENTRIES_BEYOND_END"
    REFERENCED_LEDGER_MISSING = "REFERENCED_LEDGER_MISSING"
    NEWEST_LEDGER_MISSING = "NEWEST_LEDGER_MISSING"
    LEDGER_TRUNCATED = "LEDGER_TRUNCATED"
    LEDGER_DROPPED_FROM_TOPIC = "LEDGER_DROPPED_FROM_TOPIC"
    POSITION_BEYOND_END = "POSITION_BEYOND_END"
    LEDGER_ORPHANED = "LEDGER_ORPHANED"


CAUSE_LEDGERS_MIN = 3
"""Minimum number of ledgers that a common cause explains (`auditor.after.causes`). Fewer are
listed one by one.
"""


@dataclass(frozen=True, slots=True)
class KindFacts:
    """What all findings of a kind have in common. `says` is one line for a person."""

    severity: Severity
    family: Family
    subject: Subject
    says: str


CATALOGUE: dict[Kind, KindFacts] = {
    Kind.ENTRY_WITHOUT_REPLICA: KindFacts(
        Severity.CRITICAL,
        Family.ENTRY,
        Subject.LEDGER,
        "an entry has no copy where the metadata says: each bookie of its write set answered"
        " without it or is gone",
    ),
    Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE: KindFacts(
        Severity.CRITICAL,
        Family.ENTRY,
        Subject.LEDGER,
        "an entry has no copy where metadata says, and is alive on a bookie that metadata does not"
        " name: it will be collected",
    ),
    Kind.LEDGER_CLOSED_SHORT: KindFacts(
        Severity.CRITICAL,
        Family.ENTRY,
        Subject.LEDGER,
        "the metadata ends before entries that the writer knew to be acknowledged: the header of an"
        " entry above lastEntryId proves it",
    ),
    Kind.ENTRY_UNAVAILABLE: KindFacts(
        Severity.CRITICAL,
        Family.ENTRY,
        Subject.LEDGER,
        "an entry cannot be read now: each bookie of its write set is not registered, lacks it or"
        " fails to read it, at two looks",
    ),
    Kind.ENTRY_BELOW_ACK_QUORUM: KindFacts(
        Severity.CRITICAL,
        Family.ENTRY,
        Subject.LEDGER,
        "fewer copies than the ack quorum can exist, even if every bookie that gave no valid answer"
        " holds one",
    ),
    Kind.ENTRY_CORRUPT: KindFacts(
        Severity.CRITICAL,
        Family.ENTRY,
        Subject.LEDGER,
        "a stored copy of an entry does not match its own digest, read twice",
    ),
    Kind.ENTRY_BELOW_WRITE_QUORUM: KindFacts(
        Severity.WARNING,
        Family.ENTRY,
        Subject.LEDGER,
        "fewer copies than the write quorum can exist, even if every bookie that gave no valid"
        " answer holds one",
    ),
    Kind.ENSEMBLE_DUPLICATE_BOOKIE: KindFacts(
        Severity.WARNING,
        Family.PLACEMENT,
        Subject.LEDGER,
        "one bookie stands twice in an ensemble: two copies in metadata are one on disk",
    ),
    Kind.PLACEMENT_FAILED: KindFacts(
        Severity.WARNING,
        Family.PLACEMENT,
        Subject.LEDGER,
        "a segment's ensemble does not adhere to the placement policy",
    ),
    Kind.PLACEMENT_SOFT: KindFacts(
        Severity.INFO,
        Family.PLACEMENT,
        Subject.LEDGER,
        "a segment's ensemble adheres to the placement policy only softly",
    ),
    Kind.UNDERREPLICATED_UNRECOVERABLE: KindFacts(
        Severity.CRITICAL,
        Family.MARK,
        Subject.LEDGER,
        "marked under-replicated, and an entry has no copy where the metadata says: each bookie of"
        " its write set answered without it or is gone",
    ),
    Kind.UNDERREPLICATED_BEYOND_GRACE: KindFacts(
        Severity.WARNING,
        Family.MARK,
        Subject.LEDGER,
        "marked under-replicated for longer than acceptable",
    ),
    Kind.MARK_WITHOUT_LEDGER: KindFacts(
        Severity.WARNING,
        Family.MARK,
        Subject.CLUSTER,
        "marked under-replicated for longer than acceptable, and the ledger has no metadata:"
        " nothing can replicate it",
    ),
    Kind.BOOKIE_LOST_UNNOTICED: KindFacts(
        Severity.CRITICAL,
        Family.BOOKIE,
        Subject.BOOKIE,
        "not registered, and closed ledgers that name it were not marked under-replicated at any"
        " look",
    ),
    Kind.BOOKIE_LOST_CONTENT: KindFacts(
        Severity.CRITICAL,
        Family.BOOKIE,
        Subject.BOOKIE,
        "answers, and lacks most of what it should hold",
    ),
    Kind.ENTRY_LOG_LOST: KindFacts(
        Severity.CRITICAL,
        Family.BOOKIE,
        Subject.BOOKIE,
        "its index names an entry log that is not on its disk, in two fresh views at each of two"
        " looks",
    ),
    Kind.BOOKIE_UNREADABLE_ENTRIES: KindFacts(
        Severity.CRITICAL,
        Family.BOOKIE,
        Subject.BOOKIE,
        "answers, and cannot send entries that it lists or should hold: their reads ended in an"
        " error of its own or a wrong digest, at two looks",
    ),
    Kind.BOOKIE_SILENT_YET_REGISTERED: KindFacts(
        Severity.WARNING,
        Family.BOOKIE,
        Subject.BOOKIE,
        "registered in the metadata service, yet silent at every look",
    ),
    Kind.BOOKIE_FAILING_REQUESTS: KindFacts(
        Severity.WARNING,
        Family.BOOKIE,
        Subject.BOOKIE,
        "registered, accepts connections, and ends every list and read of what it should hold in an"
        " error status",
    ),
    Kind.BOOKIE_DISK_SHRANK: KindFacts(
        Severity.WARNING,
        Family.DISK,
        Subject.BOOKIE,
        "its ledger directories have a smaller total size, or its cookie names fewer of them, than"
        " an earlier run saw",
    ),
    Kind.COOKIE_OF_ANOTHER_INSTANCE: KindFacts(
        Severity.WARNING,
        Family.COOKIE,
        Subject.BOOKIE,
        "its cookie names another instance id than the cluster's: it will not start again",
    ),
    Kind.LEDGER_POPULATION_DROPPED: KindFacts(
        Severity.CRITICAL,
        Family.METADATA,
        Subject.CLUSTER,
        "far fewer ledgers are listed than at an earlier run: bookies will collect the data of"
        " those that are gone",
    ),
    Kind.VERIFICATION_OVERDUE: KindFacts(
        Severity.WARNING,
        Family.BOOKIE,
        Subject.CLUSTER,
        "copies were not read with their digests within the period: damage to them would not be"
        " seen",
    ),
    Kind.CLOSED_METADATA_CHANGED: KindFacts(
        Severity.CRITICAL,
        Family.METADATA,
        Subject.LEDGER,
        "the metadata of a closed ledger is not what an earlier run stored: something other than"
        " its ensembles changed",
    ),
    Kind.METADATA_MALFORMED: KindFacts(
        Severity.WARNING,
        Family.METADATA,
        Subject.LEDGER,
        "metadata, read twice alike, that cannot be decoded or contradicts itself",
    ),
    Kind.RECOVERY_BLOCKED: KindFacts(
        Severity.WARNING,
        Family.METADATA,
        Subject.LEDGER,
        "in recovery, and too many bookies of a write set are unknown for it to succeed, at two"
        " looks: no client can open the ledger",
    ),
    Kind.LEDGER_STUCK: KindFacts(
        Severity.INFO,
        Family.METADATA,
        Subject.LEDGER,
        "open or in recovery for longer than is usual",
    ),
    Kind.ENTRIES_BEYOND_END: KindFacts(
        Severity.INFO,
        Family.METADATA,
        Subject.LEDGER,
        "bookies hold entries above lastEntryId, and no header proves that one of them was"
        " acknowledged",
    ),
    Kind.REFERENCED_LEDGER_MISSING: KindFacts(
        Severity.CRITICAL,
        Family.REFERENCE,
        Subject.LEDGER,
        "a Pulsar topic, cursor or schema references a ledger that has no metadata",
    ),
    Kind.NEWEST_LEDGER_MISSING: KindFacts(
        Severity.CRITICAL,
        Family.REFERENCE,
        Subject.LEDGER,
        "the newest ledger of a Pulsar topic has no metadata; what it held was not recorded, and"
        " the next load drops it",
    ),
    Kind.LEDGER_TRUNCATED: KindFacts(
        Severity.CRITICAL,
        Family.REFERENCE,
        Subject.LEDGER,
        "the metadata ends before the entries that a Pulsar topic recorded when it closed the"
        " ledger",
    ),
    Kind.LEDGER_DROPPED_FROM_TOPIC: KindFacts(
        Severity.CRITICAL,
        Family.REFERENCE,
        Subject.LEDGER,
        "a Pulsar topic's list lost a ledger from behind others that it still has; a broker trims"
        " from the front",
    ),
    Kind.POSITION_BEYOND_END: KindFacts(
        Severity.WARNING,
        Family.REFERENCE,
        Subject.LEDGER,
        "a subscription of a Pulsar topic has acknowledged entries above the end of a closed"
        " ledger",
    ),
    Kind.LEDGER_ORPHANED: KindFacts(
        Severity.INFO,
        Family.REFERENCE,
        Subject.CLUSTER,
        "ledgers that Pulsar wrote long ago, and that no topic references",
    ),
}

MATCHED_BY_KIND = frozenset({Kind.CLOSED_METADATA_CHANGED})
"""Kinds on ledgers that may stand beside another of their family. Findings are matched by ledger
and family, and those of these kinds by kind too."""

BESIDE_VERDICTS = MATCHED_BY_KIND | {
    kind
    for kind, facts in CATALOGUE.items()
    if facts.subject is Subject.LEDGER and facts.family is Family.REFERENCE
}
"""Kinds on ledgers that are found beside the verdicts, from topics or from an earlier run. They
change the outcome, never a ledger's standing, and are found once."""

RANGES_MAX = 20
"""At most this many entry ranges are shown for a finding, and for each bookie in it; the rest is
counted."""


@dataclass(frozen=True, slots=True)
class FindingSegment:
    """The segment a finding is about, with its last entry, which metadata leaves implicit."""

    first_entry_id: EntryId
    last_entry_id: EntryId
    ensemble: tuple[BookieId, ...]

    @classmethod
    def of(cls, segment: Segment, last_entry_id: EntryId) -> FindingSegment:
        return cls(segment.first_entry_id, last_entry_id, segment.ensemble)


@dataclass(frozen=True, slots=True)
class Copies:
    """How many copies the worst entry should have, how many are confirmed, how many are unknown."""

    write_quorum: int
    ack_quorum: int
    confirmed: int
    unknown: int


Ranges = tuple[tuple[EntryId, EntryId], ...]
"""Inclusive ranges, ascending, disjoint."""


class OfKind:
    """What a finding has by its kind, whatever else is known of it."""

    __slots__ = ()
    kind: Kind

    @property
    def severity(self) -> Severity:
        """How bad its kind is."""
        return CATALOGUE[self.kind].severity

    @property
    def family(self) -> Family:
        """The family of its kind."""
        return CATALOGUE[self.kind].family


@dataclass(frozen=True, slots=True)
class Finding(OfKind):
    """One violation: a value, never an exception. The witness is rendered from `facts`."""

    kind: Kind
    facts: Facts
    ledger_id: LedgerId | None = None
    bookie_id: BookieId | None = None
    segment: FindingSegment | None = None
    entries: Ranges = ()
    entries_total: int = 0
    missing_on: tuple[tuple[BookieId, Ranges], ...] = ()
    copies: Copies | None = None
