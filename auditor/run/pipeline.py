"""The whole audit of a cluster, as a Spark job. THE FILE TO READ.

Evidence first, judgement second: each stage writes one table and the next one reads what was written. Every ledger is looked
at once and every suspect at least twice (BP-34); nothing is reported before its metadata was read again behind the evidence.
What is written is also what a run that was killed goes on from: `journal.once` does a stage unless it is there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.evidence.journal import LISTED, PROBLEMS, Journal, Told
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LISTING, READS, with_read_counts
from auditor.evidence.shards import Shard, cut
from auditor.judging.settle import Todo, reading_rounds_max
from auditor.model.cluster import BookieRecord
from auditor.run.bookie_register import BookieRegister
from auditor.run.judging_rounds import Judgings
from auditor.run.mark_looks import MarkLooks
from auditor.run.poison_evidence import keep_poison
from auditor.run.read_counts import count_silent_parents
from auditor.run.relisting import Relisting
from auditor.run.rename_search import RenameSearch
from auditor.spark.lanes import Directory
from auditor.stop import StopRequest
from auditor.suspects.by_size import StagesBySize
from auditor.telemetry.progress import Progress
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(slots=True)
class Audit:
    """One audit as it goes. `waits_ms`: the second-look delay, and the longest wait for a bookie that may be restarting.

    `shard_ledgers`: ledgers that go through together; when the run is killed, what the journal has of them is not done again.
    """

    stages: StagesBySize
    store: MetadataStore
    run: Place
    journal: Journal
    stop: StopRequest
    progress: Progress
    bookies: BookieRegister
    judgings: Judgings
    relisting: Relisting
    mark_looks: MarkLooks
    renaming: RenameSearch
    waits_ms: tuple[int, int]
    shard_ledgers: int


def audit(look: Audit, ledger_ids: Sequence[int] | None) -> list[BookieRecord]:
    """Look at every ledger once, and at every suspect twice.

    Leaves the evidence and one verdict a ledger in the run's directory; returns every bookie at every look. `ledger_ids`: only
    these, as an operator named them. What the journal has is not done again. Raises StoreUnavailable, SparkJobFailed,
    OutputError, Interrupted.
    """
    look.progress.stage("load")
    shards = list_ledgers(look, ledger_ids)
    first_look(look, shards)
    look.progress.stage("second look")
    further_looks(look, shards)
    look.journal.once("marks again", _look_at_marks_again, look)
    look.journal.once("listing again", _relist, look)
    look.journal.once("renames", look.renaming.ask, look.bookies.silent())
    look.judgings.commit()
    keep_poison(look.run)
    return look.bookies.seen


def list_ledgers(look: Audit, ledger_ids: Sequence[int] | None) -> list[Shard]:
    """The listing, written and counted before anything is read; and the shards that it goes through in."""
    told = look.journal.once(LISTED, _listed, look, ledger_ids)
    look.relisting.began_at_ms = told["began_at_ms"]
    return cut(look.run.read_table("evidence/listing", LISTING)["ledger_id"], told["shard_ledgers"])


def _listed(look: Audit, ledger_ids: Sequence[int] | None) -> Told:
    look.relisting.begins()
    problems = []
    if ledger_ids is None:
        listing = look.store.listing_partitions()
        problems = _odd(listing.unexpected_znodes, "znodes above the ledgers belong to no ledger of this layout")
        look.stages.on_spark.list_ledgers(listing.partitions)
        count_silent_parents(look.run, "evidence/listing", listing, look.stages.on_spark.counts)
        look.relisting.ended()
    else:
        look.stages.on_spark.take_listing(ledger_ids)
    look.run.write_table("evidence/reads", with_read_counts(READS).empty_table(), "none")
    return {"began_at_ms": look.relisting.began_at_ms, "shard_ledgers": look.shard_ledgers, PROBLEMS: problems}


def read_metadata(look: Audit, shard: Shard) -> Told:
    """The marks, then the metadata of every ledger of a shard: written, not judged yet."""
    marks = look.store.marks()
    # Where a part of the marks may not be listed, each ledger's own is read with its metadata: unlisted is not unmarked.
    look.stages.read_ledgers(1, shard, marks=None if marks.problem else marks.by_ledger)
    if shard.number > 0:
        return {}
    look.mark_looks.record_first(marks)
    problems = _odd(marks.unexpected_znodes, "znodes among the under-replication marks mark nothing at their place")
    return {PROBLEMS: [*problems, *(problem for problem in (marks.problem, marks.lock_problem) if problem)]}


def first_look(look: Audit, shards: Sequence[Shard]) -> None:
    """Every bookie about every closed ledger; what its list lacks is read there."""
    for shard in shards:
        part = f"look 1 shard {shard.number}"
        look.journal.once(f"{part}: metadata", read_metadata, look, shard)
        directory = look.bookies.directory(1)
        look.progress.stage("ask", len(directory.addresses))
        look.journal.once(f"{part}: lists", look.stages.ask_lists, 1, directory, shard)
        look.progress.stage("judge")
        look.judgings.judge(1, shard)
        _read_what_is_lacking(look, 1, shard, directory)
    look.bookies.greeted(1)


def further_looks(look: Audit, shards: Sequence[Shard]) -> None:
    """Suspects again, until each one's verdict may stand: the mark and the metadata first, then whoever must be asked."""
    at = 1
    while look.judgings.left(at, Todo.LOOK) or (at == 1 and look.bookies.someone_was_silent()):
        at += 1
        assert at <= look.stages.terms.looks_max + 2, "every ledger settles within the bound of `first_checker.recheck`"
        waits = look.judgings.wants_second_opinion(at - 1) or (at == 2 and look.bookies.someone_was_silent())
        if not look.journal.has(f"look {at}: over"):
            # Also by a run that goes on: who was gone before it was cut down may have been back, and be restarting now.
            look.bookies.look_again()
            if waits:
                look.stop.wait(look.bookies.pause_ms(at, *look.waits_ms) / 1000)
        asked = [_look_again(look, at, shard) for shard in shards if _is_due(look, at, shard)]
        if any(asked):
            look.bookies.greeted(at)
        look.journal.once(f"look {at}: over", dict)


