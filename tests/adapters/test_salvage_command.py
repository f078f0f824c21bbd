"""`auditor salvage` on a cluster with listers: what indexes hold and no metadata names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.command_line import Done, command_here
from support.listers import INSTANCE, SandboxListers, lister_in_process, listers_of_sandbox

from auditor.bookie.indexed_ledgers import indexed_ledgers, indexed_ledgers_or_why
from auditor.config import BookieLimits
from auditor.sandbox.bookie import Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire import ledger_metadata
from auditor.wire.lister_fields import ListerIdentity

STRIPED, SHORT, COPIED, KEPT, DELETED = 11, 12, 13, 14, 15
NOTATIONS = {
    STRIPED: "e3 w2 0:[b1 b2 b3] closed 99",
    SHORT: "e3 w2 0:[b1 b2 b3] closed 1",
    COPIED: "e2 w2 0:[b3 b1] closed 9",
    KEPT: "e2 w2 0:[b1 b2] closed 9",
    DELETED: "e2 w2 0:[b1 b2] closed 9",
}


class Story(NamedTuple):
    """A cluster that lost the znodes of three ledgers after a run."""

    cluster: SandboxCluster
    listers: SandboxListers
    output: Path


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Yield the cluster, its listers and the output of the run. Bookies collected DELETED."""
    home = tmp_path_factory.mktemp("salvage")
    with (
        SandboxCluster(home / "cluster", 3, named=True, storage=Storage.DB) as cluster,
        listers_of_sandbox(cluster, home) as listers,
    ):
        for ledger_id, text in NOTATIONS.items():
            cluster.place(ledger_id, cluster.ledger(text))
            if ledger_id != DELETED:
                listers.place(ledger_id, cluster.ledger(text))
        story = Story(cluster, listers, home / "out")
        done = at(story, "run")
        assert done.returncode in (0, 1), done.stderr
        for bookie in ("b1", "b2"):
            cluster.bookie(bookie).forget(DELETED)
        for ledger_id in (STRIPED, SHORT, COPIED, DELETED):
            cluster.delete_ledger(ledger_id)
        yield story


def at(story: Story, name: str, *more: str, output: Path | None = None) -> Done:
    return command_here(
        name, "--metadata-service-uri", story.cluster.metadata_service_uri,
        "--lister-map", str(story.listers.map), "--second-look-delay", "0s",
        "--rpc-timeout", "2s", "--output", str(output or story.output), *more,
    )  # fmt: skip


def salvage(story: Story, *more: str, output: Path | None = None) -> Any:
    done = at(story, "salvage", "--format", "json", *more, output=output)
    assert 1 == done.returncode, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_entries_alone_show_the_metadata_of_long_ledgers(story: Story, tmp_path: Path) -> None:
    """The newest ledger is first. One that is too short is not guessed at."""
    found = salvage(story, "--into", str(tmp_path / "into"), output=tmp_path / "none")
    rows = {row["ledger_id"]: row for row in found["ledgers"]}
    assert [COPIED, SHORT, STRIPED] == list(rows)
    assert ("entries", 99) == (
        rows[STRIPED]["proposal"]["source"],
        rows[STRIPED]["proposal"]["last_entry_id"],
    )
    assert "too short" in rows[SHORT]["why_no_proposal"] and rows[SHORT]["proposal"] is None
    assert {"salvage.jsonl", f"{STRIPED}.metadata", f"{COPIED}.metadata"} == {
        path.name for path in (tmp_path / "into").iterdir()
    }
    proposal = ledger_metadata.decode((tmp_path / "into" / f"{STRIPED}.metadata").read_bytes())
    wanted = story.cluster.ledger(NOTATIONS[STRIPED])
    assert (wanted.segments, wanted.length) == (proposal.segments, proposal.length)
    assert ({}, None) == (found["bookies_not_known"], found["run_id"])


def test_a_run_has_the_exact_metadata(story: Story, tmp_path: Path) -> None:
    """It is used first. A ledger that bookies have collected is counted, and not proposed."""
    (tmp_path / "into").mkdir(mode=0o755)
    found = salvage(story, "--into", str(tmp_path / "into"))
    assert {"run"} == {row["proposal"]["source"] for row in found["ledgers"]}
    assert (3, 1) == (len(found["ledgers"]), found["collected"])
    for ledger_id in (STRIPED, SHORT, COPIED):
        file = tmp_path / "into" / f"{ledger_id}.metadata"
        assert 0o600 == file.stat().st_mode & 0o777
        data = file.read_bytes()
        assert story.cluster.ledger(NOTATIONS[ledger_id]) == ledger_metadata.decode(data)


def test_a_bookie_that_is_down_may_hold_more(story: Story, tmp_path: Path) -> None:
    """Its cookie says that it exists. It is named, and ledgers it may hold are not closed early."""
    story.cluster.unregister("b2")
    try:
        found = salvage(story, output=tmp_path)
    finally:
        story.cluster.register("b2")
    assert {"b2": "it is not registered"} == found["bookies_not_known"]
    rows = {row["ledger_id"]: row for row in found["ledgers"]}
    assert ["b2"] == rows[COPIED]["not_heard"] and rows[COPIED]["proposal"] is not None


def test_the_screen_shows_the_command_and_what_may_delete_them(
    story: Story, tmp_path: Path
) -> None:
    """At most --max ledgers are examined; the others are counted."""
    done = at(story, "salvage", "--into", str(tmp_path / "into"), "--max", "2")
    assert 1 == done.returncode, done.stderr
    assert f"--ledgerid {DELETED - 2} --restorefromfile" in done.stdout
    assert "deletes these ledgers at its next collection" in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "auditor: SALVAGE exit=1 ledgers=3 examined=1 proposed=1"
    )


def test_without_listers_and_runs_nothing_can_be_known(story: Story, tmp_path: Path) -> None:
    """It is an error of the call, and says what to give."""
    done = command_here(
        "salvage", "--metadata-service-uri", story.cluster.metadata_service_uri,
        "--output", str(tmp_path),
    )  # fmt: skip
    assert 2 == done.returncode and "--lister-map" in done.stderr


def test_a_lister_names_all_its_ledgers(tmp_path: Path) -> None:
    """Also those of one entry, and the highest possible id. Another bookie's lister is refused."""
    ids = [0, 5, 6, 7, 300, 2**40, 2**63 - 1]
    with lister_in_process(tmp_path) as lister:
        for ledger_id in ids:
            lister.hold(ledger_id, (3, 4))
        address = lister.host, lister.port
        ours = ListerIdentity("b1", INSTANCE)
        assert ids == list(asyncio.run(indexed_ledgers(ours, address, BookieLimits())))
        other = ListerIdentity("b2", INSTANCE)
        why = asyncio.run(indexed_ledgers_or_why(other, address, BookieLimits()))
        assert "it is the lister of bookie b1" == why
        current = lister.index.locations / "CURRENT"
        moved = current.rename(tmp_path / "CURRENT")
        why = asyncio.run(indexed_ledgers_or_why(ours, address, BookieLimits()))
        assert isinstance(why, str) and "its lister is in doubt" in why
        moved.rename(current)
