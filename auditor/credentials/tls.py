"""TLS contexts of clients and servers from PEM files, and why TLS failed, in one sentence.

A server's context is renewed when one of its files changes.

A peer may end a connection without saying why, or report every fault as CERTIFICATE_UNKNOWN, as
bookies with the JDK's TLS do. Therefore the dates of our own certificate are read here. An expired
one never stops us from connecting: a peer that asks for no certificate does not see ours.
"""

from __future__ import annotations

import base64
import re
import ssl
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from auditor.config.access import SecretSource, ServedTls, TlsFiles
from auditor.credentials.secret_reading import read_secret
from auditor.errors import ConfigError

PEM_BYTES_MAX = 2**20
"""Most bytes of a file that are read to find the certificate."""
_FIRST_CERTIFICATE = re.compile(
    rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+)-----END"
)
"""OpenSSL sends the first certificate of a file as ours. The others lead to its CA."""
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18
_FIELDS_BEFORE_VALIDITY = 3
"""Serial number, signature algorithm, issuer (RFC 5280, section 4.1)."""
_FIRST_YEAR_OF_1900 = 50
"""A two-digit year from this one on belongs to the last century (RFC 5280, section 4.1.2.5.1)."""


@dataclass(frozen=True, slots=True)
class CertificateDates:
    """When our certificate is valid. `name` is the setting that messages name."""

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
"""Stands for a certificate that is missing or cannot be decoded."""


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
    """Return the TLS error that made a library raise this error, or None."""
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
    certificates, such as a reset: trying again may help.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_our_refusal(error, what)
    if not isinstance(error, ssl.SSLError) or isinstance(
        error, ssl.SSLEOFError | ssl.SSLZeroReturnError
    ):
        return ""  # A restart also looks like the end of a connection without an alert.
    reason = (error.reason or str(error)).upper()
    return _explain_peer_refusal(reason, what, has_certificate=has_certificate, own_fault=own_fault)


def explain_lost_handshake(what: str, *, has_certificate: bool, own_fault: str = "") -> str:
    """Return what may have ended a connection during or after the handshake without an alert."""
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


def _explain_our_refusal(error: ssl.SSLCertVerificationError, what: str) -> str:
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


def _explain_peer_refusal(reason: str, what: str, *, has_certificate: bool, own_fault: str) -> str:
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


_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of a JKS and of a JCEKS key store."""
_DER_SEQUENCE = b"\x30"
"""The first byte of a PKCS12 key store, and of any other DER file."""
HEAD_BYTES = 4

CONTEXTS_KEPT_MAX = 8
"""How many contexts a process keeps: one for each peer, and some for earlier contents of their
files."""

CONVERT_CA = ("keytool -exportcert -rfc -alias ALIAS -keystore {path} > ca.pem",)
"""Converts a CA's certificate from a Java key store, JKS or PKCS12, to PEM."""
CONVERT_KEY = ("openssl pkcs12 -in {path} -nodes -out keys.pem",)
"""Converts a key and its certificates from a PKCS12 key store to PEM."""
CONVERT_JKS_KEY = (
    "keytool -importkeystore -srckeystore {path} -destkeystore keys.p12 -deststoretype PKCS12",
    "openssl pkcs12 -in keys.p12 -nodes -out keys.pem",
)
"""Converts a key and its certificates from a JKS key store to PEM."""


_contexts: dict[tuple[TlsFiles, tuple[tuple[int, int, int], ...]], ssl.SSLContext] = {}
"""The contexts made, by their files and what identifies the content of each."""
_one_at_a_time = threading.Lock()


