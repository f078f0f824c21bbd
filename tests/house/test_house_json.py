"""JSON is read and written at the edge: elsewhere values have types that mypy checks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import auditor

PRODUCT = Path(auditor.__file__).parent
EDGES = {
    "model/finding_record.py": "a line of findings.jsonl",
    "model/summary.py": "summary.json",
    "summary/about.py": "run.json",
    "after/rechecks.py": "the terms of run.json",
    "after/compared_finding.py": "a line of not_checked_again.jsonl",
    "after/history.py": "a line of not_checked_again.jsonl",
    "after/pseudonyms.py": "the values of a bundle, whatever they are",
    "after/dashboard.py": "a dashboard of Grafana",
    "after/page/page_view.py": "the values of the page's template",
    "after/page/charts.py": "the values of the page's template",
    "after/page/reading.py": "a row of a ledger's custom metadata",
    "after/page/pictures.py": "the values of the page's template",
    "after/page/findings_data.py": "the findings in the page",
    "after/differences_text.py": "auditor diff --format json",
    "after/margin_text.py": "auditor margin --format json",
    "after/repairing.py": "auditor margin --format json",
    "after/margin_now_text.py": "auditor margin --now --format json",
    "recovery/rehearsal_text.py": "auditor rehearse --format json",
    "recovery/salvage_text.py": "auditor salvage --format json",
    "after/bundle.py": "the files of a bundle",
    "after/stored_runs_text.py": "auditor status --format json",
    "run/notifying.py": "the document for --notify",
    "commands/completion.py": "a line of findings.jsonl, mutes.jsonl or topics.jsonl",
    "commands/naming.py": "auditor ledger --naming --format json",
    "model/judged_ledger.py": "a ledger of auditor ledger --format json",
    "commands/calling.py": "the flags of a call, as click gives them",
    "commands/lister.py": "what asyncio tells of an error",
    "lister/reader_process.py": "a message to the process that reads an index",
    "lister/scrub_process.py": "the state of a scrub",
    "wire/lister_fields.py": "what a lister says of itself",
    "evidence/journal.py": "a line of the journal",
    "evidence/table_scan.py": "a row of any table",
    "evidence/rows.py": "the nulls of a table, and a cell of one",
    "evidence/run_directory.py": "an object that is written as JSON",
    "pulsar/reference_rows.py": "a row of evidence/references",
    "findings/on_cluster.py": "a row of evidence/marks",
    "summary/costs.py": "a row of evidence/answers",
    "commands/explain.py": "a row of the verdicts",
    "report/unjudged_text.py": "a row of the verdicts",
    "telemetry/log.py": "the fields of an event in the log",
    "lister/directory_reader.py": "a message of the process that reads an index",
    "after/mutes.py": "the facts of a stored finding",
    "api.py": "a row of the verdicts",
    "pulsar/metadata.py": "JSON that Pulsar wrote",
    "wire/locations.py": "JSON that BookKeeper's tools wrote",
}
"""The modules that may name a `dict[str, Any]` or `Mapping[str, Any]`, and what it is there."""


def untyped(source: str) -> Iterator[int]:
    """Yield the lines that name a `dict[str, Any]`, a mapping of that kind, or an alias `Json`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and ast.unparse(node) in (
            "dict[str, Any]",
            "Mapping[str, Any]",
        ):
            yield node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield from (node.lineno for one in node.names if one.name == "Json")


def test_only_the_edges_name_values_without_types() -> None:
    """A module that has none any more is struck from the list."""
    found = {
        path.relative_to(PRODUCT).as_posix()
        for path in PRODUCT.rglob("*.py")
        if any(untyped(path.read_text()))
    }
    assert set(EDGES) == found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x: dict[str, Any] = {}", [1]),
        ("\ndef f() -> list[dict[str, Any]]: ...", [2]),
        ("from a import Json", [1]),
        ("def f(x: Mapping[str, Any]): ...", [1]),
        ("x: dict[str, int] = {}; y: Mapping[str, object] = x", []),
    ],
)
def test_a_value_without_a_type_is_found(source: str, lines: list[int]) -> None:
    """Wherever it stands in an annotation."""
    assert lines == list(untyped(source))
