"""Make the Grafana dashboard from the names of the metrics.

`python -m auditor.after.dashboard` prints it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.model.finding import Severity
from auditor.model.verdict import Standing
from auditor.report.outcome_text import HUES, SEVERITY_HUES, STANDING_HUES
from auditor.telemetry.metrics import PREFIX

Json = dict[str, Any]

COLUMNS = 24
"""Columns of Grafana's grid."""
SCHEMA_VERSION = 39
"""Version of the dashboard's schema. Grafana 10.4 and later read it and convert it themselves."""
OF_CLUSTER = '{cluster=~"$cluster"}'
UID = "bookkeeper-auditor"
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `queries` are pairs of an expression and its legend. `steps` are pairs of a value
    and the colour from that value on.
    """

    title: str
    says: str
    queries: Sequence[tuple[str, str]]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 12
    height: int = 8
    steps: tuple[tuple[float | None, str], ...] = ((None, "green"),)


def _metric(name: str, condition: str = "") -> str:
    return f"{PREFIX}{name}{OF_CLUSTER}{condition}"


def _numbers(severity: Severity) -> Panel:
    """Return the panel with a severity's row of the first screen."""
    word = severity.word
    condition = f'{{cluster=~"$cluster", severity="{word}"}}'
    names = (("findings", "findings"), ("hit_ledgers", "ledgers"), ("hit_bookies", "bookies"))
    queries = [
        (f"{PREFIX}last_run_{name}{condition}", f"{{{{cluster}}}}: {words}")
        for name, words in names
    ]
    return Panel(
        word.capitalize(),
        "Findings, and what they hit. A ledger or a bookie counts at its worst finding.",
        queries, "stat", width=4, height=4, steps=((None, "green"), (1, SEVERITY_HUES[severity])),
    )  # fmt: skip


_UNKNOWN = STANDING_HUES[Standing.INDETERMINATE]
FIRST = (
    Panel(
        "Outcome",
        "Of the last run.",
        [(_metric("last_run_outcome", " == 1"), "{{outcome}}")],
        "stat",
        width=4,
        height=4,
    ),
    _numbers(Severity.CRITICAL),
    _numbers(Severity.WARNING),
    Panel(
        "Not judged",
        "Ledgers that could not be judged.",
        [
            (
                f'{PREFIX}last_run_ledgers{{cluster=~"$cluster", standing="indeterminate"}}',
                "{{cluster}}: ledgers",
            )
        ],
        "stat",
        width=4,
        height=4,
        steps=((None, "green"), (1, _UNKNOWN)),
    ),
    Panel(
        "New",
        "Findings that are new since the earlier run; none where there is no earlier run.",
        [(f"sum by (cluster) ({_metric('last_run_new_findings')})", "{{cluster}}: findings")],
        "stat",
        width=4,
        height=4,
        steps=((None, "green"), (1, _UNKNOWN)),
    ),
    Panel(
        "Age of the verdict",
        "Since a run last ended with one. Everything else is as old.",
        [(f"time() - {_metric('last_success_timestamp_seconds')}", "{{cluster}}")],
        "stat",
        "s",
        4,
        4,
        ((None, "green"), (172_800, "red")),
    ),
)
CERTAINTY = (
    Panel(
        "Verified copies",
        "Promised copies that were read, or listed by a bookie that is not in doubt.",
        [(_metric("last_run_verified_copies_ratio"), "{{cluster}}")], "stat", "percentunit", 8, 4,
        ((None, "orange"), (0.5, "green")),
    ),
    Panel(
        "Coverage",
        "Ledgers that carry no reason to be unknown and are not merely excused by a mark.",
        [(_metric("last_run_coverage_ratio"), "{{cluster}}")], "stat", "percentunit", 8, 4,
        ((None, "red"), (0.95, "green")),
    ),
    Panel(
        "Oldest under-replication mark", "How long a ledger has been waiting for its copies.",
        [(_metric("last_run_oldest_underreplicated_seconds"), "{{cluster}}")], "stat", "s", 8, 4,
    ),
)  # fmt: skip
FINDINGS = (
    Panel(
        "Found by the last run",
        "Ledgers (or bookies; 1 for the cluster) by kind. docs/findings has a page for each.",
        [(f"sort_desc({_metric('last_run_violations', ' > 0')})", "{{severity}}: {{kind}}")],
        "bargauge",
        steps=((None, "red"),),
    ),
    Panel(
        "Findings over time",
        "By kind, as of each run, muted ones included. Alerts do not count what is muted.",
        [
            (_metric("last_run_violations", " > 0"), "{{kind}}"),
            (_metric("last_run_muted_findings", " > 0"), "muted: {{kind}}"),
        ],
    ),
)  # fmt: skip
LEDGERS = (
    Panel("Ledgers by standing", "They add up to the ledgers listed.",
    [(_metric("last_run_ledgers"), "{{standing}}")]),
    Panel("Why ledgers could not be judged, or not in full", "By reason.",
    [(_metric("last_run_indeterminate_ledgers", " > 0"), "{{reason}}")]),
    Panel("Under-replication marks", "By state; stale: every copy was listed or read.",
    [(_metric("last_run_marks"), "{{state}}")]),
    Panel("Copies", "In judged closed ledgers, by what they rest on; expected is all of them.",
    [(_metric("last_run_copies"), "{{evidence}}")]),
    Panel(
        "Certainty",
        "Share of copies that were verified, and of ledgers without a reason to be unknown that are"
        " not merely excused by a mark.",
        [(_metric("last_run_verified_copies_ratio"), "copies"),
        (_metric("last_run_coverage_ratio"), "ledgers")],
        unit="percentunit",
    ),
    Panel(
        "Ledgers that are gone", "Since the run before, by what explains it.",
        [(_metric("last_run_gone_ledgers"), "{{why}}")],
    ),
    Panel(
        "Ledgers with an older state", "That came back, or whose znode has a lower version.",
        [(_metric("last_run_older_ledgers"), "{{sign}}")],
    ),
    Panel("Open ledgers that could not be recovered", "If their writers died at the last run.",
    [(_metric("last_run_open_recovery_blocked_ledgers"), "{{cluster}}")]),
    Panel("Verdicts that are carried over", "Ledgers that the last run did not ask about.",
    [(_metric("last_run_carried_ledgers"), "{{cluster}}")]),
    Panel(
        "Age of the oldest lists",
        "How long before the last run the oldest run began whose verdicts it carried over; 0"
        " without any.",
        [(_metric("last_run_oldest_carried_seconds"), "{{cluster}}")], unit="s",
    ),
)  # fmt: skip
DISKS = (
    Panel("Disks of the bookies", "Total and free, by location, as bookies say it.",
    [(_metric("last_run_rack_disk_bytes"), "{{rack}}: {{state}}")], unit="bytes"),
    Panel("Free space of the fullest bookies", "As they say it.",
    [(f"bottomk(10, {PREFIX}last_run_bookie_disk_bytes" '{cluster=~"$cluster", state="free"})',
    "{{bookie}}")], unit="bytes"),
    Panel("Orphans", "Bytes of all copies of old, closed ledgers that no topic references.",
    [(_metric("last_run_orphaned_bytes"), "{{cluster}}")], unit="bytes"),
)  # fmt: skip
COSTS = (
    Panel("Time of a run", "By stage.", [(_metric("last_run_duration_seconds"), "{{stage}}")],
    unit="s"),
    Panel(
        "Requests in a day", "To bookies and ZooKeeper, by outcome.",
        [
            (f"increase({_metric('bookie_requests_total')}[1d])", "bookies: {{outcome}}"),
            (f"increase({_metric('zookeeper_reads_total')}[1d])", "ZooKeeper: {{outcome}}"),
        ],
    ),
)  # fmt: skip
LISTERS = (
    Panel("Age of a lister's view", "-1: it has none.",
    [("bookkeeper_lister_view_age_seconds", "{{bookie}}")], unit="s"),
    Panel(
        "Requests to listers", "Lists in doubt are refused.",
        [("sum by (bookie, outcome) (rate(bookkeeper_lister_lists_total[5m]))",
        "{{bookie}}: {{outcome}}")], unit="reqps",
    ),
)  # fmt: skip
ROWS: tuple[tuple[str, Sequence[Panel]], ...] = (
    ("The last run", FIRST),
    ("How certain that is", CERTAINTY),
    ("Findings", FINDINGS),
    ("Ledgers", LEDGERS),
    ("Disks", DISKS),
    ("What it costs", COSTS),
    ("Listers", LISTERS),
)


