"""The requests of a greeting and the pace of a conversation, as a lane stores them in its rows."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from support.scripted_bookie import ScriptedBookie

from auditor.bookie import exchange
from auditor.config import BookieLimits
from auditor.evidence.rows import table
from auditor.stages.asking import WANTED, Directory, entry_reader, list_asker

LIMITS = BookieLimits(
    rpc_timeout_ms=20_000,
    bookie_connect_timeout_ms=2_000,
    bookie_connect_attempts=2,
    bookie_deadline_ms=20_000,
)


@contextmanager
def port_of(*, listens: bool) -> Iterator[int]:
    """Yield a port on which connections are accepted and nothing is ever answered, or on which none
    is accepted.
    """
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        if listens:
            held.listen()
        yield held.getsockname()[1]


def greetings(ports: dict[str, int], limits: BookieLimits = LIMITS) -> dict[str, tuple[str, int]]:
    """Return how each bookie greeted us, and after how many requests."""
    directory = Directory(
        {bookie: ("127.0.0.1", port) for bookie, port in ports.items()}, frozenset()
    )
    batches = list_asker(directory, limits, 1)(iter([directory.greetings()]))
    rows: list[dict[str, Any]] = [
        row for batch in batches for row in batch.to_pylist() if row["ledger_id"] is None
    ]
    return {row["bookie_id"]: (row["status"], row["requests"]) for row in rows}


def test_a_greeting_costs_the_requests_that_were_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bookie that was never connected costs no request, however often that was tried."""
    monkeypatch.setattr(exchange, "SETBACK_WAIT_S", 0.002)
    with (
        ScriptedBookie({}) as bookie,
        port_of(listens=True) as silent,
        port_of(listens=False) as closed,
    ):
        found = greetings({"answers": bookie.port, "closed": closed})
        found |= greetings({"silent": silent}, replace(LIMITS, rpc_timeout_ms=200))
    assert {"answers": ("answered", 1), "silent": ("silent", 1), "closed": ("silent", 0)} == found


def paces(batches: Iterable[pa.RecordBatch]) -> list[tuple[str, int | None]]:
    """Return the bookie of each row, and how many requests could be outstanding at its end."""
    return [
        (row["bookie_id"], row["pace"] and row["pace"]["inflight"])
        for batch in batches
        for row in batch.to_pylist()
    ]


def test_the_pace_of_a_conversation_stands_in_its_greeting_and_in_the_last_of_its_reads() -> None:
    """This holds for each batch. A bookie that was not dialled has no pace."""
    with ScriptedBookie({}) as bookie:
        where = {"b1": ("127.0.0.1", bookie.port), "b2": None}
        directory = Directory(where, frozenset())
        asked = list_asker(directory, LIMITS, 1)(iter([directory.greetings()]))
        assert [("b1", 64)] == [one for one in paces(asked) if one[0] == "b1"]
        read = entry_reader(directory, LIMITS, 1, None)  # type: ignore[arg-type]
        wanted = [("b1", 7, 0), ("b2", 7, 0), ("b1", 7, 1)]
        batch = table(WANTED, [(*one, None, False, False, False, False) for one in wanted])
        found = paces(read(iter([batch, batch])))
    assert [("b1", None), ("b1", 64), ("b2", None)] * 2 == found
