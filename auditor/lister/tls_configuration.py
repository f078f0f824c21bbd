"""Decide whether a lister speaks TLS, and with which files: its own settings, or its bookie's.

A certificate of its own replaces the bookie's, with key and password. If the bookie demands
certificates of clients, so does the lister: this is never dropped silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from auditor.config import Settings
from auditor.config.access import SecretSource, ServedTls
from auditor.config.secured_settings import SECRET_OF
from auditor.config.settings import secret_source
from auditor.errors import ConfigError

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
    """Return the certificate, key and password of the bookie. A key store of Java is refused when
    it is read, with the lines that convert it.
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