def dashboard() -> Json:
    """Return the dashboard as JSON. The same names give the same dashboard."""
    return {
        "uid": UID,
        "title": "BookKeeper audit",
        "description": (
            "Is every acknowledged entry where the metadata says it is, in as many copies as was"
            " promised?"
        ),
        "tags": ["bookkeeper", "pulsar"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "time": {"from": "now-30d", "to": "now"},
        "timezone": "browser",
        "refresh": "5m",
        "templating": {"list": list(_variables())},
        "panels": list(_lay_out()),
    }


def _variables() -> Iterable[Json]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    clusters = f"label_values({PREFIX}last_run_timestamp_seconds, cluster)"
    yield {
        "name": "cluster", "label": "Cluster", "type": "query", "datasource": _DATASOURCE,
        "query": clusters,
        "definition": clusters, "includeAll": True, "multi": True, "refresh": 2, "sort": 1,
    }  # fmt: skip


def _lay_out() -> Iterable[Json]:
    """Yield rows and panels, numbered from 1 and laid out from left to right."""
    number, top = 1, 0
    for title, panels in ROWS:
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": _place(0, top, COLUMNS, 1),
            "panels": [],
        }
        number, top, left, tallest = number + 1, top + 1, 0, 0
        for panel in panels:
            if left + panel.width > COLUMNS:
                left, top, tallest = 0, top + tallest, 0
            yield _panel(panel, number, _place(left, top, panel.width, panel.height))
            number, left, tallest = number + 1, left + panel.width, max(tallest, panel.height)
        top += tallest


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(panel: Panel, number: int, place: Mapping[str, int]) -> Json:
    steps = [{"value": value, "color": color} for value, color in panel.steps]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": _DATASOURCE,
        "gridPos": dict(place),
        "targets": [
            _target(letter, *query, panel)
            for letter, query in zip("ABCD", panel.queries, strict=False)
        ],
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": (
                [_color_of(word, color) for word, color in HUES.items()]
                if panel.title == "Outcome"
                else []
            ),
        },
        "options": (
            {"textMode": "name" if panel.title == "Outcome" else "auto"}
            if panel.kind == "stat"
            else {}
        ),
    }


def _target(letter: str, expression: str, legend: str, panel: Panel) -> Json:
    return {
        "refId": letter,
        "expr": expression,
        "legendFormat": legend,
        "instant": panel.kind != "timeseries",
    }


def _color_of(word: str, color: str) -> Json:
    fixed = {"id": "color", "value": {"mode": "fixed", "fixedColor": color}}
    return {"matcher": {"id": "byName", "options": word}, "properties": [fixed]}


def main() -> None:
    """Print the dashboard."""
    sys.stdout.write(json.dumps(dashboard(), indent=2) + "\n")


if __name__ == "__main__":
    main()
