"""Search every other registered bookie for entries without a copy on the bookies that should hold
it.

The other bookies of an entry are the registered ones outside its write set, even if another segment
names them. A bookie that is gone by now is left out: nobody can ask it, and its copies count as
absent. A bookie that gave a list counts as registered, whenever it registered. A bookie that gave a
valid list of the ledger has spoken for every entry of it. On each of the others a limited number of
entries is read.

Verified: what each of these bookies said of the entries searched for.

Not verified: the entries beyond that limit; bookies that are not registered, which nobody can ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from auditor.first_checker.confirmation import Wanted
from auditor.first_checker.coverage import Coverage, Reads
from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.model.availability import ABSENT_READS, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.facts import Search
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata

_WRONG_COPY = frozenset({ReadStatus.CORRUPT, ReadStatus.INVALID})
"""Reads that brought an entry with a wrong digest, or under other ids."""
_ANSWERED = ABSENT_READS | _WRONG_COPY | {ReadStatus.PRESENT}


class _Word(Enum):
    """What one bookie said of one entry that it should not hold."""

    HELD = 1
    ABSENT = 2
    CORRUPT = 3
    NOTHING = 4


@dataclass(frozen=True, slots=True)
class Outside:
    """The search for one ledger's entries without a copy (`lost`), and the bookies to search.

    `scopes` maps bookies to the lost entries outside their write sets. It has every registered
    bookie with such entries, sorted, and none that is gone since the run began. `listed`: what the
    bookies among them hold that gave a valid list.
    """

    lost: EntrySet
    scopes: Mapping[BookieId, EntrySet]
    listed: Mapping[BookieId, EntrySet]

    @classmethod
    def of(cls, lost: EntrySet, seen: Coverage, around: Surroundings) -> Outside:
        """Return the search of one ledger. Costs pieces for each registered bookie."""
        if not lost:
            return cls(lost, {}, {})
        expected: dict[BookieId, list[EntrySet]] = {}
        for coverage in seen.extents:
            for share in coverage.shares:
                expected.setdefault(share.bookie_id, []).append(share.expected)
        scopes = {}
        registered = around.writable | around.readonly | seen.held.keys()
        for bookie in sorted(registered - seen.gone):
            scope = lost - EntrySet.join(expected[bookie]) if bookie in expected else lost
            if scope:
                scopes[bookie] = scope
        return cls(
            lost, scopes, {bookie: seen.held[bookie] for bookie in scopes if bookie in seen.held}
        )

    def wanted_reads(self, reads: Reads, entries_max: int) -> Wanted:
        """Return the (bookie, entry) pairs still to be read at this look, which has made `reads`.

        First read one entry on each bookie that gave no list. Then read up to `entries_max` entries
        in all, only on bookies that know the ledger: ENOLEDGER speaks for every entry of it. A lost
        ledger costs one read per bookie, a stranded ledger some more.
        """
        if entries_max < 1:
            return ()
        chosen = _spread(self.lost, entries_max) if self.lost else []
        mine = self._reads(reads)
        wanted: list[tuple[BookieId, EntryId]] = []
        for bookie, scope in self.scopes.items():
            said = mine[bookie]
            if bookie in self.listed or any(
                not _may_hold_more(read.status) for read in said.values()
            ):
                continue
            mine_to_read = [entry for entry in chosen if entry in scope]
            wanted += (
                (bookie, e) for e in (mine_to_read if said else mine_to_read[:1]) if e not in said
            )
        return tuple(wanted)

    def result(self, reads: Reads, named: frozenset[BookieId]) -> Search | None:
        """Return the result of the search, or None if no other bookie is registered.

        `named` are the bookies that segments name. Every lost entry counts as searched for if each
        other bookie spoke for the whole ledger, by a list or by ENOLEDGER. Otherwise only the
        lowest lost entry does, and each entry that some bookie was read for.
        """
        if not self.scopes:
            return None
        words = {
            bookie: _BookieWords.of(self, bookie, said)
            for bookie, said in self._reads(reads).items()
        }
        if all(bookie_words.speaks_for_all for bookie_words in words.values()):
            held = EMPTY
            for bookie_words in words.values():
                held = held | (bookie_words.listed & bookie_words.scope)
            return _search(words, (self.lost.count(), held.count(), 0, 0), named)
        entries = sorted(
            {
                self.lost.first(),
                *(entry for bookie_words in words.values() for entry in bookie_words.reads),
            }
        )
        holders = [
            {b for b, bookie_words in words.items() if bookie_words.holds(entry)}
            for entry in entries
        ]
        unnamed = sum(bool(held_by - named) for held_by in holders)
        counts = (len(entries), sum(map(bool, holders)), unnamed, self.lost.count() - len(entries))
        return _search(words, counts, named, entries)

    def _reads(self, reads: Reads) -> dict[BookieId, dict[EntryId, EntryRead]]:
        """Return, by bookie to search, the reads that searched for a lost entry outside its write
        set.
        """
        found: dict[BookieId, dict[EntryId, EntryRead]] = {bookie: {} for bookie in self.scopes}
        for (bookie, entry), read in reads.items():
            if bookie in self.scopes and bookie not in self.listed and entry in self.scopes[bookie]:
                found[bookie][entry] = read
        return found


@dataclass(frozen=True, slots=True)
class _BookieWords:
    """What one bookie said of the entries searched for. `lacks_ledger`: its last answer was
    ENOLEDGER.
    """

    scope: EntrySet
    reads: Mapping[EntryId, EntryRead]
    listed: EntrySet
    has_list: bool
    forgot_at: int
    """The newest look at which it said ENOLEDGER; 0: never."""
    lacks_ledger: bool

    @classmethod
    def of(
        cls, outside: Outside, bookie: BookieId, reads: Mapping[EntryId, EntryRead]
    ) -> _BookieWords:
        forgot_at = max(
            (read.look for read in reads.values() if read.status is ReadStatus.NO_LEDGER), default=0
        )
        newest = max((read.look for read in reads.values() if read.status in _ANSWERED), default=0)
        at_newest = {read.status for read in reads.values() if read.look == newest}
        knows_it = bool(at_newest & {ReadStatus.PRESENT, *_WRONG_COPY})
        lacks_ledger = 0 < forgot_at == newest and not knows_it
        listed = outside.listed.get(bookie, EMPTY)
        return cls(
            outside.scopes[bookie], reads, listed, bookie in outside.listed, forgot_at, lacks_ledger
        )

    @property
    def speaks_for_all(self) -> bool:
        """Whether the bookie spoke for each entry of the ledger."""
        return self.has_list or self.lacks_ledger

    @property
    def was_not_asked(self) -> bool:
        """Whether some entry was not read because of the limit for one bookie and run."""
        return any(read.status is ReadStatus.NOT_ASKED for read in self.reads.values())

    def holds(self, entry: EntryId) -> bool:
        """Return whether the bookie is known to hold the entry."""
        return entry in self.scope and self.word(entry) is _Word.HELD

    def word(self, entry: EntryId) -> _Word:
        """Return what the bookie said of an entry of its scope.

        A copy that was read before the bookie said ENOLEDGER is gone.
        """
        if self.has_list:
            return _Word.HELD if entry in self.listed else _Word.ABSENT
        if self.lacks_ledger:
            return _Word.ABSENT
        read = self.reads.get(entry)
        if read is None or read.status not in _ANSWERED:
            return _Word.NOTHING
        if read.status in ABSENT_READS or read.look < self.forgot_at:
            return _Word.ABSENT
        return _Word.HELD if read.status is ReadStatus.PRESENT else _Word.CORRUPT


def _search(
    words: Mapping[BookieId, _BookieWords],
    counts: tuple[int, int, int, int],
    named: frozenset[BookieId],
    looked_for: list[EntryId] | None = None,
) -> Search:
    """Combine what each bookie said.

    `counts` are the first four fields of Search. `looked_for` is None if each bookie spoke for all
    entries.
    """
    searched: list[BookieId] = []
    found_first: dict[BookieId, EntryId] = {}
    corrupt_on: list[BookieId] = []
    unheard: list[BookieId] = []
    not_asked: list[BookieId] = []
    for bookie, bookie_words in words.items():
        said = set(_words_on(bookie_words, looked_for))
        if not said:
            continue  # every entry searched for belongs on this bookie
        (
            searched
            if _Word.NOTHING not in said
            else not_asked
            if bookie_words.was_not_asked
            else unheard
        ).append(bookie)
        if _Word.HELD in said:
            found_first[bookie] = _lowest_held(bookie_words, looked_for)
        if _Word.CORRUPT in said:
            corrupt_on.append(bookie)
    unnamed = [bookie for bookie in found_first if bookie not in named]
    return Search(
        *counts,
        searched=tuple(searched),
        found_on=tuple(found_first),
        found_unnamed=tuple(unnamed),
        corrupt_on=tuple(corrupt_on),
        unheard=tuple(unheard),
        not_asked=tuple(not_asked),
        found_first=tuple(found_first.values()),
    )


def _lowest_held(words: _BookieWords, looked_for: list[EntryId] | None) -> EntryId:
    """Return the lowest entry searched for that the bookie holds. There must be one."""
    if looked_for is None:
        return (words.listed & words.scope).first()
    return next(entry for entry in looked_for if words.holds(entry))


def _words_on(words: _BookieWords, looked_for: list[EntryId] | None) -> Iterator[_Word]:
    if looked_for is None:
        yield _Word.HELD if words.listed & words.scope else _Word.ABSENT
    else:
        yield from (words.word(entry) for entry in looked_for if entry in words.scope)


def ensemble_bookies(metadata: LedgerMetadata) -> frozenset[BookieId]:
    """Return the bookies in any ensemble of the ledger: these do not garbage collect it."""
    return frozenset(bookie for segment in metadata.segments for bookie in segment.ensemble)


def _may_hold_more(status: ReadStatus) -> bool:
    return status in _ANSWERED and status is not ReadStatus.NO_LEDGER


def _spread(lost: EntrySet, count: int) -> list[EntryId]:
    """Return the ends of the entries, and some spread evenly between them."""
    total = lost.count()
    number = min(count, total)
    between = (lost.nth(total * step // number) for step in range(1, number - 1))
    return list(dict.fromkeys((lost.first(), *between, *((lost.last(),) if number > 1 else ()))))
