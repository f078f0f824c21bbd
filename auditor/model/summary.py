"""The summary of a run, with a class for each object of summary.json.

`Summary` is the whole file. docs/names.md, "summary.json", says what each of its fields means, in
the order in which they are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import nan
from typing import Any

from auditor.model.cluster import ClusterFacts
from auditor.model.codec import Part, decode, encode, field_named
from auditor.model.finding import CATALOGUE, Kind, Subject
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.verdict import CopyCounts, Exempt, Standing, Unknown


@dataclass(frozen=True, slots=True)
class ClusterName(Part):
    """What identifies a cluster. Without an instance id, root and hosts do."""

    metadata_service_uri: str = ""
    instance_id: str | None = None
    root: str | None = None
    hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, facts: ClusterFacts) -> ClusterName:
        """Return what identifies a cluster."""
        return cls(facts.metadata_service_uri, facts.instance_id, facts.root, facts.hosts)


@dataclass(frozen=True, slots=True)
class LedgerCounts:
    """How many ledgers were listed, and how many of them have each standing."""

    listed: int
    sound: int
    exempt: int
    indeterminate: int
    violated: int

    def of(self, standing: Standing) -> int:
        """Return how many ledgers have a standing."""
        by_standing = {
            Standing.SOUND: self.sound,
            Standing.EXEMPT: self.exempt,
            Standing.INDETERMINATE: self.indeterminate,
            Standing.VIOLATED: self.violated,
        }
        return by_standing[standing]


@dataclass(frozen=True, slots=True)
class KindCounts:
    """The ledgers and bookies that have findings of a kind, and its findings."""

    ledgers: int = 0
    bookies: int = 0
    findings: int = 0


@dataclass(frozen=True, slots=True)
class SeverityCounts:
    """The findings of a severity, and the ledgers and bookies whose worst finding has it.

    `cluster` is 1 if the worst finding on the cluster as a whole has it, else 0.
    """

    findings: int = 0
    ledgers: int = 0
    bookies: int = 0
    cluster: int = 0


@dataclass(frozen=True, slots=True)
class BookieCounts(Part):
    """Counts of bookies, each as of the last look at it."""

    registered: int
    readonly: int
    named_by_ledgers: int
    answered: int
    silent: int
    refused: int
    unsupported: int
    listed_by_lister: int = 0
    away: int = 0
    gone: int = 0


@dataclass(frozen=True, slots=True)
class BookieDetail:
    """A bookie, and what its lister said."""

    bookie_id: BookieId
    detail: str


@dataclass(frozen=True, slots=True)
class UnindexedBookie:
    """A bookie that sends entries which its index lost: how many ledgers, and some of them."""

    bookie_id: BookieId
    ledgers: int
    some: tuple[tuple[LedgerId, EntryId], ...]


@dataclass(frozen=True, slots=True)
class Listers(Part):
    """The bookies with a lister: how many it listed for, whose gave no list, and what is odd."""

    listed: int = 0
    silent: tuple[BookieDetail, ...] = ()
    not_believed: tuple[BookieDetail, ...] = ()
    unindexed: tuple[UnindexedBookie, ...] = ()


@dataclass(frozen=True, slots=True)
class BookieInMaintenance:
    """A bookie in planned maintenance, and how it was found."""

    bookie_id: BookieId
    found: str


@dataclass(frozen=True, slots=True)
class Maintenance(Part):
    """The bookies in planned maintenance, and the ledgers that nothing else kept from being
    judged.
    """

    bookies: tuple[BookieInMaintenance, ...] = ()
    ledgers: int = 0

    @property
    def bookie_ids(self) -> frozenset[BookieId]:
        """The bookies by id."""
        return frozenset(bookie.bookie_id for bookie in self.bookies)


@dataclass(frozen=True, slots=True)
class PlacementJudged(Part):
    """The placement policy of the judgement, and the bookies without a location."""

    policy: str
    compat: str
    without_location: int = 0
    bookies_without_location: tuple[BookieId, ...] = ()


@dataclass(frozen=True, slots=True)
class Assurance(Part):
    """What verdicts rest on: lists, or entries that were read instead.

    `missing_bound` is None where no bound can be given.
    """

    listed: int = 0
    probed: int = 0
    probes: int = 0
    random_probes: int = 0
    missing_bound: float | None = None
    probe_entries: int = 0
    bookies_unable: tuple[BookieId, ...] = ()


@dataclass(frozen=True, slots=True)
class Chances:
    """The probability with which a run of so many lost entries was found, by their number."""

    by_length: Mapping[str, float]

    def of(self, length: int) -> float:
        """Return the probability for a run of so many entries; NaN where it is not stored."""
        return float(self.by_length.get(str(length), nan))

    @property
    def of_one_entry(self) -> float:
        """The probability for a single entry. 1.0: every entry was read."""
        return self.of(1)


@dataclass(frozen=True, slots=True)
class Together(Part):
    """The runs of a sweep since `since`, and what all of them together find."""

    runs: int = 0
    since: str = ""
    bounds: Mapping[str, float] = field(default_factory=dict)

    @property
    def chances(self) -> Chances:
        """The probabilities of `bounds`."""
        return Chances(self.bounds)


@dataclass(frozen=True, slots=True)
class SweepSpan:
    """Consecutive runs of a series that read one of `step` entries, and since when."""

    step: int
    first_turn: int
    last_turn: int
    runs: int
    since: str


@dataclass(frozen=True, slots=True)
class SweepSeries:
    """The sweeps of successive runs, from which the next run continues."""

    seed: int
    next_turn: int
    copies: float
    spans: tuple[SweepSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling(Part):
    """How sure a loss was found on bookies that cannot list: by this run, and by all since.

    `bounds` is None where no entry was read by rank, `accumulated` where no run counts.
    """

    budget: int = 0
    step: int | None = None
    bounds: Mapping[str, float] | None = None
    accumulated: Together | None = None
    series: SweepSeries | None = None

    @property
    def alone(self) -> Chances | None:
        """The probabilities of this run."""
        return None if self.bounds is None else Chances(self.bounds)


class VerifiedBy(StrEnum):
    """What reads the copies of a bookie within the period."""

    READS = "reads"
    """The reads of runs: the bookie lists."""
    SCRUB = "scrub"
    """Its lister, in the order of the entry logs."""
    SAMPLE = "sample"
    """A sweep of the runs: the bookie cannot list. Its copies are not counted by age."""
    NOTHING = "nothing"
    """Its lister lists, and does not scrub; or no read of it is known."""
    UNANSWERED = "unanswered"
    """The run got no answer from it, or to less than half of the reads of its arc, or too many
    places would be kept apart. What reads it is not known, or the same arc is read again."""


@dataclass(frozen=True, slots=True)
class CopiesByAge:
    """The copies that bookies should hold, by how long before the run they were last read.

    `never`: not read since the ledger's metadata changed, as
    far as is known. `oldest`: when the copy was read that was read longest ago, and at all (RFC
    3339, UTC).
    """

    copies: int = 0
    within_day: int = 0
    within_week: int = 0
    within_period: int = 0
    never: int = 0
    overdue: int = 0
    oldest: str | None = None


@dataclass(frozen=True, slots=True)
class VerifiedBookie:
    """A bookie, what of its circle was read when, and how old that makes its copies.

    `arcs` has the first place of each arc, its length, and when the run began (ms since 1970), the
    oldest first. `since`: when the first run began that is known here. `counts` is None where the
    run did not count. `rate_needed`: bytes a second to read all within the period; None where reads
    cannot do it. `unanswered`: places whose last read was not answered, since when that is, and
    when they were read before (ms since 1970; 0 for never). `last_read_ms`: when the last run began
    whose reads are in the newest arc; 0 if the arc says it.
    """

    bookie_id: BookieId
    verified_by: VerifiedBy
    since: str
    arcs: tuple[tuple[int, int, int], ...] = ()
    counts: CopiesByAge | None = None
    rate_needed: int | None = None
    unanswered: tuple[tuple[int, int, int], ...] = ()
    last_read_ms: int = 0


@dataclass(frozen=True, slots=True)
class Verification(Part):
    """How old the newest reads of all copies are, in total and by bookie.

    `counts` is over the registered bookies outside maintenance. It is None in a run that does not
    count.
    """

    seed: int
    period_ms: int
    bytes_per_second: int
    counts: CopiesByAge | None = None
    bookies: tuple[VerifiedBookie, ...] = ()
    way: int = 1
    """How the places of copies are drawn (`auditor.first_checker.circle`)."""


@dataclass(frozen=True, slots=True)
class UnregisteredBookie:
    """A bookie that is not registered, and since when (RFC 3339, UTC)."""

    bookie_id: BookieId
    since: str


@dataclass(frozen=True, slots=True)
class RunName:
    """An earlier run, and when it began (RFC 3339, UTC)."""

    run_id: str
    started_at: str


@dataclass(frozen=True, slots=True)
class BookieSpace:
    """A bookie, its location (None: not known), and the size and free bytes of its disks."""

    bookie_id: BookieId
    location: str | None
    total_bytes: int
    free_bytes: int

    @property
    def used_bytes(self) -> int:
        """The bytes that are not free."""
        return self.total_bytes - self.free_bytes


@dataclass(frozen=True, slots=True)
class RackSpace:
    """The disks of the bookies at a location, added up. None: their location is not known."""

    location: str | None
    bookies: int
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class BookieGrowth:
    """How many bytes more a bookie uses than at an earlier run; negative if it uses fewer."""

    bookie_id: BookieId
    used_bytes: int


@dataclass(frozen=True, slots=True)
class SpaceGrowth:
    """How many bytes more are used than at an earlier run, on the bookies that both runs know.

    `most` are the bookies that grew most.
    """

    since: RunName
    bookies: int
    used_bytes: int
    most: tuple[BookieGrowth, ...] = ()


@dataclass(frozen=True, slots=True)
class Space(Part):
    """How full the disks of the registered bookies are.

    `bookies` said it, `unknown` did not. `sharing_hosts` of them are on a host with another bookie:
    they may share disks, which the sums then count more than once. `growth` is None without an
    earlier run to compare with.
    """

    bookies: int = 0
    unknown: int = 0
    sharing_hosts: int = 0
    total_bytes: int = 0
    free_bytes: int = 0
    fullest: tuple[BookieSpace, ...] = ()
    racks: tuple[RackSpace, ...] = ()
    growth: SpaceGrowth | None = None

    @property
    def used_bytes(self) -> int:
        """The bytes that are not free."""
        return self.total_bytes - self.free_bytes


@dataclass(frozen=True, slots=True)
class RenamedBookie:
    """A bookie that is not registered, and probably there under another name."""

    bookie_id: BookieId
    renamed_to: BookieId
    ledgers: tuple[LedgerId, ...]


@dataclass(frozen=True, slots=True)
class OrphanGrowth:
    """How many more orphans there are than at an earlier run, and bytes in all their copies."""

    since: RunName
    ledgers: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class References(Part):
    """What Pulsar's topics reference, and what is wrong with it.

    `unread` counts what is not read of topics, by the names of `Unread`. `orphaned_bytes` and
    `orphaned_without_length` (orphans that are not closed, whose bytes are unknown) are None where
    an earlier version did not count them. `orphaned_growth` is None without an earlier run.
    """

    topics: int = 0
    cursors: int = 0
    schemas: int = 0
    ledgers_referenced: int = 0
    missing: int = 0
    newest_missing: int = 0
    truncated: int = 0
    dropped: int = 0
    positions_beyond: int = 0
    orphaned: int = 0
    orphaned_bytes: int | None = None
    orphaned_without_length: int | None = None
    orphaned_growth: OrphanGrowth | None = None
    unreadable: int = 0
    not_listed: int = 0
    unknown: int = 0
    outdated: int = 0
    orphaned_unknown: int = 0
    partitions_without_znode: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GoneInNamespace:
    """How many ledgers of a namespace are gone."""

    namespace: str
    ledgers: int


@dataclass(frozen=True, slots=True)
class MetadataComparison(Part):
    """The comparison of the metadata with what the run `earlier_run` stored.

    `earlier_run` is None if there is no earlier run. `problem` says why nothing was compared.
    `compared` counts ledgers that were closed then, `changed` those with changed metadata, and
    `unknown` those of which that is not known. `went_back` counts ledgers whose znode has a lower
    version than then, and `returned` those that were not listed then although ZooKeeper or their
    metadata dates them before it; at most ten of each are named. `forgotten` counts ledgers that
    differed in earlier runs and were not judged then: their other metadata was not kept. `gone`
    counts ledgers that are not listed any more, by what explains it
    (`auditor.findings.gone_ledgers.Gone`), and `gone_namespaces` those of some namespaces.
    """

    earlier_run: str | None
    problem: str = ""
    compared: int = 0
    changed: int = 0
    unknown: int = 0
    went_back: int = 0
    some_went_back: tuple[LedgerId, ...] = ()
    returned: int = 0
    some_returned: tuple[LedgerId, ...] = ()
    forgotten: int = 0
    gone: Mapping[str, int] = field(default_factory=dict)
    gone_namespaces: tuple[GoneInNamespace, ...] = ()

    @property
    def was_made(self) -> bool:
        """Whether there was an earlier run, and it could be compared with."""
        return self.earlier_run is not None and not self.problem


@dataclass(frozen=True, slots=True)
class HitNamespace(Part):
    """A namespace: how many of its topics are hit, and how."""

    namespace: str
    with_loss: int = 0
    subscriptions_blocked: int = 0
    subscriptions_possibly_blocked: int = 0
    topics: int = 0


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A line of topics.jsonl: a topic that is hit, with its ledgers and subscriptions."""

    topic: str
    namespace: str
    has_loss: bool
    kinds: tuple[str, ...]
    ledgers: tuple[LedgerId, ...]
    subscriptions_blocked: tuple[str, ...]
    subscriptions_possibly_blocked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HitTopic(Part):
    """A topic that is hit, with how many of its ledgers and subscriptions."""

    topic: str
    namespace: str = ""
    has_loss: bool = False
    kinds: tuple[str, ...] = ()
    ledgers: int = 0
    subscriptions_blocked: int = 0
    subscriptions_possibly_blocked: int = 0


