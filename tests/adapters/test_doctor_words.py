"""`auditor doctor` on each fault of TLS and of a login: it says the word for that fault and no
other word of the table in docs/secured-clusters.md.
"""

from __future__ import annotations

import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from support.command_line import PROJECT, Done, command_here
from support.guarded_bookie import USER, GuardedBookie
from support.kerberos_bookie import KerberosBookie
from support.pki import Pki
from support.scripted_bookie import ScriptedBookie
from support.scripted_gssapi import OFFERS_NO_LAYER, ScriptedGssapi, kdc

from auditor.credentials import kerberos
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire import bookie_registration, znode_paths

pytestmark = pytest.mark.timeout(120)

PASSWORD = "right"
NO_KEYTAB = Path("/no/such/keytab")
"""The scripted bookies here accept no ticket by themselves."""
Settings = dict[str, str]


@dataclass
class Site:
    """A cluster of one bookie, b1, whose place a scripted bookie takes for each fault."""

    cluster: SandboxCluster
    pki: Pki
    folder: Path
    patch: pytest.MonkeyPatch
    uri: str = ""

    def doctor(self, bookie: ScriptedBookie | None, settings: Settings) -> Done:
        """Run `auditor doctor` where b1 is `bookie`."""
        words = [w for key, value in settings.items() for w in (_flag(key), value)]
        at = ["--metadata-service-uri", self.uri or self.cluster.metadata_service_uri]
        quick = ["--rpc-timeout", "1s", "--zookeeper-connect-timeout", "4s"]
        if bookie is None:
            return command_here("doctor", *at, *quick, *words)
        with bookie:
            self.cluster.register("b1", bookie_registration.encode("127.0.0.1", bookie.port))
            return command_here("doctor", *at, *quick, *words)

    def tls(self, ours: dict[str, Any] | None = None, ca: str = "ca") -> Settings:
        """Return settings of TLS, with our certificate issued with `ours` if that is given."""
        settings = {"bookie_tls": "on", "bookie_tls_ca": str(self.pki.ca(ca))}
        if ours is None:
            return settings
        issued = self.pki.issue("ours", **ours)
        settings["bookie_tls_certificate"] = str(issued.certificate)
        return settings | {"bookie_tls_key": str(issued.key)}

    def login(self, password: str = PASSWORD, user: str = USER) -> Settings:
        """Return settings of a login by DIGEST-MD5."""
        path = self.folder / "password"
        path.write_text(password)
        return {
            "bookie_sasl": "digest-md5",
            "bookie_sasl_username": user,
            "bookie_sasl_password_file": str(path),
        }

    def bookie(self, **given: Any) -> GuardedBookie:
        """Return a bookie with TLS and a certificate that is issued with what is given."""
        return GuardedBookie(tls=self.pki.issue("bookie", **given))

    def asks_for_certificate(self) -> GuardedBookie:
        return GuardedBookie(tls=self.pki.issue("bookie"), ca=self.pki.ca())

    def kerberos(
        self, library: Any, bookie: ScriptedBookie | None = None, *, has_keytab: bool = False
    ) -> Done:
        """Run `auditor doctor` with this library for Kerberos; None: there is none."""
        self.patch.setitem(sys.modules, "gssapi", library)
        self.patch.setattr(kerberos, "_failed", {})
        settings = {"bookie_sasl": "gssapi", "bookie_sasl_principal": "auditor"}
        settings["bookie_sasl_keytab" if has_keytab else "bookie_sasl_ticket_cache"] = "/a/file"
        return self.doctor(bookie or KerberosBookie(NO_KEYTAB), settings)

    def with_shut_znode(self) -> Done:
        """Run `auditor doctor` while only another user may read LAYOUT."""
        path = f"{self.cluster.root}/{znode_paths.LAYOUT.strip('/')}"
        client = KazooClient(self.cluster.zookeeper_hosts)
        client.start()
        try:
            client.add_auth("digest", "other:secret")
            before, _ = client.get_acls(path)
            client.set_acls(path, [make_digest_acl("other", "secret", all=True)])
            try:
                return self.doctor(None, {})
            finally:
                client.set_acls(path, before)
        finally:
            client.stop()
            client.close()

    def with_port_that_hangs_up(self) -> Done:
        """Run `auditor doctor` on a port that ends each connection, as one for TLS does on bytes in
        clear.
        """
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=_close_link, args=(listener,), daemon=True).start()
            hosts = f"127.0.0.1:{listener.getsockname()[1]}"
            self.uri = f"zk+hierarchical://{hosts}{self.cluster.root}"
            try:
                return self.doctor(None, {})
            finally:
                listener.shutdown(socket.SHUT_RDWR)


