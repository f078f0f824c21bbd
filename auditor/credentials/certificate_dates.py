"""Read from when to when our own certificate is valid, and say so if it is not valid now.

A peer may end a connection without saying why, or call each fault CERTIFICATE_UNKNOWN, as bookies
with the JDK's TLS do. That our certificate has expired is therefore seen here. It is never a reason
not to connect: a peer that asks for no certificate does not see ours.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from auditor.config.access import TlsFiles

PEM_BYTES_MAX = 2**20
"""Most that is read of a file to find the certificate, in bytes."""
_FIRST_CERTIFICATE = re.compile(
    rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+)-----END"
)
"""OpenSSL sends the first certificate of a file as ours. The others lead to its CA."""
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18
_FIELDS_BEFORE_VALIDITY = 3
"""Serial number, signature algorithm, issuer (RFC 5280, section 4.1)."""
_FIRST_YEAR_OF_1900 = 50
"""A year of two digits from this one on is of the last century (RFC 5280, section 4.1.2.5.1)."""


@dataclass(frozen=True, slots=True)
class CertificateDates:
    """When our certificate is valid. `name` says in messages where it is set."""

    name: str
    not_before: datetime
    not_after: datetime

    def fault_at(self, moment: datetime) -> str:
        """Return why the certificate is not valid at `moment` and what to do, or ""."""
        if moment > self.not_after:
            return (
                "our certificate has expired: it was valid until"
                f" {self.not_after:%Y-%m-%d %H:%M:%S} UTC; renew {self.name}"
            )
        if moment < self.not_before:
            return (
                "our certificate is not valid yet: it is valid from"
                f" {self.not_before:%Y-%m-%d %H:%M:%S} UTC; check the clock of this machine, or"
                f" give another {self.name}"
            )
        return ""


ALWAYS_VALID = CertificateDates(
    "", datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
)
"""Stands for a certificate that does not exist or cannot be decoded."""


def read_certificate_dates(files: TlsFiles | None) -> CertificateDates:
    """Return the dates of our certificate, or ALWAYS_VALID."""
    if files is None or files.certificate is None:
        return ALWAYS_VALID
    try:
        with Path(files.certificate).open("rb") as file:
            found = _FIRST_CERTIFICATE.search(file.read(PEM_BYTES_MAX))
        if found is None:
            return ALWAYS_VALID
        not_before, not_after = _decode_validity(base64.b64decode(found[1]))
    except (OSError, ValueError, IndexError):
        return ALWAYS_VALID
    name = f"--{files.what}-tls-certificate {files.certificate}"
    return CertificateDates(name, not_before, not_after)


def _decode_validity(der: bytes) -> tuple[datetime, datetime]:
    """Return notBefore and notAfter. Raises ValueError or IndexError."""
    _, certificate, _ = _read_element(der, 0)
    _, signed_part, _ = _read_element(certificate, 0)
    tag, _, behind_version = _read_element(signed_part, 0)
    at = behind_version if tag == _VERSION else 0
    for _ in range(_FIELDS_BEFORE_VALIDITY):
        _, _, at = _read_element(signed_part, at)
    _, validity, _ = _read_element(signed_part, at)
    tag, not_before, at = _read_element(validity, 0)
    last_tag, not_after, _ = _read_element(validity, at)
    return _decode_time(tag, not_before), _decode_time(last_tag, not_after)


def _read_element(der: bytes, at: int) -> tuple[int, bytes, int]:
    """Return the tag and the content of the element at this offset, and the offset behind it."""
    tag, length, at = der[at], der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, at = int.from_bytes(der[at : at + size], "big"), at + size
    if at + length > len(der):
        raise ValueError("the element is cut off")
    return tag, der[at : at + length], at + length


def _decode_time(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= _FIRST_YEAR_OF_1900 else "20") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError(f"tag {tag} is not that of a time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
