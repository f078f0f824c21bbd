"""The second checker's findings on bookies.

They come from the behaviour of each bookie at each look, and from its ledgers one by one. Rows are
sorted by ledger and read once, so memory stays flat however many ledgers a bookie has. Nothing is
shared with `auditor.summary` and `auditor.first_checker`, which count with table columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from auditor.model.availability import NOT_DIALLED, AnswerStatus, Greeting, ReadStatus
from auditor.model.bookie_facts import FailingFacts, LostContentFacts, LostFacts, SilentFacts
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.identity import BookieId, LedgerId
from auditor.second_checker.lost_ledgers import NamingLedgers

LEDGERS_TOLD = 10
"""Ledgers that a finding on a bookie names."""
LEDGERS_FEWEST = 3
"""Fewest lost or refused ledgers that count against a bookie. Fewer may be due to the ledgers."""

_SERVES = frozenset({Greeting.ANSWERED, Greeting.UNSUPPORTED})
_FAILS = frozenset({Greeting.SILENT, Greeting.REFUSED})
_LISTED = frozenset({AnswerStatus.HELD.value, AnswerStatus.NO_SUCH_LEDGER.value})
_READ = frozenset(
    one.value
    for one in (ReadStatus.PRESENT, ReadStatus.CORRUPT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER)
)


@dataclass(frozen=True, slots=True)
class Attendance:
    """The last record of every bookie at each look, oldest look first.

    `away`: bookies in planned maintenance.
    """

    of: Mapping[BookieId, Sequence[BookieRecord]]
    away: frozenset[BookieId] = frozenset()

    @classmethod
    def from_records(cls, records: Iterable[BookieRecord], away: frozenset[BookieId]) -> Attendance:
        """Return the attendance for the records of a run, in any order."""
        newest: dict[BookieId, dict[int, BookieRecord]] = {}
        for one in records:
            before = newest.setdefault(one.bookie_id, {}).get(one.look)
            if before is None or one.read_at_ms >= before.read_at_ms:
                newest[one.bookie_id][one.look] = one
        return cls(
            {bookie: [at[look] for look in sorted(at)] for bookie, at in sorted(newest.items())},
            away,
        )

    def is_anyone_serving(self) -> bool:
        """Return whether a registered bookie answered, or none was silent or refused."""
        said = {
            one.greeting
            for seen in self.of.values()
            for one in seen
            if one.registration is not Registration.NONE
        }
        return not said.isdisjoint(_SERVES) or said.isdisjoint(_FAILS)

    def silent(self) -> list[BookieId]:
        """Return the bookies that were seen at two looks or more, registered, dialled and silent at
        each.
        """
        return [
            bookie
            for bookie, seen in self._seen_twice()
            if not any(
                one.registration is Registration.NONE
                or one.greeting is not Greeting.SILENT
                or one.greeting_detail.startswith(NOT_DIALLED)
                for one in seen
            )
        ]

    def unregistered_bookies(self) -> list[BookieId]:
        """Return the bookies that were seen at two looks or more and were never registered."""
        return [
            bookie
            for bookie, seen in self._seen_twice()
            if {one.registration for one in seen} == {Registration.NONE}
        ]

    def connected_bookies(self) -> list[BookieId]:
        """Return the bookies seen at two looks or more that were registered and responded at each.

        A refusal is a response too.
        """
        spoke = {Greeting.REFUSED, *_SERVES}
        return [
            bookie
            for bookie, seen in self._seen_twice()
            if all(
                one.registration is not Registration.NONE and one.greeting in spoke for one in seen
            )
        ]

    def cannot_list(self, bookie: BookieId) -> bool:
        """Return whether the bookie was unable to list at some look."""
        return any(one.greeting is Greeting.UNSUPPORTED for one in self.of.get(bookie, ()))

    def _seen_twice(self) -> list[tuple[BookieId, Sequence[BookieRecord]]]:
        if not self.is_anyone_serving():
            return []
        return [
            (bookie, seen)
            for bookie, seen in self.of.items()
            if len(seen) > 1 and bookie not in self.away
        ]


def silent_facts(seen: Sequence[BookieRecord], cluster: ClusterFacts) -> SilentFacts:
    """Return the facts of a bookie that was silent at every look."""
    registration, address = _registered_at(seen)
    delay, disabled = cluster.lost_bookie_recovery_delay_s, cluster.replication_disabled
    return SilentFacts(registration, address, len(seen), seen[-1].greeting_detail, delay, disabled)


def _registered_at(seen: Sequence[BookieRecord]) -> tuple[str, str]:
    newest = seen[-1]
    return newest.registration.value, f"{newest.host}:{newest.port}"


def lost_facts(
    seen: Sequence[BookieRecord],
    ledgers: NamingLedgers,
    cluster: ClusterFacts,
    since_ms: int | None,
) -> LostFacts | None:
    """Return the facts, but for the new name, of a bookie that was never registered.

    Return None if each closed ledger that names it was marked, if the cluster marked some during
    the run, or if it has a cookie and may return. `since_ms`: since when an earlier run saw it
    unregistered.
    """
    first, last = seen[0], seen[-1]
    since = first.read_at_ms if since_ms is None else min(since_ms, first.read_at_ms)
    gone_ms = last.read_at_ms - since
    needed_ms = cluster.session_timeout_ms + 1_000 * (cluster.lost_bookie_recovery_delay_s or 0)
    may_return = any(one.has_cookie for one in seen) and (
        cluster.replication_disabled or gone_ms < needed_ms
    )
    if not ledgers.unmarked or ledgers.marked_since or may_return:
        return None
    return LostFacts(
        last.has_cookie,
        ledgers.unmarked,
        tuple(ledgers.lowest),
        ledgers.marked_always,
        ledgers.marked_always,  # at the last look too: none became marked since
        last.read_at_ms - first.read_at_ms,
        gone_ms,
        cluster.lost_bookie_recovery_delay_s,
        cluster.replication_disabled,
    )


class Lack(NamedTuple):
    """How many entries of a violated ledger a bookie should hold, and how many it surely lacks."""

    ledger_id: LedgerId
    expected: int
    absent: int


@dataclass(slots=True)
class Losses:
    """The ledgers of which one bookie lacks more than half."""

    ledgers: list[LedgerId] = field(default_factory=list)
    expected: int = 0
    absent: int = 0

    def add(self, one: Lack) -> None:
        """Count a ledger if the bookie lacks more of it than it has."""
        if one.absent > one.expected - one.absent:
            self.ledgers.append(one.ledger_id)
            self.expected += one.expected
            self.absent += one.absent


class Word(NamedTuple):
    """How a list request for a ledger, or a read in it, ended at one look."""

    ledger_id: LedgerId
    look: int
    status: str


def ledgers_answered(lists: Iterable[Word], reads: Iterable[Word]) -> int:
    """Return for how many ledgers the bookie's last list is valid or a read was answered.

    `reads` are those of a bookie that cannot list. Both arguments are sorted by ledger and look.
    Holds the ids of the ledgers in `reads`.
    """
    read = {one.ledger_id for one in reads if one.status in _READ}
    by_ledger = groupby(lists, lambda one: one.ledger_id)
    return len(read) + sum(
        i not in read and [*words][-1].status in _LISTED for i, words in by_ledger
    )


def lost_content_facts(
    seen: Sequence[BookieRecord], losses: Losses, answered: int, *, was_probed: bool
) -> LostContentFacts | None:
    """Return the facts of a bookie that lacks most of most ledgers it answered for, else None.

    Most of a ledger is more than half of the entries the bookie should hold. Also return None if it
    is not registered, or lost fewer than LEDGERS_FEWEST ledgers.
    """
    lost = len(losses.ledgers)
    if not seen or seen[-1].registration is Registration.NONE:
        return None
    if lost < LEDGERS_FEWEST or answered < lost or answered - lost >= lost:
        return None
    some = tuple(sorted(losses.ledgers)[:LEDGERS_TOLD])
    return LostContentFacts(
        *_registered_at(seen), answered, was_probed, lost, losses.absent, losses.expected, some
    )


class Refusal(NamedTuple):
    """One refused list request or read, for a ledger that the bookie should hold."""

    ledger_id: LedgerId
    look: int
    detail: str
    is_list: bool


def failing_facts(seen: Sequence[BookieRecord], refusals: Iterable[Refusal]) -> FailingFacts | None:
    """Return the facts of a bookie that refused everything, else None.

    At least LEDGERS_FEWEST ledgers must have been refused at two looks or more.
    """
    at: dict[LedgerId, set[int]] = {}
    kinds, words = Counter[bool](), Counter[str]()
    for one in refusals:
        at.setdefault(one.ledger_id, set()).add(one.look)
        kinds[one.is_list] += 1
        words[one.detail.partition(":")[0]] += 1
    twice = sorted(ledger for ledger, looks in at.items() if len(looks) > 1)
    if len(twice) < LEDGERS_FEWEST:
        return None
    statuses = tuple(sorted(words.items(), key=lambda one: (-one[1], one[0])))
    some = tuple(twice[:LEDGERS_TOLD])
    return FailingFacts(
        *_registered_at(seen), len(seen), len(twice), some, kinds[True], kinds[False], statuses
    )
