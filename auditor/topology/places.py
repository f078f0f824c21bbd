"""Look up locations by a bookie's id, host name, address or network."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network

from auditor.model.address import Address, Areas, Network, address_of, split_host_port
from auditor.topology.member import Match, Member


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
        """Return whether the address of a host name could match anything here."""
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