def _is_due(look: Audit, at: int, shard: Shard) -> bool:
    """Whether a shard has suspects left; at the second look every bookie is greeted again, so one shard is due in any case."""
    return _greets(at, shard) or look.judgings.left(at - 1, Todo.LOOK, shard) > 0


def _greets(at: int, shard: Shard) -> bool:
    return at == 2 and shard.number == 0


def _look_again(look: Audit, at: int, shard: Shard) -> bool:
    """A later look at the suspects of one shard. Whether bookies were asked at it."""
    part = f"look {at} shard {shard.number}"
    directory = look.bookies.directory(at)
    look.journal.once(f"{part}: metadata", look.stages.read_ledgers, at, shard)
    look.judgings.judge(at, shard)
    judging = look.judgings.latest
    asks = _greets(at, shard) or look.judgings.left_by_latest(Todo.LISTS) > 0
    if asks:
        look.journal.once(f"{part}: lists", look.stages.ask_lists, at, directory, shard, judging)
        look.judgings.judge(at, shard, (judging, Todo.LISTS))
    _read_what_is_lacking(look, at, shard, directory)
    return asks


def _read_what_is_lacking(look: Audit, at: int, shard: Shard, directory: Directory) -> None:
    """Entries read, and judging again with them, until no ledger wants another."""
    around = look.stages.terms.around  # of a run that goes on, bookies may be gone by now
    bookies = max(len(directory.addresses), len(around.writable | around.readonly))
    rounds = 0
    while look.judgings.left_by_latest(Todo.READS):
        rounds += 1
        assert rounds <= reading_rounds_max(look.stages.terms, bookies), "ledgers want more entries read than is allowed"
        judging = look.judgings.latest
        allowed = look.bookies.with_searches_left(directory)
        look.journal.once(f"look {at}: reads of judging {judging}", look.stages.read_entries, at, judging, allowed)
        look.judgings.judge(at, shard, (judging, Todo.READS))


def _look_at_marks_again(look: Audit) -> Told:
    problem = look.mark_looks.look_again(look.waits_ms[0], look.stop.wait)
    return {PROBLEMS: [problem] if problem else []}


def _relist(look: Audit) -> Told:
    problem = look.relisting.again(look.waits_ms[0], look.stop.wait)
    return {PROBLEMS: [problem] if problem else []}


def _odd(count: int, what: str) -> list[str]:
    return [f"{count} {what}"] if count else []
