"""Parse layers of raw settings into frozen settings. No I/O.

A flag overrides the environment, the environment the file, and the file the default. Settings of
secured clusters that would have no effect, or cannot work, are refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from auditor.config.jaas import PASSWORD_KEY
from auditor.config.run_settings import CONFIG_FILE
from auditor.config.secured_settings import SECRET_OF, SECRET_VARIABLES, SECRETS
from auditor.config.setting import ENVIRONMENT_PREFIX, Setting
from auditor.config.settings import SETTINGS, Settings, secret_source
from auditor.config.units import ON_OFF, Value, has_credentials
from auditor.errors import ConfigError

_PASSWORD = frozenset({"bookie_tls_key_password_file", "bookie_tls_key_password_command"})
_PAIR = frozenset({"bookie_tls_certificate", "bookie_tls_key"})
_VARIABLE = SECRET_OF["bookie_tls_key_password"].variable
_LOGIN_PASSWORD = frozenset({"bookie_sasl_password_file", "bookie_sasl_password_command"})
_LOGIN_VARIABLE = SECRET_OF[PASSWORD_KEY].variable
_TICKET = frozenset({"bookie_sasl_keytab", "bookie_sasl_principal", "bookie_sasl_ticket_cache"})


def _drop_overridden(
    client: Mapping[str, str], given: Mapping[str, object], variables: Collection[str]
) -> dict[str, str]:
    """Return the settings of a client's own configuration that the `given` ones do not override.

    Settings that belong together are dropped together: a certificate with its key and password, the
    places of a password, a login with its user and password or key tab, and all of TLS if it is
    off. `variables` are the environment variables that are set. Pure.
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
        return False  # `parse` refuses it, and names its origin.


def _refuse_half_secured(settings: Settings, *, is_jaas_unread: bool = False) -> None:
    """Raise ConfigError for settings that suggest a protection that does not exist.

    With `is_jaas_unread` the login to bookies is not checked: its other half is in the JAAS file.
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
    """Raise ConfigError if a setting belongs to another mechanism than the chosen one.

    A password in an environment variable is not refused: it may be there for another command.
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


NEAR_RATIO = 0.75
"""An unknown AUDITOR_ variable with this similarity (difflib, 0 to 1) to a setting is taken for a
misspelling. All others are ignored: they belong to other programs."""
_SERVICE_LINK = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)$"
)
_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://")
_BY_KEY = {setting.key: setting for setting in SETTINGS}


@dataclass(frozen=True)
class Layers:
    """Raw settings. `flags` by key (None: not given); `file` as tomllib reads it.

    `environment` by variable: names without AUDITOR_ are ignored, and those that resemble no
    setting. `file_name` is for messages.
    """

    flags: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    file: Mapping[str, object] = field(default_factory=dict)
    file_name: str = "the configuration file"
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings by key from a BookKeeper client's configuration and its JAAS file.

    All other settings override them. The key of a secret says that the JAAS file has it."""
    client_name: str = "the client's configuration"
    jaas_keys: frozenset[str] = frozenset()
    """The keys of `client` that come from the JAAS file."""
    jaas_name: str = "the JAAS file"
    is_jaas_unread: bool = False
    """Whether a JAAS file is named that the command does not need."""


@dataclass(frozen=True)
class Origin:
    """Where a value came from: `layer` is flag, environment, file or default.

    `name` is the flag, variable or key that the user wrote.
    """

    layer: str
    name: str


@dataclass(frozen=True)
class _Raw:
    origin: Origin
    value: object


def parse(layers: Layers | None = None, *, command: str | None = None) -> Settings:
    """Return the settings of `command` (None: the defaults of `run`, nothing required).

    Raises `ConfigError` with what the user wrote, and the nearest known name if it is unknown.
    """
    layers = layers or Layers()
    written = _raw_values(layers)
    values: dict[str, Value] = {}
    for setting in SETTINGS:
        raw = written.get(setting.key)
        values[setting.field] = _default(setting, command) if raw is None else _value(setting, raw)
        if values[setting.field] is None and command in setting.required:
            raise ConfigError(
                f"{setting.key} is not set: give {setting.flag} {setting.metavar},"
                f" {setting.variable}, or the key in a file"
            )
    in_environment = frozenset(s.key for s in SECRETS if layers.environment.get(s.variable))
    in_jaas = frozenset(s.key for s in SECRETS if s.key in written)
    settings = Settings(
        **values,  # type: ignore[arg-type]
        secrets_in_environment=in_environment,
        secrets_in_jaas=in_jaas,
    )
    _refuse_half_secured(settings, is_jaas_unread=layers.is_jaas_unread)
    _refuse_nonsense(
        settings, {key: raw.origin for key, raw in written.items()}, has_topology=command == "demo"
    )
    return settings


def origins(layers: Layers) -> dict[str, Origin]:
    """Return where the value of each key of `SETTINGS` came from, and each secret of a JAAS file.

    Raises `ConfigError` on unknown names.
    """
    written = _raw_values(layers)
    found = {
        s.key: written[s.key].origin if s.key in written else Origin("default", "default")
        for s in SETTINGS
    }
    return found | {s.key: written[s.key].origin for s in SECRETS if s.key in written}


def shown_values(settings: Settings) -> dict[str, str]:
    """Return each key's value as a user would write it, "" if not set, with credentials masked."""
    return {
        s.key: "" if (v := getattr(settings, s.field)) is None else s.unit.show(v) for s in SETTINGS
    }


