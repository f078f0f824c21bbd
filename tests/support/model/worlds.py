"""Clusters that take the state of the model: `Sandbox` over the embedded cluster, `Real` over real
BookKeeper.

A world remembers its last state, and changes only what differs.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace

from support.model.state import (
    BOOKIES,
    BYTES,
    CLOSED,
    ENDLESS,
    OPEN,
    READONLY,
    UNREGISTERED,
    Bookie,
    Ledger,
)
from support.model.truth import Truth
from support.model.truth_of_facts import NONSENSE
from support.real_cluster import RealCluster

from auditor.sandbox.bookie import LedgerFault, Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.cluster import ledger as metadata_of
from auditor.topology.sources import RACK_MAP

MINUTE_MS = 60_000


class World(ABC):
    """A cluster whose bookies have the model's names."""

    is_real = False

    def __init__(self, cluster: SandboxCluster | RealCluster, bookies: Iterable[str]) -> None:
        self._cluster = cluster
        self._was = replace(Truth.of(bookies, is_real=self.is_real), racks={})

    @property
    def metadata_service_uri(self) -> str:
        """The URI that an audit gets."""
        return self._cluster.metadata_service_uri

    @property
    def at_first(self) -> Truth:
        """The cluster with all bookies up and nothing on them."""
        return Truth.of(self._was.bookies, is_real=self.is_real)

    def become(self, truth: Truth) -> None:
        """Take the state of the model."""
        for name, bookie in truth.bookies.items():
            before = self._was.bookies[name]
            if bookie != before:
                self._bookie(name, bookie, before)
        if truth.racks != self._was.racks:
            racks = {name: {"rack": rack} for name, rack in truth.racks.items()}
            self._cluster.set_raw(RACK_MAP, json.dumps({"default": racks}).encode())
        self._around(truth, self._was)
        for number in truth.ledgers.keys() | self._was.ledgers.keys():
            self._ledger(number, truth)
        self._was = deepcopy(truth)

    def _ledger(self, number: int, truth: Truth) -> None:
        before, ledger = self._was.ledgers.get(number), truth.ledgers.get(number)
        marked = None if ledger is None else ledger.marked_at
        if ledger is None or ledger.deleted:
            if before is not None and not before.deleted:
                self._cluster.delete_ledger(number)
        elif (
            before is None
            or before.deleted
            or _znode(before, self._was.now) != _znode(ledger, truth.now)
        ):
            self._write(number, ledger, truth.now)
        if marked is None:
            if before is not None and before.marked_at is not None:
                self._cluster.unmark(number)
        elif (
            before is None
            or before.marked_at is None
            or self._was.now - before.marked_at != truth.now - marked
        ):
            # The mark's own text has its age: ZooKeeper dates the znode itself.
            self._cluster.mark(
                number, (), int(time.time() * 1000) - (truth.now - marked) * MINUTE_MS
            )
        locked_by = None if ledger is None else ledger.locked_by
        if locked_by != (None if before is None else before.locked_by):
            self._lock(number, locked_by)

    def _write(self, number: int, ledger: Ledger, now: int) -> None:
        if ledger.flaw == BYTES:
            self._cluster.set_raw(number, NONSENSE)
        else:
            made_ms = int(time.time() * 1000) - (now - ledger.made_at) * MINUTE_MS
            self._cluster.add_ledger(
                number, replace(metadata_of(notation(ledger)), ctime_ms=made_ms)
            )

    @abstractmethod
    def _bookie(self, name: str, bookie: Bookie, before: Bookie) -> None:
        """Change the bookie to its new state."""

    @abstractmethod
    def _lock(self, number: int, holder: str | None) -> None:
        """Lock the ledger as a replication worker; None: no worker does."""

    @abstractmethod
    def _around(self, truth: Truth, before: Truth) -> None:
        """Write the state of auto-recovery around the ledgers."""


def notation(ledger: Ledger) -> str:
    """Return the ledger in the notation of the sandbox."""
    quorums = f"e{ledger.ensemble_size} w{ledger.write_quorum} a{ledger.ack_quorum}"
    segments = " ".join(
        f"{segment.first}:[{' '.join(segment.ensemble)}]" for segment in ledger.segments
    )
    if ledger.state != CLOSED:
        return f"{quorums} {segments} {ledger.state.lower()}"
    return f"{quorums} {segments} closed" + (
        "" if ledger.flaw == ENDLESS else f" {ledger.written - 1}"
    )


def _znode(ledger: Ledger, now: int) -> tuple[object, ...]:
    """Return the contents of the znode. An open ledger's creation time moves back as the model's
    time goes on.
    """
    return notation(ledger), ledger.flaw, now - ledger.made_at if ledger.state == OPEN else 0


