"""Laws of whole runs about the basis of verdicts if a bookie cannot list what it holds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers

from auditor.model.finding import Kind
from auditor.sandbox.bookie import LedgerFault, Storage
from auditor.sandbox.cluster import SandboxCluster

ON_B3, BESIDE, LOST_BESIDE, LOST_ON_B3, LOST_INSIDE = range(1, 11), 20, 21, 30, 40
PROBES = 3
ENDS = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a cluster: b3 cannot list; ledgers 1 to 10 are sound there; without it, 20 is sound and
    21 lost an entry.
    """
    storages = [Storage.SORTED, Storage.SORTED, Storage.DB]
    with SandboxCluster(
        tmp_path_factory.mktemp("cluster"), bookies=3, named=True, storage=storages
    ) as made:
        for ledger_id in ON_B3:
            made.place(ledger_id, made.ledger("e3 w3 a2  0:[b1 b2 b3]  closed 99"))
        made.place(BESIDE, made.ledger("e2 w2 a2  0:[b1 b2]  closed 99"))
        made.place(LOST_BESIDE, made.ledger("e2 w2 a1  0:[b1 b2]  closed 99"), lose={"b1": "4"})
        yield made


@pytest.fixture
def lost_on_b3(cluster: SandboxCluster) -> Iterator[SandboxCluster]:
    """Remove ledger 30 from b3."""
    cluster.place(
        LOST_ON_B3, cluster.ledger("e3 w3 a2  0:[b1 b2 b3]  closed 99"), lose={"b3": "0-99"}
    )
    yield cluster
    cluster.delete_ledger(LOST_ON_B3)


def flat(outcome: Outcome) -> str:
    return " ".join(outcome.stdout.split())


def test_the_summary_says_what_was_read_instead_of_listed(cluster: SandboxCluster, tmp_path: Path):
    """Both ends and three random entries of each ledger were read, and none was missing: the bound
    is three divided by their number.
    """
    outcome = accounted(
        audit(cluster, tmp_path, probe_entries=str(PROBES), probe_budget="0", rpc_timeout="1s")
    )
    probed, drawn = len(ON_B3), len(ON_B3) * PROBES
    expected = {
        "listed": 2, "probed": probed, "probes": drawn + ENDS * probed, "random_probes": drawn,
        "missing_bound": 3 / drawn,
        "probe_entries": PROBES, "bookies_unable": ["b3"],
    }  # fmt: skip
    assert expected == outcome.summary["assurance"]
    assert ["sound"] * probed == outcome.standings(*ON_B3)
    assert [(Kind.ENTRY_BELOW_WRITE_QUORUM, "listed")] == [
        (Kind(f["kind"]), f["assurance"]) for f in outcome.findings
    ]
    said = (
        "1 of 3 bookies gave no list of entries (as with DbLedgerStorage): 50 entries were"
        " read there instead, 30 of them drawn at random"
    )
    assert said in flat(outcome)
    assert outcome.run_dir is not None
    gauges = (outcome.run_dir / "metrics.prom").read_text()
    assert f'assurance_ledgers{{assurance="probed",cluster="{cluster.instance_id}"}} 10.0' in gauges


def test_what_a_probe_found_is_a_finding_and_ends_the_bound(
    lost_on_b3: SandboxCluster, tmp_path: Path
):
    """The finding says that it rests on probes."""
    outcome = accounted(audit(lost_on_b3, tmp_path, probe_budget="0", rpc_timeout="1s"))
    found = outcome.one(LOST_ON_B3)
    assert (Kind.ENTRY_BELOW_WRITE_QUORUM.value, "probed") == (found["kind"], found["assurance"])
    assert outcome.summary["assurance"]["missing_bound"] is None
    assert "no bound can be given" in flat(outcome)


def test_where_the_budget_reaches_every_entry_is_read(cluster: SandboxCluster, tmp_path: Path):
    """In a small cluster the budget reaches every entry: then nothing is assumed, and one lost
    entry is found.
    """
    cluster.place(
        LOST_INSIDE, cluster.ledger("e3 w3 a2  0:[b1 b2 b3]  closed 99"), lose={"b3": "40"}
    )
    outcome = accounted(audit(cluster, tmp_path, rpc_timeout="1s"))
    cluster.delete_ledger(LOST_INSIDE)
    assert [[40, 40]] == outcome.one(LOST_INSIDE)["entries"]
    assert (0, 1) == (outcome.summary["copies"]["assumed"], outcome.summary["sampling"]["step"])
    assert "every entry that such a bookie should hold was read" in flat(outcome)


