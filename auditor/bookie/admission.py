"""Find out before an audit whether any bookie accepts our certificates and logins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from auditor.bookie.lane import AsyncLane
from auditor.config import BookieLimits
from auditor.errors import BookieRefused, KdcUnreachable
from auditor.host_limits import sockets_affordable
from auditor.model.availability import NOT_DIALLED, Greeting
from auditor.model.cluster import BookieRecord

GREETED_AT_ONCE = 16
"""Bookies greeted at a time. Hundreds that refuse then take seconds instead of minutes."""


async def refusal_of_all(
    bookies: Iterable[BookieRecord], limits: BookieLimits, now_ms: Callable[[], int]
) -> BookieRefused | KdcUnreachable | None:
    """Return an error if no bookie can be asked: all refuse us, or no KDC answers for their logins.

    Return None if a bookie can be asked or is silent, or if no address is known.

    Greets one bookie, then GREETED_AT_ONCE at a time until one can be asked. Costs one connection
    if all is well. Stops after a group in which a bookie lacked a KDC: each further bookie would
    wait for the KDC again, 25 s if it is silent. Raises LocalFault if this host gives no socket.
    """
    at_once = sockets_affordable(GREETED_AT_ONCE)
    known = [bookie for bookie in bookies if bookie.host is not None and bookie.port is not None]
    refused: list[str] = []
    undialled: list[str] = []
    later = [known[at : at + at_once] for at in range(1, len(known), at_once)]
    for number, group in enumerate((known[:1], *later)):
        greeted = await asyncio.gather(*(_greet(bookie, limits, now_ms) for bookie in group))
        for bookie, (greeting, detail) in zip(group, greeted, strict=True):
            if detail.startswith(NOT_DIALLED):
                undialled.append(f"{bookie.bookie_id}: {detail}")
            elif greeting is Greeting.REFUSED:
                refused.append(f"{bookie.bookie_id}: {detail}")
            else:
                return None
        if undialled and number:
            break
    return _error(len(known), refused, undialled)


def _error(
    known: int, refused: Sequence[str], undialled: Sequence[str]
) -> BookieRefused | KdcUnreachable | None:
    """Return the error to raise if no bookie can be asked, or None if there is no bookie."""
    if undialled:
        return KdcUnreachable(
            "without a Kerberos ticket no bookie can be asked, so that nothing can be audited"
            f" ({undialled[0]}). Run again when the KDC answers; `auditor doctor` asks each bookie"
        )
    if refused:
        every = f"all {known} bookies refuse" if known > 1 else "the only bookie refuses"
        return BookieRefused(
            f"{every} this client, so that nothing can be audited ({refused[0]}). `auditor doctor`"
            " asks each of them"
        )
    return None


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
