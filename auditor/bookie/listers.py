"""Find listers: beside each bookie at one port, or where a file says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from auditor.config.small_file import read_small_file
from auditor.errors import ConfigError
from auditor.model.address import split_host_port
from auditor.model.identity import BookieId

MAP_BYTES_MAX = 4 * 2**20
"""Largest map of listers read, in bytes."""


@dataclass(frozen=True, slots=True)
class Listers:
    """The listers of one cluster. `instance_id` is the cluster's: a lister of another is not asked.

    `port` is that of the lister on each bookie's host, None for none; `addresses` go before it.
    `not_believed` has, by bookie, what its lister listed earlier in the run and the bookie denied.
    """

    instance_id: str | None
    port: int | None = None
    addresses: Mapping[BookieId, tuple[str, int]] = field(default_factory=dict)
    not_believed: Mapping[BookieId, str] = field(default_factory=dict)

    def address_of(self, bookie_id: BookieId, host: str) -> tuple[str, int] | None:
        """Return where the lister of a bookie on this host should be, None if it should have
        none.
        """
        beside = None if self.port is None else (host, self.port)
        return self.addresses.get(bookie_id, beside)


def strangers_in(listers: Listers | None, known: Iterable[BookieId]) -> list[str]:
    """Return a sentence for each bookie of the map that is not among the `known` ones, sorted.

    Nothing is asked there: a typo in the id leaves the intended bookie without its lister.
    """
    named = set(listers.addresses if listers is not None else ()) - set(known)
    return [
        f"the map of listers names {bookie}, which the metadata service does not know:"
        " its lister is not asked"
        for bookie in sorted(named)
    ]


def read_listers(port: int, map_file: str | None, instance_id: str | None) -> Listers | None:
    """Return the listers that the settings name, None if they name none (port 0, no file).

    Raises ConfigError if the file cannot be read or used.
    """
    if not port and map_file is None:
        return None
    addresses = _read_map(map_file) if map_file is not None else {}
    return Listers(instance_id, port or None, addresses)


def _read_map(name: str) -> dict[BookieId, tuple[str, int]]:
    content = read_small_file(Path(name), MAP_BYTES_MAX, "the map of listers")
    return parse_map(content.decode("utf-8", "replace"), name)


def parse_map(text: str, name: str) -> dict[BookieId, tuple[str, int]]:
    """Return the addresses in lines `BOOKIE_ID HOST:PORT`; # begins a comment. Raises
    ConfigError.
    """
    found: dict[BookieId, tuple[str, int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        named = split_host_port(words[1]) if len(words) == 2 else None
        if named is None or named[1] is None:
            raise ConfigError(
                f"line {number} of the map of listers {name} is not of the form BOOKIE_ID HOST:PORT"
            )
        if words[0] in found:
            raise ConfigError(
                f"line {number} of the map of listers {name} names bookie {words[0]} again"
            )
        found[words[0]] = named[0], named[1]
    return found
