"""Compares the findings on bookies with those of the second checker.

Reads from the evidence the rows of the few bookies that may have a finding, and passes them on one
by one. Costs some seconds for a bookie with hundreds of thousands of ledgers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.evidence.table_scan import TableScan, iterate_rows
from auditor.model.availability import (
    LISTED_BY_LISTER,
    NOT_ADMITTED,
    VALID_ANSWERS,
    AnswerStatus,
    ReadStatus,
)
from auditor.model.cluster import BookieRecord
from auditor.model.facts import Facts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId
from auditor.model.verdict import Standing
from auditor.second_checker.bookies import (
    LEDGERS_FEWEST,
    Attendance,
    Lack,
    Losses,
    Refusal,
    Word,
    failing_facts,
    ledgers_answered,
    lost_content_facts,
    lost_facts,
    silent_facts,
)
from auditor.second_checker.finding_comparison import Agreed, Subject, agree_on
from auditor.second_checker.lost_ledgers import Need, State, naming_ledgers
from auditor.second_checker.lost_logs import LeftOut, Tried, entry_log_lost_facts
from auditor.summary.about import About
from auditor.summary.cluster.rename_check import new_name_of

Row = dict[str, Any]

_ANSWERS, _READS, _LEDGERS = "evidence/answers", "evidence/reads", "evidence/ledgers"
_ERRORS = [AnswerStatus.REFUSED.value, AnswerStatus.FAILED.value]
_REFUSED = pc.field("status").isin(_ERRORS)
_OF_LEDGER = pc.is_valid(pc.field("ledger_id"))
_NO_SEARCH = ~pc.field("is_search").isin([True])


def bookies_agreed(
    run: Place,
    about: About,
    records: Sequence[BookieRecord],
    verdicts: TableScan,
    findings: Iterable[Finding],
) -> Agreed:
    """Return the findings on bookies that the second checker confirms, and where it differs."""
    seen = Attendance.from_records(records, about.terms.around.maintenance)
    seconds: dict[Subject, Facts] = {
        (Kind.BOOKIE_SILENT_YET_REGISTERED, bookie): silent_facts(seen.of[bookie], about.facts)
        for bookie in seen.silent()
    }
    seconds |= _lost_facts(run, about, seen)
    if not about.partial:
        seconds |= {**_lost_content_facts(run, seen, verdicts), **_failing_facts(run, seen)}
    accused = {subject for _, subject in seconds if isinstance(subject, str)}
    return agree_on(findings, seconds | _entry_log_lost_facts(run, seen, accused))


def _lost_facts(run: Place, about: About, seen: Attendance) -> dict[Subject, Facts]:
    gone = seen.unregistered_bookies()
    if not gone:
        return {}
    named = (
        (pc.field("status") == AnswerStatus.UNREGISTERED.value)
        & pc.field("bookie_id").isin(pa.array(gone))
        & _OF_LEDGER
    )
    needs = run.read_table(_ANSWERS, ANSWERS, named, ["ledger_id", "look", "bookie_id"]).sort_by(
        "ledger_id"
    )
    mine = pc.field("ledger_id").isin(pc.unique(needs["ledger_id"]))
    columns = [
        "ledger_id",
        "look",
        "status",
        "czxid",
        "znode_version",
        "state",
        "last_entry_id",
        "mark",
    ]
    states = run.read_table(_LEDGERS, LEDGERS, mine, columns).sort_by(
        [("ledger_id", "ascending"), ("look", "ascending")]
    )
    found = naming_ledgers(
        (Need(**one) for one in iterate_rows(needs)), map(_state, iterate_rows(states))
    )
    facts: dict[Subject, Facts] = {}
    for bookie, ledgers in found.items():
        one = lost_facts(
            seen.of[bookie], ledgers, about.facts, about.unregistered_since_ms.get(bookie)
        )
        if one is not None:
            facts[Kind.BOOKIE_LOST_UNNOTICED, bookie] = replace(
                one, renamed_to=new_name_of(run, bookie)
            )
    return facts


def _state(row: Row) -> State:
    key, version, is_marked = (
        (row["ledger_id"], row["look"]),
        (row["czxid"], row["znode_version"]),
        row["mark"] is not None,
    )
    return State(*key, row["status"], version, row["state"], row["last_entry_id"], is_marked)


def _lost_content_facts(run: Place, seen: Attendance, verdicts: TableScan) -> dict[Subject, Facts]:
    losses: dict[BookieId, Losses] = {}
    violated = pc.field("standing") == Standing.VIOLATED.word
    batches = verdicts.batches(["ledger_id", "lacks"], violated)
    for row in chain.from_iterable(batch.to_pylist() for batch in batches):
        for lack in row["lacks"] or ():
            one = Lack(row["ledger_id"], lack["expected"], lack["absent"])
            losses.setdefault(lack["bookie_id"], Losses()).add(one)
    facts: dict[Subject, Facts] = {}
    for bookie, lost in losses.items():
        if len(lost.ledgers) < LEDGERS_FEWEST or bookie in seen.away:
            continue
        was_probed = seen.cannot_list(bookie)
        reads = _words(run, _READS, READS, bookie) if was_probed else []
        answered = ledgers_answered(_words(run, _ANSWERS, ANSWERS, bookie), reads)
        found = lost_content_facts(seen.of.get(bookie, ()), lost, answered, was_probed=was_probed)
        if found is not None:
            facts[Kind.BOOKIE_LOST_CONTENT, bookie] = found
    return facts


def _words(run: Place, name: str, schema: pa.Schema, bookie: BookieId) -> Iterator[Word]:
    rows = run.read_table(
        name,
        schema,
        (pc.field("bookie_id") == bookie) & _OF_LEDGER,
        ["ledger_id", "look", "status"],
    )
    return (
        Word(**one)
        for one in iterate_rows(rows.sort_by([("ledger_id", "ascending"), ("look", "ascending")]))
    )


def _failing_facts(run: Place, seen: Attendance) -> dict[Subject, Facts]:
    refusing = {
        bookie
        for name, schema in ((_ANSWERS, ANSWERS), (_READS, READS))
        for bookie in pc.unique(
            run.read_table(name, schema, _REFUSED & _OF_LEDGER, ["bookie_id"])["bookie_id"]
        ).to_pylist()
    }
    facts: dict[Subject, Facts] = {}
    for bookie in refusing & set(seen.connected_bookies()):
        found = (
            failing_facts(seen.of[bookie], _refusals(run, bookie))
            if _serves_another(run, bookie)
            else None
        )
        if found is not None:
            facts[Kind.BOOKIE_FAILING_REQUESTS, bookie] = found
    return facts


def _serves_another(run: Place, bookie: BookieId) -> bool:
    """Return whether a bookie other than this one served a request."""
    other = pc.field("bookie_id") != bookie
    sent = other & (pc.field("status") == ReadStatus.PRESENT.value)
    return any(
        run.count(_ANSWERS, ANSWERS, other & (pc.field("status") == one.value))
        for one in VALID_ANSWERS
    ) or bool(run.count(_READS, READS, sent))


def _refusals(run: Place, bookie: BookieId) -> list[Refusal]:
    """Return all refused requests about ledgers that the bookie should hold.

    Empty if any such request was not refused, or could not be sent because we were not admitted.
    """
    columns = ["ledger_id", "look", "status", "detail"]
    mine = pc.field("bookie_id") == bookie
    lists = run.read_table(_ANSWERS, ANSWERS, mine & _OF_LEDGER, columns)
    due = set(pc.unique(lists["ledger_id"]).to_pylist())
    found: list[Refusal] = []
    for is_list, rows in (
        (True, lists),
        (False, run.read_table(_READS, READS, mine & _NO_SEARCH, columns)),
    ):
        for row in iterate_rows(rows):
            if row["ledger_id"] not in due or (
                is_list and row["status"] == AnswerStatus.UNSUPPORTED.value
            ):
                continue
            if row["status"] not in _ERRORS or row["detail"].startswith(NOT_ADMITTED):
                return []
            found.append(Refusal(row["ledger_id"], row["look"], row["detail"], is_list))
    return found


def _entry_log_lost_facts(
    run: Place, seen: Attendance, accused: set[BookieId]
) -> dict[Subject, Facts]:
    """Return the facts of lost entry logs. A bookie with a stronger finding has that one only."""
    columns = [
        "bookie_id",
        "ledger_id",
        "look",
        "asked_at_ms",
        "detail",
        "missing_logs",
        "read_unlisted",
    ]
    answers = run.read_table(_ANSWERS, ANSWERS, pc.is_valid(pc.field("missing_logs")), columns)
    facts: dict[Subject, Facts] = {}
    for bookie in sorted(set(answers["bookie_id"].to_pylist()) - accused - seen.away):
        if not seen.is_anyone_serving():
            break
        rows = answers.filter(pc.field("bookie_id") == bookie).to_pylist()
        rows.sort(key=lambda row: (row["look"], row["asked_at_ms"], row["ledger_id"]))
        left_out = [_left_out(row, log) for row in rows for log in row["missing_logs"]]
        mine = (pc.field("bookie_id") == bookie) & _NO_SEARCH
        mine &= pc.field("ledger_id").isin(pa.array([row["ledger_id"] for row in rows], pa.int64()))
        read = run.read_table(_READS, READS, mine, list(Tried._fields))
        lister = rows[-1]["detail"].removeprefix(LISTED_BY_LISTER)
        found = entry_log_lost_facts(
            seen.of.get(bookie, ()), lister, left_out, (Tried(**one) for one in iterate_rows(read))
        )
        if found is not None:
            facts[Kind.ENTRY_LOG_LOST, bookie] = found
    return facts


def _left_out(row: Row, log: Row) -> LeftOut:
    unlisted = row["read_unlisted"] or ()
    return LeftOut(
        log["path"], row["ledger_id"], row["look"], log["entries"], log["ranges"], unlisted
    )
