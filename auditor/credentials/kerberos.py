"""Our Kerberos ticket, and the exchange of SASL GSSAPI with one server. The only home of `gssapi`.

libkrb5 asks the KDC by itself, as the machine's krb5.conf says. It releases Python's lock
meanwhile, and gives up by itself: a silent KDC costs some 25 s. If we get no ticket, one sentence
says why, what to do, and whether a later try may succeed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from auditor.config.access import KerberosLogin
from auditor.errors import ConfigError, KdcUnreachable

_BASE = -1765328384
"""ERROR_TABLE_BASE_krb5: errors of a KDC (RFC 4120) and of the library are counted from here."""
_CLIENT_EXPIRED, _CLIENT_UNKNOWN, _SERVER_UNKNOWN, _ETYPE, _NOT_SERVING = 1, 6, 7, 14, 29
_REVOKED, _KEY_EXPIRED, _PREAUTH_FAILED, _BAD_INTEGRITY = 18, 23, 24, 31
_TICKET_EXPIRED, _NOT_YET_VALID, _SKEW, _SKEW_OF_REPLY = 32, 33, 37, 148
_REALM_NOT_RESOLVED, _REALM_UNKNOWN, _KDC_UNREACHABLE, _NO_REALM = 132, 154, 156, 224
_KDC_AWAY = frozenset({_NOT_SERVING, _REALM_NOT_RESOLVED, _REALM_UNKNOWN, _KDC_UNREACHABLE})
"""No KDC could be reached. If DNS does not answer, the code is _REALM_UNKNOWN instead: libkrb5 then
knows no KDC."""
_NO_CACHE = frozenset({141, 142, 195})
_NO_KEYTAB = frozenset({181, 213})
_NO_SUCH_KEY, _OTHER_CACHE, _EMPTY_CACHE = 39756033, 39756032, 39756044
"""Codes of the GSSAPI library (ggss): a key tab or a cache without the principal, or an empty
cache."""
_FILE_ERRORS = frozenset({2, 13, 21})
"""ENOENT, EACCES, EISDIR."""
_CREDENTIALS_EXPIRED = 11 << 16
"""GSS_S_CREDENTIALS_EXPIRED, a major status."""


@dataclass(frozen=True, slots=True)
class GssStatus:
    """A failure as GSSAPI reports it: the two codes, and the library's text for the minor one."""

    major: int
    minor: int
    message: str


def explain_kerberos_failure(status: GssStatus, login: KerberosLogin, host: str) -> str:
    """Return why there is no ticket for the server at `host`, as a sentence with what to do."""
    minor = _as_signed(status.minor)
    sentence = (
        _explain_cache(status, minor, login)
        or _explain_key_tab(minor, login)
        or _explain_server(minor, login, host)
        or "Kerberos gave no ticket"
    )
    return f"{sentence} ({status.message})" if status.message else sentence


def is_kdc_away(status: GssStatus) -> bool:
    """Return whether no KDC was found, answered or could serve: a later try may succeed."""
    return _as_signed(status.minor) - _BASE in _KDC_AWAY


def is_expired(status: GssStatus) -> bool:
    """Return whether our ticket has expired."""
    code = _as_signed(status.minor) - _BASE
    return code == _TICKET_EXPIRED or status.major == _CREDENTIALS_EXPIRED


def _as_signed(minor: int) -> int:
    """Return a minor status as a signed number, as in Kerberos' tables. C has it unsigned."""
    return (minor + 2**31) % 2**32 - 2**31


def _explain_cache(status: GssStatus, minor: int, login: KerberosLogin) -> str:
    cache = login.ticket_cache or "the default ticket cache"
    flags = f"run kinit, or give --{login.what}-sasl-keytab FILE"
    code = minor - _BASE
    if is_expired(status):
        # With a key tab, the library renews the ticket: only a wrong clock makes it look expired.
        advice = "check the clock of this machine" if login.keytab else flags
        return f"our Kerberos ticket has expired: {advice}"
    if login.keytab is not None:
        return ""
    if code in _NO_CACHE or minor in (_EMPTY_CACHE, *_FILE_ERRORS):
        return f"there is no Kerberos ticket in {cache}: {flags}"
    if minor == _OTHER_CACHE:
        return f"{cache} has no ticket of {login.principal}: {flags}"
    return ""


def _explain_key_tab(minor: int, login: KerberosLogin) -> str:
    """Return what is wrong with our own principal or its key, or ""."""
    code, keytab = minor - _BASE, login.keytab or "the key tab"
    if minor == _NO_SUCH_KEY:
        return (
            f"{keytab} has no key of {login.principal}: give another --{login.what}-sasl-principal"
        )
    if code in _NO_KEYTAB or (minor in _FILE_ERRORS and login.keytab is not None):
        return f"{keytab} cannot be read as a key tab"
    if code == _CLIENT_UNKNOWN:
        return "the KDC does not know our principal"
    if code in (_PREAUTH_FAILED, _BAD_INTEGRITY):
        return f"the KDC refused our key: it was changed after {keytab} was made, so make a new one"
    if code in (_REVOKED, _CLIENT_EXPIRED, _KEY_EXPIRED):
        return "the KDC has locked our principal, or it or its key has expired"
    return ""


