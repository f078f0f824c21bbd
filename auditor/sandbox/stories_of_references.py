"""The demo's stories about what Pulsar's topics reference."""

from __future__ import annotations

import time
from dataclasses import replace

from auditor.model.finding import Kind
from auditor.model.identity import LedgerId
from auditor.model.topic import Cursor, DataLedger, Position
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.story import Story, put, put_topic, story_of, with_owner

LONG_AGO_MS = 60 * 24 * 3600 * 1000
"""Age of the ledgers of the story on orphans, by their metadata: sixty days."""
_TEXT = "e3 w2 a2 0:[b1 b2 b3] closed 49"


def _closed_ledger(ledger_id: LedgerId, entries: int) -> DataLedger:
    return DataLedger(ledger_id, entries, 10 * entries, int(time.time() * 1000))


@story_of(Kind.REFERENCED_LEDGER_MISSING)
def _missing_ledger(cluster: SandboxCluster, n: LedgerId) -> Story:
    put(cluster, n + 1, _TEXT)
    for ledger_id in (n, n + 1):
        behind = {"late": Cursor(None, Position(ledger_id, 9))}
        put_topic(cluster, f"story-{ledger_id}", [_closed_ledger(ledger_id, 50)], behind)
    fact = (
        f"Topics story-{n} and story-{n + 1} each reference a ledger; ledger {n} has no metadata,"
        f" ledger {n + 1} has."
    )
    return Story(Kind.REFERENCED_LEDGER_MISSING, n, n + 1, fact, (n + 1,))


@story_of(Kind.NEWEST_LEDGER_MISSING)
def _missing_newest_ledger(cluster: SandboxCluster, n: LedgerId) -> Story:
    put(cluster, n + 1, _TEXT)
    for ledger_id in (n, n + 1):
        put_topic(cluster, f"story-{ledger_id}", [DataLedger(ledger_id)])
    fact = (
        f"Ledgers {n} and {n + 1} are the newest of topics story-{n} and story-{n + 1}, which have"
        f" not recorded what they hold; ledger {n} has no metadata, ledger {n + 1} has."
    )
    return Story(Kind.NEWEST_LEDGER_MISSING, n, n + 1, fact, (n + 1,))


@story_of(Kind.LEDGER_TRUNCATED)
def _truncated_ledger(cluster: SandboxCluster, n: LedgerId) -> Story:
    for ledger_id, entries in ((n, 60), (n + 1, 50)):
        put(cluster, ledger_id, _TEXT)
        put_topic(cluster, f"story-{ledger_id}", [_closed_ledger(ledger_id, entries)])
    fact = (
        f"Both ledgers end at entry 49. The topic of ledger {n} recorded 60 entries, that of ledger"
        f" {n + 1} recorded 50."
    )
    return Story(Kind.LEDGER_TRUNCATED, n, n + 1, fact, (n, n + 1))


@story_of(Kind.LEDGER_ORPHANED)
def _orphaned_ledger(cluster: SandboxCluster, n: LedgerId) -> Story:
    made_ms = int(time.time() * 1000) - LONG_AGO_MS
    for ledger_id in (n, n + 1):
        metadata = with_owner(cluster.ledger(_TEXT), f"story-{n}")
        cluster.place(ledger_id, replace(metadata, ctime_ms=made_ms))
    put_topic(cluster, f"story-{n}", [_closed_ledger(n + 1, 50)])
    fact = (
        f"Ledgers {n} and {n + 1} are sixty days old and name topic story-{n}, which references"
        f" ledger {n + 1} alone."
    )
    return Story(Kind.LEDGER_ORPHANED, n, n + 1, fact, (n, n + 1))
