"""Listers beside real DbLedgerStorage bookies of each release, whose RocksDB writes other formats.

`test_listed_by_listers` has more on the newest release.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import audit_ledgers
from support.bookies_under_test import real_bookie
from support.contract_of_listers import (
    CASES_OF_LISTERS,
    RealListerUnderTest,
    check_lister,
    lists_of_java_client,
)
from support.listers import await_listed, lister_command, listers_of
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.long]

SOUND, HIT, LAST = 610, 611, 612
METADATA = "e3 w2 a2 0:[b1 b2 b3] closed 299"
MIDDLE = {"b1": "150", "b2": "150", "b3": "150"}


@pytest.mark.parametrize("version", ["4.14.7", "4.16.6"])
def test_a_lost_entry_is_found_and_nothing_else_is(version: str, tmp_path: Path) -> None:
    """Lists of whole ledgers show it, also after a bookie was ended in an orderly way and
    restarted.
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


@pytest.fixture(scope="module", params=["4.14.7", "4.16.6", "4.17.2"])
def lister(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealListerUnderTest]:
    """A lister beside a bookie that flushes what it was given within half a second."""
    version = str(request.param)
    with RealCluster(
        tmp_path_factory.mktemp("lister"),
        bookies=1,
        storage="DbLedgerStorage",
        settings={"flushInterval": 500},
        bookie_version=version,
    ) as cluster:
        configuration = cluster.directory("b1") / "bookie.conf"
        with lister_command("--bookkeeper-conf", str(configuration)) as where:
            host, port = where.rsplit(":", 1)
            yield RealListerUnderTest(
                f"lister-{version}", "DbLedgerStorage", host, int(port), cluster.address("b1")
            )


@pytest.mark.parametrize("name", CASES_OF_LISTERS)
def test_beside_a_bookie_of_any_release_a_lister_keeps_the_contract(
    lister: RealListerUnderTest, name: str
) -> None:
    """Where a bookie with SortedLedgerStorage answers, it answers the same."""
    check_lister(name, lister)


def test_the_java_client_has_the_same_lists_as_from_a_bookie_that_can_list(
    lister: RealListerUnderTest, shared_cluster: RealCluster
) -> None:
    """The lister's come from the index that a real bookie wrote."""
    expected = lists_of_java_client(real_bookie(shared_cluster, "sorted"))
    assert expected == lists_of_java_client(lister)
