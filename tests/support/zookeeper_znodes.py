"""Write znodes for tests as BookKeeper would. The auditor itself never writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePosixPath

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from auditor.config import ZooKeeperLimits
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerState, Segment
from auditor.wire import ledger_metadata, znode_paths
from auditor.wire import znode_paths as layout_wire
from auditor.wire.service_uri import ServiceUri, parse
from auditor.wire.znode_paths import LedgerLayout

QUICK = ZooKeeperLimits(
    zookeeper_reads_per_second=0,
    zookeeper_session_timeout_ms=1_500,
    zookeeper_connect_timeout_ms=10_000,
    zookeeper_retries=3,
    zookeeper_retry_wait_ms=100,
)
"""Session limits for tests: a lost server is noticed in a second or two, not in ten."""
STEADY = replace(QUICK, zookeeper_session_timeout_ms=10_000)
"""Session limits for tests on a server that is up. A pause of the machine costs no repeat."""
WRITER = ("writer", "secret")
ONLY_WRITER = [make_digest_acl(*WRITER, all=True)]
"""An ACL that excludes everybody but the writer."""
OPERATIONS_PER_TRANSACTION = 500


class Znodes:
    """A client that may do everything, also under ONLY_WRITER."""

    def __init__(self, hosts: str) -> None:
        self._client = KazooClient(hosts, timeout=30.0, auth_data=[("digest", ":".join(WRITER))])
        self._client.start(timeout=30)

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def put(self, path: str, data: bytes = b"", *, shut: bool = False) -> None:
        """Create `path` with its parents, or replace its data. `shut`: only the writer may read
        it.
        """
        parent = str(PurePosixPath(path).parent)
        self._client.ensure_path(parent)
        acl = ONLY_WRITER if shut else OPEN_ACL_UNSAFE
        try:
            self._client.create(path, data, acl=acl)
        except NodeExistsError:
            self._client.set(path, data)
            self._client.set_acls(path, acl)

    def put_all(self, znodes: Iterable[tuple[str, bytes]]) -> None:
        """Create many znodes at once. Missing parents on the first level below an existing znode
        are created once each.
        """
        made: set[str] = set()
        batch = self._client.transaction()
        for path, data in znodes:
            parent = str(PurePosixPath(path).parent)
            if parent not in made:
                self._client.ensure_path(parent)
                made.add(parent)
            batch.create(path, data)
            if len(batch.operations) >= OPERATIONS_PER_TRANSACTION:
                _commit(batch)
                batch = self._client.transaction()
        _commit(batch)

    def delete(self, path: str) -> None:
        self._client.delete(path, recursive=True)

    def ctime_ms(self, path: str) -> int:
        return int(self._client.get(path)[1].ctime)

    def mtime_ms(self, path: str) -> int:
        return int(self._client.get(path)[1].mtime)

    def layout(self, root: str, layout: LedgerLayout) -> None:
        """Create an initialised cluster at `root`, without bookies."""
        self.put(f"{root}/LAYOUT", layout_wire.encode_layout(layout))
        self.put(f"{root}/available/readonly")
        self.put(f"{root}/cookies")
        self.put(f"{root}/underreplication/ledgers")

    def ledgers(
        self, root: str, layout: LedgerLayout, ids: Iterable[int], data: bytes | None = None
    ) -> None:
        content = ledger_bytes() if data is None else data
        self.put_all(
            (root + znode_paths.ledger_path(layout, ledger_id), content) for ledger_id in ids
        )


def _commit(batch: object) -> None:
    failed = [result for result in batch.commit() if isinstance(result, Exception)]  # type: ignore[attr-defined]
    assert not failed, failed


@contextmanager
def znodes(hosts: str) -> Iterator[Znodes]:
    client = Znodes(hosts)
    try:
        yield client
    finally:
        client.close()


def uri(hosts: str, root: str, scheme: str = "zk") -> ServiceUri:
    return parse(f"{scheme}://{hosts}{root}")


def closed_ledger(last_entry_id: int = 29) -> LedgerMetadata:
    """Return a ledger with E 3, W 2, A 2, and one ensemble change at entry 10."""
    return LedgerMetadata(
        format_version=3,
        state=LedgerState.CLOSED,
        ensemble_size=3,
        write_quorum=2,
        ack_quorum=2,
        last_entry_id=last_entry_id,
        length=80,
        segments=(
            Segment(0, ("b1:3181", "b2:3181", "b3:3181")),
            Segment(10, ("b1:3181", "b4:3181", "b3:3181")),
        ),
        digest_type=DigestType.CRC32C,
        custom_metadata=(("application", b"pulsar"),),
    )


def ledger_bytes(
    metadata: LedgerMetadata | None = None, version: int = 3, password: bytes = b"pw"
) -> bytes:
    return ledger_metadata.encode(metadata or closed_ledger(), version=version, password=password)
