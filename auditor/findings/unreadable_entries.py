"""A bookie that cannot send entries which it should hold. BP-34 does not ask for this.

Verified: at two looks a read of an entry that the bookie lists, or should hold if it cannot list,
ended in an error of the bookie's own or brought the entry with a wrong digest.

Not verified: why the bookie fails (a disk, a lost entry log); entries that were not read; whether
the copies on other bookies exist (the kinds of the entry family are about that).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, floor, lgamma, log, log1p
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import read_answers
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import READS
from auditor.evidence.table_scan import TableScan
from auditor.findings.bookies import nobody_answered
from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.schedule import held_entries
from auditor.model.availability import (
    ANSWERED_READS,
    UNREADABLE_READS,
    AnswerStatus,
    ReadStatus,
)
from auditor.model.cluster import BookieLook, BookieRecord
from auditor.model.facts import UnreadableFacts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.verdict import Exempt

LOOKS_MIN = 2
"""A copy is reported only if its reads failed at this many looks."""
ENTRIES_NAMED_MAX = 10
"""At most this many entries are named in a finding. The others are counted."""
WRONG_DIGEST = "digest"
"""Listed among the statuses for an entry whose digest does not match."""
CONFIDENCE = 0.95
_SHARE_STEPS = 10**6
TELLING = ANSWERED_READS | UNREADABLE_READS
"""Results of a read that say whether the bookie has the entry."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The reads of one copy that the bookie lists, or should hold if it cannot list.

    `words` has the status and the detail of each, oldest first. `is_spot`: the first read tested a
    list. Then the entry was drawn from all that the bookie should hold, unless `is_denser` or
    `is_named`.
    """

    ledger_id: LedgerId
    entry_id: EntryId
    words: tuple[tuple[ReadStatus, str], ...]
    is_spot: bool
    is_denser: bool = False
    is_named: bool = False

    @property
    def is_drawn(self) -> bool:
        """Whether the entry belongs to a sample of all that the bookie should hold."""
        return self.is_spot and not (self.is_denser or self.is_named)

    @property
    def failures(self) -> int:
        """How many conclusive reads in a row failed up to the newest."""
        failed = 0
        for status, _ in self.words:
            if status in TELLING:
                failed = failed + 1 if status in UNREADABLE_READS else 0
        return failed

    @property
    def is_answered(self) -> bool:
        return any(status in TELLING for status, _ in self.words)

    @property
    def last_failure(self) -> str:
        """The name of the status of the newest failed read."""
        return next(
            WRONG_DIGEST if status is ReadStatus.CORRUPT else detail.split(":")[0]
            for status, detail in reversed(self.words)
            if status in UNREADABLE_READS
        )


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What reads on one bookie say: `failed` of the `read` entries cannot be sent.

    `sample_failed` and `sample_read` are the same numbers for the entries that were drawn from all
    that the bookie should hold.
    """

    read: int
    failed: int
    ledgers: int
    some: tuple[tuple[LedgerId, EntryId], ...]
    statuses: tuple[tuple[str, int], ...]
    sample_read: int
    sample_failed: int


def unreadable_of(readings: Iterable[Reading]) -> Unreadable | None:
    """Return what the reads on one bookie say; None unless a copy failed at LOOKS_MIN looks.

    Ledgers without such a copy do not count as failed: they may have been deleted meanwhile. Only
    the spot reads are counted if one of them failed, else all reads.
    """
    answered = [reading for reading in readings if reading.is_answered]
    sure = {reading.ledger_id for reading in answered if reading.failures >= LOOKS_MIN}
    if not sure:
        return None
    has_spots = any(
        reading.is_spot and reading.failures and reading.ledger_id in sure for reading in answered
    )
    counted = [reading for reading in answered if reading.is_spot] if has_spots else answered
    failed = [reading for reading in counted if reading.failures and reading.ledger_id in sure]
    named = sorted((reading.ledger_id, reading.entry_id) for reading in failed)
    statuses = Counter(reading.last_failure for reading in failed)
    return Unreadable(
        len(counted),
        len(failed),
        len({reading.ledger_id for reading in failed}),
        tuple(named[:ENTRIES_NAMED_MAX]),
        tuple(sorted(statuses.items(), key=lambda pair: (-pair[1], pair[0]))),
        sum(reading.is_drawn for reading in counted),
        sum(reading.is_drawn for reading in failed),
    )


def judge_unreadable(
    looks: Sequence[BookieLook],
    unreadable: Mapping[BookieId, Unreadable],
    passed_over: frozenset[BookieId] = frozenset(),
    *,
    is_partial: bool = False,
) -> list[Finding]:
    """Return the findings on bookies that cannot send entries, in order of bookie id.

    Bookies in `passed_over` get none: they are in maintenance, or fail every request. `is_partial`:
    an operator named the ledgers, which says nothing of the share of all that a bookie holds.
    """
    if nobody_answered(looks):
        return []
    found = []
    for bookie in sorted(unreadable.keys() - passed_over):
        records = [look[bookie] for look in looks if bookie in look]
        if records and records[-1].is_registered:
            found.append(_finding(records[-1], unreadable[bookie], is_partial=is_partial))
    return found


