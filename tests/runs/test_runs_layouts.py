"""Laws of the whole run over every ledger manager, metadata format and form of list."""

from pathlib import Path

import pytest
from support.audits import accounted, audit

from auditor.model.finding import Kind
from auditor.sandbox.bookie import ListForm
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire.znode_paths import LedgerLayout

SHORT_IDS = (0, 9_999, 10_000, 123_456_789)
LONG_IDS = (2**31 - 2, 2**31 - 1, 2**31, 12_345_678_901, 2**53 + 1, 2**63 - 1)
IDS = {
    LedgerLayout.FLAT: (*SHORT_IDS, 2**31, 12_345_678_901),
    LedgerLayout.LEGACY_HIERARCHICAL: (*SHORT_IDS, 2**31 - 1),
    LedgerLayout.HIERARCHICAL: (*SHORT_IDS, *LONG_IDS),
    LedgerLayout.LONG_HIERARCHICAL: (*SHORT_IDS, *LONG_IDS),
}


@pytest.mark.parametrize(
    ("layout", "form"), list(zip(LedgerLayout, [*ListForm, *ListForm], strict=True))
)
def test_every_ledger_of_every_manager_gets_its_verdict(
    tmp_path: Path, layout: LedgerLayout, form: ListForm
) -> None:
    """Ids are at the limits of the layout, formats 1 to 3 alternate, and striped ledgers are listed
    as runs or as BP-34's groups. All are sound except the last one, which lacks one entry
    everywhere.
    """
    ids = IDS[layout]
    with SandboxCluster(tmp_path / "cluster", bookies=4, layout=layout, list_form=form) as cluster:
        for turn, ledger_id in enumerate(ids):
            metadata = cluster.ledger("e4 w2 a2  0:[b1 b2 b3 b4]  closed 999")
            lost = {"b1": "40", "b2": "40"} if ledger_id == ids[-1] else {}
            cluster.place(ledger_id, metadata, lose=lost, format_version=1 + turn % 3)
        outcome = accounted(audit(cluster, tmp_path))
    assert [Kind.ENTRY_WITHOUT_REPLICA] == outcome.kinds
    assert [[40, 40]] == outcome.one(ids[-1])["entries"]
    assert ["sound"] * (len(ids) - 1) == outcome.standings(*ids[:-1])
    assert len(ids) == outcome.summary["ledgers"]["listed"]
