"""The end of a run: the ledgers are accounted for, the findings gathered, the summary counted. Only from what was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, READS, RENAMES
from auditor.first_checker.content import judge_content, withheld_content
from auditor.first_checker.failing import Refusals, judge_failing, withheld_failing
from auditor.first_checker.lost_logs import Logs, judge_lost_logs, withheld_lost_logs
from auditor.first_checker.reachability import BookieLook, Missed, judge_bookies, nobody_answered, withheld
from auditor.first_checker.renaming import Renamed
from auditor.model.availability import ABSENT_READS, VALID_ANSWERS, ReadStatus
from auditor.model.cluster import BookieRecord
from auditor.model.finding import Finding
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import RecordStatus
from auditor.model.verdict import Exempt
from auditor.run.read_counts import znodes_read
from auditor.second_checker.finding_comparison import Agreed
from auditor.summary.about import About
from auditor.summary.absences import absences_json, unregistered_since
from auditor.summary.bookies import (
    IS_MARKED,
    MARK_KEY,
    STATE,
    TOLD,
    UNHEARD_OR_GREETING,
    bookies_missed,
    by_look,
    named_ledgers,
)
from auditor.summary.cross_check import bookies_agreed
from auditor.summary.grouping import Heard, causes, gather_heard
from auditor.summary.last_words import Ids
from auditor.summary.ledgers import account
from auditor.summary.lost_logs import lost_logs
from auditor.summary.mark_counts import stale_ledgers
from auditor.summary.mark_findings import MarkFindings, mark_findings
from auditor.summary.population import Population, population
from auditor.summary.refusals import refusals_of
from auditor.summary.renames import NAME as RENAMES_NAME
from auditor.summary.renames import renames
from auditor.summary.run_summary import Costs, Previous, RunFacts, findings_of, summarise
from auditor.summary.unindexed_entries import add_unindexed
from auditor.witness.finding_lines import bookie_testimony, finding_line


@dataclass(frozen=True, slots=True)
class Conclusion:
    """`summary` as in summary.json; `findings` as the lines of findings.jsonl, the worst first; `ledger_files` by name the ids
    of ledgers: those of each cause, of stale marks, and of marks without a ledger."""

    summary: dict[str, Any]
    findings: list[str]
    ledger_files: Mapping[str, Ids] = field(default_factory=dict)


def conclude(
    run: Place,
    about: About,
    bookies: Sequence[BookieRecord],
    previous: Previous,
    *,
    verdicts: pa.Table,
    finished_at: str,
    duration_s: Mapping[str, float],
) -> Conclusion:
    """Account for every listed ledger, then count. Raises AccountingError, and then nothing is counted."""
    account(run.read_table("evidence/listing", LISTING)["ledger_id"], verdicts["ledger_id"])
    seen = _bookies(run, about, bookies, verdicts)
    listed, marked = population(run, about), mark_findings(run, about)
    agreed = bookies_agreed(run, about, bookies, verdicts, _on_bookies(seen, about))
    findings = findings_of(verdicts, _lines(agreed, seen, about, listed, marked))
    not_there = _not_there(run, verdicts) if about.partial else ()
    facts = RunFacts(
        run_id=about.run_id,
        facts=about.facts,
        started_at=about.started_at,
        finished_at=finished_at,
        duration_s=duration_s,
        fail_on=about.fail_on,
        allow_empty=about.allow_empty,
        partial=about.partial,
        nobody_answered=nobody_answered(seen.looks),
        not_there=len(not_there),
        withheld=(*_missing_sentences(not_there), *listed.withheld, *marked.withheld, *_of_bookies(seen, about)),
        terms=about.terms,
        listing_was_short=bool(listed.withheld),
        resumed_at=about.resumed_at,
        unlisted_marks=marked.unlisted,
        baseline=listed.baseline,
        absences=absences_json(seen.since, _renamed_json(seen.renamed)),
        differ=(*agreed.differ, *listed.differ, *marked.differ),
    )
    why = causes(run, about, verdicts, seen.looks, findings, seen.held, seen.renamed)
    summary = add_unindexed(summarise(facts, verdicts, bookies, _costs(run), findings, previous), run) | why.as_json()
    return Conclusion(summary, findings, {**why.files, **_mark_files(verdicts, marked.ledger_ids)})


STALE_MARKS, MARKS_WITHOUT_LEDGER = "marks/stale.txt", "marks/without_ledger.txt"
"""Ids of ledgers, one a line: marked while every copy is where the metadata says; marked, and without metadata."""


def _mark_files(verdicts: pa.Table, without_ledger: Sequence[LedgerId]) -> Mapping[str, Ids]:
    """Return the files that have anything in them."""
    files = {STALE_MARKS: stale_ledgers(verdicts), MARKS_WITHOUT_LEDGER: np.array(without_ledger, np.int64)}
    return {name: ids for name, ids in files.items() if len(ids)}


@dataclass(frozen=True, slots=True)
class _Bookies:
    """What a run knows of the bookies. `since`: since when each was not registered, in ms."""

    records: Sequence[BookieRecord]
    looks: Sequence[BookieLook]
    since: Mapping[BookieId, int]
    missed: Mapping[BookieId, Missed]
    renamed: Mapping[BookieId, Renamed]
    held: Heard
    refused: Mapping[BookieId, Refusals]
    logs: Mapping[BookieId, Logs]


def _bookies(run: Place, about: About, records: Sequence[BookieRecord], verdicts: pa.Table) -> _Bookies:
    looks = by_look(records)
    since = unregistered_since(looks, about.unregistered_since_ms)
    renamed = renames(run)
    refused = {} if nobody_answered(looks) else refusals_of(run)
    missed = _missed_bookies(run, since, renamed)
    held, logs = gather_heard(run, verdicts, records), lost_logs(run)
    return _Bookies(records, looks, since, missed, renamed, held, refused, logs)


def _missed_bookies(run: Place, since: Mapping[BookieId, int], renamed: Mapping[BookieId, Renamed]) -> dict[BookieId, Missed]:
    """Return what is known of the bookies that are not registered and that closed, non-empty ledgers name."""
    answers = run.read_table("evidence/answers", TOLD, UNHEARD_OR_GREETING)
    mine = pc.field("ledger_id").isin(named_ledgers(answers))
    states = run.read_table("evidence/ledgers", LEDGERS, mine, STATE)
    found = bookies_missed(answers, states, run.read_table("evidence/ledgers", LEDGERS, IS_MARKED, MARK_KEY))
    return {
        bookie: replace(one, since_ms=since.get(bookie), renamed_to=renamed[bookie].renamed_to if bookie in renamed else None)
        for bookie, one in found.items()
    }


def _renamed_json(renamed: Mapping[BookieId, Renamed]) -> list[dict[str, Any]]:
    return [{"bookie_id": b, "renamed_to": one.renamed_to, "ledgers": list(one.ledgers)} for b, one in sorted(renamed.items())]


def _on_bookies(seen: _Bookies, about: About) -> list[Finding]:
    """The findings on bookies. Most of the ledgers that an operator named is not most of what a bookie should hold."""
    away = _bookies_in_maintenance(about)
    found = judge_bookies(seen.looks, seen.missed, about.facts, away)
    if not about.partial:
        contents = {b: one for b, one in seen.held.contents.items() if b not in away}
        found += [*judge_content(seen.looks, contents), *judge_failing(seen.looks, seen.refused, away)]
    accused = {one.bookie_id for one in found if one.bookie_id is not None}
    return found + judge_lost_logs(seen.looks, seen.logs, away | accused)


def _lines(agreed: Agreed, seen: _Bookies, about: About, listed: Population, marked: MarkFindings) -> list[str]:
    """The findings that are not on ledgers, as lines."""
    on_bookies = []
    for finding in agreed.findings:
        records = [one for one in seen.records if one.bookie_id == finding.bookie_id]
        on_bookies.append(finding_line(bookie_testimony(finding, records, about.facts)))
    return [*on_bookies, *listed.findings, *marked.findings]


def _of_bookies(seen: _Bookies, about: About) -> list[str]:
    """What could not be said of bookies."""
    alone = [*withheld_content(seen.held.contents), *withheld_failing(seen.refused)] if about.partial else []
    away = _bookies_in_maintenance(about)
    lost = withheld_lost_logs(seen.logs, _on_bookies(seen, about), away)
    return [*withheld(seen.looks, seen.missed, about.facts, away), *alone, *lost]


def _bookies_in_maintenance(about: About) -> frozenset[BookieId]:
    """Bookies in planned maintenance: nothing is found on them."""
    return about.terms.around.maintenance


def _not_there(run: Place, verdicts: pa.Table) -> list[int]:
    """Ledgers of a list that an operator gave, which were gone at the first look already: a slip of the pen, most likely."""
    gone = (pc.field("look") == 1) & (pc.field("status") == RecordStatus.GONE.value)
    at_once = run.read_table("evidence/ledgers", LEDGERS, gone, ["ledger_id"])["ledger_id"]
    deleted = verdicts.filter(pc.field("exempt") == Exempt.DELETED.value)["ledger_id"]
    return sorted(set(at_once.to_pylist()) & set(deleted.to_pylist()))


_NAMED_MAX = 10
"""Ledgers named that were not there."""


def _missing_sentences(not_there: Sequence[int]) -> list[str]:
    if not not_there:
        return []
    some = ", ".join(map(str, not_there[:_NAMED_MAX]))
    return [f"{len(not_there)} of the ledgers named do not exist (such as {some}): see whether the ids are right"]


@dataclass
class _Requests:
    """What was asked, added up over one table of evidence: `sums` of the columns `_SUMS`.

    `unanswered` were sent and got no status that counts.
    """

    sums: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    unanswered: int = 0
    bookies: set[str] = field(default_factory=set)


_SUMS = ("requests", "retries", "received_bytes")
_LIST_ANSWERED = pa.array([status.value for status in VALID_ANSWERS])
_READ_ANSWERED = pa.array([status.value for status in (*ABSENT_READS, ReadStatus.PRESENT, ReadStatus.CORRUPT)])
_ANSWERED = pa.concat_arrays([_LIST_ANSWERED, _READ_ANSWERED])


def _costs(run: Place) -> Costs:
    lists = _requests_in(run, "evidence/answers", ANSWERS, _LIST_ANSWERED)
    reads = _requests_in(run, "evidence/reads", READS, _READ_ANSWERED)
    renames = _requests_in(run, RENAMES_NAME, RENAMES, _ANSWERED) if run.has_table(RENAMES_NAME) else _Requests()
    tables = (lists, reads, renames)
    znodes, unread = znodes_read(run)
    sums = sum((one.sums for one in tables), Counter[str]())
    return Costs(
        zookeeper_reads=znodes,
        zookeeper_reads_failed=unread,
        bookie_requests=sums["requests"],
        bookie_bytes=sums["received_bytes"],
        retries=sums["retries"],
        confirming_reads=reads.rows,
        unanswered=sum(one.unanswered for one in tables) + sums["retries"],
        bookies_named=len(lists.bookies),
    )


def _requests_in(run: Place, name: str, schema: pa.Schema, answered: pa.Array) -> _Requests:
    """Add up a table. Greetings, which are about no ledger, cost requests and are never unanswered."""
    total = _Requests()
    columns = ["bookie_id", "ledger_id", "status", *_SUMS]
    for batch in run.stream(name, schema, columns):
        total.rows += batch.num_rows
        for column in _SUMS:
            total.sums[column] += _sum_of(batch[column])
        on_ledgers = batch.filter(pc.is_valid(batch["ledger_id"]))
        total.unanswered += _count_failed(on_ledgers, answered)
        total.bookies.update(pc.unique(on_ledgers["bookie_id"]).to_pylist())
    return total


def _count_failed(batch: pa.RecordBatch, answered: pa.Array) -> int:
    """Return how many questions were sent and not answered with one of these statuses. What was never sent did not fail."""
    sent = batch.filter(pc.greater(batch["requests"], 0))
    return int(sent.num_rows) - _sum_of(pc.is_in(sent["status"], answered))


def _sum_of(values: pa.Array) -> int:
    return int(pc.sum(values).as_py() or 0)
