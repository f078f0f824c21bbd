"""An S3 server for all tests of a module, its address in the environment, and a bucket for each
test.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from support.s3_server import S3Server, s3_server

BUCKETS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture
def bucket(server: S3Server) -> Iterator[str]:
    """Yield an empty bucket."""
    name = f"audits-{next(BUCKETS)}"
    server.make_bucket(name)
    yield name
    server.keeps_conditions, server.is_out_of_order = True, False
