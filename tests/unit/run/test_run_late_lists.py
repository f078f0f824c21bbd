"""Bookies that cannot list, without Spark: entries are read beside overdue lists, and the verdicts
stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.audits import Outcome, audit_ledgers
from support.lanes import listed
from support.newest_runs import RUN_ID, output_with_a_run
from support.scripted_bookie import (
    LIST,
    READ,
    Act,
    Connection,
    ScriptedBookie,
    entry_body,
    list_answer,
    read_answer,
)

from auditor.bookie.exchange import KNOWN_UNABLE, UNTRIED, ListPatience
from auditor.config import ZooKeeperLimits
from auditor.sandbox.bookie import Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire import bookie_registration
from auditor.wire.entry_availability import encode_runs
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store

ONE, TWO, LOST = 1, 2, 3
LONG = "30s"
"""A time-out of a request that no test here can wait for."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a cluster. b1 holds every entry of its ledgers, b2 and b3 hold none, and most tests
    play b2.
    """
    with SandboxCluster(
        tmp_path_factory.mktemp("late"), 3, storage=[Storage.SORTED, Storage.DB, Storage.DB]
    ) as cluster:
        for ledger_id in (ONE, TWO):
            cluster.place(ledger_id, cluster.ledger("e2 w2 a2 0:[b1 b2] closed 9"))
        cluster.place(LOST, cluster.ledger("e2 w2 a2 0:[b2 b3] closed 9"))
        cluster.bookie("b2").wipe()
        cluster.bookie("b3").wipe()
        yield cluster


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make lists overdue after 50 ms, and give them up after 400 ms."""
    monkeypatch.setattr(
        "auditor.bookie.exchange.UNTRIED", ListPatience(overdue_ms=50, give_up_ms=400)
    )


