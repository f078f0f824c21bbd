"""A bookie that fails every request, and one that exists under another name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit
from support.real_cluster import RealCluster
from support.secured_cluster import SASL_OF_BOOKIES, jaas_of_bookies

from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.long]

LEDGERS = range(1, 5)
MARKED = 9
"""Marked under-replicated just now, because it lacks its copies on b1; b3 may lack its copies."""


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return an audit without a login: two bookies accept it, and b3, which requires one, refuses
    every request.
    """
    with RealCluster(tmp_path_factory.mktemp("failing"), bookies=3) as cluster:
        for ledger_id in LEDGERS:
            cluster.place(ledger_id, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 9"))
        cluster.place(MARKED, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 9"), lose={"b1": "0-9"})
        cluster.mark(MARKED, ["b1"])
        cluster.restart_bookies(
            SASL_OF_BOOKIES, jaas_of_bookies(tmp_path_factory.mktemp("jaas")), only=["b3"]
        )
        return accounted(audit(cluster, tmp_path_factory.mktemp("audit")))


def test_a_bookie_whose_every_answer_is_an_error_is_found(failing: Outcome) -> None:
    """The finding is a warning, with the status and its count; the bookies that serve their ledgers
    have none.
    """
    found = failing.one("b3")
    assert (Kind.BOOKIE_FAILING_REQUESTS.value, "warning") == (found["kind"], found["severity"])
    facts = found["facts"]
    assert (5, [1, 2, 3, 4, MARKED], [["EUA", 10]]) == (
        facts["ledgers"],
        facts["some_ledgers"],
        facts["statuses"],
    )
    assert [Kind.BOOKIE_FAILING_REQUESTS] == failing.kinds
    assert ["indeterminate: bookie_refused"] * 4 == failing.standings(*LEDGERS)


def test_a_young_mark_does_not_hide_that_a_registered_bookie_refuses(failing: Outcome) -> None:
    """The worst standing wins: within grace the lost copy is excused, but what b3 holds is
    unknown.
    """
    assert ["indeterminate: bookie_refused"] == failing.standings(MARKED)
    assert [] == failing.of(MARKED)


def test_a_bookie_back_under_another_id_is_found_though_its_old_cookie_stays(
    tmp_path: Path,
) -> None:
    """The lowest ledger names the new id too: it cannot testify, and is no counter-witness. The
    command that is proposed makes the others sound.
    """
    with RealCluster(tmp_path / "cluster", bookies=4) as cluster:
        for ledger_id in LEDGERS:
            cluster.place(ledger_id, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"))
        cluster.place(0, cluster.ledger("e3 w2 a2 0:[b1 b4 b3] 5:[b1 b2 b3] closed 29"))
        old, new = cluster.end_bookie("b2"), cluster.end_bookie("b4")
        for folder in ("journal", "ledgers"):
            cookie = (new / folder / "current" / "VERSION").read_bytes()
            shutil.rmtree(new / folder)
            shutil.copytree(old / folder, new / folder)
            (new / folder / "current" / "VERSION").write_bytes(cookie)
        cluster.start_bookie("b4")
        first = accounted(audit(cluster, tmp_path, lost_bookie_wait_max="0s"))
        cluster.shell("updateBookieInLedger", "-srcBookie", "b2", "-destBookie", "b4")
        again = accounted(audit(cluster, tmp_path / "again"))
    (renamed,) = first.summary["bookies_renamed"]
    assert ("b2", "b4") == (renamed["bookie_id"], renamed["renamed_to"])
    assert ["sound"] * 4 == again.standings(*LEDGERS)
