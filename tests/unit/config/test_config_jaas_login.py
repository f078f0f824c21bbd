"""The login of a BookKeeper client, taken from its JAAS file."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from auditor.config import Layers, Settings, origins, parse, read_layers, shown_values
from auditor.config.access import KerberosLogin, SaslLogin, SecretSource
from auditor.config.jaas import JAAS_BYTES_MAX
from auditor.credentials.checking import secrets_open_to_all
from auditor.credentials.secret_reading import read_secret
from auditor.errors import ConfigError

CANARY = "canary-pässword"
DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
SASL = "clientAuthProviderFactoryClass=org.apache.bookkeeper.sasl.SASLClientProviderFactory\n"


@pytest.fixture
def jaas(tmp_path: Path) -> Path:
    path = tmp_path / "a.jaas"
    path.write_text(
        f'BookKeeper {{ {DIGEST} required username="bookkeeper" password="{CANARY}"; }};\n'
        f"Client {{ {KRB5} required useKeyTab=true storeKey=true"
        ' keyTab="/etc/a.keytab" principal="me@REALM"; };\n'
        f'Cache {{ {KRB5} required useTicketCache=true ticketCache="/tmp/cc"; }};\n',
        encoding="utf-8",
    )
    return path


def settings(
    jaas: Path, section: str = "", environment: dict[str, str] | None = None, **flags: str
) -> Settings:
    return parse(layers_of(jaas, section, environment, **flags))


def layers_of(
    jaas: Path, section: str = "", environment: dict[str, str] | None = None, **flags: str
) -> Layers:
    given = {"bookie_jaas_file": str(jaas), **flags}
    if section:
        given["bookie_jaas_section"] = section
    return read_layers(given, environment or {})


def test_user_and_password_are_taken_from_the_default_section(jaas: Path) -> None:
    """The password is read where it is used, and is neither in the settings nor in the job."""
    given = settings(jaas)
    source = SecretSource(
        "the password for --bookie-sasl",
        "AUDITOR_BOOKIE_SASL_PASSWORD",
        jaas_file=str(jaas),
        jaas_section="BookKeeper",
    )
    access = given.bookie_limits().access
    assert access.sasl == SaslLogin("bookkeeper", source)
    assert read_secret(source) == CANARY
    assert CANARY.encode() not in pickle.dumps((given, access))
    assert CANARY not in repr((given, access)) + "".join(shown_values(given).values())
    assert origins(layers_of(jaas))["bookie_sasl_password"].name.endswith(str(jaas))
    jaas.chmod(0o644)
    assert secrets_open_to_all(access, given.zookeeper_limits(1).access) == [str(jaas)]


def test_a_key_tab_or_a_ticket_cache_is_taken_from_a_named_section(jaas: Path) -> None:
    """Kerberos' login module gives no user and no password."""
    assert settings(jaas, "Client").bookie_limits().access.sasl == KerberosLogin(
        "bookie", "bookkeeper", keytab="/etc/a.keytab", principal="me@REALM"
    )
    assert settings(jaas, "Cache").bookie_limits().access.sasl == KerberosLogin(
        "bookie", "bookkeeper", ticket_cache="/tmp/cc"
    )


@pytest.mark.parametrize("place", ["flag", "variable", "toml", "client", "property"])
def test_the_file_and_its_section_are_named_where_every_setting_is(
    jaas: Path, tmp_path: Path, place: str
) -> None:
    """The client's own configuration can name them too, under BookKeeper's names."""
    flags, environment = {}, {}
    toml, client = tmp_path / "a.toml", tmp_path / "client.conf"
    client.write_text(f"{SASL}saslJaasClientSectionName=Client\n")
    toml.write_text(f'bookie_jaas_file = "{jaas}"\nbookie_jaas_section = "Client"\n')
    if place == "flag":
        flags = {"bookie_jaas_file": str(jaas), "bookie_jaas_section": "Client"}
    elif place == "variable":
        environment = {
            "AUDITOR_BOOKIE_JAAS_FILE": str(jaas),
            "AUDITOR_BOOKIE_JAAS_SECTION": "Client",
        }
    elif place == "toml":
        flags = {"config": str(toml)}
    else:
        flags = {"bookkeeper_client_conf": str(client)}
        if place == "client":
            flags["bookie_jaas_file"] = str(jaas)
        else:
            client.write_text(f"{client.read_text()}java.security.auth.login.config={jaas}\n")
    sasl = parse(read_layers(flags, environment)).bookie_limits().access.sasl
    assert sasl == KerberosLogin("bookie", "bookkeeper", "/etc/a.keytab", "me@REALM")


