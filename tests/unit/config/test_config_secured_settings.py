"""Settings of secured clusters: the access that they give, what is refused, and where no secret may
be.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest

from auditor.config import Layers, parse, read_layers, shown_values
from auditor.config.access import (
    BookieAccess,
    KerberosLogin,
    SaslLogin,
    SecretSource,
    TlsFiles,
    ZooKeeperAccess,
)
from auditor.config.secured_settings import SECRETS
from auditor.errors import ConfigError

CANARY = "canary-secret"
LOGIN = {"bookie_sasl": "digest-md5", "bookie_sasl_username": "bookkeeper"}


def settings(environment: Mapping[str, str] | None = None, **flags: str):
    return parse(Layers(flags=flags, environment=environment or {}))


def test_without_any_of_them_everything_is_in_clear() -> None:
    """As BookKeeper's own connections are by default."""
    plain = settings()
    assert plain.bookie_limits().access == BookieAccess()
    assert plain.zookeeper_limits(1).access == ZooKeeperAccess()
    assert not plain.bookie_limits().access.is_secured
    assert not plain.zookeeper_limits(1).access.is_secured


@pytest.mark.parametrize("peer", ["bookie", "zookeeper"])
def test_each_setting_of_tls_arrives(peer: str) -> None:
    """The files come with the name of the peer, by which errors name the setting."""
    files = {"ca": "ca.pem", "certificate": "our.pem", "key": "our.key", "key_password_file": "pw"}
    given = settings(
        **{f"{peer}_tls": "on", f"{peer}_tls_hostname_verification": "off"},
        **{f"{peer}_tls_{k}": v for k, v in files.items()},
    )
    access = given.bookie_limits().access if peer == "bookie" else given.zookeeper_limits(1).access
    password = SecretSource(
        f"the password of --{peer}-tls-key", f"AUDITOR_{peer.upper()}_TLS_KEY_PASSWORD", file="pw"
    )
    assert access.tls == TlsFiles(
        peer, "ca.pem", "our.pem", "our.key", password, is_hostname_verified=False
    )
    assert access.is_secured
    checked = settings(**{f"{peer}_tls": "on"})
    of_peer = (
        checked.bookie_limits().access if peer == "bookie" else checked.zookeeper_limits(1).access
    )
    assert of_peer.tls == TlsFiles(peer)


def test_a_login_has_a_user_and_the_place_of_a_password() -> None:
    """The password is in a file, printed by a command, or in a variable."""
    what, variable = "the password for --bookie-sasl", "AUDITOR_BOOKIE_SASL_PASSWORD"
    by_file = settings(**LOGIN, bookie_sasl_password_file="pw").bookie_limits().access
    by_command = settings(**LOGIN, bookie_sasl_password_command="print pw").bookie_limits().access
    by_variable = settings({variable: CANARY}, **LOGIN).bookie_limits().access
    assert by_file.sasl == SaslLogin("bookkeeper", SecretSource(what, variable, file="pw"))
    assert by_command.sasl == SaslLogin(
        "bookkeeper", SecretSource(what, variable, command="print pw")
    )
    assert by_variable.sasl == SaslLogin("bookkeeper", SecretSource(what, variable))


@pytest.mark.parametrize(
    ("peer", "service"), [("bookie", "bookkeeper"), ("zookeeper", "zookeeper")]
)
def test_a_login_by_kerberos_needs_no_setting_but_its_name(peer: str, service: str) -> None:
    """The ticket cache of the process is used; the service is that of Java's client."""

    def sasl(**more: str):
        given = settings(**{f"{peer}_sasl": "gssapi", **more})
        bookies, zookeeper = given.bookie_limits().access, given.zookeeper_limits(1).access
        access = bookies if peer == "bookie" else zookeeper
        assert access.is_secured
        return access.sasl

    assert sasl() == KerberosLogin(peer, service)
    assert sasl(
        **{
            f"{peer}_sasl_keytab": "k",
            f"{peer}_sasl_principal": "p",
            f"{peer}_sasl_service": "s",
        }
    ) == KerberosLogin(peer, "s", "k", "p")
    assert sasl(**{f"{peer}_sasl_ticket_cache": "c"}) == KerberosLogin(
        peer, service, ticket_cache="c"
    )


