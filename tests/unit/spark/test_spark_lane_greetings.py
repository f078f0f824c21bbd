"""What greeting a bookie costs, as a lane writes it down."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.scripted_bookie import ScriptedBookie

from auditor.bookie import exchange
from auditor.config import BookieLimits
from auditor.spark.lane_tasks import list_asker
from auditor.spark.lanes import Directory

LIMITS = BookieLimits(
    rpc_timeout_ms=200, connect_timeout_ms=2_000, connect_attempts_max=2, deadline_ms=20_000
)


@contextmanager
def port_of(*, listens: bool) -> Iterator[int]:
    """A port on which connections are accepted, and nothing is ever answered; or on which none is
    accepted.
    """
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        if listens:
            held.listen()
        yield held.getsockname()[1]


def greetings(ports: dict[str, int]) -> dict[str, tuple[str, int]]:
    """How each bookie greeted us, and with how many requests."""
    directory = Directory(
        {bookie: ("127.0.0.1", port) for bookie, port in ports.items()}, frozenset()
    )
    batches = list_asker(directory, LIMITS, 1)(iter([directory.greetings()]))
    rows: list[dict[str, Any]] = [
        row for batch in batches for row in batch.to_pylist() if row["ledger_id"] is None
    ]
    return {row["bookie_id"]: (row["status"], row["requests"]) for row in rows}


def test_a_greeting_costs_the_requests_that_were_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """None where the bookie was never connected, however often that was tried."""
    monkeypatch.setattr(exchange, "SETBACK_WAIT_S", 0.002)
    with (
        ScriptedBookie({}) as bookie,
        port_of(listens=True) as silent,
        port_of(listens=False) as closed,
    ):
        found = greetings({"answers": bookie.port, "silent": silent, "closed": closed})
    assert {"answers": ("answered", 1), "silent": ("silent", 1), "closed": ("silent", 0)} == found
