"""The TLS of a server: its context, renewed when one of its files changes."""

from __future__ import annotations

import ssl
from pathlib import Path

from auditor.config.access import ServedTls
from auditor.credentials.tls_context import OwnCertificate, load_ca, load_certificate
from auditor.errors import ConfigError


def server_context(files: ServedTls) -> ssl.SSLContext:
    """Return a context that shows our certificate, and requires one of clients if `files` says so.

    Accepts TLS 1.2 and 1.3. Raises ConfigError, which says what to do. Costs some milliseconds.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 sets this by default. CAs made by keytool lack what it demands.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    load_certificate(
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
        load_ca(context, files.client_ca, files.client_ca_name)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class RenewedContext:
    """The context of these files. A renewed certificate is used from the next connection on."""

    def __init__(self, files: ServedTls) -> None:
        """Load the files. Raises ConfigError if they cannot be used."""
        self._files = files
        self._state = self._state_of_files()
        self._context = server_context(files)

    def current(self) -> ssl.SSLContext:
        """Return the context of the files as they are now. Raises ConfigError if they went bad.

        Reads the disk: a stat of each file, and all of them if one has changed.
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