def _explain_server(minor: int, login: KerberosLogin, host: str) -> str:
    code = minor - _BASE
    if code == _SERVER_UNKNOWN:
        return (
            f"the KDC knows no principal {login.service}/{host}: HOST must be the name in the"
            f" server's principal (advertisedAddress of a bookie), and --{login.what}-sasl-service"
            " its first part"
        )
    if code in (_SKEW, _SKEW_OF_REPLY, _NOT_YET_VALID):
        return "the clocks of this machine and of the KDC differ too much: set them by NTP"
    if code == _KDC_UNREACHABLE:
        return (
            "no KDC of the realm answered: start it, or correct its address in krb5.conf on this"
            " machine"
        )
    if code == _NOT_SERVING:
        return "the KDC of the realm cannot serve now: see its log"
    if code in (_REALM_UNKNOWN, _REALM_NOT_RESOLVED):
        return (
            "no KDC of the realm was found: name it in krb5.conf on this machine, or see whether"
            " the DNS answers"
        )
    if code == _NO_REALM:
        return "krb5.conf on this machine names no default realm"
    if code == _ETYPE:
        return "the KDC and this machine have no encryption type in common"
    return ""


FAILURE_KEPT_S = 60.0
"""After a refused login, the KDC is not asked for it again for so many seconds. Otherwise a
thousand bookies would cause a thousand tries, after which a KDC may lock the principal."""
NO_LAYER, MAX_SIZE_NONE = 1, b"\0\0\0"
"""The bit of the server's offer that stands for "no security layer", and our message size limit for
that case (RFC 4752)."""
OFFER_BYTES = 4
NO_LIBRARY = (
    "--{what}-sasl gssapi needs the library gssapi, which is not installed here or cannot be loaded"
    " ({error}): pip install 'bookkeeper-cluster-auditor[kerberos]'"
)
NO_PROOF = (
    "it could not prove that it has the key of {server}: it may be another server in its place"
)


class _Failure(NamedTuple):
    """Why a login failed, and when by time.monotonic()."""

    error: KerberosFailed | KdcUnreachable
    at_s: float

    def holds_for(self, began_s: float) -> bool:
        """Return whether the failure also answers an attempt that began at `began_s`.

        A refusal holds for FAILURE_KEPT_S. An absent KDC may be back: that failure holds only for
        attempts that were already waiting when it happened.
        """
        kept_s = FAILURE_KEPT_S if isinstance(self.error, KerberosFailed) else 0.0
        return began_s < self.at_s + kept_s


_failed: dict[KerberosLogin, _Failure] = {}
"""The last failure of each login."""
_caches_left: Counter[KerberosLogin] = Counter()
"""By login with a key tab, how many caches in memory it has abandoned."""
_one_at_a_time = threading.Lock()
"""Held while a ticket is made: other threads wait, and find the ticket in the cache."""


class KerberosFailed(Exception):
    """We have no ticket for a server, or the server does not prove who it is. `str` is a
    sentence.
    """


def check_login(login: KerberosLogin) -> None:
    """Raise ConfigError if this machine lacks the library, the key in the key tab, or any ticket.

    Asks no KDC. Does not notice an expired ticket.
    """
    gssapi = _library(login)
    try:
        if login.keytab is None:
            _credentials(gssapi, login)
        else:
            _find_key(gssapi, login)
    except gssapi.exceptions.GSSError as error:
        raise ConfigError(explain_kerberos_failure(_status(error), login, "")) from None


