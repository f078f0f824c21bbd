"""The cases in which BookKeeper's auditor and ours check the same ledgers: the truth about them,
and Java's answer.

The numbers J1 to J28 are those of docs/java-auditor.md. `Case` describes the fields. The tests make
the cluster that a case needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.java_auditor import RACK, REGION, STUCK_S, ZONE, JavaAuditor, JavaRun
from support.real_cluster import RealCluster
from support.side_by_side import Question, Says, Truth, java_answer

from auditor.wire import znode_paths

STORAGES = ["SortedLedgerStorage"] * 4 + [
    "InterleavedLedgerStorage",
    "DbLedgerStorage",
    "SortedLedgerStorage",
]
DB, SILENT, DOWN = "b6", "b7", "b9"
GRACE_S = 3
"""Age at which a mark is reported in the cases about marks. It is short because the tests' marks
cannot be older than the tests.
"""
JAVA_GRACE = {"underreplicatedLedgerRecoveryGracePeriod": str(GRACE_S)}
DAY_MS = 24 * 3600 * 1000
BAD_MARKS = ("urLabc", "urL-5")
GARBAGE = ""
"""The text of a ledger whose znode is not metadata."""


@dataclass(frozen=True)
class Case:
    """Some ledgers, the truth about them, and what Java's auditor says: `finished` and its gauges.

    `ledgers` are written in `auditor.sandbox.cluster`. `lose` says which entries of a ledger never
    reached which bookie. `right`: Java has no defect here, and we agree. `java`: how Java is asked,
    if it is not "check these ledgers once". `changed` is a condition that holds while both are
    asked; then ours is `auditor ledger`, and `between` acts between its looks. `settings` are ours.
    `locations` are the assigned ones, for both, in cases about placement.
    """

    name: str
    ledgers: dict[int, str]
    truth: Truth
    java_says: Says
    java_finishes: bool = True
    lose: dict[int, dict[str, str]] = field(default_factory=dict)
    question: Question = Question.ENTRIES
    right: bool = False
    java: dict[str, Any] = field(default_factory=dict)
    ask_java: Callable[[RealCluster, JavaAuditor], JavaRun] | None = None
    changed: Callable[[RealCluster], AbstractContextManager[object]] | None = None
    between: Callable[[RealCluster], object] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    locations: dict[str, str] = field(default_factory=dict)

    @property
    def is_alone(self) -> bool:
        """Whether ours runs by itself, with `auditor ledger`."""
        return bool(self.changed or self.between or self.settings)


SOUND = Truth({})
LOST = Truth({"no_replica": 1})
ALL_OF_IT = {"b1": "4", "b2": "4", "b3": "4"}
MIRRORED = "e3 w3 a2 0:[b1 b2 b3] closed 9"
STRIPED = "e4 w2 a2 0:[b1 b2 b3 b4] closed 19"
EVERY_SECOND = "e1 w1 a1 0:[b1] closed 436999"
"""The last entry of a ledger that lost every second entry: 218,500 runs. Java's frames of 5 MiB
hold 218,449.
"""

STALE, OVERWRITTEN, WITHOUT_TIME, OLD_MARK, MARKED, UNPARSABLE = 160, 170, 171, 172, 173, 174
MOVED, LEDGER_OF_A_BAD_MARK = 190, 191


# Cases in which Java is asked in another way


def _twice_with_the_same_gauges(cluster: RealCluster, java: JavaAuditor) -> JavaRun:
    """Run a check that finds a loss, then one that gives up, with the same process and the same
    gauges.
    """
    assert {"no_replica": 1} == java_answer(
        Question.ENTRIES, java.replicas([STALE + 1], gauges="stale")
    ).says
    return java.replicas([STALE + 10_000, STALE], gauges="stale")


def _a_replica_was_added(cluster: RealCluster, java: JavaAuditor) -> JavaRun:
    """Add a replica to a mark. The mark is older than GRACE_S; its ctime is from just now."""
    java.mark(OVERWRITTEN, "b2")
    return java.placement([OVERWRITTEN], conf=JAVA_GRACE)


def _while_it_is_moved(cluster: RealCluster, java: JavaAuditor) -> JavaRun:
    """Replicate the ledger to another bookie after Java read the metadata and before it asks
    bookies.
    """
    return java.replicas([MOVED], between=lambda: move(cluster))


def move(cluster: RealCluster) -> None:
    cluster.place(MOVED, cluster.ledger("e2 w2 a2 0:[b2 b3] closed 9"))


@contextmanager
def not_moved_yet(cluster: RealCluster) -> Iterator[None]:
    """Collect b1's copy and store one on b3, while the metadata still names b1."""
    cluster.add_ledger(MOVED, cluster.ledger("e2 w2 a2 0:[b1 b2] closed 9"))
    yield


