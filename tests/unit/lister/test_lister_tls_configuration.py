"""Whether a lister speaks TLS and with which files, by its settings and its bookie's."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pki import PASSWORD, Pki

from auditor.config import Layers, Settings, parse
from auditor.config.access import SecretSource, ServedTls
from auditor.credentials.tls import server_context
from auditor.errors import ConfigError
from auditor.lister.bookie_configuration import tls_configuration

TLS = {"tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory"}
PEM = {
    "tlsKeyStoreType": "PEM", "tlsKeyStore": "/b.key", "tlsCertificatePath": "/b.pem",
    "tlsKeyStorePasswordPath": "/b.password", "tlsTrustStore": "/ca.pem",
}  # fmt: skip
VARIABLE = "AUDITOR_LISTEN_TLS_KEY_PASSWORD"


def settings(**flags: str) -> Settings:
    return parse(Layers(flags=flags), command="config")


def test_without_anything_said_a_lister_speaks_none() -> None:
    """Also where the bookie has files of TLS and does not speak it, or the lister may not."""
    assert tls_configuration(settings(), {}, "conf") is None
    assert tls_configuration(settings(), PEM, "conf") is None
    assert tls_configuration(settings(listen_tls="off"), TLS | PEM, "conf") is None


@pytest.mark.parametrize("wants", ["true", "TRUE", "false", ""])
def test_the_bookies_own_files_are_used(wants: str) -> None:
    """Key, certificate and password; its trust store where it wants certificates of clients."""
    found = tls_configuration(
        settings(), TLS | PEM | {"tlsClientAuthentication": wants, "other": "x"}, "conf"
    )
    key_password = SecretSource("the password of the key in /b.key", VARIABLE, file="/b.password")
    ca = ("/ca.pem", "tlsTrustStore of conf (--listen-tls-ca goes before it)")
    assert found == ServedTls(
        "/b.pem",
        "tlsCertificatePath of conf (--listen-tls-certificate goes before it)",
        "/b.key",
        key_password,
        "tlsKeyStorePasswordPath of conf",
        *(ca if wants.lower() == "true" else ()),
    )


def test_a_key_store_without_a_certificate_beside_it_holds_both() -> None:
    """It is then the file of the certificate, and there is no other one of the key."""
    found = tls_configuration(settings(), TLS | {"tlsKeyStore": "/b.jks"}, "conf")
    assert found is not None
    assert (found.certificate, found.key, found.key_password) == ("/b.jks", None, None)


@pytest.mark.parametrize("own", [{}, {"listen_tls_certificate": "/own.pem"}])
def test_a_password_of_its_own_goes_before_the_bookies(own: dict[str, str]) -> None:
    """For its own key as for the bookie's, and it is the one that messages name."""
    given = settings(**own, listen_tls_key_password_file="/own.password")
    found = tls_configuration(given, TLS | PEM, "conf")
    password = SecretSource("the password of --listen-tls-key", VARIABLE, file="/own.password")
    assert found is not None
    assert (found.key_password, found.password_name) == (
        password,
        "--listen-tls-key-password-file FILE",
    )


def test_files_of_its_own_go_before_the_bookies() -> None:
    """The bookie's password is not tried on another key. That clients need a certificate stays."""
    bookie = TLS | PEM | {"tlsClientAuthentication": "true"}
    own = settings(listen_tls_certificate="/own.pem", listen_tls_key="/own.key")
    found = tls_configuration(own, bookie, "conf")
    assert found is not None
    assert (found.certificate, found.key, found.key_password) == ("/own.pem", "/own.key", None)
    assert found.client_ca == "/ca.pem"
    with_ca = tls_configuration(settings(listen_tls_ca="/clients.pem"), bookie, "conf")
    assert with_ca is not None
    assert (with_ca.client_ca, with_ca.certificate) == ("/clients.pem", "/b.pem")
    assert with_ca.client_ca_name == "--listen-tls-ca /clients.pem"
    alone = settings(listen_tls="on", listen_tls_certificate="/own.pem")
    assert tls_configuration(alone, {}, "conf") == ServedTls(
        "/own.pem", "--listen-tls-certificate /own.pem"
    )


@pytest.mark.parametrize(
    ("flags", "bookie", "why"),
    [
        ({"listen_tls_ca": "/c"}, {}, "listen_tls_ca has no effect without --listen-tls on"),
        ({"listen_tls": "off", "listen_tls_key": "/k"}, TLS, "no effect without --listen-tls on"),
        ({"listen_tls": "on"}, {}, "conf has no tlsKeyStore: give --listen-tls-certificate FILE"),
        ({"listen_tls": "on", "listen_tls_key": "/k"}, PEM, "without --listen-tls-certificate"),
        (
            {},
            TLS | {"tlsKeyStore": "/k", "tlsClientAuthentication": "true"},
            "no tlsTrustStore: give --listen-tls-ca FILE",
        ),
    ],
)
def test_what_would_secure_nothing_is_refused(
    flags: dict[str, str], bookie: dict[str, str], why: str
) -> None:
    """Such settings suggest a protection that does not exist."""
    with pytest.raises(ConfigError, match=why):
        tls_configuration(settings(**flags), bookie, "conf")


def test_a_key_store_of_java_is_refused_with_the_lines_that_convert_it(tmp_path: Path) -> None:
    """JKS by way of PKCS12, for the certificate; the CA out of either."""
    pki = Pki(tmp_path)
    jks = tmp_path / "keys.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed rest")
    issued = pki.issue("bookie")
    for store, line in ((jks, "keytool -importkeystore"), (issued.pkcs12, "openssl pkcs12 -in")):
        found = tls_configuration(settings(), TLS | {"tlsKeyStore": str(store)}, "the conf")
        assert found is not None
        with pytest.raises(ConfigError, match=line) as raised:
            server_context(found)
        assert "tlsKeyStore of the conf (--listen-tls-certificate goes before" in str(raised.value)
    trusting = {"tlsTrustStore": str(jks), "tlsClientAuthentication": "true"}
    pem = {"tlsKeyStore": str(issued.key), "tlsCertificatePath": str(issued.certificate)}
    found = tls_configuration(settings(), TLS | pem | trusting, "the conf")
    assert found is not None
    with pytest.raises(ConfigError, match="keytool -exportcert"):
        server_context(found)


def test_the_password_of_the_bookies_key_is_used(tmp_path: Path) -> None:
    """The error on a wrong one has the key that names it, and never shows it."""
    pki = Pki(tmp_path)
    issued = pki.issue("bookie")
    pem = {
        "tlsKeyStore": str(issued.encrypted_key(PASSWORD)),
        "tlsCertificatePath": str(issued.certificate),
        "tlsKeyStorePasswordPath": str(pki.password_file()),
    }
    found = tls_configuration(settings(), TLS | pem, "the conf")
    assert found is not None
    server_context(found)
    pki.password_file().write_text("wrong-canary")
    with pytest.raises(ConfigError, match="tlsKeyStorePasswordPath of the conf") as raised:
        server_context(found)
    assert "wrong-canary" not in str(raised.value)
