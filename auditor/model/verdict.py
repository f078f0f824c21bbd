"""Standings and their reasons (docs/names.md, "Standings"), and the verdict on one ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from auditor.model.finding import Finding
from auditor.model.identity import BookieId, LedgerId


class Standing(IntEnum):
    """The standing of a ledger. The worst wins; unknown never counts as sound."""

    SOUND = 0
    EXEMPT = 1
    INDETERMINATE = 2
    VIOLATED = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class Exempt(StrEnum):
    """Why a ledger is not judged, in order of precedence."""

    DELETED = "deleted"
    MARKED_UNDERREPLICATED = "marked_underreplicated"
    IN_RECOVERY = "in_recovery"
    OPEN = "open"
    EMPTY = "empty"


class Unknown(StrEnum):
    """Why a ledger could not be judged."""

    BOOKIE_SILENT = "bookie_silent"
    BOOKIE_REFUSED = "bookie_refused"
    BOOKIE_UNSUPPORTED = "bookie_unsupported"
    ANSWER_TIMEOUT = "answer_timeout"
    ANSWER_INVALID = "answer_invalid"
    ANSWER_TOO_LARGE = "answer_too_large"
    ADDRESS_UNKNOWN = "address_unknown"
    METADATA_UNREADABLE = "metadata_unreadable"
    TOPOLOGY_UNKNOWN = "topology_unknown"
    AUDITOR_LIMITED = "auditor_limited"
    UNSETTLED = "unsettled"
    POISON = "poison"
    CHECKERS_DISAGREE = "checkers_disagree"


AWAY = frozenset({Unknown.BOOKIE_SILENT, Unknown.ANSWER_TIMEOUT, Unknown.ADDRESS_UNKNOWN})
"""The reasons that a bookie gives while it is down. A wrong digest or a refusal comes from a bookie
that is up, even in maintenance."""


@dataclass(frozen=True, slots=True)
class Probes:
    """How many probes of a ledger gave a result, and how many of these were drawn at random.

    A probe is an entry that is read instead of a list.
    """

    read: int
    random: int


@dataclass(frozen=True, slots=True)
class CopyCounts:
    """The copies that a closed ledger should have, and the evidence for them.

    `listed`: a list names them. `read`: no list names them, but they were read. `assumed`: the only
    evidence is a sample of other entries. The rest is absent, unknown, a second copy on the same
    bookie, or in a segment that is not clear.
    """

    expected: int
    listed: int
    read: int
    assumed: int


@dataclass(frozen=True, slots=True)
class BookieLack:
    """How many entries of one ledger a bookie should hold, and how many it surely lacks."""

    bookie_id: BookieId
    expected: int
    absent: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The standing of one ledger, with all its reasons and findings.

    `listing_false_negatives` counts entries that a list left out and a read found. `probes` is None
    if the verdict rests on lists alone (assurance `listed`, else `probed`). `lacks` has the bookies
    that surely lack entries. `copies` is None if no bookie had to be asked. `is_mark_stale`: the
    ledger is marked, though every copy was listed or read where the metadata says.
    `only_maintenance`: the ledger could not be judged only because of bookies that are AWAY in
    planned maintenance.
    """

    ledger_id: LedgerId
    standing: Standing
    exempt: Exempt | None = None
    unknowns: tuple[Unknown, ...] = ()
    findings: tuple[Finding, ...] = ()
    listing_false_negatives: int = 0
    probes: Probes | None = None
    lacks: tuple[BookieLack, ...] = ()
    only_maintenance: bool = False
    copies: CopyCounts | None = None
    is_mark_stale: bool = False

    def __post_init__(self) -> None:
        assert (self.standing is Standing.VIOLATED) == any(f.severity > 1 for f in self.findings), (
            self
        )
        assert self.standing is not Standing.SOUND or (not self.unknowns and self.exempt is None), (
            self
        )
        assert self.standing is not Standing.EXEMPT or self.exempt is not None, self


JUDGED = (Standing.SOUND, Standing.VIOLATED)
"""The standings of ledgers whose copies are counted."""
COPIES_MAX = 2**53
"""Each count of one ledger is at most this: its metadata may claim 2^63 entries."""
_RATIO_STEPS = 10**6
"""Ratios are rounded down to a multiple of 1 / _RATIO_STEPS: a ratio below 1 never becomes 1."""


def cap_copies(counts: CopyCounts) -> CopyCounts:
    """Return the counts, each at most COPIES_MAX."""
    values = (counts.expected, counts.listed, counts.read, counts.assumed)
    return CopyCounts(*(min(count, COPIES_MAX) for count in values))


def verified_ratio(counts: CopyCounts) -> float | None:
    """Return the share of the copies that were listed or read; None if no copy is expected."""
    verified = counts.listed + counts.read
    return verified * _RATIO_STEPS // counts.expected / _RATIO_STEPS if counts.expected else None


def copies_of_ledgers(verdicts: Iterable[Verdict]) -> CopyCounts:
    """Return the copies of a few ledgers, counted like those of a run."""
    counted = [
        cap_copies(verdict.copies)
        for verdict in verdicts
        if verdict.copies is not None and verdict.standing in JUDGED
    ]
    return CopyCounts(
        sum(counts.expected for counts in counted),
        sum(counts.listed for counts in counted),
        sum(counts.read for counts in counted),
        sum(counts.assumed for counts in counted),
    )
