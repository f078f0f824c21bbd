"""Real bookies that fail every request, and one that is there under another name with the folders of one that is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.spark]

LEDGERS = range(1, 5)


@pytest.fixture(scope="module")
def failing(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The index of each ledger on b2 is damaged, so that it answers EIO; on b3 that of one ledger."""
    with RealCluster(tmp_path_factory.mktemp("failing"), bookies=3) as cluster:
        for ledger_id in LEDGERS:
            cluster.place(ledger_id, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 9"))
        for bookie, damaged in (("b2", len(LEDGERS)), ("b3", 1)):
            directory = cluster.end_bookie(bookie)
            for index in _indexes(directory)[:damaged]:
                index.write_bytes(b"\0" * 8 + index.read_bytes()[8:])
            cluster.start_bookie(bookie)
        return accounted(audit(cluster, tmp_path_factory.mktemp("audit")))


def _indexes(directory: Path) -> list[Path]:
    found = sorted((directory / "ledgers").rglob("*.idx"))
    assert len(LEDGERS) == len(found), found
    return found


def test_a_bookie_whose_every_answer_is_an_error_is_found(failing: Outcome) -> None:
    """A warning, with the status and how often it came; the other, which serves three of four ledgers, is not."""
    found = failing.one("b2")
    assert (Kind.BOOKIE_FAILING_REQUESTS.value, "warning") == (found["kind"], found["severity"])
    facts = found["facts"]
    assert (4, [1, 2, 3, 4], [["EIO", 8]]) == (facts["ledgers"], facts["some_ledgers"], facts["statuses"])
    assert [Kind.BOOKIE_FAILING_REQUESTS] == failing.kinds
    assert ["indeterminate: bookie_refused"] * 4 == failing.standings(*LEDGERS)


def test_a_bookie_with_the_folders_of_one_that_is_gone_is_its_new_name(spark: object, tmp_path: Path) -> None:
    """b2's folders lie in b4's place, whose cookie and id are its own; the ledgers still name b2."""
    with RealCluster(tmp_path / "cluster", bookies=4) as cluster:
        for ledger_id in LEDGERS:
            cluster.place(ledger_id, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"))
        old, new = cluster.end_bookie("b2"), cluster.end_bookie("b4")
        for folder in ("journal", "ledgers"):
            cookie = (new / folder / "current" / "VERSION").read_bytes()
            shutil.rmtree(new / folder)
            shutil.copytree(old / folder, new / folder)
            (new / folder / "current" / "VERSION").write_bytes(cookie)
        cluster.delete_cookie("b2")
        cluster.start_bookie("b4")
        outcome = accounted(audit(cluster, tmp_path))
    assert [{"bookie_id": "b2", "renamed_to": "b4", "ledgers": [1, 2, 3]}] == outcome.summary["bookies_renamed"]
    assert "b4" == outcome.one("b2")["facts"]["renamed_to"]
    assert [Kind.ENTRY_BELOW_ACK_QUORUM.value] * 4 == [one["kind"] for ledger in LEDGERS for one in outcome.of(ledger)]
