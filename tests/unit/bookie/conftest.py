"""Pauses after a lost connection are for bookies, not for tests."""

import pytest

from auditor.bookie import exchange


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Milliseconds instead of tenths of a second; what doubles, still doubles."""
    monkeypatch.setattr(exchange, "SETBACK_WAIT_S", 0.002)
    monkeypatch.setattr(exchange, "SETBACK_WAIT_MAX_S", 0.02)
