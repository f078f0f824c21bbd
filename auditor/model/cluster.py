"""The cluster around the ledgers: its identity, its bookies, its recovery settings.

Also the ledgers whose metadata names one bookie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from auditor.model.availability import Greeting
from auditor.model.identity import Areas, BookieId, LedgerId, location_in
from auditor.model.ledger import LedgerState


class Registration(StrEnum):
    """Where a bookie's registration znode is, if anywhere."""

    WRITABLE = "writable"
    READONLY = "readonly"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class BookieRecord:
    """What the metadata service says of one bookie at one look, and the bookie's greeting.

    `host` and `port` are None if the registration is missing or could not be read. In the latter
    case `problem` says why. `total_bytes` and `free_bytes` are what the bookie said of the disks of
    its ledger directories, None if it did not. Bookies on one host may share disks.

    The other fields are from the cookie's znode: `cookie_czxid` and `cookie_created_ms` from its
    creation, the instance id and the ledger directories from its text. They are None without a
    cookie, and if it could not be read or does not say it.
    """

    bookie_id: BookieId
    look: int
    read_at_ms: int
    registration: Registration
    host: str | None = None
    port: int | None = None
    has_cookie: bool = False
    problem: str = ""
    greeting: Greeting | None = None
    greeting_detail: str = ""
    total_bytes: int | None = None
    free_bytes: int | None = None
    cookie_czxid: int | None = None
    cookie_created_ms: int | None = None
    cookie_instance_id: str | None = None
    cookie_directories: tuple[str, ...] | None = None

    @property
    def is_registered(self) -> bool:
        """Whether the bookie is registered, writable or read-only."""
        return self.registration is not Registration.NONE


def newest_records(records: Iterable[BookieRecord]) -> dict[BookieId, BookieRecord]:
    """Return each bookie's record of the last look that has one."""
    return {record.bookie_id: record for record in sorted(records, key=lambda record: record.look)}


BookieLook: TypeAlias = Mapping[BookieId, BookieRecord]
"""The bookies as one look had them."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The state of the cluster on which a ledger's verdict depends, when the run began.

    `locations` are the assigned ones (`/rack`, `/region/rack`, `/zone/upgradeDomain`), also of
    bookies that are down; bookies without a location are left out. `areas` have the locations of
    hosts and networks, for bookies that only ledgers name. `auditor` is the bookie id of the
    elected auditor, None if none is elected. `maintenance`: bookies known to be down, as the
    operator says.
    """

    writable: frozenset[BookieId] = frozenset()
    readonly: frozenset[BookieId] = frozenset()
    locations: Mapping[BookieId, str] = field(default_factory=dict)
    auditor: str | None = None
    replication_disabled: bool = False
    maintenance: frozenset[BookieId] = frozenset()
    areas: tuple[Areas, ...] = ()

    def location_of(self, bookie: BookieId) -> str | None:
        """Return the assigned location of a bookie, None if no source has one.

        Ledgers may name a bookie that is not registered: no source was asked for it, and it is
        found by the host in its id. For a registered bookie the sources have said all they know.
        """
        assigned = self.locations.get(bookie)
        if assigned is not None or bookie in self.writable or bookie in self.readonly:
            return assigned
        return location_in(self.areas, bookie)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts about the whole cluster in one run. Old clusters may lack an `instance_id`.

    `lost_bookie_recovery_delay_s` is the value of the znode of that name in seconds, None without
    such a znode. `session_timeout_ms` is the zkTimeout of BookKeeper that we assume.
    """

    metadata_service_uri: str
    hosts: tuple[str, ...]
    root: str
    layout: str
    instance_id: str | None
    replication_disabled: bool
    lost_bookie_recovery_delay_s: int | None
    session_timeout_ms: int = 10_000

    def is_of(self, instance_id: str | None, root: str | None, hosts: Iterable[str]) -> bool:
        """Return whether the arguments describe this cluster.

        The instance id decides. If neither side has one, ROOT and the hosts decide.
        """
        if self.instance_id is not None or instance_id is not None:
            return self.instance_id == instance_id
        return self.root == root and sorted(self.hosts) == sorted(hosts)


@dataclass(frozen=True, slots=True)
class NamingLedger:
    """A ledger whose metadata names the bookie, in `segments_naming` of its `segments`.

    `entries` is how many of its entries the bookie should hold; None if the ledger is not closed or
    its metadata contradicts itself. `is_marked` is None if the marks cannot be read.
    """

    ledger_id: LedgerId
    state: LedgerState
    segments: int
    segments_naming: int
    entries: int | None
    is_marked: bool | None

    @property
    def is_waited_for(self) -> bool:
        """Whether a decommission waits for this ledger: the bookie may hold entries of it."""
        return self.entries != 0


@dataclass(frozen=True, slots=True)
class Naming:
    """Which ledgers name one bookie. `bookie` is None if it has neither registration nor cookie.

    `listed` counts the ledger ids. `unread` counts those whose metadata could not be read or
    decoded: they may name the bookie too. `unread_shown` are a few of these, each with the reason.
    """

    bookie_id: BookieId
    bookie: BookieRecord | None
    marks_problem: str = ""
    listed: int = 0
    unread: int = 0
    unread_shown: tuple[tuple[LedgerId, str], ...] = ()
    ledgers: tuple[NamingLedger, ...] = ()

    def count(self, *states: LedgerState) -> int:
        """Return how many of the ledgers that name the bookie are in one of these states."""
        return sum(ledger.state in states for ledger in self.ledgers)

    @property
    def marked_count(self) -> int:
        """How many of the ledgers that name the bookie are known to be marked under-replicated."""
        return sum(ledger.is_marked is True for ledger in self.ledgers)

    @property
    def blocking_count(self) -> int:
        """How many of the ledgers that name the bookie block its decommission."""
        return sum(ledger.is_waited_for for ledger in self.ledgers)

    @property
    def is_complete(self) -> bool:
        """Whether everything is known: at least one ledger was listed, and all could be read."""
        return self.listed > 0 and self.unread == 0 and not self.marks_problem

    @property
    def is_unheard_of(self) -> bool:
        """Whether neither ZooKeeper nor a ledger names the bookie. Its id is probably misspelt."""
        return self.bookie is None and not self.ledgers
