"""Which ledgers rest on lists that do not count, and which entries an index lost.

A list of a lister that its bookie contradicted later in the run may name too much, which hides
losses: a verdict that was sound or exempt becomes unknown (`answer_invalid`). A violation stays,
because a read on the bookie itself confirmed each absence. It gets the reason too. The same holds
for answers that were believed because they were as expected, where what is stored shows that this
was not so (`checkers_disagree`).

A list may also name too little: a bookie may send entries that its index lacks. The index lost
them, the bytes exist. Only lists of a lister can show this. Lists of a lister that its bookie
contradicted in the run do not count, because it may read the index of another directory. Such an
entry is still a copy, and nothing is reported as a violation. A bookie indexes what it holds at
each flush. Ledgers therefore count only if their metadata was last written long before the list.

Lists that are believed though no bookie is known to send such are the field `odd_lists`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import IS_EXPECTED_UNKNOWN, IS_KEPT_LIST, has_wrong_comparison
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS
from auditor.model.availability import LISTED_BY_LISTER, LISTER_CONTRADICTED, Answer, AnswerStatus
from auditor.model.evidence import LedgerEvidence
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.summary import OddLists, UnindexedBookie
from auditor.model.verdict import Exempt, Standing, Unknown, Verdict
from auditor.summary.assurance import BOOKIES_NAMED_MAX

_ORDER = {unknown: number for number, unknown in enumerate(Unknown)}


def spoil_verdict(verdict: Verdict, reason: Unknown) -> Verdict:
    """Return the verdict of a ledger if some of its lists do not count, and why they do not."""
    if verdict.exempt is Exempt.DELETED:
        return verdict
    unknowns = sorted({*verdict.unknowns, reason}, key=_ORDER.__getitem__)
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


def contradicting_bookies(run: Place) -> pa.Array:
    """Return the ids of the bookies that contradicted their lister. Costs a scan of the
    greetings.
    """
    contradicted = pc.is_null(pc.field("ledger_id")) & pc.starts_with(
        pc.field("detail"), LISTER_CONTRADICTED
    )
    return pc.unique(
        run.read_table("evidence/answers", ANSWERS, contradicted, ["bookie_id"])["bookie_id"]
    )


def spoiled_ledgers(run: Place) -> dict[Unknown, pa.Array]:
    """Return the ids of the ledgers that rest on lists that do not count, by the reason that their
    verdicts get.

    Costs a scan of the greetings and of the lists that are stored though they are as expected.
    """
    return {
        Unknown.ANSWER_INVALID: _contradicted_ledgers(run),
        Unknown.CHECKERS_DISAGREE: _wrongly_compared_ledgers(run),
    }


def _wrongly_compared_ledgers(run: Place) -> pa.Array:
    """Return the ledgers that rest on a comparison, if one is wrong by what is stored: then none is
    believed.

    These are the ledgers of which a list is not stored, and those outside the sample of which a
    bookie said that it does not know them. In the sample both checkers judged what is stored.
    """
    if not has_wrong_comparison(run):
        return pa.array([], pa.int64())
    is_left_out = (pc.field("status") == AnswerStatus.HELD.value) & pc.is_null(pc.field("groups"))
    left_out, unknown, kept = (
        run.read_table("evidence/answers", ANSWERS, keep, ["ledger_id"])["ledger_id"]
        for keep in (is_left_out, IS_EXPECTED_UNKNOWN, IS_KEPT_LIST)
    )
    unknown = unknown.filter(pc.invert(pc.is_in(unknown, kept)))
    return pc.unique(pa.chunked_array([*left_out.chunks, *unknown.chunks], pa.int64()))


def _contradicted_ledgers(run: Place) -> pa.Array:
    """Return the ledgers that rest on a list of a lister that its bookie contradicted.

    Lists that such a lister gave after the contradiction are `answer_invalid` already.
    """
    bookies = contradicting_bookies(run)
    if not len(bookies):
        return pa.array([], pa.int64())
    listed = pc.starts_with(pc.field("detail"), LISTED_BY_LISTER) & (
        pc.field("status") == AnswerStatus.HELD.value
    )
    theirs = pc.field("bookie_id").isin(bookies) & pc.is_valid(pc.field("ledger_id")) & listed
    return pc.unique(
        run.read_table("evidence/answers", ANSWERS, theirs, ["ledger_id"])["ledger_id"]
    )


LEDGERS_NAMED_MAX = 10
"""At most this many ledgers are named for each bookie; the rest is counted."""


def unindexed_bookies(run: Place) -> tuple[UnindexedBookie, ...]:
    """Return the bookies that send entries which their index lost, ten at most.

    Costs a scan of one column, mostly null, and the metadata's times of the ledgers in it.
    """
    said = pc.is_valid(pc.field("read_unlisted")) & pc.is_null(pc.field("missing_logs"))
    scan = run.scan("evidence/answers", ANSWERS).parts_with("read_unlisted")
    answers = scan.table(["bookie_id", "ledger_id", "asked_at_ms", "read_unlisted"], said)
    if not answers.num_rows:
        return ()
    answers = answers.filter(~pc.field("bookie_id").isin(contradicting_bookies(run)))
    mine = pc.field("ledger_id").isin(pc.unique(answers["ledger_id"]))
    times = run.read_table(
        "evidence/ledgers", LEDGERS, mine, ["ledger_id", "znode_mtime_ms"]
    ).filter(pc.is_valid(pc.field("znode_mtime_ms")))
    newest = times.group_by("ledger_id").aggregate([("znode_mtime_ms", "max")])
    written = dict(
        zip(newest["ledger_id"].to_pylist(), newest["znode_mtime_ms_max"].to_pylist(), strict=True)
    )
    return _by_bookie(answers, written)


def _by_bookie(answers: pa.Table, written: Mapping[LedgerId, int]) -> tuple[UnindexedBookie, ...]:
    found: dict[BookieId, dict[LedgerId, EntryId]] = {}
    for row in answers.to_pylist():
        ledger = row["ledger_id"]
        if ledger in written and row["asked_at_ms"] - written[ledger] >= FLUSHED_AFTER_MS:
            mine, sent = found.setdefault(row["bookie_id"], {}), row["read_unlisted"]
            mine[ledger] = min(*sent, mine.get(ledger, sent[0]))
    return tuple(
        UnindexedBookie(
            bookie, len(found[bookie]), tuple(sorted(found[bookie].items())[:LEDGERS_NAMED_MAX])
        )
        for bookie in sorted(found)[:BOOKIES_NAMED_MAX]
    )


def read_odd_lists(run: Place) -> OddLists:
    """Return the odd lists of a run. Costs a scan of one column, mostly false."""
    odd = run.read_table("evidence/answers", ANSWERS, pc.field("non_canonical"), ["bookie_id"])
    return count_odd_lists(odd["bookie_id"].to_pylist())


def count_odd_lists(bookies: Iterable[BookieId]) -> OddLists:
    """Return the odd lists of these bookies, each as often as it sent one."""
    lists = Counter(bookies)
    return OddLists(lists.total(), len(lists), tuple(sorted(lists)[:BOOKIES_NAMED_MAX]))
