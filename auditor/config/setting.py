"""One setting: its names, unit and bounds, its default and the reason for it.

A setting is declared once, as a field of a frozen class:

    rpc_timeout_ms: int = setting(DURATION, "10s", help, why, low=10, high=600_000)

mypy knows the field's type, and checks it against the unit. All else comes from the field's row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, overload

from auditor.config.units import DURATION, SWITCH, Unit, Value

T = TypeVar("T")

ENVIRONMENT_PREFIX = "AUDITOR_"

EVERY_COMMAND = frozenset(
    {
        "run",
        "ledger",
        "topic",
        "demo",
        "replay",
        "status",
        "report",
        "diff",
        "margin",
        "explain",
        "mute",
        "bundle",
        "rehearse",
        "salvage",
        "topology",
        "lister",
        "config",
    }
)
AUDITING = frozenset({"run", "ledger", "topic", "demo", "rehearse", "salvage", "config"})
"""Commands that ask ZooKeeper and bookies. `config` shows every setting and therefore takes every
flag."""
PLACING = AUDITING | {"topology"}
"""Commands that locate bookies."""
READING = PLACING | {"lister", "margin"}
"""Commands that read ZooKeeper. `margin` does so only with --now."""
JUDGING = AUDITING | {"replay"}
WHOLE_RUNS = frozenset({"run", "demo", "config"})
READ_OUTPUT = EVERY_COMMAND - {"rehearse", "topology", "lister"}
"""Commands that read or write runs in OUTPUT."""
ONLY_RUN = frozenset({"run", "config"})


@dataclass(frozen=True)
class Setting:
    """One row of the table of settings.

    `default` is as a user would write it (None: not set). `low` and `high` are inclusive, in the
    parsed unit. `elsewhere` has other defaults by command. `required` names the commands that do
    not work without the setting. `field` is its name in `Settings`.
    """

    unit: Unit[Any]
    default: str | None
    help: str
    why: str
    low: float | None = None
    high: float | None = None
    commands: frozenset[str] = EVERY_COMMAND
    elsewhere: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    required: frozenset[str] = frozenset()
    field: str = ""
    section: str = ""

    @property
    def key(self) -> str:
        """The name in a file: the field without the `_ms` of durations."""
        return self.field.removesuffix("_ms") if self.unit is DURATION else self.field

    @property
    def flag(self) -> str:
        return "--" + self.key.replace("_", "-")

    @property
    def off_flag(self) -> str | None:
        """The flag that turns off a switch set in the environment or the file; None for others."""
        return "--no-" + self.key.replace("_", "-") if self.is_flag else None

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.key.upper()

    @property
    def is_flag(self) -> bool:
        return self.unit is SWITCH

    @property
    def metavar(self) -> str:
        return self.unit.metavar

    def default_for(self, command: str | None) -> str | None:
        """Return the default of one command (None: of `run`) as a user would write it."""
        return self.elsewhere.get(command or "run", self.default)

    def parse(self, raw: object) -> Value:
        """Parse a value and check its bounds. Raises ValueError with half a sentence."""
        value: Value = self.unit.parse(raw)
        assert value is not None, "a parser returns a value or raises"
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._check_range(value)
        return value

    def _check_range(self, value: float) -> None:
        low, high = self.low, self.high
        if (low is not None and value < low) or (high is not None and value > high):
            raise ValueError(f"is out of range: {self.range_text}")

    @property
    def range_text(self) -> str:
        """The range as text for people, "" if there is none."""
        if self.low is None or self.high is None:
            return ""
        as_unit = float if self.metavar == "RATE" else int
        return f"{self.unit.show(as_unit(self.low))} to {self.unit.show(as_unit(self.high))}"


@overload
def setting(
    unit: Unit[T],
    default: str,
    help: str,
    why: str,
    *,
    low: float | None = None,
    high: float | None = None,
    commands: frozenset[str] = EVERY_COMMAND,
    elsewhere: Mapping[str, str] | None = None,
    required: frozenset[str] = frozenset(),
) -> T: ...


@overload
def setting(
    unit: Unit[T],
    default: None,
    help: str,
    why: str,
    *,
    commands: frozenset[str] = EVERY_COMMAND,
    required: frozenset[str] = frozenset(),
    is_shown: bool = True,
) -> T | None: ...


def setting(
    unit: Unit[T],
    default: str | None,
    help: str,
    why: str,
    *,
    low: float | None = None,
    high: float | None = None,
    commands: frozenset[str] = EVERY_COMMAND,
    elsewhere: Mapping[str, str] | None = None,
    required: frozenset[str] = frozenset(),
    is_shown: bool = True,
) -> Any:
    """Return a field of a dataclass that has the row of one setting, and its default as a value.

    The arguments are those of `Setting`. `repr` omits the value if it is not `is_shown`.
    """
    row = Setting(unit, default, help, why, low, high, commands, elsewhere or {}, required)
    return dataclasses.field(
        default=None if default is None else row.parse(default),
        repr=is_shown,
        metadata={_ROW: row},
    )


_ROW = "setting"


def rows_of(group: type, section: str) -> tuple[Setting, ...]:
    """Return the rows of a group's fields, in their order."""
    return tuple(
        replace(declared.metadata[_ROW], field=declared.name, section=section)
        for declared in fields(group)
    )
