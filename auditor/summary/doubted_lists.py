"""Which ledgers rest on lists that their bookie contradicted, and which entries an index lost.

The bookie of a lister may contradict a list at any time of the run. It may also send entries that
its index lacks: the index lost them, the bytes exist. Only lists of a lister can show this. Lists
of a lister that its bookie contradicted in the run do not count, because it may read the index of
another directory. Such an entry is still a copy, and nothing is reported as a violation. A bookie
indexes what it holds at each flush. Ledgers therefore count only if their metadata was last written
long before the list.

Lists that are believed though no bookie is known to send such are the field `odd_lists`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS
from auditor.judging.contradicted_lists import FLUSHED_AFTER_MS
from auditor.model.availability import LISTED_BY_LISTER, LISTER_CONTRADICTED, AnswerStatus
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.summary import OddLists, UnindexedBookie
from auditor.summary.assurance import BOOKIES_NAMED_MAX


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


def spoiled_ledgers(run: Place) -> pa.Array:
    """Return the ids of these ledgers, from the written answers. Costs a scan of the greetings.

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
    answers = run.read_table(
        "evidence/answers",
        ANSWERS,
        said,
        ["bookie_id", "ledger_id", "asked_at_ms", "read_unlisted"],
    )
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
