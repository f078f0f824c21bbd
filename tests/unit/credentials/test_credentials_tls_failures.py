"""Why TLS failed, in a sentence that says what to do."""

from __future__ import annotations

import ssl

import pytest

from auditor.credentials.tls_failures import explain_tls_failure


def refused_by_us(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, message)
    error.verify_code, error.verify_message = code, message
    return error


def refused_by_peer(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("code", "message", "said"),
    [
        (10, "certificate has expired", "its certificate has expired"),
        (9, "certificate is not yet valid", "is not valid yet: compare the clocks"),
        (23, "certificate revoked", "was revoked"),
        (18, "self-signed certificate", "not from a CA in --bookie-tls-ca"),
        (20, "unable to get local issuer certificate", "not from a CA in --bookie-tls-ca"),
        (62, "Hostname mismatch", "--bookie-tls-hostname-verification off"),
        (64, "IP address mismatch", "is for another name (IP address mismatch)"),
        (26, "unsuitable certificate purpose", "was not accepted: unsuitable certificate purpose"),
    ],
)
def test_each_reason_to_refuse_a_certificate_has_its_sentence(
    code: int, message: str, said: str
) -> None:
    """OpenSSL's number gives the reason."""
    assert said in explain_tls_failure(refused_by_us(code, message), "bookie", has_certificate=True)


@pytest.mark.parametrize(
    ("reason", "has_certificate", "said"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", False, "it wants a client certificate"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", False, "it wants a client certificate"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", True, "it refused our certificate"),
        ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", True, "it refused our certificate"),
        ("TLSV1_ALERT_UNKNOWN_CA", True, "it refused our certificate"),
        ("TLSV1_ALERT_INTERNAL_ERROR", True, "it refused our certificate"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", False, "as one does that wants a client certificate"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", True, "our certificate has expired"),
        ("WRONG_VERSION_NUMBER", True, "does not speak TLS"),
        ("NO_PROTOCOLS_AVAILABLE", True, "the handshake failed (NO_PROTOCOLS_AVAILABLE)"),
    ],
)
def test_each_alert_has_its_sentence(reason: str, has_certificate: bool, said: str) -> None:
    """The alerts are those of bookies with JDK or OpenSSL. A missing certificate is distinguished
    from a wrong one.
    """
    assert said in explain_tls_failure(
        refused_by_peer(reason), "zookeeper", has_certificate=has_certificate
    )


@pytest.mark.parametrize(
    "error", [ConnectionResetError(104, "reset"), TimeoutError(), ssl.SSLEOFError(8, "EOF")]
)
def test_what_may_pass_is_not_explained(error: Exception) -> None:
    """The next try may succeed."""
    assert explain_tls_failure(error, "bookie", has_certificate=True) == ""