def _close_link(listener: socket.socket) -> None:
    """Close each connection after its first bytes, until the listener is shut down."""
    while True:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        with peer:
            peer.recv(1)


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), 1, named=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def site(
    cluster: SandboxCluster, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Site:
    return Site(cluster, pki, tmp_path, monkeypatch)


Play = Callable[[Site], Done]
FAULTS: dict[str, tuple[str, Play]] = {
    # TLS
    "bookie without TLS": (
        "offers no TLS",
        lambda site: site.doctor(GuardedBookie(), site.tls()),
    ),
    "unknown CA": (
        "not from a CA in --bookie-tls-ca",
        lambda site: site.doctor(site.bookie(), site.tls(ca="other")),
    ),
    "expired": (
        "its certificate has expired",
        lambda site: site.doctor(site.bookie(is_expired=True), site.tls()),
    ),
    "not yet valid": (
        "its certificate is not valid yet",
        lambda site: site.doctor(site.bookie(is_early=True), site.tls()),
    ),
    "another name": (
        "is for another name",
        lambda site: site.doctor(site.bookie(san="DNS:elsewhere"), site.tls()),
    ),
    "no certificate of ours": (
        "wants a client certificate",
        lambda site: site.doctor(site.asks_for_certificate(), site.tls()),
    ),
    "ours of another CA": (
        "refused our certificate",
        lambda site: site.doctor(site.asks_for_certificate(), site.tls({"by": "other"})),
    ),
    "ours expired": (
        "our certificate has expired",
        lambda site: site.doctor(site.asks_for_certificate(), site.tls({"is_expired": True})),
    ),
    "ours not yet valid": (
        "our certificate is not valid yet",
        lambda site: site.doctor(site.asks_for_certificate(), site.tls({"is_early": True})),
    ),
    "no login or role inside TLS": (
        "the bookie wants more than TLS",
        lambda site: site.doctor(
            GuardedBookie(tls=site.pki.issue("bookie"), password=PASSWORD), site.tls({})
        ),
    ),
    # Logins by DIGEST-MD5
    "no login": (
        "does not let this client ask",
        lambda site: site.doctor(GuardedBookie(password=PASSWORD), {}),
    ),
    "wrong password": (
        "refused the user name or password",
        lambda site: site.doctor(GuardedBookie(password=PASSWORD), site.login("wrong")),
    ),
    "unknown user inside TLS": (
        "refused the user name or password",
        lambda site: site.doctor(
            GuardedBookie(tls=site.pki.issue("bookie"), password=PASSWORD),
            site.tls() | site.login(user="nobody"),
        ),
    ),
    "no DIGEST-MD5": (
        "does not offer SASL DIGEST-MD5",
        lambda site: site.doctor(GuardedBookie(password=PASSWORD, challenge=b"\x60"), site.login()),
    ),
    "no proof of the password": (
        "could not prove that it",
        lambda site: site.doctor(
            GuardedBookie(password=PASSWORD, proof=b"rspauth=" + b"0" * 32), site.login()
        ),
    ),
    # Logins by Kerberos
    "no GSSAPI": (
        "does not offer SASL GSSAPI",
        lambda site: site.kerberos(ScriptedGssapi(), KerberosBookie(NO_KEYTAB, offers_digest=True)),
    ),
    "no ticket": (
        "there is no Kerberos ticket in",
        lambda site: site.kerberos(ScriptedGssapi(no_credentials=kdc(195))),
    ),
    "old ticket": (
        "our Kerberos ticket has expired",
        lambda site: site.kerberos(ScriptedGssapi(no_ticket=kdc(32))),
    ),
    "no key of ours": (
        "has no key of",
        lambda site: site.kerberos(ScriptedGssapi(no_credentials=39756033), has_keytab=True),
    ),
    "old key of ours": (
        "the KDC refused our key",
        lambda site: site.kerberos(ScriptedGssapi(no_ticket=kdc(24)), has_keytab=True),
    ),
    "unknown principal": (
        "does not know our principal",
        lambda site: site.kerberos(ScriptedGssapi(no_ticket=kdc(6)), has_keytab=True),
    ),
    "locked principal": (
        "has locked our principal",
        lambda site: site.kerberos(ScriptedGssapi(no_ticket=kdc(18)), has_keytab=True),
    ),
    "unknown service": (
        "the KDC knows no principal",
        lambda site: site.kerberos(ScriptedGssapi(no_ticket=kdc(7))),
    ),
    "clock skew": (
        "the clocks of this machine and of the KDC differ",
        lambda site: site.kerberos(ScriptedGssapi(no_ticket=kdc(37))),
    ),
    "silent KDC": (
        "no KDC of the realm answered",
        lambda site: site.kerberos(ScriptedGssapi(no_ticket=kdc(156))),
    ),
    "KDC that starts": (
        "cannot serve now",
        lambda site: site.kerberos(ScriptedGssapi(no_ticket=kdc(29))),
    ),
    "no KDC": (
        "no KDC of the realm was found",
        lambda site: site.kerberos(ScriptedGssapi(no_ticket=kdc(154))),
    ),
    "no realm": (
        "names no default realm",
        lambda site: site.kerberos(ScriptedGssapi(no_ticket=kdc(224))),
    ),
    "ticket that the bookie does not accept": (
        "did not accept our ticket",
        lambda site: site.kerberos(ScriptedGssapi(), KerberosBookie(NO_KEYTAB, replies=(None,))),
    ),
    "principal that may not log in": (
        "refuses our principal",
        lambda site: site.kerberos(
            ScriptedGssapi(),
            KerberosBookie(NO_KEYTAB, replies=(b"a token", OFFERS_NO_LAYER, None)),
        ),
    ),
    "no proof of the key": (
        "could not prove that it",
        lambda site: site.kerberos(
            ScriptedGssapi(no_proof=1), KerberosBookie(NO_KEYTAB, replies=(b"a token",))
        ),
    ),
    "no library": (
        "needs the library gssapi",
        lambda site: site.kerberos(None),
    ),
    # ZooKeeper
    "znode that may not be read": (
        "may not be read by this session",
        lambda site: site.with_shut_znode(),
    ),
    "TLS to ZooKeeper's port in clear": (
        "secureClientPort",
        lambda site: site.doctor(
            None, {"zookeeper_tls": "on", "zookeeper_tls_ca": str(site.pki.ca())}
        ),
    ),
    "clear text to ZooKeeper's port with TLS": (
        "did not let us connect",
        lambda site: site.with_port_that_hangs_up(),
    ),
}


def words_in_table() -> list[str]:
    """Return the words of the table of faults in docs/secured-clusters.md."""
    text = (PROJECT / "docs" / "secured-clusters.md").read_text(encoding="utf-8")
    section = text.split("## Messages and their causes\n", 1)[1].strip().split("\n\n", 1)[0]
    rows = [row.split("|") for row in section.splitlines()[2:]]
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row[2])]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_word_and_no_other(site: Site, fault: str) -> None:
    """The line of the bookie or of ZooKeeper has it, and exit code 5 says that a run would fail."""
    word, play = FAULTS[fault]
    done = play(site)
    assert done.returncode == 5, done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("MISSING")]
    assert [[known for known in words_in_table() if known in line] for line in lines] == [[word]]


def test_every_word_of_the_table_is_shown() -> None:
    """And the table has every word that is shown."""
    assert sorted(words_in_table()) == sorted({word for word, _ in FAULTS.values()})


def test_a_certificate_that_nobody_asks_for_may_have_expired(site: Site) -> None:
    """A line names it. It is no reason for exit code 5: a run would work."""
    done = site.doctor(site.bookie(), site.tls({"is_expired": True}))
    assert done.returncode == 0, done.stdout
    assert "        tls         our certificate has expired" in done.stdout
    assert "b1 (writable) answered" in done.stdout
