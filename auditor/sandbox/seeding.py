"""The stories of `auditor demo`: for each kind of finding something that has it, beside a twin that differs in one fact.

The stories use eight bookies: b1 to b5 are well, b6 is registered and nobody listens, b7 and b8 are lost. A kind that joins the
catalogue needs a story here, or nothing is seeded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from auditor.model.finding import CATALOGUE, Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.model.verdict import Exempt
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.sound_ledgers import sound_ledgers

DEMO_BOOKIES = 8
SILENT, LOST, LOST_AND_MARKED = "b6", "b7", "b8"
STORY_LEDGER_FIRST = 100
"""Ledgers 100, 110, ... tell the stories of the catalogue, in its order; their twins are 101, 111, ..."""
EXEMPT_LEDGER_FIRST = 50
SOUND_LEDGERS = 200
MARK_AGE_MS = 10 * 24 * 3600 * 1000
"""How long ago, says its ctime field, the ledger was marked whose mark is beyond any grace: ten days."""


@dataclass(frozen=True, slots=True)
class Story:
    """Something that has a finding of `kind`, and a twin that has none and differs in one fact, which `told` names.

    Both are ledger ids or both bookie ids, as the catalogue has it. `ledger_ids` are the ledgers that tell it, the twin's last.
    """

    kind: Kind
    ledger_or_bookie: LedgerId | BookieId
    twin: LedgerId | BookieId
    told: str
    ledger_ids: tuple[LedgerId, ...]


Teller: TypeAlias = Callable[[SandboxCluster, LedgerId], Story]
TELLERS: dict[Kind, Teller] = {}
"""How each kind is told: writes ledger `n` and its twin `n + 1`."""


def tells(kind: Kind) -> Callable[[Teller], Teller]:
    """Enter the decorated function as the teller of `kind`."""

    def enter(teller: Teller) -> Teller:
        assert kind not in TELLERS, f"{kind} is told twice"
        TELLERS[kind] = teller
        return teller

    return enter


def seed_stories(cluster: SandboxCluster) -> list[Story]:
    """Write a story of every kind in the catalogue. The cluster has at least DEMO_BOOKIES bookies and none of these ledgers."""
    untold = [kind.value for kind in CATALOGUE if kind not in TELLERS]
    assert not untold, f"no story tells {', '.join(untold)}: add one to {__name__}"
    assert len(cluster.bookie_ids) >= DEMO_BOOKIES, f"the stories need {DEMO_BOOKIES} bookies"
    cluster.stop_bookie(SILENT)
    for bookie in (LOST, LOST_AND_MARKED):
        cluster.lose_bookie(bookie)
    return [TELLERS[kind](cluster, STORY_LEDGER_FIRST + 10 * number) for number, kind in enumerate(CATALOGUE)]


def seed_exempt(cluster: SandboxCluster) -> dict[Exempt, LedgerId]:
    """Write a ledger for each reason not to judge one that can be set up beforehand (all but `deleted`)."""
    first = EXEMPT_LEDGER_FIRST
    ledgers = {
        Exempt.OPEN: (first, "e3 w2 a2 0:[b1 b2 b3] open"),
        Exempt.IN_RECOVERY: (first + 1, "e3 w2 a2 0:[b2 b3 b4] in_recovery"),
        Exempt.EMPTY: (first + 2, "e3 w2 a2 0:[b3 b4 b5] closed -1"),
        Exempt.MARKED_UNDERREPLICATED: (first + 3, "e3 w2 a2 0:[b1 b2 b3] closed 99"),
    }
    for reason, (ledger_id, text) in ledgers.items():
        marked = reason is Exempt.MARKED_UNDERREPLICATED
        lose = {"b2": "30-40"} if marked else {}
        cluster.place(ledger_id, _owned(cluster.ledger(text), f"{reason.value}-ledger"), lose)
        if marked:
            cluster.mark(ledger_id, ["b2"])
    return {reason: ledger_id for reason, (ledger_id, _) in ledgers.items()}


def seed_sound(cluster: SandboxCluster, count: int = SOUND_LEDGERS) -> tuple[LedgerId, ...]:
    """Write `count` sound ledgers of many shapes onto b1 to b5. About a second for 200."""
    ledgers = {ledger_id: cluster.ledger(text) for ledger_id, text in sound_ledgers(count)}
    owned = {ledger_id: _owned(metadata, f"topic-{ledger_id}") for ledger_id, metadata in ledgers.items()}
    cluster.add_ledgers(owned)
    for ledger_id, metadata in owned.items():
        cluster.spread(ledger_id, metadata)
    return tuple(owned)


@contextmanager
def demo_cluster(workdir: Path) -> Iterator[tuple[SandboxCluster, list[Story]]]:
    """A running cluster with every story, what is exempt, and SOUND_LEDGERS sound ledgers. Up in about three seconds.

    Raises StoreUnavailable when ZooKeeper does not start, SparkUnavailable when there is no Java.
    """
    with SandboxCluster(workdir, DEMO_BOOKIES, named=True) as cluster:
        seed_sound(cluster)
        seed_exempt(cluster)
        yield cluster, seed_stories(cluster)


@tells(Kind.ENTRY_WITHOUT_REPLICA)
def _without_replica(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = "e3 w2 a2 0:[b1 b2 b3] closed 99"
    told = f"Entry 42 of ledger {n} is on neither b1 nor b2, where it belongs; ledger {n + 1} has it on both."
    return _ledgers(cluster, Kind.ENTRY_WITHOUT_REPLICA, n, text, {"b1": "42", "b2": "42"}, told)


@tells(Kind.ENTRY_BELOW_ACK_QUORUM)
def _below_ack_quorum(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = "e5 w3 a2 0:[b1 b2 b3 b4 b5] 1200:[b1 b2 b3 b5 b4] closed 1999"
    told = (
        f"Entry 1504 of ledger {n} was acknowledged by two bookies at least and is on one, b2; in ledger {n + 1} on all three."
    )
    return _ledgers(cluster, Kind.ENTRY_BELOW_ACK_QUORUM, n, text, {"b4": "1504", "b1": "1504"}, told)


@tells(Kind.ENTRY_BELOW_WRITE_QUORUM)
def _below_write_quorum(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = "e3 w3 a2 0:[b2 b3 b4] closed 499"
    told = f"Bookie b3 lacks entries 100 to 199 of ledger {n}, two copies are left of each; in ledger {n + 1} it has them."
    return _ledgers(cluster, Kind.ENTRY_BELOW_WRITE_QUORUM, n, text, {"b3": "100-199"}, told)


@tells(Kind.ENSEMBLE_DUPLICATE_BOOKIE)
def _duplicate_bookie(cluster: SandboxCluster, n: LedgerId) -> Story:
    # Entry 2 would be the first whose write set is b1 twice, a copy short: with two entries the ensemble is all that is wrong.
    _place(cluster, n, "e3 w2 a2 0:[b1 b2 b1] closed 1")
    _place(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b3] closed 1")
    told = f"The ensemble of ledger {n} names b1 twice; in ledger {n + 1} the third bookie is another, b3."
    return Story(Kind.ENSEMBLE_DUPLICATE_BOOKIE, n, n + 1, told, (n, n + 1))


@tells(Kind.UNDERREPLICATED_BEYOND_GRACE)
def _beyond_grace(cluster: SandboxCluster, n: LedgerId) -> Story:
    for ledger_id in (n, n + 1):
        _place(cluster, ledger_id, "e3 w2 a2 0:[b1 b2 b3] closed 49")
    cluster.mark(n, ["b3"], int(time.time() * 1000) - MARK_AGE_MS)
    told = f"Ledger {n} was marked under-replicated ten days ago, and still is; ledger {n + 1} is not marked."
    return Story(Kind.UNDERREPLICATED_BEYOND_GRACE, n, n + 1, told, (n, n + 1))


@tells(Kind.BOOKIE_SILENT_YET_REGISTERED)
def _silent_yet_registered(cluster: SandboxCluster, n: LedgerId) -> Story:
    _place(cluster, n, f"e3 w2 a2 0:[b1 b2 {SILENT}] closed 49")
    _place(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b5] closed 49")
    told = f"Bookie {SILENT}, named by ledger {n}, is registered and nobody listens; b5, named by ledger {n + 1}, answers."
    ids = cluster.id_of(SILENT), cluster.id_of("b5")
    return Story(Kind.BOOKIE_SILENT_YET_REGISTERED, *ids, told, (n, n + 1))


@tells(Kind.BOOKIE_LOST_UNNOTICED)
def _lost_unnoticed(cluster: SandboxCluster, n: LedgerId) -> Story:
    _place(cluster, n, f"e3 w2 a2 0:[b1 {LOST} b3] closed 49")
    _place(cluster, n + 1, f"e3 w2 a2 0:[b1 {LOST_AND_MARKED} b3] closed 49")
    cluster.mark(n + 1, [LOST_AND_MARKED])
    told = (
        f"Bookies {LOST} and {LOST_AND_MARKED} are gone, registration and cookie too. Ledger {n}, which names {LOST}, is not"
        f" marked under-replicated: nobody knows. Ledger {n + 1}, which names {LOST_AND_MARKED}, is."
    )
    ids = cluster.id_of(LOST), cluster.id_of(LOST_AND_MARKED)
    return Story(Kind.BOOKIE_LOST_UNNOTICED, *ids, told, (n, n + 1))


@tells(Kind.METADATA_MALFORMED)
def _malformed(cluster: SandboxCluster, n: LedgerId) -> Story:
    _place(cluster, n, "e3 w2 a2 0:[b3 b4 b5] closed", written=49)
    _place(cluster, n + 1, "e3 w2 a2 0:[b3 b4 b5] closed 49")
    told = f"Ledger {n} is closed and its metadata does not say at which entry; that of ledger {n + 1} says 49."
    return Story(Kind.METADATA_MALFORMED, n, n + 1, told, (n, n + 1))


def _ledgers(cluster: SandboxCluster, kind: Kind, n: LedgerId, text: str, lose: dict[str, str], told: str) -> Story:
    """Two ledgers told alike, the first without what it loses."""
    _place(cluster, n, text, lose)
    _place(cluster, n + 1, text)
    return Story(kind, n, n + 1, told, (n, n + 1))


def _place(
    cluster: SandboxCluster, ledger_id: LedgerId, text: str, lose: dict[str, str] | None = None, written: int | None = None
) -> None:
    cluster.place(ledger_id, _owned(cluster.ledger(text), f"story-{ledger_id}"), lose, written=written)


def _owned(metadata: LedgerMetadata, topic: str) -> LedgerMetadata:
    """The ledger as Pulsar would have written it for a topic; format 1 has no place for that."""
    if metadata.format_version == 1:
        return metadata
    name = f"public/default/persistent/{topic}"
    owner = {"application": "pulsar", "component": "managed-ledger", "pulsar/managed-ledger": name}
    return replace(metadata, custom_metadata=tuple((key, value.encode()) for key, value in owner.items()))
