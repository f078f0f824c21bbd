"""Look up locations in a table, by a bookie's id, host name, address or network.

A table file has one line for each bookie, host or network:

    # comment
    bookie-7.example.com:3181   /r1
    10.0.0.0/24                 /region1/r2
    2001:db8::/32               /region1/r3
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

from auditor.config.operator_files import read_small_file
from auditor.errors import ConfigError
from auditor.model.identity import (
    Address,
    Areas,
    BookieId,
    Network,
    address_of,
    is_bookie_id,
    split_host_port,
)
from auditor.wire.locations import normalize_location


@dataclass(frozen=True, slots=True)
class Member:
    """A bookie as sources look for it.

    `host` is a name in lower case, or an address as text; None if it is not known.
    """

    bookie_id: BookieId
    host: str | None = None
    port: int | None = None

    @property
    def address(self) -> Address | None:
        """The host as an address; None for a name or without a host."""
        return None if self.host is None else address_of(self.host)


@dataclass(frozen=True, slots=True)
class Match:
    """What one source knows of one bookie.

    `matched_by` is shown to people: "bookie id", "network 10.0.0.0/24 (line 7)".
    """

    location: str
    matched_by: str


@dataclass(frozen=True, slots=True)
class Located:
    """A bookie's location and its source. Without one, `location` is None and the rest is empty."""

    bookie_id: BookieId
    location: str | None = None
    source: str = ""
    matched_by: str = ""


class Places:
    """The locations in a table or a rack map. Filled with `add` and `add_network`.

    The most exact match wins: bookie id, host with port, host, network with the longest prefix.
    """

    def __init__(self) -> None:
        self.by_id: dict[str, Match] = {}
        self._hosts: dict[tuple[str, int | None], Match | None] = {}
        self._networks: dict[tuple[int, int], dict[int, Match]] = {}
        self._has_addresses = False

    def add(self, key: str, location: str, note: str = "", *, any_port: bool = False) -> None:
        """Add the location of a bookie id, host or host:port.

        `any_port`: host:port also gives the location of other bookies on that host, unless two keys
        of the host have different locations."""
        self.by_id[key] = Match(location, f"bookie id{note}")
        host_port = split_host_port(key)
        if host_port is None:
            return
        host, port = host_port
        is_address = address_of(host) is not None
        self._has_addresses |= is_address
        match = Match(location, f"{'address' if is_address else 'host name'}{note}")
        self._hosts[host, port] = match
        if any_port and port is not None:
            other = self._hosts.setdefault((host, None), match)
            if other is None or other.location != location:
                self._hosts[host, None] = None

    def add_network(self, network: Network, location: str, note: str = "") -> None:
        """Add the location of every bookie whose address is in the network."""
        prefixes = self._networks.setdefault((network.version, network.prefixlen), {})
        prefixes[int(network.network_address)] = Match(location, f"network {network}{note}")

    def areas(self) -> Areas:
        """Return the locations by host, at any port, and by network."""
        hosts = {
            host: at.location for (host, port), at in self._hosts.items() if at and port is None
        }
        return hosts | {
            str((IPv4Network if version == 4 else IPv6Network)((number, length))): match.location
            for (version, length), matches in self._networks.items()
            for number, match in matches.items()
        }

    def needs_addresses(self) -> bool:
        """Return whether addresses of host names are needed to find a match here."""
        return self._has_addresses or bool(self._networks)

    def find(self, member: Member, addresses: Iterable[Address] = ()) -> Match | None:
        """Return the match of a bookie, or None. `addresses`: those of its host name, if known."""
        by_id = self.by_id.get(member.bookie_id)
        if by_id is not None or member.host is None:
            return by_id
        found = self._match_host(member.host, member.port)
        if found is not None:
            return found
        own = member.address
        candidates = sorted(
            {*addresses, *([own] if own else [])},
            key=lambda address: (address.version, int(address)),
        )
        exact = (self._match_host(str(address), member.port) for address in candidates)
        return next((match for match in exact if match), None) or self._in_network(candidates)

    def _match_host(self, host: str, port: int | None) -> Match | None:
        exact = self._hosts.get((host, port)) if port is not None else None
        return exact or self._hosts.get((host, None))

    def _in_network(self, addresses: list[Address]) -> Match | None:
        for version, length in sorted(self._networks, key=lambda key: -key[1]):
            prefixes = self._networks[version, length]
            for address in addresses:
                rest = address.max_prefixlen - length
                match = (
                    prefixes.get(int(address) >> rest << rest)
                    if address.version == version
                    else None
                )
                if match is not None:
                    return match
        return None


