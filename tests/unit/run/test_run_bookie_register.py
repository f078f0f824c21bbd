"""The bookies over the looks of a run: where each is, and which of them the cluster knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.bookie.listers import Listers
from auditor.config import ZooKeeperLimits
from auditor.evidence.journal import Journal
from auditor.evidence.rows import answer_row, greeting_row, read_row, table
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    WHILE_OTHERS_CAME,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    ReadStatus,
)
from auditor.run.bookie_register import BookieRegister
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire.service_uri import parse
from auditor.zookeeper.metadata_store import MetadataStore, open_store


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SandboxCluster]:
    with SandboxCluster(tmp_path / "cluster", 3) as cluster:
        yield cluster


def register_of(store: MetadataStore, tmp_path: Path) -> BookieRegister:
    run = place(str(tmp_path))
    return BookieRegister(store, run, Journal(run), store.cluster_facts())


def test_the_directory_has_the_registered_and_the_known(cluster: SandboxCluster, tmp_path: Path):
    """Both are read anew at each look. A lost bookie is no longer among the addresses. A
    decommissioned one is no longer among the cookies either.
    """
    b1, b2, b3 = cluster.bookie_ids
    cluster.lose_bookie("b3", cookie=True)
    with open_store(parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        register = register_of(store, tmp_path)
        first = register.directory(1)
        cluster.unregister("b2")
        cluster.delete_cookie("b3")
        second = register.directory(2)
    assert ({b1, b2}, {b1, b2, b3}) == (set(first.addresses), first.cookies)
    assert ({b1}, {b1, b2}) == (set(second.addresses), second.cookies)


def test_searches_that_are_left_are_counted_from_what_is_written(
    cluster: SandboxCluster, tmp_path: Path
):
    """Each registered bookie has the bound less the searches that were sent to it, in any stage.
    Confirming reads and searches that were held back do not count.
    """
    b1, b2, b3 = cluster.bookie_ids
    sent, held_back = ReadStatus.NO_ENTRY, ReadStatus.NOT_ASKED
    reads = [
        *(EntryRead(b1, 7, entry, 1, 0, sent, is_search=True) for entry in range(3)),
        *(EntryRead(b2, 7, entry, 1, 0, sent, is_search=True) for entry in range(9)),
        EntryRead(b1, 8, 0, 2, 0, held_back, is_search=True),
        EntryRead(b3, 8, 0, 2, 0, sent),
    ]
    with open_store(parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        register = register_of(store, tmp_path)
        register.search_reads_max = 5
        register.run.write_table("evidence/reads", table(READS, map(read_row, reads)), "some")
        directory = register.with_searches_left(register.directory(1))
    assert {b1: 2, b2: 0, b3: 5} == directory.searches_left


def test_without_any_cookie_the_known_bookies_are_unknown(cluster: SandboxCluster, tmp_path: Path):
    """The result is None, not an empty set: where no cookie is kept, a missing one proves
    nothing.
    """
    for bookie in cluster.bookie_ids:
        cluster.delete_cookie(bookie)
    with open_store(parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        directory = register_of(store, tmp_path).directory(1)
    assert directory.cookies is None


def test_what_bookies_showed_at_any_time_of_the_run_is_known(
    cluster: SandboxCluster, tmp_path: Path
):
    """A bookie that listed a ledger can list, also if it times out later. A bookie that showed that
    it cannot list is not asked again.
    """
    held = AnswerStatus.HELD
    rows = [
        answer_row(Answer("b1", 7, 1, 0, held)),
        answer_row(Answer("b2", 7, 1, 0, AnswerStatus.TIMED_OUT)),
        greeting_row("b1", 1, 0, Greeting.ANSWERED, ""),
        greeting_row("b1", 2, 0, Greeting.UNSUPPORTED, "three time-outs"),
        greeting_row("b2", 1, 0, Greeting.UNSUPPORTED, "three time-outs"),
    ]
    with open_store(parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        register = register_of(store, tmp_path)
        assert (frozenset(), frozenset()) == (
            register.directory(1).listed,
            register.directory(1).unsupported,
        )
        place(str(tmp_path)).write_table("evidence/answers", table(ANSWERS, rows), "rows")
        directory = register.directory(1)
    assert ({"b1"}, {"b2"}) == (directory.listed, directory.unsupported)


def test_lists_that_a_bookie_left_unanswered_are_counted_over_the_shards(
    cluster: SandboxCluster, tmp_path: Path
):
    """Only those count for which it was alive, and only while the first look asks."""
    alone, lost = f"no answer within 9 ms{WHILE_OTHERS_CAME}", "the connection was closed"
    timed_out, held = AnswerStatus.TIMED_OUT, AnswerStatus.HELD
    shards = [
        [Answer("b1", 7, 1, 0, timed_out, detail=alone), Answer("b2", 7, 1, 0, held)],
        [
            Answer("b1", 8, 1, 0, timed_out, detail=alone),
            Answer("b1", 9, 1, 0, timed_out, detail=alone),
            Answer("b2", 8, 1, 0, timed_out, detail=lost),
        ],
    ]
    with open_store(parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        register = register_of(store, tmp_path)
        seen = [register.directory(1).unanswered]
        for number, answers in enumerate(shards):
            rows = table(ANSWERS, map(answer_row, answers))
            place(str(tmp_path)).write_table("evidence/answers", rows, f"shard-{number}")
            seen.append(register.directory(1).unanswered)
        assert {} == register.directory(2).unanswered
    assert [{}, {"b1": 1}, {"b1": 3}] == seen


def test_silent_so_far_are_those_that_were_silent_when_they_were_asked_last(
    cluster: SandboxCluster, tmp_path: Path
):
    """A bookie that answers in a later shard is not silent any more. A late list alone is not
    silence.
    """
    shards = (
        [
            greeting_row("b1", 1, 0, Greeting.SILENT, ""),
            greeting_row("b2", 1, 0, Greeting.REFUSED, ""),
            greeting_row("b3", 1, 0, Greeting.UNSUPPORTED, ""),
            answer_row(Answer("b3", 7, 1, 0, AnswerStatus.TIMED_OUT)),
        ],
        [greeting_row("b1", 1, 0, Greeting.ANSWERED, "")],
    )
    with open_store(parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        register = register_of(store, tmp_path)
        seen = []
        for number, rows in enumerate(shards):
            where = place(str(tmp_path))
            where.write_table("evidence/answers", table(ANSWERS, rows), f"shard-{number}")
            seen.append(register.silent_so_far())
    assert [{"b1", "b2"}, {"b2"}] == seen


def test_each_file_of_answers_and_of_reads_is_read_once(cluster: SandboxCluster, tmp_path: Path):
    """The files of earlier shards are not read again for the directory of the next shard."""
    b1, b2, b3 = cluster.bookie_ids
    read = read_row(EntryRead(b1, 7, 0, 1, 0, ReadStatus.NO_ENTRY, is_search=True))
    with open_store(parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        register = register_of(store, tmp_path)
        register.search_reads_max = 5
        for shard, bookie in enumerate((b1, b2, b3)):
            answer = table(ANSWERS, [answer_row(Answer(bookie, shard, 1, 0, AnswerStatus.HELD))])
            register.run.write_table("evidence/answers", answer, f"shard-{shard}")
            register.run.write_table("evidence/reads", table(READS, [read]), f"shard-{shard}")
            directory = register.with_searches_left(register.directory(1))
            for name in ("answers", "reads"):
                file = tmp_path / f"evidence/{name}/shard-{shard}.parquet"
                file.write_bytes(b"raises if it is read again")
    assert {b1, b2, b3} == directory.listed
    assert {b1: 2, b2: 5, b3: 5} == directory.searches_left


def test_what_spark_has_not_committed_is_not_read(cluster: SandboxCluster, tmp_path: Path):
    """A task that still runs, or died, leaves files that do not count as answers."""
    answer = table(ANSWERS, [answer_row(Answer(cluster.bookie_ids[0], 7, 1, 0, AnswerStatus.HELD))])
    with open_store(parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        register = register_of(store, tmp_path)
        register.run.write_table("evidence/answers/_temporary/0", answer, "part-0")
        register.run.write_table("evidence/answers", answer, ".part-1")
        directory = register.directory(1)
    assert frozenset() == directory.listed


def test_a_list_from_a_lister_does_not_show_that_its_bookie_can_list(
    cluster: SandboxCluster, tmp_path: Path
):
    """Otherwise, where a lister ends between two looks, the ledgers of its bookie would time out
    instead of being probed.
    """
    b1, b2, _ = cluster.bookie_ids
    lists = [
        Answer(b1, 7, 1, 0, AnswerStatus.HELD, detail=f"{LISTED_BY_LISTER}h:1"),
        Answer(b2, 7, 1, 0, AnswerStatus.HELD),
    ]
    with open_store(parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        register = register_of(store, tmp_path)
        register.run.write_table("evidence/answers", table(ANSWERS, map(answer_row, lists)), "some")
        assert {b2} == register.directory(2).listed


def test_a_lister_that_was_contradicted_is_not_believed_from_then_on(
    cluster: SandboxCluster, tmp_path: Path
):
    """The greeting of its bookie has the contradiction. The listers of other bookies are still
    believed.
    """
    b1, b2, _ = cluster.bookie_ids
    denied = f"{LISTER_CONTRADICTED}it lists entry 3"
    greetings = [
        greeting_row(b1, 1, 0, Greeting.ANSWERED, denied),
        greeting_row(b2, 1, 0, Greeting.ANSWERED, f"{LISTED_BY_LISTER}h:1"),
    ]
    with open_store(parse(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
        register = register_of(store, tmp_path)
        register.listers = Listers("i", 3182)
        assert Listers("i", 3182) == register.directory(1).listers
        register.run.write_table("evidence/answers", table(ANSWERS, greetings), "some")
        assert Listers("i", 3182, not_believed={b1: denied}) == register.directory(2).listers
