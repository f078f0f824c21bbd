"""The summary of a run, with a class for each part of summary.json.

`Summary` is the JSON object, and every reader takes its parts: `summary.counts.violated`,
`summary.copies`. The names of the fields in the file are given here and where they are counted.
docs/names.md, "summary.json", says what each of them means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from math import nan
from typing import Any, TypeVar

from auditor.model.finding import CATALOGUE, Kind, Subject
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.verdict import CopyCounts, Exempt, Standing, Unknown

Part = TypeVar("Part")


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
class ClusterName:
    """What identifies a cluster. Without an instance id, root and hosts do."""

    metadata_service_uri: str = ""
    instance_id: str | None = None
    root: str | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BookieCounts:
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
class BookieWord:
    """A bookie, and a remark on it."""

    bookie_id: BookieId
    says: str


@dataclass(frozen=True, slots=True)
class UnindexedBookie:
    """A bookie that sends entries which its index lost: how many ledgers, and some of them."""

    bookie_id: BookieId
    ledgers: int
    some: tuple[tuple[LedgerId, EntryId], ...]


@dataclass(frozen=True, slots=True)
class Listers:
    """The bookies with a lister: how many it listed for, whose gave no list, and what is odd."""

    listed: int = 0
    silent: tuple[BookieWord, ...] = ()
    not_believed: tuple[BookieWord, ...] = ()
    unindexed: tuple[UnindexedBookie, ...] = ()


@dataclass(frozen=True, slots=True)
class OddLists:
    """Lists that are believed though no bookie is known to send such, and some of the bookies."""

    lists: int = 0
    bookies: int = 0
    some_bookies: tuple[BookieId, ...] = ()


@dataclass(frozen=True, slots=True)
class RenamedBookie:
    """A bookie that is not registered, and probably there under another name."""

    bookie_id: BookieId
    renamed_to: BookieId
    ledgers: tuple[LedgerId, ...]


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The bookies in planned maintenance, each with how it was found, and the ledgers that nothing
    else kept from being judged.
    """

    bookies: tuple[BookieWord, ...] = ()
    ledgers: int = 0

    @property
    def bookie_ids(self) -> frozenset[BookieId]:
        """The bookies by id."""
        return frozenset(one.bookie_id for one in self.bookies)


@dataclass(frozen=True, slots=True)
class PlacementJudged:
    """The placement policy of the judgement, and the bookies without a location."""

    policy: str
    compat: str
    without_location: int = 0
    bookies_without_location: tuple[BookieId, ...] = ()


@dataclass(frozen=True, slots=True)
class Assurance:
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
class DoubtCounts:
    """Bookies in doubt, some of them by name, and the copies that only they list.

    `due` are all copies that these bookies should hold, `read` those of them that were read.
    """

    bookies: int = 0
    some_bookies: tuple[BookieId, ...] = ()
    copies: int = 0
    due: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class UnjudgedCounts:
    """Ledgers with a reason to be unknown, each once, and a few of each reason."""

    ledgers: int = 0
    in_part: int = 0
    several_reasons: int = 0
    some: Mapping[str, tuple[LedgerId, ...]] | None = None


