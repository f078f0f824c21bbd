"""The metadata service of one cluster, read-only. Other packages use ZooKeeper only through
this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from auditor.config import ZooKeeperLimits
from auditor.evidence.ids import Ids
from auditor.model.cluster import BookieRecord, ClusterFacts
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerRecord, Mark
from auditor.wire.service_uri import ServiceUri
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper import cluster, ledgers
from auditor.zookeeper.cluster import NewestWrite, find_newest_write
from auditor.zookeeper.ledger_batches import changed_ids, read_batches
from auditor.zookeeper.ledgers import (
    PARENTS_PER_PARTITION,
    LedgerReader,
    ListedParent,
    Listing,
    ListingPartition,
    Marks,
)
from auditor.zookeeper.multi_read import CONNECTION_LOSS, NO_NODE, OK, Numbers
from auditor.zookeeper.reading import read_many, refusal_sentence, unavailable_error
from auditor.zookeeper.session import Session, SessionOwner, connect

RAW_BYTES_MAX = 4 * 2**20
"""Largest znode that `raw` returns, in bytes: four times ZooKeeper's default limit (jute.maxbuffer,
1 MiB)."""


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """What another process, such as a Spark task, needs to open the same store.

    It can be pickled and holds no secrets.
    """

    uri: ServiceUri
    root: str
    layout: LedgerLayout
    limits: ZooKeeperLimits

    def open(self) -> MetadataStore:
        """Return a store with a session of its own. The caller closes it.

        Raises StoreUnavailable when no connection is made within `zookeeper_connect_timeout_ms`.
        """
        return MetadataStore(connect(self.uri, self.limits), self)


@dataclass(frozen=True, slots=True)
class LentSession(StoreAddress):
    """The address of a store whose session is open: `open` returns a store that uses it again.

    It cannot be pickled. Closing the returned store leaves the session open.
    """

    session: Session

    def open(self) -> MetadataStore:
        return _Borrower(self.session, self)


class MetadataStore(SessionOwner):
    """One session with the metadata service of one cluster, and a context manager that closes it.

    Nothing here writes. Methods about the cluster as a whole raise StoreUnavailable; methods that
    read ledgers never do. All raise LocalFault if this host allows no connection. Not thread-safe.
    `problems` are sentences on problems that did not stop a read.
    """

    def __init__(
        self, session: Session, address: StoreAddress, problems: Iterable[str] = ()
    ) -> None:
        self.address = address
        self.problems: list[str] = list(problems)
        super().__init__(session)
        self._reader = LedgerReader(session, address.root, address.layout)

    @property
    def root(self) -> str:
        """ROOT, an absolute ZooKeeper path without a slash at the end."""
        return self.address.root

    @property
    def layout(self) -> LedgerLayout:
        return self.address.layout

    def cluster_facts(self) -> ClusterFacts:
        """Return the facts about the whole cluster. Costs one request. May add to `problems`."""
        settings = cluster.read_settings(self._session, self.root)
        for problem in settings.problems:
            self._note_problem(problem)
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
        """Return every bookie that is registered or has a cookie, once, sorted by id."""
        return cluster.read_bookies(self._session, self.root, look, now_ms)

    def cookies(self) -> frozenset[BookieId]:
        """Return the ids of all bookies that have a cookie: started once and not decommissioned."""
        return cluster.read_cookies(self._session, self.root)

    def newest_write(self, bookies: Iterable[BookieId]) -> NewestWrite | None:
        """Return the newest time that ZooKeeper wrote among registrations, cookies, votes and
        marks.
        """
        return find_newest_write(self._session, self.root, bookies)

    def raw(self, path: str) -> bytes | None:
        """Return the data of the znode at an absolute path, also outside of ROOT.

        None if it does not exist, cannot be read or is larger than `RAW_BYTES_MAX`; in the last two
        cases `problems` says so. Costs one request. Raises StoreUnavailable on a lost connection.
        """
        (znode,) = read_many(self._session, [path])
        if znode.error == CONNECTION_LOSS:
            raise unavailable_error(path, znode.error)
        if znode.error == OK and len(znode.data) <= RAW_BYTES_MAX:
            return znode.data
        if znode.error == OK:
            self._note_problem(f"znode {path} is larger than {RAW_BYTES_MAX} bytes: it is not read")
        elif znode.error != NO_NODE:
            self._note_problem(refusal_sentence(path, znode.error))
        return None

    def listing_partitions(self, parents_max: int = PARENTS_PER_PARTITION) -> Listing:
        """Return the parents of all ledgers, in portions of at most `parents_max`."""
        return ledgers.find_partitions(self._session, self.root, self.layout, parents_max)

    def list_ids(self, partition: ListingPartition) -> Iterator[ListedParent]:
        """Yield the ids below each parent of `partition`, and count names that are not ledgers."""
        return ledgers.list_ids(self._session, self.root, self.layout, partition)

    def marks(self) -> Marks:
        """Return all under-replication marks, with the locks of their replication workers.

        `problem` and `lock_problem` say when some marks or locks could not be read.
        """
        return ledgers.read_marks(self._session, self.root)

    def elected_auditor(self) -> str | None:
        """Return the bookie id of BookKeeper's elected auditor, or None if none is elected.

        Returns `cluster.NOT_KNOWN` and adds to `problems` if that cannot be read.
        """
        elected = cluster.read_elected(self._session, self.root)
        self._note_problem(elected.problem)
        return elected.bookie_id

    def read_ledgers(
        self, ids: Iterable[LedgerId], look: int, now_ms: Callable[[], int], with_marks: bool
    ) -> Iterator[LedgerRecord]:
        """Yield one record for each of `ids`, in order, even if ZooKeeper stays gone.

        `with_marks`: each record has its mark and the mark's lock, read just before the metadata.
        """
        return self._reader.records(ids, look, now_ms, with_marks)

    def read_ledger_batches(
        self,
        ids: Iterable[Ids],
        look: int,
        now_ms: Callable[[], int],
        marks: Mapping[LedgerId, Mark],
    ) -> Iterator[pa.RecordBatch]:
        """Yield a LEDGERS row for each of `ids`, even if ZooKeeper stays gone.

        `marks` has the marks of all ledgers, read before. Costs one read a ledger, and a tenth of
        what `read_ledgers` costs where metadata is plain.
        """
        return read_batches(self._session, self.root, self.layout, ids, look, now_ms, marks)

    def read_changed(
        self, known: Iterable[tuple[LedgerId, int, int]], look: int, now_ms: Callable[[], int]
    ) -> Iterator[LedgerRecord]:
        """Yield a record for each ledger whose znode no longer has the known czxid and version.

        Ledgers that are gone or unreadable have records too. Costs one read a ledger.
        """
        return self._reader.changed(known, look, now_ms)

    def changed_ids(self, ids: Ids, czxids: Numbers, versions: Numbers) -> Ids:
        """Return the ledgers of which `read_changed` yields a record, ascending.

        Costs one read a ledger, and less than half of what `read_changed` costs.
        """
        return changed_ids(self._session, self.root, self.layout, ids, czxids, versions)

    def passwords(self, ids: Iterable[LedgerId]) -> dict[LedgerId, bytes | None]:
        """Return the ledgers' passwords, only to check HMACs. Do not keep, log or write them."""
        return self._reader.passwords(ids)

    def sync(self, path: str = "") -> None:
        """Make sure that this store reads nothing older than this call from now on.

        `path` is below ROOT; a server syncs its whole tree whatever the path.
        """
        self._session.sync(self.root + path)

    def lent(self) -> StoreAddress:
        """Return an address at which this session is used again, by one user at a time."""
        address = self.address
        return LentSession(address.uri, address.root, address.layout, address.limits, self._session)

    def with_bookies_of(self, other: MetadataStore) -> MetadataStore:
        """Return a store over this session whose bookies, cookies and auditor are those of `other`.

        Closing it leaves the session open.
        """
        return _WithBookiesOf(self._session, self.address, other)

    def _note_problem(self, problem: str) -> None:
        if problem and problem not in self.problems:
            self.problems.append(problem)


class _Borrower(MetadataStore):
    """A store over the session of another store, which closes it."""

    def close(self) -> None:
        """Leave the session open."""


class _WithBookiesOf(_Borrower):
    """The ledgers of one store, and the bookies of another."""

    def __init__(self, session: Session, address: StoreAddress, other: MetadataStore) -> None:
        super().__init__(session, address)
        self._other = other

    def bookies(self, look: int, now_ms: Callable[[], int]) -> list[BookieRecord]:
        return self._other.bookies(look, now_ms)

    def cookies(self) -> frozenset[BookieId]:
        return self._other.cookies()

    def elected_auditor(self) -> str | None:
        return self._other.elected_auditor()


def open_store(uri: ServiceUri, limits: ZooKeeperLimits) -> MetadataStore:
    """Connect, and find ROOT and its layout. Raises StoreUnavailable, which says what to do."""
    session = connect(uri, limits)
    try:
        place = cluster.find_root(session, uri)
    except BaseException:
        session.close()
        raise
    return MetadataStore(
        session, StoreAddress(uri, place.root, place.layout, limits), place.problems
    )
