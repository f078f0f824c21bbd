"""An entry log that a bookie's index names but that is not on its disk. BP-34 does not ask for
this.

Verified: at two looks or more, a lister left entries out of lists because their entry log was not
on the bookie's disk in two fresh views of the index. At each of these looks the bookie answered a
read of such an entry with EIO. No read brought such an entry.

Not verified: why the file is gone; whether the copies on other bookies exist (the kinds of the
entry family are about that); ledgers that were not listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.rows import ANSWER_ROWS, READ_ROWS, structs
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.findings.bookies import nobody_answered
from auditor.model.availability import (
    LISTED_BY_LISTER,
    Answer,
    EntryRead,
    MissingLog,
    ReadStatus,
)
from auditor.model.cluster import BookieLook, BookieRecord
from auditor.model.facts import EntryLogLostFacts, LostLog
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, EntryId, LedgerId

LOOKS_MIN = 2
"""A log is reported only if this many looks have a list without it and a failed read of its
entries."""
LOGS_NAMED_MAX = 10
"""At most this many entry logs are named in a finding. The others are counted."""
LEDGERS_NAMED_MAX = 10
"""At most this many ledgers are named for each log. The others are counted."""
IO_ERROR = "EIO"
"""The beginning of the detail of a read with this status."""

_SENT = frozenset({ReadStatus.PRESENT, ReadStatus.CORRUPT, ReadStatus.TOO_LARGE})
"""Results of a read that brought the entry, or began to."""


@dataclass(slots=True)
class _Log:
    """What is known of one entry log. `newest` has the newest list of each ledger in it.

    `failed`: reads of its entries that ended in EIO. `is_sent`: a read brought one of its entries.
    """

    looks_of: dict[LedgerId, set[int]] = field(default_factory=dict)
    newest: dict[LedgerId, MissingLog] = field(default_factory=dict)
    failed_looks: set[int] = field(default_factory=set)
    failed: int = 0
    is_sent: bool = False

    def add(self, answer: Answer, log: MissingLog, reads: Mapping[EntryId, EntryRead]) -> None:
        """Add one list, with the reads of its ledger at its look. Lists are added look by look."""
        self.looks_of.setdefault(answer.ledger_id, set()).add(answer.look)
        self.newest[answer.ledger_id] = log
        mine = [read for entry, read in reads.items() if _is_in(entry, log)]
        self.is_sent |= any(_is_in(entry, log) for entry in answer.read_unlisted)
        self.is_sent |= any(read.status in _SENT for read in mine)
        failed = sum(_has_failed(read) for read in mine)
        self.failed += failed
        if failed:
            self.failed_looks.add(answer.look)

    @property
    def is_lost(self) -> bool:
        return len(self.failed_looks) >= LOOKS_MIN and not self.is_sent and bool(self.ledgers())

    def ledgers(self) -> list[LedgerId]:
        """Return the ledgers whose lists left entries of the log out at two looks, ascending."""
        return sorted(ledger for ledger, looks in self.looks_of.items() if len(looks) >= LOOKS_MIN)

    def as_facts(self, path: str) -> LostLog:
        """Return the facts of the entry log at `path`."""
        ledgers = self.ledgers()
        newest = {ledger: self.newest[ledger] for ledger in ledgers}
        some = tuple((ledger, *newest[ledger].ranges[0]) for ledger in ledgers[:LEDGERS_NAMED_MAX])
        return LostLog(
            path, len(ledgers), sum(answer.entries for answer in newest.values()), some, self.failed
        )


def _has_failed(read: EntryRead) -> bool:
    return read.status is ReadStatus.FAILED and read.detail.split(":")[0] == IO_ERROR


def _is_in(entry: EntryId, log: MissingLog) -> bool:
    return any(first <= entry <= last for first, last in log.ranges)


@dataclass(frozen=True, slots=True)
class Logs:
    """The entry logs that one bookie's lister left out of lists, by path. `lister`: its address."""

    by_path: Mapping[str, _Log]
    lister: str


def logs_of(answers: Iterable[Answer], reads: Iterable[EntryRead]) -> dict[BookieId, Logs]:
    """Return what is known of missing entry logs, by bookie.

    `answers` are those with missing logs. `reads` are the reads of their ledgers, without searches.
    """
    read: dict[tuple[BookieId, LedgerId, int], dict[EntryId, EntryRead]] = {}
    for entry_read in reads:
        read.setdefault((entry_read.bookie_id, entry_read.ledger_id, entry_read.look), {})[
            entry_read.entry_id
        ] = entry_read
    logs: dict[BookieId, dict[str, _Log]] = {}
    listers: dict[BookieId, str] = {}
    for answer in sorted(
        answers, key=lambda answer: (answer.look, answer.asked_at_ms, answer.ledger_id)
    ):
        listers[answer.bookie_id] = answer.detail.removeprefix(LISTED_BY_LISTER)
        mine = read.get((answer.bookie_id, answer.ledger_id, answer.look), {})
        for log in answer.missing_logs:
            logs.setdefault(answer.bookie_id, {}).setdefault(log.path, _Log()).add(
                answer, log, mine
            )
    return {bookie: Logs(by_path, listers[bookie]) for bookie, by_path in logs.items()}


