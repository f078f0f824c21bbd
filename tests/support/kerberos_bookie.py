"""A scripted bookie that requires a Kerberos ticket and uses the server's half of the library.

with KerberosBookie(keytab) as bookie:
    ...                                                   # {1: [0, 1]} is what it holds

It does not answer what it does not accept. BookKeeper 4.17 does the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.guarded_bookie import AUTH, CHALLENGE
from support.kerberos import accept_ticket
from support.scripted_bookie import INFO, Connection, ScriptedBookie, answer, frame, info_answer

from auditor.wire.generated import bookkeeper_protocol_pb2 as pb


class KerberosBookie(ScriptedBookie):
    """`admits`: whether our principal may log in. `offers_digest`: it has no Kerberos, and answers
    the first message with a challenge.

    `replies` replace the first replies of the library: None is silence, a status an error, bytes a
    token. `last_reply` is its answer to our last message, which BookKeeper never gives.
    """

    def __init__(
        self,
        keytab: Path,
        *,
        admits: bool = True,
        offers_digest: bool = False,
        replies: tuple[bytes | int | None, ...] = (),
        last_reply: bytes | int | None = None,
    ) -> None:
        super().__init__({1: [0, 1]}, self._guard)
        self._keytab, self._admits, self._offers_digest = keytab, admits, offers_digest
        self._replies = list(replies)
        self._last_reply = last_reply
        self._contexts: dict[int, Any] = {}
        self._admitted: set[int] = set()
        self.tokens: list[bytes] = []
        """The contents of AUTH messages."""

    def _guard(self, connection: Connection, request: pb.Request) -> bool:
        operation, txn_id = request.header.operation, request.header.txnId
        if operation == AUTH:
            self.tokens.append(request.authRequest.payload)
            self._authenticate(connection, txn_id, request.authRequest.payload)
            return True
        if connection.number in self._admitted:
            return False
        refusal = (
            info_answer(txn_id, pb.EUA)
            if operation == INFO
            else frame(answer(operation, txn_id, pb.EUA))
        )
        connection.send(refusal)
        return True

    def _authenticate(self, connection: Connection, txn_id: int, token: bytes) -> None:
        if self._replies:
            self._say(connection, txn_id, self._replies.pop(0))
        elif self._offers_digest:
            self._say(connection, txn_id, CHALLENGE)
        else:
            self._say(connection, txn_id, self._answer(connection, token))

    def _answer(self, connection: Connection, token: bytes) -> bytes | int | None:
        import gssapi

        number = connection.number
        context = self._contexts.setdefault(number, accept_ticket(self._keytab))
        try:
            if not context.complete:
                return bytes(context.step(token))
            if not token:
                return bytes(context.wrap(b"\x01\0\0\0", encrypt=False).message)
            if context.unwrap(token).message == b"\x01\0\0\0" and self._admits:
                self._admitted.add(number)
        except gssapi.exceptions.GSSError:
            return None
        return self._last_reply

    def _say(self, connection: Connection, txn_id: int, reply: bytes | int | None) -> None:
        if reply is None:
            return
        message = answer(AUTH, txn_id, reply if isinstance(reply, int) else 0)
        if isinstance(reply, bytes):
            message.authResponse.authPluginName, message.authResponse.payload = "sasl", reply
        connection.send(frame(message))
