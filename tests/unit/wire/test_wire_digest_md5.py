"""DIGEST-MD5 as RFC 2831 computes it, and what is not that."""

from __future__ import annotations

import hashlib

import pytest

from auditor.errors import PeerProtocolError
from auditor.wire.digest_md5 import (
    CHALLENGE_BYTES_MAX,
    DigestUser,
    answer_challenge,
    is_challenge,
    proves_password,
)

IMAP = (
    b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",'
    b"algorithm=md5-sess,charset=utf-8"
)
"""The challenge of RFC 2831, section 4."""
CHRIS = DigestUser("chris", "secret", "imap/elwood.innosoft.com")
BOOKIE = b'realm="bookkeeper",nonce="abc",charset=utf-8,algorithm=md5-sess'


def fields(response: bytes) -> dict[str, str]:
    return dict(part.split("=", 1) for part in response.decode().split(","))


def hashed(response: bytes) -> str:
    return fields(response)["response"]


def test_the_example_of_the_rfc_is_answered_as_there() -> None:
    """Response and reply are those of RFC 2831, section 4."""
    answer = answer_challenge(IMAP, CHRIS, "OA6MHXh6VqTrRk")
    said = fields(answer.response)
    assert said["response"] == "d388dad90d4bbd760a152321f2143af7"
    assert answer.expected_reply == b"rspauth=ea40f60335c427b5527b84dbabcdfffd"
    assert (said["username"], said["realm"], said["nc"]) == (
        '"chris"',
        '"elwood.innosoft.com"',
        "00000001",
    )
    assert (said["digest-uri"], said["qop"]) == ('"imap/elwood.innosoft.com"', "auth")


def test_one_of_several_qualities_of_protection_is_auth() -> None:
    """We answer with it; the character set and the size of our buffer are sent as RFC 2831 has
    them.
    """
    said = fields(answer_challenge(b'nonce="abc",qop="auth-int,auth"', CHRIS, "n").response)
    assert (said["qop"], said["charset"], said["maxbuf"]) == ("auth", "utf-8", "65536")


