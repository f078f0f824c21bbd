"""A ledger that ends with entry 9, and variants above whose end nothing is found: both checkers
are tried on them.
"""

from __future__ import annotations

from dataclasses import replace

from auditor.model.ledger import LedgerState
from auditor.sandbox.notation import ledger

WHOLE = ledger("e3 w2 a2 0:[b1 b2 b3] closed 9")
NOTHING_BEYOND = (
    replace(WHOLE, state=LedgerState.OPEN),
    replace(WHOLE, last_entry_id=None),
    replace(WHOLE, segments=()),
    replace(WHOLE, ack_quorum=0),
    replace(WHOLE, last_entry_id=12),
)
"""The end is not known, nobody is asked about it, or two bookies list nothing above it."""
