"""The settings of secured clusters: TLS and logins, for bookies and for ZooKeeper, and the secrets.

A secret itself has no flag and no key in a file. A flag names the file that has it or the command
that prints it, or its environment variable is set.
"""

from __future__ import annotations

from dataclasses import dataclass

from auditor.config.setting import ENVIRONMENT_PREFIX, setting
from auditor.config.units import FILE, ON_OFF, TEXT, one_of

ASK_BOOKIES = frozenset({"run", "ledger", "topic", "rehearse", "salvage"})
"""The commands that need credentials for bookies."""
READ_ZOOKEEPER = ASK_BOOKIES | {"topology", "lister"}
"""The commands that always need credentials for ZooKeeper. `margin` needs them with --now."""
_ASKING = ASK_BOOKIES | {"config"}
_READING = READ_ZOOKEEPER | {"margin", "config"}

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


# fmt: off

def secret_file(key: str, what: str, commands: frozenset[str]) -> str | None:
    """Return the field for the file that has a secret."""
    return setting(
        FILE, None,
        f"File with {what}, read on each machine that asks. The secret itself may be in "
        f"{ENVIRONMENT_PREFIX}{key.upper()}.",
        _FROM_ENVIRONMENT,
        commands=commands,
    )


def secret_command(what: str, commands: frozenset[str]) -> str | None:
    """Return the field for the command that prints a secret."""
    return setting(
        TEXT, None,
        f"Command that prints {what}. It runs on each machine that asks, without a shell.",
        _FROM_ENVIRONMENT,
        commands=commands,
    )


@dataclass(frozen=True)
class _Peer:
    """The fields that bookies and ZooKeeper have alike. `name` is the prefix of their keys.

    `service` is the default first part of the servers' principals. Java's client takes it from
    `service_property`.
    """

    name: str
    names: str
    commands: frozenset[str]
    service: str
    service_property: str

    def tls(self) -> bool:
        return setting(
            ON_OFF, "off",
            f"Speak TLS with {self.names}. One that offers none is refused, never asked in clear.",
            "Off: a cluster without TLS needs no settings.",
            commands=self.commands,
        )

    def tls_ca(self) -> str | None:
        return setting(
            FILE, None,
            f"PEM file with the CAs that may have signed the certificates of {self.names}. No "
            "other CA is trusted then.",
            "Not set: the CAs of the system are trusted.",
            commands=self.commands,
        )

    def tls_certificate(self) -> str | None:
        return setting(
            FILE, None,
            f"PEM file with our client certificate for {self.names}, and those between it and its "
            "CA.",
            "Not set: none is sent. A server that demands one refuses us.",
            commands=self.commands,
        )

    def tls_key(self) -> str | None:
        return setting(
            FILE, None,
            f"PEM file with the private key of --{self.name}-tls-certificate. It may be encrypted.",
            "Not set: the key is in the file of the certificate.",
            commands=self.commands,
        )

    def tls_key_password_file(self) -> str | None:
        what = f"the password of --{self.name}-tls-key"
        return secret_file(f"{self.name}_tls_key_password", what, self.commands)

    def tls_key_password_command(self) -> str | None:
        return secret_command(f"the password of --{self.name}-tls-key", self.commands)

    def tls_hostname_verification(self) -> bool:
        return setting(
            ON_OFF, "on",
            f"Check that the certificates of {self.names} name the host that was dialled. The CA "
            "is checked in any case.",
            "On: without it the holder of any certificate of the CA can answer in the place of "
            "another. BookKeeper's own client has it off (tlsHostnameVerificationEnabled), so "
            "certificates may lack the names.",
            commands=self.commands,
        )

    def sasl(self) -> str:
        return setting(
            _SASL, "none",
            f"Log in to {self.names} with this SASL mechanism. With TLS the login is inside it.",
            "none: a cluster without logins needs no settings.",
            commands=self.commands,
        )

    def sasl_username(self) -> str | None:
        return setting(
            TEXT, None,
            "User of a login by digest-md5.",
            "No default: the name is the one in the servers' JAAS file.",
            commands=self.commands,
        )

    def sasl_password_file(self) -> str | None:
        what = "the password of the login"
        return secret_file(f"{self.name}_sasl_password", what, self.commands)

    def sasl_password_command(self) -> str | None:
        return secret_command("the password of the login", self.commands)

    def sasl_keytab(self) -> str | None:
        return setting(
            FILE, None,
            "Key tab for a login by gssapi, read on each machine that asks.",
            "Not set: the tickets in the ticket cache are used, as kinit left them.",
            commands=self.commands,
        )

    def sasl_principal(self) -> str | None:
        return setting(
            TEXT, None,
            "Our principal for a login by gssapi.",
            "Not set: the first in the key tab, or that of the ticket cache.",
            commands=self.commands,
        )

    def sasl_ticket_cache(self) -> str | None:
        return setting(
            FILE, None,
            "Ticket cache for a login by gssapi, read on each machine that asks.",
            "Not set: the default of Kerberos there (KRB5CCNAME, krb5.conf).",
            commands=self.commands,
        )

    def sasl_service(self) -> str:
        return setting(
            TEXT, self.service,
            "First part of the servers' principals for a login by gssapi: SERVICE/HOST, where HOST "
            "is the name at which the server is reached.",
            f"The default of Java's client ({self.service_property}).",
            commands=self.commands,
        )


