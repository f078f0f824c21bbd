"""Read from a bookie's own configuration what a lister needs: directories, id, address and TLS.

The file is a Java properties file (bookkeeper.conf). Only the keys below are read; secrets in other
keys are never kept.

A lister's TLS files come from its own settings, or from its bookie's. A certificate of its own
replaces the bookie's, with key and password. If the bookie demands certificates of clients, so does
the lister: this demand is never dropped silently.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from auditor.config import Settings
from auditor.config.access import SecretSource, ServedTls
from auditor.config.operator_files import parse_properties
from auditor.config.secured_settings import SECRET_OF
from auditor.config.settings import secret_source
from auditor.errors import ConfigError
from auditor.model.identity import PORT_DIGITS_MAX, PORT_MAX, BookieId

DEFAULT_BOOKIE_PORT = 3181
"""The value of bookiePort if the file does not set it."""
DEFAULT_LEDGER_DIRECTORIES = ("/tmp/bk-data",)  # noqa: S108 - BookKeeper's own default
"""The value of ledgerDirectories if the file does not set it."""
DB_LEDGER_STORAGE = "DbLedgerStorage"

LEDGER_DIRECTORIES = "ledgerDirectories"
INDEX_DIRECTORIES = "indexDirectories"


@dataclass(frozen=True, slots=True)
class BookieConfiguration:
    """A bookie as its configuration describes it.

    `ledger_directories` and `index_directories` are in the configured order and equally many: a
    ledger lives in the pair with the number `ledger id mod n`. `bookie_id` and `host` are None if
    the file leaves them to the host's name. All paths are absolute. `working_directory` is where
    the bookie was started, None if it is not known.
    """

    ledger_directories: tuple[Path, ...]
    index_directories: tuple[Path, ...]
    bookie_id: BookieId | None = None
    host: str | None = None
    port: int = DEFAULT_BOOKIE_PORT
    working_directory: Path | None = None


def read_configuration(
    path: Path,
    working_directory: Path | None = None,
    without: Collection[str] = (),
    *,
    any_storage: bool = False,
) -> BookieConfiguration:
    """Return the configuration in a bookkeeper.conf, as if it had no keys of `without`.

    Raises ConfigError if the file cannot be read, names another storage than DbLedgerStorage unless
    `any_storage`, pairs ledger and index directories unequally (such a bookie does not start
    either), or has relative directories and `working_directory` is None.
    """
    kept = {key: value for key, value in read_properties(path).items() if key not in without}
    return configuration_of(kept, str(path), working_directory, any_storage=any_storage)


def read_properties(path: Path) -> Mapping[str, str]:
    """Return the keys and values of a bookkeeper.conf. Raises ConfigError if it cannot be read."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"bookkeeper_conf {path} cannot be read: {error.strerror}") from None
    return parse_properties(text)


