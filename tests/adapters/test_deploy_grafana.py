"""The dashboard: equal to what its code makes, with queries that Prometheus parses over metrics
that exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

from adapters.test_deploy_prometheus import promtool
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from support.deployed import DEPLOY, ROOT

from auditor.after.dashboard import COLUMNS, dashboard

DASHBOARD = DEPLOY / "grafana/dashboard.json"
METRIC = re.compile(r"\bbookkeeper_(?:auditor|lister)_\w+")


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def queries() -> Iterator[str]:
    """Yield every expression, with a cluster in place of the variable."""
    for panel in stored()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$cluster", "prod")


def test_the_file_is_what_the_code_makes():
    """Run `python -m auditor.after.dashboard > deploy/grafana/dashboard.json` after a
    change.
    """
    assert dashboard() == stored()
    assert DASHBOARD.read_text() == json.dumps(dashboard(), indent=2) + "\n"


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    """Each has its own number, is within the grid, and overlaps no other; each has a title, and
    each picture says what it shows.
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


def lost(written: Any, read: Any, where: str = "") -> Iterator[str]:
    """Yield the places where Grafana's types, which drop unknown fields, lack or change
    something.
    """
    if isinstance(written, dict):
        for key, value in written.items():
            yield from lost(
                value, read.get(key) if isinstance(read, dict) else None, f"{where}/{key}"
            )
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for number, (one, other) in enumerate(zip(written, read, strict=True)):
            yield from lost(one, other, f"{where}/{number}")
    elif written != read:
        yield where


def read_by_grafana(made: dict[str, Any]) -> dict[str, Any]:
    """Return the dashboard as Grafana's types for Python read and write it."""
    register_default_plugins()
    read: dict[str, Any] = json.loads(JSONEncoder().encode(Dashboard.from_json(made)))
    return read


def test_grafanas_own_types_know_every_field():
    """Nothing is lost except the text of a query that Grafana's editor shows."""
    known_to_the_editor = "/templating/list/1/definition"
    assert [known_to_the_editor] == list(lost(stored(), read_by_grafana(stored())))


def test_a_misspelt_field_is_lost():
    """The test above can fail: for a field of a panel, of a query, and of a colour's step."""
    broken = stored()
    panel = next(one for one in broken["panels"] if one["type"] == "timeseries")
    panel["fieldConfig"]["defaults"]["units"] = "short"
    panel["targets"][0]["legend"] = "x"
    broken["refreshes"] = "5m"
    assert 4 == len(list(lost(broken, read_by_grafana(broken))))


def checked(tmp_path: Path, expressions: list[str]) -> int:
    """Return promtool's exit code for rules with these expressions."""
    rules = [{"record": f"panel:{number}", "expr": one} for number, one in enumerate(expressions)]
    (tmp_path / "rules.json").write_text(
        json.dumps({"groups": [{"name": "panels", "rules": rules}]})
    )
    return promtool("check", "rules", "rules.json", cwd=tmp_path).returncode


def test_prometheus_parses_every_query(tmp_path: Path):
    """It refuses a broken one."""
    expressions = list(queries())
    assert len(expressions) >= 15
    assert 0 == checked(tmp_path, expressions)
    assert 0 != checked(tmp_path, [*expressions, expressions[0].rstrip("1") + "("])


def test_every_metric_of_a_query_exists():
    """docs/names.md, which is compared with the code, has it. Each metric of an audit is shown, or
    left out on purpose.
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
        "copies_by_read_age",
        "build_info",
        "disk_bytes",
        "disk_bookies",
        "orphaned_ledgers",
    }
    of_audits = {name for name in named if name.startswith("bookkeeper_auditor_")}
    left = {re.sub("^bookkeeper_auditor_(last_run_)?", "", name) for name in of_audits - used}
    assert left_out | {"timestamp_seconds"} == left  # the last one fills the variable


def test_only_the_dashboards_own_variables_are_used():
    """An undefined variable is an empty text, and so an empty panel."""
    text = DASHBOARD.read_text()
    variables = {one["name"] for one in stored()["templating"]["list"]}
    assert {"datasource", "cluster"} == variables == set(re.findall(r"\$\{?(\w+)", text))