@contextmanager
def replication_disabled(cluster: RealCluster) -> Iterator[None]:
    cluster.disable_replication()
    yield
    cluster.enable_replication()


@contextmanager
def unparsable_mark(cluster: RealCluster) -> Iterator[None]:
    cluster.set_raw(cluster.root + znode_paths.mark_path(UNPARSABLE), b"replica: \x00{")
    yield
    cluster.unmark(UNPARSABLE)


@contextmanager
def bad_mark_names(cluster: RealCluster) -> Iterator[None]:
    for name in BAD_MARKS:
        cluster.set_raw(mark_parent(cluster) + name, b"")
    yield
    for name in BAD_MARKS:
        cluster.delete_raw(mark_parent(cluster) + name)


def mark_parent(cluster: RealCluster) -> str:
    return f"{cluster.root}/underreplication/ledgers/"


# Where bookies are


@contextmanager
def addresses_of_their_own(cluster: RealCluster) -> Iterator[None]:
    """Register every writable bookie at a loopback address of its own, because Java locates
    addresses, not bookies.

    They do not listen there; placement is judged without asking them.
    """
    parent = cluster.root + znode_paths.AVAILABLE
    names = [name for name in cluster.zk.get_children(parent) if name in cluster.bookie_ids]
    registered = {name: cluster.zk.get(f"{parent}/{name}")[0] for name in names}
    for name, data in registered.items():
        cluster.register(name, data.replace(b"127.0.0.1", _address(name).encode()))
    yield
    for name, data in registered.items():
        cluster.register(name, data)


def _address(bookie_id: str) -> str:
    return f"127.0.0.{bookie_id.removeprefix('b')}"


def by_address(locations: Mapping[str, str]) -> dict[str, str]:
    """Return the same locations by address, for Java."""
    return {_address(bookie_id): location for bookie_id, location in locations.items()}


@contextmanager
def b7_read_only(cluster: RealCluster) -> Iterator[None]:
    """Bring the silent bookie back as read-only, then make it silent again."""
    registration = f"{cluster.root}{znode_paths.AVAILABLE}/{SILENT}"
    data, _ = cluster.zk.get(registration)
    cluster.start_bookie(SILENT, read_only=True)
    yield
    cluster.kill_bookie(SILENT)
    cluster.register(SILENT, data)


RACKS = {"b1": "/r1", "b2": "/r2", "b3": "/r1", "b4": "/r2", "b7": "/r2", "b9": "/r2"}
ZONES = {
    "b1": "/z1/ud1",
    "b2": "/z2/ud1",
    "b3": "/z3/ud1",
    "b4": "/z1/ud2",
    "b5": "/z1/ud1",
    "b9": "/z1/ud1",
}
REGIONS = {
    "b1": "/east/r1",
    "b2": "/east/r2",
    "b3": "/east/r3",
    "b4": "/west/r1",
    "b5": "/north/r1",
}
FAILED = Truth({"placement_failed": 1})


