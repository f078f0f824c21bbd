"""Single ledgers without Spark: a bookie is asked once a look for the list of a ledger, and every
ledger is settled.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from support.audits import Pauses, audit_ledgers

from auditor.clock import now_ms
from auditor.config import Layers, ZooKeeperLimits, parse
from auditor.context import Context
from auditor.model.availability import Answer, AnswerStatus
from auditor.model.evidence import Terms
from auditor.run.single_ledgers import Asker
from auditor.run.single_ledgers import audit_ledgers as audit_without_spark
from auditor.sandbox.bookie import LedgerFault, Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.stop import Interrupted
from auditor.telemetry.progress import Silent
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store

SOUND, LACKING, OPEN, MARKED, SLOW, UNLISTABLE, GONE_BOOKIE, NO_ADDRESS, HMAC = range(1, 10)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a cluster: b4 cannot list, b5 has an unreadable registration."""
    storages = [Storage.DB if n == 4 else Storage.SORTED for n in range(1, 6)]
    with SandboxCluster(tmp_path_factory.mktemp("single"), 5, storage=storages) as cluster:
        two = "e2 w2 a2 0:[b1 b2] closed 9"
        cluster.place(SOUND, cluster.ledger(two))
        cluster.place(LACKING, cluster.ledger(two), {"b2": "4"})
        cluster.place(OPEN, cluster.ledger("e2 w2 a2 0:[b1 b2] open"))
        cluster.place(MARKED, cluster.ledger(two), {"b2": "4"})
        cluster.mark(MARKED, ["b2"])
        cluster.place(SLOW, cluster.ledger(two))
        cluster.fault("b1", SLOW, LedgerFault.NEVER_ANSWERED)
        cluster.place(UNLISTABLE, cluster.ledger("e2 w2 a2 0:[b1 b4] closed 9"))
        cluster.place(GONE_BOOKIE, cluster.ledger("e2 w2 a2 0:[b1 nobody:3181] closed 9"))
        cluster.place(NO_ADDRESS, cluster.ledger("e2 w2 a2 0:[b1 b5] closed 9"))
        cluster.register("b5", b"\xff")
        cluster.place(
            HMAC,
            cluster.ledger("e2 w2 a1 0:[b1 b2] closed 9 hmac"),
            {"b2": "3"},
            password=b"kennwort",
        )
        yield cluster


@pytest.fixture(autouse=True)
def forget_requests(cluster: SandboxCluster) -> None:
    """Forget the requests and connections of earlier tests."""
    for bookie in cluster.bookie_ids:
        cluster.bookie(bookie).asked.clear()
        cluster.listener(bookie).connections_made = cluster.listener(
            bookie
        ).connections_open_max = 0


def test_each_ledger_gets_its_verdict_in_the_order_asked_for(cluster: SandboxCluster):
    """Ledgers with every kind of answer are audited together, and none changes the verdict on
    another.
    """
    expected = {
        SLOW: "indeterminate: answer_timeout",
        SOUND: "sound",
        LACKING: "violated",
        77: "no_such_ledger",
        OPEN: "exempt: open",
        MARKED: "exempt: marked_underreplicated",
        UNLISTABLE: "sound",
        GONE_BOOKIE: "violated",
        NO_ADDRESS: "indeterminate: address_unknown",
        HMAC: "violated",
    }
    outcome = audit_ledgers(cluster, list(expected), rpc_timeout="2s")
    assert expected == dict(zip(expected, outcome.standings(*expected), strict=True))
    assert list(expected) == list(outcome.verdicts)
    assert 1 == outcome.exit_code
    kinds = [found["kind"] for found in outcome.of(GONE_BOOKIE)]
    assert ["ENTRY_BELOW_ACK_QUORUM"] == kinds, (
        "the copies on a bookie that nobody knows are absent"
    )
    rows = {
        ledger_id: outcome.verdicts[ledger_id].report for ledger_id in (GONE_BOOKIE, NO_ADDRESS)
    }
    assert [["nobody:3181"], []] == [one["gone"] for one in rows.values()]
    unprobed = audit_ledgers(cluster, [UNLISTABLE], rpc_timeout="2s", probe_entries=0)
    assert ["indeterminate: bookie_unsupported"] == unprobed.standings(UNLISTABLE)
    assert [] == [found for found in outcome.findings if found["bookie_id"] is not None], (
        "findings on bookies are withheld"
    )


