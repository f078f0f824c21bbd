"""The parts of the model's cluster: bookies, ledgers and the copies of their entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

BOOKIES = ("b1", "b2", "b3", "b4", "b5", "b6")
GRACE_MINUTES = 60
"""How long a mark excuses a loss. Time moves in steps of 25 minutes, so no age comes near it, or
near STUCK_MINUTES.
"""
STUCK_MINUTES = 120
"""How long a ledger may be open."""
ENTRIES_MAX = 32
"""Maximum entries of one ledger: few enough that a finding shows all its ranges and that all lost
ones are looked for elsewhere.
"""

OPEN, IN_RECOVERY, CLOSED = "OPEN", "IN_RECOVERY", "CLOSED"
BYTES, ENDLESS = "bytes", "endless"
"""Damage of a znode: bytes that cannot be decoded; closed, but without its last entry."""
WRITABLE, READONLY, UNREGISTERED = "writable", "readonly", ""
LISTED, READ = "listed", "read"
LACKS, GONE = "lacks", "gone"
AWAY, SILENT, REFUSED = "away", "silent", "refused"
WRONG_IDS, WRONG_DIGEST = "wrong ids", "wrong digest"
"""What an audit can find out about a copy: it exists, it cannot exist, or nothing is known of it.
"""
REMARKS = ("LEDGER_STUCK", "ENTRIES_BEYOND_END")
"""Kinds that do not change a standing."""


@dataclass
class Bookie:
    """One bookie: where it is registered, whether it listens, whether it left a cookie, and what it
    holds by ledger.

    It knows a ledger that is a key, even if no entry is left.
    """

    registered: str = WRITABLE
    listens: bool = True
    cookie: bool = True
    holds: dict[int, set[int]] = field(default_factory=dict)
    lists: bool = True
    """Whether it answers which entries of a ledger it holds. Reading works in any case."""
    wrong: dict[int, set[int]] = field(default_factory=dict)
    """Entries whose copy does not match its digest, if the bookie holds one."""
    mixed_up: set[int] = field(default_factory=set)
    """Ledgers of which it sends other entries than those requested."""
    refuses: bool = False
    """Whether it answers each request with an error status."""

    @property
    def can_be_asked(self) -> bool:
        """Whether it says what it holds, by a list or by reading."""
        return self.listens and self.registered != UNREGISTERED and not self.refuses

    def has(self, ledger: int, entry: int) -> bool:
        return entry in self.holds.get(ledger, ())

    def is_wrong(self, ledger: int, entry: int) -> bool:
        return entry in self.wrong.get(ledger, ())

    def can_read(self, ledger: int, entry: int) -> bool:
        """Return whether reading returns the entry that was written."""
        return (
            self.has(ledger, entry)
            and not self.is_wrong(ledger, entry)
            and ledger not in self.mixed_up
        )

    def store(self, ledger: int, entries: Iterable[int]) -> None:
        """Store good copies of these entries, in place of the present ones."""
        self.holds.setdefault(ledger, set()).update(entries)
        self.wrong.get(ledger, set()).difference_update(entries)

    def forget(self, ledger: int) -> None:
        """Forget the ledger."""
        self.holds.pop(ledger, None)
        self.wrong.pop(ledger, None)
        self.mixed_up.discard(ledger)

    def drop(self, ledger: int, entry: int) -> None:
        """Drop the copy of the entry, good or not."""
        self.holds.get(ledger, set()).discard(entry)
        self.wrong.get(ledger, set()).discard(entry)


@dataclass
class Segment:
    """Entries from `first` on, and the bookies by position."""

    first: int
    ensemble: list[str]


@dataclass
class Ledger:
    """One ledger as its znode and its mark describe it. `written` counts the entries acknowledged
    so far.
    """

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    segments: list[Segment]
    written: int = 0
    state: str = OPEN
    flaw: str = ""
    deleted: bool = False
    made_at: int = 0
    marked_at: int | None = None
    locked_by: str | None = None
    """The replication worker that is at work on it."""

    def last_segment(self) -> Segment:
        return self.segments[-1]

    def write_set(self, segment: Segment, entry: int) -> list[str]:
        """Return where an entry goes, copy by copy: the first to the position that the entry's id
        selects, the others to the next ones.
        """
        return [
            segment.ensemble[(entry + copy) % self.ensemble_size]
            for copy in range(self.write_quorum)
        ]

    def segment_of(self, entry: int) -> Segment:
        return [segment for segment in self.segments if segment.first <= entry][-1]

    def names(self, bookie: str) -> bool:
        return any(bookie in segment.ensemble for segment in self.segments)

    def segments_with_entries(self) -> list[Segment]:
        """The segments of which the metadata promises an entry."""
        firsts = {self.segment_of(entry).first for entry in self.judged_entries()}
        return [segment for segment in self.segments if segment.first in firsts]

    def judged_entries(self) -> list[int]:
        """Return the entries that the metadata promises: none while it is open, none if it is
        unreadable; without a last entry all but those of the last segment.
        """
        if self.state != CLOSED or self.flaw == BYTES:
            return []
        return list(range(self.last_segment().first if self.flaw == ENDLESS else self.written))


@dataclass
class Copies:
    """One entry: its write set, copy by copy, and what an audit can find out about each of its
    bookies.
    """

    entry: int
    write_set: list[str]
    words: dict[str, str]

    @property
    def bookies(self) -> list[str]:
        """The distinct bookies of the write set, in its order."""
        return list(dict.fromkeys(self.write_set))

    @property
    def absent_on(self) -> list[str]:
        return [bookie for bookie in self.bookies if self.words[bookie] in (GONE, LACKS)]

    @property
    def lost(self) -> int:
        """The number of promised copies that cannot exist. A bookie that occurs twice holds one
        copy.
        """
        return len(self.write_set) - len(self.bookies) + len(self.absent_on)

    @property
    def possible(self) -> int:
        return len(self.write_set) - self.lost

    @property
    def confirmed(self) -> int:
        return sum(self.words[bookie] in (LISTED, READ) for bookie in self.bookies)

    @property
    def unknown(self) -> int:
        return self.possible - self.confirmed


def worst_of(copies: list[Copies]) -> Copies:
    """Return the entry with the fewest possible copies, then the fewest confirmed ones, then the
    lowest id.
    """
    return min(
        (one for one in copies if one.lost),
        key=lambda one: (one.possible, one.confirmed, one.entry),
    )
