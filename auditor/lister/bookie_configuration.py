"""Read from a bookie's own configuration file what a lister needs: directories, id and address.

The file is a Java properties file (bookkeeper.conf). Only the keys below are read; secrets in other
keys are never kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from auditor.config.properties import parse_properties
from auditor.errors import ConfigError
from auditor.model.address import PORT_DIGITS_MAX, PORT_MAX
from auditor.model.identity import BookieId

DEFAULT_BOOKIE_PORT = 3181
"""The value of bookiePort if the file does not set it."""
DEFAULT_LEDGER_DIRECTORIES = ("/tmp/bk-data",)  # noqa: S108 - BookKeeper's own default
"""The value of ledgerDirectories if the file does not set it."""
DB_LEDGER_STORAGE = "DbLedgerStorage"

_LEDGER_DIRECTORIES = "ledgerDirectories"
_INDEX_DIRECTORIES = "indexDirectories"


@dataclass(frozen=True, slots=True)
class BookieConfiguration:
    """What a bookie is configured to be.

    `ledger_directories` and `index_directories` are in the order configured, as long as each other:
    a ledger lives in the pair with the number `ledger id mod n`. `bookie_id` is None if the file
    leaves it to the host's name. `host` is None likewise.
    """

    ledger_directories: tuple[Path, ...]
    index_directories: tuple[Path, ...]
    bookie_id: BookieId | None = None
    host: str | None = None
    port: int = DEFAULT_BOOKIE_PORT


def read_configuration(path: Path) -> BookieConfiguration:
    """Return the configuration in a bookkeeper.conf.

    Raises ConfigError if the file cannot be read, names another storage than DbLedgerStorage, or
    pairs ledger and index directories unequally (such a bookie does not start either).
    """
    return configuration_of(read_properties(path), str(path))


def read_properties(path: Path) -> Mapping[str, str]:
    """Return the keys and values of a bookkeeper.conf. Raises ConfigError if it cannot be read."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"bookkeeper_conf {path} cannot be read: {error.strerror}") from None
    return parse_properties(text)


def configuration_of(properties: Mapping[str, str], name: str) -> BookieConfiguration:
    """Return the configuration that these properties describe. `name` is for messages."""
    storage = properties.get("ledgerStorageClass")
    if storage and not storage.endswith(f".{DB_LEDGER_STORAGE}"):
        raise ConfigError(
            f"{name}: ledgerStorageClass is {storage}, a lister reads {DB_LEDGER_STORAGE} only"
        )
    ledgers = _paths(properties.get(_LEDGER_DIRECTORIES, "")) or tuple(
        map(Path, DEFAULT_LEDGER_DIRECTORIES)
    )
    port = _port(properties.get("bookiePort", str(DEFAULT_BOOKIE_PORT)), name)
    host = properties.get("advertisedAddress") or None
    bookie_id = properties.get("bookieId") or (f"{host}:{port}" if host else None)
    return with_directories(
        ledgers, _paths(properties.get(_INDEX_DIRECTORIES, "")), bookie_id, host, port, name
    )


def _port(text: str, name: str) -> int:
    if not (
        text.isascii() and text.isdigit() and len(text) <= PORT_DIGITS_MAX and int(text) <= PORT_MAX
    ):
        raise ConfigError(f"{name}: bookiePort is {text[:20]!r}, not a port")
    return int(text)


def with_directories(
    ledgers: tuple[Path, ...],
    indexes: tuple[Path, ...],
    bookie_id: str | None,
    host: str | None,
    port: int,
    name: str,
) -> BookieConfiguration:
    """Return a configuration whose index directories default to the ledger directories.

    Raises ConfigError if there are not as many of the one as of the other.
    """
    indexes = indexes or ledgers
    if len(ledgers) != len(indexes):
        raise ConfigError(
            f"{name}: {len(ledgers)} ledger directories and {len(indexes)} index directories do not"
            " match"
        )
    return BookieConfiguration(ledgers, indexes, bookie_id, host, port)


def _paths(value: str) -> tuple[Path, ...]:
    return tuple(Path(part.strip()) for part in value.split(",") if part.strip())