def test_a_digest_is_used_where_its_place_is_given() -> None:
    """No other setting turns it on."""
    by_file = settings(zookeeper_digest_file="d").zookeeper_limits(1).access
    by_variable = settings({"AUDITOR_ZOOKEEPER_DIGEST": CANARY}).zookeeper_limits(1).access
    assert by_file.digest is not None and by_file.digest.file == "d"
    assert (
        by_variable.digest is not None and by_variable.digest.variable == "AUDITOR_ZOOKEEPER_DIGEST"
    )
    assert by_variable.is_secured


def test_no_secret_is_in_the_settings_or_in_what_executors_get() -> None:
    """It is neither pickled nor printed, nor shown by `auditor config`. It is read where it is
    used.
    """
    environment = {secret.variable: CANARY for secret in SECRETS}
    full = settings(
        environment,
        **LOGIN,
        bookie_tls="on",
        zookeeper_tls="on",
        zookeeper_sasl="digest-md5",
        zookeeper_sasl_username="z",
    )
    access = full.bookie_limits(), full.zookeeper_limits(1)
    assert full.zookeeper_limits(1).access.sasl is not None
    assert CANARY.encode() not in pickle.dumps((full, access))
    assert CANARY not in repr((full, access)) + "".join(shown_values(full).values())


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret.key)
def test_a_secret_has_no_flag_and_no_key_in_a_file(secret) -> None:
    """Every user of the machine could read a flag; files of settings are copied around."""
    with pytest.raises(ConfigError, match="is not a setting"):
        parse(Layers(flags={secret.key: CANARY}))
    with pytest.raises(ConfigError, match="is not a setting") as raised:
        parse(Layers(file={secret.key: CANARY}))
    assert CANARY not in str(raised.value)
    assert parse(read_layers({}, {secret.variable: CANARY})).secrets_in_environment == {secret.key}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"bookie_tls_ca": "ca.pem"}, "bookie_tls_ca has no effect without --bookie-tls on"),
        ({"zookeeper_tls_key_password_command": "c"}, "has no effect without --zookeeper-tls on"),
        (
            {"bookie_tls": "on", "bookie_tls_key": "k"},
            "bookie_tls_key has no effect without --bookie-tls-certificate",
        ),
        ({"bookie_sasl_username": "u"}, "no effect without --bookie-sasl digest-md5"),
        ({"zookeeper_sasl_password_file": "f"}, "no effect without --zookeeper-sasl digest-md5"),
        (
            {"bookie_sasl": "digest-md5", "bookie_sasl_password_file": "f"},
            "needs a user: give --bookie-sasl-username",
        ),
        (LOGIN, "needs a password: give --bookie-sasl-password-file FILE"),
        (
            {**LOGIN, "bookie_sasl_password_file": "f", "bookie_sasl_password_command": "c"},
            "choose one",
        ),
        ({"bookie_sasl": "plain"}, "is not one of none, digest-md5, gssapi"),
        ({"bookie_sasl_keytab": "k"}, "bookie_sasl_keytab has no effect without --bookie-sasl gss"),
        (
            {**LOGIN, "bookie_sasl_password_file": "f", "bookie_sasl_principal": "p"},
            "bookie_sasl_principal has no effect without --bookie-sasl gssapi",
        ),
        (
            {"bookie_sasl": "gssapi", "bookie_sasl_username": "u"},
            "bookie_sasl_username has no effect without --bookie-sasl digest-md5",
        ),
        (
            {"zookeeper_sasl": "gssapi", "zookeeper_sasl_password_file": "f"},
            "zookeeper_sasl_password_file has no effect without --zookeeper-sasl digest-md5",
        ),
        (
            {
                "bookie_sasl": "gssapi",
                "bookie_sasl_keytab": "k",
                "bookie_sasl_ticket_cache": "c",
            },
            "both give tickets: choose one",
        ),
        ({"bookie_tls": "perhaps"}, "neither true nor false"),
    ],
)
def test_what_would_secure_nothing_is_refused(given: dict[str, str], why: str) -> None:
    """These settings suggest a protection that does not exist."""
    with pytest.raises(ConfigError, match=why):
        settings(**given)
