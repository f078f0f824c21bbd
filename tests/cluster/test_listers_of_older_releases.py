"""Listers beside real DbLedgerStorage bookies of each release, whose RocksDB writes other formats.

`test_listed_by_listers` has more on the newest release, `test_versions` an audit of each.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.bookies_under_test import real_bookie
from support.contract_of_listers import (
    CASES_OF_LISTERS,
    RealListerUnderTest,
    check_lister,
    lists_of_java_client,
)
from support.listers import lister_command
from support.real_cluster import RealCluster

pytestmark = [pytest.mark.real, pytest.mark.long]


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
        version=version,
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
