"""What a run looks at again behind its last look: marks of unlisted ledgers, the listing, renames.

**Marks.** A mark may have a ledger that the listing did not name: one that was created after the
listing, or deleted since. Each such mark and its ledger's znode are read by themselves, after a
sync, when the marks are listed and at the end. What was seen is written to evidence/marks.

**The listing.** A run that listed far fewer ledgers than the last run lists all of them again. A
single short listing is not reported as a drop.

**Renames.** A renamed bookie has the entries of a missing one under another name. Registered
bookies are asked for them in a small step in the driver: at most RENAMES_MAX missing bookies,
RENAME_LEDGERS_MAX ledgers of each, and one conversation with each registered bookie that one of
these ledgers does not name. The answers are written down; `findings.renaming` draws the
conclusion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auditor.bookie.lane import AsyncLane
from auditor.bookie.listers import FOUND_OUT_BEFORE
from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.clock import now_ms
from auditor.config import BookieLimits
from auditor.errors import OutputError, StoreUnavailable
from auditor.evidence.ids import missing_numbers
from auditor.evidence.rows import Row, named_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LISTING, LISTINGS, MARKS, RENAMES
from auditor.findings.on_cluster import (
    FIRST_LISTING,
    FIRST_LOOK,
    LAST_LOOK,
    LISTED,
    LISTINGS_AT,
    MARKS_AT,
    SECOND_LISTING,
    has_dropped,
    listing_row,
    malformed_row,
    mark_row,
    problem_row,
    some_gone,
    suspects_of,
)
from auditor.findings.renaming import RENAMES_TABLE, RenameCase, reads_due, rename_cases
from auditor.first_checker.underreplication import age_ms
from auditor.host_limits import sockets_affordable
from auditor.model.availability import Answer, AnswerStatus, EntryRead
from auditor.model.evidence import LastPopulation, Terms
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerRecord, Mark, RecordStatus
from auditor.run.request_counts import count_silent_parents
from auditor.stages.asking import Directory
from auditor.stages.stages import Stages
from auditor.zookeeper.ledgers import Marks
from auditor.zookeeper.metadata_store import MetadataStore

MARKS_LOOKED_AT_MAX = 10_000
"""One run looks at the marks of at most this many unlisted ledgers, the oldest first: three reads
each, twice. The other marks are counted as they were listed."""


@dataclass(slots=True)
class MarkLooks:
    """The looks of one run at such marks.

    `is_partial`: only named ledgers are audited, and marks of other ledgers say nothing.
    """

    store: MetadataStore
    run: Place
    terms: Terms
    is_partial: bool = False

    def record_first(self, marks: Marks) -> None:
        """Look at the marks that were just listed. Raises StoreUnavailable."""
        if self.is_partial:
            return
        unlisted = self._unlisted_marks(marks)
        looked_at, left = unlisted[:MARKS_LOOKED_AT_MAX], unlisted[MARKS_LOOKED_AT_MAX:]
        at_ms = now_ms()
        rows: list[Row] = [problem_row(at_ms, marks.problem)] if marks.problem else []
        rows += [malformed_row(at_ms, path) for path in marks.malformed]
        rows += [mark_row(i, LISTED, at_ms, marks.by_ledger[i], None) for i in left]
        rows += self._look(FIRST_LOOK, looked_at, marks.by_ledger.get)
        self.run.write_table(MARKS_AT, table(MARKS, rows), f"look-{FIRST_LOOK}")

    def look_again(self, delay_ms: int, wait: Callable[[float], None]) -> str | None:
        """Look again at each suspect, at least `delay_ms` after the first look.

        Return a sentence if that failed.
        """
        if self.is_partial:
            return None
        suspects = suspects_of(self.run.read_table(MARKS_AT, MARKS), self.terms)
        if not suspects:
            return None
        wait(max(0, max(suspects.values()) + delay_ms - now_ms()) / 1000)
        try:
            rows = self._look(LAST_LOOK, sorted(suspects), lambda _: None)
        except StoreUnavailable as error:
            return f"marks of ledgers that were not listed could not be looked at again: {error}"
        self.run.write_table(MARKS_AT, table(MARKS, rows), f"look-{LAST_LOOK}")
        return None

    def _unlisted_marks(self, marks: Marks) -> list[LedgerId]:
        """Return the marked ledgers that were not listed, the oldest mark first."""
        marked = np.fromiter(marks.by_ledger, np.int64, len(marks.by_ledger))
        if not len(marked):
            return []
        listed = self.run.read_table("evidence/listing", LISTING)["ledger_id"].to_numpy()
        ids = missing_numbers(marked, listed)
        now = self.terms.judged_at_ms
        return sorted(
            map(int, ids),
            key=lambda ledger_id: (-age_ms(marks.by_ledger[ledger_id], now), ledger_id),
        )

    def _look(
        self, look: int, ids: Iterable[LedgerId], listed: Callable[[LedgerId], Mark | None]
    ) -> list[Row]:
        ids = list(ids)
        if not ids:
            return []
        self.store.sync()
        return list(_rows(self.store.read_ledgers(ids, look, now_ms, with_marks=True), listed))


def _rows(
    records: Iterable[LedgerRecord], listed: Callable[[LedgerId], Mark | None]
) -> Iterator[Row]:
    """Yield a row for each record. If a mark or a ledger could not be read, the listed mark is
    kept.
    """
    for record in records:
        has_metadata = _has_metadata(record)
        mark = (
            listed(record.ledger_id)
            if has_metadata is None and record.mark is None
            else record.mark
        )
        yield mark_row(record.ledger_id, record.look, record.read_at_ms, mark, has_metadata)


def _has_metadata(record: LedgerRecord) -> bool | None:
    """Return whether the ledger's znode exists; None if its mark or the znode could not be read."""
    if record.status is RecordStatus.GONE:
        return False
    return True if record.stamp is not None else None


