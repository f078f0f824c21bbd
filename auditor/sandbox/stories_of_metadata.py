"""The demo's stories about marks and metadata."""

from __future__ import annotations

import time
from dataclasses import replace

from auditor.model.finding import Kind
from auditor.model.identity import LedgerId
from auditor.model.topic import DataLedger
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.story import LOST, Story, put, put_topic, story_of, twins, with_owner

MARK_AGE_MS = 10 * 24 * 3600 * 1000
"""Age of the marks that are beyond any grace, by their ctime field: ten days."""
OPEN_AGE_MS = 60 * 24 * 3600 * 1000
"""Age of the ledger that is still open, by its metadata: sixty days."""


@story_of(Kind.UNDERREPLICATED_BEYOND_GRACE)
def _beyond_grace(cluster: SandboxCluster, n: LedgerId) -> Story:
    for ledger_id in (n, n + 1):
        put(cluster, ledger_id, "e3 w2 a2 0:[b1 b2 b3] closed 49")
    cluster.mark(n, ["b3"], int(time.time() * 1000) - MARK_AGE_MS)
    fact = (
        f"Ledger {n} was marked under-replicated ten days ago, and still is; ledger {n + 1} is not"
        " marked."
    )
    return Story(Kind.UNDERREPLICATED_BEYOND_GRACE, n, n + 1, fact, (n, n + 1))


@story_of(Kind.MARK_WITHOUT_LEDGER)
def _mark_without_ledger(cluster: SandboxCluster, n: LedgerId) -> Story:
    now_ms = int(time.time() * 1000)
    for ledger_id, marked_ms in ((n, now_ms - MARK_AGE_MS), (n + 1, now_ms)):
        cluster.mark(ledger_id, ["b3"], marked_ms)
    fact = (
        f"Ledgers {n} and {n + 1} do not exist. {n} was marked under-replicated ten days ago,"
        f" {n + 1} just now."
    )
    return Story(Kind.MARK_WITHOUT_LEDGER, n, n + 1, fact, ())


@story_of(Kind.METADATA_MALFORMED)
def _malformed_story(cluster: SandboxCluster, n: LedgerId) -> Story:
    put(cluster, n, "e3 w2 a2 0:[b3 b4 b5] closed", written=49)
    put(cluster, n + 1, "e3 w2 a2 0:[b3 b4 b5] closed 49")
    fact = (
        f"Ledger {n} is closed and its metadata does not say at which entry; that of ledger {n + 1}"
        " says 49."
    )
    return Story(Kind.METADATA_MALFORMED, n, n + 1, fact, (n, n + 1))


@story_of(Kind.UNDERREPLICATED_UNRECOVERABLE)
def _unrecoverable(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = "e3 w2 a2 0:[b3 b4 b5] closed 49"
    fact = (
        f"Ledger {n} is marked, and its entry 7 is on no bookie; ledger {n + 1} is marked too, with"
        " a copy of every entry."
    )
    story = twins(
        cluster, Kind.UNDERREPLICATED_UNRECOVERABLE, n, text, {"b4": "7", "b5": "7"}, fact
    )
    for ledger_id in story.ledger_ids:
        cluster.mark(ledger_id, ["b4"])
    return story


@story_of(Kind.ENTRIES_BEYOND_END)
def _beyond_end(cluster: SandboxCluster, n: LedgerId) -> Story:
    put(cluster, n, "e3 w2 a2 0:[b1 b2 b3] closed 49", written=50)
    put(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b3] closed 50")
    fact = (
        f"Ledger {n} ends at entry 49, and its bookies hold entry 50 too, whose writer knew that 49"
        f" was acknowledged; the metadata of ledger {n + 1} says 50."
    )
    return Story(Kind.ENTRIES_BEYOND_END, n, n + 1, fact, (n, n + 1))


@story_of(Kind.LEDGER_STUCK)
def _stuck(cluster: SandboxCluster, n: LedgerId) -> Story:
    now_ms = int(time.time() * 1000)
    for ledger_id, made_ms in ((n, now_ms - OPEN_AGE_MS), (n + 1, now_ms)):
        metadata = with_owner(cluster.ledger("e3 w2 a2 0:[b1 b2 b3] open"), f"story-{ledger_id}")
        cluster.place(ledger_id, replace(metadata, ctime_ms=made_ms))
        put_topic(cluster, f"story-{ledger_id}", [DataLedger(ledger_id)])
    fact = f"Ledger {n} has been open for sixty days, ledger {n + 1} since just now."
    return Story(Kind.LEDGER_STUCK, n, n + 1, fact, (n, n + 1))


@story_of(Kind.RECOVERY_BLOCKED)
def _recovery_blocked(cluster: SandboxCluster, n: LedgerId) -> Story:
    put(cluster, n, f"e2 w2 a1 0:[b1 {LOST}] in_recovery")
    put(cluster, n + 1, "e2 w2 a1 0:[b1 b2] in_recovery")
    fact = (
        f"Ledger {n} is in recovery, and {LOST} of its ensemble is gone: entries that one bookie"
        f" acknowledged may be there alone. Both bookies of ledger {n + 1} answer."
    )
    return Story(Kind.RECOVERY_BLOCKED, n, n + 1, fact, (n, n + 1))
