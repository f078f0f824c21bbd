"""Audits of the model's cluster by the Spark-free engine, with its verdicts as the model's rows."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from types import SimpleNamespace, TracebackType
from typing import Any, NamedTuple, Self, cast
from unittest.mock import patch

import structlog
from support.audits import Pauses
from support.model.across import Heard
from support.model.rows import CopyFacts, FindingRow, Row, flat
from support.model.state import ENTRIES_MAX, GRACE_MINUTES, STUCK_MINUTES

from auditor.bookie import exchange
from auditor.bookie.exchange import ListPatience
from auditor.clock import now_ms
from auditor.config import Layers, parse
from auditor.context import Context, terms_of
from auditor.judging.settle import Step
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.facts import facts_json
from auditor.model.finding import Finding
from auditor.model.verdict import Verdict
from auditor.run import single_ledgers as single
from auditor.run.single_ledgers import Asker
from auditor.run.surroundings import around
from auditor.stages import local
from auditor.stages.local import LocalExecutor
from auditor.telemetry.progress import Silent
from auditor.topology.sources import sources_of
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import MetadataStore, open_store

SETTINGS: dict[str, object] = {
    "underreplication_grace": f"{GRACE_MINUTES}m",
    "stuck_after": f"{STUCK_MINUTES}m",
    "stranded_entries_max": ENTRIES_MAX,
    "probe_entries": ENTRIES_MAX,
    "spot_reads": 0,
    "placement_policy": "rack",
    "topology": "zookeeper",
    "second_look_delay": "0s",
    "rpc_timeout": "20s",
    "bookie_connect_timeout": "10s",
    "bookie_connect_attempts": 1,
}
"""Settings of both engines. A bookie that is down refuses connections at once, so one attempt is
enough. All entries of a bookie that cannot list are read, so the truth is exact. No list is tested
by spot reads: the model holds what follows from lists.
"""
LIST_PATIENCE = ListPatience(overdue_ms=0, give_up_ms=30)
"""Settings for a bookie that cannot list. The engine knows these bookies, as after an earlier run.
"""


class Judged(NamedTuple):
    """What the Spark-free engine concluded about one ledger, with all evidence and its terms."""

    evidence: LedgerEvidence
    step: Step
    terms: Terms

    @property
    def verdict(self) -> Verdict:
        return self.step.verdict

    @property
    def row(self) -> Row:
        return row_of(self.verdict)


class _StandsStill:
    """The metadata store of an audit that pauses before its question number `at` to the store,
    while `happen` runs.
    """

    QUESTIONS = frozenset({"sync", "read_ledgers", "bookies", "passwords"})

    def __init__(self, store: MetadataStore, at: int, happen: Callable[[], None]) -> None:
        self._store, self._at, self._happen = store, at, happen
        self._asked = 0
        self.went_on_ms: int | None = None
        """Answers later than this came after the pause."""

    def __getattr__(self, name: str) -> Any:
        question = getattr(self._store, name)
        if name not in self.QUESTIONS:
            return question

        def asked(*args: Any, **options: Any) -> Any:
            self._asked += 1
            if self._asked == self._at:
                self._happen()
                self.went_on_ms = tick()
            return question(*args, **options)

        return asked

    def lent(self) -> Any:
        """Return an address at which stages get this store."""
        return SimpleNamespace(open=lambda: self, limits=self._store.address.limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the session open."""


def tick() -> int:
    """Wait for the end of this millisecond, and return it."""
    now = now_ms()
    while now_ms() == now:
        time.sleep(0.0002)
    return now


