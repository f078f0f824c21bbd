"""Whole audits of real bookies and a real ZooKeeper that want a Kerberos ticket, and what is said
where there is none that they accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit
from support.command_line import Done, command, command_here
from support.kerberos import Kdc, require_kerberos
from support.pki import Pki
from support.real_cluster import RealCluster
from support.secured_cluster import LOST, SASL_OF_BOOKIES, SOUND, USER, tls_of_bookies

pytestmark = pytest.mark.real

KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
ALLOWED, FORBIDDEN = "bookkeeper-auditor", "someone"
"""Principals: the bookies' saslJaasClientAllowedIds is `.*bookkeeper.*`, as by default."""
BOOKIE, ZOOKEEPER = "bookkeeper/localhost", "zookeeper/localhost"
QUICK = {"second_look_delay": "0s", "rpc_timeout": "4s"}
Settings = Mapping[str, str]


@dataclass
class Guarded:
    """A cluster whose bookies and ZooKeeper are in a realm, and the KDC."""

    cluster: RealCluster
    kdc: Kdc
    pki: Pki
    keytabs: Mapping[str, Path]
    jaas: Path
    """Of servers and of a client (sections BookKeeper and Ticket)."""

    @property
    def java_flags(self) -> str:
        return (
            f"-Djava.security.auth.login.config={self.jaas}"
            f" -Djava.security.krb5.conf={self.kdc.config}"
        )

    def bookies_want(self, *, tls: bool) -> None:
        """Start all bookies again with Kerberos, and TLS around it or not."""
        issued = self.pki.issue("bookie")
        settings = {**SASL_OF_BOOKIES, "advertisedAddress": "localhost"}
        self.cluster.restart_bookies(
            settings | (tls_of_bookies(self.pki, issued) if tls else {}), self.java_flags
        )

    def by_key_tab(self, principal: str = ALLOWED, peer: str = "bookie") -> dict[str, str]:
        return {
            f"{peer}_sasl": "gssapi",
            f"{peer}_sasl_keytab": str(self.keytabs[principal]),
            f"{peer}_sasl_principal": principal,
        }

    def by_cache(self, cache: Path | str) -> dict[str, str]:
        return {"bookie_sasl": "gssapi", "bookie_sasl_ticket_cache": str(cache)}

    def ticket(self, **given: object) -> Path:
        return self.kdc.ticket(ALLOWED, self.keytabs[ALLOWED], **given)  # type: ignore[arg-type]

    def tls(self) -> dict[str, str]:
        return {"bookie_tls": "on", "bookie_tls_ca": str(self.pki.ca())}

    def command(self, name: str, settings: Settings, **environment: str) -> Done:
        """Run a command in a process of its own: libkrb5 reads krb5.conf once."""
        words = [
            word
            for key, value in settings.items()
            for word in (f"--{key.replace('_', '-')}", value)
        ]
        return command(
            *name.split(),
            "--metadata-service-uri",
            self.uri,
            *words,
            **{"KRB5_CONFIG": str(self.kdc.config), **environment},
        )

    @property
    def uri(self) -> str:
        """With the name that is in ZooKeeper's principal."""
        return self.cluster.metadata_service_uri.replace("127.0.0.1", "localhost")


def write_jaas(path: Path, keytabs: Mapping[str, Path]) -> None:
    sections = {"Bookie": BOOKIE, "Server": ZOOKEEPER, "BookKeeper": ALLOWED}
    path.write_text(
        "".join(
            f'{name} {{ {KRB5_MODULE} required useKeyTab=true keyTab="{keytabs[principal]}"'
            f' storeKey=true useTicketCache=false principal="{principal}"; }};\n'
            for name, principal in sections.items()
        )
    )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Bookies in clear until `bookies_want`. 10 s."""
    require_kerberos()
    folder = tmp_path_factory.mktemp("kerberos")
    with Kdc(folder / "kdc") as kdc:
        keytabs = {name: kdc.add(name) for name in (BOOKIE, ZOOKEEPER, ALLOWED, FORBIDDEN)}
        jaas = folder / "jaas.conf"
        write_jaas(jaas, keytabs)
        sasl = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        with RealCluster(
            folder / "cluster",
            bookies=3,
            zookeeper={"authProvider.1": sasl, "kerberos.removeRealmFromPrincipal": "true"},
            zookeeper_flag=f"-Djava.security.auth.login.config={jaas}"
            f" -Djava.security.krb5.conf={kdc.config}",
        ) as cluster:
            cluster.place(SOUND, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 9"))
            cluster.place(LOST, cluster.ledger("e3 w2 a1 0:[b1 b2 b3] closed 9"), lose={"b2": "4"})
            yield Guarded(cluster, kdc, Pki(folder / "pki"), keytabs, jaas)


@pytest.fixture(scope="module")
def in_clear(guarded: Guarded) -> Guarded:
    guarded.bookies_want(tls=False)
    return guarded


def test_faults(in_clear, tmp_path):
    g = in_clear
    shifted = g.kdc.shift_clock(g.ticket(service="bookkeeper/localhost"), 3600)
    tgt = g.kdc.shift_clock(g.ticket(), 3600)
    import time

    short = g.ticket(lifetime="1s")
    time.sleep(2)
    for name, s in {
        "cache": g.by_cache(g.ticket()),
        "forbidden": g.by_key_tab(FORBIDDEN),
        "skew bookie": g.by_cache(shifted),
        "skew kdc": g.by_cache(tgt),
        "expired": g.by_cache(short),
        "none": g.by_cache("/nope"),
        "service": {**g.by_key_tab(), "bookie_sasl_service": "nobody"},
        "principal": {**g.by_key_tab(), "bookie_sasl_principal": "other"},
        "digest": {
            "bookie_sasl": "digest-md5",
            "bookie_sasl_username": "u",
            "bookie_sasl_password_command": "echo x",
        },
        "nosasl": {},
        "zk": {**g.by_key_tab(), **g.by_key_tab(peer="zookeeper")},
        "zkservice": {
            **g.by_key_tab(),
            **g.by_key_tab(peer="zookeeper"),
            "zookeeper_sasl_service": "nobody",
        },
        "jaas": {"bookie_jaas_file": str(g.jaas)},
    }.items():
        import time

        t = time.time()
        d = g.command("doctor", s)
        print("=====", name, round(time.time() - t, 1))
        print(
            "\n".join(
                l
                for l in (d.stdout + d.stderr).splitlines()
                if "package" not in l and "java" not in l and "archive" not in l
            )
        )
    print(g.cluster._bookies["b1"].process.log_tail())


def test_bookies_with_kerberos_are_audited(in_clear: Guarded, tmp_path: Path) -> None:
    """By a key tab; the lost copy is found."""
    done = in_clear.command(f"run --output {tmp_path}", {**in_clear.by_key_tab(), **QUICK})
    assert done.returncode == 1, done.stdout + done.stderr
