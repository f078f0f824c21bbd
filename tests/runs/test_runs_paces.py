"""Laws of whole runs about bookies that are asked less because they answer ETOOMANYREQUESTS."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import FIRST_LOOK_ON_SPARK, accounted, audit

from auditor.sandbox.bookie import Storage
from auditor.sandbox.cluster import SandboxCluster

INFLIGHT, RATE = 8, 1_000.0
BUSY_READS = INFLIGHT + INFLIGHT // 2
"""All reads of the first window, and of one of half its size."""
ENTRIES_RECOVERED = 60
"""Reads after which a bookie is asked as the limits allow again: 28 grow from one to eight."""
ENTRIES_STILL_SLOW = 8
"""Too few reads for that, even from half the limits: 22 grow from four to eight."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a sound cluster: every entry is read on b1, b2 and b3, which cannot list."""
    storages = [Storage.DB, Storage.DB, Storage.DB, Storage.SORTED]
    with SandboxCluster(
        tmp_path_factory.mktemp("cluster"), len(storages), named=True, storage=storages
    ) as made:
        for ledger_id, last in enumerate((ENTRIES_RECOVERED, ENTRIES_STILL_SLOW, 9), start=1):
            text = f"e2 w2 a2 0:[b{ledger_id} b4] closed {last - 1}"
            made.place(ledger_id, made.ledger(text))
        yield made


@pytest.mark.parametrize(
    "way",
    [
        pytest.param({}, id="in process"),
        pytest.param(
            FIRST_LOOK_ON_SPARK, id="on Spark", marks=[pytest.mark.spark, pytest.mark.long]
        ),
    ],
)
def test_the_summary_says_what_the_lanes_of_busy_bookies_settled_at(
    cluster: SandboxCluster, tmp_path: Path, request: pytest.FixtureRequest, way: dict[str, str]
):
    """b1 is busy for a while and recovers: its lane settles at the limits. b2 is as busy, and its
    lane ends before that. b3 and b4 are never asked less, and are not named.
    """
    if way:
        request.getfixturevalue("spark")
    for busy in ("b1", "b2"):
        cluster.bookie(busy).behaviour.busy_reads = BUSY_READS
    limits = {"bookie_inflight": INFLIGHT, "bookie_requests_per_second": RATE}
    outcome = accounted(audit(cluster, tmp_path, rpc_timeout="1s", **limits, **way))
    paces = outcome.summary["paces"]
    by_bookie = {one["bookie_id"]: one for one in paces["slowest"]}
    assert (2, {"b1", "b2"}) == (paces["bookies"], set(by_bookie))
    for one in by_bookie.values():
        assert 1 <= one["inflight"] <= INFLIGHT // 2
        assert RATE / 8 <= one["requests_per_second"] <= RATE / 2
    at_the_limits = {"inflight": INFLIGHT, "requests_per_second": RATE}
    assert at_the_limits == by_bookie["b1"]["settled"]
    slow, settled = by_bookie["b2"], by_bookie["b2"]["settled"]
    assert slow["inflight"] < settled["inflight"] < INFLIGHT
    assert slow["requests_per_second"] < settled["requests_per_second"] < RATE
    assert (0, "SOUND") == (outcome.exit_code, outcome.summary["outcome"])
    said = " ".join(outcome.stdout.split())
    assert f"settled at {INFLIGHT} outstanding, 1000 a second)" in said
