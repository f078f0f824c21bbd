"""The whole audit of a cluster. Read this file first.

Evidence first, judgement second: each stage writes one table, and the next stage reads it. Every
ledger is looked at once, every suspect at least twice (BP-34). Nothing is reported before its
metadata was read again after the evidence. The same tables let a killed run resume:
`journal.run_once` skips a stage that is written already. A run works only during the hours that the
operator allows (`--window`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from structlog.stdlib import BoundLogger

from auditor.clock import utc_now
from auditor.context import Context
from auditor.daily_window import DailyWindow
from auditor.evidence.ids import Shard, cut_shards
from auditor.evidence.journal import LISTED, PROBLEMS, REFERENCES, Journal, StageResult
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LISTING, READS, with_pace, with_read_counts
from auditor.findings.bookie_tables import by_look
from auditor.findings.open_ledgers import blocked_open
from auditor.first_checker.spot_reads import Density, ListTests
from auditor.judging.settle import Todo, reading_rounds_max
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId
from auditor.run.bookie_register import BookieRegister
from auditor.run.closing_looks import MarkLooks, Relisting, RenameSearch
from auditor.run.judging_rounds import DoubtSearch, Judgings, SweepPlanner
from auditor.run.poison_evidence import keep_poison
from auditor.run.reference_looks import TOPICS_AT, ReferenceLooks
from auditor.run.request_counts import count_silent_parents
from auditor.stages.asking import Directory
from auditor.stages.stages import Stages
from auditor.stop import StopRequest
from auditor.telemetry.progress import PAUSE, LedgersDone, Progress
from auditor.zookeeper.metadata_store import MetadataStore

NAP_S = 60.0
"""Longest single sleep. The clock is read again after it: it may have been set, or a laptop
suspended."""


@dataclass(slots=True)
class OpenHours:
    """Waits for the window to open. Without a window it is always open."""

    window: DailyWindow | None
    stop: StopRequest
    progress: Progress
    logger: BoundLogger
    now: Callable[[], datetime] = utc_now

    @classmethod
    def of(cls, context: Context, progress: Progress) -> OpenHours:
        """Return the hours that the settings of a command allow."""
        return cls(context.settings.daily_window(), context.stop, progress, context.logger)

    def next_open(self) -> datetime:
        """Return when the window is open next: now, if it is open or there is none."""
        now = self.now()
        wait_s = self.window.seconds_until_open(now) if self.window else 0.0
        return now + timedelta(seconds=wait_s)

    def await_open(self, then: str) -> None:
        """Return at once within the window, otherwise when it opens. Raises Interrupted.

        Called between shards: a shard that has begun is finished, even outside the window. No stage
        of the run counts the wait. `then` is the stage that follows it.
        """
        if self.window is None or not (seconds := self.window.seconds_until_open(self.now())):
            return
        self.logger.info("run_pauses", window=str(self.window), opens_in_s=round(seconds))
        self.progress.stage(PAUSE)
        while seconds:
            self.stop.wait(min(seconds, NAP_S))
            seconds = self.window.seconds_until_open(self.now())
        self.logger.info("run_goes_on", window=str(self.window))
        self.progress.stage(then)


@dataclass(slots=True)
class AuditRun:
    """One audit in progress.

    `waits_ms`: the second-look delay, and the longest wait for a bookie that may be restarting.
    `shard_ledgers`: ledgers that go through the stages together. A killed run repeats at most one
    shard.
    """

    stages: Stages
    store: MetadataStore
    directory: Place
    journal: Journal
    stop: StopRequest
    progress: Progress
    bookies: BookieRegister
    judgings: Judgings
    relisting: Relisting
    mark_looks: MarkLooks
    reference_looks: ReferenceLooks
    rename_search: RenameSearch
    sweep_planner: SweepPlanner
    hours: OpenHours
    waits_ms: tuple[int, int]
    shard_ledgers: int


def audit(run: AuditRun, ledger_ids: Sequence[int] | None) -> list[BookieRecord]:
    """Look at every ledger once and at every suspect twice. Return every bookie at every look.

    Leaves the evidence and one verdict a ledger in the run's directory. `ledger_ids` limits the
    audit to the ledgers that an operator named. Stages that the journal has are not repeated.
    Raises StoreUnavailable, SparkJobFailed, OutputError, Interrupted.
    """
    run.progress.stage("load")
    topics_at = run.journal.run_once(REFERENCES, run.reference_looks.record_first).get(TOPICS_AT)
    shards = list_ledgers(run, ledger_ids)
    run.journal.run_once("referenced ledgers", run.reference_looks.read_unlisted)
    take_first_look(run, shards)
    read_more_in_doubt(run, shards)
    run.bookies.record_greetings(1)
    run.progress.stage("second look")
    take_further_looks(run, shards)
    run.hours.await_open("second look")
    run.journal.run_once("marks again", _look_at_marks_again, run)
    run.journal.run_once(
        "references again",
        run.reference_looks.look_again,
        run.waits_ms[0],
        run.stop.wait,
        topics_at,
    )
    run.journal.run_once("listing again", _relist, run)
    run.journal.run_once("renames", run.rename_search.ask, run.bookies.silent())
    run.judgings.commit()
    keep_poison(run.directory)
    return run.bookies.seen


def list_ledgers(run: AuditRun, ledger_ids: Sequence[int] | None) -> list[Shard]:
    """Write the listing before anything is read, and return the shards to go through."""
    result = run.journal.run_once(LISTED, _write_listing, run, ledger_ids)
    run.relisting.began_at_ms = result["began_at_ms"]
    listing = run.directory.read_table("evidence/listing", LISTING)
    return cut_shards(listing["ledger_id"], result["shard_ledgers"])


def _write_listing(run: AuditRun, ledger_ids: Sequence[int] | None) -> StageResult:
    run.relisting.start()
    problems = []
    if ledger_ids is None:
        listing = run.store.listing_partitions()
        problems = _count_problem(
            listing.unexpected_znodes, "znodes above the ledgers belong to no ledger of this layout"
        )
        if run.stages.list_ledgers(listing.partitions):
            count_silent_parents(run.directory, "evidence/listing", listing, run.store.counts)
        run.relisting.record_first()
    else:
        run.stages.take_listing(ledger_ids)
    columns = with_pace(with_read_counts(READS))
    run.directory.write_table("evidence/reads", columns.empty_table(), "none")
    began_at_ms = run.relisting.began_at_ms
    return {"began_at_ms": began_at_ms, "shard_ledgers": run.shard_ledgers, PROBLEMS: problems}


def read_metadata(run: AuditRun, shard: Shard) -> StageResult:
    """Write the marks, then the metadata of every ledger of a shard. Nothing is judged yet."""
    marks = run.store.marks()
    # If some marks cannot be listed, each ledger's own mark is read: unlisted is not unmarked.
    run.stages.read_ledgers(1, shard, marks=None if marks.problem else marks.by_ledger)
    if shard.number > 0:
        return {}
    run.mark_looks.record_first(marks)
    problems = _count_problem(
        marks.unexpected_znodes,
        "znodes among the under-replication marks mark nothing at their place, such as"
        f" {''.join(marks.malformed[:1])}",
    )
    unread = [problem for problem in (marks.problem, marks.lock_problem) if problem]
    return {PROBLEMS: [*problems, *unread]}


def take_first_look(run: AuditRun, shards: Sequence[Shard]) -> None:
    """Ask every bookie about every closed ledger, test its lists by reads, and read what they
    lack.
    """
    listed = run.directory.count("evidence/listing", LISTING)
    densities: Mapping[BookieId, Density] = {}
    for shard in shards:
        part = f"look 1 shard {shard.number}"
        run.hours.await_open("load")
        is_new = not run.journal.has(f"{part}: lists")
        ledgers = LedgersDone(listed * shard.number // len(shards), listed) if is_new else None
        run.journal.run_once(f"{part}: metadata", read_metadata, run, shard)
        if shard.number == 0:
            _fix_terms(run, shard, len(shards))
            densities = run.sweep_planner.spot_densities(shard, len(shards))
        addresses = run.bookies.directory(1)
        run.progress.stage("ask", len(addresses.addresses), ledgers)
        run.journal.run_once(f"{part}: lists", run.stages.ask_lists, 1, addresses, shard)
        run.progress.silent(run.bookies.silent_so_far())
        if densities:
            run.journal.run_once(
                f"{part}: spot reads", _test_lists, run, addresses, shard, densities
            )
        run.progress.stage("judge", ledgers=ledgers)
        run.judgings.judge(1, shard)
        _read_missing_entries(run, 1, shard, addresses)


def _test_lists(
    run: AuditRun, addresses: Directory, shard: Shard, densities: Mapping[BookieId, Density]
) -> None:
    """Read some entries on each bookie that lists."""
    listing = run.bookies.with_lists()
    mine = {bookie: density for bookie, density in densities.items() if bookie in listing}
    run.stages.test_lists(addresses, shard, ListTests(run.stages.terms.probe_seed, mine))


def read_more_in_doubt(run: AuditRun, shards: Sequence[Shard]) -> None:
    """Read more of what bookies in doubt list, still at the first look.

    Doubt may arise in any shard, and concerns all ledgers of the bookie. Those that the first look
    had settled are judged again by what was read, and may become suspects.
    """
    search = DoubtSearch(run.directory, run.store, run.stages.terms)
    listing, judgings = run.bookies.with_lists(), run.judgings.tables(1)
    found = run.journal.run_once("look 1: doubt", search.densities, listing, judgings)
    tests = search.tests_of(found)
    if tests is None:
        return
    for shard in shards:
        run.hours.await_open("load")
        addresses = run.bookies.directory(1)
        part = f"look 1 shard {shard.number}: reads in doubt"
        run.journal.run_once(part, run.stages.test_lists, addresses, shard, tests)
        run.judgings.judge(1, shard, retested=True)
        _read_missing_entries(run, 1, shard, addresses)


def _fix_terms(run: AuditRun, first: Shard, shards: int) -> None:
    """Judge from here on by terms that fit the number of entries."""
    run.stages.terms = run.sweep_planner.terms_by(first, shards)


def take_further_looks(run: AuditRun, shards: Sequence[Shard]) -> None:
    """Look at suspects again until each verdict may stand.

    The bookies are greeted again too if one was silent, or if they would block the recovery of an
    open ledger. The mark and the metadata come first, then the bookies that must be asked.
    """
    look = 1
    blocked = run.journal.run_once("look 1: open ledgers", _count_blocked_open, run)["blocked"]
    greets = run.bookies.has_silent() or blocked > 0
    while run.judgings.count_left(look, Todo.LOOK) or (look == 1 and greets):
        look += 1
        assert look <= run.stages.terms.looks_max + 2, "first_checker.recheck bounds the looks"
        waits = run.judgings.wants_second_opinion(look - 1)
        waits = waits or (look == 2 and greets)
        if not run.journal.has(f"look {look}: over"):
            # A resumed run refreshes too: a gone bookie may be back, and restarting now.
            run.bookies.refresh_registrations()
            if waits:
                pause_s = run.bookies.pause_ms(look, *run.waits_ms) / 1000
                run.progress.pause(pause_s)
                run.stop.wait(pause_s)
        asked = [_look_again(run, look, shard) for shard in shards if _is_due(run, look, shard)]
        if any(asked):
            run.bookies.record_greetings(look)
        run.journal.run_once(f"look {look}: over", dict)


def _count_blocked_open(run: AuditRun) -> StageResult:
    """Count the open ledgers whose recovery would be blocked, by the first look at the bookies."""
    found = blocked_open(run.directory, by_look(run.bookies.seen), run.bookies.maintenance)
    return {"blocked": len(found.ledgers)}


def _is_due(run: AuditRun, look: int, shard: Shard) -> bool:
    """Return whether a shard takes part in a look: it has suspects, or its bookies are greeted."""
    return _greets(look, shard) or run.judgings.count_left(look - 1, Todo.LOOK, shard) > 0


def _greets(look: int, shard: Shard) -> bool:
    """Return whether every bookie is greeted again with this shard: once, at the second look."""
    return look == 2 and shard.number == 0


def _look_again(run: AuditRun, look: int, shard: Shard) -> bool:
    """Take a later look at the suspects of one shard. Return whether bookies were asked."""
    part = f"look {look} shard {shard.number}"
    run.hours.await_open("second look")
    addresses = run.bookies.directory(look)
    run.journal.run_once(f"{part}: metadata", run.stages.read_ledgers, look, shard)
    run.judgings.judge(look, shard)
    judging = run.judgings.latest
    asks = _greets(look, shard) or run.judgings.count_left_by_latest(Todo.LISTS) > 0
    if asks:
        run.journal.run_once(
            f"{part}: lists", run.stages.ask_lists, look, addresses, shard, judging
        )
        run.progress.silent(run.bookies.silent_so_far())
        run.judgings.judge(look, shard, (judging, Todo.LISTS))
    _read_missing_entries(run, look, shard, addresses)
    return asks


def _read_missing_entries(run: AuditRun, look: int, shard: Shard, addresses: Directory) -> None:
    """Read entries and judge with them, until no ledger needs another read."""
    around = run.stages.terms.around  # in a resumed run, bookies may have gone meanwhile
    bookies = max(len(addresses.addresses), len(around.writable | around.readonly))
    rounds, rounds_max = 0, reading_rounds_max(run.stages.terms, bookies)
    while run.judgings.count_left_by_latest(Todo.READS):
        rounds += 1
        assert rounds <= rounds_max, "ledgers want more entries read than is allowed"
        judging = run.judgings.latest
        allowed = run.bookies.with_searches_left(addresses)
        stage = f"look {look}: reads of judging {judging}"
        run.journal.run_once(stage, run.stages.read_entries, look, judging, allowed)
        run.judgings.judge(look, shard, (judging, Todo.READS))


def _look_at_marks_again(run: AuditRun) -> StageResult:
    problem = run.mark_looks.look_again(run.waits_ms[0], run.stop.wait)
    return {PROBLEMS: [problem] if problem else []}


def _relist(run: AuditRun) -> StageResult:
    problem = run.relisting.relist_if_dropped(run.waits_ms[0], run.stop.wait)
    return {PROBLEMS: [problem] if problem else []}


def _count_problem(count: int, what: str) -> list[str]:
    return [f"{count} {what}"] if count else []
