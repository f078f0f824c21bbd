"""Whole audits of real bookies and a real ZooKeeper that require a Kerberos ticket, and the errors
without a valid one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.security import ACL, Id, Permissions
from support.audits import ON_SPARK
from support.command_line import Done, command
from support.kerberos import Kdc, require_kerberos
from support.pki import Pki
from support.real_cluster import RealCluster
from support.secured_cluster import LOST, SASL_OF_BOOKIES, SOUND, tls_of_bookies
from support.secured_zookeeper import LOGIN_MODULE

pytestmark = pytest.mark.real

KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
ALLOWED, FORBIDDEN = "bookkeeper-auditor", "someone"
"""Principals. The bookies' saslJaasClientAllowedIds is the default, `.*bookkeeper.*`."""
BOOKIE, ZOOKEEPER = "bookkeeper/localhost", "zookeeper/localhost"
KEY = slice(-20, -4)
"""The position of a key in a key tab: 16 bytes, followed by the number of its version."""
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
    """The JAAS file of servers and of a client (sections BookKeeper and Ticket)."""

    @property
    def java_flags(self) -> str:
        return (
            f"-Djava.security.auth.login.config={self.jaas}"
            f" -Djava.security.krb5.conf={self.kdc.config}"
        )

    def bookies_want(self, *, tls: bool) -> None:
        """Restart all bookies with Kerberos, inside TLS or not."""
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
        """Run a command in a process of its own, because libkrb5 reads krb5.conf only once."""
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
        """The URI with the host name of ZooKeeper's principal."""
        return self.cluster.metadata_service_uri.replace("127.0.0.1", "localhost")


