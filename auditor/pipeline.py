"""The whole audit of a cluster, as a Spark job. THE FILE TO READ.

Evidence first, judgement second: each stage writes one table and the next one reads what was written. Every ledger is looked
at once and every suspect at least twice (BP-34); nothing is reported before its metadata was read again behind the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from auditor.evidence.rows import bookie_row, table
from auditor.evidence.schemas import BOOKIES, READS
from auditor.judgement import Todo, reading_rounds_max
from auditor.judgings import Judgings
from auditor.model.cluster import BookieRecord
from auditor.register import BookieRegister
from auditor.relisting import Relisting
from auditor.report.poison_evidence import keep_poison
from auditor.report.progress import Progress
from auditor.report.run_directory import Place
from auditor.stop import StopRequest
from auditor.tables.lanes import Directory
from auditor.tables.stages import Stages
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(slots=True)
class Audit:
    """One audit as it goes. `waits_ms`: the second-look delay, and the longest wait for a bookie that may be restarting."""

    stages: Stages
    store: MetadataStore
    run: Place
    stop: StopRequest
    progress: Progress
    bookies: BookieRegister
    judgings: Judgings
    relisting: Relisting
    waits_ms: tuple[int, int]
    problems: list[str] = field(default_factory=list)
    """Sentences on what was odd but did not stand in the way."""


def audit(look: Audit, ledger_ids: Sequence[int] | None) -> list[BookieRecord]:
    """Look at every ledger once, and at every suspect twice.

    Leaves the evidence and one verdict a ledger in the run's directory; returns every bookie at every look. `ledger_ids`: only
    these, as an operator named them. Raises StoreUnavailable, SparkJobFailed, OutputError, Interrupted.
    """
    look.progress.stage("load")
    collect_ledgers(look, ledger_ids)
    first_look(look)
    look.progress.stage("second look")
    further_looks(look)
    if problem := look.relisting.again(look.waits_ms[0], look.stop.wait):
        look.problems.append(problem)
    look.judgings.commit()
    look.problems += look.judgings.problems
    look.run.write_table("evidence/bookies", table(BOOKIES, [bookie_row(one) for one in look.bookies.seen]), "bookies")
    keep_poison(look.run)
    return look.bookies.seen


def collect_ledgers(look: Audit, ledger_ids: Sequence[int] | None) -> None:
    """The listing, then the marks, then the metadata of every ledger: written and counted, not judged yet."""
    if ledger_ids is None:
        look.relisting.begins()
        listing = look.store.listing_partitions()
        _odd(look, listing.unexpected_znodes, "znodes above the ledgers belong to no ledger of this layout")
        look.stages.list_ledgers(listing.partitions)
        look.relisting.ended()
    else:
        look.stages.take_listing(ledger_ids)
    look.run.write_table("evidence/reads", READS.empty_table(), "none")
    marks = look.store.marks()
    _odd(look, marks.unexpected_znodes, "znodes among the under-replication marks mark nothing at their place")
    look.problems += [problem for problem in (marks.problem, marks.lock_problem) if problem]
    # Where a part of the marks may not be listed, each ledger's own is read with its metadata: unlisted is not unmarked.
    look.stages.read_ledgers(look=1, marks=None if marks.problem else marks.by_ledger)


def first_look(look: Audit) -> None:
    """Every bookie about every closed ledger; what its list lacks is read there."""
    directory = look.bookies.directory(1)
    look.progress.stage("ask", len(directory.addresses))
    look.stages.ask_lists(1, directory)
    look.bookies.greeted(1)
    look.progress.stage("judge")
    look.judgings.judge(1)
    _read_what_is_lacking(look, 1, directory)


def further_looks(look: Audit) -> None:
    """Suspects again, until each one's verdict may stand: the mark and the metadata first, then whoever must be asked."""
    at = 1
    while look.judgings.left(at, Todo.LOOK) or (at == 1 and look.bookies.someone_was_silent()):
        at += 1
        assert at <= look.stages.terms.looks_max + 2, "every ledger settles within the bound of `confirm.recheck`"
        if look.judgings.wants_second_opinion(at - 1) or (at == 2 and look.bookies.someone_was_silent()):
            look.stop.wait(look.bookies.pause_ms(at, *look.waits_ms) / 1000)
        directory = look.bookies.directory(at)
        look.stages.read_ledgers(at)
        look.judgings.judge(at)
        if at == 2 or look.judgings.left(at, Todo.LISTS):
            look.stages.ask_lists(at, directory)
            look.judgings.judge(at, (0, Todo.LISTS))
            look.bookies.greeted(at)
        _read_what_is_lacking(look, at, directory)


def _read_what_is_lacking(look: Audit, at: int, directory: Directory) -> None:
    """Entries read, and judging again with them, until no ledger wants another."""
    for _ in range(reading_rounds_max(look.stages.terms, len(directory.addresses))):
        if not look.judgings.left_by_latest(Todo.READS):
            return
        judging = look.judgings.latest
        look.stages.read_entries(at, judging, directory)
        look.judgings.judge(at, (judging, Todo.READS))
    raise AssertionError("ledgers want more entries read than all bookies together are allowed")


def _odd(look: Audit, count: int, what: str) -> None:
    if count:
        look.problems.append(f"{count} {what}")