@dataclass(slots=True)
class Relisting:
    """The listings of a whole run, to compare with the last run.

    `last_run` is where the last run's evidence is, None if it was removed.
    """

    stages: Stages
    store: MetadataStore
    run: Place
    last: LastPopulation | None
    last_run: Place | None
    began_at_ms: int = 0

    def start(self) -> None:
        """Record when the listing that is audited begins."""
        self.began_at_ms = now_ms()

    def record_first(self) -> None:
        """Record when the listing began, if there is a run to compare with."""
        if self.last is not None:
            self._write(FIRST_LISTING)

    def relist_if_dropped(self, delay_ms: int, wait: Callable[[float], None]) -> str | None:
        """List all ledgers again if far fewer were listed than by the last run.

        Waits until `delay_ms` after the first listing. Returns a sentence if the listing failed:
        that does not end the run.
        """
        if self.last is None or not has_dropped(
            self.last, self.run.count(LISTINGS_AT[FIRST_LISTING], LISTING)
        ):
            return None
        wait(max(0, self.began_at_ms + delay_ms - now_ms()) / 1000)
        self.began_at_ms = now_ms()
        try:
            self.store.sync()
            listing = self.store.listing_partitions()
            if self.stages.list_ledgers(listing.partitions, LISTINGS_AT[SECOND_LISTING]):
                count_silent_parents(
                    self.run, LISTINGS_AT[SECOND_LISTING], listing, self.store.counts
                )
        except StoreUnavailable as error:
            return f"the ledgers could not be listed again: {error}"
        self._write(SECOND_LISTING)
        return None

    def _write(self, listing: int) -> None:
        gone = self._gone_ledgers() if listing == SECOND_LISTING else []
        row = listing_row(listing, self.began_at_ms, gone)
        self.run.write_table("evidence/listings", table(LISTINGS, [row]), f"listing-{listing}")

    def _gone_ledgers(self) -> list[int]:
        """Return some ledgers that the last run listed and that are gone; none if its evidence was
        removed.
        """
        if self.last_run is None:
            return []
        try:
            before = self.last_run.read_table(LISTINGS_AT[FIRST_LISTING], LISTING)["ledger_id"]
        except OutputError:
            return []
        return some_gone(
            before, self.run.read_table(LISTINGS_AT[SECOND_LISTING], LISTING)["ledger_id"]
        )


RENAME_DEADLINE_MS = 60_000
"""How long the conversation with one bookie may take. No verdict depends on it."""
BOOKIES_AT_ONCE_MAX = 64
"""Bookies asked in parallel."""
LAST = 0
"""The number that stands for a look after all looks."""
_LEDGER = RENAMES.get_field_index("ledger_id")


