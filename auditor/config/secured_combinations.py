"""Refuses settings of secured clusters that would have no effect, or cannot work."""

from __future__ import annotations

from auditor.config.secured_settings import SECRETS
from auditor.config.settings import Settings, secret_source
from auditor.errors import ConfigError


def refuse_half_secured(settings: Settings) -> None:
    """Raise ConfigError if an operator could believe in a security that there is not."""
    for secret in SECRETS:
        if getattr(settings, f"{secret.key}_file") and getattr(settings, f"{secret.key}_command"):
            raise ConfigError(f"{secret.key}_file and {secret.key}_command both give {secret.what}: choose one")
    for peer in ("bookie", "zookeeper"):
        _refuse_half_tls(settings, peer)
        _refuse_half_login(settings, peer)


def _refuse_half_tls(settings: Settings, peer: str) -> None:
    files = [f"{peer}_tls_{name}" for name in ("ca", "certificate", "key", "key_password_file", "key_password_command")]
    given = next((key for key in files if getattr(settings, key)), None)
    if given is not None and not getattr(settings, f"{peer}_tls"):
        raise ConfigError(f"{given} has no effect without --{peer}-tls on")
    if getattr(settings, f"{peer}_tls_key") and not getattr(settings, f"{peer}_tls_certificate"):
        raise ConfigError(f"{peer}_tls_key has no effect without --{peer}-tls-certificate FILE")


def _refuse_half_login(settings: Settings, peer: str) -> None:
    username, password = getattr(settings, f"{peer}_sasl_username"), secret_source(settings, f"{peer}_sasl_password")
    if getattr(settings, f"{peer}_sasl") == "none":
        given = (
            username or getattr(settings, f"{peer}_sasl_password_file") or getattr(settings, f"{peer}_sasl_password_command")
        )
        if given:
            raise ConfigError(f"a user or password for {peer}_sasl has no effect without --{peer}-sasl digest-md5")
        return
    if username is None:
        raise ConfigError(f"{peer}_sasl needs a user: give --{peer}-sasl-username")
    if password is None:
        raise ConfigError(
            f"{peer}_sasl needs a password: give --{peer}-sasl-password-file FILE, --{peer}-sasl-password-command COMMAND "
            f"or AUDITOR_{peer.upper()}_SASL_PASSWORD"
        )
