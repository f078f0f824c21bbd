"""The sentence for each way in which Kerberos gives no ticket."""

from __future__ import annotations

import pytest

from auditor.config.access import KerberosLogin
from auditor.credentials.kerberos import GssStatus, explain_kerberos_failure, is_kdc_away

CACHE = KerberosLogin("bookie", "bookkeeper")
KEYTAB = KerberosLogin("bookie", "bookkeeper", keytab="/a.keytab", principal="me")
NO_CREDENTIALS, FAILURE, EXPIRED = 7 << 16, 13 << 16, 11 << 16
BASE = -1765328384


def explain(login: KerberosLogin, major: int, minor: int, message: str = "") -> str:
    return explain_kerberos_failure(GssStatus(major, minor % 2**32, message), login, "b1.example")


@pytest.mark.parametrize(
    ("minor", "word"),
    [
        (BASE + 1, "has expired"),
        (BASE + 6, "does not know our principal"),
        (BASE + 14, "no encryption type in common|have no encryption type"),
        (BASE + 18, "has locked our principal"),
        (BASE + 23, "or it or its key has expired"),
        (BASE + 24, "refused our key: it was changed after /a.keytab was made"),
        (BASE + 31, "refused our key"),
        (BASE + 33, "clocks of this machine and of the KDC differ"),
        (BASE + 37, "clocks of this machine and of the KDC differ"),
        (BASE + 29, "the KDC of the realm cannot serve now"),
        (BASE + 132, "no KDC of the realm was found"),
        (BASE + 148, "clocks of this machine and of the KDC differ"),
        (BASE + 154, "no KDC of the realm was found"),
        (BASE + 156, "no KDC of the realm answered"),
        (BASE + 181, "/a.keytab cannot be read as a key tab"),
        (BASE + 213, "/a.keytab cannot be read as a key tab"),
        (BASE + 224, "krb5.conf on this machine names no default realm"),
        (2, "/a.keytab cannot be read as a key tab"),
        (39756033, "/a.keytab has no key of me: give another --bookie-sasl-principal"),
        (12345, "Kerberos gave no ticket"),
    ],
)
def test_each_code_has_its_word(minor: int, word: str) -> None:
    """A code has the same words as an unsigned number, as the library gives it, and as a signed
    one, as the tables have it.
    """
    said = explain(KEYTAB, NO_CREDENTIALS, minor)
    assert any(part in said for part in word.split("|")), said
    signed = explain_kerberos_failure(GssStatus(NO_CREDENTIALS, minor, ""), KEYTAB, "b1.example")
    assert signed == said


def test_a_kdc_that_said_neither_yes_nor_no_is_away() -> None:
    """Of all errors of a KDC and of the library (RFC 4120, krb5_err.et), only these four may be
    over at the next try.
    """
    statuses = {code: GssStatus(FAILURE, (BASE + code) % 2**32, "") for code in range(256)}
    assert [code for code, one in statuses.items() if is_kdc_away(one)] == [29, 132, 154, 156]
    assert not is_kdc_away(GssStatus(FAILURE, 29, ""))
    assert not is_kdc_away(GssStatus(EXPIRED, 0, ""))


@pytest.mark.parametrize("minor", [BASE + 141, BASE + 142, BASE + 195, 39756044, 2, 13])
def test_a_missing_ticket_is_a_missing_ticket_only_without_a_key_tab(minor: int) -> None:
    """With a key tab, ENOENT means that the key tab is missing."""
    assert "there is no Kerberos ticket in the default ticket cache: run kinit" in explain(
        CACHE, NO_CREDENTIALS, minor
    )
    assert "there is no Kerberos ticket in" not in explain(KEYTAB, NO_CREDENTIALS, minor)


def test_the_ticket_cache_is_named() -> None:
    """The error has the flag of the peer that the login is for."""
    login = KerberosLogin("zookeeper", "zookeeper", principal="me", ticket_cache="/tmp/cc")
    said = explain(login, NO_CREDENTIALS, BASE + 195)
    assert "in /tmp/cc: run kinit, or give --zookeeper-sasl-keytab FILE" in said
    assert "/tmp/cc has no ticket of me" in explain(login, NO_CREDENTIALS, 39756032)


@pytest.mark.parametrize(("major", "minor"), [(EXPIRED, 0), (FAILURE, BASE + 32)])
def test_either_code_means_an_expired_ticket(major: int, minor: int) -> None:
    """The library sees it in the ticket, or in the answer of the KDC."""
    for login in (CACHE, KEYTAB):
        assert "our Kerberos ticket has expired" in explain(login, major, minor)
    assert "run kinit, or give --bookie-sasl-keytab FILE" in explain(CACHE, major, minor)
    assert "--bookie-sasl-keytab" not in explain(KEYTAB, major, minor)
    assert "expired" not in explain(CACHE, FAILURE, 0)


def test_an_unknown_server_is_named_as_it_was_asked_for() -> None:
    """The name shows the host and the service, of which one is wrong."""
    said = explain(CACHE, FAILURE, BASE + 7, "Server x not found in Kerberos database")
    assert "the KDC knows no principal bookkeeper/b1.example" in said
    assert "--bookie-sasl-service" in said
    assert said.endswith("(Server x not found in Kerberos database)")
