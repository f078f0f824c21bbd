"""Commands on bookies that require TLS and a login: which settings work, which errors end a command
before the first look, and what is shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit
from support.command_line import Done, command_here
from support.guarded_bookie import USER, GuardedBookie
from support.pki import Pki

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import BOOKIES
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire import bookie_registration

pytestmark = pytest.mark.timeout(120)

CANARY = "canary"
PASSWORD, KEY_PASSWORD = f"{CANARY}-pässword", f"{CANARY}-key"
SOUND, LOST = 1, 2
NEED_B3 = {3: "b1 b3", 4: "b3 b2"}
"""Two more ledgers, which are on b3 too, and the ensemble of each."""


@dataclass
class World:
    """Two guarded bookies of one cluster. b2 does not know LOST. b3 is not there yet."""

    cluster: SandboxCluster
    bookies: dict[str, GuardedBookie]
    pki: Pki
    folder: Path

    def secret(self, text: str) -> str:
        path = self.folder / f"{text.encode().hex()}.secret"
        path.write_text(text + "\n", encoding="utf-8")
        return str(path)

    def settings(self, password: str = PASSWORD, ca: str = "ca") -> dict[str, str]:
        ours = self.pki.issue("auditor")
        return {
            "bookie_tls": "on",
            "bookie_tls_ca": str(self.pki.ca(ca)),
            "bookie_tls_certificate": str(ours.certificate),
            "bookie_tls_key": str(ours.encrypted_key(KEY_PASSWORD)),
            "bookie_tls_key_password_file": self.secret(KEY_PASSWORD),
            "bookie_sasl": "digest-md5",
            "bookie_sasl_username": USER,
            "bookie_sasl_password_command": f"cat {self.secret(password)}",
        }

    def command(self, name: str, settings: Mapping[str, str], **environment: str) -> Done:
        at = [
            "--metadata-service-uri",
            self.cluster.metadata_service_uri,
            "--rpc-timeout",
            "2s",
            "--second-look-delay",
            "0s",
        ]
        words = [
            word
            for key, value in settings.items()
            for word in (f"--{key.replace('_', '-')}", value)
        ]
        done = command_here(*name.split(), *at, *words, **environment)
        assert CANARY not in done.stdout + done.stderr
        return done


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    pki = Pki(tmp_path / "pki")
    with ExitStack() as stack:
        cluster = stack.enter_context(SandboxCluster(tmp_path / "cluster", 3, named=True))
        cluster.lose_bookie("b3")
        issued = pki.issue("bookie")
        bookies = {
            name: GuardedBookie(tls=issued, ca=pki.ca(), password=PASSWORD) for name in ("b1", "b2")
        }
        for ledger_id in (SOUND, LOST):
            cluster.add_ledger(ledger_id, cluster.ledger("e2 w2 a1 0:[b1 b2] closed 1"))
        for name, bookie in bookies.items():
            stack.enter_context(bookie)
            hold(bookie, {SOUND: [0, 1]} | ({LOST: [0, 1]} if name == "b1" else {}))
            register(cluster, name, bookie)
        yield World(cluster, bookies, pki, tmp_path)


def hold(bookie: GuardedBookie, ledgers: Mapping[int, list[int]]) -> None:
    bookie.ledgers = GuardedBookie.encoded(ledgers)


def register(cluster: SandboxCluster, name: str, bookie: GuardedBookie) -> None:
    cluster.register(name, bookie_registration.encode("127.0.0.1", bookie.port))


def test_doctor_greets_secured_bookies(world: World) -> None:
    """The key is encrypted, and a command prints the password."""
    done = world.command("doctor", world.settings())
    assert done.stdout.count("(writable) answered") == 2, done.stdout


def test_a_ledger_on_secured_bookies_is_audited(world: World) -> None:
    """The secret may be in a variable; only START_TLS was sent in clear."""
    settings = world.settings()
    del settings["bookie_sasl_password_command"]
    done = world.command(f"ledger {SOUND} {LOST}", settings, AUDITOR_BOOKIE_SASL_PASSWORD=PASSWORD)
    assert done.returncode == 1, done.stdout + done.stderr
    assert all(set(bookie.seen_in_clear) == {9} for bookie in world.bookies.values())


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"password": f"{CANARY}-wrong"}, "refused the user name or password"),
        ({"ca": "other"}, "not from a CA in --bookie-tls-ca"),
    ],
)
def test_what_every_bookie_refuses_ends_a_command_before_the_first_look(
    world: World, tmp_path: Path, wrong: dict[str, str], word: str
) -> None:
    """`ledger` ends with exit 5, and so does `run`, before Spark starts. `doctor` reports it for
    each bookie.
    """
    settings = world.settings(**wrong)
    for name in (f"ledger {SOUND}", f"run --output {tmp_path / 'out'}"):
        done = world.command(name, settings)
        assert done.returncode == 5, done.stdout + done.stderr
        said = " ".join((done.stdout + done.stderr).split())
        assert "all 2 bookies refuse this client" in said
        assert word in said
    assert not list((tmp_path / "out").glob("run-*"))
    assert world.command("doctor", settings).stdout.count(word) == 2


def test_one_bookie_that_refuses_is_unknown_and_the_other_is_audited(world: World) -> None:
    """The reason is bookie_refused, and there is no finding on the bookie."""
    with GuardedBookie(password=PASSWORD) as without_tls:
        register(world.cluster, "b2", without_tls)
        done = world.command(f"ledger {SOUND}", world.settings())
    assert done.returncode == 3, done.stdout
    assert "bookie_refused" in done.stdout
    assert without_tls.seen_in_clear == [9] * len(without_tls.seen_in_clear)


@pytest.mark.parametrize(
    ("password", "fault"),
    [(f"{CANARY}-other", "refused the user name or password"), (None, "offers no TLS")],
)
def test_a_run_goes_on_without_the_one_bookie_of_three_that_refuses(
    world: World, tmp_path: Path, password: str | None, fault: str
) -> None:
    """Only the ledgers that need it are bookie_refused. The others are judged, and a lost copy is
    found. Nothing is found on the bookie itself.
    """
    for ledger_id, ensemble in NEED_B3.items():
        text = f"e2 w2 a1 0:[{ensemble}] closed 1"
        world.cluster.add_ledger(ledger_id, world.cluster.ledger(text))
    hold(world.bookies["b1"], {SOUND: [0, 1], LOST: [0, 1], 3: [0, 1]})
    hold(world.bookies["b2"], {SOUND: [0, 1], 4: [0, 1]})
    issued = None if password is None else world.pki.issue("third")
    with GuardedBookie(tls=issued, ca=world.pki.ca(), password=password) as third:
        register(world.cluster, "b3", third)
        with_loss = accounted(audit(world.cluster, tmp_path / "1", **world.settings()))
        world.cluster.delete_ledger(LOST)
        without = accounted(audit(world.cluster, tmp_path / "2", **world.settings()))
    assert with_loss.standings(SOUND, LOST) == ["sound", "violated"]
    assert without.standings(SOUND) == ["sound"]
    assert {found["ledger_id"] for found in with_loss.findings} == {LOST}
    assert without.findings == []
    assert (with_loss.exit_code, without.exit_code) == (1, 3)
    for outcome in (with_loss, without):
        assert {outcome.standings(one)[0] for one in NEED_B3} == {"indeterminate: bookie_refused"}
        unknown = outcome.summary["indeterminate"]
        assert {reason: count for reason, count in unknown.items() if count} == {
            "bookie_refused": len(NEED_B3)
        }
        assert {fault in detail for detail in greetings(outcome, "b3")} == {True}
        assert set(greetings(outcome, "b1") + greetings(outcome, "b2")) == {""}


def greetings(outcome: Outcome, bookie_id: str) -> list[str]:
    """Return what the evidence of a run says of how a bookie greeted us, look by look."""
    rows = place(str(outcome.run_dir)).read_table("evidence/bookies", BOOKIES).to_pylist()
    return [row["greeting_detail"] or "" for row in rows if row["bookie_id"] == bookie_id]


@pytest.mark.parametrize("command", ["run", f"ledger {SOUND}", "doctor"])
def test_credentials_that_cannot_be_read_end_a_command_before_anything_is_contacted(
    world: World, command: str
) -> None:
    """Exit 2, with the file; `doctor` reports that it is missing."""
    digest = {"zookeeper_digest_file": "/no/such/file"}
    done = world.command(command, digest)
    assert done.returncode == (5 if command == "doctor" else 2)
    assert "/no/such/file cannot be read" in done.stdout + done.stderr


def test_config_shows_where_secrets_are_and_none_of_them(world: World) -> None:
    """A file and a command are named; the content of the variable is not shown."""
    settings = world.settings()
    done = command_here(
        "config", *(f"--{key.replace('_', '-')}={value}" for key, value in settings.items())
    )
    assert settings["bookie_tls_key_password_file"] in done.stdout
    shown = command_here(
        "config",
        "--zookeeper-sasl",
        "digest-md5",
        "--zookeeper-sasl-username",
        "u",
        AUDITOR_ZOOKEEPER_SASL_PASSWORD=CANARY,
    )
    assert shown.returncode == 0
    assert "environment AUDITOR_ZOOKEEPER_SASL_PASSWORD" in shown.stdout
    assert CANARY not in shown.stdout + shown.stderr
    assert os.environ.get("AUDITOR_ZOOKEEPER_SASL_PASSWORD") is None
