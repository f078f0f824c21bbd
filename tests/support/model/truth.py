"""The truth of the model: what a small cluster really holds, and what an audit of it owes.

Everything is spelled out entry by entry with sets and loops. Nothing is taken from the product but the words of its catalogue,
so that a wrong formula there can't be right here too. Time is the model's own, in minutes; nothing moves it but the action
`time`. Nothing changes while an audit runs, so what an audit owes is exact: the same kinds, the same entries, no more, no less.
Where an audit is cut down and goes on later, `across.py` says what it owes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

BOOKIES = ("b1", "b2", "b3", "b4", "b5", "b6")
GRACE_MINUTES = 60
"""How long a mark excuses. Time moves in steps of 25 minutes, so no age is ever near it, or near STUCK_MINUTES."""
STUCK_MINUTES = 120
"""How long a ledger may be open."""
ENTRIES_MAX = 32
"""Entries of one ledger: few enough that a finding shows all its ranges and that all lost ones are looked for elsewhere."""

OPEN, IN_RECOVERY, CLOSED = "OPEN", "IN_RECOVERY", "CLOSED"
BYTES, ENDLESS = "bytes", "endless"
"""What may be wrong with a znode: bytes that nobody can decode; closed, and without its last entry."""
WRITABLE, READONLY, UNREGISTERED = "writable", "readonly", ""
UNTOLD, HALF, WRITTEN = "untold", "half", "written"
LEFT = (UNTOLD, HALF, WRITTEN)
"""What a stage leaves that is cut down: its whole table, of which the journal does not know; half of its files; all of it."""


@dataclass
class Bookie:
    """One bookie: where it is registered, whether anybody listens, whether it left a cookie, what it holds by ledger.

    A ledger that is a key is known to the bookie, also with no entry left.
    """

    registered: str = WRITABLE
    listens: bool = True
    cookie: bool = True
    holds: dict[int, set[int]] = field(default_factory=dict)

    @property
    def can_be_asked(self) -> bool:
        return self.listens and self.registered != UNREGISTERED

    def has(self, ledger: int, entry: int) -> bool:
        return entry in self.holds.get(ledger, ())


@dataclass
class Segment:
    """Entries from `first` on, and the bookies by position."""

    first: int
    ensemble: list[str]


@dataclass
class Ledger:
    """One ledger as its znode and its mark tell it. `written` counts the entries acknowledged so far."""

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

    def last_segment(self) -> Segment:
        return self.segments[-1]

    def write_set(self, segment: Segment, entry: int) -> list[str]:
        """Where an entry goes, copy by copy: the first to the position that the entry's id points to, the others behind it."""
        return [segment.ensemble[(entry + copy) % self.ensemble_size] for copy in range(self.write_quorum)]

    def segment_of(self, entry: int) -> Segment:
        return [segment for segment in self.segments if segment.first <= entry][-1]

    def names(self, bookie: str) -> bool:
        return any(bookie in segment.ensemble for segment in self.segments)

    def judged_entries(self) -> list[int]:
        """The entries that the metadata promises: none before it is closed, none where it can't be read; without a last entry
        all but those of the last segment."""
        if self.state != CLOSED or self.flaw == BYTES:
            return []
        return list(range(self.last_segment().first if self.flaw == ENDLESS else self.written))


class Told(NamedTuple):
    """A finding as far as the model owes it. `first`: of the segment; `missing`: what each bookie lacks."""

    kind: str
    first: int | None = None
    entries: tuple[int, ...] = ()
    missing: tuple[tuple[str, tuple[int, ...]], ...] = ()
    confirmed: int | None = None
    unknown: int | None = None


class Row(NamedTuple):
    """A verdict as far as the model owes it. Findings ascend by kind and segment."""

    standing: str
    exempt: str | None = None
    unknowns: tuple[str, ...] = ()
    findings: tuple[Told, ...] = ()

    def __str__(self) -> str:
        words = [self.standing, *([f"({self.exempt})"] if self.exempt else []), *self.unknowns]
        return " ".join([*words, *(f"\n    {_in_words(one)}" for one in self.findings)])


def _in_words(told: Told) -> str:
    parts = [told.kind, *([f"segment {told.first}"] if told.first is not None else [])]
    if told.entries:
        parts.append(f"entries {_short(told.entries)}")
    parts += [f"{bookie} lacks {_short(entries)}" for bookie, entries in told.missing]
    return ", ".join(parts) + (f", {told.confirmed} confirmed {told.unknown} unknown" if told.confirmed is not None else "")


def _short(entries: tuple[int, ...]) -> str:
    return " ".join(map(str, entries))


