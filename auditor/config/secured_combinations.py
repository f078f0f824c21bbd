"""Refuses settings of secured clusters that would have no effect, or cannot work."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from auditor.config.jaas_login import PASSWORD_KEY
from auditor.config.secured_settings import SECRET_OF, SECRETS
from auditor.config.settings import Settings, secret_source
from auditor.config.units import ON_OFF
from auditor.errors import ConfigError

_PASSWORD = frozenset({"bookie_tls_key_password_file", "bookie_tls_key_password_command"})
_PAIR = frozenset({"bookie_tls_certificate", "bookie_tls_key"})
_VARIABLE = SECRET_OF["bookie_tls_key_password"].variable
_LOGIN_PASSWORD = frozenset({"bookie_sasl_password_file", "bookie_sasl_password_command"})
_LOGIN_VARIABLE = SECRET_OF[PASSWORD_KEY].variable
_TICKET = frozenset({"bookie_sasl_keytab", "bookie_sasl_principal", "bookie_sasl_ticket_cache"})


def drop_overridden(
    client: Mapping[str, str], given: Mapping[str, object], variables: Collection[str]
) -> dict[str, str]:
    """Return what counts of a client's own configuration beside the settings that are `given`.

    Settings that belong together are dropped together: a certificate with its key and password, the
    places of a password, a login with its user and password or key tab, and all of TLS where it is
    off. `variables` are those that are set. Pure.
    """
    dropped: set[str] = set()
    if _PAIR & given.keys():
        dropped |= _PAIR | _PASSWORD
    if _PASSWORD & given.keys() or _VARIABLE in variables:
        dropped |= _PASSWORD
    if "bookie_tls" in given and _is_off(given["bookie_tls"]):
        dropped |= {key for key in client if key.startswith("bookie_tls")}
    if "bookie_sasl_username" in given or _LOGIN_PASSWORD & given.keys():
        dropped.add(PASSWORD_KEY)
    if _LOGIN_VARIABLE in variables:
        dropped.add(PASSWORD_KEY)
    if _TICKET & given.keys():
        dropped |= _TICKET
    if given.get("bookie_sasl", client.get("bookie_sasl")) != client.get("bookie_sasl"):
        dropped |= {key for key in client if key.startswith("bookie_sasl")}
    return {key: value for key, value in client.items() if key not in dropped}


def _is_off(raw: object) -> bool:
    try:
        return ON_OFF.parse(raw) is False
    except ValueError:
        return False  # Refused where it is parsed, with its origin.


def refuse_half_secured(settings: Settings, *, is_jaas_unread: bool = False) -> None:
    """Raise ConfigError for settings that suggest a protection that does not exist.

    With `is_jaas_unread` the login to bookies is not checked: the rest of it is in the JAAS file.
    """
    for secret in SECRETS:
        if getattr(settings, f"{secret.key}_file") and getattr(settings, f"{secret.key}_command"):
            raise ConfigError(
                f"{secret.key}_file and {secret.key}_command both give {secret.what}: choose one"
            )
    if settings.lister_tls and not settings.lister_port and settings.lister_map is None:
        raise ConfigError("lister_tls has no effect without --lister-port or --lister-map")
    for peer in ("bookie", "zookeeper"):
        _refuse_half_tls(settings, peer)
        if peer == "bookie" and is_jaas_unread:
            continue
        _refuse_other_mechanism(settings, peer)
        if getattr(settings, f"{peer}_sasl") == "digest-md5":
            _refuse_half_login(settings, peer)


def _refuse_half_tls(settings: Settings, peer: str) -> None:
    files = [
        f"{peer}_tls_{name}"
        for name in ("ca", "certificate", "key", "key_password_file", "key_password_command")
    ]
    given = next((key for key in files if getattr(settings, key)), None)
    is_used = getattr(settings, f"{peer}_tls") or (peer == "bookie" and settings.lister_tls)
    if given is not None and not is_used:
        raise ConfigError(f"{given} has no effect without --{peer}-tls on")
    if getattr(settings, f"{peer}_tls_key") and not getattr(settings, f"{peer}_tls_certificate"):
        raise ConfigError(f"{peer}_tls_key has no effect without --{peer}-tls-certificate FILE")


def _refuse_other_mechanism(settings: Settings, peer: str) -> None:
    """Raise ConfigError if a setting belongs to another mechanism than the one that is set.

    A password in an environment variable does not count: it may be there for another command.
    """
    mechanism = getattr(settings, f"{peer}_sasl")
    of_digest = [
        f"{peer}_sasl_{name}" for name in ("username", "password_file", "password_command")
    ]
    of_kerberos = [f"{peer}_sasl_{name}" for name in ("keytab", "principal", "ticket_cache")]
    for needed, keys in (("digest-md5", of_digest), ("gssapi", of_kerberos)):
        given = next((key for key in keys if getattr(settings, key)), None)
        if given is not None and mechanism != needed:
            raise ConfigError(f"{given} has no effect without --{peer}-sasl {needed}")
    if getattr(settings, of_kerberos[0]) and getattr(settings, of_kerberos[2]):
        raise ConfigError(f"{of_kerberos[0]} and {of_kerberos[2]} both give tickets: choose one")


def _refuse_half_login(settings: Settings, peer: str) -> None:
    jaas = " or --bookie-jaas-file FILE" if peer == "bookie" else ""
    if getattr(settings, f"{peer}_sasl_username") is None:
        raise ConfigError(f"{peer}_sasl needs a user: give --{peer}-sasl-username{jaas}")
    if secret_source(settings, f"{peer}_sasl_password") is None:
        raise ConfigError(
            f"{peer}_sasl needs a password: give --{peer}-sasl-password-file FILE,"
            f" --{peer}-sasl-password-command COMMAND or AUDITOR_{peer.upper()}_SASL_PASSWORD"
        )
