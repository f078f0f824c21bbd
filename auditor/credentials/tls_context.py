"""Make the TLS context of a client from PEM files, and say what is wrong with such files."""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

from auditor.config.access import SecretSource, TlsFiles
from auditor.credentials.secret_reading import read_secret
from auditor.errors import ConfigError

_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of a JKS and of a JCEKS key store."""
_DER_SEQUENCE = b"\x30"
"""The first byte of a PKCS12 key store, and of any other DER file."""
HEAD_BYTES = 4
PEM_BYTES_MAX = 2**20
"""Largest PEM file read, in bytes. A bundle of all public CAs has a quarter of it."""

CONTEXTS_KEPT_MAX = 8
"""How many contexts a process keeps: one for each peer, and some whose files have changed since."""

CONVERT_CA = ("keytool -exportcert -rfc -alias ALIAS -keystore {path} > ca.pem",)
"""Makes PEM of the certificate of a CA in a key store of Java, JKS or PKCS12."""
CONVERT_KEY = ("openssl pkcs12 -in {path} -nodes -out keys.pem",)
"""Makes PEM of a key and its certificates in a PKCS12 key store."""
CONVERT_JKS_KEY = (
    "keytool -importkeystore -srckeystore {path} -destkeystore keys.p12 -deststoretype PKCS12",
    "openssl pkcs12 -in keys.p12 -nodes -out keys.pem",
)
"""The same for a JKS key store."""


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
            return client_context(files)  # It says what is wrong.
        key = files, tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in state)
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
    # Python 3.13 sets this by default. CAs made by keytool lack what it demands.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = files.is_hostname_verified
    context.verify_mode = ssl.CERT_REQUIRED
    if files.ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        load_ca(context, files.ca, f"--{files.what}-tls-ca {files.ca}")
    if files.certificate is not None:
        flag = f"--{files.what}-tls"
        own = OwnCertificate(
            f"{flag}-certificate {files.certificate}",
            files.certificate,
            files.key,
            files.key_password,
            f"{flag}-key-password-file FILE",
        )
        load_certificate(context, own)
    return context


@dataclass(frozen=True, slots=True)
class OwnCertificate:
    """A certificate and its key. `name` and `password_name` say in messages where they are set.

    Without `key` the key is in the file of the certificate.
    """

    name: str
    certificate: str
    key: str | None
    key_password: SecretSource | None
    password_name: str


def load_ca(context: ssl.SSLContext, path: str, name: str) -> None:
    """Trust the CAs in a PEM file. Raises ConfigError, which begins with `name`."""
    _refuse_key_store(path, name, CONVERT_CA, CONVERT_CA)
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{name} has no certificate in PEM form ({_reason(error)})") from None


def load_certificate(context: ssl.SSLContext, own: OwnCertificate) -> None:
    """Load a certificate and its key from PEM files. Raises ConfigError."""
    for path in filter(None, (own.certificate, own.key)):
        _refuse_key_store(path, own.name, CONVERT_JKS_KEY, CONVERT_KEY)
    password = "" if own.key_password is None else read_secret(own.key_password)
    try:
        # Without a password OpenSSL would ask on the terminal for that of an encrypted key.
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
