"""What the newest run in OUTPUT knows: read where it is of this cluster and whole, and nothing otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.newest_runs import FINISHED_AT, RUN_ID, add_greetings, output_with_a_run

from auditor.evidence.newest_run import NewestRun, newest_run
from auditor.model.cluster import ClusterFacts

FACTS = ClusterFacts("zk://h/ledgers", ("h:2181",), "/ledgers", "hierarchical", "id-1", False, None)


def known(output: Path, facts: ClusterFacts = FACTS) -> NewestRun:
    found = newest_run(str(output), facts)
    assert found is not None
    return found


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_run_of_this_cluster_is_found(tmp_path: Path, form: str):
    """By a path and by a URI, with its id and when it finished."""
    output_with_a_run(tmp_path, FACTS, unable=["b1", "b2"])
    found = newest_run(form.format(tmp_path), FACTS)
    assert found is not None
    assert {"run_id": RUN_ID, "finished_at": FINISHED_AT} == found.as_json()
    assert {"b1", "b2"} == found.bookies_unable()


def test_a_run_of_another_cluster_says_nothing(tmp_path: Path):
    """Clusters are told apart by instance id; two clusters may have bookies of the same name."""
    output_with_a_run(tmp_path, FACTS, unable=["b1"])
    assert newest_run(str(tmp_path), replace(FACTS, instance_id="id-2")) is None


def test_bookies_beyond_those_named_in_the_summary_are_read_from_the_evidence(tmp_path: Path):
    """The summary names ten; where more were counted, the table of bookies has them all."""
    output_with_a_run(tmp_path, FACTS, unable=["b1"], unsupported=2)
    add_greetings(tmp_path, {"b1": "unsupported", "b2": "unsupported", "b3": "answered"})
    assert {"b1", "b2"} == known(tmp_path).bookies_unable()


def test_standings_are_those_of_the_ledgers_asked_for(tmp_path: Path):
    """A ledger that the run has no verdict on is left out."""
    output_with_a_run(tmp_path, FACTS, standings={1: "sound", 2: "violated", 3: "exempt"})
    assert {1: "sound", 2: "violated"} == known(tmp_path).standings([1, 2, 9])


def test_tables_that_are_gone_say_nothing(tmp_path: Path):
    """The summary is there and the tables are not: nothing is made up, and nothing raised."""
    output_with_a_run(tmp_path, FACTS, unable=["b1"], unsupported=2)
    assert (frozenset(), {}) == (known(tmp_path).bookies_unable(), known(tmp_path).standings([1]))


@pytest.mark.parametrize(
    "damage",
    [
        lambda root: (root / "latest.json").unlink(),
        lambda root: (root / "latest.json").write_text("{"),
        lambda root: (root / "latest.json").write_text("[]"),
        lambda root: (root / "latest.json").write_text(json.dumps({"run": "../elsewhere"})),
        lambda root: (root / "latest.json").write_text(json.dumps({"run": 7})),
        lambda root: (root / "latest.json").write_bytes(b"\xff\xfe"),
        lambda root: (root / f"run-{RUN_ID}" / "summary.json").unlink(),
        lambda root: (root / f"run-{RUN_ID}" / "summary.json").write_text("[]"),
        lambda root: (root / f"run-{RUN_ID}" / "summary.json").write_text('{"cluster": null}'),
    ],
)
def test_what_cannot_be_read_says_nothing(tmp_path: Path, damage):
    """No file, no JSON, no name of a run: as if there were no run."""
    output_with_a_run(tmp_path, FACTS, unable=["b1"])
    damage(tmp_path)
    assert newest_run(str(tmp_path), FACTS) is None


@pytest.mark.parametrize("output", ["/nowhere/at/all", "gopher://x/y"])
def test_an_output_that_is_not_there_says_nothing(output: str):
    """`auditor ledger` needs none."""
    assert newest_run(output, FACTS) is None


def test_arrow_is_not_loaded_where_the_summary_says_it_all(tmp_path: Path):
    """A third of a second of every `auditor ledger`."""
    output_with_a_run(tmp_path, FACTS, unable=["b1"])
    program = (
        "import sys; from auditor.model.cluster import ClusterFacts; from auditor.evidence.newest_run import newest_run;"
        f"print(newest_run({str(tmp_path)!r}, {FACTS!r}).bookies_unable(), 'pyarrow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=60, check=True
    )
    assert "frozenset({'b1'}) False\n" == done.stdout
