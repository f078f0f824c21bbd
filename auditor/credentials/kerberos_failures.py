"""Say in one sentence why Kerberos gave us no ticket, and what to do, and whether that may pass."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.config.access import KerberosLogin

_BASE = -1765328384
"""ERROR_TABLE_BASE_krb5: errors of a KDC (RFC 4120) and of the library are counted from here."""
_CLIENT_EXPIRED, _CLIENT_UNKNOWN, _SERVER_UNKNOWN, _ETYPE, _NOT_SERVING = 1, 6, 7, 14, 29
_REVOKED, _KEY_EXPIRED, _PREAUTH_FAILED, _BAD_INTEGRITY = 18, 23, 24, 31
_TICKET_EXPIRED, _NOT_YET_VALID, _SKEW, _SKEW_OF_REPLY = 32, 33, 37, 148
_REALM_NOT_RESOLVED, _REALM_UNKNOWN, _KDC_UNREACHABLE, _NO_REALM = 132, 154, 156, 224
_KDC_AWAY = frozenset({_NOT_SERVING, _REALM_NOT_RESOLVED, _REALM_UNKNOWN, _KDC_UNREACHABLE})
"""No KDC said yes or no. A DNS that does not answer is _REALM_UNKNOWN: the library then knows no
KDC."""
_NO_CACHE = frozenset({141, 142, 195})
_NO_KEYTAB = frozenset({181, 213})
_NO_SUCH_KEY, _OTHER_CACHE, _EMPTY_CACHE = 39756033, 39756032, 39756044
"""Of the library for GSSAPI (ggss): a key tab or a cache without the principal, an empty cache."""
_FILE_ERRORS = frozenset({2, 13, 21})
"""ENOENT, EACCES, EISDIR."""
_CREDENTIALS_EXPIRED = 11 << 16
"""GSS_S_CREDENTIALS_EXPIRED, a major status."""


@dataclass(frozen=True, slots=True)
class GssStatus:
    """A failure as GSSAPI has it: the two codes, and what the library says of the minor one."""

    major: int
    minor: int
    message: str


def explain_kerberos_failure(status: GssStatus, login: KerberosLogin, host: str) -> str:
    """Return why there is no ticket for the server at `host`, as a sentence with what to do."""
    minor = _as_signed(status.minor)
    sentence = (
        _of_cache(status, minor, login)
        or _of_key_tab(minor, login)
        or _of_server(minor, login, host)
        or "Kerberos gave no ticket"
    )
    return f"{sentence} ({status.message})" if status.message else sentence


def is_kdc_away(status: GssStatus) -> bool:
    """Return whether no KDC was found, answered or could serve: a later try may succeed."""
    return _as_signed(status.minor) - _BASE in _KDC_AWAY


def is_expired(status: GssStatus) -> bool:
    """Return whether the ticket that we have is too old."""
    code = _as_signed(status.minor) - _BASE
    return code == _TICKET_EXPIRED or status.major == _CREDENTIALS_EXPIRED


def _as_signed(minor: int) -> int:
    """Return a minor status as Kerberos' tables have it. It is unsigned in C, and they are not."""
    return (minor + 2**31) % 2**32 - 2**31


def _of_cache(status: GssStatus, minor: int, login: KerberosLogin) -> str:
    cache = login.ticket_cache or "the default ticket cache"
    flags = f"run kinit, or give --{login.what}-sasl-keytab FILE"
    code = minor - _BASE
    if is_expired(status):
        # A key tab makes a new ticket by itself: only a wrong clock makes it look old.
        advice = "check the clock of this machine" if login.keytab else flags
        return f"our Kerberos ticket has expired: {advice}"
    if login.keytab is not None:
        return ""
    if code in _NO_CACHE or minor in (_EMPTY_CACHE, *_FILE_ERRORS):
        return f"there is no Kerberos ticket in {cache}: {flags}"
    if minor == _OTHER_CACHE:
        return f"{cache} has no ticket of {login.principal}: {flags}"
    return ""


def _of_key_tab(minor: int, login: KerberosLogin) -> str:
    """Return what is wrong with our own principal or its key, "" if nothing is."""
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


def _of_server(minor: int, login: KerberosLogin, host: str) -> str:
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
