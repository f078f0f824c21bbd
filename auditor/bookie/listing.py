"""Can this bookie list at all? DbLedgerStorage never answers GET_LIST for a ledger it holds (wire-protocol reference, 6.2)."""

from __future__ import annotations

UNANSWERED_MIN = 3
"""Held ledgers that must go unanswered before a bookie counts as unable to list; all of them, if there are fewer."""


class ListingProof:
    """Counts over one conversation what tells a bookie that cannot list from one that is slow (contract, "Bookies").

    `asked` counts questions put to the lane, sent or not: a ledger not asked yet may be one that is answered. `has_listed`:
    it listed a ledger in an earlier conversation of the run, so that it can is settled. `losses_count`: a list counts as
    unanswered also where each connection that it was asked on ended. A storage that cannot list, on a bookie without read
    threads, ends it; so does a network for a while. So that counts from the second look on, when the first one failed too.
    """

    def __init__(self, *, has_listed: bool = False, losses_count: bool = True) -> None:
        self.asked = 0
        self.listed = int(has_listed)
        self.no_such_ledger = 0
        self.unanswered = 0
        self.lost = 0
        """Of those that went unanswered, how many because connections ended."""
        self._losses_count = losses_count

    def unable(self) -> bool:
        """To be asked when GET_BOOKIE_INFO has just been answered: has the bookie shown that it cannot list?

        No list came in the whole conversation (ENOLEDGER is none, an answer that came late is one), and of the ledgers it may
        hold at least three, or all, were asked for and not answered.
        """
        held = self.asked - self.no_such_ledger
        proven = self.unanswered if self._losses_count else self.unanswered - self.lost
        return self.listed == 0 and 0 < min(UNANSWERED_MIN, held) <= proven


def unable_text(unanswered: int, waited_s: float | None) -> str:
    """Say why a bookie counts as unable to list. `waited_s`: how long it was given, None for the whole time-out."""
    within = f" within {waited_s * 1000:.0f} ms" if waited_s is not None else ""
    return (
        f"GET_BOOKIE_INFO is answered, GET_LIST_OF_ENTRIES_OF_LEDGER is not{within} (asked for {unanswered} ledgers): "
        "this bookie's storage cannot list, as DbLedgerStorage cannot"
    )