@dataclass
class Copies:
    """One entry: how many of its promised copies can't exist, how many are unknown, and where it surely lacks."""

    entry: int
    promised: int
    lost: int = 0
    unknown: int = 0
    unheard: int = 0
    """Of the unknown, those on bookies that are registered."""
    absent_on: list[str] = field(default_factory=list)

    @property
    def possible(self) -> int:
        return self.promised - self.lost

    @property
    def confirmed(self) -> int:
        return self.possible - self.unknown


@dataclass(frozen=True)
class Cut:
    """An audit that was cut down: at which of its stages, what of that one is left (`LEFT`), and how the cluster was then."""

    stage: int
    left: str
    cluster: Truth


@dataclass
class Truth:
    """The whole cluster. `now`: minutes since its history began; `cut`: the audit that may go on."""

    bookies: dict[str, Bookie]
    ledgers: dict[int, Ledger] = field(default_factory=dict)
    now: int = 0
    cut: Cut | None = None

    @classmethod
    def of(cls, bookies: Iterable[str] = BOOKIES) -> Truth:
        """All bookies up, and nothing on them."""
        return cls({name: Bookie() for name in bookies})

    def listed(self) -> list[int]:
        """The ledgers that have a znode."""
        return [number for number, ledger in self.ledgers.items() if not ledger.deleted]

    def owed(self, number: int) -> Row:
        """The verdict that an audit owes this ledger."""
        ledger = self.ledgers[number]
        if ledger.deleted:
            return Row("exempt", "deleted")
        copies = [self._copies(number, ledger, entry) for entry in ledger.judged_entries()]
        findings = sorted(self._findings(number, ledger, copies), key=lambda one: (one.kind, one.first or 0))
        # A bookie that is not registered is what a mark is for.
        unheard = any(one.unknown if ledger.marked_at is None else one.unheard for one in copies)
        unknowns = ("bookie_silent",) if unheard else ()
        exempt = _exempt(ledger)
        if any(one.kind != "LEDGER_STUCK" for one in findings):
            standing = "violated"
        elif unknowns:
            standing = "indeterminate"
        else:
            standing = "sound" if exempt is None else "exempt"
        return Row(standing, exempt, unknowns, tuple(findings))

    # What is true of one bookie

    def silent(self) -> set[str]:
        """The bookies that are `down`, of those that an audit has to ask."""
        return {name for number in self.listed() for name in self._due(self.ledgers[number])} & self.down()

    def down(self) -> set[str]:
        """The registered bookies at which nobody listens. An audit may ask any of them, for an entry that is lost elsewhere."""
        return {name for name, one in self.bookies.items() if one.registered != UNREGISTERED and not one.listens}

    def unnoticed(self) -> set[str]:
        """The bookies that are gone without a cookie, of those that unmarked ledgers need."""
        return {name for name in self.gone() if self.is_forgotten(name)}

    def gone(self) -> set[str]:
        """The bookies that are not registered, of those that unmarked ledgers need. One that left a cookie may be restarting:
        it depends on the time between two looks whether an audit tells that it is gone."""
        unmarked = [one for number in self.listed() if (one := self.ledgers[number]).marked_at is None]
        due = {name for ledger in unmarked for name in self._due(ledger)}
        return {name for name in due if self.bookies[name].registered == UNREGISTERED}

    def true_of_bookies(self) -> set[tuple[str, str]]:
        """All that an audit may say of bookies that are silent or gone, as (kind, bookie)."""
        silent = {("BOOKIE_SILENT_YET_REGISTERED", name) for name in self.down()}
        return silent | {("BOOKIE_LOST_UNNOTICED", name) for name in self.gone()}

    def owed_on_bookies(self) -> set[tuple[str, str]]:
        """All that it must say of them."""
        silent = {("BOOKIE_SILENT_YET_REGISTERED", name) for name in self.silent()}
        return silent | {("BOOKIE_LOST_UNNOTICED", name) for name in self.unnoticed()}

    def lacks_most(self, bookie: str) -> bool:
        """Of three ledgers at least it lacks more than half of what it should hold."""
        poor = 0
        for number in self.listed():
            ledger = self.ledgers[number]
            due = [e for e in ledger.judged_entries() if bookie in ledger.write_set(ledger.segment_of(e), e)]
            poor += 2 * sum(not self.bookies[bookie].has(number, entry) for entry in due) > len(due)
        return poor >= 3

    # What is true of one entry

    def is_forgotten(self, bookie: str) -> bool:
        """Neither registered nor known by a cookie: unless nobody has one, for then cookies tell nothing."""
        one = self.bookies[bookie]
        return one.registered == UNREGISTERED and not one.cookie and any(other.cookie for other in self.bookies.values())

    def _copies(self, number: int, ledger: Ledger, entry: int) -> Copies:
        found = Copies(entry, ledger.write_quorum)
        wanted = ledger.write_set(ledger.segment_of(entry), entry)
        for bookie in sorted(set(wanted)):
            found.lost += wanted.count(bookie) - 1
            if self.is_forgotten(bookie):
                found.lost += 1
                found.absent_on.append(bookie)
            elif not self.bookies[bookie].can_be_asked:
                found.unknown += 1
                found.unheard += self.bookies[bookie].registered != UNREGISTERED
            elif not self.bookies[bookie].has(number, entry):
                found.lost += 1
                found.absent_on.append(bookie)
        return found

    # What is true of one ledger

    def _findings(self, number: int, ledger: Ledger, copies: list[Copies]) -> Iterator[Told]:
        yield from self._on_metadata(ledger)
        age = None if ledger.marked_at is None else self.now - ledger.marked_at
        gone = [one for one in copies if one.possible == 0]
        if gone and age is not None:
            yield _told("UNDERREPLICATED_UNRECOVERABLE", ledger, copies, gone)
            return
        if age is not None and age > GRACE_MINUTES:
            yield Told("UNDERREPLICATED_BEYOND_GRACE")
        if age is not None and age <= GRACE_MINUTES:
            return
        yield from _duplicates(ledger)
        below_ack = [one for one in copies if one.possible < ledger.ack_quorum]
        below_write = [one for one in copies if one.possible < ledger.write_quorum]
        if gone:
            alive = all(self._is_elsewhere(number, ledger, one.entry) for one in gone)
            yield _told("ENTRY_ONLY_OUTSIDE_ENSEMBLE" if alive else "ENTRY_WITHOUT_REPLICA", ledger, copies, gone)
        elif below_ack:
            yield _told("ENTRY_BELOW_ACK_QUORUM", ledger, copies, below_ack)
        elif below_write:
            yield _told("ENTRY_BELOW_WRITE_QUORUM", ledger, copies, below_write)

    def _is_elsewhere(self, number: int, ledger: Ledger, entry: int) -> bool:
        """Alive on a bookie that can be asked and that the ledger's metadata names nowhere."""
        others = (one for name, one in self.bookies.items() if not ledger.names(name))
        return any(one.can_be_asked and one.has(number, entry) for one in others)

    def _on_metadata(self, ledger: Ledger) -> Iterator[Told]:
        if ledger.flaw:
            yield Told("METADATA_MALFORMED")
        elif ledger.state == OPEN and self.now - ledger.made_at > STUCK_MINUTES:
            yield Told("LEDGER_STUCK")

    def _due(self, ledger: Ledger) -> set[str]:
        """The bookies that should hold some entry of the ledger."""
        return {b for entry in ledger.judged_entries() for b in ledger.write_set(ledger.segment_of(entry), entry)}


