"""`auditor doctor` escapes what bookies and ZooKeeper answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.commands import doctor
from auditor.config import Layers, parse
from auditor.errors import StoreUnavailable
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.scrub import Candidate, ScrubPass, ScrubReport, Suspicion
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


PASS = ScrubPass(0, 3_600_000, 3, 0, 0, 900, 1_000, 1_234, 1_230, 3, 1, 2)
WHOLE = (
    "the pass from 1970-01-01T00:00:00.000Z to 1970-01-01T01:00:00.000Z read 1,234 entries in 3"
    " logs: 1,230 with a right digest, 1 with a wrong one, 3 not checkable"
)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (ScrubReport(5), "no pass has begun"),
        (
            ScrubReport(5, None, ScrubPass(0, read_bytes=900, total_bytes=1_000)),
            "the pass since 1970-01-01T00:00:00.000Z has read 900 of 1,000 bytes",
        ),
        (ScrubReport(5, PASS), WHOLE),
        (
            ScrubReport(5, PASS, None, (Candidate(7, 1, Suspicion.DIGEST),)),
            f"{WHOLE}; it names 1 entry for the next run to read",
        ),
        (
            ScrubReport(5, replace(PASS, damaged_logs=1, unlisted=2)),
            f"{WHOLE}; 1 log could not be read to the end; 2 directories could not be listed to the"
            " end",
        ),
    ],
    ids=["nothing", "first pass", "pass", "candidate", "damage"],
)
def test_what_a_scrub_reported_is_a_phrase(report: ScrubReport, words: str) -> None:
    assert words == doctor.scrub_words(report)
