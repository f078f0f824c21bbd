"""Log in to a bookie by SASL DIGEST-MD5.

A bookie says nothing to a wrong password. A request therefore follows the answer to its challenge:
EUA to that request distinguishes a refused password from a slow answer.
"""

from __future__ import annotations

import secrets

from auditor.bookie.link import Link
from auditor.bookie.replies import (
    STILL_UNAUTHORISED,
    Replies,
    ask_first_challenge,
    check_admitted,
    require_ok,
)
from auditor.errors import BookieRefused, PeerProtocolError
from auditor.wire.digest_md5 import (
    DigestAnswer,
    DigestUser,
    answer_challenge,
    is_challenge,
    proves_password,
)
from auditor.wire.frames import Operation, Status

NONCE_BYTES = 16
"""Random bytes in our half of a DIGEST-MD5 exchange."""
SERVICE = "bookkeeper/bookkeeper"
"""The digest-uri of every bookie (SaslConstants)."""

WRONG_LOGIN = (
    "the bookie refused the user name or password (--bookie-sasl-username,"
    " --bookie-sasl-password-file): the user must be in the section Bookie of its JAAS file and"
    " match its saslJaasClientAllowedIds"
)
NO_DIGEST = "the bookie does not offer SASL DIGEST-MD5"
NO_PROOF = (
    "the bookie could not prove that it knows the password: it may be another server in its place"
)


class DigestLogin:
    """Logs in as one user. The password is in `user` alone."""

    def __init__(self, user: DigestUser) -> None:
        self._user = user

    async def prepare(self) -> None:
        """Do nothing: the bookie speaks first."""

    async def log_in(self, link: Link, replies: Replies) -> None:
        """Return when the bookie admits us. Raises BookieRefused or BookieUnreachable."""
        challenge = await ask_first_challenge(link, replies, b"", NO_DIGEST)
        if challenge is None:
            await check_admitted(link, replies, STILL_UNAUTHORISED)
            return
        if not is_challenge(challenge):
            raise BookieRefused(f"{NO_DIGEST}: its challenge is of another mechanism")
        try:
            proof = answer_challenge(challenge, self._user, secrets.token_hex(NONCE_BYTES))
        except PeerProtocolError as error:
            raise BookieRefused(f"{NO_DIGEST} as we speak it: {error}") from None
        await self._prove(link, replies, proof)

    async def _prove(self, link: Link, replies: Replies, answer: DigestAnswer) -> None:
        """Send the answer to the challenge, and after it a request that reveals a silent
        refusal.
        """
        _, response = link.wire.ask_auth(answer.response)
        _, info = link.wire.ask_info()
        link.probes += 1
        link.send(response + info)
        reply = await replies.next()
        # To AUTH, or to the request behind it: then AUTH gets no answer.
        if reply.status == Status.EUA:
            raise BookieRefused(WRONG_LOGIN)
        require_ok(reply)
        if reply.operation != Operation.AUTH or not proves_password(reply.payload, answer):
            raise BookieRefused(NO_PROOF)
        if (await replies.next()).status == Status.EUA:
            raise BookieRefused(STILL_UNAUTHORISED)
