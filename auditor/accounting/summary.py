"""The summary of a run (contract section 5), counted only from what was written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor import __version__
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.finding import CATALOGUE, Kind, Severity, Subject
from auditor.model.verdict import Exempt, Standing, Unknown

Json = dict[str, Any]

OUTCOME_SOUND, OUTCOME_VIOLATED, OUTCOME_INCOMPLETE = "SOUND", "VIOLATED", "INCOMPLETE"
STAGES = ("load", "place", "ask", "judge", "second_look", "report")


@dataclass(frozen=True, slots=True)
class Tables:
    """The written tables a summary is counted from (schemas of `auditor.evidence.schemas`)."""

    verdicts: pa.Table
    ledgers: pa.Table
    answers: pa.Table
    reads: pa.Table
    bookies: Sequence[BookieRecord]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run beside its tables. Times RFC 3339 in UTC; durations in seconds a stage."""

    run_id: str
    facts: ClusterFacts
    started_at: str
    finished_at: str
    duration_s: Mapping[str, float]
    fail_on: str
    allow_empty: bool
    nobody_answered: bool


def findings_of(verdicts: pa.Table, bookie_findings: Iterable[str]) -> list[str]:
    """Every finding as its line, worst severity first, then by kind, ledger or bookie, segment."""
    lines = [*bookie_findings, *(line for row in verdicts["findings"].to_pylist() for line in row or ())]
    return sorted(lines, key=_rank)


def _rank(line: str) -> tuple[int, int, int, str, int]:
    found = json.loads(line)
    kind = Kind(found["kind"])
    first = found["segment"]["first_entry_id"] if found["segment"] else -1
    ledger = -1 if found["ledger_id"] is None else found["ledger_id"]
    return -CATALOGUE[kind].severity, list(Kind).index(kind), ledger, found["bookie_id"] or "", first


def summarise(run: RunFacts, tables: Tables, findings: Sequence[str], previous: Previous) -> Json:
    """The JSON object of summary.json."""
    verdicts = tables.verdicts
    standings = Counter(verdicts["standing"].to_pylist())
    unknowns = Counter(word for row in verdicts["unknowns"].to_pylist() for word in row or ())
    told = [json.loads(line) for line in findings]
    counts = _findings(told)
    complete = not unknowns and not run.nobody_answered
    outcome = _outcome(told, complete=complete and (verdicts.num_rows > 0 or run.allow_empty))
    facts = run.facts
    return {
        "run_id": run.run_id,
        "auditor_version": __version__,
        "cluster": {"metadata_service_uri": facts.metadata_service_uri, "instance_id": facts.instance_id},
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "duration_s": {stage: round(run.duration_s.get(stage, 0.0), 3) for stage in STAGES},
        "ledgers": {"listed": verdicts.num_rows, **{standing.word: standings[standing.word] for standing in Standing}},
        "exempt": _exempt(verdicts),
        "indeterminate": {reason.value: unknowns[reason.value] for reason in Unknown},
        "findings": counts,
        "bookies": _bookies(tables.bookies, tables.answers),
        "requests": _requests(tables),
        "totals": previous.totals_after(told),
        "coverage": _coverage(verdicts),
        "oldest_underreplicated_s": _oldest_mark_s(verdicts),
        "nobody_answered": run.nobody_answered,
        "replication_disabled": facts.replication_disabled,
        "complete": complete,
        "outcome": outcome,
        "exit_code": _exit_code(told, run.fail_on, incomplete=not complete or (verdicts.num_rows == 0 and not run.allow_empty)),
    }


@dataclass(frozen=True, slots=True)
class Previous:
    """What the newest finished run left behind: its totals, and the ids of its findings."""

    totals: Mapping[str, int]
    finding_ids: frozenset[str]

    def totals_after(self, findings: Sequence[Json]) -> dict[str, int]:
        """Each kind's findings that were new in a run, added up over runs: what the counters go on from."""
        new = Counter(found["kind"] for found in findings if found["id"] not in self.finding_ids)
        return {kind.value: self.totals.get(kind.value, 0) + new[kind.value] for kind in Kind}


