"""Puts `tests/` on the path, so that shared support is importable as `support.xyz`; and the one Spark session of all tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = str(Path(__file__).parent)
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """The one Spark session of the test run: starting one costs as much as a whole audit."""
    from auditor.stop import StopRequest
    from auditor.tables.session import spark_session

    with spark_session(6, "local[6,2]", StopRequest()) as session:
        yield session
