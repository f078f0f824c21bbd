"""A bookie to locate, its location, and host names and addresses as text."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from auditor.model.identity import BookieId

Address = IPv4Address | IPv6Address


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
    """What one source says of one bookie.

    `matched_by` is for a person: "bookie id", "network 10.0.0.0/24 (line 7)".
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


def address_of(text: str) -> Address | None:
    """Parse an IP address, IPv4 in IPv6 as IPv4.

    None for other text, and for an address with a scope (`fe80::1%eth0`), which only one machine
    understands.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return None if address.scope_id else address.ipv4_mapped or address
    return address


def split_host_port(text: str) -> tuple[str, int | None] | None:
    """Split `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address into host and port.

    The port is None if not given. The host is in lower case, an address in its shortest form. None
    for other text.
    """
    address = address_of(text)
    if address is not None:
        return str(address), None
    host, colon, digits = text.rpartition(":")
    if not colon:
        host, digits = text, ""
    elif text.endswith("]"):
        host, colon, digits = text, "", ""
    if colon and not (digits.isascii() and digits.isdigit() and 1 <= int(digits[:9]) <= 65_535):
        return None
    if host.startswith("[") and host.endswith("]"):
        address = address_of(host[1:-1])
        if address is None:
            return None
        host = str(address)
    elif not host or not set(host) <= _HOST_CHARACTERS:
        return None
    return str(address_of(host) or host.lower()), int(digits) if digits else None


_HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