class KerberosExchange:
    """One exchange of SASL GSSAPI (RFC 4752) with the server at `host`, without its encryption."""

    def __init__(self, login: KerberosLogin, host: str) -> None:
        self._login, self._host = login, host
        self._context: Any = None
        self.is_complete = False
        """Whether `respond` has returned our last message."""

    @property
    def server(self) -> str:
        """The principal of the server, without its realm."""
        return f"{self._login.service}/{self._host}"

    def start(self) -> bytes:
        """Return the first token.

        Raises KerberosFailed, KdcUnreachable if no KDC could be asked, and ConfigError without the
        library. Blocks: it may ask the KDC and the DNS.
        """
        gssapi = _library(self._login)
        left = _caches_left[self._login]
        try:
            return self._first_token(gssapi)
        except gssapi.exceptions.GSSError as error:
            if self._login.keytab is None or not is_expired(_status(error)):
                raise _failure(error, self._login, self._host) from None
        # The library made no new ticket and does not say why. With an empty cache it says so.
        _leave_cache(self._login, left)
        try:
            return self._first_token(gssapi)
        except gssapi.exceptions.GSSError as error:
            raise _failure(error, self._login, self._host) from None

    def _first_token(self, gssapi: ModuleType) -> bytes:
        flags = gssapi.RequirementFlag
        credentials = _acquire(gssapi, self._login)
        target = f"{self._login.service}@{self._host}"
        self._context = gssapi.SecurityContext(
            name=gssapi.Name(target, gssapi.NameType.hostbased_service),
            creds=credentials,
            usage="initiate",
            mech=gssapi.MechType.kerberos,
            flags=[flags.mutual_authentication, flags.integrity],
        )
        return bytes(self._context.step() or b"")

    def respond(self, token: bytes) -> bytes:
        """Return our answer to a token of the server. Raises KerberosFailed.

        Asks no KDC: it costs a fraction of a millisecond.
        """
        gssapi = _library(self._login)
        try:
            if not self._context.complete:
                return bytes(self._context.step(token) or b"")
            return self._choose_no_layer(bytes(self._context.unwrap(token).message))
        except gssapi.exceptions.GSSError:
            raise KerberosFailed(NO_PROOF.format(server=self.server)) from None

    def _choose_no_layer(self, offer: bytes) -> bytes:
        if len(offer) != OFFER_BYTES or not offer[0] & NO_LAYER:
            raise KerberosFailed("it wants every message encrypted by SASL, which is not supported")
        self.is_complete = True
        choice = bytes([NO_LAYER]) + MAX_SIZE_NONE
        return bytes(self._context.wrap(choice, encrypt=False).message)


def _library(login: KerberosLogin) -> ModuleType:
    try:
        import gssapi
    except ImportError as error:  # It also fails if Kerberos' own library is missing.
        raise ConfigError(NO_LIBRARY.format(what=login.what, error=error)) from None
    return gssapi


def _name(gssapi: ModuleType, login: KerberosLogin) -> Any:
    if login.principal is None:
        return None
    return gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)


def _credentials(gssapi: ModuleType, login: KerberosLogin) -> Any:
    """Return credentials from the ticket cache or, with a key tab, from a cache in memory.

    With a key tab this asks the KDC if there is no valid ticket yet. Raises GSSError.
    """
    store = None
    if login.keytab is not None:
        number = _caches_left[login]
        cache = f"MEMORY:auditor {number} {login.principal or ''} {login.keytab}"
        store = {"client_keytab": login.keytab, "ccache": cache}
    elif login.ticket_cache is not None:
        store = {"ccache": login.ticket_cache}
    return gssapi.Credentials(
        name=_name(gssapi, login),
        usage="initiate",
        mechs=[gssapi.MechType.kerberos],
        store=store,
    )


def _leave_cache(login: KerberosLogin, left: int) -> None:
    """Give the login an empty cache, unless another thread has done so meanwhile."""
    with _one_at_a_time:
        if _caches_left[login] == left:
            _caches_left[login] += 1


def _find_key(gssapi: ModuleType, login: KerberosLogin) -> None:
    """Raise GSSError if the key tab cannot be read, or lacks the principal. Asks no KDC.

    For both faults, the request for credentials itself would report a missing ticket cache.
    """
    gssapi.Credentials(
        name=_name(gssapi, login),
        usage="accept",
        mechs=[gssapi.MechType.kerberos],
        store={"keytab": login.keytab},
    )


def _acquire(gssapi: ModuleType, login: KerberosLogin) -> Any:
    """Return credentials. Raises KdcUnreachable or KerberosFailed.

    For a while after a refusal, raises KerberosFailed without asking the KDC again.
    """
    began_s = time.monotonic()
    with _one_at_a_time:
        last = _failed.get(login)
        if last is not None and last.holds_for(began_s):
            raise type(last.error)(str(last.error))
        try:
            if login.keytab is not None:
                _find_key(gssapi, login)
            return _credentials(gssapi, login)
        except gssapi.exceptions.GSSError as error:
            failure = _failure(error, login, "")
            _failed[login] = _Failure(failure, time.monotonic())
            raise failure from None


def _failure(error: Any, login: KerberosLogin, host: str) -> KerberosFailed | KdcUnreachable:
    """Return the exception for a GSSError about a ticket for the server at `host`."""
    status = _status(error)
    why = explain_kerberos_failure(status, login, host)
    return KdcUnreachable(why) if is_kdc_away(status) else KerberosFailed(why)


def _status(error: Any) -> GssStatus:
    """Return the codes and the text of a GSSError."""
    message = "; ".join(error.get_all_statuses(error.min_code, False)) if error.min_code else ""
    return GssStatus(error.maj_code & 0xFFFF0000, error.min_code, message)