def _exempt(ledger: Ledger) -> str | None:
    if ledger.marked_at is not None:
        return "marked_underreplicated"
    if ledger.flaw == BYTES:
        return None
    if ledger.state != CLOSED:
        return {OPEN: "open", IN_RECOVERY: "in_recovery"}[ledger.state]
    return "empty" if ledger.written == 0 and ledger.flaw != ENDLESS else None


def _told(kind: str, ledger: Ledger, copies: list[Copies], hit: list[Copies]) -> Told:
    """A finding on entries: those it is true of, what every bookie lacks, and the worst entry that lost a copy."""
    worst = min((one for one in copies if one.lost), key=lambda one: (one.possible, one.confirmed, one.entry))
    missing: dict[str, list[int]] = {}
    for one in copies:
        for bookie in one.absent_on:
            missing.setdefault(bookie, []).append(one.entry)
    return Told(
        kind,
        ledger.segment_of(worst.entry).first,
        tuple(one.entry for one in hit),
        tuple((bookie, tuple(entries)) for bookie, entries in sorted(missing.items())),
        worst.confirmed,
        worst.unknown,
    )


def _duplicates(ledger: Ledger) -> Iterator[Told]:
    """One for each segment with entries in which a bookie stands twice."""
    with_entries = {ledger.segment_of(entry).first for entry in ledger.judged_entries()}
    for segment in ledger.segments:
        if segment.first in with_entries and len(set(segment.ensemble)) < len(segment.ensemble):
            yield Told("ENSEMBLE_DUPLICATE_BOOKIE", segment.first)
