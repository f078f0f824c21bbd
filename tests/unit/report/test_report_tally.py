"""The numbers of a run add up, and the first screen, the page and the metrics have the same."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from support import report_stories as stories

from auditor.model.finding import CATALOGUE, Kind, Subject
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.report.first_screen import Whereabouts, render_first_screen
from auditor.report.layout import Screen
from auditor.report.tally import tally_lines, tally_of
from auditor.report.text import render
from auditor.summary.outcome import findings_by_severity
from auditor.telemetry.metrics import exposition

SEEDS = range(12)


def generated(seed: int) -> tuple[Summary, Sequence[FindingRecord]]:
    """Return a run with findings of any kinds on few subjects, so that many share a subject."""
    draw = random.Random(seed)
    print("seed", seed)
    found = {}
    for _ in range(draw.randint(0, 40)):
        kind, number = draw.choice(list(Kind)), draw.randint(1, 9)
        is_bookie = CATALOGUE[kind].subject is Subject.BOOKIE
        subject: int | str = f"b{number}:3181" if is_bookie else number
        one = stories.finding(kind, subject, id=f"{kind}-{number}")
        found[one.id] = one
    findings = list(found.values())
    new = Counter(one.kind.value for one in findings if draw.random() < 0.3)
    changes: dict[str, Any] = {
        "since": {"run_id": "r", "started_at": "2026-01-04T03:00:00Z"}, "new": new.total(),
        "new_by_kind": new, "new_ledgers": draw.randint(0, 5),
    }  # fmt: skip
    standings = [draw.randint(0, 99) for _ in range(4)]
    names = ("sound", "exempt", "indeterminate", "violated")
    ledgers = {"listed": sum(standings), **dict(zip(names, standings, strict=True))}
    unjudged = {"ledgers": 100, "in_part": draw.randint(0, 2), "several_reasons": 0}
    summary = stories.summary(
        outcome="VIOLATED", exit_code=1, ledgers=ledgers, findings=stories.counted(findings),
        severities=findings_by_severity(findings), changes=changes, unjudged=unjudged,
    )  # fmt: skip
    return summary, findings


@pytest.mark.parametrize("seed", SEEDS)
def test_the_numbers_add_up(seed: int):
    """Findings and new findings by severity are all of them. Each ledger, each bookie and the
    cluster is in one row.
    """
    summary, findings = generated(seed)
    tally = tally_of(summary)
    by_kind = sum(one.findings for one in summary.findings.values())
    assert len(findings) == by_kind == sum(row.counts.findings for row in tally.rows)
    assert tally.new == sum(row.new or 0 for row in tally.rows)
    subjects = {(CATALOGUE[f.kind].subject, f.ledger_id, f.bookie_id) for f in findings}
    hit = Counter(subject for subject, _, _ in subjects)
    assert (hit[Subject.LEDGER], hit[Subject.BOOKIE], hit[Subject.CLUSTER]) == (
        sum(row.counts.ledgers for row in tally.rows),
        sum(row.counts.bookies for row in tally.rows),
        sum(row.counts.cluster for row in tally.rows),
    )
    ledgers = summary.ledgers
    others = ledgers.sound + ledgers.exempt + ledgers.violated
    assert tally.listed == others + tally.unjudged
    worst = [row.severity for row in tally.rows if row.counts.findings]
    assert worst[:1] == sorted({f.severity for f in findings}, reverse=True)[:1]


@pytest.mark.parametrize("seed", SEEDS)
def test_texts_and_metrics_have_the_same_numbers(seed: int):
    """The columns of the first screen and of the report are those of the metrics."""
    summary, findings = generated(seed)
    metrics = exposition(summary, cluster="c")
    screen = render_first_screen(summary, findings, Whereabouts("/r"), screen=Screen(100))
    report = render(summary, findings)
    for row in tally_of(summary).rows:
        counts, word = row.counts, row.severity.word
        cells = [counts.findings, row.new, counts.ledgers, counts.bookies, counts.cluster]
        for name, number in (
            ("findings", counts.findings),
            ("new_findings", row.new),
            ("hit_ledgers", counts.ledgers),
            ("hit_bookies", counts.bookies),
        ):
            labels = f'{{cluster="c",severity="{word}"}}'
            assert f"bookkeeper_auditor_last_run_{name}{labels} {float(number or 0)}\n" in metrics
        for text in (screen, report):
            shown = re.search(rf"(?m)^{word} +([\d ]+)$", text)
            assert (shown is None) == (counts.findings == 0)
            if shown:
                assert cells[: len(shown[1].split())] == list(map(int, shown[1].split()))


def test_a_run_without_findings_has_at_most_a_line_on_what_was_not_judged():
    """A version that did not count severities has no rows."""
    assert [] == list(tally_lines(tally_of(stories.summary())))
    unjudged = stories.summary(unjudged={"ledgers": 2, "in_part": 2, "several_reasons": 0})
    assert [("unjudged", "0 ledgers, and 2 more in part")] == list(tally_lines(tally_of(unjudged)))
    assert () == tally_of(stories.summary_without("severities")).rows


def test_what_a_severity_hits_is_a_list_of_words():
    """Nothing is left out, and nothing is counted as zero."""
    findings = [
        stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 1),
        stories.finding(Kind.BOOKIE_SILENT_YET_REGISTERED, "b1"),
        stories.finding(Kind.MARK_WITHOUT_LEDGER, "cluster"),
        stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2),
        stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 2),
    ]
    rows = tally_of(stories.summary(severities=findings_by_severity(findings))).rows
    assert ["1 ledger", "1 ledger, 1 bookie and the cluster", ""] == [row.hits for row in rows]
    assert [None, None, None] == [row.new for row in rows]
