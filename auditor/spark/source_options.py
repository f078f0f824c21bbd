"""The options of the public data sources: the run's ZooKeeper settings in Spark's spelling.

They have the same bounds.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from auditor.config import SETTINGS, Layers, Setting, Settings, parse
from auditor.errors import ConfigError
from auditor.wire.service_uri import RIGHT_FORM, ServiceUri, parse_pulsar
from auditor.wire.service_uri import parse as parse_uri

URI_OPTION: Final = "metadataServiceUri"
PULSAR_OPTION: Final = "pulsarMetadataUri"
READERS_OPTION: Final = "readers"
READERS_DEFAULT: Final = 8
READERS_MAX: Final = 1_000
"""Spark partitions that read ledgers. Each has a ZooKeeper session; they share the rate."""


def _spelt(key: str) -> str:
    """Return a setting's key as Spark's users write options.

    Example: zookeeperBatchPaths for zookeeper_batch_paths.
    """
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), key)


ZOOKEEPER_OPTIONS: Final[dict[str, Setting]] = {
    _spelt(s.key): s
    for s in SETTINGS
    if s.key.startswith("zookeeper_") and not s.key.endswith("_command")
}
"""Each option with the setting of docs/configuration.md that gives its unit, range and default.

No option is a command: whoever may write a query must not be able to run programs."""

OPTIONS: Final = (URI_OPTION, PULSAR_OPTION, READERS_OPTION, *ZOOKEEPER_OPTIONS)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the user of a data source requested. `settings` has the limits on ZooKeeper.

    `pulsar_uri` is None if topics are looked for beside the ledgers.
    """

    uri: ServiceUri
    pulsar_uri: ServiceUri | None
    readers: int
    settings: Settings


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options that Spark passed. Their names ignore case. Pure.

    Raises ConfigError with the option, and what to write.
    """
    known = {name.lower(): name for name in OPTIONS}
    given: dict[str, str] = {}
    for name, value in options.items():
        if name.lower() not in known:
            near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
            said = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(OPTIONS)}"
            raise ConfigError(f"this source has no option {name}: {said}")
        given[known[name.lower()]] = value
    flags = {
        s.key: _check(name, s, given[name])
        for name, s in ZOOKEEPER_OPTIONS.items()
        if name in given
    }
    return SourceOptions(
        _uri(given.get(URI_OPTION)),
        _pulsar_uri(given.get(PULSAR_OPTION)),
        _readers(given.get(READERS_OPTION)),
        parse(Layers(flags=flags)),
    )


def _uri(text: str | None) -> ServiceUri:
    if text is None or not text.strip():
        raise ConfigError(
            f'option {URI_OPTION} is not set: write .option("{URI_OPTION}", "{RIGHT_FORM}")'
        )
    try:
        return parse_uri(text)
    except ConfigError as error:
        raise ConfigError(f"option {URI_OPTION}: {error}") from None


def _pulsar_uri(text: str | None) -> ServiceUri | None:
    if text is None:
        return None
    try:
        return parse_pulsar(text)
    except ConfigError as error:
        raise ConfigError(f"option {PULSAR_OPTION}: {error}") from None


def _readers(text: str | None) -> int:
    readers = (
        READERS_DEFAULT if text is None else int(text) if text.isascii() and text.isdecimal() else 0
    )
    if not 1 <= readers <= READERS_MAX:
        raise ConfigError(
            f"option {READERS_OPTION} = {str(text)[:200]!r} is out of range: 1 to {READERS_MAX}"
        )
    return readers


def _check(name: str, setting: Setting, text: str) -> str:
    """Return `text` if its setting accepts it. Errors name the option, not the setting."""
    try:
        setting.parse(text)
    except ValueError as error:
        raise ConfigError(f"option {name} = {text[:200]!r} {error}") from None
    return text
