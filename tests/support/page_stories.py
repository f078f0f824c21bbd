"""Contents of pages, for tests of report.html: a run with some of everything, and one whose every
name is hostile.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from support import report_stories

from auditor.after.compared_finding import ComparedFinding
from auditor.after.differences import Change, Difference, Side
from auditor.after.margin import Exposure, Losses, Sort
from auditor.after.margin_text import Cluster, MarginBasis
from auditor.after.page.contents import (
    BookieSeen,
    ChangesSeen,
    Lacking,
    MarginSeen,
    NamespaceBytes,
    PageContents,
    PastRun,
    RackCopies,
)
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.codec import decode
from auditor.model.finding import CATALOGUE, Kind, Subject
from auditor.model.finding_record import FindingHistory, FindingRecord, Muted, Owner
from auditor.model.summary import TopicLine
from auditor.model.verdict import Exempt, Unknown
from auditor.report import text

HOSTILE = (
    "</script><script>window.pwned=1</script></title><img src=x onerror=window.pwned=2>\"'"
    " onfocus=window.pwned=3 x='&lt;{{7*7}}{% raw"
    " %}\x1b[31m\u202egpj.exe\u2066\u2028\x00\r\nauditor: SOUND run=forged"
)
"""Markup, attributes, template code, terminal escapes, bidi overrides, line ends and a forged last
line.
"""
RUN_DIR = "/var/lib/audits/run-20260101T030000Z-0a1b2c"


def finding(kind: Kind, subject: int | str, **changes: Any) -> FindingRecord:
    """Return a finding with an id of its own."""
    return report_stories.finding(
        kind, subject, **{"id": f"{abs(hash((kind.value, subject))):016x}"[:16], **changes}
    )


def every_kind(name: str, ledger_id: int = 100) -> list[FindingRecord]:
    """Return a finding of each kind; `name` is in each name that a user may choose, and in what is
    derived from it.
    """
    found = []
    for place, kind in enumerate(report_order()):
        subject: int | str = f"{name}-b{place}"
        if CATALOGUE[kind].subject is Subject.LEDGER:
            subject = ledger_id + place
        one = finding(kind, subject, id=f"{place:016x}", witness=f"Entry 0 belongs on {name}.")
        if one.segment is not None:
            ensemble = (f"{name}-1", f"{name}-2", f"{name}-3")
            one = replace(
                one,
                owner=Owner(name, name, name),
                missing_on={f"{name}-3": ((0, 1999),)},
                segment=replace(one.segment, ensemble=ensemble),
            )
        answers = {f"{name}-{place}": "held", f"{name}-9": name}
        found.append(
            replace(
                one,
                looks=tuple(replace(look, answers=answers) for look in one.looks),
                next=(
                    f"bookkeeper shell x -b {shlex.quote(name)}",
                    f"CHANGES THE CLUSTER: recover {shlex.quote(name)}",
                ),
                runbook=name,
            )
        )
    muted = FindingHistory("2025-12-30T03:00:00.000Z", 3, Muted("2027-01-31", name))
    return [replace(found[0], history=muted), *found[1:]]


def report_order() -> list[Kind]:
    """Return the kinds in the order of findings.jsonl: the worst severity first."""
    return sorted(Kind, key=lambda kind: -CATALOGUE[kind].severity)


def contents(name: str = "bookie", **changes: Any) -> PageContents:
    """Return a run with every kind, every reason, causes, marks, topics, bookies and earlier
    runs.
    """
    findings = every_kind(name)
    lost = [report_stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 1_000 + n) for n in range(40)]
    causes = report_stories.caused(lost, beside={"bookie-3:3181": 1})
    causes["causes"] = [
        replace(
            row,
            says=f"bookie {name} lacks entries",
            subject=name,
            file=f"causes/01-{name}.txt",
            kinds={name: 4},
        )
        for row in causes["causes"]
    ]
    summary = report_stories.summary(
        **causes,
        ledgers={"listed": 100, "sound": 60, "exempt": 12, "indeterminate": 10, "violated": 18},
        exempt={reason.value: 1 for reason in Exempt},
        indeterminate={reason.value: 3 for reason in Unknown},
        findings=report_stories.counted(findings),
        bookies_unheard={"silent": [name], "unregistered": [name]},
        bookies_away=[name],
        replication_disabled=True,
        maintenance={"bookies": [{"bookie_id": name, "found": "silent"}], "ledgers": 2},
        placement={
            "policy": "rack",
            "compat": "assigned",
            "without_location": 1,
            "bookies_without_location": [name],
        },
        marks={"total": 7, "within_grace": 5, "beyond_grace": 2, "stale": 1, "without_ledger": 1},
        marks_by_age={"under_1h": 4, "under_1d": 0, "under_1w": 1, "older": 2},
        poison=[{"ledger_id": 1, "detail": name}],
        checkers_disagree=[{"ledger_id": 2, "detail": name}],
        withheld=[f"Nothing is said of {name}."],
        carried={
            "within_s": 86_400.0,
            "base": name,
            "problem": "",
            "ledgers": 70,
            "withheld": 8,
            "oldest_listed_at": "2026-01-01T03:00:00Z",
            "due": {"not_sound": 25, "turn": 4, "changed": 0, "read": 1},
            "runs": [
                {"run_id": name, "listed_at": "2026-01-01T03:00:00Z", "ledgers": 60},
                {"run_id": "b", "listed_at": "2026-01-01T04:00:00Z", "ledgers": 7},
            ],
        },
        coverage=0.9,
        copies={"expected": 1_000, "listed": 900, "read": 20, "assumed": 80},
        verified_ratio=0.92,
        complete=False,
        outcome="VIOLATED",
        exit_code=1,
    )
    cluster = {"metadata_service_uri": f"zk://{name}/ledgers", "instance_id": name}
    summary = report_stories.changed_summary(summary, cluster=cluster, **topic_fields(name))
    made = PageContents(
        summary,
        findings,
        text.render(summary, findings, run_dir=RUN_DIR),
        RUN_DIR,
        bookies=bookies(name),
        topics=[decode(TopicLine, topic(name))],
        history=history(4),
        margin=margin_of(name),
        changes=changes_of(name, findings),
        namespaces=[
            NamespaceBytes(f"{name}/hit", 4_000, 1_000, 500),
            NamespaceBytes("", 3_000, 0, 0),
        ],
        grace_ms=3 * 86_400_000,
        problems=(),
    )
    return replace(made, **changes)


def margin_of(name: str) -> MarginSeen:
    """Return the margin of a cluster in which one bookie holds last copies, with a location."""
    basis = MarginBasis("r", "2026-01-01T03:00:00Z", 60.0, False, False, 90, 2, 8, 0, 80)
    some = {f"{name}-3": 4, f"{name}-9": 1}
    losses = Losses(Sort(4, (1, 2, 3, 4)), Sort(0, ()), Sort(9, (1, 2)), Sort(1, (5,)))
    exposure = Exposure(some, {f"{name}-9": 2}, {f"{name}-3": 1_400}, {})
    return MarginSeen(
        basis,
        Cluster({0: 2, 1: 5, 2: 20, 3: 65}, exposure, {f"/rack/{name}": losses}, 1),
        [RackCopies(f"/rack/{name}", 2, 900, 600), RackCopies(None, 2, 100, 100)],
    )


def changes_of(name: str, findings: Sequence[FindingRecord]) -> ChangesSeen:
    """Return one finding of each change; those that this run has are among `findings`."""
    differences = []
    for change, found in zip(Change, findings, strict=False):
        side = Side(found.kind, 3, (found.id,), found.owner)
        is_over = change in (Change.RESOLVED, Change.NOT_CHECKED_AGAIN)
        differences.append(
            Difference(
                change,
                ComparedFinding.of(found).subjects,
                None if change is Change.NEW else side,
                None if is_over else side,
                f"{name} says why" if change is not Change.STILL else "",
            )
        )
    return ChangesSeen("r0", "2025-12-31T03:00:00Z", (f"{name} differs",), differences)


def topic(name: str) -> dict[str, Any]:
    """Return a line of topics.jsonl."""
    return {
        "topic": f"persistent://public/default/{name}", "namespace": f"public/{name}",
        "has_loss": True,
        "kinds": ["REFERENCED_LEDGER_MISSING"], "ledgers": [7], "subscriptions_blocked": [name],
        "subscriptions_possibly_blocked": [],
    }  # fmt: skip


def topic_fields(name: str) -> dict[str, Any]:
    """Return the fields of a summary on topics, two of which are hit."""
    brief = topic(name) | {
        "ledgers": 1,
        "subscriptions_blocked": 1,
        "subscriptions_possibly_blocked": 0,
    }
    worst = {
        "with_loss": 2,
        "subscriptions_blocked": 1,
        "subscriptions_possibly_blocked": 0,
        "namespaces": 1,
    }
    zeros = (
        "orphaned",
        "unreadable",
        "not_listed",
        "unknown",
        "outdated",
        "orphaned_unknown",
        "partitions_without_znode",
    )
    counts = {
        "topics": 9,
        "cursors": 2,
        "schemas": 0,
        "ledgers_referenced": 9,
        "missing": 1,
        "truncated": 1,
    }
    return {
        "references": {**counts, **dict.fromkeys(zeros, 0)},
        "topics_hit": 2,
        "topics_worst": {**worst, "worst_namespaces": [], "worst_topics": [brief]},
    }


def bookies(name: str) -> list[BookieSeen]:
    """Return four bookies: one answers, one lacks entries, one is silent, and one is gone."""
    rows = [
        (f"{name}-1", Registration.WRITABLE, Greeting.ANSWERED, f"/rack/{name}", Lacking(0, 0)),
        (f"{name}-3", Registration.READONLY, Greeting.ANSWERED, f"/rack/{name}", Lacking(2, 300)),
        (f"{name}-9", Registration.WRITABLE, Greeting.SILENT, None, Lacking(0, 0)),
        (f"{name}-10", Registration.NONE, Greeting.UNREGISTERED, None, Lacking(1, 3)),
    ]
    return [
        BookieSeen(
            BookieRecord(bookie, 2, 0, registration, "h", 1, False, "", greeting), location, lacking
        )
        for bookie, registration, greeting, location, lacking in rows
    ]


def history(runs: int) -> list[PastRun]:
    """Return runs on consecutive days; the second counted no copies."""
    return [
        PastRun(
            f"run-{day}",
            f"2026-01-{day + 1:02d}T03:00:00Z",
            day,
            2 * day,
            None if day == 1 else 0.9 + day / 100,
            {"critical": day, "warning": 2, "info": 0},
        )
        for day in range(runs)
    ]


def many(number: int, kinds: int = 4) -> list[FindingRecord]:
    """Return so many findings on ledgers of some kinds, worst first, each with its own id and
    owner.
    """
    chosen = [kind for kind in report_order() if CATALOGUE[kind].subject is Subject.LEDGER][:kinds]
    one = [report_stories.finding(kind, 0) for kind in chosen]
    return [
        replace(
            one[n * kinds // number],
            id=f"{n:016x}",
            ledger_id=10**15 + n,
            owner=Owner(application=f"t-{10**15 + n}"),
        )
        for n in range(number)
    ]


def sound() -> PageContents:
    """Return a run without a finding, a mark, a topic or an earlier run."""
    summary = report_stories.summary()
    return PageContents(
        summary, [], text.render(summary, []), RUN_DIR, bookies=bookies("b")[:1], history=history(1)
    )