def _finding(last: BookieRecord, unreadable: Unreadable, *, is_partial: bool) -> Finding:
    proves_share = unreadable.sample_failed > 0 and not is_partial
    facts = UnreadableFacts(
        registration=last.registration.value,
        address=f"{last.host}:{last.port}",
        read=unreadable.read,
        failed=unreadable.failed,
        ledgers=unreadable.ledgers,
        some=unreadable.some,
        statuses=unreadable.statuses,
        sample_read=unreadable.sample_read,
        sample_failed=unreadable.sample_failed,
        share_min=least_share(unreadable.sample_failed, unreadable.sample_read)
        if proves_share
        else None,
    )
    return Finding(Kind.BOOKIE_UNREADABLE_ENTRIES, facts, bookie_id=last.bookie_id)


def least_share(failed: int, read: int) -> float:
    """Return the least share of entries that fail, at CONFIDENCE, where `failed` of `read` did.

    The lower end of the one-sided interval of Clopper and Pearson (1934), rounded down. It assumes
    independent draws; a sweep spreads them more evenly.
    """
    if failed == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_least(failed, read, middle) > 1 - CONFIDENCE:
            high = middle
        else:
            low = middle
    return floor(low * _SHARE_STEPS) / _SHARE_STEPS


def _at_least(failed: int, read: int, share: float) -> float:
    """Return the probability of at least `failed` failures in `read` draws.

    Sums the terms from the greater side of the tail until they no longer matter.
    """
    if share <= 0.0 or share >= 1.0:
        return float(share >= 1.0)
    if failed > read * share:
        return _sum_terms(range(failed, read + 1), read, share)
    return 1.0 - _sum_terms(range(failed - 1, -1, -1), read, share)


def _sum_terms(counts: Iterable[int], read: int, share: float) -> float:
    total = 0.0
    for count in counts:
        term = exp(
            lgamma(read + 1)
            - lgamma(count + 1)
            - lgamma(read - count + 1)
            + count * log(share)
            + (read - count) * log1p(-share)
        )
        total += term
        if term < total * 1e-12:
            break
    return total


FAILED = pc.field("status").isin(sorted(status.value for status in UNREADABLE_READS))
"""Selects the reads that failed: none in a healthy cluster."""


NO_SEARCH = ~pc.field("is_search").isin([True])


_READ = [
    *("bookie_id", "ledger_id", "entry_id", "look", "status", "detail"),
    *("is_spot", "is_denser", "is_named"),
]


class _Said(NamedTuple):
    """One read of a copy."""

    look: int
    status: ReadStatus
    detail: str
    is_spot: bool
    is_denser: bool
    is_named: bool


def unreadable_entries(run: Place, verdicts: TableScan) -> dict[BookieId, Unreadable]:
    """Return what is known of bookies that could not send entries, by bookie.

    Ledgers that were deleted meanwhile do not count. Costs a scan of three columns, and the reads
    and lists of bookies with a failed read.
    """
    failed = run.read_table("evidence/reads", READS, FAILED & NO_SEARCH, ["bookie_id"])
    bookies = pc.unique(failed["bookie_id"])
    if not len(bookies):
        return {}
    deleted = verdicts.table(["ledger_id"], pc.field("exempt") == Exempt.DELETED.value)
    theirs = pc.field("bookie_id").isin(bookies)
    there = ~pc.field("ledger_id").isin(deleted["ledger_id"].combine_chunks())
    reads = run.read_table("evidence/reads", READS, theirs & NO_SEARCH & there, _READ)
    lists = _lists(run, theirs, pc.unique(reads["ledger_id"]))
    words: dict[BookieId, dict[tuple[LedgerId, EntryId], list[_Said]]] = {}
    for bookie, ledger, entry, look, status, detail, *flags in zip(
        *reads.to_pydict().values(), strict=True
    ):
        held = lists.get((bookie, ledger, look))
        if held is None or entry in held:
            said = _Said(look, ReadStatus(status), detail, *map(bool, flags))
            words.setdefault(bookie, {}).setdefault((ledger, entry), []).append(said)
    found = {
        bookie: unreadable_of(_reading(ledger, entry, said) for (ledger, entry), said in of.items())
        for bookie, of in words.items()
    }
    return {bookie: unreadable for bookie, unreadable in found.items() if unreadable is not None}


def _reading(ledger: LedgerId, entry: EntryId, said: list[_Said]) -> Reading:
    ordered = sorted(said, key=lambda read: read.look)
    words = tuple((read.status, read.detail) for read in ordered)
    first = ordered[0]
    return Reading(ledger, entry, words, first.is_spot, first.is_denser, first.is_named)


def _lists(
    run: Place, theirs: pc.Expression, ledgers: pa.Array
) -> dict[tuple[BookieId, LedgerId, int], EntrySet | None]:
    """Return what these bookies listed of these ledgers at each look; None if a bookie cannot
    list.
    """
    return {
        (answer.bookie_id, answer.ledger_id, answer.look): (
            None
            if answer.status is AnswerStatus.UNSUPPORTED
            else held_entries(answer.groups)
            if answer.status is AnswerStatus.HELD
            else EMPTY
        )
        for answer in read_answers(run, theirs & pc.field("ledger_id").isin(ledgers))
    }
