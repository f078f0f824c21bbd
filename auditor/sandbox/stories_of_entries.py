"""The demo's stories about entries: lost, with too few copies, stranded, unavailable, corrupt."""

from __future__ import annotations

from auditor.model.finding import Kind
from auditor.model.identity import LedgerId
from auditor.sandbox.bookie import LedgerFault
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.story import UNLISTABLE, Story, put, story_of, twins


@story_of(Kind.ENTRY_WITHOUT_REPLICA)
def _without_replica(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = "e3 w2 a2 0:[b1 b2 b3] closed 99"
    fact = (
        f"Entry 42 of ledger {n} is on neither b1 nor b2, where it belongs; ledger {n + 1} has it"
        " on both."
    )
    return twins(cluster, Kind.ENTRY_WITHOUT_REPLICA, n, text, {"b1": "42", "b2": "42"}, fact)


@story_of(Kind.LEDGER_CLOSED_SHORT)
def _closed_short(cluster: SandboxCluster, n: LedgerId) -> Story:
    put(cluster, n, "e3 w2 a2 0:[b1 b2 b3] closed 49", written=59)
    put(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b3] closed 59")
    fact = (
        f"Ledger {n} ends at entry 49, and its bookies hold entries up to 59, whose writer knew"
        f" that 58 was acknowledged; the metadata of ledger {n + 1} says 59."
    )
    return Story(Kind.LEDGER_CLOSED_SHORT, n, n + 1, fact, (n, n + 1))


@story_of(Kind.ENTRY_BELOW_ACK_QUORUM)
def _below_ack_quorum(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = "e5 w3 a2 0:[b1 b2 b3 b4 b5] 1200:[b1 b2 b3 b5 b4] closed 1999"
    fact = (
        f"Entry 1504 of ledger {n} was acknowledged by two bookies at least and is on one, b2; in"
        f" ledger {n + 1} on all three."
    )
    return twins(cluster, Kind.ENTRY_BELOW_ACK_QUORUM, n, text, {"b4": "1504", "b1": "1504"}, fact)


@story_of(Kind.ENTRY_BELOW_WRITE_QUORUM)
def _below_write_quorum(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = "e3 w3 a2 0:[b2 b3 b4] closed 499"
    fact = (
        f"Bookie b3 lacks entries 100 to 199 of ledger {n}, two copies are left of each; in ledger"
        f" {n + 1} it has them."
    )
    return twins(cluster, Kind.ENTRY_BELOW_WRITE_QUORUM, n, text, {"b3": "100-199"}, fact)


@story_of(Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE)
def _only_outside_ensemble(cluster: SandboxCluster, n: LedgerId) -> Story:
    story = twins(
        cluster,
        Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE,
        n,
        "e3 w2 a2 0:[b1 b2 b3] closed 99",
        {"b1": "42", "b2": "42"},
        f"Entry 42 of ledger {n} is on b4 alone, which its metadata does not name; in ledger"
        f" {n + 1} it is where it belongs.",
    )
    cluster.hold("b4", n, "42")
    return story


@story_of(Kind.ENTRY_UNAVAILABLE)
def _unavailable(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = "e2 w2 a2 0:[b1 b2] closed 49"
    fact = (
        f"Bookies b1 and b2 answer each request about ledger {n} with EIO; they serve ledger"
        f" {n + 1}."
    )
    story = twins(cluster, Kind.ENTRY_UNAVAILABLE, n, text, {}, fact)
    for bookie in ("b1", "b2"):
        cluster.fault(bookie, n, LedgerFault.EIO)
    return story


@story_of(Kind.ENTRY_CORRUPT)
def _corrupt(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = f"e3 w3 a2 0:[b1 b2 {UNLISTABLE}] closed 99"
    fact = (
        f"The copy of entry 0 of ledger {n} on {UNLISTABLE} does not match its digest; that of"
        f" ledger {n + 1} does."
    )
    story = twins(cluster, Kind.ENTRY_CORRUPT, n, text, {}, fact)
    cluster.corrupt(UNLISTABLE, n, 0)
    return story
