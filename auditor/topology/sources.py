"""The sources of locations: a table file, Pulsar's rack map in ZooKeeper, or a script."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from auditor.config import Settings
from auditor.errors import ConfigError
from auditor.model.address import Address, Areas
from auditor.model.identity import BookieId
from auditor.topology.member import Match, Member
from auditor.topology.places import Places
from auditor.topology.script import Script, ScriptFailure
from auditor.topology.table_file import read_table
from auditor.wire import locations
from auditor.wire.locations import normal

ZOOKEEPER = "zookeeper"
RACK_MAP = "/bookies"
"""Pulsar's rack map, beside ROOT or at the top."""
Raw = Callable[[str], bytes | None]
"""Returns the bytes of the znode at an absolute path; None if there is none."""
Resolve = Callable[[Sequence[str]], Mapping[str, tuple[Address, ...]]]
"""Returns the addresses of host names. A name that was not resolved is missing or has none."""


class Source(Protocol):
    """One source of locations. `problems` are sentences on what it could not say when asked."""

    name: str
    problems: list[str]

    def load(self, raw: Raw, rack_map_paths: Sequence[str]) -> None:
        """Read what the source needs from ZooKeeper."""

    def find(self, members: Sequence[Member], resolve: Resolve) -> dict[BookieId, Match]:
        """Return the matches of the members that the source knows."""

    def known_bookies(self) -> Mapping[BookieId, Match]:
        """Return all bookies that the source knows by id, requested or not."""

    def areas(self) -> Areas | None:
        """Return the hosts and networks it knows; None if the source must be asked for each
        bookie.
        """


class PlacesSource:
    """Locations that are known before any bookie is asked for: a table file, or Pulsar's rack map.

    Without `places` it is the rack map, which `load` reads.
    """

    def __init__(self, name: str, places: Places | None = None) -> None:
        self.name = name
        self.problems: list[str] = []
        self._from_zookeeper = places is None
        self._places = places or Places()

    def load(self, raw: Raw, rack_map_paths: Sequence[str]) -> None:
        if not self._from_zookeeper:
            return
        self._places = Places()
        for path in rack_map_paths:
            data = raw(path)
            if data is not None:
                self.name = f"{ZOOKEEPER} {path}"
                found = locations.decode_rack_map(data)
                self.problems.extend(f"znode {path}: {problem}" for problem in found.problems)
                for key, location in found.locations.items():
                    self._places.add(key, location, any_port=True)
                return
        self.problems.append(
            f"there is no rack map in ZooKeeper: no znode {' and no '.join(rack_map_paths)} that"
            " can be read"
        )

    def find(self, members: Sequence[Member], resolve: Resolve) -> dict[BookieId, Match]:
        found = {
            member.bookie_id: match
            for member in members
            if (match := self._places.find(member)) is not None
        }
        if not self._places.needs_addresses():
            return found
        rest = [
            m
            for m in members
            if m.bookie_id not in found and m.host is not None and m.address is None
        ]
        addresses = resolve([member.host for member in rest if member.host])
        for member in rest:
            match = self._places.find(member, addresses.get(member.host or "", ()))
            if match is not None:
                found[member.bookie_id] = match
        return found

    def known_bookies(self) -> Mapping[BookieId, Match]:
        return self._places.by_id

    def areas(self) -> Areas | None:
        return self._places.areas()


class ScriptSource:
    """A script that gets the addresses of the bookies that no earlier source knew."""

    def __init__(self, script: Script) -> None:
        self.name = str(script.path)
        self.problems: list[str] = []
        self._script = script

    def load(self, raw: Raw, rack_map_paths: Sequence[str]) -> None:
        """Do nothing: `find` calls the script."""

    def find(self, members: Sequence[Member], resolve: Resolve) -> dict[BookieId, Match]:
        names = [member.host for member in members if member.host and member.address is None]
        resolved = resolve(names) if names else {}
        addresses: dict[BookieId, str] = {}
        for member in members:
            address = member.address or next(iter(resolved.get(member.host or "", ())), None)
            if address is not None:
                addresses[member.bookie_id] = str(address)
        known: dict[str, str] = {}
        wanted, size = sorted(set(addresses.values())), self._script.args_max
        for start in range(0, len(wanted), size):
            known |= self._ask_script(wanted[start : start + size])
        return {
            bookie_id: Match(known[address], f"address {address}")
            for bookie_id, address in addresses.items()
            if address in known
        }

    def known_bookies(self) -> Mapping[BookieId, Match]:
        return {}

    def areas(self) -> Areas | None:
        return None

    def _ask_script(self, addresses: Sequence[str]) -> dict[str, str]:
        """Call the script once; return the locations of the addresses that have one."""
        try:
            words = self._script.locations(addresses)
        except ScriptFailure as failure:
            more = f" and {len(addresses) - 1} more" if len(addresses) > 1 else ""
            self.problems.append(
                f"the topology script {self.name}, asked for {addresses[0]}{more}, {failure}"
            )
            return {}
        known = {}
        for address, word in zip(addresses, words, strict=True):
            try:
                location = normal(word)
            except ValueError as error:
                self.problems.append(
                    f"the topology script {self.name} has {word[:100]!a} for {address}, which"
                    f" {error}"
                )
                continue
            if location is not None:
                known[address] = location
        return known


def sources_of(settings: Settings) -> list[Source]:
    """Return the sources of `--topology`, in order. Read tables and try scripts, nothing else.

    Raises ConfigError for a missing file, for a table with bad lines, and for a script that cannot
    be started.
    """
    return [_source(item, settings) for item in settings.topology or ()]


def _source(item: str, settings: Settings) -> Source:
    if item == ZOOKEEPER:
        return PlacesSource(ZOOKEEPER)
    kind, colon, rest = item.partition(":")
    said = kind if colon and kind in ("file", "script") else ""
    path = Path(rest if said else item).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"--topology {item}: there is no file {path}. Write a table file, an executable script,"
            f" or {ZOOKEEPER} for Pulsar's rack map, with commas between several"
        )
    executable = os.access(path, os.X_OK)
    if said == "file" or (not said and not executable):
        return PlacesSource(str(path), read_table(path))
    if not executable:
        raise ConfigError(f"--topology {item}: {path} is not executable: chmod +x {path}")
    script = Script(
        path.absolute(),
        settings.topology_script_args_max,
        settings.topology_script_timeout_ms / 1000,
    )
    source = ScriptSource(script)
    refused = script.check()
    if refused:
        source.problems.append(refused)
    return source
