"""Detect that a bookie was renamed: a registered bookie holds the entries of an unregistered one.

Verified, for up to three ledgers of the unregistered bookie: exactly one registered bookie holds
everything that the other should hold of at least one ledger, and lacks nothing of the others. A
ledger that names the registered bookie proves nothing, nor does one for which that bookie gave no
conclusive answer. On a bookie that cannot list, only the first, the middle and the last entry were
read.

Not verified: the ledgers that were not compared; bookies that gave no valid answer. Verdicts on
ledgers do not depend on it: clients cannot read from a bookie that the metadata does not name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import ledger_records
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, RENAMES
from auditor.findings.bookies import BRIEF_ANSWERS
from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.schedule import expected_entries, extents, held_entries, positions
from auditor.model.availability import (
    ABSENT_READS,
    NO_COOKIE,
    Answer,
    AnswerStatus,
    ReadStatus,
)
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata

RENAMES_MAX = 10
"""One run searches for at most this many gone bookies under another name."""
RENAME_LEDGERS_MAX = 3
"""At most this many ledgers are compared for one gone bookie."""
RENAME_READS_MAX = 3
"""At most this many entries are read on one bookie for one ledger. These are the entries that its
list lacks (bookies leave a few out). If it cannot list, they are the first, the middle and the
last. A bookie whose list lacks more does not hold the gone bookie's entries."""


@dataclass(frozen=True, slots=True)
class RenameCase:
    """A bookie that is not registered, and the metadata of ledgers to compare, which all name it.

    Whether it has a cookie does not matter: the bookie may have a new one under its new id.
    """

    gone: BookieId
    ledgers: Mapping[LedgerId, LedgerMetadata]

    def should_hold(self, ledger_id: LedgerId) -> EntrySet:
        """Return the entries of a ledger that the gone bookie should hold.

        Costs the segments that name it.
        """
        return entries_due(self.ledgers[ledger_id], self.gone)

    def for_bookie(self, bookie: BookieId) -> RenameCase:
        """Return the case with only those ledgers that can tell whether this bookie is the gone
        one.

        No segment of theirs names this bookie: it may hold the entries of the others as itself.
        """
        return RenameCase(
            self.gone,
            {
                ledger_id: metadata
                for ledger_id, metadata in self.ledgers.items()
                if not any(bookie in segment.ensemble for segment in metadata.segments)
            },
        )


@dataclass(frozen=True, slots=True)
class Renamed:
    """The bookie that holds the entries of an unregistered one, and the ledgers that prove it."""

    renamed_to: BookieId
    ledgers: tuple[LedgerId, ...]


def entries_due(metadata: LedgerMetadata, bookie: BookieId) -> EntrySet:
    """Return the entries of a closed ledger that a bookie should hold.

    Costs the segments that name it.
    """
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    ensembles = (
        (extent, positions(extent.segment.ensemble).get(bookie)) for extent in extents(metadata)
    )
    return EntrySet.join(
        expected_entries(extent, at, size, quorum) for extent, at in ensembles if at
    )


