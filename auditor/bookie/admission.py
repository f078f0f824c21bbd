"""Finds out before an audit whether any bookie accepts our certificates and logins."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from auditor.bookie.client import AsyncLane
from auditor.config import BookieLimits
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord


async def refusal_of_all(bookies: Iterable[BookieRecord], limits: BookieLimits, now_ms: Callable[[], int]) -> str:
    """Return a sentence if every bookie that can be dialled refuses us, and at least one does; else "".

    Asks one bookie after the other, until one does not refuse. Costs one connection if all is well.
    """
    refused = 0
    first = ""
    for bookie in bookies:
        if bookie.host is None or bookie.port is None:
            continue
        lane = AsyncLane(bookie.bookie_id, bookie.host, bookie.port, limits, 0, now_ms)
        try:
            greeting, detail = await lane.greet()
        finally:
            await lane.close()
        if greeting is not Greeting.REFUSED:
            return ""
        refused += 1
        first = first or f"{bookie.bookie_id}: {detail}"
    if not refused:
        return ""
    every = f"all {refused} bookies refuse" if refused > 1 else "the only bookie refuses"
    return f"{every} this client, so that nothing can be audited ({first}). `auditor doctor` asks each of them"
