"""The ids of ledgers, entries and bookies, and the addresses that bookie ids have.

Hosts, ports and IP addresses, and locations by host and by network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

LedgerId: TypeAlias = int
EntryId: TypeAlias = int
BookieId: TypeAlias = str

LEDGER_ID_MAX = 2**63 - 1
ENTRY_ID_MAX = 2**63 - 1

# The range ":-_" is BookKeeper's own (BookieId.java): it also allows ; < = > ? @ [ \ ] ^
_BOOKIE_ID = re.compile(r"[a-zA-Z0-9:-_.\-]+")


def is_bookie_id(text: str) -> bool:
    """Return whether BookKeeper accepts `text` as a bookie id (BookieId.java; not "readonly")."""
    return _BOOKIE_ID.fullmatch(text) is not None and text.lower() != "readonly"


PORT_MAX = 65_535
PORT_DIGITS_MAX = 9
"""A port has at most this many digits, with leading zeros. Longer numbers are not converted."""

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
Areas: TypeAlias = Mapping[str, str]
"""One source's locations of whole hosts and networks: by host (`bk-1.example`, `10.0.0.1`) and by
network (`10.0.0.0/24`), each in its shortest form."""


def address_of(text: str) -> Address | None:
    """Return the IP address in a text; an IPv4 address in IPv6 form as IPv4.

    None for other text, and for an address that is valid on one machine only (`fe80::1%eth0`).
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return None if address.scope_id else address.ipv4_mapped or address
    return address


def split_host_port(text: str) -> tuple[str, int | None] | None:
    """Return host and port of `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address.

    The host is in lower case, an address in its shortest form. The port is None if there is none.
    None for other text.
    """
    address = address_of(text)
    if address is not None:
        return str(address), None
    host, colon, digits = text.rpartition(":")
    if not colon:
        host, digits = text, ""
    elif text.endswith("]"):
        host, colon, digits = text, "", ""
    if colon and not _is_port(digits):
        return None
    if host.startswith("[") and host.endswith("]"):
        address = address_of(host[1:-1])
        if address is None:
            return None
        host = str(address)
    elif not host or not set(host) <= _HOST_CHARACTERS:
        return None
    return str(address_of(host) or host.lower()), int(digits) if digits else None


def _is_port(digits: str) -> bool:
    return (
        digits.isascii()
        and digits.isdigit()
        and len(digits) <= PORT_DIGITS_MAX
        and 1 <= int(digits) <= PORT_MAX
    )


_HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")


def location_in(areas: Sequence[Areas], bookie_id: BookieId) -> str | None:
    """Return the location that the first source with a match has for the host in a bookie's id.

    Within a source a host has precedence over a network, and a longer prefix over a shorter one.
    None if nothing matches, or the id is not of the form host:port. Host names are not resolved.
    """
    at = split_host_port(bookie_id)
    if at is None or at[1] is None:
        return None
    keys = [at[0], *_networks_around(address_of(at[0]))]
    return next((area[key] for area in areas for key in keys if key in area), None)


def _networks_around(address: Address | None) -> Iterator[str]:
    """Yield every network that contains an address, the smallest first."""
    if address is None:
        return
    for length in range(address.max_prefixlen, -1, -1):
        yield str(ip_network(f"{address}/{length}", strict=False))
