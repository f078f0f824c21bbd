"""Read raw settings. No other module of `auditor.config` touches a file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from auditor.config.parse import Layers
from auditor.config.run_settings import CONFIG_FILE
from auditor.errors import ConfigError

CONFIG_FILE_BYTES_MAX = 2**20
"""Largest configuration file read."""


def read_layers(flags: Mapping[str, object], environment: Mapping[str, str]) -> Layers:
    """Return the layers of one command. --config names the file, or else AUDITOR_CONFIG does.

    Raises `ConfigError` if the file cannot be read or is not TOML.
    """
    named = flags.get(CONFIG_FILE.key) or environment.get(CONFIG_FILE.variable)
    if not named:
        return Layers(flags, environment)
    return Layers(flags, environment, read_file(Path(str(named))), str(named))


def read_file(path: Path) -> dict[str, object]:
    """Return a TOML file as tomllib reads it. Raises `ConfigError` with the file and the reason."""
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_FILE_BYTES_MAX + 1)
        if len(content) > CONFIG_FILE_BYTES_MAX:
            raise ConfigError(f"{path} is larger than {CONFIG_FILE_BYTES_MAX} bytes: this is no configuration file")
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"the configuration file {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
