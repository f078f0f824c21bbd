"""`auditor doctor` escapes what bookies and ZooKeeper answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.commands import doctor
from auditor.config import Layers, parse
from auditor.errors import StoreUnavailable
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.stop import StopRequest

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

    def newest_write(self, bookies: object) -> None:
        """Nothing was ever written."""

    def bookies(self, look: int, now_ms: object) -> list[BookieRecord]:
        return [BookieRecord(HOSTILE, 0, 0, Registration.WRITABLE, "h", 1)]


def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_store: Any) -> list[str]:
    monkeypatch.setattr(doctor, "open_store", open_store)
    monkeypatch.setattr(doctor, "_pulsar", lambda *given: ())
    flags = {"metadata_service_uri": "zk+hierarchical://h/r", "output": str(tmp_path)}
    context: Any = SimpleNamespace(
        settings=parse(Layers(flags=flags)), stop=StopRequest(), said=[], logger=None
    )
    context.say = context.said.append
    doctor.doctor(context)
    return "".join(context.said).splitlines(keepends=True)


def test_what_bookies_and_zookeeper_say_is_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot clear the screen nor forge a line."""

    async def greet(*given: object) -> list[tuple[Greeting, str]]:
        await asyncio.sleep(0)
        return [(Greeting.REFUSED, HOSTILE)]

    monkeypatch.setattr(doctor, "_greet_all", greet)
    printed = lines(tmp_path, monkeypatch, lambda *given: Store())
    assert any("(writable)" in line for line in printed)
    assert all(line[:-1].isprintable() for line in printed)


def test_a_refusal_of_zookeeper_is_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error may quote the server."""

    def refuse(*given: object) -> Store:
        raise StoreUnavailable(HOSTILE)

    (line,) = [one for one in lines(tmp_path, monkeypatch, refuse) if one.split()[1] == "zookeeper"]
    assert line.startswith("MISSING") and line[:-1].isprintable()
