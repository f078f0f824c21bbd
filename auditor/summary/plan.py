"""What a run would cost the bookies."""

from __future__ import annotations

from typing import NamedTuple


class BookieCost(NamedTuple):
    """The lists a run would ask one bookie for, and the bytes they would take if everything is where it should be."""

    bookie_id: str
    requests: int
    expected_bytes: int
