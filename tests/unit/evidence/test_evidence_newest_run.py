"""What the newest run in OUTPUT knows: read where it is of this cluster and whole, and nothing
otherwise.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.newest_runs import FINISHED_AT, RUN_ID, add_greetings, output_with_a_run

from auditor.evidence.newest_run import NewestRun, newest_run
from auditor.evidence.run_directory import place
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
    """Clusters are distinguished by instance id; two clusters may have bookies of the same name."""
    output_with_a_run(tmp_path, FACTS, unable=["b1"])
    assert newest_run(str(tmp_path), replace(FACTS, instance_id="id-2")) is None


@pytest.mark.parametrize("end", ["", "/"])
def test_a_run_names_its_directory(tmp_path: Path, end: str):
    """Below the output as it was given; a slash at its end does not count."""
    output_with_a_run(tmp_path / "ofX", FACTS)
    found = newest_run(f"{tmp_path}/ofX{end}", FACTS)
    assert found is not None
    assert f"{tmp_path}/ofX/run-{RUN_ID}" == found.path


@pytest.mark.parametrize(
    ("is_same", "theirs"),
    [
        (True, {}),
        (False, {"root": "/other"}),
        (False, {"hosts": ("h2:2181",)}),
        (False, {"hosts": ()}),
    ],
)
def test_a_cluster_without_an_id_is_recognised_by_its_root_and_hosts(
    tmp_path: Path, is_same: bool, theirs: dict[str, Any]
):
    """Two old clusters without an instance id are not one."""
    nameless = replace(FACTS, instance_id=None)
    output_with_a_run(tmp_path, replace(nameless, **theirs))
    assert is_same == (newest_run(str(tmp_path), nameless) is not None)


def test_an_older_summary_without_root_and_hosts_is_found_by_the_instance_id(tmp_path: Path):
    """Without an id it is another cluster's."""
    output_with_a_run(tmp_path, FACTS)
    path = tmp_path / f"run-{RUN_ID}" / "summary.json"
    for is_found, instance_id in ((True, "id-1"), (False, None)):
        path.write_text(
            json.dumps(json.loads(path.read_text()) | {"cluster": {"instance_id": instance_id}})
        )
        assert is_found == (
            newest_run(str(tmp_path), replace(FACTS, instance_id=instance_id)) is not None
        )


def test_bookies_beyond_those_named_in_the_summary_are_read_from_the_evidence(tmp_path: Path):
    """The summary names ten; where more were counted, the table of bookies has them all."""
    output_with_a_run(tmp_path, FACTS, unable=["b1"], unsupported=2)
    add_greetings(tmp_path, {"b1": "unsupported", "b2": "unsupported", "b3": "answered"})
    assert {"b1", "b2"} == known(tmp_path).bookies_unable()


def test_standings_are_those_of_the_ledgers_asked_for(tmp_path: Path):
    """A ledger that the run has no verdict on is left out."""
    output_with_a_run(tmp_path, FACTS, standings={1: "sound", 2: "violated", 3: "exempt"})
    assert {1: "sound", 2: "violated"} == known(tmp_path).standings([1, 2, 9])


def test_where_no_ledger_is_asked_for_no_table_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Reading one takes a third of a second."""
    output_with_a_run(tmp_path, FACTS, standings={1: "sound"})
    run = known(tmp_path)
    monkeypatch.delattr("auditor.evidence.newest_run._standings")
    assert {} == run.standings([])


def test_only_the_columns_that_are_needed_are_read(tmp_path: Path):
    """Another version may have written others with other types, or none of the type that is read in
    some files.
    """
    output_with_a_run(tmp_path, FACTS, unable=["b1"], unsupported=2)
    run = place(str(tmp_path / f"run-{RUN_ID}"))
    run.write_table("evidence/bookies", pa.table({"bookie_id": ["b3"]}), "a")
    run.write_table(
        "evidence/bookies",
        pa.table({"bookie_id": ["b1", "b2"], "greeting": ["unsupported"] * 2, "look": ["x"] * 2}),
        "b",
    )
    run.write_table("verdicts", pa.table({"ledger_id": [3]}), "a")
    run.write_table(
        "verdicts",
        pa.table({"ledger_id": [1, 2], "standing": ["sound", "exempt"], "looks": ["x"] * 2}),
        "b",
    )
    assert ({"b1", "b2"}, {1: "sound"}) == (
        known(tmp_path).bookies_unable(),
        known(tmp_path).standings([1]),
    )


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
        "import sys; from auditor.model.cluster import ClusterFacts; from"
        f" auditor.evidence.newest_run import newest_run;print(newest_run({str(tmp_path)!r},"
        f" {FACTS!r}).bookies_unable(), 'pyarrow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "frozenset({'b1'}) False\n" == done.stdout
