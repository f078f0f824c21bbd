"""Names of things: ledgers, entries, bookies."""

from __future__ import annotations

import re
from typing import TypeAlias

LedgerId: TypeAlias = int
EntryId: TypeAlias = int
BookieId: TypeAlias = str

LEDGER_ID_MAX = 2**63 - 1
ENTRY_ID_MAX = 2**63 - 1

# The range ":-_" is BookKeeper's own (BookieId.java) and really does allow ; < = > ? @ [ \ ] ^
_BOOKIE_ID = re.compile(r"[a-zA-Z0-9:-_.\-]+")


def is_bookie_id(text: str) -> bool:
    """Whether BookKeeper itself would accept `text` as a bookie id (BookieId.java; "readonly" is taken)."""
    return _BOOKIE_ID.fullmatch(text) is not None and text.lower() != "readonly"
