"""`auditor ledger --naming BOOKIE` lists every ledger that names the bookie, and counts those that
it could not read. Its lines can be piped into --ledgers-from.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.audits import Outcome, Pauses, list_naming
from support.newest_runs import RUN_ID, output_with_a_run
from support.zookeeper_znodes import znodes

from auditor.cli import cli
from auditor.commands.ledger_ids import read_ledger_ids
from auditor.config import ZooKeeperLimits
from auditor.errors import ConfigError
from auditor.model.cluster import ClusterFacts
from auditor.sandbox.cluster import SandboxCluster
from auditor.stop import Interrupted
from auditor.wire import znode_paths
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store

CLOSED, OPEN, RECOVERING, MARKED, REPLACED, STRIPED, OTHER, MALFORMED, BETWEEN = range(1, 10)
NAMING_B3 = [CLOSED, OPEN, RECOVERING, MARKED, REPLACED, STRIPED]
NOWHERE = "zk+hierarchical://127.0.0.1:1/ledgers"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a cluster in which some ledgers name b3, and none names b5."""
    with SandboxCluster(tmp_path_factory.mktemp("naming"), 5) as cluster:
        ledgers = {
            CLOSED: "e3 w2 a2 0:[b1 b2 b3] closed 9",
            OPEN: "e2 w2 a2 0:[b1 b3] open",
            RECOVERING: "e2 w2 a2 0:[b1 b3] in_recovery",
            MARKED: "e2 w2 a2 0:[b2 b3] closed 4",
            REPLACED: "e2 w2 a2 0:[b1 b3] 5:[b1 b2] closed 9",
            STRIPED: "e3 w1 a1 0:[b1 b2 b3] closed 1",
            OTHER: "e2 w2 a2 0:[b1 b2] closed 9",
        }
        for ledger_id, text in ledgers.items():
            cluster.add_ledger(ledger_id, cluster.ledger(text))
        cluster.mark(MARKED, ["b3"])
        yield cluster


