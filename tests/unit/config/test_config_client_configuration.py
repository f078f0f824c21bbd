"""Settings taken from the configuration of a BookKeeper client or of a Pulsar broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.config import origins, parse, read_layers
from auditor.config.operator_files import parse_properties
from auditor.config.sources import settings_of_client
from auditor.errors import ConfigError

PROVIDER = "org.apache.bookkeeper.tls.TLSContextFactory"
CLIENT = f"""\
# of the cluster
tlsProviderFactoryClass={PROVIDER}
tlsTrustStoreType=PEM
tlsTrustStore=/etc/bk/ca.pem
tlsClientAuthentication=true
tlsKeyStoreType=PEM
tlsKeyStore=/etc/bk/key.pem
tlsCertificatePath=/etc/bk/cert.pem
tlsKeyStorePasswordPath=/etc/bk/pw
tlsHostnameVerificationEnabled=false
"""
BROKER = f"""\
bookkeeperTLSProviderFactoryClass={PROVIDER}
bookkeeperTLSClientAuthentication=true
bookkeeperTLSKeyFileType=PEM
bookkeeperTLSKeyFilePath=/etc/bk/key.pem
bookkeeperTLSCertificateFilePath=/etc/bk/cert.pem
bookkeeperTLSTrustCertsFilePath=/etc/bk/ca.pem
bookkeeperTLSKeyStorePasswordPath=/etc/bk/pw
"""
TLS = {
    "bookie_tls": "on",
    "bookie_tls_ca": "/etc/bk/ca.pem",
    "bookie_tls_certificate": "/etc/bk/cert.pem",
    "bookie_tls_key": "/etc/bk/key.pem",
    "bookie_tls_key_password_file": "/etc/bk/pw",
}


def of(text: str) -> dict[str, str]:
    return settings_of_client(parse_properties(text), "client.conf")


def test_a_clients_tls_is_ours() -> None:
    """The check of hostnames is as the client's file has it. If the file does not set it, it stays
    on.
    """
    assert of(CLIENT) == {**TLS, "bookie_tls_hostname_verification": "false"}
    assert "bookie_tls_hostname_verification" not in of(
        CLIENT.replace("tlsHostnameVerificationEnabled", "x")
    )
    assert of("bookkeeper.metadata.client.drivers=D\n" + CLIENT) == of(CLIENT)


def test_a_brokers_tls_is_ours() -> None:
    """A broker has names of its own, or BookKeeper's names with a prefix."""
    assert of(BROKER) == TLS
    assert of("\n".join(f"bookkeeper_{line}" for line in CLIENT.splitlines()[1:-1])) == TLS


def test_a_broker_has_the_defaults_of_pulsar() -> None:
    """Client authentication alone turns TLS on. The provider and PEM are defaults, also where a
    line is empty.
    """
    lines = [
        line
        for line in BROKER.splitlines()
        if "ProviderFactory" not in line and "FileType" not in line
    ]
    assert of("\n".join(lines)) == TLS
    assert (
        of("\n".join([*lines, "bookkeeperTLSProviderFactoryClass=", "bookkeeperTLSKeyFileType="]))
        == TLS
    )
    assert of("bookkeeperTLSClientAuthentication=TRUE") == {"bookie_tls": "on"}


def test_what_a_broker_serves_with_is_not_what_it_asks_bookies_with() -> None:
    """broker.conf has tlsTrustStore and others for Pulsar's own clients."""
    served = (
        "tlsTrustStore=/pulsar.jks\ntlsKeyStoreType=JKS\n"
        "tlsHostnameVerificationEnabled=false\ntlsKeyStore=/p.jks\n"
    )
    assert of(BROKER + served) == TLS
    assert of("bookkeeperTLSClientAuthentication=false\n" + served) == {}