@dataclass(frozen=True, slots=True)
class BlockedOpen:
    """Open ledgers that could not be recovered if their writers died, and what blocks that."""

    ledgers: int
    some: tuple[LedgerId, ...] = ()
    bookies: tuple[BookieId, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkCounts:
    """Under-replication marks by their state. `total` is those within and beyond grace."""

    total: int = 0
    within_grace: int = 0
    beyond_grace: int = 0
    stale: int = 0
    without_ledger: int = 0


@dataclass(frozen=True, slots=True)
class LedgerDetail:
    """A ledger that could not be judged, and why."""

    ledger_id: LedgerId
    detail: str


@dataclass(frozen=True, slots=True)
class Cause:
    """What explains some of the ledgers that are hit. `says` is a sentence, `file` has their
    ids.
    """

    cause: str
    subject: str
    kinds: Mapping[str, int]
    ledgers: int
    share: float
    says: str
    file: str


@dataclass(frozen=True, slots=True)
class MoreCauses:
    """The causes that are not named, and their ledgers."""

    causes: int = 0
    ledgers: int = 0


@dataclass(frozen=True, slots=True)
class RunName:
    """An earlier run, and when it began (RFC 3339, UTC)."""

    run_id: str
    started_at: str


@dataclass(frozen=True, slots=True)
class ChangeCounts:
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
    new_by_kind: Mapping[str, int] | None = None

    def new_of(self, kind: Kind) -> int:
        """Return how many findings of a kind are new."""
        return int((self.new_by_kind or {}).get(kind.value, 0))


@dataclass(frozen=True, slots=True)
class OutgrownMute:
    """A mute that does not apply any more, and why."""

    id: str
    on: str
    why: str


@dataclass(frozen=True, slots=True)
class MuteCounts:
    """What is muted. `problem` says why the file of mutes was not read; "" if it was.

    `by_kind` has the ledgers or bookies all of whose findings of the kind are muted; `expired` the
    findings whose mute is over.
    """

    problem: str = ""
    findings: int = 0
    by_kind: Mapping[str, int] | None = None
    outgrown: tuple[OutgrownMute, ...] = ()
    expired: tuple[str, ...] = ()

    def of(self, kind: Kind) -> int:
        """Return how many ledgers or bookies have only muted findings of a kind."""
        return int((self.by_kind or {}).get(kind.value, 0))


@dataclass(frozen=True, slots=True)
class Requests:
    """What was asked of ZooKeeper and of bookies, and what came back."""

    zookeeper_reads: int
    bookie_requests: int = 0
    bookie_bytes: int = 0
    retries: int = 0
    confirming_reads: int = 0
    spot_reads: int = 0
    doubt_reads: int = 0
    listing_false_negatives: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a bookie was asked: requests outstanding, and a second (0: no limit)."""

    inflight: int
    requests_per_second: float


@dataclass(frozen=True, slots=True)
class SlowBookie:
    """A bookie that was asked less than the limits allow. `settled` is the pace at the end; None
    where an earlier version did not store it.
    """

    bookie_id: BookieId
    lowest: Pace
    settled: Pace | None


@dataclass(frozen=True, slots=True)
class Paces:
    """The bookies that were asked less than the limits allow, and the slowest of them."""

    bookies: int = 0
    slowest: tuple[SlowBookie, ...] = ()


@dataclass(frozen=True, slots=True)
class References:
    """What Pulsar's topics reference, and what is wrong with it.

    `unread` counts what is not read of topics, by the names of `Unread`. `orphaned_bytes` is None
    where an earlier version did not count them.
    """

    topics: int = 0
    cursors: int = 0
    schemas: int = 0
    ledgers_referenced: int = 0
    missing: int = 0
    newest_missing: int = 0
    truncated: int = 0
    orphaned: int = 0
    orphaned_bytes: int | None = None
    unreadable: int = 0
    not_listed: int = 0
    unknown: int = 0
    outdated: int = 0
    orphaned_unknown: int = 0
    unread: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class HitTopic:
    """A topic that is hit, with how many of its ledgers and subscriptions."""

    topic: str
    has_loss: bool
    kinds: tuple[str, ...]
    ledgers: int
    subscriptions_blocked: int
    subscriptions_possibly_blocked: int


@dataclass(frozen=True, slots=True)
class HitNamespace:
    """A namespace, and how many of its topics are hit."""

    namespace: str
    topics: int


@dataclass(frozen=True, slots=True)
class WorstTopics:
    """The topics that are hit, counted, and the worst of them by name."""

    with_loss: int = 0
    subscriptions_blocked: int = 0
    subscriptions_possibly_blocked: int = 0
    namespaces: int = 0
    worst_namespaces: tuple[HitNamespace, ...] = ()
    worst_topics: tuple[HitTopic, ...] = ()


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
class Together:
    """The runs of a sweep since `since`, and what all of them together find."""

    runs: int
    since: str
    chances: Chances


@dataclass(frozen=True, slots=True)
class Sampling:
    """How sure a loss was found on bookies that cannot list: by this run, and by all since.

    `alone` is None where no entry was read by rank, `together` where no run counts.
    """

    step: int | None
    alone: Chances | None
    together: Together | None


@dataclass(frozen=True, slots=True)
class NewestRunUsed:
    """The run that said which bookies cannot list, and which of those asked can list now."""

    run_id: str
    finished_at: str
    bookies_unable: tuple[BookieId, ...]
    bookies_listing_now: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True)
class Summary(Mapping[str, Any]):
    """The summary of a run, or of a few ledgers, which has fewer fields.

    A part that is missing was not counted: by an earlier version, or because it does not apply.
    Readers get it empty or None. Reading a part raises KeyError, TypeError or ValueError where the
    file does not have what this version writes.
    """

    stored: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.stored[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def __or__(self, changes: Mapping[str, Any]) -> Summary:
        """Return the summary with further or other fields of the file."""
        return Summary({**self.stored, **changes})

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of the file."""
        return dict(self.stored)

    # Which run

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return str(self.stored["run_id"])

    @property
    def auditor_version(self) -> str:
        """The version of the auditor that wrote it."""
        return str(self.stored["auditor_version"])

    @property
    def cluster(self) -> ClusterName:
        """The cluster that was audited."""
        return _part(ClusterName, self.stored["cluster"])

    @property
    def started_at(self) -> str | None:
        """When the run began (RFC 3339, UTC)."""
        return _text_or_none(self.stored.get("started_at"))

    @property
    def finished_at(self) -> str | None:
        """When the run ended (RFC 3339, UTC)."""
        return _text_or_none(self.stored.get("finished_at"))

    @property
    def resumed_at(self) -> tuple[str, ...]:
        """When the run was resumed, oldest first."""
        return tuple(map(str, self.stored.get("resumed_at") or ()))

    @property
    def is_partial(self) -> bool:
        """Whether only ledgers that were named were audited."""
        return bool(self.stored.get("partial"))

    # The result

    @property
    def outcome(self) -> str:
        """The outcome word."""
        return str(self.stored["outcome"])

    @property
    def exit_code(self) -> int:
        """The exit code of the run."""
        return int(self.stored["exit_code"])

    @property
    def exit_code_if_clean(self) -> int:
        """The exit code that the run would have without its findings."""
        return int(self.stored["exit_code_if_clean"])

    @property
    def is_complete(self) -> bool:
        """Whether no ledger has a reason to be unknown, and all references could be read."""
        return bool(self.stored["complete"])

    @property
    def ledgers(self) -> LedgerCounts:
        """The ledgers by standing."""
        return _part(LedgerCounts, self.stored["ledgers"])

    def exempt(self, reason: Exempt) -> int:
        """Return how many ledgers are not judged for a reason."""
        return int(self.stored["exempt"].get(reason.value, 0))

    def unknown(self, reason: Unknown) -> int:
        """Return how many ledgers have a reason to be unknown."""
        return int(self.stored["indeterminate"].get(reason.value, 0))

    def found(self, kind: Kind) -> KindCounts:
        """Return what has findings of a kind."""
        return _part(KindCounts, self.stored["findings"].get(kind.value) or {})

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
        counts = self.stored.get("findings") or {}
        return {kind: int(one["findings"]) for kind, one in counts.items() if one["findings"]}

    @property
    def findings_total(self) -> int:
        """How many findings there are."""
        return sum(self.findings_by_kind.values())

    @property
    def coverage(self) -> float:
        """The share of ledgers about which nothing is unknown."""
        return float(self.stored["coverage"])

    @property
    def withheld(self) -> tuple[str, ...]:
        """Sentences on what could not be said, and why."""
        return tuple(map(str, self.stored.get("withheld") or ()))

    # Copies

    @property
    def copies(self) -> CopyCounts | None:
        """The copies that were verified; None where they were not counted."""
        stored = self.stored.get("copies")
        return None if not stored else _part(CopyCounts, stored)

    @property
    def verified_ratio(self) -> float | None:
        """The share of the copies that were verified; None where no copy is expected."""
        return _number_or_none(self.stored.get("verified_ratio"))

    @property
    def doubt(self) -> DoubtCounts:
        """The copies that only bookies in doubt list."""
        return _part(DoubtCounts, self.stored.get("doubt") or {})

    # Bookies

    @property
    def bookies(self) -> BookieCounts | None:
        """The counts of bookies; None in the summary of a few ledgers."""
        stored = self.stored.get("bookies")
        return None if not stored else _part(BookieCounts, stored)

    @property
    def bookies_unheard(self) -> dict[str, tuple[BookieId, ...]]:
        """The bookies that gave no answer, by the word for how they failed to."""
        stored = self.stored.get("bookies_unheard") or {}
        return {word: tuple(map(str, bookies)) for word, bookies in stored.items()}

    @property
    def bookies_away(self) -> tuple[BookieId, ...]:
        """Bookies with a cookie and without a registration."""
        return tuple(map(str, self.stored.get("bookies_away") or ()))

    @property
    def bookies_gone(self) -> tuple[BookieId, ...]:
        """Bookies with neither, that ledgers name."""
        return tuple(map(str, self.stored.get("bookies_gone") or ()))

    @property
    def bookies_renamed(self) -> tuple[RenamedBookie, ...]:
        """Bookies that were probably renamed."""
        return _parts(RenamedBookie, self.stored.get("bookies_renamed"))

    @property
    def odd_lists(self) -> OddLists:
        """The lists that are believed though no bookie is known to send such."""
        return _part(OddLists, self.stored.get("odd_lists") or {})

    @property
    def listers(self) -> Listers:
        """The bookies with a lister."""
        stored = self.stored.get("listers") or {}
        return Listers(
            int(stored.get("listed") or 0),
            _bookie_words(stored.get("silent"), "detail"),
            _bookie_words(stored.get("not_believed"), "detail"),
            tuple(
                UnindexedBookie(
                    str(one["bookie_id"]),
                    int(one["ledgers"]),
                    tuple((int(ledger), int(entry)) for ledger, entry in one["some"]),
                )
                for one in stored.get("unindexed") or ()
            ),
        )

    @property
    def maintenance(self) -> Maintenance:
        """The bookies in planned maintenance."""
        stored = self.stored.get("maintenance") or {}
        bookies = _bookie_words(stored.get("bookies"), "found")
        return Maintenance(bookies, int(stored.get("ledgers") or 0))

    @property
    def placement(self) -> PlacementJudged | None:
        """How placement was judged; None where the summary does not say."""
        stored = self.stored.get("placement")
        return None if not stored else _part(PlacementJudged, stored)

    @property
    def assurance(self) -> Assurance:
        """What the verdicts rest on."""
        return _part(Assurance, self.stored.get("assurance") or {})

    @property
    def is_replication_disabled(self) -> bool:
        """Whether auto-recovery is switched off in the cluster."""
        return bool(self.stored.get("replication_disabled"))

    @property
    def has_no_answer(self) -> bool:
        """Whether every registered bookie was silent or refused."""
        return bool(self.stored.get("nobody_answered"))

    # Ledgers that are open, marked, or could not be judged

    @property
    def unjudged(self) -> UnjudgedCounts | None:
        """The ledgers with a reason to be unknown; None where they were not counted."""
        stored = self.stored.get("unjudged")
        return None if not stored else _part(UnjudgedCounts, stored)

    def set_aside(self, reason: Unknown) -> tuple[LedgerDetail, ...]:
        """Return some ledgers that a fault of the auditor left unjudged, and why."""
        return _parts(LedgerDetail, self.stored.get(reason.value))

    @property
    def has_looked_at_open(self) -> bool:
        """Whether this version counted open ledgers whose recovery would be blocked."""
        return "open_recovery_blocked" in self.stored

    @property
    def open_recovery_blocked(self) -> BlockedOpen | None:
        """Open ledgers whose recovery would be blocked; None where there were not two looks."""
        stored = self.stored.get("open_recovery_blocked")
        return None if stored is None else _part(BlockedOpen, stored)

    @property
    def marks(self) -> MarkCounts | None:
        """The under-replication marks; None where they were not counted."""
        stored = self.stored.get("marks")
        return None if stored is None else _part(MarkCounts, stored)

    @property
    def marks_by_age(self) -> dict[str, int]:
        """The same marks by class of age."""
        return {name: int(number) for name, number in self.stored["marks_by_age"].items()}

    @property
    def oldest_underreplicated_s(self) -> float:
        """The age of the oldest mark of a ledger that has metadata, seconds."""
        return float(self.stored.get("oldest_underreplicated_s") or 0)

    @property
    def malformed_marks(self) -> tuple[str, ...]:
        """Paths of znodes among the marks that mark no ledger."""
        return tuple(map(str, self.stored.get("malformed_marks") or ()))

    # Causes, changes and mutes

    @property
    def has_causes_counted(self) -> bool:
        """Whether this version looked for causes."""
        return "causes" in self.stored

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes, the one that explains most first."""
        return _parts(Cause, self.stored.get("causes"))

    @property
    def causes_rest(self) -> MoreCauses:
        """The causes that are not named."""
        return _part(MoreCauses, self.stored.get("causes_rest") or {})

    @property
    def ledgers_without_cause(self) -> int:
        """Ledgers that are hit and belong to no cause."""
        return int(self.stored.get("ledgers_without_cause") or 0)

    @property
    def unjudged_without_cause(self) -> int:
        """Those of them that have no finding whose cause is looked for."""
        return int(self.stored.get("unjudged_without_cause") or 0)

    @property
    def is_compared(self) -> bool:
        """Whether this version compared the run with an earlier one, if there was one."""
        return "changes" in self.stored

    @property
    def changes(self) -> ChangeCounts | None:
        """What changed since an earlier run; None if there was none."""
        stored = self.stored.get("changes")
        if not stored:
            return None
        since = stored.get("since")
        given = {**stored, "since": None if since is None else _part(RunName, since)}
        return _part(ChangeCounts, given)

    @property
    def mutes(self) -> MuteCounts:
        """What is muted."""
        stored = self.stored.get("mutes") or {}
        return MuteCounts(
            str(stored.get("problem") or ""),
            int(stored.get("findings") or 0),
            stored.get("by_kind") or {},
            _parts(OutgrownMute, stored.get("outgrown")),
            tuple(str(one["id"]) for one in stored.get("expired") or ()),
        )

    # Topics

    @property
    def topics_hit(self) -> int:
        """How many topics are hit; 0 where none was looked for, or it is not known."""
        return int(self.stored.get("topics_hit") or 0)

    @property
    def references(self) -> References | None:
        """What topics reference; None where none was looked for."""
        stored = self.stored.get("references")
        return None if not stored else _part(References, stored)

    @property
    def topics_worst(self) -> WorstTopics:
        """The topics that are hit."""
        stored = self.stored.get("topics_worst") or {}
        return _part(
            WorstTopics,
            {
                **stored,
                "worst_namespaces": _parts(HitNamespace, stored.get("worst_namespaces")),
                "worst_topics": _parts(HitTopic, stored.get("worst_topics")),
            },
        )

    # What was asked

    @property
    def newest_run(self) -> NewestRunUsed | None:
        """The run in OUTPUT whose facts were used for a few ledgers."""
        stored = self.stored.get("newest_run")
        return None if not stored else _part(NewestRunUsed, stored)

    @property
    def sampling(self) -> Sampling | None:
        """How sure a loss was found; None where no ledger was judged by a sample."""
        stored = self.stored.get("sampling")
        if not stored:
            return None
        alone, together = stored.get("bounds"), stored.get("accumulated")
        return Sampling(
            stored.get("step"),
            Chances(alone) if alone else None,
            _together(together) if together else None,
        )

    @property
    def paces(self) -> Paces:
        """The bookies that were asked less than the limits allow."""
        stored = self.stored.get("paces") or {}
        slowest = tuple(
            SlowBookie(
                str(one["bookie_id"]),
                _part(Pace, one),
                _part(Pace, one["settled"]) if "settled" in one else None,
            )
            for one in stored.get("slowest") or ()
        )
        return Paces(int(stored.get("bookies") or 0), slowest)

    @property
    def request_totals(self) -> Mapping[str, Mapping[str, int]] | None:
        """The requests by outcome, added up over runs; None where they were not."""
        return self.stored.get("request_totals") or None

    @property
    def totals(self) -> Mapping[str, int]:
        """The findings that were new in their run by kind, added up over runs."""
        return self.stored.get("totals") or {}

    def new_in_all_runs(self, kind: Kind) -> int:
        """Return how many findings of a kind were new in their run, added up over runs."""
        return int(self.stored["totals"].get(kind.value, 0))

    @property
    def requests(self) -> Requests:
        """What was asked."""
        return _part(Requests, self.stored["requests"])

    @property
    def duration_s(self) -> dict[str, float]:
        """Seconds by stage."""
        return {stage: float(took) for stage, took in self.stored["duration_s"].items()}


def _together(stored: Mapping[str, Any]) -> Together:
    since, bounds = str(stored.get("since") or ""), stored.get("bounds") or {}
    return Together(int(stored.get("runs") or 0), since, Chances(bounds))


def _part(kind: type[Part], stored: Any) -> Part:
    """Return a part of the file as a dataclass; lists become tuples.

    Fields that the dataclass does not have are passed over. Raises TypeError for a field that is
    missing, or that is not of its type.
    """
    if not isinstance(stored, Mapping):
        raise TypeError(f"{stored!a:.40} is not an object")
    given = {}
    for one in fields(kind):  # type: ignore[arg-type]
        if one.name in stored:
            given[one.name] = _checked(str(one.type), stored[one.name])
    return kind(**given)


_PLAIN: Mapping[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "str": (str,), "bool": (bool,),
    "LedgerId": (int,), "EntryId": (int,), "BookieId": (str,),
}  # fmt: skip


def _checked(annotation: str, value: Any) -> Any:
    name, _, rest = annotation.partition(" | ")
    if value is None and (rest or name.startswith(("tuple", "str"))):
        return () if name.startswith("tuple") else None if rest else ""
    if name.startswith("tuple"):
        return tuple(value)
    if name in _PLAIN and not isinstance(value, _PLAIN[name]):
        raise TypeError(f"{value!a:.40} is not of type {name}")
    return value


def _parts(kind: type[Part], stored: Any) -> tuple[Part, ...]:
    return tuple(_part(kind, one) for one in stored or ())


def _bookie_words(stored: Any, name: str) -> tuple[BookieWord, ...]:
    return tuple(BookieWord(str(one["bookie_id"]), str(one[name])) for one in stored or ())


def _text_or_none(stored: Any) -> str | None:
    return None if stored is None else str(stored)


def _number_or_none(stored: Any) -> float | None:
    return None if stored is None else float(stored)
