"""The settings of secured clusters: TLS and logins, for bookies and for ZooKeeper, and the secrets.

A secret itself has no flag and no key in a file. A flag names the file that has it or the command
that prints it, or its environment variable is set.
"""

from __future__ import annotations

from dataclasses import dataclass

from auditor.config.setting import ENVIRONMENT_PREFIX, Setting
from auditor.config.units import FILE, ON_OFF, TEXT, one_of

_BOOKIES = "Secured bookies"
_ZOOKEEPER = "Secured ZooKeeper"
ASK_BOOKIES = frozenset({"run", "ledger", "topic"})
"""The commands that need credentials for bookies."""
READ_ZOOKEEPER = ASK_BOOKIES | {"topology", "lister"}
"""The commands that need credentials for ZooKeeper."""
_ASKING = ASK_BOOKIES | {"config"}
_READING = READ_ZOOKEEPER | {"config"}

JAAS_SECTION = "BookKeeper"
"""The section of a JAAS file that BookKeeper's client uses by default."""
_SASL = one_of("none", "digest-md5", "gssapi")
_FROM_ENVIRONMENT = "Not set: its environment variable is used, if that is set."


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that settings may need: `{key}_file`, `{key}_command`, or the environment
    variable.
    """

    key: str
    what: str

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.key.upper()


def _tls_settings(
    peer: str, section: str, whose: str, commands: frozenset[str]
) -> tuple[Setting, ...]:
    """Return the settings of TLS with one kind of peer."""
    return (
        Setting(
            f"{peer}_tls", section, ON_OFF, "off",
            f"Speak TLS with {whose}. One that offers none is refused, never asked in clear.",
            "Off: a cluster without TLS needs no settings.",
            commands=commands,
        ),
        Setting(
            f"{peer}_tls_ca", section, FILE, None,
            f"PEM file with the CAs that may have signed the certificates of {whose}. No other CA "
            "is trusted then.",
            "Not set: the CAs of the system are trusted.",
            commands=commands,
        ),
        *_certificate_settings(f"{peer}_tls", section, whose, commands),
        Setting(
            f"{peer}_tls_hostname_verification", section, ON_OFF, "on",
            f"Check that the certificates of {whose} name the host that was dialled. The CA is "
            "checked in any case.",
            "On: without it the holder of any certificate of the CA can answer in the place of "
            "another. BookKeeper's "
            "own client has it off (tlsHostnameVerificationEnabled), so certificates may lack the "
            "names.",
            commands=commands,
        ),
    )  # fmt: skip


def _certificate_settings(
    prefix: str, section: str, whose: str, commands: frozenset[str]
) -> tuple[Setting, ...]:
    """Return the settings of our client certificate, its key and the key's password."""
    flag = f"--{prefix.replace('_', '-')}"
    return (
        Setting(
            f"{prefix}_certificate", section, FILE, None,
            f"PEM file with our client certificate for {whose}, and those between it and its CA.",
            "Not set: none is sent. A server that demands one refuses us.",
            commands=commands,
        ),
        Setting(
            f"{prefix}_key", section, FILE, None,
            f"PEM file with the private key of {flag}-certificate. It may be encrypted.",
            "Not set: the key is in the file of the certificate.",
            commands=commands,
        ),
        *secret_settings(
            f"{prefix}_key_password", section, f"the password of {flag}-key", commands
        ),
    )  # fmt: skip


def secret_settings(
    key: str, section: str, what: str, commands: frozenset[str]
) -> tuple[Setting, ...]:
    """Return the two settings that say where a secret is."""
    return (
        Setting(
            f"{key}_file", section, FILE, None,
            f"File with {what}, read on each machine that asks. The secret itself may be in "
            f"{ENVIRONMENT_PREFIX}{key.upper()}.",
            _FROM_ENVIRONMENT,
            commands=commands,
        ),
        Setting(
            f"{key}_command", section, TEXT, None,
            f"Command that prints {what}. It runs on each machine that asks, without a shell.",
            _FROM_ENVIRONMENT,
            commands=commands,
        ),
    )  # fmt: skip


