"""Read a table of locations from a file, with one line for each bookie, host or network.

# comment
bookie-7.example.com:3181   /r1
10.0.0.0/24                 /region1/r2
2001:db8::/32               /region1/r3
"""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path

from auditor.config.small_file import read_small_file
from auditor.errors import ConfigError
from auditor.model.address import Network, address_of, split_host_port
from auditor.model.identity import is_bookie_id
from auditor.topology.places import Places
from auditor.wire.locations import normal

TABLE_BYTES_MAX = 4 * 2**20
"""Largest table read, in bytes."""
TABLE_LINES_MAX = 20_000
"""Most different keys in a table. No cluster has so many, and every run stores bookie locations."""
BAD_LINES_SHOWN_MAX = 20
"""Bad lines that an error names one by one."""
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
        location = normal(word)
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
