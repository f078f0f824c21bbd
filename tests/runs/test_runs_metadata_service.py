"""The metadata service is gone, restarted, unreadable or empty: there is no unfounded verdict, and
earlier results are unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from support.audits import Outcome, accounted, audit
from support.zookeeper_znodes import Znodes, znodes

from auditor.errors import ConfigError
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import place
from auditor.java import find_java
from auditor.model.finding import Kind
from auditor.run.pipeline import Audit
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.zookeeper_server import zookeeper_jars
from auditor.wire import znode_paths

IMPATIENT = {
    "zookeeper_session_timeout": "1s",
    "zookeeper_connect_timeout": "1s",
    "zookeeper_retries": "1",
    "zookeeper_retry_wait": "100ms",
}
SOUND = "e2 w2 a2 0:[b1 b2] closed 9"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SandboxCluster]:
    """Yield two bookies; ledger 1 is sound, ledger 2 lacks an entry on b2."""
    with SandboxCluster(tmp_path / "cluster", 2) as cluster:
        cluster.place(1, cluster.ledger(SOUND))
        cluster.place(2, cluster.ledger(SOUND), {"b2": "4"})
        yield cluster


@pytest.fixture
def client(cluster: SandboxCluster) -> Iterator[Znodes]:
    with znodes(cluster.zookeeper_hosts) as client:
        yield client


def restart(cluster: SandboxCluster) -> None:
    """Kill ZooKeeper and start it again on the same port with the same data."""
    server = cluster._zookeeper
    port = server._port
    assert server._process is not None and port is not None
    server._process.kill()
    server._process.wait(10)
    server._process = server._launch(find_java(), os.pathsep.join(map(str, zookeeper_jars())), port)
    assert server._wait_until_serving(server._process, port)


def published(output: Path) -> dict[str, bytes]:
    """Return what people and programs use: every file of finished runs, latest.json, the
    metrics.
    """
    finished = [one for one in output.glob("run-*") if (one / "summary.json").exists()]
    files = [path for run in finished for path in run.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in (*files, output / "latest.json")}


def outcome_and_rest(metrics: str) -> tuple[set[str], set[str]]:
    """Return the lines on outcome and time of the last run, and all others."""
    moving = ("last_run_outcome{", "last_run_timestamp_seconds{")
    lines = {line for line in metrics.splitlines() if line and not line.startswith("#")}
    moved = {line for line in lines if any(word in line for word in moving)}
    return moved, lines - moved


def says_unreachable(outcome: Outcome, *words: str) -> None:
    assert 5 == outcome.exit_code, outcome.stdout
    assert outcome.last_line.startswith("auditor: UNREACHABLE run="), outcome.stdout
    said = " ".join(outcome.stdout.split())
    assert [] == [word for word in words if word not in said], said
    assert {} == outcome.summary


def test_zookeeper_gone_at_the_second_look_leaves_everything_as_it_was(
    cluster: SandboxCluster, tmp_path: Path
):
    """Exit 5, no verdict; earlier results and metrics stay, except for the outcome and its time."""
    metrics = tmp_path / "auditor.prom"
    first = audit(cluster, tmp_path, metrics_textfile=str(metrics))
    assert 1 == first.exit_code
    before, metrics_before = published(tmp_path / "audits"), outcome_and_rest(metrics.read_text())
    stop = lambda pause: cluster._zookeeper.stop()  # noqa: E731
    second = audit(cluster, tmp_path, between=stop, metrics_textfile=str(metrics), **IMPATIENT)
    says_unreachable(second, "ZooKeeper at 127.0.0.1")
    assert before == published(tmp_path / "audits")
    metrics_after = outcome_and_rest(metrics.read_text())
    assert metrics_before[1] == metrics_after[1]
    assert any(
        'outcome="UNREACHABLE"' in line and line.endswith(" 1.0") for line in metrics_after[0]
    ), metrics_after


def test_zookeeper_gone_while_bookies_are_asked_does_not_matter_to_the_sound(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Nothing is read there any more, so every verdict rests on written evidence."""
    cluster.hold("b2", 2, "0-9")
    ask, stops = Audit._ask_lists, []

    def stopping(self: Audit, *arguments: Any) -> None:
        stops.append(cluster._zookeeper.stop())
        ask(self, *arguments)

    monkeypatch.setattr(Audit, "_ask_lists", stopping)
    outcome = audit(cluster, tmp_path, zookeeper_retries="1")
    assert 1 == len(stops)
    assert (0, ["sound", "sound"]) == (outcome.exit_code, outcome.standings(1, 2))


