"""A scripted bookie that wants TLS, a login or both, and refuses as BookKeeper 4.17 does.

with GuardedBookie(tls=pki.issue("bookie"), ca=pki.ca(), password="right") as bookie:
    ...                                                   # {1: [0, 1]} is what it holds
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path

from support.pki import Issued
from support.scripted_bookie import INFO, Connection, ScriptedBookie, answer, frame, info_answer

from auditor.wire.digest_md5 import DigestUser, answer_challenge
from auditor.wire.entry_availability import encode_runs
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

AUTH, START_TLS = 5, 9
USER = "bookkeeper"
CHALLENGE = b'realm="bookkeeper",nonce="of the server",charset=utf-8,algorithm=md5-sess'


class GuardedBookie(ScriptedBookie):
    """`tls`: its certificate; `ca`: it requires a client certificate of this CA; `password`: it
    requires a login as USER.

    `challenge` is its answer to the first AUTH, None for silence; `proof` replaces its proof of the
    password. `in_clear` is sent right after the answer to START_TLS, where no data is allowed.
    """

    def __init__(
        self,
        *,
        tls: Issued | None = None,
        ca: Path | None = None,
        password: str | None = None,
        challenge: bytes | None = CHALLENGE,
        proof: bytes | None = None,
        in_clear: bytes = b"",
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> None:
        super().__init__({1: [0, 1]}, self._guard)
        self._password, self._challenge, self._proof, self._in_clear = (
            password,
            challenge,
            proof,
            in_clear,
        )
        self._context = None if tls is None else _server_context(tls, ca, version)
        self._admitted: set[int] = set()
        self._early: dict[Connection, list[pb.Request]] = {}
        self.seen_in_clear: list[int] = []
        """Operations that came outside of TLS."""

    @staticmethod
    def encoded(ledgers: Mapping[int, Iterable[int]]) -> dict[int, bytes]:
        """Return the value for `ledgers` that holds these entries."""
        return {ledger_id: encode_runs(entries) for ledger_id, entries in ledgers.items()}

    def _guard(self, connection: Connection, request: pb.Request) -> bool:
        operation, txn_id = request.header.operation, request.header.txnId
        assert connection.transport is not None
        if connection in self._early:  # The handshake is complete for the client, but not for us.
            self._early[connection].append(request)
            return True
        if connection.transport.get_extra_info("sslcontext") is None:
            self.seen_in_clear.append(operation)
        if operation == START_TLS:
            self._start_tls(connection, txn_id)
            return True
        if operation == AUTH:
            self._authenticate(connection, request)
            return True
        if self._password is not None and connection.number not in self._admitted:
            refusal = (
                info_answer(txn_id, pb.EUA)
                if operation == INFO
                else frame(answer(operation, txn_id, pb.EUA))
            )
            connection.send(refusal)
            return True
        return False

    def _start_tls(self, connection: Connection, txn_id: int) -> None:
        if self._context is None:
            connection.send(frame(answer(START_TLS, txn_id, pb.EBADREQ)))
            return
        message = answer(START_TLS, txn_id)
        message.startTLSResponse.SetInParent()
        connection.send(frame(message) + self._in_clear)
        self._early[connection] = []
        asyncio.get_running_loop().create_task(self._upgrade(connection, txn_id))

    async def _upgrade(self, connection: Connection, txn_id: int) -> None:
        transport = connection.transport
        assert transport is not None and self._context is not None
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport, connection, self._context, server_side=True
            )
        except OSError:
            transport.abort()
            return
        connection.transport = secured
        if self._password is not None:  # bookies send a second answer, too
            connection.send(frame(answer(START_TLS, txn_id, pb.EIO)))
        for request in self._early.pop(connection):
            if not self._guard(connection, request):
                self.answer(connection, request)

    def _authenticate(self, connection: Connection, request: pb.Request) -> None:
        txn_id, payload = request.header.txnId, request.authRequest.payload
        if self._password is None:
            self._say(connection, txn_id, b"", "AuthDisabledPlugin")
        elif not payload:
            if self._challenge is not None:
                self._say(connection, txn_id, self._challenge)
        else:
            nonce = re.search(rb'cnonce="([^"]+)"', payload)
            assert nonce is not None, payload
            right = answer_challenge(
                CHALLENGE,
                DigestUser(USER, self._password, "bookkeeper/bookkeeper"),
                nonce[1].decode(),
            )
            if payload == right.response:
                self._admitted.add(connection.number)
                self._say(connection, txn_id, self._proof or right.expected_reply)

    def _say(
        self, connection: Connection, txn_id: int, payload: bytes, plugin: str = "sasl"
    ) -> None:
        message = answer(AUTH, txn_id)
        message.authResponse.authPluginName, message.authResponse.payload = plugin, payload
        connection.send(frame(message))


def _server_context(tls: Issued, ca: Path | None, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(tls.certificate, tls.key)
    if ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(ca)
    return context