class Sandbox(World):
    """Over a cluster made with `named=True` and as many bookies as the model has."""

    def __init__(self, cluster: SandboxCluster, bookies: Iterable[str] = BOOKIES) -> None:
        super().__init__(cluster, bookies)
        self._sandbox = cluster

    def _bookie(self, name: str, bookie: Bookie, before: Bookie) -> None:
        for number in before.holds.keys() - bookie.holds.keys():
            self._sandbox.bookie(name).forget(number)
        for number, entries in bookie.holds.items():
            was = before.wrong.get(number, set()) if number in before.holds else set()
            if (entries, bookie.wrong.get(number, set())) != (before.holds.get(number), was):
                self._sandbox.hold(name, number, runs(entries))
                for entry in bookie.wrong.get(number, ()):
                    self._sandbox.corrupt(name, number, entry)
        for number in bookie.mixed_up ^ before.mixed_up:
            self._sandbox.fault(
                name, number, LedgerFault.WRONG_IDS if number in bookie.mixed_up else None
            )
        behaviour = self._sandbox.bookie(name).behaviour
        behaviour.storage = Storage.SORTED if bookie.lists else Storage.DB
        behaviour.refuses = bookie.refuses
        if (bookie.listens, bookie.registered) != (before.listens, before.registered):
            self._presence(name, bookie, before)
        if bookie.cookie != before.cookie:
            (self._sandbox.cookie if bookie.cookie else self._sandbox.delete_cookie)(name)

    def _around(self, truth: Truth, before: Truth) -> None:
        if truth.auditor != before.auditor:
            self._sandbox.elect_auditor(truth.auditor or None)
        if truth.replication_disabled != before.replication_disabled:
            switch = (
                self._sandbox.disable_replication
                if truth.replication_disabled
                else self._sandbox.enable_replication
            )
            switch()
        if truth.lost_bookie_recovery_delay_s != before.lost_bookie_recovery_delay_s:
            self._sandbox.set_lost_bookie_recovery_delay(truth.lost_bookie_recovery_delay_s)

    def _lock(self, number: int, holder: str | None) -> None:
        self._sandbox.lock(number, holder)

    def _presence(self, name: str, bookie: Bookie, before: Bookie) -> None:
        if bookie.listens and not before.listens:
            self._sandbox.start_bookie(name)
        elif before.listens and not bookie.listens:
            self._sandbox.stop_bookie(name)
        if bookie.registered == UNREGISTERED:
            self._sandbox.unregister(name)
        else:
            (self._sandbox.readonly if bookie.registered == READONLY else self._sandbox.register)(
                name
            )


class Real(World):
    """Over real BookKeeper, with a bookie for each of the model's.

    An entry cannot be taken from a real bookie. The bookie is wiped and gets the other entries
    again, as soon as it is up. A bookie that is `gone` lost its disks as well. It comes back empty,
    and is given what the model says it kept.
    """

    is_real = True

    def __init__(self, cluster: RealCluster, bookies: Iterable[str]) -> None:
        super().__init__(cluster, bookies)
        self._real = cluster
        self._stored: dict[str, dict[int, set[int]]] = {name: {} for name in self._was.bookies}

    def _bookie(self, name: str, bookie: Bookie, before: Bookie) -> None:
        if not bookie.listens:
            if before.listens:
                self._stop(name, bookie)
            return
        on_disk = self._stored[name]
        is_less = any(
            entries - bookie.holds.get(number, set()) for number, entries in on_disk.items()
        )
        is_more = any(
            entries - on_disk.get(number, set()) for number, entries in bookie.holds.items()
        )
        restarts = is_less or not before.listens
        if before.registered == READONLY and (is_more or bookie.registered != READONLY):
            restarts = True
        if restarts:
            self._real.lose_bookie(name, cookie=not is_less)
            self._stored[name] = {} if is_less else on_disk
            self._real.start_bookie(name)
        self._fill(name, bookie)
        if bookie.registered == READONLY and (restarts or before.registered != READONLY):
            self._real.readonly(name)

    def _lock(self, number: int, holder: str | None) -> None:
        """Do nothing: no worker is at work there."""

    def _around(self, truth: Truth, before: Truth) -> None:
        """Do nothing: the state stays as it is."""

    def _stop(self, name: str, bookie: Bookie) -> None:
        if bookie.registered == UNREGISTERED:
            self._real.lose_bookie(name, cookie=bookie.cookie)
            if not bookie.cookie:
                self._stored[name] = {}
        else:
            self._real.stop_bookie(name)

    def _fill(self, name: str, bookie: Bookie) -> None:
        for number, entries in bookie.holds.items():
            new = entries - self._stored[name].setdefault(number, set())
            if new:
                self._real.hold(name, number, runs(new))
                self._stored[name][number] |= new


def runs(entries: Iterable[int]) -> list[tuple[int, int]]:
    """Return the entries as inclusive runs."""
    found: list[tuple[int, int]] = []
    for entry in sorted(entries):
        if found and entry == found[-1][1] + 1:
            found[-1] = (found[-1][0], entry)
        else:
            found.append((entry, entry))
    return found
