"""Looks at marks of ledgers that were not listed, against a real ZooKeeper: no change between the
looks causes a finding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auditor.clock import now_ms
from auditor.config import ZooKeeperLimits
from auditor.errors import StoreUnavailable
from auditor.evidence.rows import table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LISTING, MARKS
from auditor.findings.on_cluster import MARKS_AT, SeenMarks, seen_marks
from auditor.first_checker.underreplication import confirmed_marks
from auditor.model.evidence import Terms
from auditor.run import closing_looks
from auditor.run.closing_looks import MarkLooks
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire.service_uri import parse
from auditor.zookeeper.metadata_store import MetadataStore, open_store

GRACE_MS = 3_600_000
DELAY_MS = 60_000
OLD_MS = int(time.time() * 1000) - 10 * GRACE_MS
EMPTY = "e1 w1 a1 0:[b1] closed -1"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SandboxCluster]:
    with SandboxCluster(tmp_path / "cluster", bookies=1, named=True) as made:
        yield made


class Scene:
    """One run's looks at marks: `first()`, then `again()`, and what they saw."""

    def __init__(
        self, cluster: SandboxCluster, store: MetadataStore, run: Place, listed: list[int]
    ) -> None:
        run.write_table(
            "evidence/listing", table(LISTING, [(ledger_id,) for ledger_id in listed]), "all"
        )
        self.cluster, self.store, self.run = cluster, store, run
        self.looks = MarkLooks(store, run, Terms(now_ms(), GRACE_MS, 16, 5))
        self.waits_s: list[float] = []

    def first(self) -> None:
        self.looks.record_first(self.store.marks())

    def again(self, meanwhile: Callable[[], object] = lambda: None) -> str | None:
        def wait(seconds: float) -> None:
            self.waits_s.append(seconds)
            meanwhile()

        return self.looks.look_again(DELAY_MS, wait)

    def seen(self) -> SeenMarks:
        return seen_marks(self.run.read_table(MARKS_AT, MARKS))

    def accused(self) -> list[int]:
        terms = self.looks.terms
        return [
            one.ledger_id
            for one in confirmed_marks(self.seen().marks, terms.judged_at_ms, GRACE_MS)
        ]


@pytest.fixture
def scene(cluster: SandboxCluster, tmp_path: Path) -> Iterator[Scene]:
    """Yield a scene: ledger 1 is listed and marked. 2, 3, 4 have old marks and no metadata; 5 has
    a new one.
    """
    cluster.add_ledger(1, cluster.ledger(EMPTY))
    for ledger_id in (1, 2, 3, 4):
        cluster.mark(ledger_id, ["b1"], OLD_MS)
    cluster.mark(5, ["b1"], now_ms())
    with open_store(parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        yield Scene(cluster, store, place(str(tmp_path / "run")), [1])


def test_marks_without_metadata_at_two_looks_are_seen_as_such(scene: Scene) -> None:
    """The listed one is not among them, the young one is seen once; the second look comes after the
    delay.
    """
    scene.first()
    assert scene.again() is None
    assert [2, 3, 4] == scene.accused()
    assert {2: True, 3: True, 4: True, 5: False} == {
        one.ledger_id: one.again is not None for one in scene.seen().marks
    }
    (waited,) = scene.waits_s
    assert DELAY_MS / 1000 - 30 < waited <= DELAY_MS / 1000


def test_what_changes_between_the_looks_accuses_nobody(scene: Scene) -> None:
    """A ledger was created meanwhile, and a mark was removed."""

    def meanwhile() -> None:
        scene.cluster.add_ledger(2, scene.cluster.ledger(EMPTY))
        scene.cluster.unmark(3)

    scene.first()
    scene.again(meanwhile)
    assert [4] == scene.accused()


def test_a_ledger_created_after_the_listing_is_not_accused(scene: Scene) -> None:
    """It is marked and was not listed, but its znode exists when it is read by itself."""
    scene.cluster.add_ledger(2, scene.cluster.ledger(EMPTY))
    scene.first()
    scene.again()
    assert [3, 4] == scene.accused()
    assert [True] == [one.first.has_metadata for one in scene.seen().marks if one.ledger_id == 2]


def test_a_ledger_whose_metadata_cannot_be_decoded_has_metadata(scene: Scene) -> None:
    """The znode exists; its contents are the subject of another finding."""
    scene.cluster.set_raw(2, b"no metadata at all")
    scene.first()
    scene.again()
    assert [3, 4] == scene.accused()


def test_no_more_than_so_many_are_looked_at(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are looked at; the others keep the state in which they were listed, and can be
    counted.
    """
    monkeypatch.setattr(closing_looks, "MARKS_LOOKED_AT_MAX", 2)
    scene.first()
    scene.again()
    seen = scene.seen()
    assert ([2, 3], [4, 5]) == (scene.accused(), [one.ledger_id for one in seen.unchecked])
    assert 4 == len(seen.as_unlisted(now_ms()))


def test_a_run_of_a_part_looks_at_none(scene: Scene) -> None:
    """It listed only the named ledgers, so an unlisted mark means nothing."""
    scene.looks.is_partial = True
    scene.first()
    assert scene.again() is None
    assert not scene.run.has_table(MARKS_AT)


def test_marks_that_could_not_all_be_listed_are_said_to_be_so(scene: Scene) -> None:
    """What was listed is still looked at."""
    marks = scene.store.marks()
    marks.problem = "the marks are not all known: znode /x may not be read"
    scene.looks.record_first(marks)
    scene.again()
    assert (marks.problem, [2, 3, 4]) == (scene.seen().problem, scene.accused())


def test_where_zookeeper_is_gone_at_the_second_look_nothing_is_accused(scene: Scene) -> None:
    """There is a sentence, and the run continues."""
    scene.first()
    scene.store.close()
    scene.looks.store = Gone()  # type: ignore[assignment]
    assert "could not be looked at again: gone" in (scene.again() or "")
    assert [] == scene.accused()


class Gone:
    """A store that has lost its ZooKeeper."""

    def sync(self) -> None:
        raise StoreUnavailable("gone")
