"""`auditor ledger` on bookies that cannot list, with listers that are complete, too early, silent,
stopped, or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import audit_ledgers
from support.listers import SandboxListers, listers_of_sandbox

from auditor.model.finding import Kind
from auditor.sandbox import cluster as notation
from auditor.sandbox.bookie import LedgerFault
from auditor.sandbox.cluster import SandboxCluster

LEDGER, OTHER = 7, 8
METADATA = "e3 w2 a2 0:[b1 b2 b3] closed 299"
MIDDLE = {"b1": "150", "b2": "150", "b3": "150"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SandboxCluster]:
    """Yield three bookies that cannot list. Tests place the ledgers."""
    with SandboxCluster(
        tmp_path / "cluster", bookies=3, named=True, storage="DbLedgerStorage"
    ) as cluster:
        yield cluster


@pytest.fixture
def listers(cluster: SandboxCluster, tmp_path: Path) -> Iterator[SandboxListers]:
    with listers_of_sandbox(cluster, tmp_path) as listers:
        yield listers


def place(
    cluster: SandboxCluster,
    listers: SandboxListers,
    ledger_id: int,
    lose: dict[str, str] | None = None,
) -> None:
    """Put the ledger on the bookies and into their indexes."""
    metadata = cluster.ledger(METADATA)
    cluster.place(ledger_id, metadata, lose)
    listers.place(ledger_id, metadata, lose)


def test_one_lost_entry_is_found_and_a_sound_ledger_is_sound(
    cluster: SandboxCluster, listers: SandboxListers
) -> None:
    """Lists decide: no copy is assumed."""
    place(cluster, listers, LEDGER, MIDDLE)
    place(cluster, listers, OTHER)
    said = audit_ledgers(cluster, [LEDGER, OTHER], lister_map=str(listers.map))
    assert ["violated", "sound"] == said.standings(LEDGER, OTHER)
    assert (Kind.ENTRY_WITHOUT_REPLICA, [[150, 150]]) == (
        Kind(said.one(LEDGER)["kind"]),
        said.one(LEDGER)["entries"],
    )
    assert (2, 0, 0) == (
        said.summary["assurance"]["listed"],
        said.summary["assurance"]["probed"],
        said.summary["copies"]["assumed"],
    )


def test_a_ledger_that_is_not_flushed_is_no_loss(
    cluster: SandboxCluster, listers: SandboxListers
) -> None:
    """Its entries can be read: it is probed, as without listers."""
    metadata = cluster.ledger(METADATA)
    cluster.place(LEDGER, metadata)
    listers.place(LEDGER, metadata, {"b1": "200-299", "b2": "0-299", "b3": "100-299"})
    said = audit_ledgers(cluster, [LEDGER], lister_map=str(listers.map))
    assert ["sound"] == said.standings(LEDGER)
    assert 1 == said.summary["assurance"]["probed"]


def test_an_entry_that_only_the_index_lost_is_no_loss(
    cluster: SandboxCluster, listers: SandboxListers
) -> None:
    """The bookie serves the entry, so it is a copy."""
    metadata = cluster.ledger(METADATA)
    cluster.place(LEDGER, metadata)
    listers.place(LEDGER, metadata, {"b2": "151"})
    said = audit_ledgers(cluster, [LEDGER], lister_map=str(listers.map))
    assert (["sound"], []) == (said.standings(LEDGER), said.findings)


def test_a_lister_that_lies_makes_its_lists_unknown(
    cluster: SandboxCluster, listers: SandboxListers
) -> None:
    """With an old copy of the index it lists what the bookie has lost. All ledgers that it lists
    are unknown, and not lost.
    """
    for ledger_id in (LEDGER, OTHER):
        place(cluster, listers, ledger_id)
    cluster.bookie("b2").hold(LEDGER, [(1000, 1000)])
    said = audit_ledgers(cluster, [LEDGER, OTHER], lister_map=str(listers.map))
    assert ["indeterminate: answer_invalid"] * 2 == said.standings(LEDGER, OTHER)


def test_a_lister_that_lied_at_one_look_is_not_believed_at_the_next(
    cluster: SandboxCluster, listers: SandboxListers
) -> None:
    """A second look draws another entry, which may be present."""
    place(cluster, listers, LEDGER)
    cluster.bookie("b2").hold(LEDGER, [(1000, 1000)])
    said = audit_ledgers(
        cluster,
        [LEDGER],
        lister_map=str(listers.map),
        between=lambda _: cluster.bookie("b2").hold(
            LEDGER, notation.placement(cluster.ledger(METADATA), None)["b2"]
        ),
    )
    assert ["indeterminate: answer_invalid"] == said.standings(LEDGER)


def test_a_ledger_that_a_bookie_lost_though_its_index_has_it_is_found(
    cluster: SandboxCluster, listers: SandboxListers
) -> None:
    """The bookie says ENOLEDGER: what its lister lists of that ledger does not count."""
    place(cluster, listers, LEDGER)
    cluster.bookie("b2").forget(LEDGER)
    said = audit_ledgers(cluster, [LEDGER], lister_map=str(listers.map))
    assert (["violated"], Kind.ENTRY_BELOW_ACK_QUORUM) == (
        said.standings(LEDGER),
        Kind(said.one(LEDGER)["kind"]),
    )


def test_a_lister_that_ends_between_the_looks_withholds_nothing(
    cluster: SandboxCluster, listers: SandboxListers
) -> None:
    """The second look probes what the first look listed: the loss is found, and nothing else is
    reported.
    """
    place(cluster, listers, LEDGER, {**MIDDLE, "b1": ""})
    place(cluster, listers, OTHER)
    said = audit_ledgers(
        cluster,
        [LEDGER, OTHER],
        lister_map=str(listers.map),
        between=lambda _: [listers.stop(b) for b in ("b1", "b2", "b3")],
    )
    assert ["violated", "sound"] == said.standings(LEDGER, OTHER)
    assert [[150, 150]] == said.one(LEDGER)["entries"]


def test_without_an_answer_bookies_are_probed(
    cluster: SandboxCluster, listers: SandboxListers
) -> None:
    """A stopped lister costs only the lists of its bookie."""
    place(cluster, listers, LEDGER)
    listers.stop("b2")
    said = audit_ledgers(cluster, [LEDGER], lister_map=str(listers.map))
    assert ["sound"] == said.standings(LEDGER)
    assert ["b1", "b3"] == sorted(said.verdicts[LEDGER].report["listed_by"])
    assert ["b2"] == said.summary["assurance"]["bookies_unable"]


def test_a_lister_that_lies_at_the_second_look_takes_back_the_first(
    cluster: SandboxCluster, listers: SandboxListers
) -> None:
    """Its earlier lists no longer count: a ledger that they showed to be sound is unknown."""
    place(cluster, listers, LEDGER, {"b1": "150"})
    place(cluster, listers, OTHER)
    said = audit_ledgers(
        cluster,
        [LEDGER, OTHER],
        lister_map=str(listers.map),
        between=lambda _: cluster.bookie("b2").hold(LEDGER, [(1000, 1000)]),
    )
    assert "indeterminate: answer_invalid" == said.standings(OTHER)[0]
    assert "sound" not in said.standings(LEDGER)


def test_copies_in_a_missing_entry_log_are_unknown(
    cluster: SandboxCluster, listers: SandboxListers
) -> None:
    """The lister omits them, and the bookie answers reads with EIO: that does not prove absence."""
    place(cluster, listers, LEDGER)
    place(cluster, listers, OTHER)
    listers.index["b2"].put(LEDGER, range(100, 150), log=5)
    (listers.index["b2"].logs / "5.log").unlink()
    cluster.fault("b2", LEDGER, LedgerFault.EIO)
    said = audit_ledgers(cluster, [LEDGER, OTHER], lister_map=str(listers.map))
    assert ["indeterminate: bookie_refused", "sound"] == said.standings(LEDGER, OTHER)
    assert [] == said.findings