def shared_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of `files`, the same one until a file changes. Raises ConfigError."""
    paths = [Path(path) for path in (files.ca, files.certificate, files.key) if path is not None]
    with _one_at_a_time:
        try:
            state = [path.stat() for path in paths]
        except OSError:
            return client_context(files)  # The error says what is wrong.
        key = files, tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in state)
        if key not in _contexts:
            context = client_context(files)
            if len(_contexts) >= CONTEXTS_KEPT_MAX:
                del _contexts[next(iter(_contexts))]
            _contexts[key] = context
        return _contexts[key]


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context that checks the peer's chain, and its name unless that is switched off.

    Takes TLS 1.2 and 1.3. Trusts the CAs of `files` alone, or the system's if it names none. Raises
    ConfigError, which says what to do. Costs some milliseconds.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 sets this flag by default. CAs made by keytool do not satisfy it.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = files.is_hostname_verified
    context.verify_mode = ssl.CERT_REQUIRED
    if files.ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_ca(context, files.ca, f"--{files.what}-tls-ca {files.ca}")
    if files.certificate is not None:
        flag = f"--{files.what}-tls"
        own = OwnCertificate(
            f"{flag}-certificate {files.certificate}",
            files.certificate,
            files.key,
            files.key_password,
            f"{flag}-key-password-file FILE",
        )
        _load_certificate(context, own)
    return context


@dataclass(frozen=True, slots=True)
class OwnCertificate:
    """A certificate and its key. `name` and `password_name` are the settings that messages name.

    Without `key`, the key is in the certificate's file.
    """

    name: str
    certificate: str
    key: str | None
    key_password: SecretSource | None
    password_name: str


def _load_ca(context: ssl.SSLContext, path: str, name: str) -> None:
    """Trust the CAs in a PEM file. Raises ConfigError, which begins with `name`."""
    _refuse_key_store(path, name, CONVERT_CA, CONVERT_CA)
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{name} has no certificate in PEM form ({_reason(error)})") from None


def _load_certificate(context: ssl.SSLContext, own: OwnCertificate) -> None:
    """Load a certificate and its key from PEM files. Raises ConfigError."""
    for path in filter(None, (own.certificate, own.key)):
        _refuse_key_store(path, own.name, CONVERT_JKS_KEY, CONVERT_KEY)
    password = "" if own.key_password is None else read_secret(own.key_password)
    try:
        # Without this, OpenSSL would ask for the password of an encrypted key on the terminal.
        context.load_cert_chain(own.certificate, own.key, lambda: password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(f"{own.name} cannot be used: {_why_unusable(error, own)}") from None


def _why_unusable(error: Exception, own: OwnCertificate) -> str:
    reason = _reason(error)
    key = own.key or own.certificate
    if reason == "KEY_VALUES_MISMATCH":
        return f"the key in {key} is that of another certificate"
    if "ENCRYPTED" in _text_of(key):
        given = (
            "the password given is not that of" if own.key_password else "no password is given for"
        )
        return f"{given} the key in {key} ({own.password_name})"
    return (
        f"{own.certificate} and {key} must have a certificate and its private key in PEM form"
        f" ({reason})"
    )


def _text_of(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(PEM_BYTES_MAX).decode("ascii", "replace")
    except OSError:
        return ""


def _refuse_key_store(
    path: str, name: str, of_jks: tuple[str, ...], of_pkcs12: tuple[str, ...]
) -> None:
    """Raise ConfigError if the file cannot be read, or is a key store of Java.

    The error has the lines that convert it: `of_jks` or `of_pkcs12`.
    """
    try:
        with Path(path).open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise ConfigError(f"{name}: {path} cannot be read: {error.strerror or error}") from None
    lines = of_jks if head in _JKS_MAGIC else of_pkcs12 if head.startswith(_DER_SEQUENCE) else ()
    if lines:
        kind = "JKS" if head in _JKS_MAGIC else "PKCS12"
        convert = "; ".join(line.format(path=path) for line in lines)
        raise ConfigError(
            f"{name}: {path} is a {kind} key store, and PEM is needed. Convert it: {convert}"
        )


def _reason(error: Exception) -> str:
    return (
        getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    ).strip()


def server_context(files: ServedTls) -> ssl.SSLContext:
    """Return a context that shows our certificate, and requires one of clients if `files` says so.

    Accepts TLS 1.2 and 1.3. Raises ConfigError, which says what to do. Costs some milliseconds.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 sets this flag by default. CAs made by keytool do not satisfy it.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    _load_certificate(
        context,
        OwnCertificate(
            files.certificate_name,
            files.certificate,
            files.key,
            files.key_password,
            files.password_name,
        ),
    )
    if files.client_ca is not None:
        _load_ca(context, files.client_ca, files.client_ca_name)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class RenewedContext:
    """The context of these files. New connections use a renewed certificate."""

    def __init__(self, files: ServedTls) -> None:
        """Load the files. Raises ConfigError if they cannot be used."""
        self._files = files
        self._state = self._state_of_files()
        self._context = server_context(files)

    def current(self) -> ssl.SSLContext:
        """Return the context of the files as they are now. Raises ConfigError if they became
        unusable.

        Costs a stat of each file, and reads all of them if one has changed.
        """
        state = self._state_of_files()
        if state != self._state:
            self._context = server_context(self._files)
            self._state = state
        return self._context

    def _state_of_files(self) -> tuple[tuple[int, int, int], ...]:
        """Return what identifies the content of each file. Raises ConfigError if one is gone."""
        files = self._files
        paths = [path for path in (files.certificate, files.key, files.client_ca) if path]
        found = []
        for path in paths:
            try:
                state = Path(path).stat()
            except OSError as error:
                raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
            found.append((state.st_ino, state.st_size, state.st_mtime_ns))
        return tuple(found)