@pytest.fixture
def long_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make lists overdue after 50 ms, and wait 20 s for them."""
    monkeypatch.setattr(
        "auditor.bookie.exchange.UNTRIED", ListPatience(overdue_ms=50, give_up_ms=20_000)
    )


@contextmanager
def played_by(cluster: SandboxCluster, bookie: ScriptedBookie) -> Iterator[None]:
    """Let the scripted bookie play b2."""
    with bookie:
        cluster.register("b2", bookie_registration.encode("127.0.0.1", bookie.port))
        try:
            yield
        finally:
            cluster.register("b2")


def list_late(entries: Sequence[int], delay_s: float = 0.2) -> Act:
    """Return an act that lists these entries of any ledger after a delay, and has no other
    entry.
    """

    def act(connection: Connection, request: pb.Request) -> bool:
        if (ledger_id := listed(request)) is not None:
            connection.later(
                delay_s, list_answer(request.header.txnId, ledger_id, encode_runs(entries))
            )
            return True
        if request.header.operation == READ and request.readRequest.entryId not in entries:
            read = request.readRequest
            connection.send(
                read_answer(request.header.txnId, read.ledgerId, read.entryId, None, pb.ENOENTRY)
            )
            return True
        return False

    return act


def never_list(connection: Connection, request: pb.Request) -> bool:
    return listed(request) is not None


def assurance(outcome: Outcome, ledger_id: int) -> str:
    return str(outcome.verdicts[ledger_id].report["assurance"])


def test_entries_are_read_long_before_a_list_times_out(cluster: SandboxCluster):
    """A bookie that never lists is asked for the list once and then read. The ledger is judged by
    probes.
    """
    bookie = ScriptedBookie({ONE: range(10)}, never_list)
    with played_by(cluster, bookie):
        outcome = audit_ledgers(cluster, [ONE], rpc_timeout=LONG)
    operations = [operation for _, operation, *_ in bookie.requests]
    assert operations.index(READ) > operations.index(LIST)
    assert 1 == operations.count(LIST)
    assert ("sound", "probed") == (outcome.verdicts[ONE].standing, assurance(outcome, ONE))
    assert outcome.summary["newest_run"] is None


def test_a_lost_ledger_is_found_without_waiting_for_any_list(cluster: SandboxCluster):
    """Two bookies that cannot list hold no copy. ENOLEDGER to a read is an answer, and neither look
    waits for a list.
    """
    outcome = audit_ledgers(cluster, [LOST], rpc_timeout=LONG)
    assert ["ENTRY_WITHOUT_REPLICA"] == [found["kind"] for found in outcome.findings]


def test_no_list_is_waited_for_at_the_second_look(cluster: SandboxCluster):
    """A bookie that gave no list at the first look is read at the second, and not asked for a
    list.
    """
    bookie = ScriptedBookie(
        {ONE: range(10)}, lambda c, r: never_list(c, r) or list_late(range(9))(c, r)
    )
    with played_by(cluster, bookie):
        outcome = audit_ledgers(cluster, [ONE], rpc_timeout=LONG)
    assert ["ENTRY_BELOW_ACK_QUORUM"] == [found["kind"] for found in outcome.findings]
    assert [ONE] == bookie.asked(LIST)


@pytest.mark.usefixtures("long_patience")
def test_a_list_that_comes_late_is_judged_as_if_it_had_been_in_time(cluster: SandboxCluster):
    """The ledger is listed, not probed. Probes that were read meanwhile are not in the evidence."""
    with played_by(cluster, ScriptedBookie({ONE: range(10)}, list_late(range(10)))):
        outcome = audit_ledgers(cluster, [ONE], rpc_timeout=LONG)
    assert ("sound", "listed") == (outcome.verdicts[ONE].standing, assurance(outcome, ONE))
    assert [{"b1", "b2"}] == [set(look["answers"]) for look in named(cluster, outcome, ONE)]
    assert 0 == outcome.verdicts[ONE].listing_false_negatives


def named(
    cluster: SandboxCluster, outcome: Outcome, ledger_id: int
) -> list[dict[str, dict[str, str]]]:
    """Return the looks, with bookies by their short names."""
    short = {cluster.id_of(name): name for name in ("b1", "b2", "b3")}
    looks = outcome.verdicts[ledger_id].report["looks"]
    return [
        {"answers": {short[bookie]: said for bookie, said in look["answers"].items()}}
        for look in looks
    ]


@pytest.mark.usefixtures("long_patience")
def test_what_a_late_list_lacks_is_found_as_ever(cluster: SandboxCluster):
    """The kind, the entries and the bookie are the same as with a list in time. Probes use up no
    confirming read.
    """
    verdicts = []
    for delay_s in (0.0, 0.2):
        with played_by(
            cluster, ScriptedBookie({ONE: range(10)}, list_late([0, 1, 4, 5, 6, 9], delay_s))
        ):
            outcome = audit_ledgers(cluster, [ONE], rpc_timeout=LONG, confirming_reads_max=4)
        verdicts.append(
            [(found["kind"], found["entries"], found["missing_on"]) for found in outcome.findings]
        )
        assert "listed" == assurance(outcome, ONE)
    assert verdicts[0] == verdicts[1]
    assert [[2, 3], [7, 8]] == verdicts[1][0][1]


@pytest.mark.usefixtures("long_patience")
def test_what_a_late_list_leaves_out_and_can_be_read_is_a_false_negative(cluster: SandboxCluster):
    """The entry counts as a copy, as with a list in time."""

    def act(connection: Connection, request: pb.Request) -> bool:
        return listed(request) is not None and list_late([0, 1, 2, 3, 4, 6, 7, 8, 9])(
            connection, request
        )

    with played_by(cluster, ScriptedBookie({ONE: range(10)}, act)):
        outcome = audit_ledgers(cluster, [ONE], rpc_timeout=LONG)
    assert ("sound", 1) == (
        outcome.verdicts[ONE].standing,
        outcome.verdicts[ONE].listing_false_negatives,
    )


def test_a_bookie_that_reads_slowly_has_longer_to_list(cluster: SandboxCluster):
    """Ten times the slowest of the reads made while the list is overdue. These are no evidence."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation != READ:
            return list_late(range(10), 1.2)(connection, request)
        one = request.readRequest
        body = entry_body(one.ledgerId, one.entryId)
        connection.later(0.3, read_answer(request.header.txnId, one.ledgerId, one.entryId, body))
        return True

    bookie = ScriptedBookie({ONE: range(10)}, act)
    with played_by(cluster, bookie):
        outcome = audit_ledgers(cluster, [ONE], rpc_timeout=LONG, spot_reads=0)
    assert ("sound", "listed") == (outcome.verdicts[ONE].standing, assurance(outcome, ONE))
    assert [0, 9] == sorted(
        entry for _, operation, _, entry in bookie.requests if operation == READ
    )
    assert 0 == outcome.verdicts[ONE].report["copies"]["read"]


