"""A real bookie keeps the index file of each ledger that it lists open: what docs/operating.md
warns of before the first run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.raw_bookie import list_request, read_request
from support.real_cluster import RealCluster

pytestmark = [pytest.mark.real, pytest.mark.long]

LEDGERS = range(1, 201)
FILES_OPEN_MAX = 10
"""`openFileLimit`. BookKeeper keeps two caches: of this size, and of twice this size."""
CACHED_MAX = 3 * FILES_OPEN_MAX


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealCluster]:
    """Yield a bookie of this storage that was restarted after it had written LEDGERS."""
    with RealCluster(
        tmp_path, bookies=1, storage=request.param, settings={"openFileLimit": FILES_OPEN_MAX}
    ) as cluster:
        for ledger_id in LEDGERS:
            cluster.place(ledger_id, cluster.ledger("e1 w1 a1 0:[b1] closed 2"))
        cluster.stop_bookie("b1")
        cluster.start_bookie("b1")
        yield cluster


def index_files_open(home: Path) -> int:
    """Return how many index files below this directory are open in any process."""
    files = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            files.add(os.readlink(link))
    return sum(one.startswith(str(home)) and one.endswith(".idx") for one in files)


@pytest.mark.parametrize(
    "cluster",
    [
        "SortedLedgerStorage",
        "InterleavedLedgerStorage",
    ],
    indirect=True,
)
def test_each_listed_ledger_keeps_its_index_file_open(cluster: RealCluster, tmp_path: Path) -> None:
    """Reads keep as many open as the bookie is configured to. Lists keep every one; a second list
    of the same ledgers opens no more.
    """
    with cluster.connect("b1") as connection:
        for ledger_id in LEDGERS:
            answer = connection.ask(read_request(ledger_id, 0, connection.next_txn_id()))
            assert 0 == answer.status
        assert index_files_open(tmp_path) <= CACHED_MAX
        for _ in range(2):
            for ledger_id in LEDGERS:
                answer = connection.ask(list_request(ledger_id, connection.next_txn_id()))
                assert 0 == answer.status
            assert len(LEDGERS) == index_files_open(tmp_path)
