"""A library `gssapi` that gives the tickets and the errors that a test wants, without a KDC.

    with_ticket = ScriptedGssapi()                     # as with a valid ticket for every server
    without = ScriptedGssapi(no_credentials=kdc(6))    # the KDC does not know our principal
    monkeypatch.setitem(sys.modules, "gssapi", without)

Only what `auditor.credentials.kerberos` calls is there.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

TABLE_OF_KRB5 = -1765328384
"""ERROR_TABLE_BASE_krb5: what errors of a KDC (RFC 4120) are counted from."""
FAILURE = 13 << 16
"""GSS_S_FAILURE, a major status."""
OFFERS_NO_LAYER = b"\x01\0\0\0"
"""The bookie's offer that ends a login: no security layer."""


def kdc(code: int) -> int:
    """Return the minor status for an error of a KDC or of the Kerberos library."""
    return TABLE_OF_KRB5 + code


class GSSError(Exception):
    """An error as the library raises it: its minor status is unsigned."""

    def __init__(self, minor: int) -> None:
        super().__init__(minor)
        self.maj_code, self.min_code = FAILURE, minor % 2**32

    def get_all_statuses(self, code: int, is_major: bool) -> list[str]:
        return [f"status {code}"]


class ScriptedGssapi(ModuleType):
    """`no_credentials`, `no_ticket` and `no_proof` are minor statuses of errors: of our own ticket
    or key, of the ticket for a server, and of what the server answers to it.
    """

    def __init__(
        self,
        *,
        no_credentials: int | None = None,
        no_ticket: int | None = None,
        no_proof: int | None = None,
    ) -> None:
        super().__init__("gssapi")
        self._no_credentials, self._no_ticket, self._no_proof = no_credentials, no_ticket, no_proof
        self.exceptions = SimpleNamespace(GSSError=GSSError)
        self.RequirementFlag = SimpleNamespace(mutual_authentication=1, integrity=2)
        self.NameType = SimpleNamespace(hostbased_service=1, kerberos_principal=2)
        self.MechType = SimpleNamespace(kerberos=1)

    def Name(self, name: str, kind: int) -> str:
        return name

    def Credentials(self, **given: Any) -> object:
        _raise(self._no_credentials)
        return object()

    def SecurityContext(self, **given: Any) -> _Context:
        return _Context(self._no_ticket, self._no_proof)


class _Context:
    """Our half of one login."""

    def __init__(self, no_ticket: int | None, no_proof: int | None) -> None:
        self._no_ticket, self._no_proof = no_ticket, no_proof
        self.complete = False

    def step(self, token: bytes | None = None) -> bytes:
        if token is None:
            _raise(self._no_ticket)
            return b"a ticket"
        _raise(self._no_proof)
        self.complete = True
        return b""

    def unwrap(self, token: bytes) -> SimpleNamespace:
        return SimpleNamespace(message=token)

    def wrap(self, message: bytes, *, encrypt: bool) -> SimpleNamespace:
        return SimpleNamespace(message=message)


def _raise(minor: int | None) -> None:
    if minor is not None:
        raise GSSError(minor)
