"""Summaries and findings as the contract writes them, as plain JSON values, for tests of texts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from support.findings_by_kind import finding_of

from auditor.after.causes import Background, Hits, Touched, choose, rows_and_files
from auditor.after.compared_finding import ComparedFinding
from auditor.after.history import Sighting
from auditor.model.cluster import ClusterFacts
from auditor.model.codec import encode
from auditor.model.facts import facts_json
from auditor.model.finding import CATALOGUE, Family, Kind, Subject
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.model.verdict import Exempt, Unknown
from auditor.summary.outcome import findings_by_severity
from auditor.witness.next_commands import CHANGES

BOOKIES = [f"bookie-{n}:3181" for n in range(1, 6)]


def summary(**changes: Any) -> Summary:
    """Return summary.json of a sound cluster of 1,000 ledgers; `changes` replace top-level
    fields.
    """
    document: dict[str, Any] = {
        "run_id": "run-20260101T030000Z-0a1b2c",
        "auditor_version": "0.1.0",
        "cluster": {"metadata_service_uri": "zk+hierarchical://zk1:2181,zk2:2181/ledgers",
        "instance_id": "f3492f09-f19c"},
        "started_at": "2026-01-01T03:00:00Z",
        "finished_at": "2026-01-01T03:14:46.500Z",
        "duration_s": {"load": 12.1, "ask": 520.0, "judge": 31.2, "second_look": 301.0,
        "report": 22.0},
        "ledgers": {"listed": 1000, "sound": 990, "exempt": 10, "indeterminate": 0, "violated": 0},
        "exempt": {**{reason.value: 0 for reason in Exempt}, "open": 9, "empty": 1},
        "indeterminate": {reason.value: 0 for reason in Unknown},
        "findings": {kind.value: {"ledgers": 0, "bookies": 0, "findings": 0} for kind in Kind},
        "bookies": {
            "registered": 5, "readonly": 0, "named_by_ledgers": 5, "answered": 5, "silent": 0,
            "refused": 0, "unsupported": 0,
        },
        "requests": {
            "zookeeper_reads": 2040, "bookie_requests": 3000, "bookie_bytes": 7_000_000,
            "retries": 0,
            "confirming_reads": 0, "listing_false_negatives": 0,
        },
        "totals": {kind.value: 0 for kind in Kind},
        "coverage": 1.0,
        "copies": {"expected": 40_000, "listed": 40_000, "read": 0, "assumed": 0},
        "verified_ratio": 1.0,
        "complete": True,
        "outcome": "SOUND",
        "exit_code": 0,
        "exit_code_if_clean": 0,
    }  # fmt: skip
    assert set(changes) <= {
        *document,
        "oldest_underreplicated_s",
        "marks",
        "marks_by_age",
        "request_totals",
        "nobody_answered",
        "bookies_unheard",
        "withheld",
        "poison",
        "unjudged",
        "open_recovery_blocked",
        "metadata_compared",
        "odd_lists",
        "checkers_disagree",
        "partial",
        "replication_disabled",
        "assurance",
        "sampling",
        "verification",
        "carried",
        "bookies_away",
        "bookies_gone",
        "maintenance",
        "placement",
        "causes",
        "causes_rest",
        "ledgers_without_cause",
        "unjudged_without_cause",
        "references",
        "topics_hit",
        "topics_worst",
        "changes",
        "mutes",
        "listers",
        "doubt",
        "space",
        "paces",
        "malformed_marks",
        "severities",
    }, changes
    return Summary.from_json(encode(document | changes))


def changed_summary(summary: Summary, **changes: Any) -> Summary:
    """Return a summary with other fields of its JSON object."""
    return Summary.from_json(summary.as_json() | encode(changes))


def summary_without(*names: str) -> Summary:
    """Return the summary of an earlier version, which lacks these fields."""
    stored = summary().as_json()
    return Summary.from_json({name: one for name, one in stored.items() if name not in names})


def unchecked(kind: Kind, bookie: str) -> str:
    """Return the line of a finding on a bookie that a run could not check again."""
    seen = Sighting(ComparedFinding.of(finding(kind, bookie)), "2026-01-01T03:00:00Z", 2, 1)
    return json.dumps(seen.as_json()) + "\n"


def finding(kind: Kind, subject: int | str, **changes: Any) -> FindingRecord:
    """Return one finding: on ledger `subject`, on bookie `subject`, or on the cluster; entries
    0-1999 are missing on bookie-3.

    `changes` replace fields of its JSON object.
    """
    facts = CATALOGUE[kind]
    on_ledger, on_cluster = facts.subject is Subject.LEDGER, facts.subject is Subject.CLUSTER
    version = 2 if on_ledger else None
    answers = {"bookie-1:3181": "held", "bookie-2:3181": "held", "bookie-3:3181": "no_such_ledger"}
    if not on_ledger:
        answers = {"listing": "411 ledgers"} if on_cluster else {str(subject): "unregistered"}
    document: dict[str, Any] = {
        "id": f"{subject:0>16}",
        "kind": kind.value,
        "family": facts.family.value,
        "severity": facts.severity.word,
        "ledger_id": subject if on_ledger else None,
        "bookie_id": None if on_ledger or on_cluster else subject,
        "owner": (
            {
                "application": "pulsar",
                "component": "managed-ledger",
                "name": f"public/default/persistent/t-{subject}",
            }
            if on_ledger
            else None
        ),
        "segment": (
            {"first_entry_id": 0, "last_entry_id": 1999, "ensemble": BOOKIES[:3]}
            if on_ledger
            else None
        ),
        "entries": [[0, 1999]] if on_ledger else [],
        "entries_total": 2000 if on_ledger else 0,
        "missing_on": {"bookie-3:3181": [[0, 1999]]} if on_ledger else {},
        "copies": (
            {"write_quorum": 3, "ack_quorum": 2, "confirmed": 2, "unknown": 0}
            if on_ledger
            else None
        ),
        "facts": facts_json(finding_of(kind).facts),
        "witness": _ledger_witness(subject) if on_ledger else _bookie_witness(subject),
        "looks": [
            {
                "at": "2026-01-01T03:09:00.000Z",
                "znode_version": version,
                "marked": False,
                "answers": answers,
            },
            {
                "at": "2026-01-01T03:14:05.000Z",
                "znode_version": version,
                "marked": False,
                "answers": answers,
            },
            {
                "at": "2026-01-01T03:14:06.000Z",
                "znode_version": version,
                "marked": False,
                "answers": {},
            },
        ][: 3 if on_ledger else 2],
        "next": (
            _ledger_next(subject)
            if on_ledger
            else [
                "bookkeeper shell listbookies -rw",
                f"{CHANGES}bookkeeper shell recover {subject}",
            ]
        ),
        "runbook": f"docs/findings/{kind.value}.md",
        "assurance": "listed" if on_ledger else None,
        "first_seen": "2025-12-30T03:00:00.000Z",
        "runs_seen": 3,
        "muted": None,
    }
    assert set(changes) <= set(document), changes
    return FindingRecord.from_json(document | changes)


def changed(finding: FindingRecord, **changes: Any) -> FindingRecord:
    """Return a finding with other fields of its JSON object."""
    return FindingRecord.from_json(finding.as_json() | changes)


def _ledger_witness(ledger_id: int | str) -> str:
    return (
        f"Entry 0 of ledger {ledger_id} belongs on {', '.join(BOOKIES[:2])} and {BOOKIES[2]}."
        f" {BOOKIES[2]} has no such ledger (READ_ENTRY: ENOLEDGER). 2 of 3 copies found; ack quorum"
        " is 2. Bookies were asked at 2026-01-01 03:09:00 and 03:14:05 UTC; metadata was read last"
        " at 2026-01-01 03:14:06 UTC: unchanged (version 2), not marked under-replicated."
    )


def _bookie_witness(bookie_id: int | str) -> str:
    return (
        f"Bookie {bookie_id} is not registered and has no cookie. 12 closed ledgers name it and are"
        " not marked under-replicated (160 and 11 more). This was seen at each look; the first and"
        " the last were 5 min 5 s apart."
    )


def _ledger_next(ledger_id: int | str) -> list[str]:
    return [
        f"auditor ledger {ledger_id}",
        f"bookkeeper shell ledgermetadata -ledgerid {ledger_id}",
        f"{CHANGES}bookkeeper shell recover -l {ledger_id} bookie-3:3181",
    ]


def counted(findings: Sequence[FindingRecord]) -> dict[str, dict[str, int]]:
    """Return the field `findings` of a summary with these findings."""
    ledgers = Counter(f.kind for f in findings if f.ledger_id is not None)
    bookies = Counter(f.kind for f in findings if f.bookie_id is not None)
    every = Counter(f.kind for f in findings)
    return {
        k.value: {"ledgers": ledgers[k], "bookies": bookies[k], "findings": every[k]} for k in Kind
    }


def caused(
    findings: Sequence[FindingRecord], *, beside: dict[str, int] | None = None
) -> dict[str, Any]:
    """Return the fields of a summary that state the causes of these findings; bookie-3 is
    registered and answers.

    `beside`: the number of ledgers on a bookie that are not hit. Ten other bookies have 1,000
    ledgers each.
    """
    by_kind: dict[str, list[int]] = {}
    lacking: dict[str, list[int]] = {}
    for found in findings:
        if found.ledger_id is None:
            continue
        by_kind.setdefault(found.kind.value, []).append(found.ledger_id)
        for bookie in found.missing_on:
            lacking.setdefault(bookie, []).append(found.ledger_id)
    hits = Hits(
        {kind: np.unique(ids) for kind, ids in by_kind.items()},
        {Family.ENTRY.value: {bookie: np.unique(ids) for bookie, ids in lacking.items()}},
    )
    by_bookie = {f"other-{n}:3181": 1_000 for n in range(10)}
    around = Background(Touched(100_000, by_bookie | (beside or {})))
    facts = ClusterFacts("zk://h/ledgers", ("h",), "/ledgers", "hierarchical", "inst", False, None)
    causes = rows_and_files(choose(hits, around), hits, facts)
    return {
        "causes": causes.rows,
        "causes_rest": causes.rest,
        "ledgers_without_cause": causes.unexplained,
        "unjudged_without_cause": causes.unexplained_unjudged,
    }


def wiped_bookie(ledgers: int = 40_000) -> tuple[Summary, list[FindingRecord]]:
    """Return a report in which bookie-3's disk was wiped: every ledger on it lacks a copy; bookie-9
    is gone for good.
    """
    found = [finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 100 + n) for n in range(ledgers)]
    found.append(finding(Kind.BOOKIE_LOST_UNNOTICED, "bookie-9:3181"))
    total = 812_345
    return (
        summary(
            **caused(found, beside={"bookie-3:3181": ledgers // 40}),
            ledgers={
                "listed": total,
                "sound": total - ledgers - 120 - 700,
                "exempt": 700,
                "indeterminate": 120,
                "violated": ledgers,
            },
            exempt={"open": 690, "deleted": 10},
            indeterminate={"bookie_silent": 120, "answer_timeout": 3},
            findings=counted(found),
            severities=findings_by_severity(found),
            totals={kind: n["findings"] for kind, n in counted(found).items()},
            coverage=0.99985,
            complete=False,
            outcome="VIOLATED",
            exit_code=1,
        ),
        found,
    )


def everything_wrong(each: int = 5_000) -> tuple[Summary, list[FindingRecord]]:
    """Return a report with every kind of the catalogue, each many times, and every unknown
    reason.
    """
    found = []
    for place, kind in enumerate(Kind):
        if CATALOGUE[kind].subject is Subject.BOOKIE:
            found += [finding(kind, f"bookie-{place}-{n}:3181") for n in range(50)]
        elif CATALOGUE[kind].subject is Subject.CLUSTER:
            found.append(finding(kind, "cluster"))
        else:
            found += [finding(kind, place * each + n) for n in range(each)]
    causes = caused([replace(f, missing_on={f"b{n % 20}": ((0, 9),)}) for n, f in enumerate(found)])
    return (
        summary(
            **causes,
            ledgers={
                "listed": 100_000,
                "sound": 1,
                "exempt": 5,
                "indeterminate": 69_994,
                "violated": 30_000,
            },
            exempt={reason.value: 1 for reason in Exempt},
            indeterminate={reason.value: 6_000 for reason in Unknown},
            findings=counted(found),
            severities=findings_by_severity(found),
            coverage=0.3,
            complete=False,
            outcome="VIOLATED",
            exit_code=1,
        ),
        found,
    )


def nobody_answered() -> Summary:
    """Return a report in which every bookie is registered and none answers this host."""
    return summary(
        nobody_answered=True,
        ledgers={"listed": 1000, "sound": 0, "exempt": 10, "indeterminate": 990, "violated": 0},
        indeterminate={"bookie_silent": 990},
        bookies={
            "registered": 5,
            "readonly": 1,
            "named_by_ledgers": 5,
            "answered": 0,
            "silent": 4,
            "refused": 1,
            "unsupported": 0,
        },
        coverage=0.01,
        complete=False,
        outcome="INCOMPLETE",
        exit_code=3,
    )


def empty_cluster() -> Summary:
    """Return a report without a listed ledger."""
    nothing = {"listed": 0, "sound": 0, "exempt": 0, "indeterminate": 0, "violated": 0}
    return summary(ledgers=nothing, exempt={}, indeterminate={}, outcome="INCOMPLETE", exit_code=3)
