"""The dashboard: as its code makes it, with queries that Prometheus parses over metrics that
exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

from adapters.test_deploy_prometheus import promtool
from support.deployed import DEPLOY, ROOT

from auditor.telemetry.dashboard import COLUMNS, dashboard

DASHBOARD = DEPLOY / "grafana/dashboard.json"
METRIC = re.compile(r"\bbookkeeper_(?:auditor|lister)_\w+")


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def queries() -> Iterator[str]:
    """Every expression, with a cluster in place of the variable."""
    for panel in stored()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$cluster", "prod")


def test_the_file_is_what_the_code_makes():
    """`python -m auditor.telemetry.dashboard > deploy/grafana/dashboard.json` after a change."""
    assert dashboard() == stored()
    assert DASHBOARD.read_text() == json.dumps(dashboard(), indent=2) + "\n"


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    """Numbered once each, within the grid, no two in one place; each has a title, and each picture
    says what it shows.
    """
    panels = stored()["panels"]
    assert list(range(1, len(panels) + 1)) == [panel["id"] for panel in panels]
    for panel in panels:
        place = panel["gridPos"]
        assert panel["title"] and place["x"] + place["w"] <= COLUMNS
        assert panel["type"] == "row" or (panel["description"] and panel["targets"])
        letters = [target["refId"] for target in panel.get("targets", ())]
        assert sorted(set(letters)) == letters
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert is_beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def checked(tmp_path: Path, expressions: list[str]) -> int:
    """Promtool's exit code for rules with these expressions."""
    rules = [{"record": f"panel:{number}", "expr": one} for number, one in enumerate(expressions)]
    (tmp_path / "rules.json").write_text(
        json.dumps({"groups": [{"name": "panels", "rules": rules}]})
    )
    return promtool("check", "rules", "rules.json", cwd=tmp_path).returncode


def test_prometheus_parses_every_query(tmp_path: Path):
    """And would refuse a broken one."""
    expressions = list(queries())
    assert len(expressions) >= 15
    assert 0 == checked(tmp_path, expressions)
    assert 0 != checked(tmp_path, [*expressions, expressions[0].rstrip("1") + "("])


def test_every_metric_of_a_query_exists():
    """By docs/names.md, which is held against the code. Each metric of an audit is shown, or left
    out on purpose.
    """
    named = set(
        re.findall(r"^\| `(bookkeeper_\w+)` \|", (ROOT / "docs/names.md").read_text(), re.MULTILINE)
    )
    used = {name for query in queries() for name in METRIC.findall(query)}
    assert used and used <= named
    left_out = {
        "violations_total",
        "exempt_ledgers",
        "maintenance_ledgers",
        "assurance_ledgers",
        "loss_found_ratio",
        "build_info",
    }
    of_audits = {name for name in named if name.startswith("bookkeeper_auditor_")}
    left = {re.sub("^bookkeeper_auditor_(last_run_)?", "", name) for name in of_audits - used}
    assert left_out | {"timestamp_seconds"} == left  # the last one fills the variable


def test_only_the_dashboards_own_variables_are_used():
    """A variable that is not there is an empty text, and so an empty panel."""
    text = DASHBOARD.read_text()
    variables = {one["name"] for one in stored()["templating"]["list"]}
    assert {"datasource", "cluster"} == variables == set(re.findall(r"\$\{?(\w+)", text))