def configuration_of(
    properties: Mapping[str, str],
    name: str,
    working_directory: Path | None = None,
    *,
    any_storage: bool = False,
) -> BookieConfiguration:
    """Return the configuration that these properties describe. `name` is for messages."""
    storage = properties.get("ledgerStorageClass")
    if storage and not any_storage and not storage.endswith(f".{DB_LEDGER_STORAGE}"):
        raise ConfigError(
            f"{name}: ledgerStorageClass is {storage}, a lister reads {DB_LEDGER_STORAGE} only,"
            " unless it scrubs (--scrub DIR)"
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

    Relative directories are below `working_directory`, as for the bookie. Raises ConfigError if it
    is None, or if there are not as many index directories as ledger directories.
    """
    indexes = indexes or ledgers
    if len(ledgers) != len(indexes):
        raise ConfigError(
            f"{name}: {len(ledgers)} ledger directories and {len(indexes)} index directories do not"
            " match"
        )
    relative = [directory for directory in (*ledgers, *indexes) if not directory.is_absolute()]
    if relative and working_directory is None:
        raise ConfigError(
            f"{name}: the directory {relative[0]} is relative to the directory in which the bookie"
            " was started: give that one as --bookie-directory (for a bookie with process id PID,"
            " `readlink /proc/PID/cwd` prints it)"
        )
    base = working_directory or Path("/")
    return BookieConfiguration(
        tuple(base / directory for directory in ledgers),
        tuple(base / directory for directory in indexes),
        bookie_id,
        host,
        port,
        working_directory,
    )


def _paths(value: str) -> tuple[Path, ...]:
    return tuple(Path(part.strip()) for part in value.split(",") if part.strip())


_OWN_FILES = (
    "listen_tls_certificate",
    "listen_tls_key",
    "listen_tls_key_password_file",
    "listen_tls_key_password_command",
    "listen_tls_ca",
)
_PASSWORD = "listen_tls_key_password"  # noqa: S105 - the key of a setting


def tls_configuration(
    settings: Settings, properties: Mapping[str, str], name: str
) -> ServedTls | None:
    """Return the files of a lister's TLS, or None if it speaks none. Pure.

    `properties` are those of the bookie's configuration, `name` is its file. Raises ConfigError
    for settings that have no effect, or lack a certificate.
    """
    bookie = {key: value.strip() for key, value in properties.items() if value.strip()}
    is_on = settings.listen_tls
    if is_on is None:
        is_on = "tlsProviderFactoryClass" in bookie
    if not is_on:
        given = next((key for key in _OWN_FILES if getattr(settings, key)), None)
        if given is not None:
            raise ConfigError(f"{given} has no effect without --listen-tls on")
        return None
    tls = _own_certificate(settings) or _certificate_of_bookie(settings, bookie, name)
    return _with_client_ca(tls, settings, bookie, name)


def _own_certificate(settings: Settings) -> ServedTls | None:
    if settings.listen_tls_certificate is None:
        if settings.listen_tls_key is not None:
            raise ConfigError("listen_tls_key has no effect without --listen-tls-certificate FILE")
        return None
    return ServedTls(
        settings.listen_tls_certificate,
        f"--listen-tls-certificate {settings.listen_tls_certificate}",
        settings.listen_tls_key,
        secret_source(settings, _PASSWORD),
    )


def _certificate_of_bookie(settings: Settings, bookie: Mapping[str, str], name: str) -> ServedTls:
    """Return the bookie's certificate, key and password.

    A Java key store is refused when it is read; the error has the lines that convert it.
    """
    store = bookie.get("tlsKeyStore")
    if store is None:
        raise ConfigError(
            f"a lister with TLS needs a certificate, and {name} has no tlsKeyStore: give"
            " --listen-tls-certificate FILE"
        )
    certificate = bookie.get("tlsCertificatePath")
    tls = ServedTls(
        certificate or store,
        f"{'tlsKeyStore' if certificate is None else 'tlsCertificatePath'} of {name}"
        " (--listen-tls-certificate goes before it)",
        None if certificate is None else store,
        secret_source(settings, _PASSWORD),
    )
    return tls if tls.key_password is not None else _with_password_of_bookie(tls, bookie, name)


def _with_password_of_bookie(tls: ServedTls, bookie: Mapping[str, str], name: str) -> ServedTls:
    file = bookie.get("tlsKeyStorePasswordPath")
    password = None
    if file is not None:
        what = f"the password of the key in {bookie['tlsKeyStore']}"
        password = SecretSource(what, SECRET_OF[_PASSWORD].variable, file=file)
    where = f"tlsKeyStorePasswordPath of {name}"
    return replace(tls, key_password=password, password_name=where)


def _with_client_ca(
    tls: ServedTls, settings: Settings, bookie: Mapping[str, str], name: str
) -> ServedTls:
    if settings.listen_tls_ca is not None:
        where = f"--listen-tls-ca {settings.listen_tls_ca}"
        return replace(tls, client_ca=settings.listen_tls_ca, client_ca_name=where)
    if bookie.get("tlsClientAuthentication", "").lower() != "true":
        return tls
    if "tlsTrustStore" not in bookie:
        raise ConfigError(
            f"{name} wants certificates of clients (tlsClientAuthentication=true) and has no"
            " tlsTrustStore: give --listen-tls-ca FILE"
        )
    where = f"tlsTrustStore of {name} (--listen-tls-ca goes before it)"
    return replace(tls, client_ca=bookie["tlsTrustStore"], client_ca_name=where)
