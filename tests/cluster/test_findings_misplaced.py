"""Entries that a writer sent to the old ensemble after an ensemble change, on real bookies and in
the sandbox.
"""

from __future__ import annotations

import pytest
from support.audits import Outcome, accounted, audit
from support.either_cluster import EITHER, cluster_of, hold_more

from auditor.model.finding import Kind
from auditor.witness.next_commands import sort_steps

MISPLACED, ELSEWHERE, SWAPPED, PARTLY = 7, 8, 9, 10
HINT = "Copies lie at the same positions of the segment from entry 0"


@pytest.fixture(scope="module", params=EITHER)
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    with cluster_of(request.param, tmp_path_factory.mktemp("misplaced"), 5) as cluster:
        lost = {"b3": "10-14", "b4": "10-14"}
        for ledger_id in (MISPLACED, ELSEWHERE):
            text = "e2 w2 a2 0:[b1 b2] 10:[b3 b4] closed 19"
            cluster.place(ledger_id, cluster.ledger(text), lost)
        for bookie in ("b1", "b2"):
            hold_more(cluster, bookie, MISPLACED, "10-14")
        hold_more(cluster, "b5", ELSEWHERE, "10-14")
        text = "e2 w1 a1 0:[b1 b2] 10:[b3 b4] closed 19"
        cluster.place(SWAPPED, cluster.ledger(text), {"b3": "12"})
        hold_more(cluster, "b2", SWAPPED, "12")
        text = "e2 w2 a2 0:[b1 b2] 10:[b1 b4] closed 19"
        cluster.place(PARTLY, cluster.ledger(text), {"b4": "10-14"})
        hold_more(cluster, "b2", PARTLY, "10-14")
        return accounted(audit(cluster, tmp_path_factory.mktemp("run")))


def test_entries_that_went_to_the_old_members_have_the_hint(outcome: Outcome) -> None:
    """Corrected metadata brings them back."""
    found = outcome.one(MISPLACED)
    assert Kind.ENTRY_WITHOUT_REPLICA.value == found["kind"]
    assert f"{HINT}: b1 in place of b3 and b2 in place of b4." in found["witness"]
    save, change = sort_steps(found["next"]).save, sort_steps(found["next"]).change
    assert f"bookkeeper shell ledgermetadata -l 7 -dumptofile ledger-{MISPLACED}.metadata" in save
    assert ["bookkeeper shell ledgermetadata -l 7 -restorefromfile CORRECTED -update"] == change


def test_one_member_that_was_not_replaced_has_the_hint(outcome: Outcome) -> None:
    """The other copy is where it belongs."""
    found = outcome.one(PARTLY)
    assert Kind.ENTRY_BELOW_ACK_QUORUM.value == found["kind"]
    assert f"{HINT}: b2 in place of b4." in found["witness"]


@pytest.mark.parametrize("ledger_id", [ELSEWHERE, SWAPPED])
def test_copies_at_other_positions_are_no_hint(outcome: Outcome, ledger_id: int) -> None:
    """They are on a bookie of no segment, or at another position of the segment before."""
    found = outcome.one(ledger_id)
    assert HINT not in found["witness"]
    assert "restorefromfile" not in " ".join(found["next"])
