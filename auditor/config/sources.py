"""Read raw settings. No other module of `auditor.config` touches a file.

Settings of TLS and logins may come from a BookKeeper client's or Pulsar broker's configuration. Its
keys are read under BookKeeper's names, or under a broker's (`bookkeeperTLS...`, or BookKeeper's
with the prefix `bookkeeper_`). All other keys are ignored.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from auditor.config.jaas import read_login
from auditor.config.operator_files import parse_properties, read_small_file
from auditor.config.parse import Layers
from auditor.config.run_settings import CONFIG_FILE
from auditor.config.secured_settings import ASK_BOOKIES, JAAS_SECTION
from auditor.config.setting import ENVIRONMENT_PREFIX
from auditor.errors import ConfigError

_JAAS_NAMES = {
    "saslJaasClientSectionName": "bookie_jaas_section",
    "java.security.auth.login.config": "bookie_jaas_file",
}
"""What these files may say of a JAAS file. Its path is usually a property of the JVM."""
SASL_PROVIDER = "SASLClientProviderFactory"
"""The end of the class name that means SASL (org.apache.bookkeeper.sasl)."""
TLS_PROVIDER = "org.apache.bookkeeper.tls.TLSContextFactory"
PEM = "PEM"
BROKER_KEY = re.compile(r"bookkeeper[A-Z_]")
"""A broker's keys about bookies begin with these. A client's own begin with `bookkeeper.`, if at
all."""
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
"""BookKeeper's names until about 4.9. The new names override them."""


_BROKER_DEFAULTS = {"tlsProviderFactoryClass": TLS_PROVIDER, "tlsKeyStoreType": PEM}
"""A broker's defaults for keys that are missing or empty (ServiceConfiguration)."""
_FILES = frozenset(
    {"tlsKeyStore", "tlsCertificatePath", "tlsTrustStore", "tlsKeyStorePasswordPath"}
)
"""The keys that name files. A configuration that sets one is meant to have TLS."""


def settings_of_client(
    properties: Mapping[str, str], name: str, *, is_tls_decided: bool = False
) -> dict[str, str]:
    """Return our settings, by key, that correspond to these properties of a client. Pure.

    `name` is the file, for messages. Raises ConfigError for an authentication plug-in that is not
    SASL, and for properties that prepare TLS without switching it on, unless `is_tls_decided`
    elsewhere. A key store of Java becomes a setting too: it is refused where it is read, with the
    lines that convert it.
    """
    is_broker = any(BROKER_KEY.match(key) for key in properties)
    known = _known_to_broker(properties) if is_broker else _known_to_client(properties)
    settings = _tls_settings(known)
    if not settings and not is_tls_decided:
        _refuse_idle_tls(properties, known, name, is_broker=is_broker)
    provider = known.get("clientAuthProviderFactoryClass", "")
    if provider.endswith(SASL_PROVIDER):
        settings["bookie_sasl"] = "digest-md5"
        settings |= {ours: known[theirs] for theirs, ours in _JAAS_NAMES.items() if theirs in known}
    elif provider:
        raise ConfigError(
            f"{name}: clientAuthProviderFactoryClass is {provider}, and only SASL is supported"
        )
    return settings


