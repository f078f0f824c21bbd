"""One setting: its names, unit and bounds, its default and the reason for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from auditor.config.units import DURATION, SWITCH, Unit, Value

ENVIRONMENT_PREFIX = "AUDITOR_"

EVERY_COMMAND = frozenset(
    {
        "run",
        "ledger",
        "topic",
        "demo",
        "replay",
        "report",
        "diff",
        "margin",
        "explain",
        "mute",
        "bundle",
        "topology",
        "lister",
        "config",
    }
)
AUDITING = frozenset({"run", "ledger", "topic", "demo", "config"})
"""Commands that ask ZooKeeper and bookies. `config` shows every setting and therefore takes every
flag."""
PLACING = AUDITING | {"topology"}
"""Commands that locate bookies."""
JUDGING = AUDITING | {"replay"}
WHOLE_RUNS = frozenset({"run", "demo", "config"})
ONLY_RUN = frozenset({"run", "config"})


@dataclass(frozen=True)
class Setting:
    """One row of the table of settings.

    `default` is as a user would write it (None: not set). `low` and `high` are inclusive, in the
    parsed unit. `elsewhere` has other defaults by command. `required` names the commands that do
    not work without the setting.
    """

    key: str
    section: str
    unit: Unit
    default: str | None
    help: str
    why: str
    low: float | None = None
    high: float | None = None
    commands: frozenset[str] = EVERY_COMMAND
    elsewhere: dict[str, str] = field(default_factory=dict, hash=False)
    required: frozenset[str] = frozenset()

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

    @property
    def field(self) -> str:
        """The name in `Settings`: the key, with `_ms` for durations."""
        return self.key + "_ms" if self.unit is DURATION else self.key

    def default_for(self, command: str | None) -> str | None:
        """Return the default of one command (None: of `run`) as a user would write it."""
        return self.elsewhere.get(command or "run", self.default)

    def parse(self, raw: object) -> Value:
        """Parse a value and check its bounds. Raises ValueError with half a sentence."""
        value = self.unit.parse(raw)
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
