"""The demo's stories about ensembles: a duplicate bookie, and wrong placement."""

from __future__ import annotations

from auditor.model.finding import Kind
from auditor.model.identity import LedgerId
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.story import BESIDE_B1, Story, put, story_of

_ZONES_AND_DOMAINS = (
    *((1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2), (1, 3)),
    *((2, 3), (1, 1), (3, 3), (2, 4), (3, 4), (3, 5), (3, 6), (2, 5)),
)
LOCATIONS = {
    f"b{number}": f"/zone{zone}/domain{domain}"
    for number, (zone, domain) in enumerate(_ZONES_AND_DOMAINS, start=1)
}
"""The locations of the demo's bookies. b1 and b9 share one.

The policy rack compares whole locations, the policy zone their two parts.
"""


@story_of(Kind.ENSEMBLE_DUPLICATE_BOOKIE)
def _duplicate_bookie(cluster: SandboxCluster, n: LedgerId) -> Story:
    # The write set of entry 2 would be b1 twice. With two entries, only the ensemble is wrong.
    put(cluster, n, "e3 w2 a2 0:[b1 b2 b1] closed 1")
    put(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b3] closed 1")
    fact = (
        f"The ensemble of ledger {n} names b1 twice; in ledger {n + 1} the third bookie is"
        " another, b3."
    )
    return Story(Kind.ENSEMBLE_DUPLICATE_BOOKIE, n, n + 1, fact, (n, n + 1))


@story_of(Kind.PLACEMENT_FAILED)
def _placement_failed(cluster: SandboxCluster, n: LedgerId) -> Story:
    put(cluster, n, f"e3 w2 a2 0:[b1 {BESIDE_B1} b3] closed 49")
    put(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b3] closed 49")
    fact = (
        f"Both bookies of some entries of ledger {n}, b1 and {BESIDE_B1}, share a rack; those of"
        f" ledger {n + 1} never do."
    )
    return Story(Kind.PLACEMENT_FAILED, n, n + 1, fact, (n, n + 1))


@story_of(Kind.PLACEMENT_SOFT)
def _placement_soft(cluster: SandboxCluster, n: LedgerId) -> Story:
    put(cluster, n, "e3 w3 a2 0:[b1 b2 b4] closed 49")
    put(cluster, n + 1, "e3 w3 a2 0:[b1 b2 b3] closed 49")
    fact = (
        f"Ledger {n} spans two zones, ledger {n + 1} three. Only --placement-policy zone tells"
        " these apart."
    )
    return Story(Kind.PLACEMENT_SOFT, n, n + 1, fact, (n, n + 1))