def judge_lost_logs(
    looks: Sequence[BookieLook],
    logs: Mapping[BookieId, Logs],
    passed_over: frozenset[BookieId] = frozenset(),
) -> list[Finding]:
    """Return the findings on bookies that lost entry logs, in order of bookie id.

    Bookies in `passed_over` get none: they are in maintenance, or have a stronger finding.
    """
    if nobody_answered(looks):
        return []
    found = []
    for bookie in sorted(logs.keys() - passed_over):
        records = [look[bookie] for look in looks if bookie in look]
        lost = {path: log for path, log in sorted(logs[bookie].by_path.items()) if log.is_lost}
        if lost and records and records[-1].is_registered:
            found.append(_lost_logs_finding(records[-1], logs[bookie].lister, lost))
    return found


def withheld_lost_logs(
    logs: Mapping[BookieId, Logs],
    findings: Iterable[Finding],
    away: frozenset[BookieId] = frozenset(),
) -> list[str]:
    """Return a sentence for each bookie whose missing logs are not reported, with the reason.

    `findings` are those on bookies; bookies in `away` are in planned maintenance. There is no
    sentence if no entry of a log was read, or if each was gone: the index keeps keys of deleted
    ledgers for a while after their log.
    """
    kinds = {(finding.bookie_id, finding.kind) for finding in findings}
    sentences = []
    for bookie in sorted(logs.keys() - away):
        was_read = any(log.failed or log.is_sent for log in logs[bookie].by_path.values())
        if (bookie, Kind.ENTRY_LOG_LOST) in kinds or not was_read:
            continue
        stronger = sorted(kind.value for on, kind in kinds if on == bookie)
        if stronger:
            why = f"{stronger[0]} explains it"
        elif any(log.is_sent for log in logs[bookie].by_path.values()):
            why = "entries in them could be read"
        else:
            why = "it was not confirmed at two looks by reads that end in EIO"
        sentences.append(
            f"the lister of bookie {bookie} says that {len(logs[bookie].by_path)} of its entry logs"
            f" are not on its disk (such as {min(logs[bookie].by_path)}); that is not reported as"
            f" ENTRY_LOG_LOST: {why}"
        )
    return sentences


def _lost_logs_finding(last: BookieRecord, lister: str, lost: Mapping[str, _Log]) -> Finding:
    some_logs = [log.as_facts(path) for path, log in lost.items()]
    facts = EntryLogLostFacts(
        registration=last.registration.value,
        address=f"{last.host}:{last.port}",
        lister=lister,
        logs=len(some_logs),
        ledgers=len({ledger for log in lost.values() for ledger in log.ledgers()}),
        entries=sum(log.entries for log in some_logs),
        some_logs=tuple(some_logs[:LOGS_NAMED_MAX]),
    )
    return Finding(Kind.ENTRY_LOG_LOST, facts, bookie_id=last.bookie_id)


LEFT_OUT = pc.is_valid(pc.field("missing_logs"))
"""Selects the answers of listers that left entry logs out: none in a healthy cluster."""


_SAID = [
    "bookie_id",
    "ledger_id",
    "look",
    "asked_at_ms",
    "status",
    "detail",
    "missing_logs",
    "read_unlisted",
]


_LOST_READ = ["bookie_id", "ledger_id", "entry_id", "look", "asked_at_ms", "status", "detail"]


def lost_logs(run: Place) -> dict[BookieId, Logs]:
    """Return what is known of missing entry logs, by bookie. Costs a scan of one column, mostly
    null.
    """
    rows = run.scan("evidence/answers", ANSWERS).parts_with("missing_logs").table(_SAID, LEFT_OUT)
    if not len(rows):
        return {}
    answers = ANSWER_ROWS.values(structs(rows))
    bookies = pa.array(sorted({answer.bookie_id for answer in answers}))
    ledgers = pa.array(sorted({answer.ledger_id for answer in answers}))
    mine = pc.field("bookie_id").isin(bookies) & pc.field("ledger_id").isin(ledgers)
    reads = run.read_table(
        "evidence/reads", READS, mine & ~pc.field("is_search").isin([True]), _LOST_READ
    )
    return logs_of(answers, READ_ROWS.values(structs(reads)))