class SparkFree:
    """`auditor.run.single_ledgers` over one session with ZooKeeper, as a context manager.

    Ledgers are judged in this process, and bookies asked in this thread: half of an audit's time
    would go into children and threads that nothing here can stop.
    """

    def __init__(self, metadata_service_uri: str, sample: int | None = None) -> None:
        flags = {**SETTINGS, "metadata_service_uri": metadata_service_uri}
        if sample is not None:
            flags["probe_entries"] = sample
        settings = parse(Layers(flags=flags), command="ledger")
        self._context = Context(settings, io.StringIO(), structlog.get_logger(), Silent(), Pauses())
        self._sources = sources_of(settings)
        self.known_unable: frozenset[str] = frozenset()
        """The bookies that an earlier run found unable to list."""
        self._store = open_store(parse_uri(metadata_service_uri), settings.zookeeper_limits(1))

    def audit(self, numbers: Sequence[int]) -> dict[int, Judged]:
        """Audit each ledger, in the order given. Raises AssertionError if one is judged twice, or
        not at all.
        """
        return self._audit(self._store, numbers)

    def audit_across(
        self, numbers: Sequence[int], question: int, happen: Callable[[], None]
    ) -> tuple[dict[int, Judged], dict[int, Heard]]:
        """Audit with a pause before that question to ZooKeeper, in which `happen` changes the
        cluster.

        Also returns, for each ledger, what was heard before the pause (part 0) and after it (part
        1). An audit with fewer questions does not pause.
        """
        still = _StandsStill(self._store, question, happen)
        judged = self._audit(cast(MetadataStore, still), numbers)
        return judged, {
            number: heard_of(one.evidence, still.went_on_ms) for number, one in judged.items()
        }

    def _audit(self, store: MetadataStore, numbers: Sequence[int]) -> dict[int, Judged]:
        settings = self._context.settings
        self._store.sync()
        facts = self._store.cluster_facts()
        surroundings, _ = around(
            self._store, facts, self._store.bookies(0, now_ms), self._sources, settings
        )
        terms = terms_of(self._context, "model", surroundings)
        asker = Asker(self._context, store, facts, self.known_unable)
        with (
            patch.object(LocalExecutor, "is_careful", False),
            patch.object(local, "_unless_stopped", lambda _, work: work()),
            patch.object(exchange, "KNOWN_UNABLE", LIST_PATIENCE),
        ):
            judged = single.audit_ledgers(asker, numbers, terms)
        assert list(numbers) == [evidence.ledger_id for evidence, _ in judged], (
            "each ledger is judged once, in order"
        )
        return {evidence.ledger_id: Judged(evidence, step, terms) for evidence, step in judged}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store.close()


def heard_of(evidence: LedgerEvidence, went_on_ms: int | None) -> Heard:
    """Return in which parts of an audit with or without a pause a ledger was looked at."""

    def part(at_ms: int) -> int:
        return int(went_on_ms is not None and at_ms > went_on_ms)

    read = [part(look.record.read_at_ms) for look in evidence.looks]
    heard = Heard(read[-1], looks_before=sum(one < read[-1] for one in read))
    for look in evidence.looks:
        for bookie, answer in look.answers.items():
            heard.lists.setdefault(bookie, set()).add(part(answer.asked_at_ms))
        asked = [part(one.asked_at_ms) for one in (*look.answers.values(), *look.reads.values())]
        heard.asked = max([heard.asked, *asked])
    return heard


def row_of(verdict: Verdict) -> Row:
    """Return the product's verdict, reduced to what the model owes."""
    return Row(
        verdict.standing.word,
        verdict.exempt.value if verdict.exempt else None,
        tuple(unknown.value for unknown in verdict.unknowns),
        tuple(ordered(_finding_row(one) for one in verdict.findings)),
        CopyFacts(*astuple(verdict.copies)) if verdict.copies is not None else None,
        verdict.is_mark_stale,
    )


def ordered(found: Iterable[FindingRow]) -> list[FindingRow]:
    return sorted(found, key=lambda one: (one.kind, one.first or 0))


def _finding_row(found: Finding) -> FindingRow:
    entries = written_out(found.entries)
    assert len(entries) == found.entries_total, found
    return FindingRow(
        found.kind.value,
        found.segment.first_entry_id if found.segment else None,
        entries,
        tuple(sorted((bookie, written_out(ranges)) for bookie, ranges in found.missing_on)),
        found.copies.confirmed if found.copies else None,
        found.copies.unknown if found.copies else None,
        flat(facts_json(found.facts)),
    )


def written_out(ranges: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(entry for first, last in ranges for entry in range(first, last + 1))
