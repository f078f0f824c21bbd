"""A client's SASL DIGEST-MD5 (RFC 2831), as bookies and ZooKeeper speak it, without I/O.

Quality of protection is `auth`: nothing after the exchange is signed or encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from auditor.errors import PeerProtocolError

CHALLENGE_BYTES_MAX = 2_048
"""Longest challenge that RFC 2831 allows, in bytes."""
NONCE_COUNT = "00000001"
"""How often a nonce has been used. Each connection is authenticated once."""

_DIRECTIVE = re.compile(r'\s*([A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]*))\s*(?:,|$)')


@dataclass(frozen=True, slots=True)
class DigestUser:
    """Who logs in, and to which service: `bookkeeper/bookkeeper` or `zookeeper/zk-sasl-md5`."""

    username: str
    password: str
    service: str

    def __repr__(self) -> str:
        return f"DigestUser({self.username!r}, {self.service!r})"


@dataclass(frozen=True, slots=True)
class DigestAnswer:
    """The answer to a challenge, and the reply of a server that knows the password."""

    response: bytes
    expected_reply: bytes


def is_challenge(challenge: bytes) -> bool:
    """Return whether these bytes are a challenge of DIGEST-MD5, and of no other mechanism."""
    try:
        directives = _parse(challenge)
    except PeerProtocolError:
        return False
    return "nonce" in directives and directives.get("algorithm", "md5-sess") == "md5-sess"


def answer_challenge(challenge: bytes, user: DigestUser, client_nonce: str) -> DigestAnswer:
    """Return the answer to a server's challenge. `client_nonce` must be new and random.

    Raises PeerProtocolError for a challenge that is not of DIGEST-MD5 with `auth`.
    """
    directives = _parse(challenge)
    if "nonce" not in directives:
        raise PeerProtocolError("a challenge of DIGEST-MD5 without a nonce")
    if "auth" not in (quality.strip() for quality in directives.get("qop", "auth").split(",")):
        raise PeerProtocolError(
            f"DIGEST-MD5 with qop={directives['qop'][:40]!a}, and only auth is supported"
        )
    realm, nonce = directives.get("realm", ""), directives["nonce"]
    secret = _md5(b":".join(_secret_bytes(part) for part in (user.username, realm, user.password)))
    key = _md5(secret + f":{nonce}:{client_nonce}".encode()).hex()
    tail = f"{nonce}:{NONCE_COUNT}:{client_nonce}:auth"
    ours = _response(key, tail, f"AUTHENTICATE:{user.service}")
    theirs = _response(key, tail, f":{user.service}")
    fields = [
        "charset=utf-8",
        f'username="{_quote(user.username)}"',
        *([f'realm="{_quote(realm)}"'] if "realm" in directives else []),
        f'nonce="{_quote(nonce)}"',
        f"nc={NONCE_COUNT}",
        f'cnonce="{client_nonce}"',
        f'digest-uri="{user.service}"',
        "maxbuf=65536",
        f"response={ours}",
        "qop=auth",
    ]
    return DigestAnswer(",".join(fields).encode(), f"rspauth={theirs}".encode())


def proves_password(reply: bytes, answer: DigestAnswer) -> bool:
    """Return whether the server's reply shows that it knows the password too."""
    return hmac.compare_digest(reply.strip(), answer.expected_reply)


def _parse(challenge: bytes) -> dict[str, str]:
    """Return the directives of a challenge by name in small letters. Of equal names, the first
    counts.
    """
    if len(challenge) > CHALLENGE_BYTES_MAX:
        raise PeerProtocolError(f"a challenge of {len(challenge)} bytes")
    try:
        text = challenge.decode()
    except UnicodeDecodeError:
        raise PeerProtocolError("a challenge that is not UTF-8 text") from None
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _DIRECTIVE.match(text, at)
        if match is None:
            raise PeerProtocolError("a challenge that is not of DIGEST-MD5")
        quoted = match[2]
        value = match[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        found.setdefault(match[1].lower(), value)
        at = match.end()
    return found


def _secret_bytes(text: str) -> bytes:
    """Encode a part of the secret: ISO 8859-1 if that has every character, else UTF-8 (RFC 2831,
    2.1.2.1).
    """
    try:
        return text.encode("iso-8859-1")
    except UnicodeEncodeError:
        return text.encode()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _response(key: str, tail: str, purpose: str) -> str:
    return _md5(f"{key}:{tail}:{_md5(purpose.encode()).hex()}".encode()).hex()


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
