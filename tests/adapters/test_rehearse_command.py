"""`auditor rehearse` on a cluster whose ZooKeeper was copied before ledgers were written, deleted,
closed and moved.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.command_line import at, cluster_with_a_loss, command_here, environment_of

from auditor.java import find_java
from auditor.recovery.zookeeper_data import serve_copy
from auditor.sandbox.cluster import SandboxCluster
from auditor.stop import Interrupted

KEPT, DELETED, LOST, CLOSED_SINCE, MOVED, WRITTEN = 1, 2, 3, 4, 5, 50
FATES = {"gone": WRITTEN, "open_again": CLOSED_SINCE, "moved": MOVED}


class Night(NamedTuple):
    """The living cluster, and the copy of its ZooKeeper's data from before."""

    cluster: SandboxCluster
    backup: Path


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """Yield a cluster in which each fate has happened to one ledger since its backup.

    Ledgers 2 and 3 were deleted; bookies still hold 2, and deleted the entries of 3.
    """
    home = tmp_path_factory.mktemp("rehearse")
    java = find_java()  # a server of its own: its files are copied
    with SandboxCluster(home / "cluster", 3, java=java) as cluster:
        closed, is_open = "e2 w2 0:[b1 b2] closed 9", "e2 w2 0:[b1 b2] open"
        for ledger_id in (KEPT, DELETED, LOST, MOVED):
            cluster.place(ledger_id, cluster.ledger(closed))
        cluster.place(CLOSED_SINCE, cluster.ledger(is_open), written=9)
        shutil.copytree(home / "cluster" / "zookeeper" / "data", home / "backup")
        cluster.place(WRITTEN, cluster.ledger(closed))
        for ledger_id in (DELETED, LOST):
            cluster.delete_ledger(ledger_id)
        for bookie in ("b1", "b2"):
            cluster.hold(bookie, LOST, "")
        cluster.place(CLOSED_SINCE, cluster.ledger(closed))
        cluster.place(MOVED, cluster.ledger("e2 w2 0:[b1 b3] closed 9"))
        yield Night(cluster, home / "backup")


def state_of(directory: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def rehearse(night: Night, *arguments: str) -> Any:
    done = command_here("rehearse", *at(night.cluster), *arguments, "--format", "json")
    assert 1 == done.returncode, done.stderr
    return json.loads(done.stdout)


def test_a_copy_of_the_data_directory_tells_each_fate(night: Night, tmp_path: Path) -> None:
    """The directory is only read: a read-only copy has the same bytes and times afterwards."""
    before = state_of(night.backup)
    for path in (night.backup, *night.backup.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    found = rehearse(night, "--zookeeper-data", str(night.backup), "--ids", str(tmp_path / "ids"))
    assert before == state_of(night.backup)
    assert {"same": 1, "gone": 1, "cut_short": 0, "open_again": 1, "back": 2, "moved": 1} == {
        fate: found["fates"][fate]["ledgers"]
        for fate in ("same", "gone", "cut_short", "open_again", "back", "moved")
    }
    ids = {path.stem: path.read_text().split() for path in (tmp_path / "ids").iterdir()}
    assert {name: [str(one)] for name, one in FATES.items()} | {
        "back": [str(DELETED), str(LOST)],
        "violated": [str(LOST)],
    } == ids
    assert {"back": {"sound": 1, "violated": 1}, "moved": {"sound": 1}} == found["audited"]
    b1, b2, b3 = night.cluster.bookie_ids
    collected = {
        name: (row["next_collection"]["ledgers"], row["over_replicated"]["ledgers"])
        for name, row in found["bookies"].items()
    }
    assert {b1: (1, 0), b2: (1, 0), b3: (0, 1)} == collected
    assert 1 == found["ids_given_again"]
    assert any("up to transaction 0x" in note for note in found["notes"])


def test_the_screen_says_what_to_do_first(night: Night) -> None:
    """One screen: fates, audited ledgers, deletions, and a last line for machines."""
    done = command_here(
        "rehearse", *at(night.cluster), "--zookeeper-data", str(night.backup / "version-2")
    )
    assert 1 == done.returncode, done.stderr
    assert "A restore would change 5 ledgers; 1 would stay as they are." in done.stdout
    assert "stop them or switch their collection off" in " ".join(done.stdout.split())
    assert f"without the promised copies on the bookies: ledgers {LOST}" in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "auditor: REHEARSAL exit=1 gone=1 cut_short=0 open_again=1 back=2 moved=1 different=0"
        " unread=0"
    )
    assert len(done.stdout.splitlines()) < 40


def test_a_served_copy_can_be_audited_and_rehearsed(night: Night) -> None:
    """Its bookies are registered: other commands audit it, and it is a --restored-uri."""
    line = [sys.executable, "-m", "auditor", "rehearse", *at(night.cluster), "--serve"]
    with subprocess.Popen(
        [*line, "--zookeeper-data", str(night.backup)],
        env=environment_of(), stdout=subprocess.PIPE, text=True,
    ) as served:  # fmt: skip
        try:
            assert served.stdout is not None
            first = served.stdout.readline()
            uri = first.split()[-1]
            shown = "".join(served.stdout.readline() for _ in range(4))
            assert "3 bookies of it registered there" in shown, first + shown
            living = ["--second-look-delay", "0s", "--format", "json"]
            done = command_here(
                "ledger", str(DELETED), str(LOST), "--metadata-service-uri", uri, *living
            )
            standings = {
                one["ledger_id"]: one["standing"] for one in json.loads(done.stdout)["ledgers"]
            }
            assert {DELETED: "sound", LOST: "violated"} == standings
            assert 2 == rehearse(night, "--restored-uri", uri)["fates"]["back"]["ledgers"]
        finally:
            served.send_signal(signal.SIGTERM)
        assert 0 == served.wait(60)


def test_a_signal_ends_the_load_and_its_server(night: Night, tmp_path: Path) -> None:
    """Ten million znodes take minutes to load."""
    calls = iter(range(4))

    def check() -> None:
        if next(calls, None) is None:
            raise Interrupted(signal.SIGTERM)

    with pytest.raises(Interrupted), serve_copy([night.backup], tmp_path, check):
        pytest.fail("the server was not waited for")
    assert 1 == subprocess.run(["pgrep", "-f", str(tmp_path)], check=False).returncode


def test_metadata_of_another_cluster_is_refused(night: Night, tmp_path: Path) -> None:
    """Every ledger would seem to be gone. The living cluster itself is no restored one either."""
    with cluster_with_a_loss(tmp_path) as other:
        done = command_here(
            "rehearse", *at(night.cluster), "--restored-uri", other.metadata_service_uri
        )
    assert 2 == done.returncode and other.instance_id in done.stderr
    done = command_here(
        "rehearse", *at(night.cluster), "--restored-uri", night.cluster.metadata_service_uri
    )
    assert 2 == done.returncode and "the living cluster itself" in done.stderr


def test_a_damaged_snapshot_is_refused_with_advice(night: Night, tmp_path: Path) -> None:
    """A snapshot that is cut in the middle loads no database, and no older one is beside it."""
    (whole,) = (night.backup / "version-2").glob("snapshot.*")
    for zxid, says in (("0", "there is no znode /ledgers/LAYOUT"), ("5", "cannot load snapshot.5")):
        cut = tmp_path / f"snapshot.{zxid}"
        cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
        done = command_here("rehearse", *at(night.cluster), "--zookeeper-data", str(cut))
        assert 2 == done.returncode, done.stdout
        assert says in done.stderr and "--restored-uri" in done.stderr
