"""Takes settings of TLS and logins from a BookKeeper client's or Pulsar broker's own configuration.

What is used there is used here: the keys below, under BookKeeper's names, or under a broker's
(`bookkeeperTLS...`, or BookKeeper's with the prefix `bookkeeper_`). All other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from auditor.errors import ConfigError

SASL_PROVIDER = "SASLClientProviderFactory"
"""The end of the class name that means SASL (org.apache.bookkeeper.sasl)."""
PEM = "PEM"
PULSAR_PREFIX = "bookkeeper_"

_BROKER_NAMES = {
    "bookkeeperTLSProviderFactoryClass": "tlsProviderFactoryClass",
    "bookkeeperTLSClientAuthentication": "tlsClientAuthentication",
    "bookkeeperTLSKeyFileType": "tlsKeyStoreType",
    "bookkeeperTLSKeyFilePath": "tlsKeyStore",
    "bookkeeperTLSCertificateFilePath": "tlsCertificatePath",
    "bookkeeperTLSTrustCertsFilePath": "tlsTrustStore",
    "bookkeeperTLSKeyStorePasswordPath": "tlsKeyStorePasswordPath",
    "bookkeeperClientAuthenticationPlugin": "clientAuthProviderFactoryClass",
}
_OLD_NAMES = {
    "clientKeyStoreType": "tlsKeyStoreType",
    "clientKeyStore": "tlsKeyStore",
    "clientKeyStorePasswordPath": "tlsKeyStorePasswordPath",
    "clientTrustStore": "tlsTrustStore",
}
"""BookKeeper's names before 4.9 or so; the new ones go before them."""


def settings_of_client(properties: Mapping[str, str], name: str) -> dict[str, str]:
    """Return our settings, by key, that these properties of a client amount to. Pure.

    `name` is the file, for messages. Raises ConfigError for an authentication plug-in that is not
    SASL. A key store of Java becomes a setting too: it is refused where it is read, with the lines
    that convert it.
    """
    known = _under_client_names(properties)
    settings = _tls_settings(known)
    provider = known.get("clientAuthProviderFactoryClass", "")
    if provider.endswith(SASL_PROVIDER):
        settings["bookie_sasl"] = "digest-md5"
    elif provider:
        raise ConfigError(f"{name}: clientAuthProviderFactoryClass is {provider}, and only SASL is supported")
    return settings


def _under_client_names(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the values that are set, under the names that BookKeeper's client has for them."""
    found: dict[str, str] = {}
    broker = {ours: properties.get(theirs, "") for theirs, ours in _BROKER_NAMES.items()}
    if broker["tlsProviderFactoryClass"] and broker["tlsClientAuthentication"].lower() != "true":
        broker = {"clientAuthProviderFactoryClass": broker["clientAuthProviderFactoryClass"]}  # As a broker does.
    old = {new: properties.get(before, "") for before, new in _OLD_NAMES.items()}
    prefixed = {key.removeprefix(PULSAR_PREFIX): value for key, value in properties.items() if key.startswith(PULSAR_PREFIX)}
    for layer in (old, properties, prefixed, broker):
        found.update({key: value.strip() for key, value in layer.items() if value.strip()})
    return found


def _tls_settings(known: Mapping[str, str]) -> dict[str, str]:
    if not known.get("tlsProviderFactoryClass"):
        return {}
    settings = {"bookie_tls": "on"}
    if "tlsTrustStore" in known:
        settings["bookie_tls_ca"] = known["tlsTrustStore"]
    if "tlsHostnameVerificationEnabled" in known:
        settings["bookie_tls_hostname_verification"] = known["tlsHostnameVerificationEnabled"].lower()
    if known.get("tlsClientAuthentication", "").lower() == "true" and "tlsKeyStore" in known:
        settings |= _certificate_settings(known)
    return settings


def _certificate_settings(known: Mapping[str, str]) -> dict[str, str]:
    if known.get("tlsKeyStoreType", "").upper() != PEM or "tlsCertificatePath" not in known:
        return {"bookie_tls_certificate": known["tlsKeyStore"]}
    settings = {"bookie_tls_certificate": known["tlsCertificatePath"], "bookie_tls_key": known["tlsKeyStore"]}
    if "tlsKeyStorePasswordPath" in known:
        settings["bookie_tls_key_password_file"] = known["tlsKeyStorePasswordPath"]
    return settings
