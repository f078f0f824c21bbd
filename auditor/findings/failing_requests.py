"""Bookies that are registered, connect, and fail every request.

This goes beyond BP-34's fourth check. Verified: at two looks or more, each list and each read of
ledgers that the bookie should hold ended in an error status. Some other bookie served its requests.

Not verified: why the bookie fails (a disk, an unclean shutdown, its authentication). Time-outs,
silence and unreadable answers are not error statuses: a bookie with any of them is not reported as
failing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.findings.bookies import LEDGERS_NAMED_MAX, nobody_answered
from auditor.model.availability import (
    NOT_ADMITTED,
    VALID_ANSWERS,
    AnswerStatus,
    Greeting,
    ReadStatus,
)
from auditor.model.cluster import BookieLook, BookieRecord
from auditor.model.facts import FailingFacts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, LedgerId

FAILING_LEDGERS_MIN = 3
"""A bookie is reported only if it refused at least this many ledgers at two looks or more. Fewer
may have a fault of their own, such as a damaged index page."""


_CONNECTED = frozenset({Greeting.ANSWERED, Greeting.REFUSED, Greeting.UNSUPPORTED})


@dataclass(frozen=True, slots=True)
class Refusals:
    """The requests to one bookie about ledgers that it should hold, all of which ended in an error.

    `ledgers` were refused at two looks or more. `statuses` are the error statuses with their
    number, the most frequent first.
    """

    ledgers: int
    some: tuple[LedgerId, ...]
    lists: int
    reads: int
    statuses: tuple[tuple[str, int], ...]


def _is_failing(refusals: Refusals) -> bool:
    """Return whether enough ledgers were refused to blame the bookie."""
    return refusals.ledgers >= FAILING_LEDGERS_MIN


def judge_failing(
    looks: Sequence[BookieLook],
    refusals: Mapping[BookieId, Refusals],
    maintenance: frozenset[BookieId] = frozenset(),
) -> list[Finding]:
    """Return the findings on bookies that fail every request, in order of bookie id.

    Bookies in `maintenance` get no finding. `refusals` must be empty if no bookie served anything:
    then the fault lies with our credentials.
    """
    if nobody_answered(looks):
        return []
    found = []
    for bookie in sorted(refusals.keys() - maintenance):
        records = [look[bookie] for look in looks if bookie in look]
        if _is_failing(refusals[bookie]) and len(records) > 1 and all(map(_is_connected, records)):
            found.append(_failing_finding(records, refusals[bookie]))
    return found


def withheld_failing(refusals: Mapping[BookieId, Refusals]) -> list[str]:
    """Return a sentence for each bookie not reported because an operator chose the run's ledgers.

    These ledgers say nothing about the bookie's other ledgers.
    """
    return [
        f"bookie {bookie} refused each request about {refusal.ledgers} ledgers; as these were named"
        " by an operator, that says nothing about its other ledgers: run over all ledgers to find"
        " out"
        for bookie, refusal in sorted(refusals.items())
        if _is_failing(refusal)
    ]


def _is_connected(record: BookieRecord) -> bool:
    return record.is_registered and record.greeting in _CONNECTED


def _failing_finding(records: Sequence[BookieRecord], refusals: Refusals) -> Finding:
    last = records[-1]
    facts = FailingFacts(
        registration=last.registration.value,
        address=f"{last.host}:{last.port}",
        looks=len(records),
        ledgers=refusals.ledgers,
        some_ledgers=refusals.some[:LEDGERS_NAMED_MAX],
        lists_refused=refusals.lists,
        reads_refused=refusals.reads,
        statuses=refusals.statuses,
    )
    return Finding(Kind.BOOKIE_FAILING_REQUESTS, facts, bookie_id=last.bookie_id)


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
    because it should hold nothing of them. Nothing was requested from a bookie that did not admit
    us. Costs the rows.
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
