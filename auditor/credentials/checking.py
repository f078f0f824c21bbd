"""Reads every credential once, so that a command ends before it contacts anything with one that is bad."""

from __future__ import annotations

from auditor.config.access import BookieAccess, SaslLogin, TlsFiles, ZooKeeperAccess
from auditor.credentials.secret_reading import read_digest, read_secret
from auditor.credentials.tls_context import client_context


def check_credentials(bookie: BookieAccess, zookeeper: ZooKeeperAccess) -> None:
    """Raise ConfigError if a certificate, key or secret cannot be read. Runs the secrets' commands."""
    for access in (bookie, zookeeper):
        _check(access.tls, access.sasl)
    if zookeeper.digest is not None:
        read_digest(zookeeper.digest)


def _check(tls: TlsFiles | None, sasl: SaslLogin | None) -> None:
    if tls is not None:
        client_context(tls)
    if sasl is not None:
        read_secret(sasl.password)
