"""What a run reads of the newest finished one to follow findings, and when that is nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import report_stories as told

from auditor.evidence.newest_run import LATEST
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place, write_json
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.summary.about import About
from auditor.summary.earlier_run import (
    UNCHECKED,
    EarlierRun,
    Sighting,
    Unreadable,
    keep_compared,
    read_earlier_run,
)

RUN_ID = "20260101T030000Z-000001"
FACTS = ClusterFacts(
    "zk://h:2181/ledgers", ("h:2181",), "/ledgers", "hierarchical", "inst", False, None
)
STUCK = told.finding(Kind.LEDGER_STUCK, 7, first_seen="2025-12-01T00:00:00.000Z", runs_seen=9)
UNHEARD = Sighting(
    keep_compared(told.finding(Kind.ENTRY_CORRUPT, 8)),
    "2025-11-01T00:00:00.000Z",
    4,
    2,
    False,
    "silent",
)


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """A finished run with a finding, and one that it could not check."""
    output = Output(place(str(tmp_path)))
    directory = output.start(RUN_ID)
    cluster = {"metadata_service_uri": FACTS.metadata_service_uri, "instance_id": "inst"}
    write_json(
        directory,
        "run.json",
        About(RUN_ID, "s", FACTS, Terms(1, 2, 3, 4), "warning", False).as_json(),
    )
    directory.write_text("findings.jsonl", json.dumps(STUCK) + "\n")
    directory.write_text(UNCHECKED, json.dumps(UNHEARD.as_json()) + "\n")
    write_json(
        directory,
        "summary.json",
        told.summary(findings=told.counted([STUCK])) | {"cluster": cluster},
    )
    output.publish(directory)
    return directory


def known(tmp_path: Path, facts: ClusterFacts = FACTS) -> EarlierRun | Unreadable | None:
    return read_earlier_run(Output(place(str(tmp_path))), facts)


def test_its_findings_and_what_it_handed_on_are_known(run: Place, tmp_path: Path):
    """With their chains, and with the setting on which a kind depends."""
    earlier = known(tmp_path)
    assert isinstance(earlier, EarlierRun)
    (stuck,) = earlier.found
    stuck_after = Terms(1, 2, 3, 4).stuck_after_ms
    assert ("2025-12-01T00:00:00.000Z", 9, stuck_after) == (
        stuck.first_seen,
        stuck.runs_seen,
        stuck.setting,
    )
    assert [UNHEARD] == list(earlier.carried)
    assert {(UNHEARD.finding["id"], "ENTRY_CORRUPT")} == earlier.known()


def test_a_finding_of_a_version_without_chains_has_none(run: Place, tmp_path: Path):
    """Nothing is made up for it."""
    plain = {
        name: value
        for name, value in STUCK.items()
        if name not in ("first_seen", "runs_seen", "muted")
    }
    run.write_text("findings.jsonl", json.dumps(plain) + "\n")
    earlier = known(tmp_path)
    assert isinstance(earlier, EarlierRun) and (None, None) == (
        earlier.found[0].first_seen,
        earlier.found[0].runs_seen,
    )


def test_no_run_and_the_run_of_another_cluster_are_no_earlier_run(run: Place, tmp_path: Path):
    """Findings begin then."""
    assert None is known(tmp_path / "elsewhere")
    assert None is known(tmp_path, replace(FACTS, instance_id="another"))


DAMAGE: list[tuple[str, str | None]] = [
    ("findings.jsonl", ""),
    ("findings.jsonl", "{"),
    ("summary.json", None),
    ("summary.json", "{"),
    ("run.json", "{}"),
    ("run.json", None),
    (UNCHECKED, "{}\n"),
    (UNCHECKED, json.dumps(UNHEARD.as_json() | {"kind": "NO_SUCH_KIND"}) + "\n"),
    (f"../{LATEST}", "{"),
]


@pytest.mark.parametrize(("name", "text"), DAMAGE)
def test_what_is_damaged_is_unreadable_and_not_empty(
    run: Place, tmp_path: Path, name: str, text: str | None
):
    """A finding that stood there must not pass for a new one."""
    file = Path(run.path) / name
    file.unlink() if text is None else file.write_text(text)
    earlier: Any = known(tmp_path)
    assert isinstance(earlier, Unreadable) and earlier.problem
