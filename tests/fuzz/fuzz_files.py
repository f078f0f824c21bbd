"""Fuzz targets: files that operators, bookies and brokers write."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from targets import Target, check_storable

from auditor.bookie.listers import parse_map
from auditor.commands.ledger_ids import read_ledger_ids
from auditor.config import parse
from auditor.config.jaas import parse_jaas
from auditor.config.operator_files import parse_properties
from auditor.config.sources import read_layers
from auditor.errors import ConfigError, MalformedMetadata
from auditor.lister.bookie_configuration import configuration_of
from auditor.model.identity import LEDGER_ID_MAX
from auditor.topology.location_table import Member, read_table
from auditor.wire.cookie import parse_cookie
from auditor.wire.service_uri import parse as parse_uri

DEPLOYED = Path(__file__).parents[2] / "deploy" / "auditor.toml"


def _through_file(read: Callable[[Path], object]) -> Callable[[bytes], None]:
    """Return a function that writes its bytes to a file and has it read."""

    def feed(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as home:
            path = Path(home) / "file"
            path.write_bytes(data)
            read(path)

    return feed


def _read_table(path: Path) -> None:
    places = read_table(path)
    places.areas()
    for bookie in ("bookie-7.example.com:3181", "10.0.0.1:3181", "[2001:db8::1]:3181"):
        match = places.find(Member(bookie, *_host_port(bookie)))
        check_storable(match.location if match else None)


def _host_port(bookie: str) -> tuple[str, int]:
    host, _, port = bookie.rpartition(":")
    return host.strip("[]"), int(port)


def _read_config(path: Path) -> None:
    parse(read_layers({"config": str(path)}, {}), command="run")


def _read_client_conf(path: Path) -> None:
    parse(read_layers({"bookkeeper_client_conf": str(path)}, {}))


def _read_jaas_login(path: Path) -> None:
    settings = parse(read_layers({"bookie_jaas_file": str(path)}, {}))
    assert PASSWORD not in repr(settings).replace(settings.bookie_sasl_username or " ", "")


def read_bookie_conf(data: bytes) -> None:
    found = configuration_of(parse_properties(data.decode("utf-8", "replace")), "bookkeeper.conf")
    assert 0 <= found.port <= 65_535, found.port


def read_jaas(data: bytes) -> None:
    try:
        sections = parse_jaas(data.decode("utf-8", "replace"), "file.jaas")
    except ConfigError as error:
        assert PASSWORD not in str(error)
        raise
    for name, modules in sections.items():
        check_storable(name)
        for module in modules:
            assert PASSWORD not in repr(module).replace(module.class_name, "")
            for text in (module.class_name, *module.options, *module.options.values()):
                check_storable(text)


def read_lister_map(data: bytes) -> None:
    for bookie, (host, port) in parse_map(data.decode("utf-8", "replace"), "map").items():
        assert 1 <= port <= 65_535, port
        check_storable(bookie + host)


def read_cookie(data: bytes) -> None:
    cookie = parse_cookie(data.decode("utf-8", "replace"))
    for text in (
        cookie.bookie_id,
        cookie.instance_id,
        *cookie.ledger_directories,
        *(cookie.index_directories or ()),
    ):
        check_storable(text)


def read_service_uri(data: bytes) -> None:
    uri = parse_uri(data.decode("utf-8", "replace"))
    assert uri.hosts and uri.roots
    for text in (*uri.hosts, *uri.roots, uri.chroot, uri.text_without_secrets):
        check_storable(text)


def read_ids(path: Path) -> None:
    """Check that the ids are in the file, each once."""
    ids = read_ledger_ids(path)
    assert len(set(ids)) == len(ids)
    digits = path.read_text(encoding="ascii")
    for ledger_id in ids:
        assert 0 <= ledger_id <= LEDGER_ID_MAX and str(ledger_id) in digits, ledger_id


_TABLE = (
    b"# racks\nbookie-7.example.com:3181   /r1\n10.0.0.0/24  /region1/r2 # net\n2001:db8::/32"
    b" /region1/r3\n"
)
_CLIENT = b"""tlsProviderFactoryClass=org.apache.bookkeeper.tls.TLSContextFactory
tlsKeyStoreType=PEM
tlsTrustStore=/ca.pem
clientAuthProviderFactoryClass=org.apache.bookkeeper.sasl.SASLClientProviderFactory
"""
_BROKER = b"""bookkeeperTLSClientAuthentication=true
bookkeeperTLSTrustCertsFilePath=/ca.pem
bookkeeper_tlsHostnameVerificationEnabled: true
"""
_BOOKIE = (
    b"bookiePort=3181\nledgerDirectories=/a,/b\nindexDirectories=/c,\\\n/d\nadvertisedAddress=bk1\n"
)
PASSWORD = "canary7f3a"
_JAAS = f"""// of the client
BookKeeper {{ org.apache.zookeeper.server.auth.DigestLoginModule required
    username="u" password="{PASSWORD}"; }};
/* of ZooKeeper */ "Client" {{ com.sun.security.auth.module.Krb5LoginModule Optional
    useKeyTab=true keyTab='/a.keytab' principal="m\\145@R"; }};
""".encode()
_COOKIE = (
    b'4\nbookieHost: "bk1:3181"\njournalDirs: "/j"\nledgerDirs: "2\\t/a\\t/b"\ninstanceId:'
    b' "inst"\nindexDirs: "2\\t/a\\t/b"\n'
)
_IDS = b"7\n# lost\n 0012 # again\r\n7\n\n9223372036854775807\n"
_URIS = [
    b"zk+hierarchical://zk1:2181;zk2:2181/ledgers",
    b"metadata-store:zk:zk1:2181,[2001:db8::1]:2181/pulsar",
    b"zk+null://10.0.0.1/ledgers%20x",
]

TARGETS = (
    Target("topology-table", _through_file(_read_table), [_TABLE], (ConfigError,)),
    Target("configuration", _through_file(_read_config), [DEPLOYED.read_bytes()], (ConfigError,)),
    Target("client-conf", _through_file(_read_client_conf), [_CLIENT, _BROKER], (ConfigError,)),
    Target("bookie-conf", read_bookie_conf, [_BOOKIE], (ConfigError,)),
    Target(
        "lister-map",
        read_lister_map,
        [b"b1:3181 bk1:3182 # here\nb2 10.0.0.1:3182\n"],
        (ConfigError,),
    ),
    Target("jaas", read_jaas, [_JAAS], (ConfigError,)),
    Target("jaas-login", _through_file(_read_jaas_login), [_JAAS], (ConfigError,)),
    Target("cookie", read_cookie, [_COOKIE], (MalformedMetadata,)),
    Target("ledgers-from", _through_file(read_ids), [_IDS], (ConfigError,)),
    Target("service-uri", read_service_uri, _URIS, (ConfigError,)),
)