def test_a_brokers_file_as_it_is_shipped_is_in_clear() -> None:
    """It names no file for bookies, so it does not suggest TLS."""
    shipped = (
        f"bookkeeperTLSProviderFactoryClass={PROVIDER}\nbookkeeperTLSClientAuthentication=false\n"
    )
    assert of(shipped + "bookkeeperTLSKeyFileType=PEM\nbookkeeperTLSTrustCertsFilePath=\n") == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            BROKER.replace("Authentication=true", "Authentication=false"),
            "bookkeeperTLSClientAuthentication=true",
        ),
        (
            BROKER.replace("bookkeeperTLSClientAuthentication=true\n", ""),
            "bookkeeperTLSClientAuthentication=true",
        ),
        (CLIENT.replace(PROVIDER, ""), "tlsProviderFactoryClass"),
        ("tlsClientAuthentication=true", "tlsProviderFactoryClass"),
        ("clientTrustStore=/t.jks", "tlsProviderFactoryClass"),
        ("bookkeeper_tlsTrustStore=/t.pem", "bookkeeper_tlsProviderFactoryClass"),
    ],
)
def test_a_file_that_names_what_tls_needs_and_yields_no_tls_is_refused(text: str, why: str) -> None:
    """Its author expects TLS, so an audit in clear would be a surprise. This does not apply if
    another setting decides on TLS.
    """
    with pytest.raises(ConfigError, match=rf"client\.conf: .* in clear.*{why}.*--bookie-tls off"):
        of(text)
    assert settings_of_client(parse_properties(text), "client.conf", is_tls_decided=True) == {}


def test_a_switch_beside_the_file_decides_on_tls(tmp_path: Path) -> None:
    """A flag, a variable or the TOML file can say that the audit is in clear."""
    path, toml = tmp_path / "client.conf", tmp_path / "a.toml"
    path.write_text(CLIENT.replace(PROVIDER, ""))
    toml.write_text(f'bookkeeper_client_conf = "{path}"\nbookie_tls = false\n')
    named = {"AUDITOR_BOOKKEEPER_CLIENT_CONF": str(path)}
    with pytest.raises(ConfigError, match="in clear"):
        read_layers({}, named)
    for layers in (
        read_layers({"bookie_tls": "off"}, named),
        read_layers({}, {**named, "AUDITOR_BOOKIE_TLS": "off"}),
        read_layers({"config": str(toml)}, {}),
    ):
        assert not parse(layers).bookie_tls


def test_a_client_without_certificate_sends_none() -> None:
    """Its certificate and key are not taken over."""
    plain = of(CLIENT.replace("Authentication=true", "Authentication=false"))
    assert set(plain) == {"bookie_tls", "bookie_tls_ca", "bookie_tls_hostname_verification"}


def test_key_stores_of_java_are_passed_on_to_be_refused_with_what_converts_them() -> None:
    """The old names of BookKeeper give way to the new ones."""
    old = (
        f"tlsProviderFactoryClass={PROVIDER}\ntlsClientAuthentication=true\n"
        "clientKeyStore=/k.jks\nclientTrustStore=/t.jks\n"
    )
    assert of(old) == {
        "bookie_tls": "on",
        "bookie_tls_ca": "/t.jks",
        "bookie_tls_certificate": "/k.jks",
    }
    assert of(old + "tlsTrustStore=/new.jks\n")["bookie_tls_ca"] == "/new.jks"


@pytest.mark.parametrize(
    "key", ["clientAuthProviderFactoryClass", "bookkeeperClientAuthenticationPlugin"]
)
def test_a_login_by_sasl_is_ours_and_another_plugin_is_refused(key: str) -> None:
    """The client has user and password in a JAAS file. The auditor has settings of its own for
    them.
    """
    assert of(f"{key}=org.apache.bookkeeper.sasl.SASLClientProviderFactory") == {
        "bookie_sasl": "digest-md5"
    }
    with pytest.raises(
        ConfigError, match=r"client\.conf: clientAuthProviderFactoryClass is com\.example\.Other"
    ):
        of(f"{key}=com.example.Other")