def test_runs_go_on_where_earlier_ones_stopped(cluster: SandboxCluster, tmp_path: Path):
    """Two turns of every 16th entry leave no gap of 8: one of them finds ten lost entries, and both
    state the probability.
    """
    cluster.place(
        LOST_INSIDE, cluster.ledger("e3 w3 a2  0:[b1 b2 b3]  closed 99"), lose={"b3": "40-49"}
    )
    nights = [
        accounted(audit(cluster, tmp_path, probe_budget="200", probe_entries="1", rpc_timeout="1s"))
        for _ in range(2)
    ]
    cluster.delete_ledger(LOST_INSIDE)
    assert any(night.of(LOST_INSIDE) for night in nights)
    first, second = (night.summary["sampling"] for night in nights)
    assert (16, 16, {"1": 0.0625, "10": 0.625, "100": 1.0, "1000": 1.0}) == (
        first["step"],
        second["step"],
        second["bounds"],
    )
    assert (1, 2) == (first["accumulated"]["runs"], second["accumulated"]["runs"])
    assert {"1": 0.125, "10": 1.0, "100": 1.0, "1000": 1.0} == second["accumulated"]["bounds"]
    assert first["series"]["seed"] == second["series"]["seed"]
    assert "in the 2 counted runs since then, in ledgers that did not change" in flat(nights[1])


def test_without_probing_the_first_screen_says_what_is_not_judged(
    cluster: SandboxCluster, tmp_path: Path
):
    """It has INDETERMINATE(bookie_unsupported), and how to change that."""
    outcome = accounted(audit(cluster, tmp_path, probe_entries="0", rpc_timeout="1s"))
    assert {"indeterminate: bookie_unsupported"} == set(outcome.standings(*ON_B3))
    assert (0, None) == (
        outcome.summary["assurance"]["probed"],
        outcome.summary["assurance"]["missing_bound"],
    )
    assert (
        "10 ledgers are not judged, or not in full, on their account, because probing is off;"
        in flat(outcome)
    )


def test_single_ledgers_say_what_their_verdict_rests_on(cluster: SandboxCluster):
    """JSON and text have it for each ledger, and for all together."""
    outcome = audit_ledgers(cluster, [1, BESIDE], probe_entries=str(PROBES), rpc_timeout="1s")
    fields = [
        [outcome.verdicts[one].report[name] for name in ("assurance", "probes", "random_probes")]
        for one in (1, BESIDE)
    ]
    assert [["probed", ENDS + PROBES, PROBES], ["listed", 0, 0]] == fields
    assert (1, 1, ["b3"]) == tuple(
        outcome.summary["assurance"][name] for name in ("listed", "probed", "bookies_unable")
    )
    said = flat(
        audit_ledgers(cluster, [1], probe_entries=str(PROBES), rpc_timeout="1s", format="text")
    )
    assert (
        "1 bookie gave no list of entries (as with DbLedgerStorage): 5 entries were read there"
        " instead, 3 of them drawn at random" in said
    )
    assert (
        "assurance: probed" in said
        and "5 entries were read there instead, 3 of them drawn at random" in said
    )


def test_bookies_that_cannot_list_answered_this_host(tmp_path: Path):
    """In a cluster of Pulsar no bookie lists. One ledger is not answered in time; our network is
    not the reason.
    """
    with SandboxCluster(tmp_path / "cluster", 2, named=True, storage=Storage.DB) as made:
        for ledger_id in (1, 2, 3):
            made.place(ledger_id, made.ledger("e2 w2 a2  0:[b1 b2]  closed 9"))
        made.fault("b2", 3, LedgerFault.NEVER_ANSWERED)
        outcome = accounted(audit(made, tmp_path, rpc_timeout="1s"))
    assert ("INCOMPLETE", False) == (
        outcome.summary["outcome"],
        outcome.summary["nobody_answered"],
    )
    assert ["sound", "sound"] == outcome.standings(1, 2)
    assert (
        "INCOMPLETE: nothing wrong was found, but the result is not complete: 1 of 3 ledgers could"
        " not be judged."
    ) in flat(outcome)


def test_a_bookie_that_leaves_one_ledger_unanswered_is_said_to_have_done_that(tmp_path: Path):
    """Asked only about that ledger, it looks like a bookie that cannot list. It can, and no entry
    was read there.
    """
    with SandboxCluster(tmp_path / "cluster", 2, named=True) as made:
        made.place(1, made.ledger("e2 w2 a2  0:[b1 b2]  closed 9"), {"b1": "7"})
        made.fault("b2", 1, LedgerFault.NEVER_ANSWERED)
        text = flat(audit_ledgers(made, [1], format="text", rpc_timeout="500ms"))
    assert "1 bookie gave no list of entries (as with DbLedgerStorage): no entry could be" in text
    assert "A bookie of it gave no list, and no entry could be read there instead" in text
    assert "but not those about this ledger in time" in text
    assert "b2 gave no list and did not answer in time when it was read." in text
    assert "0 of their entries" not in text and "cannot list" not in text
