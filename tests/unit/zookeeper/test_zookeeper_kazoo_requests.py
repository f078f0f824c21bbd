"""What a request to ZooKeeper reads."""

from __future__ import annotations

import pytest
from kazoo.protocol.serialization import GetChildren, GetData, Sync

from auditor.zookeeper.multi_read import GET_DATA, MultiRead, Request, count_znodes


@pytest.mark.parametrize(
    ("request_", "znodes"),
    [
        (GetData("/a", None), 1),
        (GetChildren("/a", None), 1),
        (MultiRead(GET_DATA, ["/a", "/b", "/c"]), 3),
        (Sync("/a"), 0),
    ],
    ids=["data", "children", "batch", "sync"],
)
def test_a_request_counts_the_znodes_it_reads(request_: Request, znodes: int) -> None:
    """A batch counts each of its paths; a sync reads nothing."""
    assert znodes == count_znodes(request_)
