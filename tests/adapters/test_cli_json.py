"""Every command writes one JSON document to stdout with --format json, or refuses the option."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import LOST, Done, at, cluster_with_a_loss, command_here

from auditor.cli import cli

NOWHERE = "--metadata-service-uri zk+hierarchical://127.0.0.1:1/x --zookeeper-connect-timeout 500ms"
"""A URI at which no server listens."""
FIGURES = re.compile(r"[\d.,]+")

TABLE = [
    (1, "run CLUSTER OUTPUT"),
    (0, "run CLUSTER OUTPUT --dry-run"),
    (5, f"run OUTPUT {NOWHERE}"),
    (1, f"ledger CLUSTER OUTPUT {LOST}"),
    (3, "ledger CLUSTER OUTPUT 4711"),
    (5, f"ledger {NOWHERE} 1"),
    (0, "ledger CLUSTER OUTPUT --naming BOOKIE"),
    (3, "ledger CLUSTER OUTPUT --naming nobody"),
    (5, f"ledger {NOWHERE} --naming BOOKIE"),
    (5, "topic CLUSTER OUTPUT persistent://a/b/c"),
    (1, "demo OUTPUT"),
    (1, "replay RUN"),
    (3, "status OUTPUT"),
    (1, "report RUN"),
    (1, "report RUN --full"),
    (0, "diff RUN RUN"),
    (0, "margin RUN"),
    (3, "margin RUN --without BOOKIE"),
    (0, f"explain {LOST} RUN"),
    (0, "mute --list OUTPUT"),
    (0, f"mute {LOST} RUN OUTPUT --until 2999-01-01 --why known"),
    (0, "bundle RUN --file OUT/b.tar.gz"),
    (5, f"rehearse {NOWHERE} --restored-uri zk://127.0.0.1:1/x"),
    (5, f"salvage {NOWHERE} OUTPUT --lister-port 9"),
    (3, "topology URI --topology zookeeper"),
    (5, f"topology {NOWHERE} --topology zookeeper"),
    (0, "init URI OUT/auditor.toml"),
    (5, f"init {NOWHERE} OUT/auditor.toml"),
    (0, "config"),
    (0, "doctor URI OUTPUT"),
    (5, f"doctor {NOWHERE} OUTPUT"),
]
"""Exit codes and command lines. CLUSTER, URI, BOOKIE, OUTPUT, OUT and RUN are replaced."""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield what stands for a cluster, its URI and a run of it."""
    output = tmp_path_factory.mktemp("output")
    with cluster_with_a_loss(tmp_path_factory.mktemp("cluster")) as cluster:
        done = command_here("run", *at(cluster), "--output", str(output))
        assert 1 == done.returncode, done.stderr
        (run,) = output.glob("run-*")
        flags = at(cluster)
        uri, bookie = " ".join(flags[:2]), cluster.id_of("b1")
        yield {"CLUSTER": " ".join(flags), "URI": uri, "BOOKIE": bookie, "RUN": str(run)}


def document(done: Done) -> Any:
    """Return what stdout holds: one JSON document in a line."""
    assert 1 == done.stdout.count("\n"), done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("code", "line"), TABLE, ids=[line for _, line in TABLE])
def test_a_command_writes_one_document(
    tmp_path: Path, words: dict[str, str], code: int, line: str
) -> None:
    """With the exit code that it has otherwise."""
    run = tmp_path / Path(words["RUN"]).name
    shutil.copytree(words["RUN"], run)
    places = words | {"RUN": str(run), "OUTPUT": f"--output {tmp_path}"}
    filled = " ".join(places.get(word, word) for word in line.split())
    done = command_here(*filled.replace("OUT/", f"{tmp_path}/").split(), "--format", "json")
    assert code == done.returncode, done.stdout + done.stderr
    document(done)


def test_the_table_has_every_command_but_one_that_refuses() -> None:
    """`lister` serves, and prints no result."""
    assert cli.commands.keys() - {line.split()[0] for _, line in TABLE} == {"lister"}
    done = command_here("lister", "--format", "json")
    assert 2 == done.returncode and "--format" in done.stderr and "" == done.stdout


def test_mutes_are_an_array_with_and_without_any(tmp_path: Path, words: dict[str, str]) -> None:
    """What was muted and unmuted is the mute itself, and where it stands."""
    to = ("--output", str(tmp_path), "--format", "json")
    assert [] == document(command_here("mute", "--list", *to))
    accept = ("mute", str(LOST), words["RUN"], "--until", "2999-01-01", "--why", "known")
    muted = document(command_here(*accept, *to))
    assert f"{tmp_path}/mutes.jsonl" == muted["file"]
    listed = document(command_here("mute", "--list", *to))
    assert [{**muted["muted"], "is_over": False}] == listed
    removed = document(command_here("mute", "--remove", muted["muted"]["id"], *to))
    assert muted["muted"] == removed["removed"]
    assert [] == document(command_here("mute", "--list", *to))


def test_a_plan_has_what_each_bookie_would_be_asked(words: dict[str, str], tmp_path: Path) -> None:
    """Nine ledgers on two bookies; no directory of a run is left."""
    line = f"run {words['CLUSTER']} --output {tmp_path} --dry-run --format json"
    plan = document(command_here(*line.split()))["plan"]
    assert [9, 9] == [row["lists"] for row in plan["bookies"]]
    assert words["BOOKIE"] in {row["bookie_id"] for row in plan["bookies"]}
    assert (18, True) == (plan["lists"], plan["expected_bytes"] > 0 and plan["seconds"] > 0)
    assert [] == [*tmp_path.glob("run-*")]


def test_doctor_names_each_check_its_state_and_its_sentence(tmp_path: Path) -> None:
    """The line for people has the same, but for figures: free memory is another one each time."""
    words = ("doctor", "--topology", "/nowhere/table", "--output", str(tmp_path))
    found = document(command_here(*words, "--format", "json"))
    assert 5 == found["exit_code"]
    assert ["topology"] == [one["name"] for one in found["checks"] if one["state"] == "missing"]
    assert {"ok", "missing", "note"} == {one["state"] for one in found["checks"]}
    lines = command_here(*words).stdout.splitlines()
    assert len(lines) == len(found["checks"])
    pairs = zip(lines, (one["sentence"] for one in found["checks"]), strict=True)
    assert [] == [
        (line, said)
        for line, said in pairs
        if not FIGURES.sub("", line).endswith(FIGURES.sub("", said))
    ]
