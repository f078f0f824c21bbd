"""Explain in one sentence why a TLS connection failed, and whether to try again."""

from __future__ import annotations

import ssl
from typing import Final

_EXPIRED, _NOT_YET_VALID, _REVOKED = 10, 9, 23
_UNKNOWN_CA = frozenset({2, 18, 19, 20, 21})
_OTHER_NAME = frozenset({62, 64})
"""X509_V_ERR_* of OpenSSL."""

_CLIENT_EXPIRED: Final = "CERTIFICATE_EXPIRED"
_CLIENT_MISSING: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE")
_CLIENT_REFUSED: Final = (
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "UNSUPPORTED_CERTIFICATE",
    "CERTIFICATE_REVOKED",
    "ACCESS_DENIED",
    "HANDSHAKE_FAILURE",
    "INTERNAL_ERROR",
    "DECRYPT_ERROR",
)
_NOT_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "UNKNOWN_PROTOCOL",
    "HTTP_REQUEST",
    "RECORD_LAYER_FAILURE",
)


def find_tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """Return the TLS error behind an error that a library raised because of it, or None."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None


def explain_tls_failure(
    error: BaseException, what: str, *, has_certificate: bool, own_fault: str = ""
) -> str:
    """Return why TLS with a peer failed, as the end of a sentence, with what to do.

    `what` is the prefix of the settings: bookie or zookeeper. `own_fault` says why our certificate
    is not valid now, if it is not: few peers say so. Returns "" for an error that is not about
    certificates, such as a reset: it may pass, and trying again may help.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _refused_by_us(error, what)
    if not isinstance(error, ssl.SSLError) or isinstance(
        error, ssl.SSLEOFError | ssl.SSLZeroReturnError
    ):
        return ""  # A restart also looks like the end of a connection without an alert.
    reason = (error.reason or str(error)).upper()
    return _refused_by_peer(reason, what, has_certificate=has_certificate, own_fault=own_fault)


def explain_lost_handshake(what: str, *, has_certificate: bool, own_fault: str = "") -> str:
    """Return what may have ended a connection in or after the handshake without an alert."""
    certificate = f"--{what}-tls-certificate"
    if own_fault:
        return f"and {own_fault}"
    if has_certificate:
        return (
            f"as with a peer that refused our certificate: {certificate} must be from a CA that it"
            " trusts"
        )
    return (
        f"as with a peer that wants a client certificate: give {certificate} and --{what}-tls-key"
    )


def _refused_by_us(error: ssl.SSLCertVerificationError, what: str) -> str:
    code, ca = error.verify_code, f"--{what}-tls-ca"
    if code == _EXPIRED:
        return "its certificate has expired: renew it there"
    if code == _NOT_YET_VALID:
        return "its certificate is not valid yet: compare the clocks"
    if code == _REVOKED:
        return "its certificate was revoked"
    if code in _UNKNOWN_CA:
        return (
            f"its certificate is not from a CA in {ca} ({error.verify_message}): give the CA that"
            " signed it"
        )
    if code in _OTHER_NAME or "match" in (error.verify_message or str(error)).lower():
        return (
            f"its certificate is for another name ({error.verify_message}): put the name into the"
            f" certificate (subjectAltName), or set --{what}-tls-hostname-verification off, which"
            " still checks the CA"
        )
    return f"its certificate was not accepted: {error.verify_message or error}"


def _refused_by_peer(reason: str, what: str, *, has_certificate: bool, own_fault: str) -> str:
    certificate = f"--{what}-tls-certificate"
    if any(word in reason for word in _NOT_TLS):
        return "it does not speak TLS at this port"
    is_about_ours = any(
        word in reason for word in (_CLIENT_EXPIRED, *_CLIENT_MISSING, *_CLIENT_REFUSED)
    )
    if own_fault and is_about_ours:
        return f"it refused us ({reason}), and {own_fault}"
    if _CLIENT_EXPIRED in reason:
        return f"it says that our certificate has expired ({reason}): renew {certificate}"
    if any(word in reason for word in _CLIENT_MISSING) and not has_certificate:
        return f"it wants a client certificate ({reason}): give {certificate} and --{what}-tls-key"
    if is_about_ours:
        if has_certificate:
            return (
                f"it refused our certificate ({reason}): {certificate} must be valid and from a CA"
                " that it trusts"
            )
        return (
            f"it ended the handshake ({reason}), as one does that wants a client certificate: give"
            f" {certificate}"
        )
    return f"the handshake failed ({reason})"
