"""What a lister's scrub found in the entry logs of its bookie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from auditor.model.identity import EntryId, LedgerId

CANDIDATES_MAX = 200
"""Most candidates of one bookie that a scrub reports. The others are counted."""


class Suspicion(StrEnum):
    """Why a scrub names an entry. None of them proves damage: a read on the bookie decides."""

    DIGEST = "digest"
    """Its record fails the digest that other entries of the ledger pass."""
    NO_DIGEST = "no_digest"
    """Its record passes no digest, and no other entry of the ledger was seen to pass one."""
    LOG_DAMAGED = "log_damaged"
    """Its record may be where the log could not be read."""
    OTHER_RECORD = "other_record"
    """The index places it where the log has another record, or none."""
    LOG_MISSING = "log_missing"
    """The index places it in a log that is not on disk."""


class Candidate(NamedTuple):
    """An entry that the auditor should read on the bookie."""

    ledger_id: LedgerId
    entry_id: EntryId
    why: Suspicion


@dataclass(frozen=True, slots=True)
class ScrubPass:
    """One pass over all entry logs, as far as it has come.

    `entries` records were read: `verified` with a right digest, `unchecked` of ledgers whose digest
    needs a password or whose entries have none, `failed` with a wrong digest. `damaged_logs` could
    not be read to their end, or not opened. `unlisted` directories of logs could not be listed,
    or lost logs faster than they were read: other logs of theirs were not read. `suspected` counts
    the candidates, named or not. `ended_at_ms` is None while the pass lasts.
    """

    began_at_ms: int
    ended_at_ms: int | None = None
    logs: int = 0
    damaged_logs: int = 0
    unlisted: int = 0
    read_bytes: int = 0
    total_bytes: int = 0
    entries: int = 0
    verified: int = 0
    unchecked: int = 0
    failed: int = 0
    suspected: int = 0


@dataclass(frozen=True, slots=True)
class ScrubReport:
    """The newest finished pass and the one that lasts, with the candidates of both.

    `written_at_ms` is when the scrub last said so.
    """

    written_at_ms: int
    finished: ScrubPass | None = None
    current: ScrubPass | None = None
    candidates: tuple[Candidate, ...] = ()

    def passes(self) -> Iterator[ScrubPass]:
        """Yield the finished pass, then the one that lasts, if there are any."""
        yield from (one for one in (self.finished, self.current) if one is not None)