TABLE_BYTES_MAX = 4 * 2**20
"""Largest table read, in bytes."""
TABLE_LINES_MAX = 20_000
"""A table has at most this many different keys. No cluster has so many, and every run stores bookie
locations."""
BAD_LINES_SHOWN_MAX = 20
"""An error names at most this many bad lines one by one."""
_COMMENT = re.compile(r"(?:^|\s)#.*")


def read_table(path: Path) -> Places:
    """Read the table in a file. Raises ConfigError; it names BAD_LINES_SHOWN_MAX bad lines."""
    content = read_small_file(path, TABLE_BYTES_MAX, "the topology table")
    if content.startswith(b"#!"):
        raise ConfigError(
            f"the topology table {path} is a script: to have it run, name it alone and make it"
            " executable (chmod +x)"
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"the topology table {path} is not UTF-8 text (line {line})") from None
    places, bad = parse_table(text)
    if bad:
        more = (
            f"; and {len(bad) - BAD_LINES_SHOWN_MAX} lines more"
            if len(bad) > BAD_LINES_SHOWN_MAX
            else ""
        )
        raise ConfigError(
            f"the topology table {path} cannot be used:"
            f" {'; '.join(bad[:BAD_LINES_SHOWN_MAX])}{more}"
        )
    return places


def parse_table(text: str) -> tuple[Places, list[str]]:
    """Return the places in `text`, and a sentence for each line that cannot be used. Pure."""
    places, bad = Places(), []
    seen: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        words = _COMMENT.sub("", line).split()
        if not words:
            continue
        try:
            _add(places, words, number, seen)
        except ValueError as error:
            bad.append(f"line {number}: {error}")
    if len(seen) > TABLE_LINES_MAX:
        bad.append(f"it has more than {TABLE_LINES_MAX} lines")
    return places, bad


def _add(places: Places, words: list[str], number: int, seen: dict[str, tuple[int, str]]) -> None:
    """Add one line to `places`. Raises ValueError with what is wrong."""
    if len(words) != 2:
        raise ValueError(
            f"{len(words)} words, and not a host and its location: write host[:port] /rack"
        )
    location = _location(words[1])
    network = _network(words[0])
    key = str(network or _key(words[0]))
    first, before = seen.setdefault(key, (number, location))
    if before != location:
        raise ValueError(f"{words[0]!a} has location {before} in line {first}, and {location} here")
    if network is not None:
        places.add_network(network, location, f" (line {number})")
    elif first == number:
        places.add(words[0], location, f" (line {number})")


def _location(word: str) -> str:
    try:
        location = normalize_location(word)
    except ValueError as error:
        raise ValueError(f"location {word!a} {error}") from None
    if location is None:
        raise ValueError(f"{word!a} is not a location: leave out what has none")
    return location


def _network(word: str) -> Network | None:
    if "/" not in word:
        return None
    try:
        return ip_network(word)
    except ValueError:
        pass
    try:
        meant = ip_network(word, strict=False)
    except ValueError:
        raise ValueError(f"{word!a} is not a network: write 10.0.0.0/24 or 2001:db8::/32") from None
    raise ValueError(f"{word!a} has bits beyond its prefix: write {meant}")


def _key(word: str) -> str:
    """Return a text for a bookie id, host or host:port that is the same for the same host."""
    if not is_bookie_id(word):
        raise ValueError(f"{word!a} is neither a bookie id nor a host")
    host_port = split_host_port(word)
    if host_port is None or (address_of(host_port[0]) is None and host_port[1] is None):
        return word
    return f"{host_port[0]} {host_port[1]}"
