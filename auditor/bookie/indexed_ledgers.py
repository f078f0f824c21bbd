"""Ask a bookie's lister for every ledger that its index has, page by page, on one connection."""

from __future__ import annotations

from array import array

from auditor.bookie.dialling import Dialler, Lost, Replies
from auditor.bookie.listers import LIST_TIMEOUT_MS, limits_of_lister
from auditor.config import BookieLimits
from auditor.errors import (
    BookieRefused,
    BookieUnreachable,
    MalformedAvailability,
    PeerProtocolError,
)
from auditor.wire.bookie_connection import Answered
from auditor.wire.frames import Status, status_name
from auditor.wire.ledger_pages import decode_page, encode_page_request
from auditor.wire.lister_fields import ListerIdentity

LEDGERS_MAX = 50_000_000
"""Ledgers of one bookie that are held: 8 bytes each. More are an error, and not cut off."""


async def indexed_ledgers(
    identity: ListerIdentity, address: tuple[str, int], limits: BookieLimits
) -> array[int]:
    """Return the ids of all ledgers in the index of the expected lister, ascending.

    What the bookie has not flushed is missing. Raises BookieUnreachable, BookieRefused, and
    LocalFault.
    """
    bounds = limits_of_lister(limits)
    replies = Replies(LIST_TIMEOUT_MS / 1000)
    link = await Dialler(address, bounds).open(replies)
    found: array[int] = array("q")
    first: int | None = 0
    try:
        while first is not None:
            _, frame = link.wire.ask_info(encode_page_request(first))
            link.send(frame)
            answer = await _next(replies)
            if answer.status != Status.EOK:
                raise BookieUnreachable(
                    f"{status_name(answer.status)}: its lister is in doubt, or the bookie does not"
                    " serve (see the lister's log)"
                )
            page = decode_page(answer.extra, identity, first)
            found.extend(page.ids)
            if len(found) > LEDGERS_MAX:
                raise BookieUnreachable(f"its lister names more than {LEDGERS_MAX:,} ledgers")
            first = page.next_id
    except (MalformedAvailability, PeerProtocolError, Lost) as error:
        raise BookieUnreachable(str(error)) from None
    finally:
        link.abort()
    return found


async def indexed_ledgers_or_why(
    identity: ListerIdentity, address: tuple[str, int], limits: BookieLimits
) -> array[int] | str:
    """Return the ids of all ledgers in the index, or why they are not known."""
    try:
        return await indexed_ledgers(identity, address, limits)
    except (BookieUnreachable, BookieRefused) as error:
        return str(error)


async def _next(replies: Replies) -> Answered:
    try:
        return await replies.next()
    except BookieUnreachable:
        raise BookieUnreachable(
            f"its lister named no ledgers within {LIST_TIMEOUT_MS / 1000:g} s"
        ) from None