def test_other_settings_override_the_file(
    jaas: Path,
) -> None:
    """Values that belong together come from one place: the password of the file is not tried for
    another user.
    """
    by_file = settings(jaas, bookie_sasl_password_file="pw").bookie_limits().access.sasl
    assert isinstance(by_file, SaslLogin)
    assert (by_file.username, by_file.password.file, by_file.password.jaas_file) == (
        "bookkeeper",
        "pw",
        None,
    )
    variable = {"AUDITOR_BOOKIE_SASL_PASSWORD": "x"}
    by_variable = settings(jaas, "", variable).bookie_limits().access.sasl
    assert isinstance(by_variable, SaslLogin) and by_variable.password.jaas_file is None
    with pytest.raises(ConfigError, match="bookie_sasl needs a password"):
        settings(jaas, bookie_sasl_username="other")
    assert settings(jaas, bookie_sasl="none").bookie_limits().access.sasl is None
    assert settings(jaas, bookie_sasl="gssapi").bookie_limits().access.sasl == KerberosLogin(
        "bookie", "bookkeeper"
    )
    other = settings(jaas, "Client", bookie_sasl_ticket_cache="/cc").bookie_limits().access.sasl
    assert other == KerberosLogin("bookie", "bookkeeper", ticket_cache="/cc")
    same = settings(jaas, bookie_sasl="digest-md5").bookie_limits().access.sasl
    assert isinstance(same, SaslLogin) and same.password.jaas_file == str(jaas)


@pytest.mark.parametrize(
    ("section", "why"),
    [
        (f'{DIGEST} required username="u";', "has no option password for its DigestLoginModule"),
        (f'{DIGEST} required password="{CANARY}";', "has no option username"),
        (f'{DIGEST} required username="u" password="";', "has no option password"),
        (f'{DIGEST} required username="u" password="${{{CANARY}}}";', "a property of the JVM"),
        (f"{KRB5} required;", "has neither useKeyTab=true nor useTicketCache=true"),
        (f"{KRB5} required useKeyTab=true;", "has no option keyTab"),
        (f'{KRB5} required useKeyTab=true keyTab="${{user.home}}/a";', "a property of the JVM"),
        ("com.example.Other required;", "has 0 login modules of the classes"),
        (f"{KRB5} required useTicketCache=true; {DIGEST} required;", "has 2 login modules"),
        ("", "has 0 login modules"),
    ],
)
def test_a_login_that_is_of_no_use_is_refused(jaas: Path, section: str, why: str) -> None:
    """The error has the section and the option, and never a value."""
    jaas.write_text(f"BookKeeper {{ {section} }};", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        settings(jaas)
    said = str(raised.value)
    assert f"the section 'BookKeeper' of {jaas}" in said
    assert why in said
    assert CANARY not in said


def test_a_section_that_is_not_there_is_named_with_those_that_are(jaas: Path) -> None:
    """A terminal shows no control characters of a name."""
    with pytest.raises(ConfigError, match=r"no section 'Other': it has 'BookKeeper', 'Client', 'C"):
        settings(jaas, "Other")
    jaas.write_text('"\\33[31m" { };')
    with pytest.raises(ConfigError, match=r"it has '\\x1b\[31m'"):
        settings(jaas)


def test_a_file_that_cannot_be_read_is_named(jaas: Path, tmp_path: Path) -> None:
    """It is missing, too large, or not UTF-8."""
    with pytest.raises(ConfigError, match=r"the JAAS file .*none cannot be read"):
        settings(tmp_path / "none")
    jaas.write_bytes(b" " * (JAAS_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="is larger than"):
        settings(jaas)
    jaas.write_bytes(b"A { \xff")
    with pytest.raises(ConfigError, match=r"is not UTF-8 text \(byte 4\)"):
        settings(jaas)


def test_a_command_that_asks_no_bookie_leaves_the_file_unread(tmp_path: Path) -> None:
    """The report of last night can be read where there is no secret."""
    missing = {"AUDITOR_BOOKIE_JAAS_FILE": str(tmp_path / "none")}
    for command in ("report", "topology", "lister", "replay"):
        assert parse(read_layers({}, missing, command), command=None).bookie_sasl == "none"
    for command in ("run", "ledger", "topic", "config"):
        with pytest.raises(ConfigError, match="the JAAS file"):
            read_layers({}, missing, command)


@pytest.mark.parametrize(
    "command", ["report", "explain", "replay", "mute", "diff", "margin", "demo"]
)
def test_a_command_that_asks_no_bookie_does_not_miss_what_the_file_holds(
    command: str, jaas: Path, tmp_path: Path
) -> None:
    """It misses neither the user for DIGEST-MD5 nor the mechanism for a principal."""
    client = tmp_path / "client.conf"
    client.write_text(SASL)
    toml = tmp_path / "a.toml"
    toml.write_text(f'bookkeeper_client_conf = "{client}"\nbookie_jaas_file = "{jaas}"\n')
    principal = tmp_path / "b.toml"
    principal.write_text(f'bookie_jaas_file = "{jaas}"\nbookie_sasl_principal = "me@REALM"\n')
    for file in (toml, principal):
        parse(read_layers({"config": str(file)}, {}, command), command=None)


def test_a_section_without_a_password_gives_none(jaas: Path) -> None:
    """The file may differ on an executor."""
    source = SecretSource("it", "V", jaas_file=str(jaas), jaas_section="Client")
    with pytest.raises(ConfigError, match="has no DigestLoginModule, and so no password"):
        read_secret(source)
