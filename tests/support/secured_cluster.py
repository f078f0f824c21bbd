"""Settings of real servers that speak TLS and require logins, and the auditor's settings for them.

    with secured_cluster(tmp_path) as secured:       # three bookies, in clear, with two ledgers
        secured.bookies_want(tls=True, sasl=True)    # restarts all bookies, now secured: 4-8 s
        audit(secured.cluster, tmp_path, **secured.tls("bookie"), **secured.sasl("bookie"))

ZooKeeper has a port in clear, and a port with TLS that requires a client certificate; it accepts
SASL logins and digests. The tree is open to all until `guard_znodes`. Every secret contains
`CANARY`, so that a test can look for it wherever it must not be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kazoo.security import ACL, Permissions, make_digest_acl
from support.pki import Issued, Pki
from support.real_cluster import RealCluster
from support.real_processes import free_port
from support.secured_zookeeper import LOGIN_MODULE, jaas_of_zookeeper, secured_zookeeper

CANARY = "canary-7f3a"
USER = "bookkeeper"
PASSWORD = f"{CANARY}-bookie-pässword"
ZOOKEEPER_PASSWORD = f"{CANARY}-zookeeper"
KEY_PASSWORD = f"{CANARY}-key"
DIGEST_USER, DIGEST_PASSWORD = "auditor", f"{CANARY}-digest"
SOUND, LOST = 1, 2
"""The ledgers of the cluster: one has every copy, of the other b2 lacks entry 4."""

TLS_OF_BOOKIES = {
    "tlsProvider": "JDK",
    "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
    "tlsKeyStoreType": "PKCS12",
    "tlsTrustStoreType": "PKCS12",
}
SASL_OF_BOOKIES = {
    "bookieAuthProviderFactoryClass": "org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory"
}
ROLES_OF_BOOKIES = {
    "bookieAuthProviderFactoryClass": "org.apache.bookkeeper.tls.BookieAuthZFactory"
}


@dataclass
class Secured:
    """A cluster, its certificates, and the files of its secrets."""

    cluster: RealCluster
    pki: Pki
    folder: Path
    bookie: Issued
    auditor: Issued
    zookeeper_tls_port: int

    def bookies_want(
        self, *, tls: bool = False, sasl: bool = False, certificate: bool = True, role: str = ""
    ) -> None:
        """Restart all bookies with TLS, with a login, or both.

        `certificate`: TLS requires ours, with this `role` in it if one is given.
        """
        settings: dict[str, object] = {}
        if tls:
            settings |= tls_of_bookies(self.pki, self.bookie) | {
                "tlsClientAuthentication": str(certificate).lower()
            }
        if sasl:
            settings |= SASL_OF_BOOKIES
        if role:
            settings |= {**ROLES_OF_BOOKIES, "authorizedRoles": role}
        self.cluster.restart_bookies(settings, jaas_of_bookies(self.folder) if sasl else "")

    def jaas_of_client(self) -> dict[str, str]:
        """Return settings of a login to bookies from a client's JAAS file."""
        path = self.folder / "client.jaas"
        path.write_text(
            f'BookKeeper {{ {LOGIN_MODULE} required username="{USER}" password="{PASSWORD}"; }};\n',
            encoding="utf-8",
        )
        return {"bookie_jaas_file": str(path)}

    def secret(self, name: str, text: str) -> str:
        """Return the path of a file with this secret."""
        path = self.folder / f"{name}.secret"
        path.write_text(text + "\n", encoding="utf-8")
        return str(path)

    def tls(self, peer: str, ours: Issued | None = None, ca: str = "ca") -> dict[str, str]:
        """Return settings of TLS with our certificate, whose key is encrypted."""
        ours = ours or self.auditor
        return {
            **self.tls_without_certificate(peer, ca),
            f"{peer}_tls_certificate": str(ours.certificate),
            f"{peer}_tls_key": str(ours.encrypted_key(KEY_PASSWORD)),
            f"{peer}_tls_key_password_file": self.secret("key", KEY_PASSWORD),
        }

    def tls_without_certificate(self, peer: str, ca: str = "ca") -> dict[str, str]:
        """Return settings of TLS without a certificate of ours."""
        return {f"{peer}_tls": "on", f"{peer}_tls_ca": str(self.pki.ca(ca))}

    def sasl(self, peer: str, password: str | None = None, user: str = USER) -> dict[str, str]:
        """Return settings of a login; `password` replaces the right one."""
        right = PASSWORD if peer == "bookie" else ZOOKEEPER_PASSWORD
        name = f"{peer}-{'right' if password is None else 'wrong'}"
        return {
            f"{peer}_sasl": "digest-md5",
            f"{peer}_sasl_username": user,
            f"{peer}_sasl_password_file": self.secret(
                name, right if password is None else password
            ),
        }

    def digest(self, password: str = DIGEST_PASSWORD) -> dict[str, str]:
        """Return settings of a digest."""
        return {"zookeeper_digest_file": self.secret("digest", f"{DIGEST_USER}:{password}")}

    @property
    def uri_with_tls(self) -> str:
        """The metadata service URI with ZooKeeper's TLS port."""
        clear, secure = self.cluster.zookeeper_hosts, f"127.0.0.1:{self.zookeeper_tls_port}"
        return self.cluster.metadata_service_uri.replace(clear, secure)

    def guard_znodes(self) -> None:
        """Restrict the whole tree to USER's login and to DIGEST_USER, who may only read."""
        client = self.cluster.zk
        reader = make_digest_acl(DIGEST_USER, DIGEST_PASSWORD, read=True)
        guard = [ACL(Permissions.ALL, reader.id.__class__("sasl", USER)), reader]
        for path in _below(client, self.cluster.root):
            client.set_acls(path, guard)