def reads_due(due: EntrySet, answer: Answer) -> tuple[EntryId, ...]:
    """Return the entries to read after a bookie's answer to a list request.

    At most RENAME_READS_MAX. Empty if its list lacks more than that, or it gave no usable answer.
    """
    if answer.status is AnswerStatus.UNSUPPORTED:
        return tuple(sorted({due.first(), due.nth(due.count() // 2), due.last()}))
    if answer.status is not AnswerStatus.HELD:
        return ()
    lacking = due - held_entries(answer.groups)
    count = lacking.count()
    return tuple(lacking.nth(index) for index in range(count)) if count <= RENAME_READS_MAX else ()


def attest(due: EntrySet, answer: Answer, reads: Mapping[EntryId, ReadStatus]) -> bool | None:
    """Return whether a bookie holds all entries that are `due`, given the reads of `reads_due`.

    None if its answer or its reads leave that open.
    """
    if answer.status is AnswerStatus.NO_SUCH_LEDGER:
        return False
    if answer.status not in (AnswerStatus.HELD, AnswerStatus.UNSUPPORTED):
        return None
    wanted = reads_due(due, answer)
    if answer.status is AnswerStatus.HELD and not wanted:
        return not due - held_entries(answer.groups)
    found = [reads.get(entry) for entry in wanted]
    if any(status in ABSENT_READS for status in found):
        return False
    return True if all(status is ReadStatus.PRESENT for status in found) else None


def find_new_name(
    case: RenameCase,
    answers: Mapping[tuple[BookieId, LedgerId], Answer],
    reads: Mapping[tuple[BookieId, LedgerId], Mapping[EntryId, ReadStatus]],
) -> Renamed | None:
    """Return the new name of a bookie that is not registered.

    None unless ledgers prove it for exactly one bookie, and none disproves it.
    """
    holders = []
    for bookie in sorted({bookie for bookie, ledger in answers if ledger in case.ledgers}):
        mine = case.for_bookie(bookie)
        words = {
            ledger: attest(
                mine.should_hold(ledger),
                answers[bookie, ledger],
                reads.get((bookie, ledger), {}),
            )
            for ledger in sorted(mine.ledgers)
            if (bookie, ledger) in answers
        }
        witnesses = tuple(ledger for ledger, word in words.items() if word)
        if witnesses and False not in words.values():
            holders.append(Renamed(bookie, witnesses))
    return holders[0] if len(holders) == 1 else None


RENAMES_TABLE = "evidence/renames"


CANDIDATES_MAX = 20
"""Maximum number of ledgers checked to find RENAME_LEDGERS_MAX that still name a gone bookie."""


_MISSING = pc.field("status") == AnswerStatus.UNREGISTERED.value


def rename_cases(run: Place, known: Collection[BookieId]) -> list[RenameCase]:
    """Return the bookies to look for under another name, with their ledgers, sorted by id.

    They are not registered. There are at most RENAMES_MAX; those without a cookie come first.
    `known`: bookies that are registered by now. The
    ledgers of a bookie are those with the lowest ids that are closed, not empty and still name it.
    Costs a scan of the answers.
    """
    columns = ["bookie_id", "ledger_id", "detail"]
    named = run.read_table("evidence/answers", BRIEF_ANSWERS, _MISSING, columns)
    forgotten = set(named.filter(pc.field("detail") == NO_COOKIE)["bookie_id"].to_pylist())
    missing = set(pc.unique(named["bookie_id"]).to_pylist()) - set(known)
    gone = sorted(missing, key=lambda bookie: (bookie not in forgotten, bookie))[:RENAMES_MAX]
    lowest = {bookie: _lowest(named, bookie) for bookie in gone}
    metadata = _metadata(run, {ledger for ledgers in lowest.values() for ledger in ledgers})
    cases = []
    for bookie, ledgers in lowest.items():
        due = [
            ledger
            for ledger in ledgers
            if ledger in metadata and entries_due(metadata[ledger], bookie)
        ]
        if due:
            cases.append(
                RenameCase(
                    bookie, {ledger: metadata[ledger] for ledger in due[:RENAME_LEDGERS_MAX]}
                )
            )
    return cases


def _lowest(named: pa.Table, bookie: BookieId) -> list[LedgerId]:
    ids = pc.unique(named.filter(pc.field("bookie_id") == bookie)["ledger_id"])
    return [id_.as_py() for id_ in ids.take(pc.sort_indices(ids))[:CANDIDATES_MAX]]


def _metadata(run: Place, ids: Collection[LedgerId]) -> dict[LedgerId, LedgerMetadata]:
    """Return the newest metadata of those ledgers that then existed and could be decoded."""
    rows = run.read_table(
        "evidence/ledgers", LEDGERS, pc.field("ledger_id").isin(pa.array(sorted(ids)))
    )
    newest = {record.ledger_id: record for record in ledger_records(rows.sort_by("look"))}
    return {i: record.metadata for i, record in newest.items() if record.metadata is not None}


def renames(run: Place) -> dict[BookieId, Renamed]:
    """Return the missing bookies that probably have a new name. Empty if no bookie was asked."""
    if not run.has_table(RENAMES_TABLE):
        return {}
    rows = run.read_table(RENAMES_TABLE, RENAMES, pc.is_valid(pc.field("ledger_id"))).to_pylist()
    answers: dict[tuple[BookieId, LedgerId], Answer] = {}
    reads: dict[tuple[BookieId, LedgerId], dict[EntryId, ReadStatus]] = defaultdict(dict)
    ledgers: dict[BookieId, set[LedgerId]] = defaultdict(set)
    for row in rows:
        key = row["bookie_id"], row["ledger_id"]
        if row["entry_id"] is None:
            answers[key] = Answer(
                *key, 0, row["asked_at_ms"], AnswerStatus(row["status"]), row["groups"]
            )
        else:
            reads[key][row["entry_id"]] = ReadStatus(row["status"])
        for bookie in row["gone"]:
            ledgers[bookie].add(row["ledger_id"])
    metadata = _metadata(run, {ledger for ids in ledgers.values() for ledger in ids})
    cases = (
        RenameCase(bookie, {i: metadata[i] for i in ids if i in metadata})
        for bookie, ids in sorted(ledgers.items())
    )
    return {
        case.gone: one for case in cases if (one := find_new_name(case, answers, reads)) is not None
    }
