"""The demo's stories about bookies: silent, lost, without content, failing requests."""

from __future__ import annotations

from auditor.first_checker.failing import FAILING_LEDGERS_MIN
from auditor.model.finding import Kind
from auditor.model.identity import LedgerId
from auditor.sandbox.bookie import LedgerFault
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.story import (
    FAILING,
    FAILING_ONCE,
    LOST,
    LOST_AND_MARKED,
    SCRATCHED,
    SILENT,
    UNREADABLE,
    WIPED,
    Story,
    put,
    story_of,
)

LEDGERS_OF_A_CONTENT = 4
"""Ledgers on the bookie that lost its content. Its twin has as many."""


@story_of(Kind.BOOKIE_SILENT_YET_REGISTERED)
def _silent_yet_registered(cluster: SandboxCluster, n: LedgerId) -> Story:
    put(cluster, n, f"e3 w2 a2 0:[b1 b2 {SILENT}] closed 49")
    put(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b5] closed 49")
    fact = (
        f"Bookie {SILENT}, named by ledger {n}, is registered and nobody listens; b5, named by"
        f" ledger {n + 1}, answers."
    )
    ids = cluster.id_of(SILENT), cluster.id_of("b5")
    return Story(Kind.BOOKIE_SILENT_YET_REGISTERED, *ids, fact, (n, n + 1))


@story_of(Kind.BOOKIE_LOST_UNNOTICED)
def _lost_unnoticed_story(cluster: SandboxCluster, n: LedgerId) -> Story:
    put(cluster, n, f"e3 w2 a2 0:[b1 {LOST} b3] closed 49")
    put(cluster, n + 1, f"e3 w2 a2 0:[b1 {LOST_AND_MARKED} b3] closed 49")
    cluster.mark(n + 1, [LOST_AND_MARKED])
    fact = (
        f"Bookies {LOST} and {LOST_AND_MARKED} are gone, registration and cookie too. Ledger {n},"
        f" which names {LOST}, is not marked under-replicated: nobody knows. Ledger {n + 1}, which"
        f" names {LOST_AND_MARKED}, is."
    )
    ids = cluster.id_of(LOST), cluster.id_of(LOST_AND_MARKED)
    return Story(Kind.BOOKIE_LOST_UNNOTICED, *ids, fact, (n, n + 1))


@story_of(Kind.BOOKIE_LOST_CONTENT)
def _lost_content_story(cluster: SandboxCluster, n: LedgerId) -> Story:
    ids = tuple(range(n, n + 2 * LEDGERS_OF_A_CONTENT))
    for ledger_id in ids:
        bookie = WIPED if ledger_id < n + LEDGERS_OF_A_CONTENT else SCRATCHED
        lose = {bookie: "0-49"} if bookie == WIPED or ledger_id == n + LEDGERS_OF_A_CONTENT else {}
        put(cluster, ledger_id, f"e3 w3 a2 0:[b1 b2 {bookie}] closed 49", lose)
    fact = (
        f"Bookie {WIPED} answers and has nothing of ledgers {n} to {n + LEDGERS_OF_A_CONTENT - 1},"
        f" which name it. {SCRATCHED} lacks one ledger of as many, {n + LEDGERS_OF_A_CONTENT}."
    )
    return Story(
        Kind.BOOKIE_LOST_CONTENT, cluster.id_of(WIPED), cluster.id_of(SCRATCHED), fact, ids
    )


@story_of(Kind.BOOKIE_FAILING_REQUESTS)
def _failing_requests(cluster: SandboxCluster, n: LedgerId) -> Story:
    ids = tuple(range(n, n + 2 * FAILING_LEDGERS_MIN))
    for ledger_id in ids:
        bookie = FAILING if ledger_id < n + FAILING_LEDGERS_MIN else FAILING_ONCE
        put(cluster, ledger_id, f"e3 w2 a2 0:[b1 b2 {bookie}] closed 49")
        if bookie == FAILING or ledger_id == n + FAILING_LEDGERS_MIN:
            cluster.fault(bookie, ledger_id, LedgerFault.EIO)
    fact = (
        f"Bookie {FAILING} answers each request about ledgers {n} to {n + FAILING_LEDGERS_MIN - 1},"
        f" which name it, with EIO. {FAILING_ONCE} does about one of as many,"
        f" {n + FAILING_LEDGERS_MIN}."
    )
    return Story(
        Kind.BOOKIE_FAILING_REQUESTS, cluster.id_of(FAILING), cluster.id_of(FAILING_ONCE), fact, ids
    )


@story_of(Kind.BOOKIE_UNREADABLE_ENTRIES)
def _unreadable_entries(cluster: SandboxCluster, n: LedgerId) -> Story:
    put(cluster, n, f"e3 w2 a2 0:[b1 b2 {UNREADABLE}] closed 49")
    put(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b5] closed 49")
    cluster.fault(UNREADABLE, n, LedgerFault.READS_FAIL)
    fact = (
        f"Bookie {UNREADABLE} lists its entries of ledger {n} and answers each read of them with"
        f" EIO; b5, named by ledger {n + 1}, sends what it lists."
    )
    ids = cluster.id_of(UNREADABLE), cluster.id_of("b5")
    return Story(Kind.BOOKIE_UNREADABLE_ENTRIES, *ids, fact, (n, n + 1))
