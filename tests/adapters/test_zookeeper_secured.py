"""Sessions with a real ZooKeeper that has TLS, logins and ACLs: which credentials work, and the
errors for all others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, Id, Permissions, make_digest_acl
from support.pki import Pki
from support.real_processes import free_port
from support.secured_zookeeper import jaas_of_zookeeper, secured_zookeeper
from support.zookeeper_process import ZooKeeperProcess
from support.zookeeper_znodes import QUICK, uri

from auditor.config import ZooKeeperLimits
from auditor.config.access import SaslLogin, SecretSource, TlsFiles, ZooKeeperAccess
from auditor.errors import StoreUnavailable
from auditor.wire import znode_paths
from auditor.zookeeper.metadata_store import MetadataStore, open_store
from auditor.zookeeper.reading import read_many
from auditor.zookeeper.session import connect

pytestmark = pytest.mark.timeout(120)

USER, PASSWORD = "bookkeeper", "canary-pässword"
READER, READER_PASSWORD = "auditor", "canary-digest"
CHROOT = "/deep/chroot"
ROOT = f"{CHROOT}/ledgers"
LAYOUT = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
LEDGERS = 300


@dataclass
class Guarded:
    """A server, and its credentials."""

    server: ZooKeeperProcess
    tls_port: int
    pki: Pki
    folder: Path

    def secret(self, text: str, what: str = "the secret") -> SecretSource:
        path = self.folder / f"{abs(hash(text))}.secret"
        path.write_text(text, encoding="utf-8")
        return SecretSource(what, "AUDITOR_X", file=str(path))

    def sasl(self, password: str = PASSWORD, user: str = USER) -> SaslLogin:
        return SaslLogin(user, self.secret(password))

    def tls(self, ours: Any = None, **files: Any) -> TlsFiles:
        if ours is not None:
            files |= {"certificate": str(ours.certificate), "key": str(ours.key)}
        return TlsFiles("zookeeper", **{"ca": str(self.pki.ca()), **files})

    def limits(self, access: ZooKeeperAccess, **limits: Any) -> ZooKeeperLimits:
        return replace(QUICK, access=access, **limits)

    def open(self, access: ZooKeeperAccess, hosts: str = "") -> MetadataStore:
        return open_store(uri(hosts or self.hosts(access), ROOT), self.limits(access))

    def hosts(self, access: ZooKeeperAccess) -> str:
        return self.server.hosts if access.tls is None else f"127.0.0.1:{self.tls_port}"

    def refusal(self, access: ZooKeeperAccess, hosts: str = "", **limits: Any) -> str:
        """Return why there is no store; assert that it did not wait for the connection's
        time-out.
        """
        began = time.monotonic()
        with pytest.raises(StoreUnavailable) as raised:
            open_store(
                uri(hosts or self.hosts(access), ROOT),
                self.limits(access, zookeeper_connect_timeout_ms=60_000, **limits),
            )
        assert time.monotonic() - began < 30
        assert "canary" not in str(raised.value)
        return str(raised.value)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Yield a tree below a chroot that only USER's login may change and only READER's digest may
    read.
    """
    folder = tmp_path_factory.mktemp("guarded")
    pki, port = Pki(folder / "pki"), free_port()
    settings = secured_zookeeper(pki, pki.issue("zookeeper", san="IP:127.0.0.1"), port)
    flags = [jaas_of_zookeeper(folder, USER, PASSWORD)]
    server = ZooKeeperProcess(folder / "server", more=settings, flags=flags)
    try:
        server.start()
        _plant(server.hosts)
        yield Guarded(server, port, pki, folder)
    finally:
        server.stop()


def _plant(hosts: str) -> None:
    client = KazooClient(hosts, timeout=30.0)
    client.start(30)
    guard = [
        ACL(Permissions.ALL, Id("sasl", USER)),
        make_digest_acl(READER, READER_PASSWORD, read=True),
    ]
    client.ensure_path(ROOT)
    client.create(f"{ROOT}{znode_paths.LAYOUT}", LAYOUT, acl=guard)
    for number in range(LEDGERS):
        client.create(f"{ROOT}/x{number}", b"%d" % number, acl=guard)
    for path in (ROOT, CHROOT, "/deep", "/"):
        client.set_acls(path, guard)
    client.stop()
    client.close()


def access(guarded: Guarded, way: str) -> ZooKeeperAccess:
    """Return settings for each kind of login."""
    ours = guarded.tls(guarded.pki.issue("auditor")) if way.startswith("tls") else None
    digest = guarded.secret(f"{READER}:{READER_PASSWORD}") if way.endswith("digest") else None
    return ZooKeeperAccess(ours, guarded.sasl() if way.endswith("sasl") else None, digest)


@pytest.mark.parametrize("way", ["sasl", "digest", "tls sasl", "tls digest"])
def test_each_login_reads_what_its_acl_allows_also_below_a_chroot(
    guarded: Guarded, way: str
) -> None:
    """Batched reads and single ones work, more than fit into one TLS record, with nothing readable
    above the chroot.
    """
    with guarded.open(access(guarded, way)) as store:
        assert store.root == ROOT
        znodes = list(read_many(store._session, [f"{ROOT}/x{number}" for number in range(LEDGERS)]))
    assert [znode.data for znode in znodes] == [b"%d" % number for number in range(LEDGERS)]