def _findings(findings: Sequence[Json]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for kind in Kind:
        mine = [one for one in findings if one["kind"] == kind.value]
        on_bookies = CATALOGUE[kind].subject is Subject.BOOKIE
        subjects = len({one["bookie_id"] if on_bookies else one["ledger_id"] for one in mine})
        found[kind.value] = {
            "ledgers": 0 if on_bookies else subjects,
            "bookies": subjects if on_bookies else 0,
            "findings": len(mine),
        }
    return found


def _exempt(verdicts: pa.Table) -> dict[str, int]:
    exempt = verdicts.filter(pc.field("standing") == Standing.EXEMPT.word)
    counts = Counter(exempt["exempt"].to_pylist())
    return {reason.value: counts[reason.value] for reason in Exempt}


def _bookies(records: Sequence[BookieRecord], answers: pa.Table) -> dict[str, int]:
    """As of the last look at each bookie; `named_by_ledgers` counts those asked, or to be asked, about any ledger."""
    last = {record.bookie_id: record for record in sorted(records, key=lambda one: one.look)}
    answered = {record.bookie_id for record in records if record.greeting is Greeting.ANSWERED}
    named = answers.filter(pc.is_valid(pc.field("ledger_id")))["bookie_id"]

    def greeted(greeting: Greeting) -> int:
        return sum(record.greeting is greeting and b not in answered for b, record in last.items())

    return {
        "registered": sum(record.registration is not Registration.NONE for record in last.values()),
        "readonly": sum(record.registration is Registration.READONLY for record in last.values()),
        "named_by_ledgers": len(pc.unique(named)),
        "answered": len(answered),
        "silent": greeted(Greeting.SILENT),
        "refused": greeted(Greeting.REFUSED),
        "unsupported": greeted(Greeting.UNSUPPORTED),
    }


def _requests(tables: Tables) -> dict[str, int]:
    """Requests to bookies as they were counted where they were sent; ZooKeeper reads of ledgers and marks, one each."""
    answers, reads = tables.answers, tables.reads
    later = tables.ledgers.filter(pc.field("look") > 1).num_rows
    return {
        "zookeeper_reads": tables.ledgers.num_rows + later,
        "zookeeper_reads_failed": tables.ledgers.filter(
            pc.is_in(pc.field("status"), pa.array(["unreadable", "not_authorised"]))
        ).num_rows,
        "bookie_requests": _sum(answers, "requests") + _sum(reads, "requests"),
        "bookie_bytes": _sum(answers, "received_bytes") + _sum(reads, "received_bytes"),
        "retries": _sum(answers, "retries") + _sum(reads, "retries"),
        "confirming_reads": reads.num_rows,
        "listing_false_negatives": _sum(tables.verdicts, "listing_false_negatives"),
    }


def _sum(rows: pa.Table, column: str) -> int:
    return int(pc.sum(rows[column]).as_py() or 0)


def _coverage(verdicts: pa.Table) -> float:
    """The share of ledgers without a reason to be unknown and not merely excused by a mark; 1.0 of no ledgers."""
    if verdicts.num_rows == 0:
        return 1.0
    unknown = pc.greater(pc.fill_null(pc.list_value_length(verdicts["unknowns"]), 0), 0)
    standing = pc.equal(verdicts["standing"], Standing.EXEMPT.word)
    marked = pc.and_(standing, pc.fill_null(pc.equal(verdicts["exempt"], Exempt.MARKED_UNDERREPLICATED.value), False))
    uncovered = int(pc.sum(pc.or_(unknown, marked)).as_py() or 0)
    return round(1 - uncovered / verdicts.num_rows, 6)


def _oldest_mark_s(verdicts: pa.Table) -> float:
    oldest: int | None = pc.max(verdicts["mark_age_ms"]).as_py()
    return 0.0 if oldest is None else oldest / 1000


def _outcome(findings: Sequence[Json], *, complete: bool) -> str:
    if any(CATALOGUE[Kind(one["kind"])].severity >= Severity.WARNING for one in findings):
        return OUTCOME_VIOLATED
    return OUTCOME_SOUND if complete else OUTCOME_INCOMPLETE


def _exit_code(findings: Sequence[Json], fail_on: str, *, incomplete: bool) -> int:
    """Contract section 2: a finding that reaches --fail-on goes before what could not be judged."""
    threshold = {"critical": Severity.CRITICAL, "warning": Severity.WARNING}.get(fail_on)
    if threshold is not None and any(CATALOGUE[Kind(one["kind"])].severity >= threshold for one in findings):
        return 1
    return 3 if incomplete else 0