def test_a_bookie_that_lists_one_of_its_ledgers_has_the_whole_time_out_for_the_other(
    cluster: SandboxCluster,
):
    """The bookie can list, though late. The ledger for which no list comes is `answer_timeout`, and
    is not judged by probes.
    """

    def act(connection: Connection, request: pb.Request) -> bool:
        return listed(request) == TWO or list_late(range(10))(connection, request)

    with played_by(cluster, ScriptedBookie({ONE: range(10), TWO: range(10)}, act)):
        outcome = audit_ledgers(cluster, [ONE, TWO], rpc_timeout="600ms")
    assert ["sound", "indeterminate: answer_timeout"] == outcome.standings(ONE, TWO)
    assert "listed" == assurance(outcome, ONE)


# What the newest run in OUTPUT knows


def output(cluster: SandboxCluster, root: Path, *unable: str) -> str:
    with open_store(parse_uri(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        return str(
            output_with_a_run(
                root, store.cluster_facts(), unable=[cluster.id_of(bookie) for bookie in unable]
            )
        )


def test_bookies_that_the_newest_run_found_unable_are_read_at_once(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Their lists are requested too, and the output names the run that found them unable. A bookie
    that no run knows would be waited for.
    """
    monkeypatch.setattr(
        "auditor.bookie.exchange.UNTRIED",
        ListPatience(overdue_ms=20_000, give_up_ms=25_000),
    )
    bookie = ScriptedBookie({ONE: range(10)}, never_list)
    with played_by(cluster, bookie):
        settings = {"rpc_timeout": LONG, "output": output(cluster, tmp_path, "b2")}
        outcome = audit_ledgers(cluster, [ONE], **settings)
        text = audit_ledgers(cluster, [ONE], format="text", **settings).stdout
    assert [ONE, ONE] == bookie.asked(LIST)
    assert ("sound", "probed") == (outcome.verdicts[ONE].standing, assurance(outcome, ONE))
    used = outcome.summary["newest_run"]
    assert (RUN_ID, [cluster.id_of("b2")], []) == (
        used["run_id"],
        used["bookies_unable"],
        used["bookies_listing_now"],
    )
    assert (
        f"Run {RUN_ID} (2026-01-02T03:14:15.000Z) found {cluster.id_of('b2')} unable to list"
        in " ".join(text.split())
    )


def test_a_bookie_whose_storage_was_changed_is_noticed(cluster: SandboxCluster, tmp_path: Path):
    """The newest run found it unable, and now it lists. Its list counts, and the summary names the
    bookie.
    """
    with played_by(cluster, ScriptedBookie({ONE: range(10)})):
        outcome = audit_ledgers(cluster, [ONE], output=output(cluster, tmp_path, "b2"))
    assert ("sound", "listed") == (outcome.verdicts[ONE].standing, assurance(outcome, ONE))
    assert ([], [cluster.id_of("b2")]) == (
        outcome.summary["newest_run"]["bookies_unable"],
        outcome.summary["newest_run"]["bookies_listing_now"],
    )


def test_the_patience_of_the_product_leaves_an_answer_within_three_seconds():
    """A list is overdue after half a second at most and given up after one second. A bookie known
    to be unable is given up sooner.
    """
    assert 0 < UNTRIED.overdue_ms <= 500
    assert UNTRIED.overdue_ms < UNTRIED.give_up_ms <= 1_000
    assert KNOWN_UNABLE.give_up_ms < UNTRIED.give_up_ms
