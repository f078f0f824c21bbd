"""How connections are secured. Nothing here holds a secret: all of it may be pickled and shown.

A Spark task gets these values in the function that it runs, and reads the secrets by itself on its
own machine.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SecretSource:
    """Where a secret is: in a file, the output of a command, an environment variable, or a JAAS
    file.

    `what` names the secret in messages. The file has precedence over the command, and both over the
    variable. The section of a JAAS file is read if it is named, which it is only without any other
    place.
    """

    what: str
    variable: str
    file: str | None = None
    command: str | None = None
    jaas_file: str | None = None
    jaas_section: str = ""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of one kind of TLS connection, and whether the peer's name is checked.

    Without `ca` the CAs of the system are trusted. The chain is always checked. `what` names the
    connection in messages and is the prefix of its settings: bookie or zookeeper.
    """

    what: str
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: SecretSource | None = None
    is_hostname_verified: bool = True


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """A user of SASL DIGEST-MD5."""

    username: str
    password: SecretSource


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """A login by SASL GSSAPI, with the key in `keytab`, or else with the tickets in a cache.

    `ticket_cache` defaults to the default cache of the process (KRB5CCNAME, krb5.conf). `principal`
    defaults to the first one in the key tab, or that of the cache. `service` is the first part of
    the server's principal. `what` is the prefix of the settings: bookie or zookeeper.
    """

    what: str
    service: str
    keytab: str | None = None
    principal: str | None = None
    ticket_cache: str | None = None


@dataclass(frozen=True, slots=True)
class BookieAccess:
    """How connections to bookies or listers are secured. None: without TLS, or without SASL.

    `lister_tls` is for the listers of these bookies. `peer`, bookie or lister, is for messages, and
    is the prefix of the setting that switches TLS on.
    """

    tls: TlsFiles | None = None
    sasl: SaslLogin | KerberosLogin | None = None
    lister_tls: TlsFiles | None = None
    peer: str = "bookie"

    @property
    def is_secured(self) -> bool:
        return self.tls is not None or self.sasl is not None

    def of_listers(self) -> BookieAccess:
        """Return how connections to the listers of these bookies are secured. They need no
        login.
        """
        return BookieAccess(tls=self.lister_tls, peer="lister")


@dataclass(frozen=True, slots=True)
class ServedTls:
    """PEM files of a server. With `client_ca`, each client must have a certificate of that CA.

    `certificate_name`, `client_ca_name` and `password_name` are the settings that messages name.
    """

    certificate: str
    certificate_name: str
    key: str | None = None
    key_password: SecretSource | None = None
    password_name: str = "--listen-tls-key-password-file FILE"  # noqa: S105
    client_ca: str | None = None
    client_ca_name: str = ""


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """How connections to ZooKeeper are secured. `digest` is `user:password` for its scheme
    `digest`.
    """

    tls: TlsFiles | None = None
    sasl: SaslLogin | KerberosLogin | None = None
    digest: SecretSource | None = None

    @property
    def is_secured(self) -> bool:
        return not (self.tls is None and self.sasl is None and self.digest is None)


IN_CLEAR = BookieAccess()
IN_CLEAR_TO_ZOOKEEPER = ZooKeeperAccess()
