"""Take the login of a BookKeeper client from a section of its JAAS file."""

from __future__ import annotations

from pathlib import Path

from auditor.config.jaas import LoginModule, parse_jaas
from auditor.config.small_file import read_small_file
from auditor.errors import ConfigError

JAAS_BYTES_MAX = 2**16
"""Largest JAAS file read, in bytes."""
DIGEST, KERBEROS = "DigestLoginModule", "Krb5LoginModule"
"""The login modules that are understood, whatever their packages."""
PASSWORD_KEY = "bookie_sasl_password"  # noqa: S105 - the key, not the secret


def read_login(path: str, section: str) -> dict[str, str]:
    """Return our settings, by key, for the login in a section.

    A password is not among them: the value of PASSWORD_KEY only says that there is one. Raises
    ConfigError if the file cannot be read, or the login is of another sort.
    """
    module, where = _find_module(path, section)
    if module.short_name == DIGEST:
        _option(module, "password", where)
        username = _option(module, "username", where)
        return {
            "bookie_sasl": "digest-md5",
            "bookie_sasl_username": username,
            PASSWORD_KEY: "in the JAAS file",
        }
    return {"bookie_sasl": "gssapi", **_kerberos_settings(module, where)}


def read_password(path: str, section: str) -> str:
    """Return the password of the login in a section. Raises ConfigError, never with a password."""
    module, where = _find_module(path, section)
    if module.short_name != DIGEST:
        raise ConfigError(f"{where} has no {DIGEST}, and so no password")
    return _option(module, "password", where)


def _find_module(path: str, section: str) -> tuple[LoginModule, str]:
    """Return the one login module of a section that is understood, and what to call the section."""
    content = read_small_file(Path(path), JAAS_BYTES_MAX, "the JAAS file")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the JAAS file {path} is not UTF-8 text (byte {error.start})") from None
    sections = parse_jaas(text, path)
    if section not in sections:
        raise ConfigError(
            f"the JAAS file {path} has no section {section!a}: it has"
            f" {', '.join(ascii(name) for name in sections) or 'none'}; name one with"
            " --bookie-jaas-section"
        )
    where = f"the section {section!a} of {path}"
    known = [module for module in sections[section] if module.short_name in (DIGEST, KERBEROS)]
    if len(known) != 1:
        raise ConfigError(
            f"{where} has {len(known)} login modules of the classes {DIGEST} and {KERBEROS}, and"
            " exactly one is needed"
        )
    return known[0], where


def _kerberos_settings(module: LoginModule, where: str) -> dict[str, str]:
    settings = {}
    if _is_true(module, "useKeyTab"):
        settings["bookie_sasl_keytab"] = _option(module, "keyTab", where)
    elif not _is_true(module, "useTicketCache"):
        raise ConfigError(
            f"{where} has neither useKeyTab=true nor useTicketCache=true, so its login asks a"
            " person for a password: give --bookie-sasl-keytab FILE, or use a ticket cache"
        )
    elif "ticketCache" in module.options:
        settings["bookie_sasl_ticket_cache"] = _option(module, "ticketCache", where)
    if "principal" in module.options:
        settings["bookie_sasl_principal"] = _option(module, "principal", where)
    return settings


def _is_true(module: LoginModule, option: str) -> bool:
    return module.options.get(option, "").lower() == "true"


def _option(module: LoginModule, option: str, where: str) -> str:
    """Return an option that must be there. Raises ConfigError, never with its value."""
    value = module.options.get(option, "")
    if not value:
        raise ConfigError(f"{where} has no option {option} for its {module.short_name}")
    if "${" in value:
        raise ConfigError(
            f"{where}: the option {option} refers to a property of the JVM (${{...}}), which is not"
            " known here: write its value"
        )
    return value
