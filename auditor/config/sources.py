"""Read raw settings. No other module of `auditor.config` touches a file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from auditor.config.client_configuration import settings_of_client
from auditor.config.jaas import read_login
from auditor.config.operator_files import parse_properties, read_small_file
from auditor.config.parse import Layers
from auditor.config.run_settings import CONFIG_FILE
from auditor.config.secured_settings import ASK_BOOKIES, JAAS_SECTION
from auditor.config.setting import ENVIRONMENT_PREFIX
from auditor.errors import ConfigError

CLIENT_CONF = "bookkeeper_client_conf"
BOOKIE_TLS = "bookie_tls"
JAAS_FILE, JAAS_SECTION_KEY = "bookie_jaas_file", "bookie_jaas_section"
CONFIG_FILE_BYTES_MAX = 2**20
"""Largest configuration file read."""


def read_layers(
    flags: Mapping[str, object], environment: Mapping[str, str], command: str = ""
) -> Layers:
    """Return the layers of one command.

    The file of settings is named by --config, or else by AUDITOR_CONFIG. The configuration of a
    BookKeeper client and its JAAS file are named in the same way, or in the file. The JAAS file has
    a password: a command that asks no bookie does not read it. Raises `ConfigError` if a file
    cannot be read or is not what it should be.
    """
    named = flags.get(CONFIG_FILE.key) or environment.get(CONFIG_FILE.variable)
    layers = Layers(flags, environment)
    if named:
        layers = Layers(flags, environment, read_file(Path(str(named))), str(named))
    client = _raw(layers, CLIENT_CONF)
    if client:
        layers = _with_client(layers, str(client))
    needs_login = command in ASK_BOOKIES or command in ("", "config")
    if needs_login:
        return _with_jaas(layers)
    return replace(layers, is_jaas_unread=bool(_raw(layers, JAAS_FILE)))


def _raw(layers: Layers, key: str) -> object:
    """Return a setting from the strongest layer that has it, None or "" if it is not set."""
    variable = layers.environment.get(ENVIRONMENT_PREFIX + key.upper())
    return layers.flags.get(key) or variable or layers.file.get(key) or layers.client.get(key)


def _with_client(layers: Layers, name: str) -> Layers:
    content = read_small_file(Path(name), CONFIG_FILE_BYTES_MAX, CLIENT_CONF)
    properties = parse_properties(content.decode("utf-8", "replace"))
    is_decided = layers.flags.get(BOOKIE_TLS) is not None or BOOKIE_TLS in layers.file
    is_decided = is_decided or ENVIRONMENT_PREFIX + BOOKIE_TLS.upper() in layers.environment
    client = settings_of_client(properties, name, is_tls_decided=is_decided)
    return replace(layers, client=client, client_name=name)


def _with_jaas(layers: Layers) -> Layers:
    """Return the layers with the login of the JAAS file, if one is named.

    It overrides the client's configuration, which only says that there is a login.
    """
    name = _raw(layers, JAAS_FILE)
    if not name:
        return layers
    login = read_login(str(name), str(_raw(layers, JAAS_SECTION_KEY) or JAAS_SECTION))
    return replace(
        layers,
        client={**layers.client, **login},
        jaas_keys=frozenset(login),
        jaas_name=str(name),
    )


def read_file(path: Path) -> dict[str, object]:
    """Return a TOML file as tomllib reads it. Raises `ConfigError` with the file and the reason."""
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_FILE_BYTES_MAX + 1)
        if len(content) > CONFIG_FILE_BYTES_MAX:
            raise ConfigError(
                f"{path} is larger than {CONFIG_FILE_BYTES_MAX} bytes: this is not a configuration"
                " file"
            )
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the configuration file {path} cannot be read: {error.strerror or error}"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start})") from None
    except ValueError as error:  # TOMLDecodeError, or Python's error for a number that is too long
        raise ConfigError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(
            f"{path} is nested too deeply: this is not a configuration file"
        ) from None
