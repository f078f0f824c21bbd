"""Why TLS failed, in a sentence that says what to do."""

from __future__ import annotations

import ssl

import pytest

from auditor.credentials.tls import explain_lost_handshake, explain_tls_failure, find_tls_error


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


@pytest.mark.parametrize(
    "reason",
    [
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "TLSV1_ALERT_UNKNOWN_CA",
    ],
)
def test_a_fault_that_we_see_ourselves_goes_before_the_alert(reason: str) -> None:
    """The JDK's TLS says CERTIFICATE_UNKNOWN of a certificate that has expired."""
    said = explain_tls_failure(
        refused_by_peer(reason), "bookie", has_certificate=True, own_fault="our own is too old"
    )
    assert said == f"it refused us ({reason}), and our own is too old"


@pytest.mark.parametrize("reason", ["WRONG_VERSION_NUMBER", "NO_PROTOCOLS_AVAILABLE"])
def test_what_is_not_about_our_certificate_is_not_put_down_to_it(reason: str) -> None:
    """Nor is a certificate of theirs that we do not accept."""
    for error in (refused_by_peer(reason), refused_by_us(10, "certificate has expired")):
        said = explain_tls_failure(error, "bookie", has_certificate=True, own_fault="our own")
        assert "our own" not in said


@pytest.mark.parametrize(
    ("has_certificate", "own_fault", "said"),
    [
        (False, "", "as with a peer that wants a client certificate: give --bookie-tls-certif"),
        (True, "", "as with a peer that refused our certificate: --bookie-tls-certificate must"),
        (True, "our own is too old", "and our own is too old"),
    ],
)
def test_a_connection_that_is_lost_in_the_handshake_has_a_likely_reason(
    has_certificate: bool, own_fault: str, said: str
) -> None:
    """The reset of a peer with TLS 1.3 can overtake its alert."""
    assert explain_lost_handshake(
        "bookie", has_certificate=has_certificate, own_fault=own_fault
    ).startswith(said)


def test_the_tls_error_behind_others_is_found() -> None:
    """Libraries raise their own errors because of it, or while they handle it."""
    alert, caused, in_context = refused_by_peer("UNKNOWN_CA"), OSError(), ValueError()
    caused.__cause__, in_context.__context__ = alert, caused
    assert find_tls_error(in_context) is alert
    assert find_tls_error(OSError()) is None
