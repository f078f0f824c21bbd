"""Detect that a gone bookie was renamed: a registered bookie holds its entries (contract 8.1).

Verified, for up to three ledgers of the gone bookie: exactly one registered bookie holds all
entries that the gone bookie should. Only bookies that no segment of these ledgers names are
compared. On a bookie that cannot list, only the first, the middle and the last of these entries
were read.

Not verified: the ledgers that were not compared; bookies that gave no valid answer. Verdicts on
ledgers do not depend on it: clients cannot read from a bookie that the metadata does not name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.schedule import expected_entries, extents, held_entries, positions
from auditor.model.availability import Answer, AnswerStatus, ReadStatus
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata

RENAMES_MAX = 10
"""Maximum number of gone bookies that one run searches for under another name."""
RENAME_LEDGERS_MAX = 3
"""Maximum number of ledgers that are compared for one gone bookie."""
RENAME_READS_MAX = 3
"""Maximum number of entries read on one bookie for one ledger. These are the entries that its list
lacks (bookies leave a few out). Where it cannot list, they are the first, the middle and the last.
A bookie whose list lacks more does not hold what the gone bookie should."""


@dataclass(frozen=True, slots=True)
class RenameCase:
    """A gone bookie, and the metadata of the ledgers to compare, which all name it."""

    gone: BookieId
    ledgers: Mapping[LedgerId, LedgerMetadata]

    def should_hold(self, ledger_id: LedgerId) -> EntrySet:
        """Return the entries of a ledger that the gone bookie should hold.

        Costs the segments that name it.
        """
        return entries_due(self.ledgers[ledger_id], self.gone)

    def is_named(self, bookie: BookieId) -> bool:
        """Return whether some segment of these ledgers names the bookie."""
        return any(
            bookie in segment.ensemble for one in self.ledgers.values() for segment in one.segments
        )


@dataclass(frozen=True, slots=True)
class Renamed:
    """The bookie that holds what a gone bookie should, and the ledgers that were compared."""

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

    At most RENAME_READS_MAX. Empty where its list lacks more than that, or it gave no usable
    answer.
    """
    if answer.status is AnswerStatus.UNSUPPORTED:
        return tuple(sorted({due.first(), due.nth(due.count() // 2), due.last()}))
    if answer.status is not AnswerStatus.HELD:
        return ()
    lacking = due - held_entries(answer.groups)
    count = lacking.count()
    return tuple(lacking.nth(index) for index in range(count)) if count <= RENAME_READS_MAX else ()


def holds(due: EntrySet, answer: Answer, reads: Mapping[EntryId, ReadStatus]) -> bool:
    """Return whether a bookie holds all entries that are `due`, given the reads of `reads_due`."""
    wanted = reads_due(due, answer)
    if answer.status is AnswerStatus.UNSUPPORTED:
        is_whole = bool(wanted)
    else:
        is_whole = answer.status is AnswerStatus.HELD and (
            bool(wanted) or not due - held_entries(answer.groups)
        )
    return is_whole and all(reads.get(entry) is ReadStatus.PRESENT for entry in wanted)


def find_new_name(
    case: RenameCase,
    answers: Mapping[tuple[BookieId, LedgerId], Answer],
    reads: Mapping[tuple[BookieId, LedgerId], Mapping[EntryId, ReadStatus]],
) -> Renamed | None:
    """Return the new name of a gone bookie.

    None unless exactly one bookie holds all that the gone bookie should hold.
    """
    asked = sorted(
        {
            bookie
            for bookie, ledger in answers
            if ledger in case.ledgers and not case.is_named(bookie)
        }
    )
    due = {ledger: case.should_hold(ledger) for ledger in case.ledgers}
    holders = [
        bookie
        for bookie in asked
        if all(
            (bookie, ledger) in answers
            and holds(want, answers[bookie, ledger], reads.get((bookie, ledger), {}))
            for ledger, want in due.items()
        )
    ]
    return (
        Renamed(holders[0], tuple(sorted(case.ledgers)))
        if len(holders) == 1 and case.ledgers
        else None
    )
