"""What Pulsar's topics reference, on real BookKeeper: a deleted ledger, a truncated one, and one
without a reference.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit
from support.printed_commands import harm_of
from support.real_cluster import RealCluster
from support.topics import closed, put_topic

from auditor.model.finding import Kind
from auditor.model.topic import DataLedger
from auditor.sandbox.stories import with_owner

pytestmark = [pytest.mark.real, pytest.mark.long]

TEXT = "e2 w2 a2 0:[b1 b2] closed 9"
SOUND, CUT, ORPHAN, DELETED, NEWEST = 1, 2, 3, 70, 71
SIXTY_DAYS_MS = 60 * 24 * 3600 * 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield a topic that references a deleted ledger, and that records more entries than another
    ledger has.
    """
    with RealCluster(tmp_path_factory.mktemp("references"), bookies=2) as made:
        for ledger_id in (SOUND, CUT, DELETED):
            made.place(ledger_id, made.ledger(TEXT))
        made.delete_ledger(DELETED)
        long_ago = int(time.time() * 1000) - SIXTY_DAYS_MS
        made.place(ORPHAN, replace(with_owner(made.ledger(TEXT), "bad"), ctime_ms=long_ago))
        put_topic(
            made.set_raw, "public/default/bad", [closed(SOUND), closed(CUT, 12), closed(DELETED)]
        )
        put_topic(made.set_raw, "public/default/newest", [closed(SOUND), DataLedger(NEWEST)])
        yield made


@pytest.fixture(scope="module")
def outcome(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return one run."""
    return accounted(audit(cluster, tmp_path_factory.mktemp("run")))


def test_a_newest_ledger_that_was_deleted_is_found_by_its_topic(outcome: Outcome) -> None:
    """The topic has recorded nothing of it, and has it at both looks."""
    (found,) = (one for one in outcome.findings if one["ledger_id"] == NEWEST)
    assert (Kind.NEWEST_LEDGER_MISSING.value, 1, "persistent://public/default/newest") == (
        found["kind"],
        found["facts"]["topics"],
        found["facts"]["some_uses"][0]["topic"],
    )


def test_a_deleted_ledger_a_truncated_one_and_an_orphan_are_found(outcome: Outcome) -> None:
    """Two looks show each; every listed ledger is still sound."""
    assert [
        Kind.REFERENCED_LEDGER_MISSING,
        Kind.NEWEST_LEDGER_MISSING,
        Kind.LEDGER_TRUNCATED,
        Kind.LEDGER_ORPHANED,
    ] == outcome.kinds
    missing, _, cut, orphaned = outcome.findings
    assert (DELETED, CUT, [ORPHAN]) == (
        missing["ledger_id"],
        cut["ledger_id"],
        orphaned["facts"]["some_ledgers"],
    )
    assert ["sound", "sound", "sound"] == outcome.standings(SOUND, CUT, ORPHAN)


def test_what_they_say_to_save_and_to_look_at_changes_nothing(
    cluster: RealCluster, outcome: Outcome, tmp_path: Path
) -> None:
    """Not a znode and not a ledger differs after any of the commands."""
    assert [] == harm_of(cluster, outcome.findings, tmp_path, 100)