_BOOKIES = _Peer("bookie", "bookies", _ASKING, "bookkeeper", "bookkeeper.sasl.servicename")
_ZOOKEEPER = _Peer(
    "zookeeper", "ZooKeeper", _READING, "zookeeper", "zookeeper.sasl.client.username"
)


@dataclass(frozen=True, kw_only=True)
class BookieSecurity:
    """TLS with bookies, and the login to them."""

    bookkeeper_client_conf: str | None = setting(
        FILE, None,
        "Configuration file of a BookKeeper client or a Pulsar broker. What it says of TLS and "
        "SASL is used, unless a setting here says otherwise.",
        "Not set: only the settings below count.",
        commands=_ASKING,
    )
    bookie_tls: bool = _BOOKIES.tls()
    bookie_tls_ca: str | None = _BOOKIES.tls_ca()
    bookie_tls_certificate: str | None = _BOOKIES.tls_certificate()
    bookie_tls_key: str | None = _BOOKIES.tls_key()
    bookie_tls_key_password_file: str | None = _BOOKIES.tls_key_password_file()
    bookie_tls_key_password_command: str | None = _BOOKIES.tls_key_password_command()
    bookie_tls_hostname_verification: bool = _BOOKIES.tls_hostname_verification()
    bookie_sasl: str = _BOOKIES.sasl()
    bookie_sasl_username: str | None = _BOOKIES.sasl_username()
    bookie_sasl_password_file: str | None = _BOOKIES.sasl_password_file()
    bookie_sasl_password_command: str | None = _BOOKIES.sasl_password_command()
    bookie_sasl_keytab: str | None = _BOOKIES.sasl_keytab()
    bookie_sasl_principal: str | None = _BOOKIES.sasl_principal()
    bookie_sasl_ticket_cache: str | None = _BOOKIES.sasl_ticket_cache()
    bookie_sasl_service: str = _BOOKIES.sasl_service()
    bookie_jaas_file: str | None = setting(
        FILE, None,
        "JAAS file of a BookKeeper client, read on each machine that asks. Its login is used,"
        " unless a setting here says otherwise.",
        "Not set: Java's clients find theirs by a property of the JVM"
        " (java.security.auth.login.config), which is in no file that we read.",
        commands=_ASKING,
    )
    bookie_jaas_section: str = setting(
        TEXT, JAAS_SECTION,
        "Section of --bookie-jaas-file.",
        "The default of BookKeeper's client (saslJaasClientSectionName).",
        commands=_ASKING,
    )


@dataclass(frozen=True, kw_only=True)
class ZooKeeperSecurity:
    """TLS with ZooKeeper, and the login to it."""

    zookeeper_tls: bool = _ZOOKEEPER.tls()
    zookeeper_tls_ca: str | None = _ZOOKEEPER.tls_ca()
    zookeeper_tls_certificate: str | None = _ZOOKEEPER.tls_certificate()
    zookeeper_tls_key: str | None = _ZOOKEEPER.tls_key()
    zookeeper_tls_key_password_file: str | None = _ZOOKEEPER.tls_key_password_file()
    zookeeper_tls_key_password_command: str | None = _ZOOKEEPER.tls_key_password_command()
    zookeeper_tls_hostname_verification: bool = _ZOOKEEPER.tls_hostname_verification()
    zookeeper_sasl: str = _ZOOKEEPER.sasl()
    zookeeper_sasl_username: str | None = _ZOOKEEPER.sasl_username()
    zookeeper_sasl_password_file: str | None = _ZOOKEEPER.sasl_password_file()
    zookeeper_sasl_password_command: str | None = _ZOOKEEPER.sasl_password_command()
    zookeeper_sasl_keytab: str | None = _ZOOKEEPER.sasl_keytab()
    zookeeper_sasl_principal: str | None = _ZOOKEEPER.sasl_principal()
    zookeeper_sasl_ticket_cache: str | None = _ZOOKEEPER.sasl_ticket_cache()
    zookeeper_sasl_service: str = _ZOOKEEPER.sasl_service()
    zookeeper_digest_file: str | None = secret_file(
        "zookeeper_digest", "user:password for ZooKeeper's scheme digest", _READING
    )
    zookeeper_digest_command: str | None = secret_command(
        "user:password for ZooKeeper's scheme digest", _READING
    )

# fmt: on


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
