"""The cluster for faults, the truth about it, and one run through one plan.

Four bookies are behind proxies, and ZooKeeper is behind one. The verdicts that an auditor owes on
eighteen ledgers are written here by hand: sound ones, losses of every severity, a marked and an
open one. Each ledger has another length and another loss, so that no answer and no finding fits two
ledgers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations

from faults.detector import Breach, May, breaches
from faults.harm import Log
from faults.proxy import Proxies, Proxy
from faults.reported import Judged, Loss, Partly, Reported, Sampled
from support.real_cluster import RealCluster

from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster

BOOKIES = ("b1", "b2", "b3", "b4")

Cluster = SandboxCluster | RealCluster

SOUND = Judged("sound")
MARKED = Judged("exempt", "marked_underreplicated")
OPEN = Judged("exempt", "open")
BELOW_WRITE, BELOW_ACK, WITHOUT = (
    Kind.ENTRY_BELOW_WRITE_QUORUM,
    Kind.ENTRY_BELOW_ACK_QUORUM,
    Kind.ENTRY_WITHOUT_REPLICA,
)
UNHEARD = ("answer_invalid", "answer_timeout", "answer_too_large", "bookie_silent")
"""The only reasons for which a silent bookie may make a verdict less than the whole truth."""


def lost(
    kind: Kind,
    entries: tuple[int, int],
    on: tuple[str, ...],
    segment: tuple[int, int],
    copies: tuple[int, int, int, int],
) -> Judged:
    """Return one finding on one run of entries that all these bookies lack, without an unknown
    reason.
    """
    return Judged(
        "violated",
        losses=(
            Loss(kind.value, (entries,), tuple((name, (entries,)) for name in on), segment, copies),
        ),
    )


@dataclass(frozen=True)
class Planted:
    """A ledger: its metadata in the notation, its losses, and the verdict owed."""

    text: str
    truth: Judged
    lose: Mapping[str, str]
    marked: bool = False

    @property
    def bookies(self) -> frozenset[str]:
        """All bookies that its verdict rests on."""
        return frozenset(name for name in BOOKIES if name in self.text)


def _sound(ledger_id: int) -> Planted:
    ensemble = [name for name in BOOKIES if name != BOOKIES[ledger_id % 4]]
    return Planted(f"e3 w2 a2  0:[{' '.join(ensemble)}]  closed {20 + ledger_id}", SOUND, {})


LEDGERS: Mapping[int, Planted] = {
    **{ledger_id: _sound(ledger_id) for ledger_id in range(1, 9)},
    9: Planted(
        "e3 w3 a2  0:[b1 b2 b3]  closed 29",
        lost(BELOW_WRITE, (4, 4), ("b1",), (0, 29), (3, 2, 2, 0)),
        {"b1": "4"},
    ),
    10: Planted(
        "e3 w3 a2  0:[b2 b3 b4]  closed 30",
        lost(BELOW_ACK, (7, 7), ("b2", "b3"), (0, 30), (3, 2, 1, 0)),
        {"b2": "7", "b3": "7"},
    ),
    11: Planted(
        "e3 w2 a2  0:[b1 b3 b4]  closed 31",
        lost(WITHOUT, (4, 4), ("b3", "b4"), (0, 31), (2, 2, 0, 0)),
        {"b3": "4", "b4": "4"},
    ),
    12: Planted(
        "e3 w3 a2  0:[b1 b2 b4]  closed 32",
        lost(BELOW_WRITE, (0, 32), ("b2",), (0, 32), (3, 2, 2, 0)),
        {"b2": "0-32"},
    ),
    13: Planted("e3 w3 a2  0:[b1 b2 b3]  closed 33", MARKED, {"b3": "5"}, marked=True),
    14: Planted("e3 w2 a2  0:[b1 b2 b3]  open", OPEN, {}),
    15: Planted(
        "e3 w2 a2  0:[b1 b2 b3] 20:[b1 b2 b4]  closed 35",
        lost(WITHOUT, (31, 31), ("b2", "b4"), (20, 35), (2, 2, 0, 0)),
        {"b2": "31", "b4": "31"},
    ),
    16: Planted("e3 w2 a2  0:[b1 b2 b3] 20:[b4 b2 b3]  closed 36", SOUND, {}),
    17: Planted(
        "e3 w2 a2  0:[b2 b3 b4]  closed 37",
        lost(BELOW_ACK, (37, 37), ("b3",), (0, 37), (2, 2, 1, 0)),
        {"b3": "37"},
    ),
    18: Planted("e4 w3 a2  0:[b1 b2 b3 b4]  closed 38", SOUND, {}),
}
ALL = frozenset(LEDGERS)


def without(*bookies: str) -> frozenset[int]:
    """Return the ledgers whose verdict rests on none of these bookies."""
    return frozenset(
        ledger_id for ledger_id, planted in LEDGERS.items() if not planted.bookies & set(bookies)
    )


def settle(cluster: Cluster) -> None:
    """Put all ledgers on a cluster of four bookies b1 to b4."""
    for ledger_id, planted in LEDGERS.items():
        cluster.place(
            ledger_id,
            cluster.ledger(planted.text),
            lose=planted.lose,
            written=20 if "open" in planted.text else None,
        )
        if planted.marked:
            cluster.mark(ledger_id, replicas=planted.lose)


def owed(
    ledger_ids: frozenset[int], hidden: frozenset[int] = frozenset(), *, sampled: bool = False
) -> dict[int, frozenset[May]]:
    """Return the permitted verdicts on each ledger if these are owed.

    A ledger that is not owed may get the truth, or the part of it that is heard, with the reason
    for the missing part, while a fault is on before the silent bookies. No ledger may be accused of
    more than is true, or be unknown because it is poison or the checkers differ. `hidden`: a wrong
    answer passed for a right one, so that a loss may be taken for sound. `sampled`: a bookie cannot
    list, and what is not owed may rest on a sample, if the verdict says so.
    """
    allowed = {}
    for ledger_id, planted in LEDGERS.items():
        may_be: set[May] = {planted.truth}
        if ledger_id not in ledger_ids:
            may_be |= set(_partly_heard(planted))
            may_be |= {Sampled(planted.truth, planted.bookies)} if sampled else set()
        if ledger_id in hidden:
            may_be |= {SOUND}
        allowed[ledger_id] = frozenset(may_be)
    return allowed


def _partly_heard(planted: Planted) -> Iterator[Partly]:
    """Yield the permitted verdicts while some bookies are not heard, each with every possible
    reason.
    """
    truth = planted.truth
    lacking = frozenset(name for loss in truth.losses for name, _ in loss.missing_on)
    known = [
        ((), lacking, 1),
        *(((loss,), unheard, n) for whole in truth.losses for loss, unheard, n in _less(whole)),
    ]
    for losses, unheard, count in known:
        standing = "violated" if losses else "exempt" if truth == OPEN else "indeterminate"
        for number in range(1, len(UNHEARD) + 1):
            for reasons in combinations(UNHEARD, number):
                yield Partly(
                    Judged(standing, truth.exempt, reasons, losses), planted.bookies, unheard, count
                )


def _less(truth: Loss) -> Iterator[tuple[Loss, frozenset[str], int]]:
    """Yield each weaker form of a loss that may be reported while some copies are not heard.

    Unheard copies may exist, so it is never worse than the truth. Each comes with the bookies that
    lack entries and are not heard, and with the number of unheard ones (at least one, because there
    is a reason).
    """
    assert truth.copies is not None
    write, ack, confirmed, _ = truth.copies
    for count in range(1, len(truth.missing_on) + 1):
        there = write - count
        kind = WITHOUT if there == 0 else BELOW_ACK if there < ack else BELOW_WRITE
        for lacking in combinations(truth.missing_on, count):
            unheard = frozenset(name for name, _ in truth.missing_on) - {
                name for name, _ in lacking
            }
            for heard in range(confirmed + 1):
                loss = Loss(
                    kind.value,
                    truth.entries,
                    lacking,
                    truth.segment,
                    (write, ack, heard, there - heard),
                )
                yield loss, unheard, max(1, there - heard)


@contextmanager
def act(cluster: Cluster, seed: int) -> Iterator[Act]:
    """Yield one run's new proxies, and its log."""
    with Proxies() as proxies:
        yield Act(cluster, proxies, seed)


class Act:
    """One run: its proxies by name ("zookeeper" is one) and its log. `metadata_service_uri` leads
    only to them.
    """

    def __init__(self, cluster: Cluster, proxies: Proxies, seed: int) -> None:
        self.cluster = cluster
        self.log = Log()
        self.proxies = proxies
        self.by_name: dict[str, Proxy] = {}
        for bookie in BOOKIES:
            proxy = proxies.before_bookie(bookie, cluster.address(bookie), self.log, seed)
            cluster.register(bookie, proxy.registration)
            self.by_name[bookie] = proxy
        zookeeper = self.by_name["zookeeper"] = proxies.before_zookeeper(
            cluster.zookeeper_hosts, self.log, seed
        )
        self.metadata_service_uri = cluster.metadata_service_uri.replace(
            cluster.zookeeper_hosts, zookeeper.hosts
        )

    def second_look(self, pause: int, *, heal: bool) -> None:
        """End an epoch, and with it transient faults, in a pause."""
        self.log.mark(f"pause {pause}", heals=heal)
        if heal:
            self.proxies.heal()

    def breaches(self, reported: Reported, owed: Mapping[int, frozenset[May]]) -> list[Breach]:
        """Return what the detector finds."""
        return breaches(self.log, reported, owed)
