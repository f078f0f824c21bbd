"""The contents of report.html: plain values, read from a finished run by `commands.page`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auditor.after.differences import Difference
from auditor.after.margin_text import Cluster, MarginBasis
from auditor.model.cluster import BookieRecord
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.summary import Summary, TopicLine


@dataclass(frozen=True, slots=True)
class Lacking:
    """In how many ledgers a bookie surely lacks entries, and how many entries that is."""

    ledgers: int
    entries: int


@dataclass(frozen=True, slots=True)
class BookieSeen:
    """A bookie as it was at the newest look that has it. `location` is None if it is not known."""

    record: BookieRecord
    location: str | None
    lacking: Lacking

    @property
    def bookie_id(self) -> BookieId:
        return self.record.bookie_id


@dataclass(frozen=True, slots=True)
class PastRun:
    """The numbers of one finished run of the cluster. `started_at` is RFC 3339 in UTC.

    `findings` counts them by the word of their severity.
    """

    run_id: str
    started_at: str
    violated: int
    indeterminate: int
    verified_ratio: float | None
    """None if no copy was expected, or for a version that did not count copies."""
    findings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RackCopies:
    """How many copies closed ledgers promise on the bookies of a location, and how many of them the
    run confirms. `location` is None for bookies whose location is not known.
    """

    location: str | None
    bookies: int
    promised: int
    confirmed: int


@dataclass(frozen=True, slots=True)
class NamespaceBytes:
    """The bytes that closed ledgers of a namespace record as their lengths, and how many of them
    are in ledgers in violation and in ledgers that were not judged. `name` is "" for ledgers of no
    namespace.
    """

    name: str
    total: int
    violated: int
    unjudged: int


@dataclass(frozen=True, slots=True)
class MarginSeen:
    """What more may fail, from what the run stored, and the evidence for it. `racks` has the copies
    by location.
    """

    basis: MarginBasis
    cluster: Cluster
    racks: Sequence[RackCopies] = ()


@dataclass(frozen=True, slots=True)
class ChangesSeen:
    """What became of each finding since an earlier run, which began at `started_at` (RFC 3339)."""

    run_id: str
    started_at: str
    notes: tuple[str, ...]
    differences: Sequence[Difference]


@dataclass(frozen=True, slots=True)
class PageContents:
    """All that the page shows. `report` is report.txt.

    `bookies`, `topics`, `history`, `margin`, `changes`, `namespaces` and `grace_ms` are None if
    they could not be read or do not exist. `topics` has the lines of topics.jsonl, `history` the
    runs from the oldest to this one. `grace_ms` is the age up to which a mark is not a finding.
    `problems` are sentences on what could not be read. `runbooks` is the address of the site
    with the page on each kind; None if there is none.
    """

    summary: Summary
    findings: Sequence[FindingRecord]
    report: str
    run_dir: str
    bookies: Sequence[BookieSeen] | None = None
    topics: Sequence[TopicLine] | None = None
    history: Sequence[PastRun] | None = None
    margin: MarginSeen | None = None
    changes: ChangesSeen | None = None
    namespaces: Sequence[NamespaceBytes] | None = None
    grace_ms: int | None = None
    problems: tuple[str, ...] = ()
    runbooks: str | None = None