def _sasl_settings(
    peer: str, section: str, whose: str, commands: frozenset[str]
) -> tuple[Setting, ...]:
    """Return the settings of a SASL login."""
    return (
        Setting(
            f"{peer}_sasl", section, _SASL, "none",
            f"Log in to {whose} with this SASL mechanism. With TLS the login is inside it.",
            "none: a cluster without logins needs no settings.",
            commands=commands,
        ),
        Setting(
            f"{peer}_sasl_username", section, TEXT, None,
            "User of a login by digest-md5.",
            "No default: the name is the one in the servers' JAAS file.",
            commands=commands,
        ),
        *secret_settings(f"{peer}_sasl_password", section, "the password of the login", commands),
        *_kerberos_settings(f"{peer}_sasl", section, peer, commands),
    )  # fmt: skip


SERVICES = {"bookie": "bookkeeper", "zookeeper": "zookeeper"}
"""The default first part of the servers' principals, as in Java's clients."""
_SERVICE_PROPERTIES = {
    "bookie": "bookkeeper.sasl.servicename",
    "zookeeper": "zookeeper.sasl.client.username",
}


def _kerberos_settings(
    prefix: str, section: str, peer: str, commands: frozenset[str]
) -> tuple[Setting, ...]:
    """Return the settings of a login by GSSAPI."""
    return (
        Setting(
            f"{prefix}_keytab", section, FILE, None,
            "Key tab for a login by gssapi, read on each machine that asks.",
            "Not set: the tickets in the ticket cache are used, as kinit left them.",
            commands=commands,
        ),
        Setting(
            f"{prefix}_principal", section, TEXT, None,
            "Our principal for a login by gssapi.",
            "Not set: the first in the key tab, or that of the ticket cache.",
            commands=commands,
        ),
        Setting(
            f"{prefix}_ticket_cache", section, FILE, None,
            "Ticket cache for a login by gssapi, read on each machine that asks.",
            "Not set: the default of Kerberos there (KRB5CCNAME, krb5.conf).",
            commands=commands,
        ),
        Setting(
            f"{prefix}_service", section, TEXT, SERVICES[peer],
            "First part of the servers' principals for a login by gssapi: SERVICE/HOST, where HOST "
            "is the name at which the server is reached.",
            f"The default of Java's client ({_SERVICE_PROPERTIES[peer]}).",
            commands=commands,
        ),
    )  # fmt: skip


SECURED_SETTINGS = (
    Setting(
        "bookkeeper_client_conf",
        _BOOKIES,
        FILE,
        None,
        "Configuration file of a BookKeeper client or a Pulsar broker. What it says of TLS and SASL"
        " is used, unless a setting here says otherwise.",
        "Not set: only the settings below count.",
        commands=_ASKING,
    ),
    *_tls_settings("bookie", _BOOKIES, "bookies", _ASKING),
    *_sasl_settings("bookie", _BOOKIES, "bookies", _ASKING),
    Setting(
        "bookie_jaas_file",
        _BOOKIES,
        FILE,
        None,
        "JAAS file of a BookKeeper client, read on each machine that asks. Its login is used,"
        " unless a setting here says otherwise.",
        "Not set: Java's clients find theirs by a property of the JVM"
        " (java.security.auth.login.config), which is in no file that we read.",
        commands=_ASKING,
    ),
    Setting(
        "bookie_jaas_section",
        _BOOKIES,
        TEXT,
        JAAS_SECTION,
        "Section of --bookie-jaas-file.",
        "The default of BookKeeper's client (saslJaasClientSectionName).",
        commands=_ASKING,
    ),
    *_tls_settings("zookeeper", _ZOOKEEPER, "ZooKeeper", _READING),
    *_sasl_settings("zookeeper", _ZOOKEEPER, "ZooKeeper", _READING),
    *secret_settings(
        "zookeeper_digest", _ZOOKEEPER, "user:password for ZooKeeper's scheme digest", _READING
    ),
)

SECRETS = (
    Secret("bookie_tls_key_password", "the password of --bookie-tls-key"),
    Secret("bookie_sasl_password", "the password for --bookie-sasl"),
    Secret("zookeeper_tls_key_password", "the password of --zookeeper-tls-key"),
    Secret("zookeeper_sasl_password", "the password for --zookeeper-sasl"),
    Secret("zookeeper_digest", "the user and password for ZooKeeper's scheme digest"),
    Secret("listen_tls_key_password", "the password of --listen-tls-key"),
)
"""Every secret that does not belong to another setting."""

SECRET_OF = {secret.key: secret for secret in SECRETS}
SECRET_VARIABLES = frozenset(secret.variable for secret in SECRETS)
