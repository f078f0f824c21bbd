"""The cluster around the ledgers: its identity, its bookies, its recovery settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from auditor.model.address import Areas, location_in
from auditor.model.availability import Greeting
from auditor.model.identity import BookieId


class Registration(StrEnum):
    """Where a bookie's registration znode is, if anywhere."""

    WRITABLE = "writable"
    READONLY = "readonly"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class BookieRecord:
    """What the metadata service says of one bookie at one look, and the bookie's greeting.

    `host` and `port` are None if the registration is missing or could not be read. In the latter
    case `problem` says why.
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