@dataclass(frozen=True, slots=True)
class WorstTopics(Part):
    """The topics that are hit, counted, and the worst of them by name."""

    with_loss: int = 0
    subscriptions_blocked: int = 0
    subscriptions_possibly_blocked: int = 0
    namespaces: int = 0
    worst_namespaces: tuple[HitNamespace, ...] = ()
    worst_topics: tuple[HitTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class Requests(Part):
    """What was asked of ZooKeeper and of bookies, and what came back."""

    zookeeper_reads: int
    bookie_requests: int = 0
    bookie_bytes: int = 0
    retries: int = 0
    confirming_reads: int = 0
    spot_reads: int = 0
    doubt_reads: int = 0
    scrub_reads: int = 0
    listing_false_negatives: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a bookie was asked: requests outstanding, and a second (0: no limit)."""

    inflight: int
    requests_per_second: float


@dataclass(frozen=True, slots=True)
class SlowBookie(Part):
    """A bookie that was asked less than the limits allow, and its lowest pace.

    `settled` is the pace at the end; None where an earlier version did not store it.
    """

    bookie_id: BookieId
    inflight: int
    requests_per_second: float
    settled: Pace | None = None

    @property
    def lowest(self) -> Pace:
        """The lowest pace."""
        return Pace(self.inflight, self.requests_per_second)


@dataclass(frozen=True, slots=True)
class Paces(Part):
    """The bookies that were asked less than the limits allow, and the slowest of them."""

    bookies: int = 0
    slowest: tuple[SlowBookie, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestOutcomes:
    """Requests, added up over runs, by whether they were answered."""

    answered: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class RequestTotals:
    """The requests to bookies and to ZooKeeper, added up over runs."""

    bookie_requests: RequestOutcomes = RequestOutcomes()
    zookeeper_reads: RequestOutcomes = RequestOutcomes()


@dataclass(frozen=True, slots=True)
class MarkCounts(Part):
    """Under-replication marks by their state. `total` is those within and beyond grace."""

    total: int = 0
    within_grace: int = 0
    beyond_grace: int = 0
    stale: int = 0
    without_ledger: int = 0


@dataclass(frozen=True, slots=True)
class UnjudgedCounts(Part):
    """Ledgers with a reason to be unknown, each once, and a few of each reason."""

    ledgers: int = 0
    in_part: int = 0
    several_reasons: int = 0
    some: Mapping[str, tuple[LedgerId, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Population(Part):
    """The run with which the next run compares its number of ledgers, and the lower numbers
    since.
    """

    baseline_run: str
    baseline_finished_at: str
    baseline_listed: int
    low_listed: tuple[int, ...] = ()
    low_runs: int = 0


@dataclass(frozen=True, slots=True)
class LedgerDetail:
    """A ledger that could not be judged, and why."""

    ledger_id: LedgerId
    detail: str


@dataclass(frozen=True, slots=True)
class CauseRecord(Part):
    """What explains some of the ledgers that are hit. `says` is a sentence, `file` has their
    ids. `share_others` is None if there are no others.
    """

    id: str
    cause: str
    subject: str
    family: str
    kinds: Mapping[str, int]
    ledgers: int
    share: float
    touched: int
    touched_hit: int
    share_touched: float
    others: int
    others_hit: int
    share_others: float | None
    says: str
    file: str


@dataclass(frozen=True, slots=True)
class MoreCauses:
    """The causes that are not named, and their ledgers."""

    causes: int = 0
    ledgers: int = 0


@dataclass(frozen=True, slots=True)
class DoubtCounts(Part):
    """Bookies in doubt, some of them by name, and the copies that only they list.

    `due` are all copies that these bookies should hold, `read` those of them that were read.
    """

    bookies: int = 0
    some_bookies: tuple[BookieId, ...] = ()
    copies: int = 0
    due: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class BlockedOpen(Part):
    """Open ledgers that could not be recovered if their writers died, and what blocks that."""

    ledgers: int
    some: tuple[LedgerId, ...] = ()
    bookies: tuple[BookieId, ...] = ()


@dataclass(frozen=True, slots=True)
class OddLists(Part):
    """Lists that are believed though no bookie is known to send such, and some of the bookies."""

    lists: int = 0
    bookies: int = 0
    some_bookies: tuple[BookieId, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeCounts(Part):
    """What became of findings since an earlier run. `since` is None where that cannot be read:
    `problem` says why.
    """

    since: RunName | None
    problem: str = ""
    partial: bool = False
    new: int = 0
    worse: int = 0
    still: int = 0
    better: int = 0
    resolved: int = 0
    not_checked_again: int = 0
    gone: int = 0
    new_by_kind: Mapping[str, int] = field(default_factory=dict)
    new_ledgers: int = 0

    @classmethod
    def unknown(cls, problem: str) -> ChangeCounts:
        """Return what is said where the earlier run cannot be read."""
        return cls(None, problem).with_only("since", "problem")

    def new_of(self, kind: Kind) -> int:
        """Return how many findings of a kind are new."""
        return self.new_by_kind.get(kind.value, 0)


@dataclass(frozen=True, slots=True)
class OutgrownMute:
    """A mute that does not apply any more, and why."""

    id: str
    on: str
    why: str


@dataclass(frozen=True, slots=True)
class ExpiredMute:
    """A mute of a finding that still exists, whose last day (ISO 8601) is over."""

    id: str
    on: str
    until: str


@dataclass(frozen=True, slots=True)
class MuteCounts(Part):
    """What is muted. `problem` says why the file of mutes was not read; None if it was.

    `by_kind` has the ledgers or bookies all of whose findings of the kind are muted.
    """

    problem: str | None = None
    findings: int = 0
    by_kind: Mapping[str, int] = field(default_factory=dict)
    outgrown: tuple[OutgrownMute, ...] = ()
    expired: tuple[ExpiredMute, ...] = ()

    def of(self, kind: Kind) -> int:
        """Return how many ledgers or bookies have only muted findings of a kind."""
        return self.by_kind.get(kind.value, 0)


class DueFor(StrEnum):
    """Why a ledger is asked about, in order of precedence."""

    UNREADABLE = "unreadable"
    """The base, or the marks, cannot be read."""
    NEW = "new"
    """The base has no verdict on it."""
    NOT_SOUND = "not_sound"
    """The base did not find it closed, unmarked and sound by lists of one look."""
    MARKED = "marked"
    """It is marked as under-replicated."""
    BOOKIE = "bookie"
    """A bookie that it names changed, failed or came into doubt since its lists, or has no readable
    cookie."""
    SCRUB = "scrub"
    """A scrub of a lister names entries of it."""
    AGE = "age"
    """Its lists may be older than the period at the next run. They also may if the clock went back:
    this run, by its clock, did not begin after the base or the run of the lists."""
    TURN = "turn"
    """Its place on the circle was passed."""
    CHANGED = "changed"
    """Its znode is another one than the base read, or could not be read."""
    READ = "read"
    """A copy of it was read, and the bookie did not send the entry; or the header of its last entry
    has another length than its metadata."""


@dataclass(frozen=True, slots=True)
class CarriedLedger:
    """The run whose lists the verdict on a ledger rests on, and when it began (RFC 3339, UTC)."""

    run_id: str
    listed_at: str


@dataclass(frozen=True, slots=True)
class CarriedFrom:
    """A run from which verdicts are carried over. It began at `listed_at`: their lists are no
    older.
    """

    run_id: str
    listed_at: str
    ledgers: int


@dataclass(frozen=True, slots=True)
class Carried(Part):
    """What a run with the period `within_s` carried over from earlier runs.

    `base` is the run that it started from, None if it had none: `problem` says why. `ledgers` were
    not asked about. `withheld` of them are unknown by what this run learned; the others are sound.
    `due` counts the ledgers that were asked about, by the reason. `runs` have those that began
    first.
    """

    within_s: float
    base: str | None = None
    problem: str = ""
    ledgers: int = 0
    withheld: int = 0
    oldest_listed_at: str | None = None
    due: Mapping[str, int] = field(default_factory=dict)
    runs: tuple[CarriedFrom, ...] = ()

    @property
    def asked(self) -> int:
        """How many ledgers were asked about."""
        return sum(self.due.values())


@dataclass(frozen=True, slots=True)
class StoredTable:
    """How much a run stored of a table."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class NewestRunUsed:
    """The run that said which bookies cannot list, and which of those asked can list now."""

    run_id: str
    finished_at: str
    bookies_unable: tuple[BookieId, ...]
    bookies_listing_now: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Part):
    """The summary of a run, or of a few ledgers, which has fewer fields (`absent`).

    A part that has its default was not counted: by an earlier version, or because it does not
    apply. Times are RFC 3339, UTC.
    """

    run_id: str
    auditor_version: str
    cluster: ClusterName
    started_at: str | None = None
    finished_at: str | None = None
    resumed_at: tuple[str, ...] = ()
    duration_s: Mapping[str, float] = field(default_factory=dict)
    ledgers: LedgerCounts
    ledgers_by_exemption: Mapping[str, int] = field_named("exempt")
    ledgers_by_unknown: Mapping[str, int] = field_named("indeterminate")
    findings: Mapping[str, KindCounts]
    severities: Mapping[str, SeverityCounts] = field(default_factory=dict)
    bookies: BookieCounts | None = None
    listers: Listers = Listers()
    bookies_unheard: Mapping[str, tuple[BookieId, ...]] = field(default_factory=dict)
    bookies_away: tuple[BookieId, ...] = ()
    bookies_gone: tuple[BookieId, ...] = ()
    maintenance: Maintenance = Maintenance()
    placement: PlacementJudged | None = None
    assurance: Assurance = Assurance()
    sampling: Sampling | None = None
    verification: Verification | None = None
    bookies_unregistered: tuple[UnregisteredBookie, ...] = ()
    bookies_renamed: tuple[RenamedBookie, ...] = ()
    space: Space | None = None
    references: References | None = None
    topics_hit: int | None = None
    topics_worst: WorstTopics | None = None
    requests: Requests
    paces: Paces = Paces()
    totals: Mapping[str, int] = field(default_factory=dict)
    request_totals: RequestTotals | None = None
    coverage: float = nan
    copies: CopyCounts | None = None
    verified_ratio: float | None = None
    oldest_underreplicated_s: float = 0.0
    marks: MarkCounts | None = None
    marks_by_age: Mapping[str, int] = field(default_factory=dict)
    unjudged: UnjudgedCounts | None = None
    malformed_marks: tuple[str, ...] = ()
    population: Population | None = None
    has_no_answer: bool = field_named("nobody_answered", default=False)
    is_replication_disabled: bool = field_named("replication_disabled", default=False)
    is_partial: bool = field_named("partial", default=False)
    poison: tuple[LedgerDetail, ...] = ()
    checkers_disagree: tuple[LedgerDetail, ...] = ()
    withheld: tuple[str, ...] = ()
    is_complete: bool = field_named("complete")
    outcome: str
    exit_code: int
    exit_code_if_clean: int
    causes: tuple[CauseRecord, ...] = ()
    causes_rest: MoreCauses = MoreCauses()
    ledgers_without_cause: int = 0
    unjudged_without_cause: int = 0
    doubt: DoubtCounts = DoubtCounts()
    open_recovery_blocked: BlockedOpen | None = None
    odd_lists: OddLists = OddLists()
    metadata_compared: MetadataComparison | None = None
    changes: ChangeCounts | None = None
    mutes: MuteCounts | None = None
    stored: Mapping[str, StoredTable] | None = None
    newest_run: NewestRunUsed | None = None
    carried: Carried | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of the file, which `from_json` reads."""
        written: dict[str, Any] = encode(self)
        return written

    @classmethod
    def from_json(cls, stored: object) -> Summary:
        """Return what `as_json` wrote.

        Raises KeyError for a field that every version writes and that is missing, and TypeError or
        ValueError for one that is not as this version writes it.
        """
        return decode(cls, stored)

    def exempt(self, reason: Exempt) -> int:
        """Return how many ledgers are not judged for a reason."""
        return self.ledgers_by_exemption.get(reason.value, 0)

    def unknown(self, reason: Unknown) -> int:
        """Return how many ledgers have a reason to be unknown."""
        return self.ledgers_by_unknown.get(reason.value, 0)

    def found(self, kind: Kind) -> KindCounts:
        """Return what has findings of a kind."""
        return self.findings.get(kind.value, KindCounts())

    def hits(self, kind: Kind) -> int:
        """Return how many ledgers or bookies, by the subject of `kind`, have findings of it.

        A kind on the cluster counts its findings.
        """
        counts = self.found(kind)
        by_subject = {
            Subject.LEDGER: counts.ledgers,
            Subject.BOOKIE: counts.bookies,
            Subject.CLUSTER: counts.findings,
        }
        return by_subject[CATALOGUE[kind].subject]

    @property
    def findings_by_kind(self) -> dict[str, int]:
        """How many findings there are of each kind that has any."""
        return {kind: counts.findings for kind, counts in self.findings.items() if counts.findings}

    @property
    def findings_total(self) -> int:
        """How many findings there are."""
        return sum(self.findings_by_kind.values())

    def set_aside(self, reason: Unknown) -> tuple[LedgerDetail, ...]:
        """Return some ledgers that a fault of the auditor left unjudged, and why."""
        by_reason = {Unknown.POISON: self.poison, Unknown.CHECKERS_DISAGREE: self.checkers_disagree}
        return by_reason.get(reason, ())

    @property
    def has_looked_at_open(self) -> bool:
        """Whether this version counted open ledgers whose recovery would be blocked."""
        return self.has("open_recovery_blocked")

    @property
    def has_causes_counted(self) -> bool:
        """Whether this version looked for causes."""
        return self.has("causes")

    @property
    def is_compared(self) -> bool:
        """Whether this version compared the run with an earlier one, if there was one."""
        return self.has("changes")

    def new_in_all_runs(self, kind: Kind) -> int:
        """Return how many findings of a kind were new in their run, added up over runs."""
        return self.totals.get(kind.value, 0)