@pytest.mark.parametrize("way", ["sasl", "tls digest"])
def test_a_login_is_made_again_on_each_new_connection(guarded: Guarded, way: str) -> None:
    """This includes a server that was away."""
    with guarded.open(access(guarded, way)) as store:
        store._session._client._connection._socket.close()
        time.sleep(0.1)
        assert store.raw(f"{ROOT}/x7") == b"7"


@pytest.mark.parametrize(("user", "password"), [(USER, "canary-wrong"), ("nobody", PASSWORD)])
@pytest.mark.parametrize("with_tls", [False, True])
def test_a_wrong_login_is_reported_at_once(
    guarded: Guarded, user: str, password: str, with_tls: bool
) -> None:
    """kazoo alone says that the connection was lost."""
    ours = guarded.tls(guarded.pki.issue("auditor")) if with_tls else None
    said = guarded.refusal(ZooKeeperAccess(ours, guarded.sasl(password, user)))
    assert "did not let us in: it refused the user name or password" in said


@pytest.mark.parametrize("digest", ["", "nobody:canary", f"{READER}:canary-wrong"])
def test_a_wrong_digest_is_no_permission_on_the_znodes(guarded: Guarded, digest: str) -> None:
    """ZooKeeper accepts any digest. The error names the unreadable path, and what to set."""
    secret = guarded.secret(digest) if digest else None
    said = guarded.refusal(ZooKeeperAccess(digest=secret))
    assert f"{ROOT}{znode_paths.LAYOUT} may not be read by this session" in said
    assert "--zookeeper-digest-file" in said


@pytest.mark.parametrize(
    ("server_ca", "ours", "why"),
    [
        ("other", {}, "not from a CA in --zookeeper-tls-ca"),
        ("ca", None, "client certificate"),
        ("ca", {"by": "other"}, "refused our certificate|client certificate|closed the connection"),
        ("ca", {"is_expired": True}, "expired|refused our certificate|closed the connection"),
    ],
)
def test_each_fault_of_certificates_has_its_word(
    guarded: Guarded, server_ca: str, ours: Any, why: str
) -> None:
    """The server's CA is wrong, or our certificate is missing, of another CA, or expired. kazoo
    alone reports a time-out.
    """
    issued = None if ours is None else guarded.pki.issue("ours", **ours)
    tls = guarded.tls(issued, ca=str(guarded.pki.ca(server_ca)))
    said = guarded.refusal(ZooKeeperAccess(tls))
    assert any(word in said for word in why.split("|")), said


def test_the_name_of_the_server_is_checked_unless_switched_off(guarded: Guarded) -> None:
    """Its certificate is for 127.0.0.1, not for localhost. The CA is checked in any case."""
    ours, hosts = guarded.pki.issue("auditor"), f"localhost:{guarded.tls_port}"
    assert "is for another name" in guarded.refusal(ZooKeeperAccess(guarded.tls(ours)), hosts)
    unnamed = guarded.tls(ours, is_hostname_verified=False)
    with guarded.open(ZooKeeperAccess(unnamed, guarded.sasl()), hosts) as store:
        assert store.root == ROOT
    other = guarded.tls(ours, ca=str(guarded.pki.ca("other")), is_hostname_verified=False)
    assert "not from a CA" in guarded.refusal(ZooKeeperAccess(other), hosts)


def test_a_server_that_demands_logins_is_reported(tmp_path: Path) -> None:
    """It ends a session without a login, and kazoo would reconnect for ever."""
    flags = [
        jaas_of_zookeeper(tmp_path, USER, PASSWORD),
        "-Dzookeeper.sessionRequireClientSASLAuth=true",
    ]
    provider = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    server = ZooKeeperProcess(tmp_path / "server", more=provider, flags=flags)
    try:
        server.start()
        guarded = Guarded(server, 0, None, tmp_path)  # type: ignore[arg-type]  # no certificates here
        for password in (None, "canary-wrong"):
            access = (
                ZooKeeperAccess()
                if password is None
                else ZooKeeperAccess(sasl=guarded.sasl(password))
            )
            said = guarded.refusal(access)
            assert (
                "SASL login only" if password is None else "refused the user name or password"
            ) in said
        assert "there is no znode" in guarded.refusal(ZooKeeperAccess(sasl=guarded.sasl()))
    finally:
        server.stop()


def test_tls_to_a_port_without_it_is_reported(guarded: Guarded) -> None:
    """The error comes after the time-out of the connection: the server may also be starting."""
    tls = guarded.tls(guarded.pki.issue("auditor"))
    with pytest.raises(StoreUnavailable, match=r"secureClientPort|does not speak TLS"):
        connect(
            uri(guarded.server.hosts, ROOT),
            guarded.limits(ZooKeeperAccess(tls), zookeeper_connect_timeout_ms=5_000),
        )


def test_credentials_that_cannot_be_read_are_reported_before_anything_is_sent(
    guarded: Guarded,
) -> None:
    """This happens in a task of Spark, where the file may be missing."""
    missing = ZooKeeperAccess(digest=SecretSource("the digest", "AUDITOR_X", file="/no/such/file"))
    assert "the file with the digest /no/such/file cannot be read" in guarded.refusal(missing)
