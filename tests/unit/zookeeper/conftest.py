"""A ZooKeeper in memory for one test, and no pause that is slept."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from support.zookeeper_in_memory import MemoryZooKeeper, zookeeper_in_memory

from auditor.zookeeper import session


@pytest.fixture
def server() -> Iterator[MemoryZooKeeper]:
    """A server that answers; a test stops it, or has it answer otherwise."""
    with zookeeper_in_memory() as in_memory:
        yield in_memory


@pytest.fixture(autouse=True)
def slept_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that a session would have slept, in seconds."""
    slept: list[float] = []
    monkeypatch.setattr(session, "time", SimpleNamespace(sleep=slept.append))
    return slept
