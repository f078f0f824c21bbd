"""The ids of ledgers, entries and bookies."""

from __future__ import annotations

import re
from typing import TypeAlias

LedgerId: TypeAlias = int
EntryId: TypeAlias = int
BookieId: TypeAlias = str

LEDGER_ID_MAX = 2**63 - 1
ENTRY_ID_MAX = 2**63 - 1

# The range ":-_" is BookKeeper's own (BookieId.java): it also allows ; < = > ? @ [ \ ] ^
_BOOKIE_ID = re.compile(r"[a-zA-Z0-9:-_.\-]+")


def is_bookie_id(text: str) -> bool:
    """Return whether BookKeeper accepts `text` as a bookie id (BookieId.java; not "readonly")."""
    return _BOOKIE_ID.fullmatch(text) is not None and text.lower() != "readonly"