def write_jaas(path: Path, keytabs: Mapping[str, Path]) -> None:
    sections = {"Bookie": BOOKIE, "Server": ZOOKEEPER, "BookKeeper": ALLOWED}
    path.write_text(
        f"Ticket {{ {KRB5_MODULE} required useTicketCache=true; }};  // as kinit left it\n"
        + "".join(
            f'{name} {{ {KRB5_MODULE} required useKeyTab=true keyTab="{keytabs[principal]}"'
            f' storeKey=true useTicketCache=false principal="{principal}"; }};\n'
            for name, principal in sections.items()
        )
    )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Yield bookies in clear until `bookies_want`. 10 s."""
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
            for ledger_id in (SOUND, LOST):
                ours = ACL(Permissions.READ, Id("sasl", ALLOWED))
                cluster.zk.set_acls(cluster.ledger_path(ledger_id), [ours])
            yield Guarded(cluster, kdc, Pki(folder / "pki"), keytabs, jaas)


@pytest.fixture(scope="module")
def without_tls(guarded: Guarded) -> Guarded:
    """Return bookies that require a ticket, in clear, and znodes that only our principal may
    read.
    """
    guarded.bookies_want(tls=False)
    return guarded


@pytest.mark.parametrize(
    "engine", [{}, pytest.param(ON_SPARK, marks=pytest.mark.long)], ids=["driver", "spark"]
)
def test_bookies_and_zookeeper_with_kerberos_are_audited(
    without_tls: Guarded, tmp_path: Path, engine: Settings
) -> None:
    """The key tab works in the driver and in Spark's workers. The key is in no file that is
    written.

    Only our principal may read the ledgers' znodes.
    """
    with pytest.raises(NoAuthError):
        without_tls.cluster.zk.get(without_tls.cluster.ledger_path(SOUND))
    settings = {**without_tls.by_key_tab(), **without_tls.by_key_tab(peer="zookeeper"), **engine}
    done = without_tls.command(f"run --output {tmp_path}", {**settings, **QUICK})
    assert done.returncode == 1, done.stdout + done.stderr
    [summary] = tmp_path.glob("run-*/summary.json")
    assert json.loads(summary.read_text())["complete"]
    assert [one["ledger_id"] for one in findings(tmp_path)] == [LOST]
    key = without_tls.keytabs[ALLOWED].read_bytes()[KEY]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert [path for path in written if key in path.read_bytes()] == []


def test_a_principal_that_no_bookie_admits_ends_a_run_before_the_first_look(
    without_tls: Guarded, tmp_path: Path
) -> None:
    """Exit 5, and nothing is written."""
    done = without_tls.command(f"run --output {tmp_path}", without_tls.by_key_tab(FORBIDDEN))
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 5, said
    assert "all 3 bookies refuse this client" in said
    assert "refuses our principal" in said
    assert not list(tmp_path.glob("run-*"))


def faults(guarded: Guarded) -> dict[str, tuple[Settings, str, int]]:
    """Return settings that no bookie accepts, the word for the fault, and how often `doctor` says
    it.
    """
    kdc, keytab = guarded.kdc, guarded.by_key_tab()
    ahead = 3600
    at_bookie = kdc.shift_clock(guarded.ticket(lifetime="10h", service=BOOKIE), ahead)
    at_kdc = kdc.shift_clock(guarded.ticket(lifetime="10h"), ahead)
    expired = guarded.ticket(lifetime="1s")
    time.sleep(2)
    digest = {
        "bookie_sasl": "digest-md5",
        "bookie_sasl_username": ALLOWED,
        "bookie_sasl_password_command": "echo no",
    }
    of_zookeeper = guarded.by_key_tab(peer="zookeeper")
    return {
        "clock of a bookie": (guarded.by_cache(at_bookie), "its clock may differ from ours", 3),
        "clock of the KDC": (guarded.by_cache(at_kdc), "clocks of this machine and of the KDC", 3),
        "expired": (guarded.by_cache(expired), "our Kerberos ticket has expired", 3),
        "no ticket": (guarded.by_cache("/no/such/cache"), "there is no Kerberos ticket in", 3),
        "service": ({**keytab, "bookie_sasl_service": "x"}, "knows no principal x/localhost", 3),
        "principal": ({**keytab, "bookie_sasl_principal": "other"}, "has no key of other", 3),
        "digest": (digest, "does not offer SASL DIGEST-MD5", 3),
        "no login": ({}, "It may want a login (--bookie-sasl)", 3),
        "zookeeper's service": (
            {**of_zookeeper, "zookeeper_sasl_service": "x"},
            "did not let us in: no login with Kerberos: the KDC knows no principal x/localhost",
            1,
        ),
    }


@pytest.mark.long
def test_doctor_tells_each_fault_of_a_ticket_apart(without_tls: Guarded) -> None:
    """The faults are those of a ticket, of the clocks, of principals, and another mechanism."""
    for fault, (settings, word, times) in faults(without_tls).items():
        looked = without_tls.command("doctor", settings)
        assert (looked.returncode, looked.stdout.count(word)) == (5, times), (fault, looked.stdout)


NO_KDC = "no KDC of the realm answered: start it"


@pytest.mark.long
def test_a_kdc_that_is_down_is_named_before_the_first_look(
    without_tls: Guarded, tmp_path: Path
) -> None:
    """Exit 5 with the realm and what to do, for bookies and for ZooKeeper. When it is back, the
    same command audits.
    """
    bookies, zookeeper = without_tls.by_key_tab(), without_tls.by_key_tab(peer="zookeeper")
    with without_tls.kdc.away():
        run = without_tls.command(f"run --output {tmp_path}", bookies)
        looked = without_tls.command("doctor", bookies)
        no_session = without_tls.command(
            f"ledger {SOUND}", {**zookeeper, "zookeeper_connect_timeout": "3s"}
        )
    said = " ".join((run.stdout + run.stderr).split())
    assert run.returncode == 5, said
    assert "without a Kerberos ticket no bookie can be asked" in said
    assert f"not dialled: no Kerberos ticket for {BOOKIE}: {NO_KDC}" in said
    assert "AUDITOR.TEST" in said
    assert "refuse" not in said
    assert not list(tmp_path.glob("run-*"))
    assert looked.returncode == 5, looked.stdout
    assert looked.stdout.count(f"silent: not dialled: no Kerberos ticket for {BOOKIE}") == 3
    said = " ".join((no_session.stdout + no_session.stderr).split())
    assert no_session.returncode == 5, said
    assert "no login to ZooKeeper at localhost:" in said
    assert f"no Kerberos ticket for {ZOOKEEPER}: {NO_KDC}" in said
    done = without_tls.command(f"ledger {LOST}", {**bookies, **zookeeper, **QUICK})
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("lifetime", "undialled"), [("1h", 0), ("5sec", 3)], ids=["lasting", "expired"]
)
def test_a_kdc_that_goes_away_in_a_run_is_missed_only_where_tickets_expire(
    without_tls: Guarded, tmp_path: Path, lifetime: str, undialled: int
) -> None:
    """Then bookies are not dialled at the second look. The report says so and why, and none of them
    is accused or counts as refusing.
    """
    kdc, name = without_tls.kdc, f"bookkeeper-of-{lifetime}"
    without_tls.keytabs = {**without_tls.keytabs, name: kdc.add(name, f"-maxlife {lifetime}")}
    stopping = threading.Thread(target=stop_after_first_look, args=(kdc, tmp_path))
    stopping.start()
    try:
        done = without_tls.command(
            f"run --output {tmp_path}",
            {
                **without_tls.by_key_tab(name),
                **without_tls.by_key_tab(peer="zookeeper"),
                "second_look_delay": "8s",
                "rpc_timeout": "4s",
            },
        )
    finally:
        stopping.join()
        kdc.start()
    assert done.returncode == 1, done.stdout + done.stderr
    assert [(one["ledger_id"], one["bookie_id"]) for one in findings(tmp_path)] == [(LOST, None)]
    [path] = tmp_path.glob("run-*/summary.json")
    summary = json.loads(path.read_text())
    withheld = [one for one in summary["withheld"] if f"{BOOKIE}: {NO_KDC}" in one]
    assert len(withheld) == bool(undialled), summary["withheld"]
    assert all("3 bookies were asked nothing at the last look" in one for one in withheld)
    said = "not dialled" in " ".join(done.stdout.split()) or (
        "no KDC of the realm" in " ".join((path.parent / "report.txt").read_text().split())
    )
    assert said == bool(undialled)
    witness = findings(tmp_path)[0]["witness"]
    assert "refused" not in witness


def stop_after_first_look(kdc: Kdc, output: Path) -> None:
    """Stop the KDC when a run has written how the bookies greeted it at the first look."""
    until = time.monotonic() + 60
    while not list(output.glob("run-*/evidence/bookies/*look-01*")) and time.monotonic() < until:
        time.sleep(0.05)
    kdc.stop()


@pytest.mark.long
def test_a_key_that_the_bookies_do_not_have_yet_is_reported(
    without_tls: Guarded, tmp_path: Path
) -> None:
    """The KDC issues tickets for the newest key. A bookie does not answer them."""
    without_tls.kdc.admin(f"ktadd -k {tmp_path}/new.keytab {BOOKIE}")
    looked = without_tls.command("doctor", without_tls.by_key_tab())
    assert looked.stdout.count(f"key tab may lack the newest key of {BOOKIE}") == 3, looked.stdout
    without_tls.kdc.admin(f"ktadd -k {without_tls.keytabs[BOOKIE]} {BOOKIE}")
    without_tls.bookies_want(tls=False)
    looked = without_tls.command("doctor", without_tls.by_key_tab())
    assert looked.stdout.count("(writable) answered") == 3, looked.stdout


@pytest.mark.long
def test_a_ticket_cache_inside_tls_and_the_login_of_a_jaas_file_are_used(
    guarded: Guarded, tmp_path: Path
) -> None:
    """A client's configuration names the section; the ticket cache is that of the process."""
    guarded.bookies_want(tls=True)
    zookeeper = guarded.by_key_tab(peer="zookeeper")
    conf = tmp_path / "client.conf"
    conf.write_text(
        "clientAuthProviderFactoryClass=org.apache.bookkeeper.sasl.SASLClientProviderFactory\n"
        "saslJaasClientSectionName=Ticket\n"
    )
    given = {"bookkeeper_client_conf": str(conf), "bookie_jaas_file": str(guarded.jaas)}
    environment = {"KRB5CCNAME": f"FILE:{guarded.ticket()}"}
    for settings in (given, {"bookie_sasl": "gssapi"}, {"bookie_jaas_file": str(guarded.jaas)}):
        done = guarded.command(
            f"ledger {SOUND} {LOST}",
            {**settings, **guarded.tls(), **zookeeper, **QUICK},
            **environment,
        )
        assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.long
def test_bookies_that_offer_digest_md5_are_reported(guarded: Guarded, tmp_path: Path) -> None:
    """They answer a ticket with their challenge."""
    jaas = tmp_path / "digest.jaas"
    jaas.write_text(f'Bookie {{ {LOGIN_MODULE} required user_bookkeeper="pw"; }};\n')
    guarded.cluster.restart_bookies(
        {**SASL_OF_BOOKIES, "advertisedAddress": "localhost"},
        f"-Djava.security.auth.login.config={jaas}",
    )
    looked = guarded.command("doctor", guarded.by_key_tab())
    assert looked.stdout.count("does not offer SASL GSSAPI, but DIGEST-MD5") == 3, looked.stdout


def findings(output: Path) -> list[dict[str, Any]]:
    [path] = output.glob("run-*/findings.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]