def _raw_values(layers: Layers) -> dict[str, _Raw]:
    """Return the value of each key from the strongest layer that sets it."""
    given = {
        **_from_file(layers),
        **_from_environment(layers.environment),
        **_from_flags(layers.flags),
    }
    return {**_from_client(layers, given), **given}


def _from_flags(flags: Mapping[str, object]) -> dict[str, _Raw]:
    known = {s.key: s for s in (*SETTINGS, CONFIG_FILE)}
    found = {}
    for key, value in flags.items():
        flag = "--" + key.replace("_", "-")
        if key not in known:
            raise ConfigError(
                f"{flag} is not a setting{_nearest(flag, (s.flag for s in known.values()))}"
            )
        if value is None or key == CONFIG_FILE.key:
            continue
        if isinstance(value, str) and has_credentials(value):
            raise ConfigError(
                f"{flag} carries a password, which every user of this machine could read in the"
                f" process list: set {known[key].variable} or the key {key} in a file instead"
            )
        found[key] = _Raw(Origin("flag", flag), value)
    return found


def _from_environment(environment: Mapping[str, str]) -> dict[str, _Raw]:
    known = {s.variable: s for s in (*SETTINGS, CONFIG_FILE)}
    found = {}
    for variable in sorted(v for v in environment if v.startswith(ENVIRONMENT_PREFIX)):
        if variable in SECRET_VARIABLES:
            continue  # It is read where it is used, and kept nowhere.
        if variable not in known:
            if meant := _probably_meant(variable, environment[variable]):
                raise ConfigError(
                    f"{variable} in the environment is not a setting: did you mean {meant}?"
                )
            continue
        if variable != CONFIG_FILE.variable and not _is_service_link(
            variable, environment[variable]
        ):
            found[known[variable].key] = _Raw(
                Origin("environment", variable), environment[variable]
            )
    return found


