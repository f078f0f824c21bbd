"""Read from the evidence what bookies refused, could not send, or have lost.

Bookies may answer every request with an error status, may be unable to send some entries, or may
have lost an entry log: then listers leave its entries out of lists. `findings.bookies`,
`findings.unreadable_entries` and `findings.lost_logs` judge the results.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.rows import ANSWER_ROWS, READ_ROWS, structs
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.evidence.table_scan import TableScan
from auditor.findings.bookies import LEDGERS_NAMED_MAX, Refusals
from auditor.findings.lost_logs import Logs, logs_of
from auditor.findings.unreadable_entries import Reading, Unreadable, unreadable_of
from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.schedule import held_entries
from auditor.model.availability import (
    NOT_ADMITTED,
    UNREADABLE_READS,
    VALID_ANSWERS,
    AnswerStatus,
    ReadStatus,
)
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.verdict import Exempt

REQUESTED = pa.schema(
    [ANSWERS.field(name) for name in ("bookie_id", "ledger_id", "look", "status", "detail")]
)
"""The columns of ANSWERS and of READS that tell how a request ended."""
REFUSED = [AnswerStatus.REFUSED.value, AnswerStatus.FAILED.value]
"""The statuses of a list or a read that ended in an error status. ReadStatus has the same words."""
LOOKS_MIN = 2
"""A ledger counts as refused only after this many looks."""


def refusals(answers: pa.Table, reads: pa.Table) -> dict[BookieId, Refusals]:
    """Return each bookie whose every list and read ended in an error status, with counts.

    Both tables hold the REQUESTED rows of all bookies that refused anything. The reads decide on a
    bookie that cannot list. Reads of ledgers that the bookie was not asked to list do not count,
    because it should hold nothing of them. Of a bookie that did not admit us nothing was requested.
    Costs the rows.
    """
    lists = answers.filter(
        pc.is_valid(pc.field("ledger_id")) & (pc.field("status") != AnswerStatus.UNSUPPORTED.value)
    )
    due = answers.filter(pc.is_valid(pc.field("ledger_id"))).select(["bookie_id", "ledger_id"])
    mine = reads.join(due, ["bookie_id", "ledger_id"], join_type="left semi")
    every = pa.concat_tables([lists.select(REQUESTED.names), mine.select(REQUESTED.names)])
    unasked = pc.starts_with(pc.field("detail"), pattern=NOT_ADMITTED)
    other = set(
        pc.unique(
            every.filter(~pc.field("status").isin(REFUSED) | unasked)["bookie_id"]
        ).to_pylist()
    )
    failing = sorted(set(pc.unique(every["bookie_id"]).to_pylist()) - other)
    return {
        bookie: _count_refusals(
            *(part.filter(pc.field("bookie_id") == bookie) for part in (lists, mine))
        )
        for bookie in failing
    }


def _count_refusals(lists: pa.Table, reads: pa.Table) -> Refusals:
    every = pa.concat_tables([lists.select(REQUESTED.names), reads.select(REQUESTED.names)])
    looks = every.group_by("ledger_id").aggregate([("look", "count_distinct")])
    ledgers = sorted(
        looks.filter(pc.field("look_count_distinct") >= LOOKS_MIN)["ledger_id"].to_pylist()
    )
    names = pc.list_element(pc.split_pattern(every["detail"], ":"), 0)
    counts = {
        counted["values"]: counted["counts"] for counted in pc.value_counts(names).to_pylist()
    }
    statuses = tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return Refusals(
        len(ledgers), tuple(ledgers[:LEDGERS_NAMED_MAX]), lists.num_rows, reads.num_rows, statuses
    )


_VALID = [status.value for status in VALID_ANSWERS]


def refusals_of(run: Place) -> dict[BookieId, Refusals]:
    """Return the bookies that answered every request with an error status.

    Empty if no bookie served any request: then our credentials are at fault. Costs a scan of two
    columns, and the rows of bookies that refused something.
    """
    refused = pc.field("status").isin(REFUSED)
    some = {
        bookie
        for name, schema in (("evidence/answers", ANSWERS), ("evidence/reads", READS))
        for bookie in pc.unique(
            run.read_table(
                name, schema, refused & pc.is_valid(pc.field("ledger_id")), ["bookie_id"]
            )["bookie_id"]
        ).to_pylist()
    }
    serving = _serving_bookies(run) if some else set()
    some = {bookie for bookie in some if serving - {bookie}}
    if not some:
        return {}
    theirs = pc.field("bookie_id").isin(pa.array(sorted(some)))
    return refusals(
        run.read_table("evidence/answers", ANSWERS, theirs, REQUESTED.names),
        run.read_table(
            "evidence/reads", READS, theirs & ~pc.field("is_search").isin([True]), REQUESTED.names
        ),
    )


def _serving_bookies(run: Place) -> set[BookieId]:
    """Return the bookies that gave a list or an entry."""
    lists = run.read_table(
        "evidence/answers", ANSWERS, pc.field("status").isin(_VALID), ["bookie_id"]
    )
    reads = run.read_table(
        "evidence/reads", READS, pc.field("status") == ReadStatus.PRESENT.value, ["bookie_id"]
    )
    return {
        bookie for rows in (lists, reads) for bookie in pc.unique(rows["bookie_id"]).to_pylist()
    }


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
    rows = run.read_table("evidence/answers", ANSWERS, LEFT_OUT, _SAID)
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


FAILED = pc.field("status").isin(sorted(status.value for status in UNREADABLE_READS))
"""Selects the reads that failed: none in a healthy cluster."""
NO_SEARCH = ~pc.field("is_search").isin([True])
_READ = ["bookie_id", "ledger_id", "entry_id", "look", "status", "detail", "is_spot", "is_denser"]
_LIST = ["bookie_id", "ledger_id", "look", "status", "groups"]


class _Said(NamedTuple):
    """One read of a copy."""

    look: int
    status: ReadStatus
    detail: str
    is_spot: bool
    is_denser: bool


def unreadable_entries(run: Place, verdicts: TableScan) -> dict[BookieId, Unreadable]:
    """Return what is known of bookies that could not send entries, by bookie.

    Ledgers that were deleted meanwhile do not count. Costs a scan of three columns, and the reads
    and lists of bookies with a failed read.
    """
    failed = run.read_table("evidence/reads", READS, FAILED & NO_SEARCH, ["bookie_id"])
    bookies = pc.unique(failed["bookie_id"])
    if not len(bookies):
        return {}
    deleted = verdicts.table(["ledger_id"], pc.field("exempt") == Exempt.DELETED.value)
    theirs = pc.field("bookie_id").isin(bookies)
    there = ~pc.field("ledger_id").isin(deleted["ledger_id"].combine_chunks())
    reads = run.read_table("evidence/reads", READS, theirs & NO_SEARCH & there, _READ)
    lists = _lists(run, theirs, pc.unique(reads["ledger_id"]))
    words: dict[BookieId, dict[tuple[LedgerId, EntryId], list[_Said]]] = {}
    for bookie, ledger, entry, look, status, detail, *flags in zip(
        *reads.to_pydict().values(), strict=True
    ):
        held = lists.get((bookie, ledger, look))
        if held is None or entry in held:
            said = _Said(look, ReadStatus(status), detail, *map(bool, flags))
            words.setdefault(bookie, {}).setdefault((ledger, entry), []).append(said)
    found = {
        bookie: unreadable_of(_reading(ledger, entry, said) for (ledger, entry), said in of.items())
        for bookie, of in words.items()
    }
    return {bookie: unreadable for bookie, unreadable in found.items() if unreadable is not None}


def _reading(ledger: LedgerId, entry: EntryId, said: list[_Said]) -> Reading:
    ordered = sorted(said, key=lambda read: read.look)
    words = tuple((read.status, read.detail) for read in ordered)
    return Reading(ledger, entry, words, ordered[0].is_spot, ordered[0].is_denser)


def _lists(
    run: Place, theirs: pc.Expression, ledgers: pa.Array
) -> dict[tuple[BookieId, LedgerId, int], EntrySet | None]:
    """Return what these bookies listed of these ledgers at each look; None if a bookie cannot
    list.
    """
    keep = theirs & pc.field("ledger_id").isin(ledgers)
    rows = run.read_table("evidence/answers", ANSWERS, keep, _LIST).to_pydict()
    return {
        (bookie, ledger, look): (
            None
            if status == AnswerStatus.UNSUPPORTED.value
            else held_entries(groups)
            if status == AnswerStatus.HELD.value
            else EMPTY
        )
        for bookie, ledger, look, status, groups in zip(*rows.values(), strict=True)
    }
