"""A cluster as large as wanted: a real ZooKeeper, and bookies that answer from arithmetic.

What each bookie holds of a ledger follows from the ledger's id: `java/ArithmeticBookies.java` has
the same rules. Ledger `i` has its three copies on the bookies `i`, `i + 1` and `i + 2`, modulo the
number of bookies. Its last entry is 1,000 + i modulo 100,000, hence neighbours have different
lists. One ledger in `damaged_every` is damaged, in one of DAMAGES in turn.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from support.real_processes import JavaConversation
from support.zookeeper_process import ZooKeeperProcess

from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerState, Segment
from auditor.sandbox.seeder import Seeder
from auditor.wire import bookie_registration, ledger_metadata, znode_paths
from auditor.wire.znode_paths import LedgerLayout
from benchmarks.znode_snapshot import write_snapshot

SOURCE = Path(__file__).resolve().parent / "java" / "ArithmeticBookies.java"
BOOKIES = 40
COPIES, ACK_QUORUM = 3, 2
ENTRIES_MIN, SHAPES = 1_000, 100_000
PAYLOAD_BYTES = 8
DAMAGED_EVERY = 1_000
DAMAGES = (
    "the first bookie does not know the ledger",
    "the second bookie lacks an entry",
    "the third bookie lacks the second half",
    "all bookies lack an entry",
    "two bookies lack the first entry",
)
ROOT, LAYOUT = "/ledgers", LedgerLayout.HIERARCHICAL
ZOOKEEPER_BYTES_A_LEDGER = 850
"""Memory for one more ledger in ZooKeeper's tree, which takes 420 bytes of it."""
ZOOKEEPER_LOADS_A_SECOND = 10_000
"""Ledgers that a starting ZooKeeper loads a second at least, on a busy machine."""
ANSWER_S = 60.0
"""How long the bookies may take to start, or to say what they counted."""


def ensemble_of(ledger_id: LedgerId) -> tuple[BookieId, ...]:
    return tuple(bookie_id((ledger_id + position) % BOOKIES) for position in range(COPIES))


def bookie_id(number: int) -> BookieId:
    return f"bookie-{number:02}"


def last_entry_of(ledger_id: LedgerId) -> EntryId:
    return ENTRIES_MIN + ledger_id % SHAPES


def damage_of(ledger_id: LedgerId, damaged_every: int = DAMAGED_EVERY) -> str | None:
    """Return what is wrong with a ledger; None for a healthy one."""
    if (ledger_id + 1) % damaged_every:
        return None
    return DAMAGES[ledger_id // damaged_every % len(DAMAGES)]


def metadata_of(ledger_id: LedgerId) -> LedgerMetadata:
    last = last_entry_of(ledger_id)
    return LedgerMetadata(
        format_version=3,
        state=LedgerState.CLOSED,
        ensemble_size=COPIES,
        write_quorum=COPIES,
        ack_quorum=ACK_QUORUM,
        last_entry_id=last,
        length=PAYLOAD_BYTES * (last + 1),
        segments=(Segment(0, ensemble_of(ledger_id)),),
        digest_type=DigestType.CRC32C,
    )


class Counted(NamedTuple):
    """What the bookies were asked, and the bytes that they sent."""

    infos: int
    lists: int
    reads: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class ArithmeticCluster:
    """A running cluster. `ports` has each bookie's port."""

    zookeeper_hosts: str
    ports: tuple[int, ...]
    _bookies: JavaConversation

    @property
    def metadata_service_uri(self) -> str:
        return f"zk+{LAYOUT.value}://{self.zookeeper_hosts}{ROOT}"

    def counted(self) -> Counted:
        """Return what all bookies counted since they were started."""
        return Counted(*map(int, self._bookies.ask("count", ANSWER_S).split()))


@contextmanager
def arithmetic_cluster(
    directory: Path,
    ledgers: int,
    damaged_every: int = DAMAGED_EVERY,
    service_us: int = 0,
    znodes: Iterable[tuple[str, bytes]] | None = None,
) -> Iterator[ArithmeticCluster]:
    """Yield a cluster of so many ledgers.

    The ZooKeeper in the directory is kept if it has so many. One with fewer is written anew. Raises
    ValueError if it has more. Each bookie takes `service_us` microseconds for an answer.
    `znodes` are those of the ledgers and of what belongs to them, if not `ledger_znodes`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _seed(directory, ledgers, ledger_znodes(ledgers) if znodes is None else znodes)
    heap_mib = 512 + ledgers * ZOOKEEPER_BYTES_A_LEDGER // 2**20
    zookeeper = ZooKeeperProcess(
        directory / "zookeeper",
        flags=(f"-Xms{heap_mib}m", f"-Xmx{heap_mib}m"),
        start_timeout_s=ANSWER_S + ledgers / ZOOKEEPER_LOADS_A_SECOND,
    )
    bookies = _start_bookies(directory, damaged_every, service_us)
    try:
        ports = tuple(map(int, bookies.receive(ANSWER_S).split()))
        zookeeper.start()
        seeder = Seeder(zookeeper.hosts, ROOT, LAYOUT)
        try:
            seeder.start("arithmetic")
            _register(seeder, ports)
            yield ArithmeticCluster(zookeeper.hosts, ports, bookies)
        finally:
            seeder.stop()
    finally:
        bookies.kill()
        zookeeper.stop()


def _start_bookies(directory: Path, damaged_every: int, service_us: int) -> JavaConversation:
    classes = directory / "classes"
    subprocess.run(["javac", "-d", str(classes), str(SOURCE)], check=True, timeout=ANSWER_S)
    command = ["java", "-Xmx256m", "-cp", str(classes), SOURCE.stem]
    words = [str(BOOKIES), str(damaged_every), str(service_us)]
    return JavaConversation("bookies", [*command, *words], directory / "bookies.log")


def _register(seeder: Seeder, ports: Iterable[int]) -> None:
    for number, port in enumerate(ports):
        seeder.register(bookie_id(number), bookie_registration.encode("127.0.0.1", port))
        seeder.add_cookie(bookie_id(number), "arithmetic")


def _seed(directory: Path, ledgers: int, znodes: Iterable[tuple[str, bytes]]) -> None:
    """Write the data of a ZooKeeper with so many ledgers. The file `seeded` has their number."""
    done = directory / "seeded"
    found = int(done.read_text()) if done.exists() else 0
    if found > ledgers:
        raise ValueError(f"{directory} has {found:,} ledgers, more than {ledgers:,}")
    if found < ledgers:
        done.unlink(missing_ok=True)
        data = directory / "zookeeper" / "data"
        shutil.rmtree(data, ignore_errors=True)
        write_snapshot(data, znodes)
        done.write_text(str(ledgers))


def ledger_znodes(ledgers: int) -> Iterator[tuple[str, bytes]]:
    """Yield the znode of each ledger. Those that have the same last entry have the same bytes."""
    assert SHAPES % BOOKIES == 0, "ledgers of one shape would have different ensembles"
    shapes = [
        ledger_metadata.encode(metadata_of(ledger_id)) for ledger_id in range(min(ledgers, SHAPES))
    ]
    for ledger_id in range(ledgers):
        yield ROOT + znode_paths.ledger_path(LAYOUT, ledger_id), shapes[ledger_id % SHAPES]