def ignored_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the AUDITOR_* variables that resemble no setting or were made by Kubernetes,
    sorted.
    """
    known = {*(s.variable for s in (*SETTINGS, CONFIG_FILE)), *SECRET_VARIABLES}
    return sorted(
        variable
        for variable, value in environment.items()
        if variable.startswith(ENVIRONMENT_PREFIX)
        and (variable not in known or _is_service_link(variable, value))
    )


def _is_service_link(variable: str, value: str) -> bool:
    """Return whether Kubernetes makes this variable in each pod, for a Service `auditor-...`.

    A Service `auditor-lister` makes AUDITOR_LISTER_PORT, the name of a setting, with a URL in it.
    """
    return _SERVICE_LINK.search(variable) is not None or (
        variable.endswith("_PORT") and _SERVICE_LINK_VALUE.match(value) is not None
    )


def _probably_meant(variable: str, value: str) -> str:
    """Return the variable of the setting that an unknown variable resembles, or "".

    Without AUDITOR_ the names are similar, or one continues the other by whole words.
    """
    if _is_service_link(variable, value):
        return ""
    name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
    keys = [*(s.key for s in (*SETTINGS, CONFIG_FILE)), *(s.key for s in SECRETS)]
    close = difflib.get_close_matches(name, keys, n=1, cutoff=NEAR_RATIO) or [
        key for key in keys if f"{name}_".startswith(f"{key}_") or key.startswith(f"{name}_")
    ]
    return f"{ENVIRONMENT_PREFIX}{close[0].upper()}" if close else ""


def _from_file(layers: Layers) -> dict[str, _Raw]:
    found = {}
    for key, value in layers.file.items():
        name = f"{key} in {layers.file_name}"
        if key == CONFIG_FILE.key:
            raise ConfigError(
                f"{name}: a file cannot name another file; use {CONFIG_FILE.flag} or"
                f" {CONFIG_FILE.variable}"
            )
        if key not in _BY_KEY:
            raise ConfigError(f"{name} is not a setting{_nearest(key, _BY_KEY)}")
        found[key] = _Raw(Origin("file", name), value)
    return found


def _from_client(layers: Layers, given: Mapping[str, _Raw]) -> dict[str, _Raw]:
    variables = [variable for variable, value in layers.environment.items() if value]
    left = _drop_overridden(
        layers.client, {key: raw.value for key, raw in given.items()}, variables
    )
    names = dict.fromkeys(layers.jaas_keys, layers.jaas_name)
    return {
        key: _Raw(Origin("file", f"{key} in {names.get(key, layers.client_name)}"), value)
        for key, value in left.items()
    }


def _nearest(name: str, names: Iterable[str]) -> str:
    """Return half a sentence with the nearest name, ignoring case, dashes and underscores."""
    plain = {right.lower().replace("-", "_"): right for right in names}
    close = difflib.get_close_matches(name.lower().replace("-", "_"), plain, n=1, cutoff=0.6)
    return (
        f": did you mean {plain[close[0]]}?" if close else "; docs/configuration.md lists them all"
    )


def _default(setting: Setting, command: str | None) -> Value:
    text = setting.default_for(command)
    return None if text is None else setting.parse(text)


def _value(setting: Setting, raw: _Raw) -> Value:
    try:
        return setting.parse(raw.value)
    except ValueError as error:
        quoted = (
            ""
            if isinstance(raw.value, str) and has_credentials(raw.value)
            else f" = {str(raw.value)[:200]!r}"
        )
        raise ConfigError(f"{raw.origin.name}{quoted} {error}") from None


def _refuse_nonsense(
    settings: Settings, written: Mapping[str, Origin], *, has_topology: bool
) -> None:
    """Raise ConfigError if settings contradict each other.

    `has_topology`: the command has a topology of its own.
    """

    def name(key: str) -> str:
        value = shown_values(settings)[key]
        return (
            f"{written[key].name} ({value})" if key in written else f"{key} ({value}, the default)"
        )

    if settings.quiet and settings.verbose:
        raise ConfigError(
            f"{written['quiet'].name} and {written['verbose'].name} contradict each other:"
            " choose one"
        )
    for key in ("rpc_timeout", "bookie_connect_timeout"):
        if getattr(settings, f"{key}_ms") >= settings.bookie_deadline_ms:
            raise ConfigError(
                f"{name(key)} is not below {name('bookie_deadline')}: a bookie's whole conversation"
                " would end within one wait"
            )
    if settings.spark_stall_max_ms <= settings.bookie_deadline_ms:
        raise ConfigError(
            f"{name('spark_stall_max')} is not above {name('bookie_deadline')}: the job would be"
            " cancelled while a slow bookie is still being asked"
        )
    _refuse_placement(settings, name, has_topology=has_topology or bool(settings.topology))


def _refuse_placement(
    settings: Settings, name: Callable[[str], str], *, has_topology: bool
) -> None:
    """Raise ConfigError if settings of placement contradict each other.

    `name` returns a key as the user wrote it, with its value.
    """
    if settings.desired_num_zones_per_write_quorum < settings.min_num_zones_per_write_quorum:
        raise ConfigError(
            f"{name('desired_num_zones_per_write_quorum')} is below"
            f" {name('min_num_zones_per_write_quorum')}"
        )
    if (
        settings.placement_policy != "none"
        and settings.placement_compat != "java"
        and not has_topology
    ):
        raise ConfigError(
            f"{name('placement_policy')} needs to know where the bookies are: give --topology FILE,"
            " zookeeper or SCRIPT (docs/topology.md), or leave placement_policy at none"
        )
    if any(item.startswith("/") for item in settings.maintenance or ()) and not has_topology:
        raise ConfigError(
            f"{name('maintenance')} names a location, and where bookies are is not known: give"
            " --topology as well"
        )