@pytest.fixture
def facts(cluster: SandboxCluster) -> ClusterFacts:
    with open_store(parse_uri(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        return store.cluster_facts()


def naming(cluster: SandboxCluster, bookie: str = "b3", **settings: object) -> Outcome:
    return list_naming(cluster, cluster.id_of(bookie), format="json", **settings)


def test_each_ledger_that_names_the_bookie_is_listed_with_its_facts(
    cluster: SandboxCluster, tmp_path: Path
):
    """The metadata gives the state, the segments, the entries that the bookie should hold, and the
    mark. The entries of a ledger that is not closed are unknown.
    """
    outcome = naming(cluster, output=str(tmp_path))
    facts = {
        one["ledger_id"]: (
            one["state"],
            one["segments_naming"],
            one["segments"],
            one["entries"],
            one["is_marked"],
        )
        for one in outcome.summary["ledgers"]
    }
    assert {
        CLOSED: ("CLOSED", 1, 1, 6, False),
        OPEN: ("OPEN", 1, 1, None, False),
        RECOVERING: ("IN_RECOVERY", 1, 1, None, False),
        MARKED: ("CLOSED", 1, 1, 5, True),
        REPLACED: ("CLOSED", 1, 2, 5, False),
        STRIPED: ("CLOSED", 1, 1, 0, False),
    } == facts
    assert {"not_audited"} == {one["standing"] for one in outcome.summary["ledgers"]}
    assert (0, 7, 6, 5, 1) == tuple(
        outcome.summary[k] for k in ("exit_code", "listed", "naming", "waited_for", "marked")
    )
    assert ("writable", True, None) == tuple(
        outcome.summary[k] for k in ("registration", "has_cookie", "newest_run")
    )


def test_standings_are_those_of_the_newest_run(
    cluster: SandboxCluster, facts: ClusterFacts, tmp_path: Path, capsys
):
    """A ledger without a verdict is `not audited`. The output names the run."""
    output_with_a_run(tmp_path, facts, standings={CLOSED: "violated", MARKED: "exempt"})
    outcome = list_naming(cluster, cluster.id_of("b3"), output=str(tmp_path))
    lines = dict(line.split("  # ") for line in outcome.stdout.splitlines())
    assert list(map(str, NAMING_B3)) == list(lines)
    assert (
        "CLOSED; named by 1 of 1 segment; should hold 6 entries; not marked; standing: violated"
        == lines[str(CLOSED)]
    )
    assert lines[str(MARKED)].endswith("; marked; standing: exempt")
    assert lines[str(OPEN)].endswith("entries there not known; not marked; standing: not audited")
    said = capsys.readouterr().err
    assert f"Standings are those of run {RUN_ID}, which finished " in said
    assert "6 ledgers name bookie" in said
    assert "1 open, 1 in recovery, 4 closed; 1 marked under-replicated" in said
    assert "What blocks a decommission: 5 ledgers" in said


def test_the_lines_are_read_by_ledgers_from(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """From a file and from standard input."""
    outcome = list_naming(cluster, cluster.id_of("b3"))
    (tmp_path / "ids").write_text(outcome.stdout)
    assert NAMING_B3 == read_ledger_ids(tmp_path / "ids")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(outcome.stdout.encode())))
    assert NAMING_B3 == read_ledger_ids(Path("-"))


def test_a_bookie_that_no_ledger_names_blocks_nothing(cluster: SandboxCluster, capsys):
    """It is registered: stdout is empty, and the exit code is 0."""
    outcome = list_naming(cluster, cluster.id_of("b5"))
    assert (0, "") == (outcome.exit_code, outcome.stdout)
    assert "None of 7 ledgers names bookie" in capsys.readouterr().err


def test_a_bookie_that_nothing_knows_is_most_likely_misspelt(cluster: SandboxCluster, capsys):
    """It has no ledger, registration or cookie. An empty list with exit code 0 would say that the
    bookie may be removed.
    """
    outcome = list_naming(cluster, "nobody:3181")
    assert (3, "") == (outcome.exit_code, outcome.stdout)
    assert "neither a registration nor a cookie: check the id" in capsys.readouterr().err


def test_ledgers_that_cannot_be_read_are_counted_and_said(cluster: SandboxCluster, capsys):
    """They may name the bookie too. The exit code is 3, and the other ledgers are listed."""
    cluster.set_raw(MALFORMED, b"BookieMetadataFormatVersion\t3\nrubbish")
    path = cluster.root + znode_paths.ledger_path(cluster.layout, BETWEEN)
    with znodes(cluster.zookeeper_hosts) as writer:
        writer.put(path, b"", shut=True)
    try:
        outcome = naming(cluster)
    finally:
        cluster.delete_raw(cluster.root + znode_paths.ledger_path(cluster.layout, MALFORMED))
        cluster.delete_raw(path)
    assert NAMING_B3 == [one["ledger_id"] for one in outcome.summary["ledgers"]]
    assert (3, 2) == (outcome.exit_code, outcome.summary["unread"])
    assert [MALFORMED, BETWEEN] == [one["ledger_id"] for one in outcome.summary["unread_ledgers"]]
    assert (
        "The metadata of 2 ledgers could not be read, and may name the bookie too"
        in capsys.readouterr().err
    )


def test_marks_that_may_not_be_read_are_unknown(cluster: SandboxCluster, capsys):
    """They are not taken for `not marked`."""
    path = cluster.root + znode_paths.MARKS
    with znodes(cluster.zookeeper_hosts) as writer:
        writer.put(path, b"", shut=True)
        try:
            outcome = naming(cluster)
        finally:
            writer.put(path)
    assert 3 == outcome.exit_code
    assert ({None}, None) == (
        {one["is_marked"] for one in outcome.summary["ledgers"]},
        outcome.summary["marked"],
    )
    assert "the marks are not all known" in capsys.readouterr().err


def test_a_signal_ends_it(cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch):
    """The command checks for one between two ledgers: a cluster may have millions."""

    def stopped(_: Pauses) -> None:
        raise Interrupted(2)

    monkeypatch.setattr(Pauses, "check", stopped)
    with pytest.raises(Interrupted):
        list_naming(cluster, cluster.id_of("b3"))


def test_no_ledger_at_all_is_most_likely_a_wrong_root(tmp_path: Path, capsys):
    """The exit code is 3, as in a run."""
    with SandboxCluster(tmp_path, 1) as empty:
        outcome = list_naming(empty, empty.id_of("b1"))
    assert (3, "") == (outcome.exit_code, outcome.stdout)
    assert "No ledger was listed at all" in capsys.readouterr().err


def test_an_unreachable_zookeeper_leaves_stdout_empty(capsys):
    """What may be piped into --ledgers-from holds ids or nothing."""
    outcome = list_naming(NOWHERE, "b1:3181", zookeeper_connect_timeout="500ms")
    assert (5, "") == (outcome.exit_code, outcome.stdout)
    assert "UNREACHABLE: " in capsys.readouterr().err
    assert (
        5
        == list_naming(
            NOWHERE, "b1:3181", format="json", zookeeper_connect_timeout="500ms"
        ).summary["exit_code"]
    )


@pytest.mark.parametrize("bookie_id", ["", "no bookie", "readonly", "bookie/1"])
def test_what_cannot_be_a_bookie_id_is_a_usage_error(bookie_id: str):
    """The error is raised before anything is contacted."""
    with pytest.raises(ConfigError, match="cannot be a bookie id"):
        list_naming(NOWHERE, bookie_id)


@pytest.mark.parametrize("arguments", [["--naming", "b1:3181", "7"], []])
def test_either_ids_or_naming(arguments: list[str]):
    """Both, or none, is a usage error that names --naming."""
    done = CliRunner().invoke(cli, ["ledger", "--metadata-service-uri", NOWHERE, *arguments])
    assert 2 == done.exit_code
    assert "--naming" in done.output
