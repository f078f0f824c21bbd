"""The metadata service of one cluster, read only: what the rest of the auditor knows of ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType

from auditor.config import ZooKeeperLimits
from auditor.model.cluster import BookieRecord, ClusterFacts
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerRecord
from auditor.wire.layout import LedgerLayout
from auditor.wire.service_uri import ServiceUri
from auditor.zookeeper import cluster, election, ledger_listing, mark_listing, registrations
from auditor.zookeeper.ledger_listing import PARENTS_PER_PARTITION, ListedParent, Listing, ListingPartition
from auditor.zookeeper.ledger_reading import LedgerReader
from auditor.zookeeper.mark_listing import Marks
from auditor.zookeeper.multi_read import CONNECTION_LOSS, NO_NODE, OK
from auditor.zookeeper.reading import read_many
from auditor.zookeeper.refusal import refusal, unavailable
from auditor.zookeeper.session import ReadCounts, Session, connect

RAW_BYTES_MAX = 4 * 2**20
"""Largest znode taken whole: four times what ZooKeeper writes unless its limit was raised (jute.maxbuffer, 1 MiB)."""


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """All that is needed to open the same store elsewhere, such as in a Spark task: picklable, without secrets."""

    uri: ServiceUri
    root: str
    layout: LedgerLayout
    limits: ZooKeeperLimits

    def open(self) -> MetadataStore:
        """A store with a session of its own, to be closed. Raises StoreUnavailable when no connection can be had in time."""
        return MetadataStore(connect(self.uri, self.limits), self)


class MetadataStore:
    """One session with the metadata service of one cluster. Close it (it is its own context manager).

    Nothing here writes. Methods that tell of the cluster as a whole raise StoreUnavailable; reading ledgers never does.
    Not for use by several threads at once. `problems` are sentences on what was odd but did not stand in the way.
    """

    def __init__(self, session: Session, address: StoreAddress, problems: Iterable[str] = ()) -> None:
        self.address = address
        self.problems: list[str] = list(problems)
        self._session = session
        self._reader = LedgerReader(session, address.root, address.layout)

    def __enter__(self) -> MetadataStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the session. Never raises."""
        self._session.close()

    @property
    def root(self) -> str:
        """ROOT, an absolute ZooKeeper path without a slash at the end."""
        return self.address.root

    @property
    def layout(self) -> LedgerLayout:
        return self.address.layout

    @property
    def counts(self) -> ReadCounts:
        """What this store has read so far. Add to it what other sessions of this process read for the same run."""
        return self._session.counts

    def cluster_facts(self) -> ClusterFacts:
        """What is true of the whole cluster. One request; adds to `problems`."""
        settings = cluster.read_settings(self._session, self.root)
        for problem in settings.problems:
            self._odd(problem)
        return ClusterFacts(
            metadata_service_uri=self.address.uri.text_without_secrets,
            hosts=self.address.uri.hosts,
            root=self.root,
            layout=self.layout.value,
            instance_id=settings.instance_id,
            replication_disabled=settings.replication_disabled,
            lost_bookie_recovery_delay_s=settings.lost_bookie_recovery_delay_s,
        )

    def bookies(self, look: int, now_ms: Callable[[], int]) -> list[BookieRecord]:
        """Every bookie that is registered or has a cookie, once, by id."""
        return registrations.read_bookies(self._session, self.root, look, now_ms)

    def cookies(self) -> frozenset[BookieId]:
        """The ids of all bookies ever started and not decommissioned."""
        return registrations.read_cookies(self._session, self.root)

    def raw(self, path: str) -> bytes | None:
        """The data of the znode at an absolute path, also outside of ROOT; None where there is none, or where it may not be
        read or is larger than `RAW_BYTES_MAX` (then `problems` says so). One request."""
        (znode,) = read_many(self._session, [path])
        if znode.error == CONNECTION_LOSS:
            raise unavailable(path, znode.error)
        if znode.error == OK and len(znode.data) <= RAW_BYTES_MAX:
            return znode.data
        if znode.error == OK:
            self._odd(f"znode {path} is larger than {RAW_BYTES_MAX} bytes: it is not read")
        elif znode.error != NO_NODE:
            self._odd(refusal(path, znode.error))
        return None

    def listing_partitions(self, parents_max: int = PARENTS_PER_PARTITION) -> Listing:
        """The parents of all ledgers, in portions of at most `parents_max`."""
        return ledger_listing.find_partitions(self._session, self.root, self.layout, parents_max)

    def list_ids(self, partition: ListingPartition) -> Iterator[ListedParent]:
        """The ids below each parent of `partition`; names that are no ledger are counted."""
        return ledger_listing.list_ids(self._session, self.root, self.layout, partition)

    def marks(self) -> Marks:
        """All under-replication marks, with the locks of who is at work on them; `problem` and `lock_problem` say when a part
        of the marks or of the locks may not be read."""
        return mark_listing.read_marks(self._session, self.root)

    def elected_auditor(self) -> str | None:
        """The bookie id of BookKeeper's elected auditor; None where none is elected. `election.NOT_KNOWN` where that may not be
        read, which adds to `problems`."""
        elected = election.read_elected(self._session, self.root)
        self._odd(elected.problem)
        return elected.bookie_id

    def read_ledgers(
        self, ids: Iterable[LedgerId], look: int, now_ms: Callable[[], int], with_marks: bool
    ) -> Iterator[LedgerRecord]:
        """One record for each of `ids`, in order; never raises for a ledger, also when ZooKeeper is gone for good.

        `with_marks`: each with its mark and the lock on it, read just before the metadata."""
        return self._reader.records(ids, look, now_ms, with_marks)

    def passwords(self, ids: Iterable[LedgerId]) -> dict[LedgerId, bytes | None]:
        """The ledgers' passwords, for HMAC alone: not to be kept, logged or written."""
        return self._reader.passwords(ids)

    def sync(self, path: str = "") -> None:
        """From now on this store reads nothing older than this call. `path` is below ROOT; servers sync as a whole anyway."""
        self._session.sync(self.root + path)

    def _odd(self, problem: str) -> None:
        if problem and problem not in self.problems:
            self.problems.append(problem)


def open_store(uri: ServiceUri, limits: ZooKeeperLimits) -> MetadataStore:
    """Connect, and find ROOT and its layout. Raises StoreUnavailable with what to do."""
    session = connect(uri, limits)
    try:
        place = cluster.find_root(session, uri)
    except BaseException:
        session.close()
        raise
    return MetadataStore(session, StoreAddress(uri, place.root, place.layout, limits), place.problems)
