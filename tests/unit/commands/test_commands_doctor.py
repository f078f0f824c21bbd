"""`auditor doctor` escapes what bookies and ZooKeeper answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.commands import doctor
from auditor.errors import StoreUnavailable
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, Registration

HOSTILE = "\x1b[2J\rok      bookie"


class Store:
    """A store with one bookie, whose id and answers are hostile."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *ended: object) -> None:
        """Nothing is open."""

    def cluster_facts(self) -> Any:
        return SimpleNamespace(
            hosts=("h",), root="/r", layout=HOSTILE, instance_id=HOSTILE, replication_disabled=False
        )

    def bookies(self, look: int, now_ms: object) -> list[BookieRecord]:
        return [BookieRecord(HOSTILE, 0, 0, Registration.WRITABLE, "h", 1)]


def lines(monkeypatch: pytest.MonkeyPatch, open_store: Any) -> list[str]:
    settings = SimpleNamespace(
        metadata_service_uri="zk+hierarchical://h/r",
        zookeeper_limits=lambda readers: None,
        lister_port=0,
        lister_map=None,
    )
    monkeypatch.setattr(doctor, "open_store", open_store)
    context: Any = SimpleNamespace(settings=settings)
    return list(doctor._cluster(context))


def test_what_bookies_and_zookeeper_say_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot clear the screen nor forge a line."""

    async def greet(*given: object) -> list[tuple[Greeting, str]]:
        await asyncio.sleep(0)
        return [(Greeting.REFUSED, HOSTILE)]

    monkeypatch.setattr(doctor, "_greet_all", greet)
    printed = lines(monkeypatch, lambda *given: Store())
    assert any("(writable)" in line for line in printed)
    assert all(line.isprintable() for line in printed)


def test_a_refusal_of_zookeeper_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error may quote the server."""

    def refuse(*given: object) -> Store:
        raise StoreUnavailable(HOSTILE)

    [line] = lines(monkeypatch, refuse)
    assert line.isprintable()
