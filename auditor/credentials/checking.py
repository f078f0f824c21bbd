"""Read every credential once, before a command contacts anything."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from auditor.config.access import (
    BookieAccess,
    KerberosLogin,
    SaslLogin,
    ServedTls,
    TlsFiles,
    ZooKeeperAccess,
)
from auditor.credentials.kerberos import check_login
from auditor.credentials.secret_reading import read_digest, read_secret
from auditor.credentials.tls import client_context, read_certificate_dates

OPEN_TO_ALL_ADVICE = "chmod o-r, or defaultMode 0440 of a Kubernetes Secret"
"""The end of a sentence about a file with a secret that every user can read."""


def check_credentials(bookie: BookieAccess, zookeeper: ZooKeeperAccess) -> None:
    """Raise ConfigError if a certificate, key or secret cannot be read. Runs commands for
    secrets.
    """
    for access in (bookie, zookeeper):
        _check(access.tls, access.sasl)
    _check(bookie.lister_tls, None)
    if zookeeper.digest is not None:
        read_digest(zookeeper.digest)


def _check(tls: TlsFiles | None, sasl: SaslLogin | KerberosLogin | None) -> None:
    if tls is not None:
        client_context(tls)
    if isinstance(sasl, SaslLogin):
        read_secret(sasl.password)
    elif sasl is not None:
        check_login(sasl)


def certificates_out_of_date(
    bookie: BookieAccess, zookeeper: ZooKeeperAccess, moment: datetime
) -> list[str]:
    """Return a sentence for each certificate of ours that is not valid at `moment`, sorted.

    That is not an error: peers that ask for no certificate accept the connection.
    """
    dates = map(read_certificate_dates, (bookie.tls, bookie.lister_tls, zookeeper.tls))
    faults = {certificate.fault_at(moment) for certificate in dates}
    return sorted(faults - {""})


def secrets_open_to_all(bookie: BookieAccess, zookeeper: ZooKeeperAccess) -> list[str]:
    """Return the files with secrets or private keys that every user of this machine can read,
    sorted.
    """
    paths = {
        path for access in (bookie, zookeeper) for path in _secret_files(access.tls, access.sasl)
    }
    paths.update(_secret_files(bookie.lister_tls, None))
    if zookeeper.digest is not None and zookeeper.digest.file is not None:
        paths.add(zookeeper.digest.file)
    return open_to_all(paths)


def open_to_all(paths: Iterable[str]) -> list[str]:
    """Return those of the files that every user of this machine can read, sorted."""
    return sorted(path for path in paths if _is_open_to_all(path))


def secrets_of_server(tls: ServedTls) -> list[str]:
    """Return the files with a server's private key and its password."""
    password = None if tls.key_password is None else tls.key_password.file
    return [path for path in (tls.key or tls.certificate, password) if path is not None]


def _secret_files(tls: TlsFiles | None, sasl: SaslLogin | KerberosLogin | None) -> Iterator[str]:
    if tls is not None:
        password = None if tls.key_password is None else tls.key_password.file
        # Without a file of its own, the key is in the certificate's file.
        yield from filter(None, (tls.key or tls.certificate, password))
    if isinstance(sasl, SaslLogin):
        yield from filter(None, (sasl.password.file, sasl.password.jaas_file))
    elif sasl is not None:
        yield from filter(None, (sasl.keytab, sasl.ticket_cache))


def _is_open_to_all(path: str) -> bool:
    try:
        return bool(Path(path).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False  # It was read a moment ago. A file that is gone by now is not open to anybody.
