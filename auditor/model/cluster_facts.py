"""The facts of findings on the cluster as a whole: one frozen dataclass a kind.

Durations are in ms where the name ends in `_ms`; `previous_finished_at` is text.
"""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.identity import LedgerId


@dataclass(frozen=True, slots=True)
class PopulationFacts:
    """LEDGER_POPULATION_DROPPED.

    `ledgers` were listed first, and `ledgers_again` in a second listing `apart_ms` later.
    """

    previous_run: str
    previous_finished_at: str
    previous_ledgers: int
    ledgers: int
    ledgers_again: int
    apart_ms: int
    drop_percent: int
    some_gone: tuple[LedgerId, ...]
    instance_id: str | None
    runs_in_a_row: int = 1
    """Consecutive whole runs, including this one, that listed so few ledgers compared with the same
    run."""


@dataclass(frozen=True, slots=True)
class MarkWithoutLedgerFacts:
    """MARK_WITHOUT_LEDGER.

    `marks` counts marks older than `grace_ms` whose ledgers had no metadata at two looks. The looks
    are `apart_ms` apart.
    """

    marks: int
    some_ledgers: tuple[LedgerId, ...]
    """The ledgers of the oldest of these marks, at most 20, oldest mark first."""
    oldest_age_ms: int
    oldest_path: str
    """The znode of the oldest mark."""
    grace_ms: int
    unchecked: int
    """Further marks of ledgers that were not listed: too many to check."""
    apart_ms: int
    replication_disabled: bool
