"""Listers beside DbLedgerStorage bookies of older releases, whose RocksDB writes other formats.

`test_listed_by_listers` has the newest release, and more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.audits import audit_ledgers
from support.listers import await_listed, listers_of
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.long]

SOUND, HIT, LAST = 610, 611, 612
METADATA = "e3 w2 a2 0:[b1 b2 b3] closed 299"
MIDDLE = {"b1": "150", "b2": "150", "b3": "150"}


@pytest.mark.parametrize("version", ["4.14.7", "4.16.6"])
def test_a_lost_entry_is_found_and_nothing_else_is(version: str, tmp_path: Path) -> None:
    """By lists of whole ledgers, also after a bookie has ended in good order and was started
    again.
    """
    with RealCluster(
        tmp_path / "cluster", bookies=3, storage="DbLedgerStorage", bookie_version=version
    ) as cluster:
        for ledger_id in (SOUND, HIT, LAST):
            cluster.place(ledger_id, cluster.ledger(METADATA), MIDDLE if ledger_id == HIT else None)
        cluster.end_bookie("b3")
        cluster.start_bookie("b3")
        with listers_of(cluster, tmp_path) as listers:
            for line in listers.read_text().splitlines():
                await_listed(line.split()[1], LAST)
            said = audit_ledgers(cluster, [SOUND, HIT, LAST], lister_map=str(listers))
    assert ["sound", "violated", "sound"] == said.standings(SOUND, HIT, LAST)
    found = said.one(HIT)
    assert (Kind.ENTRY_WITHOUT_REPLICA, [[150, 150]]) == (Kind(found["kind"]), found["entries"])
    assert {"b1", "b2", "b3"} == set(said.verdicts[SOUND].report["listed_by"])
    assert (3, 0) == (said.summary["assurance"]["listed"], said.summary["copies"]["assumed"])
