"""Ask a lister for the ledgers in its index, page by page.

The request is GET_BOOKIE_INFO with one more field, which says where the page begins; the answer has
the page in the field of listers, beside the identity. A bookie ignores the field of the request,
and its answer has no page.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, NamedTuple

from auditor.errors import MalformedAvailability
from auditor.model.identity import LEDGER_ID_MAX, LedgerId
from auditor.wire.lister_fields import (
    IDENTITY_VERSION,
    ListerIdentity,
    decode_identity,
    with_lister_field,
)

LEDGERS_A_PAGE_MAX = 5_000
"""Ledgers of one directory in one answer: some 100 KB, and a tenth of a second of seeks."""
DIRECTORIES_MAX = 1_000
"""Most index directories that a bookie can have here. A page has the ledgers of all of them."""


class LedgerPage(NamedTuple):
    """Some ledgers of an index, ascending. `next_id` is where the next page begins, if any."""

    ids: tuple[LedgerId, ...]
    next_id: LedgerId | None


def encode_page_request(first: LedgerId) -> bytes:
    """Return the field of a request for the ledgers from `first` on."""
    return json.dumps({"lister": IDENTITY_VERSION, "ledgers_from": first}).encode()


def decode_page_request(data: bytes) -> LedgerId | None:
    """Return where the requested page begins; None if the field asks for no page."""
    try:
        words: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    first = words.get("ledgers_from") if isinstance(words, dict) else None
    return first if _is_id(first) and words.get("lister") == IDENTITY_VERSION else None


def with_page(frame: bytes, identity: ListerIdentity, page: LedgerPage) -> bytes:
    """Return an encoded response (with its length) that has a page, and says whose it is."""
    words = {
        "lister": IDENTITY_VERSION,
        "bookie_id": identity.bookie_id,
        "instance_id": identity.instance_id,
        "view_age_ms": identity.view_age_ms,
        "ledgers": page.ids,
        "next": page.next_id,
    }
    return with_lister_field(frame, json.dumps(words).encode())


def decode_page(data: bytes, expected: ListerIdentity, first: LedgerId) -> LedgerPage:
    """Return the page in the field of a response. Raises MalformedAvailability.

    The identity must be the expected one, and the ids ascending from `first` on.
    """
    found = decode_identity(data)
    if found is None:
        raise MalformedAvailability("what answers there is not a lister")
    if (found.bookie_id, found.instance_id) != (expected.bookie_id, expected.instance_id):
        raise MalformedAvailability(f"it is the lister of bookie {found.bookie_id[:200]}")
    words = json.loads(data)
    ids, next_id = words.get("ledgers"), words.get("next")
    if ids is None:
        raise MalformedAvailability("its lister is of a version that does not name its ledgers")
    if not isinstance(ids, list) or len(ids) > LEDGERS_A_PAGE_MAX * DIRECTORIES_MAX:
        raise MalformedAvailability("its lister names its ledgers in another form")
    ends = [*ids, *([] if next_id is None else [next_id])]
    if not all(map(_is_id, ends)) or any(a >= b for a, b in pairwise([first - 1, *ends])):
        raise MalformedAvailability("its lister names ledgers that are not in order")
    if next_id is not None and not ids:
        raise MalformedAvailability("its lister names no ledger, and more behind it")
    return LedgerPage(tuple(ids), next_id)


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value <= LEDGER_ID_MAX  # True is an int


def merge_pages(pages: list[LedgerPage]) -> LedgerPage:
    """Return the ledgers that the pages of all directories show completely, as one page."""
    more = [page.next_id for page in pages if page.next_id is not None]
    next_id = min(more, default=None)
    ids = sorted(i for page in pages for i in page.ids if next_id is None or i < next_id)
    return LedgerPage(tuple(ids), next_id)