def test_md5_is_asked_for_as_no_protection_of_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL refuses it otherwise where it is built for FIPS."""
    asked: list[object] = []
    md5 = hashlib.md5

    def strict(data: bytes, **options: object) -> object:
        asked.append(options)
        return md5(data)

    monkeypatch.setattr(hashlib, "md5", strict)
    answer_challenge(IMAP, CHRIS, "n")
    assert asked
    assert all(options == {"usedforsecurity": False} for options in asked)


def test_the_longest_challenge_is_taken() -> None:
    """RFC 2831 says how long one may be."""
    head = b'nonce="'
    longest = head + b"n" * (CHALLENGE_BYTES_MAX - len(head) - 1) + b'"'
    assert is_challenge(longest)


def test_only_the_expected_reply_proves_the_password() -> None:
    """A server that does not know the password cannot make the reply; spaces around it do not
    matter.
    """
    answer = answer_challenge(IMAP, CHRIS, "OA6MHXh6VqTrRk")
    assert proves_password(answer.expected_reply + b" ", answer)
    assert not proves_password(b"", answer)
    assert not proves_password(b"rspauth=" + b"0" * 32, answer)


@pytest.mark.parametrize(
    ("password", "encoding"),
    [("pässword", "iso-8859-1"), ("p€ssword", "utf-8"), ("plain", "ascii")],
)
def test_a_password_is_hashed_in_latin_1_where_that_has_every_character(
    password: str, encoding: str
) -> None:
    """RFC 2831, 2.1.2.1: other passwords are hashed in UTF-8. Java does so; the wire is UTF-8 in
    any case.
    """
    answer = answer_challenge(BOOKIE, DigestUser("u", password, "s/s"), "n")
    secret = hashlib.md5(b"u:bookkeeper:" + password.encode(encoding)).digest()
    key = hashlib.md5(secret + b":abc:n").hexdigest()
    right = hashlib.md5(
        f"{key}:abc:00000001:n:auth:{hashlib.md5(b'AUTHENTICATE:s/s').hexdigest()}".encode()
    ).hexdigest()
    assert hashed(answer.response) == right


def test_each_part_of_the_secret_is_encoded_by_itself() -> None:
    """A user in Latin-1 stays so beside a password that needs UTF-8."""
    answer = answer_challenge(BOOKIE, DigestUser("ü", "€", "s/s"), "n")
    secret = hashlib.md5(b"\xfc:bookkeeper:" + "€".encode()).digest()
    key = hashlib.md5(secret + b":abc:n").hexdigest()
    right = hashlib.md5(
        f"{key}:abc:00000001:n:auth:{hashlib.md5(b'AUTHENTICATE:s/s').hexdigest()}".encode()
    ).hexdigest()
    assert hashed(answer.response) == right
    assert fields(answer.response)["username"] == '"ü"'


def test_quotes_and_backslashes_are_escaped_both_ways() -> None:
    """They may be in a user, and in what the server says."""
    answer = answer_challenge(
        rb'realm="a\"b\\c",nonce="n\"",qop="auth"', DigestUser('d"e\\f', "p", "s/s"), "c"
    )
    assert b'username="d\\"e\\\\f"' in answer.response
    assert b'realm="a\\"b\\\\c"' in answer.response
    assert b'nonce="n\\""' in answer.response


def test_without_a_realm_none_is_sent() -> None:
    """The secret has an empty one."""
    answer = answer_challenge(b'nonce="abc"', DigestUser("u", "p", "s/s"), "n")
    assert b"realm" not in answer.response
    key = hashlib.md5(hashlib.md5(b"u::p").digest() + b":abc:n").hexdigest()
    right = hashlib.md5(
        f"{key}:abc:00000001:n:auth:{hashlib.md5(b'AUTHENTICATE:s/s').hexdigest()}".encode()
    ).hexdigest()
    assert hashed(answer.response) == right


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"\x60\x82\x01", "not UTF-8"),
        (b"realm", "not of DIGEST-MD5"),
        (b'realm="r"', "without a nonce"),
        (b'nonce="n",qop="auth-int,auth-conf"', "qop='auth-int"),
        (b'nonce="' + b"n" * CHALLENGE_BYTES_MAX + b'"', "bytes"),
    ],
)
def test_what_is_no_challenge_of_ours_is_refused(challenge: bytes, why: str) -> None:
    """Each with its reason."""
    with pytest.raises(PeerProtocolError, match=why):
        answer_challenge(challenge, CHRIS, "c")


def test_a_server_cannot_write_to_the_terminal_by_its_challenge() -> None:
    """What it offers is quoted in the message, with every control character escaped."""
    with pytest.raises(PeerProtocolError) as raised:
        answer_challenge(b'nonce="n",qop="\x1b[2Jall is well\nok"', CHRIS, "c")
    assert str(raised.value).isprintable()
    assert str(raised.value).isascii()


def test_spaces_in_a_list_of_qualities_do_not_matter() -> None:
    """RFC 2831 allows them around each element (7.1)."""
    assert (
        b"qop=auth,"
        in answer_challenge(b'nonce="abc",qop="auth-int , auth"', CHRIS, "n").response + b","
    )


@pytest.mark.parametrize(
    ("challenge", "is_ours"),
    [
        (BOOKIE, True),
        (b'nonce="n"', True),
        (b'realm="r"', False),
        (b"\x60\x82", False),
        (b'nonce="n",algorithm=sha', False),
    ],
)
def test_a_challenge_of_another_mechanism_is_reported(challenge: bytes, is_ours: bool) -> None:
    """It has a nonce and the algorithm md5-sess, or it is not of DIGEST-MD5."""
    assert is_challenge(challenge) is is_ours


def test_a_user_does_not_show_the_password() -> None:
    """Not even where the object is printed."""
    assert "secret" not in repr(CHRIS)
