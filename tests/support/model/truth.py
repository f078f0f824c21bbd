"""The truth of the model: what a small cluster really holds, and what an audit of it owes.

Everything is spelled out entry by entry with sets and loops. Nothing is taken from the product but
the words of its catalogue, so a wrong formula of the product cannot hide here. Time is the model's
own, in minutes, and only the action `time` moves it. Nothing changes while an audit runs, so what
it owes is exact: the same kinds, the same entries, no more, no less. `across.py` says what an audit
owes that is killed and resumed later. `truth_of_bookies.py` has what is true of bookies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from support.model import truth_of_facts as facts_of
from support.model.rows import FindingRow, Row, flat
from support.model.state import (
    AWAY,
    BOOKIES,
    BYTES,
    CLOSED,
    GONE,
    GRACE_MINUTES,
    IN_RECOVERY,
    LACKS,
    LISTED,
    OPEN,
    READ,
    REFUSED,
    REMARKS,
    SILENT,
    STUCK_MINUTES,
    UNREGISTERED,
    WRONG_DIGEST,
    WRONG_IDS,
    Bookie,
    Copies,
    Ledger,
    worst_of,
)

UNRECORDED, HALF, WRITTEN = "unrecorded", "half", "written"
LEFT = (UNRECORDED, HALF, WRITTEN)
"""What a killed stage leaves: its whole table, which is not in the journal; half of its files; or
all of it.
"""


@dataclass(frozen=True)
class Cut:
    """A killed audit: the stage, what is left of that stage (`LEFT`), and the cluster at that
    time.
    """

    stage: int
    left: str
    cluster: Truth


@dataclass
class Truth:
    """The whole cluster. `now`: minutes since its history began; `cut`: the audit that may be
    resumed.
    """

    bookies: dict[str, Bookie]
    ledgers: dict[int, Ledger] = field(default_factory=dict)
    now: int = 0
    cut: Cut | None = None
    racks: dict[str, str] = field(default_factory=dict)
    """The rack of each bookie."""
    auditor: str = ""
    """The bookie that BookKeeper elected to look for lost bookies; "" if there is none."""
    replication_disabled: bool = False
    lost_bookie_recovery_delay_s: int | None = None
    is_real: bool = False
    """Whether the bookies are real ones, which can do less than those of the sandbox."""
    sample: int | None = None
    """Entries sampled on a bookie that cannot list, beside the ends of segments; None: all are
    read. The drawn ones are unknown, so with a sample no such bookie may lack anything.
    """
    around: Truth | None = None
    """The cluster whose switches and registered bookies an audit read; None: this one."""
    unable: frozenset[str] | None = None
    """The bookies that ledgers show to be unable to list; None: those of this cluster."""
    perhaps_served: frozenset[str] = frozenset()
    """Bookies that were registered at some look of an audit, though they are not in this state."""
    read_before: frozenset[int] = frozenset()
    """Entries that an audit read on other bookies before the cluster reached this state."""

    @classmethod
    def of(cls, bookies: Iterable[str] = BOOKIES, *, is_real: bool = False) -> Truth:
        """Return a cluster with all bookies up, each in a rack of its own, and nothing on them."""
        names = list(bookies)
        racks = {name: f"/r{number}" for number, name in enumerate(names, start=1)}
        return cls({name: Bookie() for name in names}, racks=racks, is_real=is_real)

    def listed(self) -> list[int]:
        """Return the ledgers that have a znode."""
        return [number for number, ledger in self.ledgers.items() if not ledger.deleted]

    def owed(self, number: int) -> Row:
        """Return the verdict that an audit owes this ledger."""
        ledger = self.ledgers[number]
        if ledger.deleted:
            return Row("exempt", "deleted")
        copies = [self._copies(number, ledger, entry) for entry in ledger.judged_entries()]
        findings = sorted(
            self._findings(number, ledger, copies), key=lambda one: (one.kind, one.first or 0)
        )
        unknowns = _unknowns(ledger, copies)
        unheard = facts_of.unheard_of_empty(self, number)
        if len(unheard) >= ledger.ack_quorum:
            unknowns = tuple(sorted({why for why in unheard.values() if why}, reverse=True))
        exempt = _exempt(ledger)
        if exempt is None and facts_of.is_shown_empty(self, number):
            exempt = "empty"
        if any(one.kind not in REMARKS for one in findings):
            standing = "violated"
        elif unknowns:
            standing = "indeterminate"
        else:
            standing = "sound" if exempt is None else "exempt"
        is_stale = ledger.marked_at is not None and facts_of.is_stale(self, number, copies)
        counts = facts_of.copy_counts(self, number, copies)
        return Row(standing, exempt, unknowns, tuple(findings), counts, is_stale)

    def read_elsewhere(self, number: int) -> frozenset[int]:
        """Return the entries without a copy for which an audit reads other bookies."""
        ledger = self.ledgers[number]
        copies = (self._copies(number, ledger, entry) for entry in ledger.judged_entries())
        return facts_of.read_elsewhere(self, number, [one for one in copies if one.possible == 0])

    # One entry

    def is_forgotten(self, bookie: str) -> bool:
        """Return whether the bookie has neither a registration nor a cookie. If no bookie has a
        cookie, cookies prove nothing.
        """
        one = self.bookies[bookie]
        return (
            one.registered == UNREGISTERED
            and not one.cookie
            and any(other.cookie for other in self.bookies.values())
        )

    def _copies(self, number: int, ledger: Ledger, entry: int) -> Copies:
        wanted = ledger.write_set(ledger.segment_of(entry), entry)
        return Copies(
            entry, wanted, {bookie: self.word(bookie, number, entry) for bookie in wanted}
        )

    def word(self, bookie: str, number: int, entry: int) -> str:
        """Return what an audit can find out about an entry on a bookie that should hold it."""
        one = self.bookies[bookie]
        if self.is_forgotten(bookie):
            return GONE
        if one.registered == UNREGISTERED:
            return AWAY
        if not one.listens:
            return SILENT
        if one.refuses:
            return REFUSED
        if not one.has(number, entry):
            return LACKS
        if one.lists:
            return LISTED
        if number in one.mixed_up:
            return WRONG_IDS
        return WRONG_DIGEST if one.is_wrong(number, entry) else READ

    # One ledger

    def _findings(self, number: int, ledger: Ledger, copies: list[Copies]) -> Iterator[FindingRow]:
        yield from self._on_metadata(number, ledger)
        age = None if ledger.marked_at is None else self.now - ledger.marked_at
        gone = [one for one in copies if one.possible == 0]
        if gone and age is not None:
            facts = {
                "entries": facts_of.entries(self, number, copies),
                "mark": facts_of.mark(self, number, copies),
            }
            yield _finding_row("UNDERREPLICATED_UNRECOVERABLE", ledger, copies, gone, facts)
            return
        if age is not None and age > GRACE_MINUTES:
            yield FindingRow(
                "UNDERREPLICATED_BEYOND_GRACE", facts=flat(facts_of.mark(self, number, copies))
            )
        is_excused = age is not None and age <= GRACE_MINUTES
        if not is_excused:
            yield from self._on_ensembles(ledger)
        yield from self._on_entries(number, ledger, copies, is_excused=is_excused)

    def _on_entries(
        self, number: int, ledger: Ledger, copies: list[Copies], *, is_excused: bool
    ) -> Iterator[FindingRow]:
        """Yield the finding of the strongest kind. A young mark excuses missing copies, but no
        wrong copy.
        """
        gone = [one for one in copies if one.possible == 0]
        below_ack = [one for one in copies if one.possible < ledger.ack_quorum]
        below_write = [one for one in copies if one.possible < ledger.write_quorum]
        wrong = [one for one in copies if WRONG_DIGEST in one.words.values()]
        unserved = [one for one in copies if self._is_unserved(one)]
        if unserved and not gone:
            yield _unavailable(ledger, copies, unserved)
            return
        if gone:
            alive = all(self._is_elsewhere(number, ledger, one.entry) for one in gone)
            kind, hit = "ENTRY_ONLY_OUTSIDE_ENSEMBLE" if alive else "ENTRY_WITHOUT_REPLICA", gone
        elif below_ack and not is_excused:
            kind, hit = "ENTRY_BELOW_ACK_QUORUM", below_ack
        elif wrong:
            yield _wrong(ledger, copies, wrong)
            return
        elif below_write and not is_excused:
            kind, hit = "ENTRY_BELOW_WRITE_QUORUM", below_write
        else:
            return
        yield _finding_row(kind, ledger, copies, hit, facts_of.entries(self, number, copies))

    def _is_unserved(self, copies: Copies) -> bool:
        """Return whether each bookie of the write set lacks the entry or is not registered."""
        return all(
            word in (GONE, LACKS) or (word == AWAY and bookie not in self.perhaps_served)
            for bookie, word in copies.words.items()
        )

    def _is_elsewhere(self, number: int, ledger: Ledger, entry: int) -> bool:
        """Return whether it is alive on a bookie that can be asked and that the ledger's metadata
        does not name.
        """
        others = (one for name, one in self.bookies.items() if not ledger.names(name))
        return any(one.can_be_asked and one.can_read(number, entry) for one in others)

    def _on_metadata(self, number: int, ledger: Ledger) -> Iterator[FindingRow]:
        above = facts_of.above_end(self, number)
        beyond = tuple(sorted(set().union(*above.held.values())))
        if ledger.flaw:
            yield FindingRow("METADATA_MALFORMED", facts=flat(facts_of.malformed(ledger)))
        elif blocked := self._blocked_recovery(number, ledger):
            yield FindingRow("RECOVERY_BLOCKED", facts=flat(blocked))
        elif ledger.state == OPEN and self.now - ledger.made_at > STUCK_MINUTES:
            yield FindingRow("LEDGER_STUCK", facts=flat(facts_of.stuck(self, ledger)))
        elif above.is_cut_off(ledger):
            assert above.header is not None
            yield FindingRow(
                "LEDGER_CLOSED_SHORT",
                entries=tuple(range(ledger.written, above.header[0] + 1)),
                facts=flat(above.facts(ledger)),
            )
        elif beyond:
            yield FindingRow("ENTRIES_BEYOND_END", entries=beyond, facts=flat(above.facts(ledger)))

    def _blocked_recovery(self, number: int, ledger: Ledger) -> dict[str, object] | None:
        """Return the facts of a recovery that too many unknown bookies block."""
        if ledger.state != IN_RECOVERY:
            return None
        segment = ledger.last_segment()
        ensemble = segment.ensemble
        reached = [b for b in ensemble if self.bookies[b].can_be_asked]
        unknown = {b for b in ensemble if self._is_unknown(b, reached)}
        write_sets = [
            [ensemble[(at + copy) % len(ensemble)] for copy in range(ledger.write_quorum)]
            for at in range(len(ensemble))
        ]
        blocked = [one for one in write_sets if sum(b in unknown for b in one) >= ledger.ack_quorum]
        if not blocked:
            return None
        return {
            "first_entry_id": segment.first,
            "ensemble": list(ensemble),
            "ack_quorum": ledger.ack_quorum,
            "write_sets": len(write_sets),
            "blocked_write_sets": len(blocked),
            "write_set": list(dict.fromkeys(blocked[0])),
            "unknown": sorted({b for one in blocked for b in one} & unknown),
        }

    def _is_unknown(self, bookie: str, reached: list[str]) -> bool:
        """Return whether recovery has no answer from the bookie, as an audit can find out."""
        one = self.bookies[bookie]
        if one.registered == UNREGISTERED:
            return bookie not in self.perhaps_served
        return not one.listens and any(other != bookie for other in reached)

    def _on_ensembles(self, ledger: Ledger) -> Iterator[FindingRow]:
        """Yield one finding for each segment with entries in which a bookie occurs twice, or a
        write set spans too few racks.
        """
        for segment in ledger.segments_with_entries():
            if len(set(segment.ensemble)) < len(segment.ensemble):
                yield FindingRow(
                    "ENSEMBLE_DUPLICATE_BOOKIE",
                    segment.first,
                    facts=flat(facts_of.duplicate(segment)),
                )
            elif facts := facts_of.placement(self, ledger, segment):
                yield FindingRow("PLACEMENT_FAILED", segment.first, facts=flat(facts))

    def listing(self, number: int) -> set[str]:
        """Return the bookies whose list of the ledger an audit has: they should hold an entry of
        it or are in its last ensemble, and answer.

        A bookie that cannot list still says that it does not know the ledger, until another ledger
        shows that it cannot list.
        """
        asked, unable = self.asked(self.ledgers[number]), self.known_unable()
        return {
            name
            for name in asked
            if self.bookies[name].can_be_asked
            and name not in unable
            and self._answers_list(name, number)
        }

    def _answers_list(self, bookie: str, number: int) -> bool:
        return self.bookies[bookie].lists or number not in self.bookies[bookie].holds

    def known_unable(self) -> frozenset[str]:
        """Return the bookies that cannot list and are asked for the list of a ledger that they
        know.
        """
        if self.unable is not None:
            return self.unable
        asked = [
            (name, number) for number in self.listed() for name in self.asked(self.ledgers[number])
        ]
        return frozenset(name for name, number in asked if not self._answers_list(name, number))

    def needing(self, bookie: str) -> list[int]:
        """Return the closed, non-empty ledgers that need a bookie, ascending."""
        return sorted(n for n in self.listed() if bookie in self.due(self.ledgers[n]))

    def asked(self, ledger: Ledger) -> set[str]:
        """Return the bookies that are asked about the ledger: those of `due`, and those of the last
        ensemble if it has an end or is in recovery.
        """
        has_end = ledger.state in (CLOSED, IN_RECOVERY) and not ledger.flaw
        return self.due(ledger) | (set(ledger.last_segment().ensemble) if has_end else set())

    def due(self, ledger: Ledger) -> set[str]:
        """Return the bookies that should hold some entry of the ledger."""
        return {
            b
            for entry in ledger.judged_entries()
            for b in ledger.write_set(ledger.segment_of(entry), entry)
        }


def _unknowns(ledger: Ledger, copies: list[Copies]) -> tuple[str, ...]:
    """Return why copies are unknown. A mark exists for bookies that are not registered."""
    words = {word for one in copies for word in one.words.values()}
    unheard = SILENT in words or (AWAY in words and ledger.marked_at is None)
    is_wrong = WRONG_IDS in words or WRONG_DIGEST in words
    reasons = {
        "bookie_silent": unheard,
        "bookie_refused": REFUSED in words,
        "answer_invalid": is_wrong,
    }
    return tuple(reason for reason, holds in reasons.items() if holds)


def _exempt(ledger: Ledger) -> str | None:
    if ledger.marked_at is not None:
        return "marked_underreplicated"
    if ledger.flaw == BYTES:
        return None
    if ledger.state != CLOSED:
        return {OPEN: "open", IN_RECOVERY: "in_recovery"}[ledger.state]
    return None


def _finding_row(
    kind: str, ledger: Ledger, copies: list[Copies], hit: list[Copies], facts: dict[str, object]
) -> FindingRow:
    """Return a finding on entries: those that have the defect, what every bookie lacks, and the
    worst entry that lost a copy.
    """
    worst = worst_of(copies)
    return FindingRow(
        kind,
        ledger.segment_of(worst.entry).first,
        tuple(one.entry for one in hit),
        _missing(copies),
        worst.confirmed,
        worst.unknown,
        flat(facts),
    )


def _unavailable(ledger: Ledger, copies: list[Copies], unserved: list[Copies]) -> FindingRow:
    """Return ENTRY_UNAVAILABLE, shown by the entry with the fewest possible copies."""
    worst = min(unserved, key=lambda one: (one.possible, one.entry))
    facts: dict[str, object] = {
        "worst_entry": worst.entry,
        "write_set": worst.bookies,
        "unregistered": sorted(b for b, word in worst.words.items() if word == AWAY),
        "failed": [],
        "gone": sorted(b for b, word in worst.words.items() if word == GONE),
    }
    return FindingRow(
        "ENTRY_UNAVAILABLE",
        ledger.segment_of(worst.entry).first,
        tuple(one.entry for one in unserved),
        _missing(copies),
        0,
        worst.possible,
        flat(facts),
    )


def _wrong(ledger: Ledger, copies: list[Copies], wrong: list[Copies]) -> FindingRow:
    """Return ENTRY_CORRUPT, shown by the lowest entry."""
    first = wrong[0]
    return FindingRow(
        "ENTRY_CORRUPT",
        ledger.segment_of(first.entry).first,
        tuple(one.entry for one in wrong),
        _missing(copies),
        first.confirmed,
        first.unknown,
        flat(facts_of.wrong_digests(wrong)),
    )


def _missing(copies: list[Copies]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    missing: dict[str, list[int]] = {}
    for one in copies:
        for bookie in one.absent_on:
            missing.setdefault(bookie, []).append(one.entry)
    return tuple((bookie, tuple(entries)) for bookie, entries in sorted(missing.items()))
