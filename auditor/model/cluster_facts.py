"""The facts of findings on the cluster as a whole: times in ms since 1970 UTC, durations in ms where the name ends so."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.identity import LedgerId


@dataclass(frozen=True, slots=True)
class PopulationFacts:
    """LEDGER_POPULATION_DROPPED. `ledgers` were listed, and `ledgers_again` when they were listed again `apart_ms` later."""

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
    """Whole runs in a row that were held against the same run and listed so few, this one among them."""


@dataclass(frozen=True, slots=True)
class MarkWithoutLedgerFacts:
    """MARK_WITHOUT_LEDGER. `marks` older than `grace_ms` whose ledgers had no metadata at two looks, `apart_ms` apart."""

    marks: int
    some_ledgers: tuple[LedgerId, ...]
    """The ids in the oldest of these marks, at most 20, the oldest first."""
    oldest_age_ms: int
    oldest_path: str
    """The znode of the oldest mark."""
    grace_ms: int
    unchecked: int
    """Marks of other ledgers that were not listed, and that were not looked at because there were too many."""
    apart_ms: int
    replication_disabled: bool
