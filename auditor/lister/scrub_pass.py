"""Read all entry logs of a bookie in their order, and note what does not hold.

A scrub has no metadata. A record passes if its digest is right by CRC32C or CRC32, whichever the
ledger uses. Everything else makes a candidate: an entry that the auditor should read on the bookie.
A candidate proves nothing. Its ledger may be deleted, or compaction may have written it again.

One log that cannot be read never ends a pass.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from auditor.lister.index_view import IndexInDoubt, Location
from auditor.lister.indexed_places import LogGroup
from auditor.model.identity import EntryId, LedgerId
from auditor.model.ledger import DigestType
from auditor.model.scrub import CANDIDATES_MAX, Candidate, ScrubPass, Suspicion
from auditor.pace import TokenBucket
from auditor.wire.entry_log import (
    LOG_HEADER_BYTES,
    SIZE_BYTES,
    Record,
    find_digest,
    read_log_header,
    split_records,
)

CHUNK_BYTES = 2**20
"""Bytes read at once. A longer record is read whole."""
BURST_S = 1.0
"""After a pause, the bytes of this many seconds of the rate may be read at once."""
REST = 4.0
"""A scrub reads the disk at most one fifth of the time."""
REST_MAX_S = 10.0
"""Longest rest after one read."""
CANDIDATES_OF_LOG_MAX = 40
"""Most candidates that are named of one log, so that one bad log does not hide the others."""
DIGESTS_MAX = 100_000
"""Most ledgers whose digest type is remembered. The oldest are forgotten, and learnt again."""
UNDECIDED_MAX = 1_000
"""Most entries remembered whose digest cannot be told. If a pass has more, they are of ledgers with
HMAC or without a digest, and none of them is a candidate."""
NEIGHBOURS = 3
"""How many entries of a ledger are named behind the last one before a damaged place, or before the
first one behind it."""
RECENT_LEDGERS_MAX = 16
"""Most ledgers of the records before a damaged place whose next entries may be in it."""
PROBLEMS_MAX = 20
"""Most problems of one pass that are reported in words."""
STRANGERS_MAX = 30
"""Most neighbours named in a log of records that pass no digest, of ledgers never seen to pass one.
More mean ledgers whose digest needs a password."""
LIVE_S = 600.0
"""A log that changed so recently may still be written."""
LIVE_LOGS = 2
"""The newest logs may still be written: a bookie creates its next log before it needs it."""
MOVED_ROUNDS_MAX = 3
"""If logs are gone before they are read, those that appeared meanwhile are read too, so often."""
SEARCH_BYTES_MAX = 16 * 2**20
"""How far behind a damaged place the next record is looked for."""

_IDS = struct.Struct(">qq")


class ScrubPace:
    """How fast a scrub reads: at most `bytes_per_second` (0: no limit), and only some of the time.

    After each read of the disk it rests for REST times as long as the read took. On a busy disk
    reads take longer, and the scrub yields.
    """

    def __init__(
        self,
        bytes_per_second: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bucket = TokenBucket(bytes_per_second, monotonic(), BURST_S)
        self._is_limited = bytes_per_second > 0
        self._monotonic, self._sleep = monotonic, sleep

    def read(self, file: int, wanted: int, at: int) -> bytes:
        """Read from the disk, then rest. Raises OSError."""
        began = self._monotonic()
        data = os.pread(file, wanted, at)
        rest_s = min(REST_MAX_S, REST * (self._monotonic() - began))
        self.pay(len(data), rest_s)
        return data

    def pay(self, count: int, rest_s: float = 0.0) -> None:
        """Wait until bytes that were read are within the limit, and for `rest_s` at least."""
        if self._is_limited:
            now = self._monotonic()
            self._bucket.spend(count, now)
            rest_s = max(rest_s, self._bucket.debt_s(now))
        if rest_s:
            self._sleep(rest_s)


class LogReader:
    """Reads an open log at a pace, without keeping it in the page cache.

    What was in the cache before is left there: the bookie may want it.
    """

    def __init__(self, file: int, pace: ScrubPace) -> None:
        self._file, self._pace = file, pace
        self.size = os.fstat(file).st_size

    def read(self, at: int, wanted: int) -> bytes:
        """Return the bytes from a position on, fewer at the end of the log. Raises OSError."""
        wanted = max(0, min(wanted, self.size - at))
        data = self._cached(at, wanted)
        self._pace.pay(len(data))
        if len(data) < wanted:
            rest = self._pace.read(self._file, wanted - len(data), at + len(data))
            os.posix_fadvise(self._file, at + len(data), len(rest), os.POSIX_FADV_DONTNEED)
            data += rest
        return data

    def _cached(self, at: int, wanted: int) -> bytes:
        """Return what the page cache has of these bytes. Costs no read of the disk."""
        buffer = bytearray(wanted)
        try:
            count = os.preadv(self._file, [buffer], at, os.RWF_NOWAIT)
        except OSError:  # none of it, or a file system that cannot say
            return b""
        return bytes(buffer[:count])


@dataclass(slots=True)
class Candidates:
    """The candidates of one pass: CANDIDATES_MAX are named, all are counted."""

    named: dict[tuple[LedgerId, EntryId], Candidate] = field(default_factory=dict)
    suspected: int = 0

    def add(self, found: Sequence[Candidate]) -> None:
        """Take the candidates of one log."""
        new: dict[tuple[LedgerId, EntryId], Candidate] = {}
        for candidate in found:
            if candidate[:2] not in self.named:
                new.setdefault(candidate[:2], candidate)
        self.suspected += len(new)
        for key, candidate in list(new.items())[:CANDIDATES_OF_LOG_MAX]:
            if len(self.named) < CANDIDATES_MAX:
                self.named[key] = candidate


@dataclass(slots=True)
class Undecided:
    """Entries without a digest that could be told, by ledger, and how many there are."""

    entries: dict[LedgerId, list[EntryId]] = field(default_factory=dict)
    count: int = 0

    def add(self, record: Record) -> None:
        self.count += 1
        if self.count <= UNDECIDED_MAX:
            self.entries.setdefault(record.ledger_id, []).append(record.entry_id)

    def take(self, ledger_id: LedgerId) -> list[EntryId]:
        """Return and forget the remembered entries of a ledger, whose digest type is now known."""
        taken = self.entries.pop(ledger_id, [])
        self.count -= len(taken)
        return taken

    def candidates(self) -> list[Candidate]:
        """Return the entries as candidates, none if there are more than UNDECIDED_MAX."""
        if self.count > UNDECIDED_MAX:
            return []
        return [
            Candidate(ledger_id, entry_id, Suspicion.NO_DIGEST)
            for ledger_id, entries in self.entries.items()
            for entry_id in entries
        ]


@dataclass(slots=True)
class PassMemory:
    """What a pass remembers of the logs that it has read."""

    digests: dict[LedgerId, DigestType] = field(default_factory=dict)
    undecided: Undecided = field(default_factory=Undecided)

    def note_digest(self, ledger_id: LedgerId, digest: DigestType) -> None:
        if len(self.digests) >= DIGESTS_MAX:
            del self.digests[next(iter(self.digests))]
        self.digests[ledger_id] = digest


@dataclass(slots=True)
class LogScan:
    """The scan of one log, from `at` on. `places`: what the index places in it, by position.

    Call `chunks` to the end; after each yield, `at` is where a later scan may go on. `is_live`: the
    bookie may still write to the log, which then may end in the middle of a record.
    """

    reader: LogReader
    places: Mapping[int, Location]
    memory: PassMemory
    is_live: bool = False
    at: int = LOG_HEADER_BYTES
    entries: int = 0
    verified: int = 0
    unchecked: int = 0
    failed: int = 0
    is_damaged: bool = False
    candidates: list[Candidate] = field(default_factory=list)
    misplaced: list[Location] = field(default_factory=list)
    """Places where the log has another record, or none. The index may have moved on meanwhile."""
    _recent: dict[LedgerId, EntryId] = field(default_factory=dict)
    _met: set[int] = field(default_factory=set)
    _strangers: list[Candidate] = field(default_factory=list)
    """The neighbours of records whose ledger may be misread."""
    _began_at: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether nothing was noted so far that a pass would lose if it went on from `at`."""
        has_strangers = 0 < len(self._strangers) <= STRANGERS_MAX
        noted = self.candidates or self.misplaced or self._unmet(self.at)
        return not (noted or has_strangers or self.is_damaged)

    def chunks(self) -> Iterator[None]:
        """Scan the log, and yield after each chunk. Raises OSError."""
        self._began_at = self.at
        header = read_log_header(self.reader.read(0, LOG_HEADER_BYTES))
        if header is None:
            self.is_damaged = not self.is_live
            self.at = self.reader.size
        wanted = CHUNK_BYTES
        while self.at < self.reader.size:
            data = self.reader.read(self.at, wanted)
            split = split_records(data, self.at)
            broken_at = self._check_all(split.records)
            is_at_end = self.at + len(data) >= self.reader.size
            wanted = max(CHUNK_BYTES, split.needed)
            if broken_at is not None:
                self.at = self._go_on_behind(broken_at)
            elif split.is_broken and not self._is_reserved(split.next_at):
                self.at = self._go_on_behind(split.next_at)
            elif split.needed and is_at_end:
                self.at = self._go_on_behind(split.next_at, may_be_end=self.is_live)
            elif split.is_broken or is_at_end:
                self.at = self.reader.size
            else:
                self.at = split.next_at
            yield
        if header is not None and header.ledgers_map_at > self.reader.size:
            self._note_damage()
        if len(self._strangers) <= STRANGERS_MAX:
            self.candidates += self._strangers
        self.misplaced += self._unmet()

    def _is_reserved(self, at: int) -> bool:
        """Return whether there are only zeroes from here on: space that was reserved."""
        while at < self.reader.size:
            data = self.reader.read(at, CHUNK_BYTES)
            if data.strip(b"\0"):
                return False
            at += len(data)
        return True

    def _check_all(self, records: Sequence[Record]) -> int | None:
        """Check records up to the first one with a wrong size, and return where it begins.

        Such a record passes no digest, and has one inside that passes.
        """
        for record in records:
            if not self._check(record) and self._find(record.body, 1) is not None:
                return record.position - SIZE_BYTES
        return None

    def _check(self, record: Record) -> bool:
        """Check one record, and return False if it passes no digest.

        Records of the log's own have no entry.
        """
        place = self.places.get(record.position)
        if place is not None:
            self._met.add(record.position)
            if place[:2] != (record.ledger_id, record.entry_id):
                self.misplaced.append(place)
        if record.ledger_id < 0 or record.entry_id < 0:
            return True
        self.entries += 1
        known = self.memory.digests.get(record.ledger_id)
        digest = find_digest(record.body, known)
        if digest is not None:
            self.verified += 1
            if known is None:
                self._learn(record.ledger_id, digest)
        elif known is not None:
            self.failed += 1
            self._suspect(record.ledger_id, [record.entry_id], Suspicion.DIGEST)
            if not 0 < record.entry_id - self._recent.get(record.ledger_id, -1) <= NEIGHBOURS:
                self.candidates += self._behind(list(self._recent.items())[-1:])
        else:
            self.unchecked += 1
            self.memory.undecided.add(record)
            if len(self._strangers) <= STRANGERS_MAX:
                self._strangers += self._behind(list(self._recent.items())[-1:])
        if digest is not None:
            self._recent.pop(record.ledger_id, None)
            self._recent[record.ledger_id] = record.entry_id
            if len(self._recent) > RECENT_LEDGERS_MAX:
                del self._recent[next(iter(self._recent))]
        return digest is not None

    def _learn(self, ledger_id: LedgerId, digest: DigestType) -> None:
        """Note the digest type of a ledger: its records before this one failed that digest."""
        self.memory.note_digest(ledger_id, digest)
        wrong = self.memory.undecided.take(ledger_id)
        self.failed += len(wrong)
        self.unchecked -= len(wrong)
        self._suspect(ledger_id, wrong, Suspicion.DIGEST)

    def _note_damage(self) -> None:
        """Name the entries behind the newest ones of all recent ledgers."""
        self.is_damaged = True
        self.candidates += self._behind(list(reversed(self._recent.items())))

    def _behind(self, newest: Sequence[tuple[LedgerId, EntryId]]) -> list[Candidate]:
        """Return the entries behind these: records that cannot be read, or are misread, may be
        theirs.
        """
        return [
            Candidate(ledger_id, entry_id + step, Suspicion.LOG_DAMAGED)
            for ledger_id, entry_id in newest
            for step in range(1, NEIGHBOURS + 1)
        ]

    def _go_on_behind(self, broken_at: int, *, may_be_end: bool = False) -> int:
        """Return where reading goes on behind a damaged place, and name what may be in between.

        `may_be_end`: there is no damage if no record is found behind it.
        """
        data = self.reader.read(broken_at, SEARCH_BYTES_MAX)
        found = self._find(data, 1)
        if found is None and may_be_end:
            return self.reader.size
        self._note_damage()
        if found is None:
            return self.reader.size
        ledger_id, entry_id = _IDS.unpack_from(data, found + SIZE_BYTES)
        before = range(max(0, entry_id - NEIGHBOURS), entry_id)
        self._suspect(ledger_id, before, Suspicion.LOG_DAMAGED)
        return broken_at + found

    def _find(self, data: bytes, start: int) -> int | None:
        """Return where the first whole record begins that passes the digest of a recent ledger."""
        found: list[int] = []
        for ledger_id in self._recent:
            needle, digest = ledger_id.to_bytes(8), self.memory.digests.get(ledger_id)
            at = start + SIZE_BYTES - 1
            while (at := data.find(needle, at + 1, min(found, default=len(data)))) >= 0:
                body = data[at : at + int.from_bytes(data[at - SIZE_BYTES : at])]
                if find_digest(body, digest) is not None:
                    found.append(at - SIZE_BYTES)
                    break
        return min(found, default=None)

    def _unmet(self, end: int | None = None) -> list[Location]:
        """Return the places before `end` at which the scan met no record, although it read them.

        Without `end`, they are those of the whole log, and beyond its end.
        """
        return [
            place
            for position, place in self.places.items()
            if position not in self._met
            and position - SIZE_BYTES >= self._began_at
            and (end is None or position - SIZE_BYTES < end)
        ]

    def _suspect(self, ledger_id: LedgerId, entries: Sequence[EntryId], why: Suspicion) -> None:
        self.candidates += [Candidate(ledger_id, entry_id, why) for entry_id in entries]


