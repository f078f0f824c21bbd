"""Read from a bookie's own configuration file what a lister needs: directories, id and address.

The file is a Java properties file (bookkeeper.conf). Only the keys below are read; secrets in other
keys are never kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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

LEDGER_DIRECTORIES = "ledgerDirectories"
INDEX_DIRECTORIES = "indexDirectories"


@dataclass(frozen=True, slots=True)
class BookieConfiguration:
    """What a bookie is configured to be.

    `ledger_directories` and `index_directories` are in the order configured, as long as each other:
    a ledger lives in the pair with the number `ledger id mod n`. `bookie_id` is None if the file
    leaves it to the host's name. `host` is None likewise. All paths are absolute.
    `working_directory` is where the bookie was started, None if it is not known.
    """

    ledger_directories: tuple[Path, ...]
    index_directories: tuple[Path, ...]
    bookie_id: BookieId | None = None
    host: str | None = None
    port: int = DEFAULT_BOOKIE_PORT
    working_directory: Path | None = None


def read_configuration(
    path: Path, working_directory: Path | None = None, without: Collection[str] = ()
) -> BookieConfiguration:
    """Return the configuration in a bookkeeper.conf, as if it had no keys of `without`.

    Raises ConfigError if the file cannot be read, names another storage than DbLedgerStorage, pairs
    ledger and index directories unequally (such a bookie does not start either), or has relative
    directories and `working_directory` is None.
    """
    kept = {key: value for key, value in read_properties(path).items() if key not in without}
    return configuration_of(kept, str(path), working_directory)


def read_properties(path: Path) -> Mapping[str, str]:
    """Return the keys and values of a bookkeeper.conf. Raises ConfigError if it cannot be read."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"bookkeeper_conf {path} cannot be read: {error.strerror}") from None
    return parse_properties(text)


def configuration_of(
    properties: Mapping[str, str], name: str, working_directory: Path | None = None
) -> BookieConfiguration:
    """Return the configuration that these properties describe. `name` is for messages."""
    storage = properties.get("ledgerStorageClass")
    if storage and not storage.endswith(f".{DB_LEDGER_STORAGE}"):
        raise ConfigError(
            f"{name}: ledgerStorageClass is {storage}, a lister reads {DB_LEDGER_STORAGE} only"
        )
    ledgers = _paths(properties.get(LEDGER_DIRECTORIES, "")) or tuple(
        map(Path, DEFAULT_LEDGER_DIRECTORIES)
    )
    port = _port(properties.get("bookiePort", str(DEFAULT_BOOKIE_PORT)), name)
    host = properties.get("advertisedAddress") or None
    bookie_id = properties.get("bookieId") or (f"{host}:{port}" if host else None)
    indexes = _paths(properties.get(INDEX_DIRECTORIES, ""))
    return with_directories(ledgers, indexes, bookie_id, host, port, name, working_directory)


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
    working_directory: Path | None = None,
) -> BookieConfiguration:
    """Return a configuration whose index directories default to the ledger directories.

    A relative directory is one below `working_directory`, as for the bookie. Raises ConfigError
    without that, or if there are not as many index directories as ledger directories.
    """
    indexes = indexes or ledgers
    if len(ledgers) != len(indexes):
        raise ConfigError(
            f"{name}: {len(ledgers)} ledger directories and {len(indexes)} index directories do not"
            " match"
        )
    relative = [one for one in (*ledgers, *indexes) if not one.is_absolute()]
    if relative and working_directory is None:
        raise ConfigError(
            f"{name}: the directory {relative[0]} is relative to the directory in which the bookie"
            " was started: give that one as --bookie-directory (for a bookie with process id PID,"
            " `readlink /proc/PID/cwd` prints it)"
        )
    base = working_directory or Path("/")
    return BookieConfiguration(
        tuple(base / one for one in ledgers),
        tuple(base / one for one in indexes),
        bookie_id,
        host,
        port,
        working_directory,
    )


def _paths(value: str) -> tuple[Path, ...]:
    return tuple(Path(part.strip()) for part in value.split(",") if part.strip())