def test_a_file_is_named_by_a_flag_a_variable_or_the_toml_file_and_gives_way_to_each(
    tmp_path: Path,
) -> None:
    """`auditor config` shows that a value came from the file."""
    path, toml = tmp_path / "client.conf", tmp_path / "a.toml"
    path.write_text(CLIENT)
    toml.write_text(f'bookkeeper_client_conf = "{path}"\nbookie_tls_ca = "/mine.pem"\n')
    for layers in (
        read_layers({"bookkeeper_client_conf": str(path)}, {}),
        read_layers({}, {"AUDITOR_BOOKKEEPER_CLIENT_CONF": str(path)}),
        read_layers({"config": str(toml)}, {}),
    ):
        settings = parse(layers)
        assert (settings.bookie_tls, settings.bookie_tls_key) == (True, "/etc/bk/key.pem")
        assert settings.bookie_tls_ca == ("/mine.pem" if layers.file else "/etc/bk/ca.pem")
        assert origins(layers)["bookie_tls_key"].name == f"bookie_tls_key in {path}"
    over = parse(
        read_layers(
            {"bookkeeper_client_conf": str(path), "bookie_tls_hostname_verification": "on"}, {}
        )
    )
    assert over.bookie_tls_hostname_verification


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """The error is raised before anything is contacted."""
    with pytest.raises(ConfigError, match=r"bookkeeper_client_conf .*none cannot be read"):
        read_layers({"bookkeeper_client_conf": str(tmp_path / "none")}, {})


OURS = {
    "bookie_tls_certificate",
    "bookie_tls_key",
    "bookie_tls_key_password_file",
    "bookie_tls_key_password_command",
}


@pytest.mark.parametrize(
    ("flags", "environment", "left"),
    [
        ({"bookie_tls_certificate": "mine.pem"}, {}, {"bookie_tls_certificate": "mine.pem"}),
        (
            {"bookie_tls_certificate": "mine.pem", "bookie_tls_key": "mine.key"},
            {},
            {"bookie_tls_certificate": "mine.pem", "bookie_tls_key": "mine.key"},
        ),
        (
            {"bookie_tls_key_password_command": "vault read"},
            {},
            {
                "bookie_tls_certificate": "/etc/bk/cert.pem",
                "bookie_tls_key": "/etc/bk/key.pem",
                "bookie_tls_key_password_command": "vault read",
            },
        ),
        (
            {},
            {"AUDITOR_BOOKIE_TLS_KEY_PASSWORD": "canary"},
            {"bookie_tls_certificate": "/etc/bk/cert.pem", "bookie_tls_key": "/etc/bk/key.pem"},
        ),
        ({"bookie_tls": "off"}, {}, {}),
        ({}, {"AUDITOR_BOOKIE_TLS": "off"}, {}),
    ],
)
def test_what_belongs_together_gives_way_together(
    tmp_path: Path, flags: dict[str, str], environment: dict[str, str], left: dict[str, str]
) -> None:
    """A certificate of ours is never used with the key of the file, nor a password of ours with
    that of the file. With TLS off, no file is taken over.
    """
    path = tmp_path / "client.conf"
    path.write_text(CLIENT)
    layers = read_layers({**flags, "bookkeeper_client_conf": str(path)}, environment)
    settings = parse(layers)
    assert {key: getattr(settings, key) for key in OURS if getattr(settings, key)} == left
    assert settings.bookie_tls == ("off" not in {**flags, **environment}.values())
    assert {key for key in OURS if origins(layers)[key].layer != "default"} == left.keys()


def test_a_brokers_keys_behind_the_prefix_win() -> None:
    """Pulsar applies them last."""
    assert of(BROKER + "bookkeeper_tlsTrustStore=/other.pem\n")["bookie_tls_ca"] == "/other.pem"