@dataclass(frozen=True, slots=True)
class RenameSearch:
    """The search of one run.

    `directory` returns the addresses of the bookies now. `silent` bookies are not asked again.
    `can_read`: entries may be read.
    """

    store: MetadataStore
    run: Place
    limits: BookieLimits
    directory: Callable[[], Directory]
    can_read: bool = True

    def ask(self, silent: Collection[BookieId]) -> None:
        """Ask for what the missing bookies should hold -> evidence/renames.

        Writes nothing if no bookie is missing. Answers about a ledger that has changed meanwhile
        are kept, but prove nothing about a gone bookie. Costs at most RENAMES_MAX x
        RENAME_LEDGERS_MAX lists a bookie, and a few reads each. Raises StoreUnavailable.
        """
        if not rename_cases(self.run, ()):
            return
        directory = self.directory()
        cases = rename_cases(self.run, directory.addresses)
        rows = asyncio.run(self._ask_all(cases, directory, silent)) if cases else []
        if rows:
            changed = self._changed_ledgers(cases)
            kept = [([], *row[1:]) if row[_LEDGER] in changed else row for row in rows]
            self.run.write_table(RENAMES_TABLE, table(RENAMES, kept), "asked")

    def _changed_ledgers(self, cases: Sequence[RenameCase]) -> set[LedgerId]:
        """Return the ledgers whose metadata changed after they were asked about.

        Auto-recovery copies a gone bookie's entries to another bookie and then names that one in
        the metadata. This is not a rename.
        """
        asked_for = {
            ledger: metadata for case in cases for ledger, metadata in case.ledgers.items()
        }
        self.store.sync()
        now = {
            record.ledger_id: record.metadata
            for record in self.store.read_ledgers(asked_for, LAST, now_ms, with_marks=False)
        }
        return {ledger for ledger, metadata in asked_for.items() if now.get(ledger) != metadata}

    async def _ask_all(
        self, cases: Sequence[RenameCase], directory: Directory, silent: Collection[BookieId]
    ) -> list[Row]:
        ledgers = {ledger: metadata for case in cases for ledger, metadata in case.ledgers.items()}
        passwords = self.store.passwords(
            [i for i, metadata in ledgers.items() if metadata.digest_type is DigestType.HMAC]
        )
        gate = asyncio.Semaphore(sockets_affordable(BOOKIES_AT_ONCE_MAX))

        async def ask(bookie: BookieId, address: tuple[str, int]) -> list[Row]:
            mine = [one for case in cases if (one := case.for_bookie(bookie)).ledgers]
            if not mine:
                return []
            async with gate:
                conversation = _Conversation(
                    bookie, address, self._limits(), mine, passwords, bookie in directory.listed
                )
                return await conversation.rows(
                    can_list=bookie not in directory.unsupported, can_read=self.can_read
                )

        asked = [
            (bookie, at)
            for bookie, at in sorted(directory.addresses.items())
            if at is not None and bookie not in silent
        ]
        return [
            row
            for rows in await asyncio.gather(*(ask(*question) for question in asked))
            for row in rows
        ]

    def _limits(self) -> BookieLimits:
        return replace(
            self.limits, bookie_deadline_ms=min(self.limits.bookie_deadline_ms, RENAME_DEADLINE_MS)
        )


class _Conversation:
    """The conversation with one registered bookie."""

    def __init__(
        self,
        bookie: BookieId,
        address: tuple[str, int],
        limits: BookieLimits,
        cases: Iterable[RenameCase],
        passwords: Mapping[LedgerId, bytes | None],
        has_listed: bool,
    ) -> None:
        self._bookie, self._passwords = bookie, passwords
        self._lane = AsyncLane(bookie, *address, limits, LAST, now_ms, has_listed=has_listed)
        self._cases = list(cases)
        self._ledgers: dict[LedgerId, LedgerMetadata] = {
            i: m for case in self._cases for i, m in case.ledgers.items()
        }

    async def rows(self, *, can_list: bool, can_read: bool) -> list[Row]:
        """Return RENAMES rows: the bookie's greeting, its lists, and the entries read."""
        try:
            answers = (
                await self._lane.lists([ListQuestion(i) for i in self._ledgers])
                if can_list
                else self._unable()
            )
            reads = await self._lane.reads(self._reads_due(answers)) if can_read else []
        finally:
            await self._lane.close()
        greeting, detail = self._lane.greeting()
        hello = named_row(
            RENAMES,
            gone=[],
            bookie_id=self._bookie,
            asked_at_ms=now_ms(),
            status=greeting.value,
            groups=b"",
            detail=detail,
            requests=self._lane.probes,
            retries=0,
            received_bytes=0,
        )
        said: list[Answer | EntryRead] = [*answers, *reads]
        return [hello, *map(self._row, said)]

    def _unable(self) -> list[Answer]:
        status = AnswerStatus.UNSUPPORTED
        return [
            Answer(self._bookie, i, LAST, now_ms(), status, detail=FOUND_OUT_BEFORE)
            for i in self._ledgers
        ]

    def _reads_due(self, answers: Sequence[Answer]) -> list[ReadQuestion]:
        wanted = {
            (answer.ledger_id, entry)
            for case in self._cases
            for answer in answers
            if answer.ledger_id in case.ledgers
            for entry in reads_due(case.should_hold(answer.ledger_id), answer)
        }
        digests = {i: metadata.digest_type for i, metadata in self._ledgers.items()}
        return [
            ReadQuestion(i, entry, digests[i], self._passwords.get(i))
            for i, entry in sorted(wanted)
        ]

    def _row(self, said: Answer | EntryRead) -> Row:
        return named_row(
            RENAMES,
            gone=[case.gone for case in self._cases if said.ledger_id in case.ledgers],
            bookie_id=self._bookie,
            ledger_id=said.ledger_id,
            entry_id=said.entry_id if isinstance(said, EntryRead) else None,
            asked_at_ms=said.asked_at_ms,
            status=said.status.value,
            groups=said.groups if isinstance(said, Answer) else b"",
            detail=said.detail,
            requests=said.requests,
            retries=said.retries,
            received_bytes=said.received_bytes,
        )
