"""Fuzz targets: what a bookie, or a server in its place, sends while we log in to it."""

from __future__ import annotations

import asyncio
from typing import cast

from targets import Target, check_storable

from auditor.bookie.dialling import NO_LOGIN_PLUGIN, SERVICE, DigestLogin, Replies
from auditor.bookie.link import Link
from auditor.errors import BookieRefused, BookieUnreachable, PeerProtocolError
from auditor.wire.bookie_connection import Answered, BookieConnection
from auditor.wire.digest_md5 import (
    CHALLENGE_BYTES_MAX,
    DigestUser,
    answer_challenge,
    is_challenge,
    proves_password,
)
from auditor.wire.frames import Operation, Status

PASSWORD = "canary7f3a"
USER = DigestUser('a "quoted", u\\ser', PASSWORD, SERVICE)
CLIENT_NONCE = "00ff" * 8
FRAME_BYTES_MAX = 65_536
BETWEEN = b"\n--\n"
"""Divides an input into the answers of a bookie."""
_STATUSES = (Status.EOK, Status.EOK, Status.EUA, Status.EIO)
_OPERATIONS = (Operation.AUTH, Operation.GET_BOOKIE_INFO)


def read_challenge(data: bytes) -> None:
    """Check that the answer to a challenge has each directive once, and our values in those that
    say who we are. The rest behind BETWEEN is the reply to it.
    """
    challenge, _, reply = data.partition(BETWEEN)
    offered = is_challenge(challenge)
    answer = answer_challenge(challenge, USER, CLIENT_NONCE)
    assert offered or b"algorithm" in challenge.lower()
    assert PASSWORD.encode() not in answer.response
    assert not proves_password(reply, answer)
    said = _directives(answer.response.decode())
    names = [name for name, _ in said]
    assert len(set(names)) == len(names), names
    expected = {
        "username": USER.username,
        "cnonce": CLIENT_NONCE,
        "digest-uri": SERVICE,
        "qop": "auth",
    }
    assert expected.items() <= dict(said).items(), said
    assert len(answer.response) < 4 * CHALLENGE_BYTES_MAX


def _directives(text: str) -> list[tuple[str, str]]:
    """Return the directives of an answer, read character by character as a server does."""
    found, part, is_quoted, is_escaped = [], "", False, False
    for char in text + ",":
        if is_escaped:
            part, is_escaped = part + char, False
        elif is_quoted and char == "\\":
            is_escaped = True
        elif char == '"':
            is_quoted = not is_quoted
        elif char == "," and not is_quoted:
            name, _, value = part.partition("=")
            found.append((name, value))
            part = ""
        else:
            part += char
    assert not is_quoted, text
    return found


class _FakeLink:
    """Takes what is sent, and sends nothing."""

    def __init__(self) -> None:
        self.wire = BookieConnection(FRAME_BYTES_MAX)
        self.probes = 0
        self.sent = b""

    def send(self, data: bytes) -> None:
        self.sent += data


def log_in(data: bytes) -> None:
    """Log in to a bookie that sends these answers. The first byte of each says which operation it
    answers and how; silence follows the last.
    """
    link = cast("Link", _FakeLink())
    replies = Replies(timeout_s=0)
    replies.on_answers(link, [_answer(part) for part in data.split(BETWEEN) if part])
    try:
        asyncio.run(DigestLogin(USER).log_in(link, replies))
    except (BookieRefused, BookieUnreachable) as error:
        assert PASSWORD not in str(error)
        assert str(error).isprintable(), str(error)
        check_storable(str(error))
        raise
    finally:
        assert PASSWORD.encode() not in cast("_FakeLink", link).sent


def _answer(part: bytes) -> Answered:
    how, rest = part[0], part[1:]
    payload, extra = (b"", rest) if how & 8 else (rest, b"")
    return Answered(
        1, _OPERATIONS[how >> 2 & 1], _STATUSES[how & 3], payload, len(part), False, extra
    )


_CHALLENGE = (
    b'realm="bookkeeper",nonce="OA6MG9tEQGm2hh/+x=",qop="auth",charset=utf-8,algorithm=md5-sess'
)
_CHALLENGES = [
    _CHALLENGE + BETWEEN + b"rspauth=ea40f60335c427b5527b84dbabcdfffd",
    b'realm="a\\"b\\\\", nonce=plain , qop="auth-int, auth"',
    b'nonce="",stale=true,maxbuf=65536,cipher="rc4"',
]
_INFO = b"\x04"
_LOGINS = [
    b"\x08" + NO_LOGIN_PLUGIN + BETWEEN + _INFO,
    b"\x00" + _CHALLENGE + BETWEEN + b"\x00rspauth=00" + BETWEEN + _INFO,
    b"\x00" + _CHALLENGE + BETWEEN + b"\x02" + BETWEEN + _INFO,
    b"\x08other.Plugin" + BETWEEN + _INFO,
    b"\x03" + BETWEEN + _INFO,
    b"\x04" + BETWEEN + _INFO,
]

TARGETS = (
    Target("digest-challenge", read_challenge, _CHALLENGES, (PeerProtocolError,)),
    Target("bookie-login", log_in, _LOGINS, (BookieRefused, BookieUnreachable)),
)