def placed(
    name: str,
    ledger_id: int,
    text: str,
    policy: str,
    locations: dict[str, str],
    truth: Truth,
    java_says: Says,
    **more: Any,
) -> Case:
    """Return a case about one ledger's placement under one of BookKeeper's policies."""
    classes = {"rack": RACK, "zone": ZONE, "region": REGION}
    regions = {"reppRegionsToWrite": "east;west;north"} if policy == "region" else {}
    java = {
        "conf": {"ensemblePlacementPolicy": classes[policy], **regions},
        "client": name,
        **more.pop("java", {}),
    }
    settings = {"placement_policy": policy}
    return Case(
        name,
        {ledger_id: text},
        truth,
        java_says,
        question=Question.PLACEMENT,
        java=java,
        settings=settings,
        locations=locations,
        **more,
    )


CASES = [
    # Java is right
    Case("sound, mirrored", {100: MIRRORED}, SOUND, {}, right=True),
    Case(
        "sound, each entry lacking on one bookie",
        {101: "e3 w2 a2 0:[b1 b2 b3] closed 19"},
        SOUND,
        {},
        right=True,
    ),
    Case(
        "sound, two segments",
        {102: "e3 w2 a2 0:[b1 b2 b3] 7:[b1 b4 b3] closed 19"},
        SOUND,
        {},
        right=True,
    ),
    Case(
        "an entry on no bookie",
        {103: MIRRORED},
        LOST,
        {"no_replica": 1},
        lose={103: ALL_OF_IT},
        right=True,
    ),
    Case(
        "one copy of an entry left, two acknowledged",
        {104: MIRRORED},
        Truth({"below_ack": 1}),
        {"below_ack": 1},
        lose={104: {"b1": "4", "b2": "4"}},
        right=True,
    ),
    Case(
        "one copy of three lost",
        {105: MIRRORED},
        Truth({"below_write": 1}),
        {"below_write": 1},
        lose={105: {"b3": "2-6"}},
        right=True,
    ),
    Case(
        "J16 one copy of three lost, all acknowledged",
        {106: "e3 w3 a3 0:[b1 b2 b3] closed 9"},
        Truth({"below_ack": 1}),
        {"below_ack": 1},
        lose={106: {"b3": "2-6"}},
        right=True,
    ),
    Case(
        "J28 everything lost",
        {107: "e1 w1 a1 0:[b1] closed 19999"},
        LOST,
        {"no_replica": 1},
        lose={107: {"b1": "0-19999"}},
        right=True,
    ),
    Case(
        "three ledgers of one range",
        {108: MIRRORED, 109: MIRRORED, 110: STRIPED.replace("e4", "e4").replace("w2", "w4")},
        Truth({"no_replica": 1, "below_write": 1}),
        {"no_replica": 1, "below_write": 1},
        lose={108: ALL_OF_IT, 109: {"b1": "0"}},
        right=True,
    ),
    Case("an open ledger", {111: "e3 w3 a2 0:[b1 b2 b3] open"}, SOUND, {}, right=True),
    Case(
        "a ledger without entries", {112: "e3 w3 a2 0:[b1 b2 b3] closed -1"}, SOUND, {}, right=True
    ),
    # Java is wrong
    Case("J1 gaps of two", {120: STRIPED}, SOUND, {"no_replica": 1}),
    Case(
        "J1 a bookie that left and came back",
        {121: "e3 w2 a2 0:[b1 b2 b3] 10:[b1 b4 b3] 20:[b1 b2 b3] closed 29"},
        SOUND,
        {"below_ack": 1},
    ),
    Case(
        "J2 a loss in a range before the last",
        {122: MIRRORED, 20_122: MIRRORED},
        LOST,
        {},
        lose={122: ALL_OF_IT},
    ),
    Case(
        "J3 DbLedgerStorage",
        {123: f"e1 w1 a1 0:[{DB}] closed 9"},
        Truth({"no_replica": 1}, or_unknown=1),
        {},
        lose={123: {DB: "4"}},
    ),
    Case(
        "J4 a list longer than a frame",
        {124: EVERY_SECOND},
        LOST,
        {},
    ),
    Case(
        "J5 the v2 wire protocol",
        {125: MIRRORED},
        LOST,
        {},
        lose={125: ALL_OF_IT},
        java={"conf": {"useV2WireProtocol": "true"}},
    ),
    Case(
        "J6 one entry, index page not flushed",
        {126: "e1 w1 a1 0:[b5] closed 0"},
        SOUND,
        {"no_replica": 1},
    ),
    Case(
        "J6 1025 entries, index page not flushed",
        {127: "e1 w1 a1 0:[b5] closed 1024"},
        SOUND,
        {"no_replica": 1},
    ),
    Case(
        "J7 unreadable metadata",
        {128: MIRRORED, 10_128: GARBAGE, 20_128: MIRRORED},
        Truth({"no_replica": 2, "malformed": 1}),
        {},
        java_finishes=False,
        lose={128: ALL_OF_IT, 20_128: ALL_OF_IT},
    ),
    Case(
        "J8 a mark that cannot be parsed",
        {UNPARSABLE: MIRRORED, 129: MIRRORED},
        LOST,
        {"no_replica": 1},
        java_finishes=False,
        lose={129: ALL_OF_IT},
    ),
    Case(
        "J11 more entries than fit into an int",
        {130: "e1 w1 a1 0:[b1] closed 3000000000"},
        LOST,
        {},
        java_finishes=False,
        lose={130: {"b1": "6-3000000000"}},
        java={"timeout_s": STUCK_S},
    ),
    Case(
        "J13 gauges of the run before",
        {STALE + 1: MIRRORED, STALE + 10_000: GARBAGE, STALE: MIRRORED},
        Truth({"no_replica": 1, "malformed": 1}),
        {"no_replica": 1},
        java_finishes=False,
        lose={STALE + 1: ALL_OF_IT},
        ask_java=_twice_with_the_same_gauges,
    ),
    Case(
        "J14 replicated while it was asked",
        {MOVED: "e2 w2 a2 0:[b2 b3] closed 9"},
        SOUND,
        {"below_ack": 1},
        ask_java=_while_it_is_moved,
        changed=not_moved_yet,
        between=move,
    ),
    Case(
        "J15 the only bookie is silent",
        {131: f"e1 w1 a1 0:[{SILENT}] closed 9"},
        Truth({"unknown": 1}),
        {},
    ),
    Case(
        "J15 the only bookie is not registered",
        {132: "e1 w1 a1 0:[b9] closed 9"},
        Truth({"unknown": 1}),
        {},
    ),
    Case(
        "J15 missing on one bookie, the others silent",
        {133: f"e3 w3 a2 0:[b1 {SILENT} b9] closed 9"},
        Truth({"below_write": 1, "unknown": 1}),
        {"below_write": 1},
        lose={133: {"b1": "4"}},
    ),
    Case("J17 one bookie twice", {134: "e2 w2 a2 0:[b1 b1] closed 9"}, Truth({"below_ack": 1}), {}),
    Case(
        "J18 nothing before entry 5",
        {135: "e3 w3 a2 5:[b1 b2 b3] closed 9"},
        Truth({"malformed": 1}),
        {},
    ),
    Case(
        "J24 a lost-bookie audit is due",
        {136: MIRRORED},
        LOST,
        {},
        java_finishes=False,
        lose={136: ALL_OF_IT},
        java={"pending_audit": True},
    ),
    Case(
        "J25 replication is disabled",
        {137: MIRRORED},
        LOST,
        {},
        java_finishes=False,
        lose={137: ALL_OF_IT},
        changed=replication_disabled,
    ),
    # Marks
    Case(
        "a mark of ten days ago",
        {OLD_MARK: MIRRORED},
        Truth({"beyond_grace": 1}),
        {"beyond_grace": 1},
        question=Question.MARKS,
        right=True,
        java={"conf": JAVA_GRACE},
        settings={"underreplication_grace": f"{GRACE_S}s"},
    ),
    Case(
        "a mark of today",
        {MARKED: MIRRORED},
        SOUND,
        {},
        question=Question.MARKS,
        right=True,
        java={"conf": {"underreplicatedLedgerRecoveryGracePeriod": "86400"}},
        settings={"underreplication_grace": "1d"},
    ),
    Case(
        "J19 a replica was added to the mark",
        {OVERWRITTEN: MIRRORED},
        Truth({"beyond_grace": 1}),
        {},
        question=Question.MARKS,
        ask_java=_a_replica_was_added,
        settings={"underreplication_grace": f"{GRACE_S}s"},
    ),
    Case(
        "J19 a mark that says no time",
        {WITHOUT_TIME: MIRRORED},
        Truth({"beyond_grace": 1}),
        {},
        question=Question.MARKS,
        java={"conf": JAVA_GRACE},
        settings={"underreplication_grace": f"{GRACE_S}s"},
    ),
    Case(
        "J8 J27 marks with impossible names",
        {LEDGER_OF_A_BAD_MARK: MIRRORED},
        Truth({"beyond_grace": 1}),
        {},
        java_finishes=False,
        question=Question.MARKS,
        java={"conf": JAVA_GRACE},
        settings={"underreplication_grace": f"{GRACE_S}s"},
        changed=bad_mark_names,
    ),
    # Placement
    placed("racks alternate", 200, STRIPED, "rack", RACKS, SOUND, {}, right=True),
    placed(
        "two bookies on one rack",
        201,
        "e2 w2 a2 0:[b1 b3] closed 9",
        "rack",
        RACKS,
        FAILED,
        {"placement_failed": 1},
        right=True,
    ),
    placed(
        "one window of three on one rack",
        202,
        "e3 w2 a2 0:[b1 b2 b3] closed 9",
        "rack",
        RACKS,
        FAILED,
        {"placement_failed": 1},
        right=True,
    ),
    placed(
        "three zones", 203, "e3 w3 a2 0:[b1 b2 b3] closed 9", "zone", ZONES, SOUND, {}, right=True
    ),
    placed(
        "two zones where three are desired",
        204,
        "e3 w3 a2 0:[b1 b2 b4] closed 9",
        "zone",
        ZONES,
        Truth({"placement_soft": 1}),
        {"placement_soft": 1},
        right=True,
    ),
    placed(
        "one upgrade domain twice",
        205,
        "e3 w3 a2 0:[b1 b2 b5] closed 9",
        "zone",
        ZONES,
        FAILED,
        {"placement_failed": 1},
        right=True,
    ),
    placed(
        "three regions",
        206,
        "e3 w3 a2 0:[b1 b4 b5] closed 9",
        "region",
        REGIONS,
        SOUND,
        {},
        right=True,
    ),
    placed(
        "J9 a write quorum of 0",
        207,
        "e3 w0 a0 0:[b1 b2 b3] closed 9",
        "zone",
        ZONES,
        Truth({"malformed": 1}),
        {},
        java_finishes=False,
        java={"timeout_s": STUCK_S},
    ),
    placed(
        "J20 a member is read-only",
        208,
        f"e4 w2 a2 0:[b1 b2 b3 {SILENT}] closed 9",
        "rack",
        RACKS,
        SOUND,
        {"placement_failed": 1},
        changed=b7_read_only,
    ),
    placed(
        "J20 a member is down",
        209,
        f"e2 w2 a2 0:[b1 {DOWN}] closed 9",
        "rack",
        RACKS,
        SOUND,
        {"placement_failed": 1},
    ),
    placed(
        "J20 no racks are configured",
        210,
        "e2 w2 a2 0:[b1 b2] closed 9",
        "rack",
        {"b8": "/r1"},
        Truth({"unknown": 1}),
        {"placement_failed": 1},
    ),
    placed(
        "J21 a member is down, in a zone that is there already",
        211,
        f"e3 w3 a2 0:[b1 b2 {DOWN}] closed 9",
        "zone",
        ZONES,
        FAILED,
        {},
    ),
    placed(
        "J22 all in one region",
        212,
        "e3 w3 a2 0:[b1 b2 b3] closed 9",
        "region",
        REGIONS,
        FAILED,
        {},
    ),
]
