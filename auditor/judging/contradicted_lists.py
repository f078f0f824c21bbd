"""What a lister's list is worth once its bookie has been read.

A list that its bookie contradicted later in the run may name too much, which hides losses: a
verdict that was sound or exempt becomes unknown (`answer_invalid`). A violation stays, because a
read on the bookie itself confirmed each absence. It gets the reason too. A list may also name too
little: a bookie may send entries that its index lacks (`summary.doubted_lists`).
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from auditor.model.availability import LISTER_CONTRADICTED, Answer
from auditor.model.evidence import LedgerEvidence
from auditor.model.identity import BookieId, EntryId
from auditor.model.verdict import Exempt, Standing, Unknown, Verdict

_ORDER = {unknown: number for number, unknown in enumerate(Unknown)}


def spoil_verdict(verdict: Verdict) -> Verdict:
    """Return the verdict of a ledger if some of its lists no longer count."""
    if verdict.exempt is Exempt.DELETED:
        return verdict
    unknowns = sorted({*verdict.unknowns, Unknown.ANSWER_INVALID}, key=_ORDER.__getitem__)
    standing = max(verdict.standing, Standing.INDETERMINATE)
    kept = replace(verdict, is_mark_stale=False, only_maintenance=False)
    return replace(kept, standing=standing, unknowns=tuple(unknowns))


FLUSHED_AFTER_MS = 600_000
"""After this time a bookie must have flushed: ten times the flushInterval of Pulsar's
configuration."""


def denying_bookies(ledgers: Iterable[LedgerEvidence]) -> frozenset[BookieId]:
    """Return the bookies that contradicted their listers about any of these ledgers."""
    return frozenset(
        answer.bookie_id
        for evidence in ledgers
        for look in evidence.looks
        for answer in look.answers.values()
        if answer.detail.startswith(LISTER_CONTRADICTED)
    )


def unindexed_on(evidence: LedgerEvidence, denying: Set[BookieId]) -> dict[BookieId, EntryId]:
    """Return the bookies whose index lost entries of this ledger, each with the lowest one sent.

    `denying` are bookies that contradicted their listers about any ledger. They are left out: such
    a lister may read the index of another directory.
    """
    stamps = [look.record.stamp for look in evidence.looks if look.record.stamp is not None]
    if not stamps:
        return {}
    written_ms = max(stamp.mtime_ms for stamp in stamps)
    answers = [answer for look in evidence.looks for answer in look.answers.values()]
    found: dict[BookieId, EntryId] = {}
    for answer in _flushed_before(answers, written_ms):
        found[answer.bookie_id] = min(
            *answer.read_unlisted, found.get(answer.bookie_id, answer.read_unlisted[0])
        )
    return {bookie: found[bookie] for bookie in sorted(found.keys() - denying)}


def _flushed_before(answers: Iterable[Answer], written_ms: int) -> Iterable[Answer]:
    return (
        answer
        for answer in answers
        if answer.read_unlisted
        and not answer.missing_logs
        and answer.asked_at_ms - written_ms >= FLUSHED_AFTER_MS
    )
