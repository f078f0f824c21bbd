"""A bookie of the sandbox: what it holds, how it misbehaves, and how it answers each request.

It answers like a real bookie: statuses, lists, reads, fencing, and requests that it never answers.
Everything is in memory. `Listener` puts it on a socket.

It holds ledgers as ranges, periodic groups and stored entries. The bytes of an entry in a range or
group are made when it is read: a group of a billion entries costs nothing.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from auditor.model.availability import SequenceGroup
from auditor.model.identity import ENTRY_ID_MAX, EntryId, LedgerId
from auditor.model.ledger import DigestType
from auditor.wire import bookie_server as wire
from auditor.wire import entry_availability
from auditor.wire.digest import digest_of
from auditor.wire.entry_availability import GROUP_BYTES, HEADER_BYTES
from auditor.wire.frames import Status

Run: TypeAlias = tuple[EntryId, EntryId]
"""The first and the last of consecutive entries, both inclusive."""

PAYLOAD_BYTES = 8
"""Payload of every entry made here. A ledger's length is this times its number of entries."""
RUNS_LISTED_MAX = 5_000_000
"""Most runs in one list (24 bytes each). More must be listed as periodic groups."""


class Holding:
    """The entries of one ledger on one bookie. `pieces` may overlap and come in any order.

    A piece is a Run or a SequenceGroup; neither costs more for more entries. Raises ValueError for
    a piece that contradicts itself.
    """

    def __init__(
        self,
        pieces: Iterable[Run | SequenceGroup] = (),
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
    ) -> None:
        runs, self._stripes = _split(pieces)
        self._runs = merge_runs(runs)
        self._starts = [first for first, _ in self._runs]
        self._digest = digest
        self._password = password
        self._stored: dict[EntryId, bytes] = {}
        self._lists: dict[str, bytes] = {}

    def store(self, entry_id: EntryId, body: bytes) -> None:
        """Keep the bytes of an entry that a client sent. Reads return them."""
        self._stored[entry_id] = body
        self._lists.clear()

    def corrupt(self, ledger_id: LedgerId, entry_id: EntryId) -> None:
        """Keep a copy of the entry with one bit flipped: the ids are right, the digest is wrong."""
        body = (
            self.body(ledger_id, entry_id)
            if entry_id in self
            else self._make_entry(ledger_id, entry_id)
        )
        self.store(entry_id, with_wrong_digest(body))

    def __contains__(self, entry_id: EntryId) -> bool:
        if entry_id in self._stored:
            return True
        at = bisect_right(self._starts, entry_id) - 1
        if at >= 0 and entry_id <= self._runs[at][1]:
            return True
        return any(_in_stripe(stripe, entry_id) for stripe in self._stripes)

    def highest(self) -> EntryId | None:
        """Return the highest entry held; None if there is none."""
        ends = [last for _, last in self._runs[-1:]] + [
            stripe.last + stripe.size - 1 for stripe in self._stripes
        ]
        return max([*ends, *self._stored], default=None)

    def run_count_max(self) -> int:
        """Return an upper bound on the number of runs."""
        striped = sum((stripe.last - stripe.first) // stripe.period + 1 for stripe in self._stripes)
        return len(self._runs) + striped + len(self._stored)

    def check_listable_as_runs(self) -> None:
        """Raise ValueError for too many runs for a list, or a run too long for a group."""
        if self.run_count_max() > RUNS_LISTED_MAX:
            raise ValueError(
                f"{self.run_count_max()} runs are too many to list one by one: use"
                " ListForm.PERIODIC"
            )
        longest = max((last - first + 1 for first, last in self._runs), default=0)
        if longest > entry_availability.SIZE_MAX:
            raise ValueError(
                f"a run of {longest} entries is more than a group can say: use ListForm.PERIODIC"
            )

    def runs(self) -> list[Run]:
        """Return all entries as disjoint ascending runs. Raises as `check_listable_as_runs`.

        The cost grows with the number of runs.
        """
        self.check_listable_as_runs()
        striped = [
            (first, first + stripe.size - 1)
            for stripe in self._stripes
            for first in range(stripe.first, stripe.last + 1, stripe.period)
        ]
        return merge_runs(
            [*self._runs, *striped, *((entry_id, entry_id) for entry_id in self._stored)]
        )

    def listed_as_runs(self, *, without_highest: bool = False) -> bytes:
        """Return the list as real bookies send it, with a group per run.

        The list is cached, because 100,000 runs take a tenth of a second.
        """
        key = "all but the highest" if without_highest else "all"
        if key not in self._lists:
            runs = self.runs()
            if without_highest and runs:
                first, last = runs.pop()
                runs += [(first, last - 1)] if last > first else []
            self._lists[key] = entry_availability.encode_runs(
                (first, last - first + 1) for first, last in runs
            )
        return self._lists[key]

    def listed_as_groups(self) -> bytes:
        """Return the list with periodic groups, as BP-34 describes it. It is cached.

        A group costs the same however many entries it has.
        """
        if "groups" not in self._lists:
            singles = [(entry_id, entry_id) for entry_id in self._stored]
            lone = [
                SequenceGroup(first, first, last - first + 1, 0)
                for first, last in merge_runs([*self._runs, *singles])
            ]
            self._lists["groups"] = entry_availability.encode_groups([*lone, *self._stripes])
        return self._lists["groups"]

    def body(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        """Return the bytes of an entry that is held: the stored bytes, else some made here."""
        assert entry_id in self, f"entry {entry_id} of ledger {ledger_id} is not held"
        stored = self._stored.get(entry_id)
        return stored if stored is not None else self._make_entry(ledger_id, entry_id)

    def _make_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        return entry_body(ledger_id, entry_id, self._digest, self._password)


def entry_body(
    ledger_id: LedgerId,
    entry_id: EntryId,
    digest: DigestType = DigestType.CRC32C,
    password: bytes = b"",
) -> bytes:
    """Return an entry as BookKeeper's client sends it (DigestManager).

    It has ids, digest and PAYLOAD_BYTES of payload.
    """
    length = min(PAYLOAD_BYTES * (entry_id + 1), ENTRY_ID_MAX)
    head = struct.pack(">qqqq", ledger_id, entry_id, entry_id - 1, length)
    payload = struct.pack(">q", entry_id)
    return head + digest_of(head + payload, digest, password) + payload


def with_wrong_digest(body: bytes) -> bytes:
    """Return the body with its last bit flipped. The ids stay, but no digest matches any more."""
    return body[:-1] + bytes((body[-1] ^ 1,))


def merge_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the same entries as disjoint ascending runs that do not touch."""
    out: list[Run] = []
    for first, last in sorted(runs):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return out


def _split(pieces: Iterable[Run | SequenceGroup]) -> tuple[list[Run], list[SequenceGroup]]:
    runs: list[Run] = []
    stripes: list[SequenceGroup] = []
    for piece in pieces:
        group = (
            piece
            if isinstance(piece, SequenceGroup)
            else SequenceGroup(piece[0], piece[0], piece[1] - piece[0] + 1, 0)
        )
        first, last, size, period = group
        if (
            first < 0
            or size <= 0
            or last < first
            or (last > first and (period <= 0 or (last - first) % period))
        ):
            raise ValueError(f"no entries can be held like that: {tuple(piece)}")
        if last == first or size >= period:
            runs.append((first, last + size - 1))
        else:
            stripes.append(group)
    return runs, stripes


def _in_stripe(stripe: SequenceGroup, entry_id: EntryId) -> bool:
    offset = entry_id - stripe.first
    return (
        0 <= offset <= stripe.last - stripe.first + stripe.size - 1
        and offset % stripe.period < stripe.size
    )


TOTAL_DISK_BYTES = 100 * 2**30
FREE_DISK_BYTES = 60 * 2**30


INDEX_PAGE_ENTRIES = 1024
"""Entries on one index page (pageSize / 8). A list may lack an entry that is first on its page."""


class Storage(StrEnum):
    """Kinds of ledgerStorageClass, by their short names: they differ in what they answer."""

    SORTED = "SortedLedgerStorage"
    """BookKeeper's default. Its index counts as flushed, so lists are complete."""
    INTERLEAVED = "InterleavedLedgerStorage"
    """SortedLedgerStorage before its index is flushed.

    A highest entry whose id is a multiple of 1024 is missing from the list, but can be read."""
    DB = "DbLedgerStorage"
    """Pulsar's default. It never answers a list of a ledger that it holds; for others it says
    ENOLEDGER."""


class ListForm(StrEnum):
    """How a bookie lists entries.

    Every BookKeeper release sends a group for each run; BP-34 has periodic groups.
    """

    RUNS = "runs"
    PERIODIC = "periodic"


class LedgerFault(StrEnum):
    """What is wrong with one ledger on one bookie."""

    NEVER_ANSWERED = "never_answered"
    """Lists and reads of this ledger are never answered; those of other ledgers are."""
    EIO = "eio"
    UNKNOWN_LEDGER_STATE = "unknown_ledger_state"
    LAST_ENTRY_UNLISTED = "last_entry_unlisted"
    """The highest entry is missing from the list, but can be read."""
    LIST_CUT_SHORT = "list_cut_short"
    """The list announces one group more than it has."""
    LIST_OUT_OF_ORDER = "list_out_of_order"
    """The list names its first group once more behind the last."""
    WRONG_DIGEST = "wrong_digest"
    READS_FAIL = "reads_fail"
    """The list is whole, and each read ends in EIO: the index exists, the entry log does not."""
    READS_DENIED = "reads_denied"
    """The list is whole, and each read says ENOLEDGER: the memtable of SortedLedgerStorage lists a
    ledger that was garbage collected."""
    WRONG_IDS = "wrong_ids"
    """A read returns another entry than the requested one."""


@dataclass(slots=True)
class Behaviour:
    """How a bookie behaves for all ledgers. It may be changed while the bookie runs."""

    storage: Storage = Storage.SORTED
    list_form: ListForm = ListForm.RUNS
    refuses: bool = False
    """Every request is answered with EUA, as for a client that is not authenticated."""
    silent: bool = False
    """Connections are accepted, but no request is answered."""
    read_only: bool = False
    """ADD_ENTRY is answered with EREADONLY."""
    busy_reads: int = 0
    """This many of the next reads are answered with ETOOMANYREQUESTS."""
    closes_mid_answer: bool = False
    """Half of an answer is sent, then the connection is closed."""
    lists_outstanding_max: int | None = None
    """If more lists are outstanding, the connection is closed, as by a full read queue."""
    answers_per_connection_max: int | None = None
    """The connection is closed after this many answers."""
    answer_delay_ms: float = 0.0
    shuffles: bool = True
    """Requests that arrive together are answered in another order."""


class Bookie:
    """One bookie in memory. Connections call only `answer`; the other methods set up its state.

    For tests of clients, `operations` counts requests by operation, and `asked` lists by ledger.
    """

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.behaviour = behaviour or Behaviour()
        self.operations: Counter[wire.Operation] = Counter()
        self.asked: Counter[LedgerId] = Counter()
        self.faults: dict[LedgerId, LedgerFault] = {}
        self.disk = (TOTAL_DISK_BYTES, FREE_DISK_BYTES)
        """Total and free bytes, as GET_BOOKIE_INFO says them."""
        self._holdings: dict[LedgerId, Holding] = {}
        self._master_keys: dict[LedgerId, bytes] = {}
        self._fenced: set[LedgerId] = set()

    def hold(
        self,
        ledger_id: LedgerId,
        pieces: Iterable[Run | SequenceGroup],
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
    ) -> None:
        """Hold exactly these entries of the ledger. Without entries the ledger is known and empty.

        Raises ValueError if these are too many runs for a list, or a run is too long for a group.
        There is no such limit with periodic groups.
        """
        holding = Holding(pieces, digest, password)
        if self.behaviour.list_form is ListForm.RUNS:
            holding.check_listable_as_runs()
        self._holdings[ledger_id] = holding

    def corrupt(
        self,
        ledger_id: LedgerId,
        entry_id: EntryId,
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
    ) -> None:
        """Hold a copy of the entry that does not match its digest, whatever was held before."""
        self._holdings.setdefault(ledger_id, Holding((), digest, password)).corrupt(
            ledger_id, entry_id
        )

    def forget(self, ledger_id: LedgerId) -> None:
        """Remove every trace of the ledger, as garbage collection does."""
        self._holdings.pop(ledger_id, None)
        self._master_keys.pop(ledger_id, None)
        self._fenced.discard(ledger_id)

    def wipe(self) -> None:
        """Remove every ledger that is held."""
        for ledger_id in list(self._holdings):
            self.forget(ledger_id)

    def holding(self, ledger_id: LedgerId) -> Holding | None:
        """Return what is held of the ledger; None if the bookie does not know it."""
        return self._holdings.get(ledger_id)

    @property
    def fenced(self) -> frozenset[LedgerId]:
        """The ledgers that a client has fenced. The auditor must fence none."""
        return frozenset(self._fenced)

    def answer(self, request: wire.Request | wire.WrongVersion) -> bytes | None:
        """Return the frame that answers `request`; None where the bookie never answers."""
        asked = request.request if isinstance(request, wire.WrongVersion) else request
        self.operations[asked.operation] += 1
        if self.behaviour.silent:
            return None
        if self.behaviour.refuses:
            return wire.encode_status(asked, Status.EUA)
        match request:
            case wire.WrongVersion():
                return wire.encode_wrong_version(request)
            case wire.ListEntries():
                return self._list(request)
            case wire.ReadEntry():
                return self._read(request)
            case wire.AddEntry():
                return wire.encode_add(request, self._add(request))
            case wire.BookieInfo():
                return wire.encode_info(request, Status.EOK, *self.disk)
            case wire.Authenticate():
                return wire.encode_auth(request, Status.EOK)
            case wire.OtherRequest():
                return wire.encode_status(request, Status.EBADREQ)

    def _list(self, request: wire.ListEntries) -> bytes | None:
        self.asked[request.ledger_id] += 1
        fault = self.faults.get(request.ledger_id)
        if fault is LedgerFault.NEVER_ANSWERED:
            return None
        if (status := _status_of(fault)) is not None:
            return wire.encode_list(request, status)
        holding = self._holdings.get(request.ledger_id)
        if holding is None:
            return wire.encode_list(request, Status.ENOLEDGER)
        if self.behaviour.storage is Storage.DB:
            return None
        payload = self._payload(holding, fault)
        if fault is LedgerFault.LIST_CUT_SHORT:
            payload = (
                payload[:4]
                + (int.from_bytes(payload[4:8], "big") + 1).to_bytes(4, "big")
                + payload[8:]
            )
        elif fault is LedgerFault.LIST_OUT_OF_ORDER:
            header, groups = payload[:HEADER_BYTES], payload[HEADER_BYTES:]
            more = (int.from_bytes(header[4:8], "big") + 1).to_bytes(4, "big")
            payload = header[:4] + more + header[8:] + groups + groups[:GROUP_BYTES]
        return wire.encode_list(request, Status.EOK, payload)

    def _payload(self, holding: Holding, fault: LedgerFault | None) -> bytes:
        highest = holding.highest()
        unflushed = (
            self.behaviour.storage is Storage.INTERLEAVED
            and highest is not None
            and highest % INDEX_PAGE_ENTRIES == 0
        )
        if unflushed or fault is LedgerFault.LAST_ENTRY_UNLISTED:
            return holding.listed_as_runs(without_highest=True)
        return (
            holding.listed_as_runs()
            if self.behaviour.list_form is ListForm.RUNS
            else holding.listed_as_groups()
        )

    def _read(self, request: wire.ReadEntry) -> bytes | None:
        ledger_id, fault = request.ledger_id, self.faults.get(request.ledger_id)
        if fault is LedgerFault.NEVER_ANSWERED:
            return None
        if request.fence and not self._fence(request):
            return wire.encode_read(request, Status.EUA)
        if self.behaviour.busy_reads > 0:
            self.behaviour.busy_reads -= 1
            return wire.encode_read(request, Status.ETOOMANYREQUESTS)
        if (status := _READ_STATUSES.get(fault, _status_of(fault))) is not None:
            return wire.encode_read(request, status)
        holding = self._holdings.get(ledger_id)
        if holding is None:
            return wire.encode_read(request, Status.ENOLEDGER)
        if request.entry_id < -1 and self.behaviour.storage is not Storage.DB:
            return None
        entry_id = holding.highest() if request.entry_id == -1 else request.entry_id
        if entry_id is None or entry_id not in holding:
            return wire.encode_read(request, Status.ENOENTRY)
        return wire.encode_read(
            request, Status.EOK, _body(holding, ledger_id, entry_id, fault), max_lac=-1
        )

    def _fence(self, request: wire.ReadEntry) -> bool:
        """Fence the ledger, and return whether the master key was right.

        A ledger without a master key takes this one. An unknown ledger becomes known and empty.
        """
        ledger_id = request.ledger_id
        if (
            not request.master_key
            or self._master_keys.setdefault(ledger_id, request.master_key) != request.master_key
        ):
            return False
        self._holdings.setdefault(ledger_id, Holding())
        self._fenced.add(ledger_id)
        return True

    def _add(self, request: wire.AddEntry) -> Status:
        ids = wire.ids_of(request.body)
        if self.behaviour.read_only:
            return Status.EREADONLY
        if ids is None:
            return Status.EBADREQ
        ledger_id, entry_id = ids
        if self._master_keys.setdefault(ledger_id, request.master_key) != request.master_key:
            return Status.EUA
        if ledger_id in self._fenced:
            return Status.EFENCED
        self._holdings.setdefault(ledger_id, Holding()).store(entry_id, request.body)
        return Status.EOK


_READ_STATUSES: dict[LedgerFault | None, Status] = {
    LedgerFault.READS_FAIL: Status.EIO,
    LedgerFault.READS_DENIED: Status.ENOLEDGER,
}
"""Faults with which each read gets a status, and lists are answered as usual."""


def _status_of(fault: LedgerFault | None) -> Status | None:
    """Return the status that answers every list and read of a ledger with this fault, if there is
    one.
    """
    match fault:
        case LedgerFault.EIO:
            return Status.EIO
        case LedgerFault.UNKNOWN_LEDGER_STATE:
            return Status.EUNKNOWNLEDGERSTATE
        case _:
            return None


def _body(
    holding: Holding, ledger_id: LedgerId, entry_id: EntryId, fault: LedgerFault | None
) -> bytes:
    body = holding.body(ledger_id, entry_id)
    match fault:
        case LedgerFault.WRONG_IDS:
            return entry_body(ledger_id, entry_id + 1)
        case LedgerFault.WRONG_DIGEST:
            return with_wrong_digest(body)
        case _:
            return body
