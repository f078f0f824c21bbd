"""A real KDC on loopback, with key tabs and ticket caches in the state that a test needs.

    with Kdc(tmp_path) as kdc:                                     # 1 s; krb5kdc of Debian
        keytab = kdc.add("bookkeeper/localhost")
        cache = kdc.ticket("bookkeeper-auditor")                   # as kinit leaves it
        os.environ["KRB5_CONFIG"] = str(kdc.config)                # for libkrb5 in this process

Nothing outside its folder is touched. The KDC is killed by the kernel when the tests end.
`BrokenKdc` listens where a KDC should be, and gives no ticket.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from support.real_processes import JavaProcess, free_port
from support.requirements import lack

REALM = "AUDITOR.TEST"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "kvno")
SBIN = "/usr/sbin"
START_TIMEOUT_S = 30.0
COMMAND_TIMEOUT_S = 60
DELTA_TIME_AT = 8
"""Offset in a FILE cache of version 4 of the seconds by which the KDC's clock is ahead of ours."""


def missing_kerberos() -> str | None:
    """Return what is missing for the tests with Kerberos, None if all is there."""
    path = f"{os.environ.get('PATH', '')}:{SBIN}"
    programs = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if programs:
        return f"Kerberos needs {', '.join(programs)} (krb5-kdc, krb5-admin-server, krb5-user)"
    try:
        import gssapi  # noqa: F401
    except ImportError as error:
        return f"Kerberos needs the library gssapi (pip install '.[kerberos]'): {error}"
    return None


def require_kerberos() -> None:
    """Fail in CI if the KDC or the library is missing; elsewhere skip, and say what is not
    tested.
    """
    problem = missing_kerberos()
    if problem is not None:
        lack(problem)


class Kdc:
    """The KDC of REALM. `config` is its krb5.conf, for clients too."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.port = folder, free_port()
        self.config = self.write_config("krb5.conf", self.port)
        profile = folder / "kdc.conf"
        profile.write_text(
            f'[kdcdefaults]\n kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{self.port}\n'
            f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n"
            f"  key_stash_file = {folder}/stash\n  acl_file = {folder}/acl\n }}\n"
        )
        self._environment = {
            **os.environ,
            "PATH": f"{os.environ.get('PATH', '')}:{SBIN}",
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(profile),
        }
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self.start()

    def start(self) -> None:
        """Start the KDC, also again after `stop`, on the same port."""
        self.process = JavaProcess(
            "KDC",
            [shutil.which("krb5kdc", path=self._environment["PATH"]) or "krb5kdc", "-n"],
            self.folder / "kdc.log",
            self._environment,
        )
        self._await_port()

    def stop(self) -> None:
        """Stop the KDC: connections to its port are refused from now on."""
        self.process.kill()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Stop the KDC for the body of a `with`."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def __enter__(self) -> Kdc:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def write_config(self, name: str, port: int, more: str = "") -> Path:
        """Write a krb5.conf that names a KDC at this port; return its path."""
        path = self.folder / name
        path.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
            " dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n"
            f" udp_preference_limit = 1\n{more}"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
            f"[domain_realm]\n localhost = {REALM}\n"
        )
        return path

    def add(self, principal: str, *options: str) -> Path:
        """Add a principal with a random key; return its key tab."""
        keytab = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.admin(f"addprinc -randkey {' '.join(options)} {principal}")
        self.admin(f"ktadd -k {keytab} {principal}")
        return keytab

    def admin(self, query: str) -> None:
        """Run one line of kadmin."""
        self._run("kadmin.local", "-q", query)

    def ticket(
        self, principal: str, keytab: Path, *, lifetime: str = "1h", service: str = ""
    ) -> Path:
        """Make a ticket cache as kinit does, also with a ticket for `service` if it is given."""
        number = len(list(self.folder.glob("*.cache")))
        cache = self.folder / f"{number}.cache"
        self._run("kinit", "-k", "-t", str(keytab), "-l", lifetime, "-c", str(cache), principal)
        if service:
            self._run("kvno", "-c", str(cache), service)
        return cache

    def shift_clock(self, cache: Path, seconds: int) -> Path:
        """Make a client with this cache believe that its clock is off by this much.

        libkrb5 stores the difference to the KDC's clock there, and dates its messages by it.
        """
        content = bytearray(cache.read_bytes())
        assert content[:8] == bytes.fromhex("0504 000c 0001 0008"), content[:8].hex()
        struct.pack_into(">i", content, DELTA_TIME_AT, seconds)
        cache.write_bytes(content)
        return cache

    def _run(self, *command: str) -> None:
        subprocess.run(
            command,
            env=self._environment,
            check=True,
            timeout=COMMAND_TIMEOUT_S,
            capture_output=True,
        )

    def _await_port(self) -> None:
        until = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < until, "the KDC does not listen"
                time.sleep(0.05)


class BrokenKdc:
    """Accepts every connection, and answers with `error`, a code of a KDC; without one it closes.

    `asked` counts the connections.
    """

    def __init__(self, error: int | None = None) -> None:
        self._error, self.asked = error, 0
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> BrokenKdc:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:  # The test is over.
                return
            with peer:
                self.asked += 1
                if self._error is not None:
                    peer.recv(65_536)
                    reply = _error_message(self._error)
                    peer.sendall(len(reply).to_bytes(4, "big") + reply)


def _error_message(code: int) -> bytes:
    """Return a KRB-ERROR (RFC 4120, 5.9.1) with only the fields that it must have."""

    def der(tag: int, content: bytes) -> bytes:
        assert len(content) < 128, "one byte for the length"
        return bytes([tag, len(content)]) + content

    def number(value: int) -> bytes:
        return der(0x02, bytes([value]))

    def text(value: str) -> bytes:
        return der(0x1B, value.encode())

    now = time.strftime("%Y%m%d%H%M%SZ", time.gmtime()).encode()
    server = der(0xA0, number(2)) + der(0xA1, der(0x30, text("krbtgt") + text(REALM)))
    fields = {
        0xA0: number(5),
        0xA1: number(30),
        0xA4: der(0x18, now),
        0xA5: number(0),
        0xA6: number(code),
        0xA9: text(REALM),
        0xAA: der(0x30, server),
    }
    body = b"".join(der(tag, content) for tag, content in fields.items())
    return der(0x7E, der(0x30, body))


def accept_ticket(keytab: Path) -> Any:
    """Return the server's half of an exchange, as the library implements it."""
    import gssapi

    mechs = [gssapi.MechType.kerberos]
    credentials = gssapi.Credentials(usage="accept", mechs=mechs, store={"keytab": str(keytab)})
    return gssapi.SecurityContext(creds=credentials, usage="accept")
