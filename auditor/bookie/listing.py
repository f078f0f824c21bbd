"""Decide whether a bookie can list at all.

DbLedgerStorage never answers GET_LIST for a ledger that it holds (wire-protocol reference, 6.2).
"""

from __future__ import annotations

UNANSWERED_MIN = 3
"""Lists of held ledgers that must go unanswered before a bookie counts as unable to list. All of
them, if there are fewer."""


class ListingProof:
    """Counts that distinguish a bookie that cannot list from a slow one (contract, "Bookies").

    They cover one conversation. `asked` counts lists that the lane was given, sent or not: one not
    sent yet may still be answered. `has_listed`: the bookie listed a ledger in an earlier
    conversation of the run, so it can list. `losses_count`: a list also counts as unanswered when
    every connection on which it was sent was lost. A bookie without read threads ends the
    connection if its storage cannot list, but so does a network fault. Losses therefore count only
    from the second look on, if the first look failed too.
    """

    def __init__(self, *, has_listed: bool = False, losses_count: bool = True) -> None:
        self.asked = 0
        self.listed = int(has_listed)
        self.no_such_ledger = 0
        self.unanswered = 0
        self.lost = 0
        """How many of the unanswered lists had every connection lost."""
        self._losses_count = losses_count

    def unable(self) -> bool:
        """Return whether the bookie has shown that it cannot list.

        Call this only when GET_BOOKIE_INFO has just been answered. It has shown this if no list
        came in the whole conversation, and lists of at least three ledgers that it may hold, or of
        all, went unanswered. A late list counts as one that came, ENOLEDGER does not.
        """
        held = self.asked - self.no_such_ledger
        proven = self.unanswered if self._losses_count else self.unanswered - self.lost
        return self.listed == 0 and 0 < min(UNANSWERED_MIN, held) <= proven


def unable_text(unanswered: int, waited_s: float | None) -> str:
    """Return why a bookie counts as unable to list.

    `waited_s`: how long we waited, in seconds; None for the whole time-out.
    """
    within = f" within {waited_s * 1000:.0f} ms" if waited_s is not None else ""
    return (
        f"GET_BOOKIE_INFO is answered, GET_LIST_OF_ENTRIES_OF_LEDGER is not{within} (asked for"
        f" {unanswered} ledgers): this bookie's storage cannot list, as DbLedgerStorage cannot"
    )
