"""What a run would cost each bookie."""

from __future__ import annotations

from typing import NamedTuple


class BookieCost(NamedTuple):
    """The lists that a run would request from a bookie, and their bytes if no entry is missing."""

    bookie_id: str
    requests: int
    expected_bytes: int
