"""The product asked about the model's cluster: its engine without Spark, and its verdicts as the model's rows."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self
from unittest.mock import patch

import structlog
from support.audits import Pauses
from support.model.truth import ENTRIES_MAX, GRACE_MINUTES, STUCK_MINUTES, Row, Told

from auditor import single
from auditor.clock import now_ms
from auditor.commands.context import Context, terms_of
from auditor.commands.surroundings import around
from auditor.config import Layers, parse
from auditor.judgement import Step
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.finding import Finding
from auditor.model.verdict import Verdict
from auditor.poison.judge import Judge
from auditor.report.progress import Silent
from auditor.single import Asker, audit_ledgers
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store

SETTINGS: dict[str, object] = {
    "underreplication_grace": f"{GRACE_MINUTES}m",
    "stuck_after": f"{STUCK_MINUTES}m",
    "stranded_entries_max": ENTRIES_MAX,
    "second_look_delay": "0s",
    "rpc_timeout": "2s",
    "bookie_connect_timeout": "1s",
    "bookie_connect_attempts": 1,
}
"""Of both engines. A bookie that is down refuses connections at once, so one attempt tells."""


class Judged(NamedTuple):
    """What the Spark-free engine made of one ledger, with all it saw and its terms."""

    evidence: LedgerEvidence
    step: Step
    terms: Terms

    @property
    def verdict(self) -> Verdict:
        return self.step.verdict

    @property
    def row(self) -> Row:
        return row_of(self.verdict)


class _Here(Judge[Any]):
    """Judges in this process: half of an audit's time would go into children that nothing here could kill."""

    def __init__(self, work: Any, aside: Any, limits: Any, *, careful: bool) -> None:
        super().__init__(work, aside, limits, careful=False)


class SparkFree:
    """`auditor.single` over one session with ZooKeeper; a context manager. An audit takes some ten milliseconds."""

    def __init__(self, metadata_service_uri: str) -> None:
        flags = {**SETTINGS, "metadata_service_uri": metadata_service_uri}
        settings = parse(Layers(flags=flags), command="ledger")
        self._context = Context(settings, io.StringIO(), structlog.get_logger(), Silent(), Pauses())
        self._store = open_store(parse_uri(metadata_service_uri), settings.zookeeper_limits(1))

    def audit(self, numbers: Sequence[int]) -> dict[int, Judged]:
        """Each ledger, in the order given. Raises AssertionError where one is judged twice, or not at all."""
        settings = self._context.settings
        self._store.sync()
        facts = self._store.cluster_facts()
        surroundings, _ = around(self._store, facts, self._store.bookies(0, now_ms), (), settings)
        terms = terms_of(self._context, "model", surroundings)
        asker = Asker(self._store, settings.bookie_limits(), now_ms, self._context.stop.wait, settings.second_look_delay_ms)
        with patch.object(single, "Judge", _Here):
            judged = audit_ledgers(asker, numbers, terms)
        assert list(numbers) == [evidence.ledger_id for evidence, _ in judged], "each ledger is judged once, in order"
        return {evidence.ledger_id: Judged(evidence, step, terms) for evidence, step in judged}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._store.close()


def row_of(verdict: Verdict) -> Row:
    """The product's verdict as far as the model owes one."""
    return Row(
        verdict.standing.word,
        verdict.exempt.value if verdict.exempt else None,
        tuple(unknown.value for unknown in verdict.unknowns),
        tuple(ordered(_told(one) for one in verdict.findings)),
    )


def ordered(found: Iterable[Told]) -> list[Told]:
    return sorted(found, key=lambda one: (one.kind, one.first or 0))


def _told(found: Finding) -> Told:
    entries = written_out(found.entries)
    assert len(entries) == found.entries_total, found
    return Told(
        found.kind.value,
        found.segment.first_entry_id if found.segment else None,
        entries,
        tuple(sorted((bookie, written_out(ranges)) for bookie, ranges in found.missing_on)),
        found.copies.confirmed if found.copies else None,
        found.copies.unknown if found.copies else None,
    )


def written_out(ranges: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(entry for first, last in ranges for entry in range(first, last + 1))