def test_each_pair_is_asked_once_a_look(cluster: SandboxCluster):
    """Bookies are asked about a sound and a marked ledger at one look, and about a suspect at two.
    There is one conversation at a time with each bookie.
    """
    audit_ledgers(cluster, [SOUND, LACKING, OPEN, MARKED])
    for bookie in ("b1", "b2"):
        assert {SOUND: 1, LACKING: 2, MARKED: 1} == dict(cluster.bookie(bookie).asked)
        assert 1 == cluster.listener(bookie).connections_open_max
    assert [0, 0, 0] == [cluster.listener(bookie).connections_made for bookie in ("b3", "b4", "b5")]


def test_any_number_of_ledgers_is_asked_about_one_by_one(
    cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch
):
    """A lane that does not wait for the whole time-out takes no block."""
    few = audit_ledgers(cluster, [SOUND, LACKING]).verdicts
    monkeypatch.setattr("auditor.stages.stages.SINGLY_MAX", 0)
    assert few == audit_ledgers(cluster, [SOUND, LACKING]).verdicts


def test_a_sound_ledger_is_settled_without_a_pause(cluster: SandboxCluster):
    """Only a suspect waits for a second look."""
    assert [] == audit_ledgers(cluster, [SOUND]).pauses_s
    assert 1.0 == audit_ledgers(cluster, [LACKING], second_look_delay="1s").pauses_s[0]


def test_a_bookie_that_cannot_list_is_found_out_once(cluster: SandboxCluster):
    """A later look at another ledger does not wait for its time-out again."""
    audit_ledgers(cluster, [UNLISTABLE, LACKING], rpc_timeout="2s")
    asked_at_the_first_look = cluster.bookie("b4").asked[UNLISTABLE]
    assert asked_at_the_first_look >= 1
    assert asked_at_the_first_look <= 1 + 3, "asked at one look, with its retries"


def test_what_is_healed_between_the_looks_is_no_finding(cluster: SandboxCluster):
    """The second look judges anew."""
    outcome = audit_ledgers(
        cluster, [LACKING], between=lambda _: cluster.hold("b2", LACKING, "0-9")
    )
    cluster.hold("b2", LACKING, "0-3 5-9")
    assert ([], "sound", 0) == (
        outcome.findings,
        outcome.verdicts[LACKING].standing,
        outcome.exit_code,
    )


def test_a_signal_while_it_waits_ends_it(cluster: SandboxCluster):
    """It raises Interrupted, and no connection stays open."""

    class Stopped(Pauses):
        def wait(self, seconds: float) -> None:
            raise Interrupted(2)

    with pytest.raises(Interrupted):
        audit_ledgers(cluster, [LACKING], stop=Stopped())
    deadline = time.monotonic() + 30
    while any(cluster.listener(bookie)._open for bookie in ("b1", "b2")):
        assert time.monotonic() < deadline, "a connection stays open"
        time.sleep(0.01)


def answers_of(cluster: SandboxCluster, ledger_id: int) -> dict[str, list[Answer]]:
    """Return each bookie's answers about one ledger, look by look."""
    with open_store(parse_uri(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        flags = {"metadata_service_uri": cluster.metadata_service_uri, "second_look_delay": "0s"}
        settings = parse(Layers(flags=flags), command="ledger")
        context = Context(settings, io.StringIO(), structlog.get_logger(), Silent(), Pauses())
        asker = Asker(context, store, store.cluster_facts())
        ((evidence, _),) = audit_without_spark(asker, [ledger_id], Terms(now_ms(), 0, 4, 3))
    found: dict[str, list[Answer]] = {}
    for look in evidence.looks:
        for bookie, answer in look.answers.items():
            found.setdefault(bookie, []).append(answer)
    return found


def test_a_bookie_without_registration_and_cookie_is_gone(cluster: SandboxCluster):
    """It is gone at every look; one that left its cookie may come back and is not gone."""
    cluster.place(20, cluster.ledger("e3 w2 a2 0:[b1 nobody:3181 away:3181] closed 9"))
    cluster.cookie("away:3181")
    answers = answers_of(cluster, 20)
    cluster.delete_cookie("away:3181")
    assert {True} == {answer.is_gone for answer in answers["nobody:3181"]}
    assert {(AnswerStatus.UNREGISTERED, "")} == {
        (answer.status, answer.detail) for answer in answers["away:3181"]
    }
    assert {False} == {answer.is_gone for answer in answers[cluster.id_of("b1")]}


def test_where_no_bookie_has_a_cookie_nobody_is_gone(tmp_path: Path):
    """Without any cookie a missing one proves nothing."""
    with SandboxCluster(tmp_path, 1) as bare:
        bare.delete_cookie("b1")
        bare.place(1, bare.ledger("e2 w2 a2 0:[b1 nobody:3181] closed 9"))
        answers = answers_of(bare, 1)
    assert {(AnswerStatus.UNREGISTERED, "")} == {
        (answer.status, answer.detail) for answer in answers["nobody:3181"]
    }