def _known_to_client(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the values that a client's file sets, with old names replaced by new ones."""
    old = {new: properties.get(before, "") for before, new in _OLD_NAMES.items()}
    return _set_values(old) | _set_values(properties)


def _known_to_broker(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a broker's client for bookies, under the client's names.

    Keys without prefix are not read: a broker's `tlsTrustStore` is for Pulsar's own clients. Keys
    with the prefix override the others.
    """
    given = _set_values(
        {ours: properties.get(theirs, "") for theirs, ours in _BROKER_NAMES.items()}
    )
    if not _is_true(
        given, "tlsClientAuthentication"
    ):  # In this case a broker applies none of them.
        given = {
            key: value for key, value in given.items() if key == "clientAuthProviderFactoryClass"
        }
    else:
        given = _BROKER_DEFAULTS | given
    prefixed = {
        key.removeprefix(PULSAR_PREFIX): value
        for key, value in properties.items()
        if key.startswith(PULSAR_PREFIX)
    }
    return given | _known_to_client(prefixed)


def _set_values(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value.strip() for key, value in properties.items() if value.strip()}


def _is_true(known: Mapping[str, str], key: str) -> bool:
    return known.get(key, "").lower() == "true"


def _refuse_idle_tls(
    properties: Mapping[str, str], known: Mapping[str, str], name: str, *, is_broker: bool
) -> None:
    """Raise ConfigError if these properties prepare TLS and do not switch it on."""
    brokers = (
        {theirs for theirs, ours in _BROKER_NAMES.items() if ours in _FILES} if is_broker else set()
    )
    idle = next((key for key in properties if key in brokers and properties[key].strip()), "")
    needed = "bookkeeperTLSClientAuthentication=true"
    if not idle and (_FILES & known.keys() or _is_true(known, "tlsClientAuthentication")):
        prefix = PULSAR_PREFIX if is_broker else ""
        idle = prefix + min(_FILES & known.keys(), default="tlsClientAuthentication")
        needed = f"{prefix}tlsProviderFactoryClass={TLS_PROVIDER}"
    if idle:
        raise ConfigError(
            f"{name}: {idle} is set, and yet such a client asks bookies in clear: add {needed}, or"
            " set --bookie-tls on with the files that it needs, or --bookie-tls off"
        )


def _tls_settings(known: Mapping[str, str]) -> dict[str, str]:
    if not known.get("tlsProviderFactoryClass"):
        return {}
    settings = {"bookie_tls": "on"}
    if "tlsTrustStore" in known:
        settings["bookie_tls_ca"] = known["tlsTrustStore"]
    if "tlsHostnameVerificationEnabled" in known:
        settings["bookie_tls_hostname_verification"] = known[
            "tlsHostnameVerificationEnabled"
        ].lower()
    if _is_true(known, "tlsClientAuthentication") and "tlsKeyStore" in known:
        settings |= _certificate_settings(known)
    return settings


def _certificate_settings(known: Mapping[str, str]) -> dict[str, str]:
    if known.get("tlsKeyStoreType", "").upper() != PEM or "tlsCertificatePath" not in known:
        return {"bookie_tls_certificate": known["tlsKeyStore"]}
    settings = {
        "bookie_tls_certificate": known["tlsCertificatePath"],
        "bookie_tls_key": known["tlsKeyStore"],
    }
    if "tlsKeyStorePasswordPath" in known:
        settings["bookie_tls_key_password_file"] = known["tlsKeyStorePasswordPath"]
    return settings


CLIENT_CONF = "bookkeeper_client_conf"
BOOKIE_TLS = "bookie_tls"
JAAS_FILE, JAAS_SECTION_KEY = "bookie_jaas_file", "bookie_jaas_section"
CONFIG_FILE_BYTES_MAX = 2**20
"""Largest configuration file read."""


def read_layers(
    flags: Mapping[str, object], environment: Mapping[str, str], command: str = ""
) -> Layers:
    """Return the layers of one command.

    The file of settings is named by --config, or else by AUDITOR_CONFIG. The configuration of a
    BookKeeper client and its JAAS file are named in the same way, or in the file. The JAAS file has
    a password: a command that asks no bookie does not read it. Raises `ConfigError` if a file
    cannot be read or is not what it should be.
    """
    named = flags.get(CONFIG_FILE.key) or environment.get(CONFIG_FILE.variable)
    layers = Layers(flags, environment)
    if named:
        layers = Layers(flags, environment, read_file(Path(str(named))), str(named))
    client = _raw(layers, CLIENT_CONF)
    if client:
        layers = _with_client(layers, str(client))
    needs_login = command in ASK_BOOKIES or command in ("", "config")
    if needs_login:
        return _with_jaas(layers)
    return replace(layers, is_jaas_unread=bool(_raw(layers, JAAS_FILE)))


def _raw(layers: Layers, key: str) -> object:
    """Return a setting from the strongest layer that has it, None or "" if it is not set."""
    variable = layers.environment.get(ENVIRONMENT_PREFIX + key.upper())
    return layers.flags.get(key) or variable or layers.file.get(key) or layers.client.get(key)


def _with_client(layers: Layers, name: str) -> Layers:
    content = read_small_file(Path(name), CONFIG_FILE_BYTES_MAX, CLIENT_CONF)
    properties = parse_properties(content.decode("utf-8", "replace"))
    is_decided = layers.flags.get(BOOKIE_TLS) is not None or BOOKIE_TLS in layers.file
    is_decided = is_decided or ENVIRONMENT_PREFIX + BOOKIE_TLS.upper() in layers.environment
    client = settings_of_client(properties, name, is_tls_decided=is_decided)
    return replace(layers, client=client, client_name=name)


def _with_jaas(layers: Layers) -> Layers:
    """Return the layers with the login of the JAAS file, if one is named.

    It overrides the client's configuration, which only says that there is a login.
    """
    name = _raw(layers, JAAS_FILE)
    if not name:
        return layers
    login = read_login(str(name), str(_raw(layers, JAAS_SECTION_KEY) or JAAS_SECTION))
    return replace(
        layers,
        client={**layers.client, **login},
        jaas_keys=frozenset(login),
        jaas_name=str(name),
    )


def read_file(path: Path) -> dict[str, object]:
    """Return a TOML file as tomllib reads it. Raises `ConfigError` with the file and the reason."""
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_FILE_BYTES_MAX + 1)
        if len(content) > CONFIG_FILE_BYTES_MAX:
            raise ConfigError(
                f"{path} is larger than {CONFIG_FILE_BYTES_MAX} bytes: this is not a configuration"
                " file"
            )
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the configuration file {path} cannot be read: {error.strerror or error}"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start})") from None
    except ValueError as error:  # TOMLDecodeError, or Python's error for a number that is too long
        raise ConfigError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(
            f"{path} is nested too deeply: this is not a configuration file"
        ) from None
