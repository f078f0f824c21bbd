"""Find out before an audit whether any bookie accepts our certificates and logins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from auditor.bookie.client import AsyncLane
from auditor.config import BookieLimits
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord

GREETED_AT_ONCE = 16
"""Bookies asked at a time. Hundreds that refuse then take seconds instead of minutes, and one file
descriptor each is affordable.
"""


async def refusal_of_all(
    bookies: Iterable[BookieRecord], limits: BookieLimits, now_ms: Callable[[], int]
) -> str:
    """Return a sentence if every bookie that can be dialled refuses us, and at least one does; else
    "".

    Asks one bookie, and GREETED_AT_ONCE at a time after it, until one does not refuse. Costs one
    connection if all is well.
    """
    known = [bookie for bookie in bookies if bookie.host is not None and bookie.port is not None]
    if not known:
        return ""
    reasons: list[str] = []
    later = [known[at : at + GREETED_AT_ONCE] for at in range(1, len(known), GREETED_AT_ONCE)]
    for group in (known[:1], *later):
        greeted = await asyncio.gather(*(_greet(bookie, limits, now_ms) for bookie in group))
        if any(greeting is not Greeting.REFUSED for greeting, _ in greeted):
            return ""
        reasons += [
            f"{bookie.bookie_id}: {why}" for bookie, (_, why) in zip(group, greeted, strict=True)
        ]
    every = f"all {len(known)} bookies refuse" if len(known) > 1 else "the only bookie refuses"
    return (
        f"{every} this client, so that nothing can be audited ({reasons[0]}). `auditor doctor` asks"
        " each of them"
    )


async def _greet(
    bookie: BookieRecord, limits: BookieLimits, now_ms: Callable[[], int]
) -> tuple[Greeting, str]:
    assert bookie.host is not None, "only bookies that can be dialled are asked"
    assert bookie.port is not None
    lane = AsyncLane(bookie.bookie_id, bookie.host, bookie.port, limits, 0, now_ms)
    try:
        return await lane.greet()
    finally:
        await lane.close()