def test_zookeeper_gone_before_the_metadata_is_read_is_no_verdict(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The ids are listed, and nothing else is known: the service is unreachable, and the auditor is
    not at fault.
    """
    read = Audit.read_metadata

    def stopping(self: Audit, *arguments: Any) -> Any:
        cluster._zookeeper.stop()
        return read(self, *arguments)

    monkeypatch.setattr(Audit, "read_metadata", stopping)
    says_unreachable(audit(cluster, tmp_path, **IMPATIENT))


def test_zookeeper_restarted_between_the_looks_is_not_noticed(
    cluster: SandboxCluster, tmp_path: Path
):
    """A new session is opened, and the verdicts are those of an undisturbed run."""
    outcome = audit(
        cluster, tmp_path, between=lambda pause: restart(cluster) if pause == 1 else None
    )
    assert ["sound", "violated"] == outcome.standings(1, 2)
    assert [Kind.ENTRY_BELOW_ACK_QUORUM] == outcome.kinds


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda client, root: client.delete(f"{root}/LAYOUT"),
            ("no BookKeeper cluster at", "/ledgers/LAYOUT", "Check the path"),
        ),
        (
            lambda client, root: client.put(f"{root}/LAYOUT", b"2\nsome.other.Factory:1"),
            ("layout", "not understood"),
        ),
        (
            lambda client, root: client.put(f"{root}/LAYOUT", b"", shut=True),
            ("LAYOUT", "may not be read by this session"),
        ),
        (
            lambda client, root: client.put(f"{root}/available", b"", shut=True),
            ("available", "may not be read by this session"),
        ),
        (
            lambda client, root: client.put(f"{root}/00", b"", shut=True),
            ("/ledgers/00", "may not be read by this session"),
        ),
    ],
    ids=["no LAYOUT", "unknown LAYOUT", "LAYOUT shut", "bookies shut", "ledgers shut"],
)
def test_a_cluster_that_cannot_be_read_is_exit_5(
    cluster: SandboxCluster,
    client: Znodes,
    tmp_path: Path,
    spoil: Callable[[Znodes, str], None],
    words: tuple[str, ...],
):
    """The missing znode is named by its path, and there is no verdict: missing ledgers would not be
    noticed.
    """
    spoil(client, cluster.root)
    says_unreachable(audit(cluster, tmp_path), *words)
    assert not (tmp_path / "audits" / "latest.json").exists()


def test_marks_that_may_not_be_listed_are_read_one_by_one(
    cluster: SandboxCluster, client: Znodes, tmp_path: Path
):
    """A ledger that no list names may be marked: its own mark is read, and an unreadable one is
    unknown.
    """
    for ledger_id in (3, 4, 5):
        cluster.place(ledger_id, cluster.ledger(SOUND))
    cluster.mark(3, ["b2"], ctime_ms=1)
    cluster.mark(4, ["b2"])
    client.put(cluster._seeder.mark_path(4), b"", shut=True)
    client.put(f"{cluster.root}/underreplication/ledgers", b"", shut=True)
    outcome = audit(cluster, tmp_path)
    assert [
        "sound",
        "violated",
        "indeterminate: metadata_unreadable",
        "sound",
    ] == outcome.standings(1, 3, 4, 5)
    assert [Kind.UNDERREPLICATED_BEYOND_GRACE] == [Kind(found["kind"]) for found in outcome.of(3)]


def test_who_replicates_a_marked_ledger_is_evidence_at_every_look(
    cluster: SandboxCluster, client: Znodes, tmp_path: Path
):
    """It is listed at the first look and read with the mark at the others: the same worker since
    the same time; the replay agrees.
    """
    cluster.place(3, cluster.ledger(SOUND))
    cluster.mark(3, ["b2"], ctime_ms=1)
    cluster.lock(3, "worker-1.example")
    since_ms = client.ctime_ms(cluster.root + znode_paths.lock_path(3))
    outcome = accounted(audit(cluster, tmp_path, underreplication_grace="1ms"))
    assert outcome.run_dir is not None
    rows = ds.dataset(outcome.run_dir / "evidence" / "ledgers", format="parquet").to_table(
        filter=ds.field("ledger_id") == 3
    )
    looks = {row["look"]: row["mark"]["lock"] for row in rows.to_pylist()}
    assert {"holder": "worker-1.example", "since_ms": since_ms} == looks[1] == looks[2]


def test_locks_that_may_not_be_listed_hinder_nothing_and_are_reported(
    cluster: SandboxCluster, client: Znodes, tmp_path: Path
):
    """The worker is only an explanation: everything is judged, with a warning that names the
    znode.
    """
    cluster.place(3, cluster.ledger(SOUND))
    cluster.mark(3, ["b2"], ctime_ms=1)
    client.put(f"{cluster.root}/underreplication/locks", b"", shut=True)
    outcome = audit(cluster, tmp_path)
    assert ["sound", "violated"] == outcome.standings(1, 3)
    problems = [str(event.get("problem")) for event in outcome.events]
    assert any("/underreplication/locks may not be read" in problem for problem in problems)


def test_an_empty_cluster_is_no_sound_one_unless_that_is_said(tmp_path: Path):
    """Exit 3, or 0 with --allow-empty: a wrong root lists no ledger either."""
    with SandboxCluster(tmp_path / "cluster", 1) as cluster:
        doubted = audit(cluster, tmp_path)
        assert (3, "INCOMPLETE", 0) == (
            doubted.exit_code,
            doubted.summary["outcome"],
            doubted.summary["ledgers"]["listed"],
        )
        accepted = audit(cluster, tmp_path, allow_empty="true")
        assert (0, "SOUND", 0) == (
            accepted.exit_code,
            accepted.summary["outcome"],
            accepted.summary["ledgers"]["listed"],
        )


def test_without_any_bookie_what_metadata_says_is_said(tmp_path: Path):
    """No bookie is registered, and none is named: a ledger that cannot be decoded is still
    found.
    """
    with SandboxCluster(tmp_path / "cluster", bookies=1) as cluster:
        cluster.set_raw(7, b"nonsense")
        cluster.lose_bookie("b1")
        outcome = accounted(audit(cluster, tmp_path))
    assert ([Kind.METADATA_MALFORMED], 1) == (outcome.kinds, outcome.exit_code)


def test_a_second_run_on_one_output_is_noticed(cluster: SandboxCluster, tmp_path: Path):
    """It ends before anything is contacted, with a sentence that names the lock."""
    output = Output(place(str(tmp_path / "audits")))
    with (
        output.hold_lock(),
        pytest.raises(
            ConfigError, match=r"another run is at work in .*audits .*\.lock.*wait for it"
        ),
    ):
        audit(cluster, tmp_path)
    assert [] == list((tmp_path / "audits").glob("run-*"))


@pytest.mark.parametrize("reason", ["bookie_refused", "bookie_silent"])
def test_bookies_that_all_refuse_or_are_silent_are_no_finding(
    cluster: SandboxCluster, tmp_path: Path, reason: str
):
    """Exit 3, and the report says whose fault it probably is: this host's or its network's."""
    for bookie in ("b1", "b2"):
        if reason == "bookie_refused":
            cluster.bookie(bookie).behaviour.refuses = True
        else:
            cluster.stop_bookie(bookie)
    outcome = audit(cluster, tmp_path)
    assert (3, "INCOMPLETE", [], [f"indeterminate: {reason}"] * 2) == (
        outcome.exit_code,
        outcome.summary["outcome"],
        outcome.findings,
        outcome.standings(1, 2),
    )
    assert "no bookie answered this host" in " ".join(outcome.stdout.split()).lower()


def test_named_ledgers_alone_are_listed(cluster: SandboxCluster, tmp_path: Path):
    """--ledgers-from reads those and no others, each once; an unknown id is deleted, not
    forgotten.
    """
    outcome = audit(cluster, tmp_path, ledger_ids=[1, 77, 1])
    assert ["sound", "exempt: deleted"] == outcome.standings(1, 77)
    assert {
        "listed": 2,
        "sound": 1,
        "exempt": 1,
        "indeterminate": 0,
        "violated": 0,
    } == outcome.summary["ledgers"]
