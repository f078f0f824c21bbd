"""Frozen settings. One table gives each its unit, its default and the reason for the default."""

from auditor.config.limit_settings import BookieLimits, ZooKeeperLimits
from auditor.config.parse import (
    Layers,
    Origin,
    ignored_variables,
    origins,
    parse,
    shown_values,
)
from auditor.config.run_settings import CONFIG_FILE, JudgingLimits
from auditor.config.setting import ENVIRONMENT_PREFIX, Setting
from auditor.config.settings import SETTINGS, Settings
from auditor.config.sources import read_layers
from auditor.config.units import has_credentials, without_credentials

__all__ = [
    "CONFIG_FILE",
    "ENVIRONMENT_PREFIX",
    "SETTINGS",
    "BookieLimits",
    "JudgingLimits",
    "Layers",
    "Origin",
    "Setting",
    "Settings",
    "ZooKeeperLimits",
    "has_credentials",
    "ignored_variables",
    "origins",
    "parse",
    "read_layers",
    "shown_values",
    "without_credentials",
]
