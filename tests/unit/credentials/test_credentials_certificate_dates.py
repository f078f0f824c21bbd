"""When our own certificate is valid, and what is said when it is not."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.pki import Pki

from auditor.config.access import BookieAccess, TlsFiles, ZooKeeperAccess
from auditor.credentials.checking import certificates_out_of_date, check_credentials
from auditor.credentials.tls import (
    ALWAYS_VALID,
    CertificateDates,
    read_certificate_dates,
    shared_context,
)

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


def files(certificate: Path | str, key: Path | None = None, what: str = "bookie") -> TlsFiles:
    return TlsFiles(what, certificate=str(certificate), key=None if key is None else str(key))


def test_both_dates_count_to_the_second() -> None:
    """A certificate is valid at its notBefore and at its notAfter (RFC 5280)."""
    dates = CertificateDates("--bookie-tls-certificate a.pem", NOW, NOW + SECOND)
    assert [dates.fault_at(NOW), dates.fault_at(NOW + SECOND)] == ["", ""]
    assert dates.fault_at(NOW + 2 * SECOND) == (
        "our certificate has expired: it was valid until 2026-11-26 12:00:01 UTC; renew"
        " --bookie-tls-certificate a.pem"
    )
    assert dates.fault_at(NOW - SECOND) == (
        "our certificate is not valid yet: it is valid from 2026-11-26 12:00:00 UTC; check the"
        " clock of this machine, or give another --bookie-tls-certificate a.pem"
    )


@pytest.mark.parametrize("is_behind_a_key", [False, True])
def test_the_dates_of_the_first_certificate_are_read(
    pki: Pki, tmp_path: Path, is_behind_a_key: bool
) -> None:
    """The file may begin with the key, and the certificates of CAs may follow."""
    ours = pki.issue("old", is_expired=True)
    chain = tmp_path / "chain.pem"
    parts = [ours.key] * is_behind_a_key + [ours.certificate, pki.ca()]
    chain.write_text("".join(part.read_text() for part in parts))
    assert read_certificate_dates(files(chain)) == CertificateDates(
        f"--bookie-tls-certificate {chain}",
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime(2020, 1, 2, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("tag", "text", "year"),
    [
        (0x17, b"491231235959Z", 2049),
        (0x17, b"500101000000Z", 1950),
        (0x18, b"99991231235959Z", 9999),
    ],
)
def test_both_forms_of_a_date_are_read(tmp_path: Path, tag: int, text: bytes, year: int) -> None:
    """Years until 2049 have two digits, later ones four, and 9999 means no end."""
    not_after = element(tag, text)
    validity = element(0x30, element(0x17, b"200101000000Z") + not_after)
    for version in (b"", element(0xA0, element(2, b"\2"))):
        signed = element(0x30, version + 3 * element(0x30, b"x" * 200) + validity)
        dates = read_certificate_dates(files(pem(tmp_path, element(0x30, signed))))
        assert (dates.not_before.year, dates.not_after.year) == (2020, year)


def element(tag: int, content: bytes) -> bytes:
    """Return a DER element. Lengths from 128 on have two bytes here."""
    size = len(content)
    length = bytes([size]) if size < 0x80 else bytes([0x82]) + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


def pem(folder: Path, der: bytes) -> Path:
    path = folder / "made.pem"
    path.write_bytes(
        b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"
    )
    return path


def test_a_certificate_that_cannot_be_decoded_is_no_fault(pki: Pki, tmp_path: Path) -> None:
    """Whether it can be used is for OpenSSL to say: a certificate that works is never accused."""
    der = base64.b64decode("".join(pki.issue("cut").certificate.read_text().split("\n")[1:-2]))
    for end in range(0, 200, 7):
        assert read_certificate_dates(files(pem(tmp_path, der[:end]))) == ALWAYS_VALID
    for broken in ("no PEM", "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n"):
        (tmp_path / "broken").write_text(broken)
        assert read_certificate_dates(files(tmp_path / "broken")) == ALWAYS_VALID
    assert read_certificate_dates(files("/no/such/file")) == ALWAYS_VALID
    assert read_certificate_dates(TlsFiles("bookie")) == ALWAYS_VALID
    assert ALWAYS_VALID.fault_at(NOW) == ""


def test_a_certificate_that_has_expired_is_a_warning_and_can_be_used(pki: Pki) -> None:
    """A server that asks for no certificate never sees it. Each file is named once."""
    old, good = pki.issue("old", is_expired=True), pki.issue("good")
    expired, limits_of_lister = files(old.certificate, old.key), files(old.certificate, old.key)
    bookie = BookieAccess(expired, lister_tls=limits_of_lister)
    zookeeper = ZooKeeperAccess(files(old.certificate, old.key, "zookeeper"))
    check_credentials(bookie, zookeeper)
    shared_context(expired)
    faults = certificates_out_of_date(bookie, zookeeper, NOW)
    assert [("our certificate has expired" in one) for one in faults] == [True, True]
    assert [
        f"{one}-tls-certificate {old.certificate}" in said
        for one, said in zip(("--bookie", "--zookeeper"), faults, strict=True)
    ] == [True, True]
    fine = BookieAccess(files(good.certificate, good.key))
    assert certificates_out_of_date(fine, ZooKeeperAccess(), datetime.now(UTC)) == []
    assert certificates_out_of_date(BookieAccess(), ZooKeeperAccess(), NOW) == []
