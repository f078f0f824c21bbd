"""Find ledgers that bookies hold and no metadata names, and propose metadata for them.

Ledgers come from the indexes of listers, and from the newest run of the cluster: those that it read
and that are gone now. The run has the exact metadata, but for the password, which no run stores.
Other metadata is inferred from the entries. Nothing is written to ZooKeeper or a bookie.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from auditor.bookie.indexed_ledgers import indexed_ledgers_or_why
from auditor.bookie.lane import AsyncLane, LaneGate
from auditor.bookie.listers import Listers, open_lane
from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.evidence.gathered import ledger_records
from auditor.evidence.ids import Ids, distinct_numbers
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS
from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.schedule import held_entries
from auditor.model.availability import AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerState, RecordStatus
from auditor.recovery.inference import (
    Ambiguous,
    EndOfLedger,
    infer,
    last_held,
    missing_copies,
    out_of_place,
)
from auditor.wire.lister_fields import ListerIdentity

DIGESTS = (DigestType.CRC32C, DigestType.CRC32, DigestType.HMAC)
"""The digest types that an entry can prove. HMAC needs the right password."""
READERS_MAX = 2
"""Bookies on which the last entry of a ledger is tried."""


class Indexes(NamedTuple):
    """The ledgers in the index of each bookie, and why those of other bookies are not known."""

    ledgers: Mapping[BookieId, Ids]
    unknown: Mapping[BookieId, str]


async def read_indexes(
    bookies: Sequence[BookieRecord], listers: Listers, limits: BookieLimits
) -> Indexes:
    """Ask the lister of each registered bookie for its ledgers, all at once. Raises LocalFault."""
    found: dict[BookieId, Ids] = {}
    unknown: dict[BookieId, str] = {}
    placed: dict[BookieId, Awaitable[array[int] | str]] = {}
    for bookie in bookies:
        where = None if bookie.host is None else listers.address_of(bookie.bookie_id, bookie.host)
        if where is None:
            unknown[bookie.bookie_id] = "it has no address, or no lister beside it"
            continue
        identity = ListerIdentity(bookie.bookie_id, listers.instance_id)
        placed[bookie.bookie_id] = indexed_ledgers_or_why(identity, where, limits)
    for bookie_id, answer in zip(placed, await asyncio.gather(*placed.values()), strict=True):
        if isinstance(answer, str):
            unknown[bookie_id] = answer
        else:
            found[bookie_id] = np.frombuffer(answer, np.int64) if answer else np.empty(0, np.int64)
    return Indexes(found, unknown)


def ledgers_of_run(run: Place, living: Ids) -> Ids:
    """Return the ledgers whose metadata a run read and that are not in `living`, ascending.

    `living` is ascending. Memory holds their ids, and a batch. Raises OutputError.
    """
    found = [np.empty(0, np.int64)]
    is_found = pc.field("status") == RecordStatus.FOUND.value
    for batch in run.scan("evidence/ledgers", LEDGERS).batches(["ledger_id"], is_found):
        ids = batch.column("ledger_id").to_numpy()
        places = np.searchsorted(living, ids)
        is_living = places < len(living)
        is_living[is_living] = living[places[is_living]] == ids[is_living]
        found.append(ids[~is_living])
    return distinct_numbers(np.concatenate(found))


def metadata_of_run(run: Place, ids: Sequence[LedgerId]) -> dict[LedgerId, LedgerMetadata]:
    """Return the metadata that a run read last of those of these ledgers that it read.

    Memory holds their metadata. Raises OutputError.
    """
    found: dict[LedgerId, tuple[int, LedgerMetadata]] = {}
    for rows in run.scan("evidence/ledgers", LEDGERS).tables_of_ledgers(ids, LEDGERS.names):
        for record in ledger_records(rows):
            look = found[record.ledger_id][0] if record.ledger_id in found else 0
            if record.metadata is not None and record.look >= look:
                found[record.ledger_id] = record.look, record.metadata
    return {ledger_id: metadata for ledger_id, (_, metadata) in found.items()}


@dataclass(frozen=True, slots=True)
class StrayLedger:
    """A ledger without metadata that bookies hold, and what is proposed.

    `held` has the entries of each bookie that holds some. `unheard` are asked bookies whose list is
    not known. `end` is None if the last entry proves no digest. `proposal` is None where `why` says
    why. `is_from_run`: the proposal is what a run read, else it is inferred.
    """

    ledger_id: LedgerId
    held: Mapping[BookieId, EntrySet]
    unheard: Sequence[BookieId] = ()
    end: EndOfLedger | None = None
    digest: DigestType | None = None
    proposal: LedgerMetadata | None = None
    is_from_run: bool = False
    missing_copies: int = 0
    why: str = ""

    @property
    def entries(self) -> int:
        """How many distinct entries are held."""
        return reduce(or_, self.held.values(), EMPTY).count()

    @property
    def size_bytes(self) -> int | None:
        """The payload up to the last held entry, None if it is not known."""
        return None if self.end is None else self.end.length_bytes


@dataclass(slots=True)
class Examination:
    """Asks bookies about ledgers without metadata.

    A bookie whose index is not known is asked about every ledger. `away` have a cookie and are not
    registered: they cannot be asked.
    """

    bookies: Sequence[BookieRecord]
    limits: BookieLimits
    listers: Listers | None
    now_ms: Callable[[], int]
    password: bytes = b""
    away: Sequence[BookieId] = ()
    _lanes: dict[BookieId, AsyncLane] = field(default_factory=dict)

    async def examine(
        self,
        ids: Sequence[LedgerId],
        indexes: Indexes,
        known: Mapping[LedgerId, LedgerMetadata],
    ) -> tuple[list[StrayLedger], int]:
        """Return what is held of each of `ids`, in their order, with a proposal where possible.

        A ledger of which no bookie holds an entry is left out. The number counts those among them
        of which some bookie did not say what it holds. Costs a list of each ledger from
        each bookie that may hold it, and up to six reads a ledger.
        """
        placed = {
            bookie.bookie_id: (bookie.host, bookie.port)
            for bookie in self.bookies
            if bookie.host is not None and bookie.port is not None
        }
        gate = LaneGate(len(placed), has_listers=self.listers is not None)
        self._lanes = {
            bookie: open_lane(bookie, address, self.limits, 1, self.now_ms, self.listers)
            for bookie, address in placed.items()
        }
        try:
            held, unheard = await self._lists(ids, indexes, gate)
            kept = [ledger_id for ledger_id in ids if held[ledger_id]]
            ends = await self._ends(kept, held, gate)
        finally:
            await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
        strays = [
            propose(StrayLedger(i, held[i], unheard[i], *ends.get(i, (None, None))), known.get(i))
            for i in kept
        ]
        return strays, sum(not held[i] and bool(unheard[i]) for i in ids)

    async def _lists(
        self, ids: Sequence[LedgerId], indexes: Indexes, gate: LaneGate
    ) -> tuple[dict[LedgerId, dict[BookieId, EntrySet]], dict[LedgerId, tuple[BookieId, ...]]]:
        held: dict[LedgerId, dict[BookieId, EntrySet]] = {i: {} for i in ids}
        addressless = (b.bookie_id for b in self.bookies if b.bookie_id not in self._lanes)
        unheard = dict.fromkeys(ids, (*self.away, *addressless))
        asked = np.array(ids, np.int64)

        async def ask(bookie: BookieId) -> None:
            index = indexes.ledgers.get(bookie)
            may_hold = asked if index is None else asked[np.isin(asked, index)]
            wanted: list[LedgerId] = may_hold.tolist()
            if not wanted:
                return
            async with gate.hold(self._lanes[bookie]) as lane:
                answers = await lane.lists([ListQuestion(i) for i in wanted])
            for answer in answers:
                if answer.status is AnswerStatus.HELD:
                    entries = held_entries(answer.groups)
                    if entries:
                        held[answer.ledger_id][bookie] = entries
                elif answer.status is not AnswerStatus.NO_SUCH_LEDGER:
                    unheard[answer.ledger_id] += (bookie,)

        await asyncio.gather(*map(ask, self._lanes))
        return held, unheard

    async def _ends(
        self,
        ids: Sequence[LedgerId],
        held: Mapping[LedgerId, Mapping[BookieId, EntrySet]],
        gate: LaneGate,
    ) -> dict[LedgerId, tuple[EndOfLedger, DigestType]]:
        """Read the last held entry of each ledger, until a digest type proves it."""
        found: dict[LedgerId, tuple[EndOfLedger, DigestType]] = {}

        async def read(bookie: BookieId, asked: Sequence[ReadQuestion]) -> Sequence[EntryRead]:
            async with gate.hold(self._lanes[bookie]) as lane:
                return await lane.reads(asked)

        for place in range(READERS_MAX):
            for digest in DIGESTS:
                wanted: dict[BookieId, list[ReadQuestion]] = {}
                for ledger_id in ids:
                    last = last_held(held[ledger_id])
                    if ledger_id in found or last is None:
                        continue
                    there = sorted(b for b, e in held[ledger_id].items() if last in e)
                    if place < len(there):
                        question = ReadQuestion(ledger_id, last, digest, self.password)
                        wanted.setdefault(there[place], []).append(question)
                for reads in await asyncio.gather(*(read(b, q) for b, q in wanted.items())):
                    for one in reads:
                        if one.status is ReadStatus.PRESENT and one.length_bytes is not None:
                            confirmed = one.last_confirmed
                            end = EndOfLedger(
                                one.entry_id,
                                one.length_bytes,
                                -1 if confirmed is None else confirmed,
                            )
                            found[one.ledger_id] = end, digest
        return found


def propose(stray: StrayLedger, known: LedgerMetadata | None) -> StrayLedger:
    """Return the ledger with a proposal, or with why there is none.

    `known`, which a run read, is proposed unless entries show that it is out of date. Else the
    metadata is inferred. Nothing is proposed for a ledger that may go on at bookies which did not
    say what they hold: a reader would close it too early.
    """
    if known is None:
        return _inferred(stray)
    elsewhere = out_of_place(known, stray.held)
    if elsewhere is not None:
        found = _inferred(stray)
        why = f"the run's metadata is out of date, because entry {elsewhere} is elsewhere"
        if found.proposal is None:
            return replace(found, why=f"{why}; {found.why}")
        end = found.proposal.last_entry_id
        if known.state is LedgerState.CLOSED and end != known.last_entry_id:
            return replace(stray, why=f"{why}; its end was {known.last_entry_id}, and is {end} now")
        return found
    if known.state is LedgerState.CLOSED:
        missing = missing_copies(known, stray.held)
        return replace(stray, proposal=known, is_from_run=True, missing_copies=missing)
    if why := _may_go_on(stray, known.ack_quorum):
        return replace(stray, why=why)
    return replace(stray, proposal=known, is_from_run=True)


def _may_go_on(stray: StrayLedger, quorum: int) -> str:
    """Return why the ledger may have entries behind those that are held, or "".

    That is if as many bookies as a quorum, or more, did not say what they hold.
    """
    silent = len(stray.unheard)
    if silent < quorum:
        return ""
    return (
        f"entries behind {last_held(stray.held)} may be on the {silent} bookies that did not say"
        " what they hold"
    )


def _inferred(stray: StrayLedger) -> StrayLedger:
    if stray.end is None or stray.digest is None:
        return replace(
            stray, why="its last entry proves no digest: it has another password, or is damaged"
        )
    try:
        inferred = infer(stray.held, stray.end, stray.digest)
    except Ambiguous as error:
        return replace(stray, why=str(error))
    if why := _may_go_on(stray, inferred.metadata.write_quorum):
        return replace(stray, why=why)
    return replace(stray, proposal=inferred.metadata, missing_copies=inferred.missing_copies)
