"""Ask registered bookies, after the last look, for the entries of unregistered bookies.

A renamed bookie has these entries under another name. This is a small step in the driver: at most
RENAMES_MAX missing bookies, RENAME_LEDGERS_MAX ledgers of each, and one conversation with each
registered bookie that one of these ledgers does not name. The answers are written down;
`summary.cluster.bookies` draws the conclusion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from auditor.bookie.lane import AsyncLane
from auditor.bookie.listers import FOUND_OUT_BEFORE
from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.clock import now_ms
from auditor.config import BookieLimits
from auditor.evidence.rows import Row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import RENAMES
from auditor.first_checker.renaming import RenameCase, reads_due
from auditor.host_limits import sockets_affordable
from auditor.model.availability import Answer, AnswerStatus, EntryRead
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import DigestType, LedgerMetadata
from auditor.stages.asking import Directory
from auditor.summary.cluster.bookies import NAME, rename_cases
from auditor.zookeeper.metadata_store import MetadataStore

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
            self.run.write_table(NAME, table(RENAMES, kept), "asked")

    def _changed_ledgers(self, cases: Sequence[RenameCase]) -> set[LedgerId]:
        """Return the ledgers whose metadata changed after they were asked about.

        Auto-recovery copies a gone bookie's entries to another bookie and then names that one in
        the metadata. This is not a rename.
        """
        asked_for = {ledger: one for case in cases for ledger, one in case.ledgers.items()}
        self.store.sync()
        now = {
            one.ledger_id: one.metadata
            for one in self.store.read_ledgers(asked_for, LAST, now_ms, with_marks=False)
        }
        return {ledger for ledger, metadata in asked_for.items() if now.get(ledger) != metadata}

    async def _ask_all(
        self, cases: Sequence[RenameCase], directory: Directory, silent: Collection[BookieId]
    ) -> list[Row]:
        ledgers = {ledger: one for case in cases for ledger, one in case.ledgers.items()}
        passwords = self.store.passwords(
            [i for i, one in ledgers.items() if one.digest_type is DigestType.HMAC]
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
        return [row for rows in await asyncio.gather(*(ask(*one) for one in asked)) for row in rows]

    def _limits(self) -> BookieLimits:
        return replace(self.limits, deadline_ms=min(self.limits.deadline_ms, RENAME_DEADLINE_MS))


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
        hello: Row = (
            [],
            self._bookie,
            None,
            None,
            now_ms(),
            greeting.value,
            b"",
            detail,
            self._lane.probes,
            0,
            0,
        )
        return [
            hello,
            *(self._list_row(one) for one in answers),
            *(self._read_row(one) for one in reads),
        ]

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
        digests = {i: one.digest_type for i, one in self._ledgers.items()}
        return [
            ReadQuestion(i, entry, digests[i], self._passwords.get(i))
            for i, entry in sorted(wanted)
        ]

    def _gone_bookies(self, ledger_id: LedgerId) -> list[BookieId]:
        return [case.gone for case in self._cases if ledger_id in case.ledgers]

    def _list_row(self, one: Answer) -> Row:
        costs = (one.requests, one.retries, one.received_bytes)
        head = (self._gone_bookies(one.ledger_id), self._bookie, one.ledger_id, None)
        return (*head, one.asked_at_ms, one.status.value, one.groups, one.detail, *costs)

    def _read_row(self, one: EntryRead) -> Row:
        costs = (one.requests, one.retries, one.received_bytes)
        head = (self._gone_bookies(one.ledger_id), self._bookie, one.ledger_id, one.entry_id)
        return (*head, one.asked_at_ms, one.status.value, b"", one.detail, *costs)