def _below(client: object, path: str) -> Iterator[str]:
    """Yield each znode below a path, the deepest first, then the path itself."""
    for name in client.get_children(path):  # type: ignore[attr-defined]
        yield from _below(client, f"{path}/{name}")
    yield path


def jaas_of_bookies(folder: Path) -> str:
    """Return the flag of a bookie that lets USER in, by a file in the folder."""
    path = folder / "bookie.jaas"
    path.write_text(
        f'Bookie {{ {LOGIN_MODULE} required user_{USER}="{PASSWORD}"; }};\n', encoding="utf-8"
    )
    return f"-Djava.security.auth.login.config={path}"


def tls_of_bookies(pki: Pki, issued: Issued) -> Mapping[str, object]:
    """Return settings of a bookie that offers TLS with this certificate."""
    password = pki.password_file()
    return {
        **TLS_OF_BOOKIES,
        "tlsKeyStore": issued.pkcs12,
        "tlsKeyStorePasswordPath": password,
        "tlsTrustStore": pki.truststore(),
        "tlsTrustStorePasswordPath": password,
    }


@contextmanager
def secured_cluster(folder: Path) -> Iterator[Secured]:
    """Yield three bookies in clear and a ZooKeeper that offers every protection; nothing is guarded
    yet. 8-12 s.
    """
    pki = Pki(folder / "pki")
    bookie, auditor = pki.issue("bookie"), pki.issue("auditor", unit="0:auditor")
    port = free_port()
    settings = secured_zookeeper(pki, bookie, port)
    flag = jaas_of_zookeeper(folder, USER, ZOOKEEPER_PASSWORD)
    with RealCluster(
        folder / "cluster", bookies=3, zookeeper=settings, zookeeper_flag=flag
    ) as cluster:
        cluster.place(SOUND, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 9"))
        cluster.place(LOST, cluster.ledger("e3 w2 a1 0:[b1 b2 b3] closed 9"), lose={"b2": "4"})
        yield Secured(cluster, pki, folder, bookie, auditor, port)
