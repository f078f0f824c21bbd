"""The cluster on which faults are played, the truth about it, and one run through one plan.

Four bookies behind proxies, and ZooKeeper behind one. Eighteen ledgers, and what an auditor must say of each is written down
here by hand: sound ones, losses of every severity, a marked and an open one. Each is of another length, so that no answer about
one could be one about another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from faults.detector import Breach, Judged, Told, breaches
from faults.harm import Log
from faults.proxy import Proxies, Proxy
from support.real_cluster import RealCluster

from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster

BOOKIES = ("b1", "b2", "b3", "b4")

Cluster = SandboxCluster | RealCluster

SOUND = Judged("sound")
EXEMPT = Judged("exempt")
UNKNOWN = Judged("indeterminate")


def violated(kind: Kind) -> Judged:
    """One finding, and no reason to be unknown."""
    return Judged("violated", (kind.value,))


@dataclass(frozen=True)
class Planted:
    """A ledger: its metadata as the notation has it, what is lost of it, and what must be said of it."""

    text: str
    truth: Judged
    lose: Mapping[str, str]
    marked: bool = False

    @property
    def bookies(self) -> frozenset[str]:
        """All that its verdict rests on."""
        return frozenset(name for name in BOOKIES if name in self.text)


def _sound(ledger_id: int) -> Planted:
    ensemble = [name for name in BOOKIES if name != BOOKIES[ledger_id % 4]]
    return Planted(f"e3 w2 a2  0:[{' '.join(ensemble)}]  closed {20 + ledger_id}", SOUND, {})


LEDGERS: Mapping[int, Planted] = {
    **{ledger_id: _sound(ledger_id) for ledger_id in range(1, 9)},
    9: Planted("e3 w3 a2  0:[b1 b2 b3]  closed 29", violated(Kind.ENTRY_BELOW_WRITE_QUORUM), {"b1": "4"}),
    10: Planted("e3 w3 a2  0:[b2 b3 b4]  closed 30", violated(Kind.ENTRY_BELOW_ACK_QUORUM), {"b2": "7", "b3": "7"}),
    11: Planted("e3 w2 a2  0:[b1 b3 b4]  closed 31", violated(Kind.ENTRY_WITHOUT_REPLICA), {"b3": "4", "b4": "4"}),
    12: Planted("e3 w3 a2  0:[b1 b2 b4]  closed 32", violated(Kind.ENTRY_BELOW_WRITE_QUORUM), {"b2": "0-32"}),
    13: Planted("e3 w3 a2  0:[b1 b2 b3]  closed 33", EXEMPT, {"b3": "5"}, marked=True),
    14: Planted("e3 w2 a2  0:[b1 b2 b3]  open", EXEMPT, {}),
    15: Planted(
        "e3 w2 a2  0:[b1 b2 b3] 20:[b1 b2 b4]  closed 35", violated(Kind.ENTRY_WITHOUT_REPLICA), {"b2": "31", "b4": "31"}
    ),
    16: Planted("e3 w2 a2  0:[b1 b2 b3] 20:[b4 b2 b3]  closed 36", SOUND, {}),
    17: Planted("e3 w2 a2  0:[b2 b3 b4]  closed 37", violated(Kind.ENTRY_BELOW_ACK_QUORUM), {"b3": "37"}),
    18: Planted("e4 w3 a2  0:[b1 b2 b3 b4]  closed 38", SOUND, {}),
}
ALL = frozenset(LEDGERS)
LOSSES = frozenset(ledger_id for ledger_id, planted in LEDGERS.items() if planted.truth.standing == "violated")
SEVERITY = (Kind.ENTRY_BELOW_WRITE_QUORUM, Kind.ENTRY_BELOW_ACK_QUORUM, Kind.ENTRY_WITHOUT_REPLICA)
"""From the mildest on: while a bookie is not heard, a loss that it might undo is said to be milder, never to be worse."""


def without(*bookies: str) -> frozenset[int]:
    """Ledgers whose verdict rests on none of these bookies."""
    return frozenset(ledger_id for ledger_id, planted in LEDGERS.items() if not planted.bookies & set(bookies))


def settle(cluster: Cluster) -> None:
    """Put all ledgers onto a cluster of four bookies that are called b1 to b4."""
    for ledger_id, planted in LEDGERS.items():
        cluster.place(
            ledger_id, cluster.ledger(planted.text), lose=planted.lose, written=20 if "open" in planted.text else None
        )
        if planted.marked:
            cluster.mark(ledger_id, replicas=planted.lose)


def owed(ledger_ids: frozenset[int], hidden: frozenset[int] = frozenset()) -> dict[int, frozenset[Judged]]:
    """What may be said of each ledger when these are owed their verdict.

    Of one that is not owed: the truth, or that it is unknown, with the true loss or a milder one. `hidden`: a wrong answer
    passed for a right one, so that a loss may even be taken for sound; no ledger may ever be accused of more than is true.
    """
    allowed = {}
    for ledger_id, planted in LEDGERS.items():
        may_be = {planted.truth}
        if ledger_id not in ledger_ids:
            may_be |= {UNKNOWN, *_milder(planted.truth)}
        if ledger_id in hidden:
            may_be |= {SOUND}
        allowed[ledger_id] = frozenset(may_be)
    return allowed


def _milder(truth: Judged) -> list[Judged]:
    """A loss as it is told while some copies are not heard of."""
    kinds = [violated(kind) for kind in SEVERITY]
    return kinds[: kinds.index(truth)] if truth in kinds else []


@contextmanager
def act(cluster: Cluster, seed: int) -> Iterator[Act]:
    """One run's proxies, fresh, and its log."""
    with Proxies() as proxies:
        yield Act(cluster, proxies, seed)


class Act:
    """One run: its proxies by name ("zookeeper" is one) and its log. `metadata_service_uri` leads to nothing but them."""

    def __init__(self, cluster: Cluster, proxies: Proxies, seed: int) -> None:
        self.cluster = cluster
        self.log = Log()
        self.proxies = proxies
        self.by_name: dict[str, Proxy] = {}
        for bookie in BOOKIES:
            proxy = proxies.before_bookie(bookie, cluster.address(bookie), self.log, seed)
            cluster.register(bookie, proxy.registration)
            self.by_name[bookie] = proxy
        zookeeper = self.by_name["zookeeper"] = proxies.before_zookeeper(cluster.zookeeper_hosts, self.log, seed)
        self.metadata_service_uri = cluster.metadata_service_uri.replace(cluster.zookeeper_hosts, zookeeper.hosts)

    def second_look(self, pause: int, *, heal: bool) -> None:
        """What happens in a pause: an epoch ends, and transient faults are over."""
        self.log.mark(f"pause {pause}")
        if heal:
            self.proxies.heal()

    def breaches(self, told: Told, owed: Mapping[int, frozenset[Judged]]) -> list[Breach]:
        """What the detector finds."""
        return breaches(self.log, told, owed)