@dataclass(slots=True)
class Position:
    """Where a pass is: the group, and the log and the position in it from which it goes on."""

    group: int = 0
    log: int = -1
    at: int = LOG_HEADER_BYTES


@dataclass(slots=True)
class LogPass:
    """One pass over all logs, from `position` on. `on_progress` is called after each chunk.

    `counts` and `candidates` are of the whole pass, with what it had before it was interrupted.
    """

    groups: Sequence[LogGroup]
    pace: ScrubPace
    now_ms: Callable[[], int]
    on_progress: Callable[[], None]
    counts: ScrubPass
    position: Position = field(default_factory=Position)
    candidates: Candidates = field(default_factory=Candidates)
    problems: list[str] = field(default_factory=list)
    """What could not be read, as sentences: the first PROBLEMS_MAX."""
    _memory: PassMemory = field(default_factory=PassMemory)

    def run(self) -> None:
        """Read what is left of the pass, and count its end."""
        for number in range(self.position.group, len(self.groups)):
            if number != self.position.group:
                self.position = Position(number)
            self._read_group(self.groups[number])
        self.candidates.add(self._memory.undecided.candidates())
        self.counts = replace(
            self.counts, ended_at_ms=self.now_ms(), suspected=self.candidates.suspected
        )
        self.on_progress()

    def _read_group(self, group: LogGroup) -> None:
        try:
            places = group.places(self.pace.pay)
        except IndexInDoubt as error:
            self._say(str(error))
            places = {}
        is_resumed = self.position.log >= 0
        logs = self._paths_of(group)
        if logs is None:
            return
        missing = [place for log in places.keys() - logs.keys() for place in places[log].values()]
        left = {log: path for log, path in logs.items() if log >= self.position.log}
        if not is_resumed:
            self._count_total(left)
        may_have_moved = self._read_logs(group, logs, left, places) or is_resumed
        self._take_misplaced(group, missing, Suspicion.LOG_MISSING)
        known = set[int]()
        for _ in range(MOVED_ROUNDS_MAX):
            if not may_have_moved:
                return
            known, logs = {*known, *logs}, self._paths_of(group)
            if logs is None:
                return
            left = {log: path for log, path in logs.items() if log not in known}
            self._count_total(left)
            may_have_moved = self._read_logs(group, logs, left, {})
        if may_have_moved:
            self._count_unlisted("the bookie removes logs faster than they are read")

    def _paths_of(self, group: LogGroup) -> dict[int, Path] | None:
        """Return the logs of a group. None if they cannot be listed: that is counted."""
        try:
            return group.paths()
        except OSError as error:
            self._count_unlisted(f"the entry logs cannot be listed: {error}")
            return None

    def _count_unlisted(self, problem: str) -> None:
        self._say(problem)
        self.counts = replace(self.counts, unlisted=self.counts.unlisted + 1)

    def _count_total(self, logs: Mapping[int, Path]) -> None:
        sizes = sum(_size_of(path) for path in logs.values())
        self.counts = replace(self.counts, total_bytes=self.counts.total_bytes + sizes)

    def _read_logs(
        self,
        group: LogGroup,
        logs: Mapping[int, Path],
        left: Mapping[int, Path],
        places: Mapping[int, Mapping[int, Location]],
    ) -> bool:
        """Read those that are `left` of a group's logs.

        Return whether one was gone: compaction may have moved its entries to a newer log.
        """
        newest = list(logs)[-LIVE_LOGS:]
        is_gone = False
        for log, path in left.items():
            at = self.position.at if log == self.position.log else LOG_HEADER_BYTES
            is_live = log in newest or self._is_recent(path)
            was_there = self._read_log(group, log, path, at, places.get(log, {}), is_live=is_live)
            is_gone = is_gone or not was_there
        return is_gone

    def _read_log(
        self,
        group: LogGroup,
        log: int,
        path: Path,
        at: int,
        places: Mapping[int, Location],
        *,
        is_live: bool,
    ) -> bool:
        """Read one log, and return False if it is gone. One that cannot be read does not end the
        pass.

        A pass that is interrupted behind something that was noted reads it again: what one log
        shows is taken at its end.
        """
        before = self.counts
        self.position = Position(self.position.group, log, at)
        scan: LogScan | None = None
        is_damaged = False
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            with closing(os.fdopen(file, "rb", buffering=0)):
                scan = LogScan(LogReader(file, self.pace), places, self._memory, is_live, at)
                for _ in scan.chunks():
                    if scan.is_clean:
                        self._count(before, scan, at)
                        self.position.at = scan.at
                    self.on_progress()
        except FileNotFoundError:
            return False  # the bookie has collected it
        except OSError as error:
            is_damaged = True
            self._say(f"{path} cannot be read: {error.strerror}")
            unread = at if scan is None else scan.at
            misplaced = [place for position, place in places.items() if position >= unread]
            self._take_misplaced(group, misplaced, Suspicion.LOG_DAMAGED)
        if scan is not None:
            self._count(before, scan, at)
            self.candidates.add(scan.candidates)
            is_damaged = is_damaged or scan.is_damaged
            if scan.misplaced:
                self._take_misplaced(group, scan.misplaced, Suspicion.OTHER_RECORD)
        self.counts = replace(
            self.counts,
            logs=before.logs + 1,
            damaged_logs=before.damaged_logs + is_damaged,
            suspected=self.candidates.suspected,
        )
        self.position = Position(self.position.group, log + 1)
        self.on_progress()
        return True

    def _say(self, problem: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)

    def _is_recent(self, path: Path) -> bool:
        try:
            return self.now_ms() / 1000 - path.stat().st_mtime < LIVE_S
        except OSError:
            return False

    def _count(self, before: ScrubPass, scan: LogScan, began_at: int) -> None:
        self.counts = replace(
            before,
            read_bytes=before.read_bytes + scan.at - began_at,
            entries=before.entries + scan.entries,
            verified=before.verified + scan.verified,
            unchecked=before.unchecked + scan.unchecked,
            failed=before.failed + scan.failed,
        )

    def _take_misplaced(self, group: LogGroup, places: Sequence[Location], why: Suspicion) -> None:
        """Take the places that the index still names as candidates."""
        still = group.still_there(places)
        self.candidates.add([Candidate(p.ledger_id, p.entry_id, why) for p in still])


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
