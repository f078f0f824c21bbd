"""Our ticket from a real KDC, and the exchange with a server that the same library plays."""

from __future__ import annotations

import pickle
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.kerberos import REALM, BrokenKdc, Kdc, accept_ticket, require_kerberos

from auditor.config.access import BookieAccess, KerberosLogin, ZooKeeperAccess
from auditor.credentials import kerberos
from auditor.credentials.checking import check_credentials, secrets_open_to_all
from auditor.credentials.kerberos import KerberosExchange, KerberosFailed, check_login
from auditor.errors import ConfigError, KdcUnreachable

SERVER, OURS = "bookkeeper/localhost", "bookkeeper-auditor"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    require_kerberos()
    with Kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        kdc.add(SERVER)
        kdc.add(OURS)
        yield kdc


@pytest.fixture(autouse=True)
def realm(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put this process into the realm, without a ticket or a remembered failure."""
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.config))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.folder}/none")
    monkeypatch.setattr(kerberos, "_failed", {})


def by_key_tab(kdc: Kdc, name: str = OURS, **given: Any) -> KerberosLogin:
    keytab = str(kdc.folder / f"{name}.keytab")
    return KerberosLogin("bookie", **{"service": "bookkeeper", "keytab": keytab, **given})


def by_cache(cache: Path) -> KerberosLogin:
    return KerberosLogin("bookie", "bookkeeper", ticket_cache=str(cache))


def failure(login: KerberosLogin, host: str = "localhost") -> str:
    with pytest.raises(KerberosFailed) as raised:
        KerberosExchange(login, host).start()
    return str(raised.value)


def absence(login: KerberosLogin) -> str:
    """Return the error for a KDC that neither gives nor refuses a ticket."""
    with pytest.raises(KdcUnreachable) as raised:
        KerberosExchange(login, "localhost").start()
    return str(raised.value)


@pytest.mark.parametrize("way", ["key tab", "key tab with principal", "cache", "default cache"])
def test_a_server_is_convinced_and_convinces_us(
    kdc: Kdc, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We log in by the first key of a key tab or by a named one, by a ticket cache or by that of
    the process.
    """
    cache = kdc.ticket(OURS, kdc.folder / f"{OURS}.keytab")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    login = {
        "key tab": by_key_tab(kdc),
        "key tab with principal": by_key_tab(kdc, principal=OURS),
        "cache": by_cache(cache),
        "default cache": KerberosLogin("bookie", "bookkeeper"),
    }[way]
    check_login(login)
    exchange = KerberosExchange(pickle.loads(pickle.dumps(login)), "localhost")
    server = accept_ticket(kdc.folder / "bookkeeper-localhost.keytab")
    token = exchange.start()
    assert exchange.respond(server.step(token)) == b""
    choice = exchange.respond(server.wrap(b"\x01\0\0\0", encrypt=False).message)
    assert exchange.is_complete
    assert server.unwrap(choice).message == b"\x01\0\0\0"
    assert str(server.initiator_name) == f"{OURS}@AUDITOR.TEST"


def test_each_fault_of_our_own_has_its_word(kdc: Kdc, tmp_path: Path) -> None:
    """The fault is in a ticket, in a key tab, in our principal, or in that of the server."""
    good = kdc.folder / f"{OURS}.keytab"
    garbage = tmp_path / "garbage.keytab"
    garbage.write_text("not a key tab")
    kdc.add("old")
    kdc.admin("cpw -randkey old")
    kdc.add("gone")
    kdc.admin("delprinc -force gone")
    kdc.add("locked")
    kdc.admin("modprinc -allow_tix locked")
    ahead = kdc.shift_clock(kdc.ticket(OURS, good, lifetime="10h"), 3600)
    for login, word in (
        (by_cache(tmp_path / "none"), "there is no Kerberos ticket in"),
        (KerberosLogin("bookie", "bookkeeper"), "no Kerberos ticket in the default ticket cache"),
        (by_key_tab(kdc, principal="other"), "has no key of other"),
        (by_key_tab(kdc, keytab=str(garbage), principal=OURS), "cannot be read as a key tab"),
        (by_key_tab(kdc, keytab="/no/such", principal=OURS), "cannot be read as a key tab"),
        (by_key_tab(kdc, "old"), "the KDC refused our key"),
        (by_key_tab(kdc, "gone"), "the KDC does not know our principal"),
        (by_key_tab(kdc, "locked"), "the KDC has locked our principal"),
        (by_key_tab(kdc, service="nobody"), "the KDC knows no principal nobody/localhost"),
        (by_cache(ahead), "the clocks of this machine and of the KDC differ"),
    ):
        assert word in failure(login), login


def test_a_ticket_that_has_expired_is_reported(kdc: Kdc) -> None:
    """The check before the command passes: the cache can be read."""
    login = by_cache(kdc.ticket(OURS, kdc.folder / f"{OURS}.keytab", lifetime="1s"))
    time.sleep(2)
    check_login(login)
    assert "our Kerberos ticket has expired" in failure(login)


def test_a_key_tab_makes_a_new_ticket_where_the_old_one_has_expired(kdc: Kdc) -> None:
    """A run may take longer than a ticket lives."""
    kdc.add("brief", "-maxlife 1sec")
    login = by_key_tab(kdc, "brief")
    assert KerberosExchange(login, "localhost").start()
    time.sleep(2)
    assert KerberosExchange(login, "localhost").start()


def test_why_a_key_tab_makes_no_new_ticket_is_reported(kdc: Kdc) -> None:
    """The library would say only that the old ticket has expired. A KDC that is away is asked
    again. A refusal is believed.
    """
    kdc.add("hourly", "-maxlife 1sec")
    login = by_key_tab(kdc, "hourly")
    assert KerberosExchange(login, "localhost").start()
    time.sleep(3)
    with kdc.away():
        assert "no KDC of the realm answered" in absence(login)
        assert "no KDC of the realm answered" in absence(login)
    assert KerberosExchange(login, "localhost").start()
    kdc.admin("modprinc -allow_tix hourly")
    time.sleep(3)
    assert "the KDC has locked our principal" in failure(login)


def test_what_this_machine_lacks_ends_a_command_before_it_asks_the_kdc(
    kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lacks a ticket, or a key of the principal, for bookies or for ZooKeeper. The KDC is not
    asked: none can be reached here.
    """
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.write_config("nobody.conf", 1)))
    check_credentials(BookieAccess(sasl=by_key_tab(kdc, principal=OURS)), ZooKeeperAccess())
    for access in (
        (BookieAccess(sasl=by_key_tab(kdc, principal="other")), ZooKeeperAccess()),
        (BookieAccess(), ZooKeeperAccess(sasl=KerberosLogin("zookeeper", "zookeeper"))),
    ):
        with pytest.raises(ConfigError, match=r"has no key of other|no Kerberos ticket in"):
            check_credentials(*access)


def test_a_missing_library_is_named_with_the_extra(
    kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is optional, and needs the machine's own Kerberos."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"--bookie-sasl gssapi needs.*\[kerberos\]"):
        check_login(by_key_tab(kdc))


def test_a_login_that_the_kdc_refused_is_not_tried_again_for_a_while(
    kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand bookies are a thousand logins, and a KDC locks a principal after a few
    failures.
    """
    asked: list[KerberosLogin] = []
    credentials = kerberos._credentials
    monkeypatch.setattr(
        kerberos, "_credentials", lambda *given: (asked.append(given[1]), credentials(*given))[1]
    )
    kdc.add("changed")
    kdc.admin("cpw -randkey changed")
    login = by_key_tab(kdc, "changed")
    assert failure(login) == failure(login, "127.0.0.1")
    assert asked == [login]
    monkeypatch.setattr(kerberos, "FAILURE_KEPT_S", 0.0)
    assert "refused our key" in failure(login)
    assert asked == [login, login]


def test_a_kdc_that_says_nothing_holds_up_nobody_else(
    kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library waits without Python's lock: other threads run while it waits for the KDC."""
    kdc.add("waiting")
    said: list[str] = []
    waiting = threading.Thread(target=lambda: said.append(absence(by_key_tab(kdc, "waiting"))))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(20)
        config = kdc.write_config("silent.conf", silent.getsockname()[1])
        monkeypatch.setenv("KRB5_CONFIG", str(config))
        waiting.start()
        peer, _ = silent.accept()  # The KDC is asked now, and this thread runs.
        assert waiting.is_alive()
        peer.close()
    waiting.join(60)
    assert "no KDC of the realm answered" in said[0]


@pytest.mark.parametrize("way", ["key tab", "cache"])
def test_a_kdc_that_is_away_refused_nothing_and_is_asked_again(kdc: Kdc, way: str) -> None:
    """This holds for our own ticket and for that of the server. The next try asks the KDC and gets
    the ticket.
    """
    name = f"away-{way.replace(' ', '-')}"
    keytab = kdc.add(name)
    login = by_key_tab(kdc, name) if way == "key tab" else by_cache(kdc.ticket(name, keytab))
    with kdc.away():
        assert "no KDC of the realm answered: start it" in absence(login)
    assert KerberosExchange(login, "localhost").start()


@pytest.mark.parametrize("way", ["key tab", "cache"])
def test_a_kdc_that_cannot_serve_now_refused_nothing(
    kdc: Kdc, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closes the connection, or says that a service of its own is not available."""
    name = f"busy-{way.replace(' ', '-')}"
    keytab = kdc.add(name)
    login = by_key_tab(kdc, name) if way == "key tab" else by_cache(kdc.ticket(name, keytab))
    for error, word in ((None, "no KDC of the realm answered"), (29, "cannot serve now")):
        with BrokenKdc(error) as broken:
            config = kdc.write_config(f"broken-{error}.conf", broken.port)
            monkeypatch.setenv("KRB5_CONFIG", str(config))
            assert word in absence(login)
            assert broken.asked


def test_a_kdc_that_cannot_be_found_refused_nothing(
    kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """krb5.conf names no KDC of the realm, and DNS is not asked or has no answer."""
    config = kdc.folder / "other-realm.conf"
    config.write_text(kdc.config.read_text().replace(f"\n {REALM} =", "\n OTHER.TEST ="))
    monkeypatch.setenv("KRB5_CONFIG", str(config))
    kdc.add("nowhere")
    assert "no KDC of the realm was found" in absence(by_key_tab(kdc, "nowhere"))


def test_who_waited_for_a_kdc_that_is_away_does_not_ask_it_again(
    kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent KDC costs 25 s: a thousand bookies at once must wait for it once, and no more."""
    kdc.add("many")
    login, credentials = by_key_tab(kdc, "many"), kerberos._credentials
    asked: list[KerberosLogin] = []
    said: list[str] = []
    lock = CountedLock()

    def ask(*given: Any) -> Any:
        assert lock.awaited.wait(20)
        asked.append(login)
        return credentials(*given)

    monkeypatch.setattr(kerberos, "_one_at_a_time", lock)
    monkeypatch.setattr(kerberos, "_credentials", ask)
    with kdc.away():
        waiting = [threading.Thread(target=lambda: said.append(absence(login))) for _ in range(2)]
        for thread in waiting:
            thread.start()
        for thread in waiting:
            thread.join(20)
        assert [said[0]] * 2 == said
        assert asked == [login]
        absence(login)
    assert asked == [login] * 2


class CountedLock:
    """A lock. `awaited` is set once two threads want it."""

    def __init__(self) -> None:
        self._lock, self._wanted = threading.Lock(), 0
        self.awaited = threading.Event()

    def __enter__(self) -> None:
        self._wanted += 1
        if self._wanted == 2:
            self.awaited.set()
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        self._lock.release()


def test_a_server_that_proves_nothing_is_not_asked(kdc: Kdc) -> None:
    """Its reply is empty or garbage."""
    for reply in (b"", b"garbage", bytes(100)):
        exchange = KerberosExchange(by_key_tab(kdc), "localhost")
        exchange.start()
        with pytest.raises(KerberosFailed, match="could not prove that it has the key of bookkee"):
            exchange.respond(reply)


@pytest.mark.parametrize("offer", [b"\x02\0\0\0", b"\x04\0\1\0", b"", b"\x01", b"\x01\0\0\0\0"])
def test_a_server_that_wants_a_security_layer_is_refused(kdc: Kdc, offer: bytes) -> None:
    """So is a server whose offer is malformed. BookKeeper and ZooKeeper offer to do without a layer
    (1).
    """
    exchange = KerberosExchange(by_key_tab(kdc), "localhost")
    server = accept_ticket(kdc.folder / "bookkeeper-localhost.keytab")
    exchange.respond(server.step(exchange.start()))
    with pytest.raises(KerberosFailed, match="wants every message encrypted by SASL"):
        exchange.respond(server.wrap(offer, encrypt=False).message)
    assert not exchange.is_complete


def test_key_tabs_and_caches_that_all_may_read_are_named(tmp_path: Path) -> None:
    """Any user who has one can log in as the auditor."""
    keytab, cache = tmp_path / "a.keytab", tmp_path / "cache"
    for path in (keytab, cache):
        path.touch(0o644)
    bookie = BookieAccess(sasl=KerberosLogin("bookie", "bookkeeper", str(keytab)))
    zookeeper = ZooKeeperAccess(sasl=KerberosLogin("zookeeper", "z", ticket_cache=str(cache)))
    assert secrets_open_to_all(bookie, zookeeper) == [str(keytab), str(cache)]
    keytab.chmod(0o600)
    assert secrets_open_to_all(bookie, zookeeper) == [str(cache)]
