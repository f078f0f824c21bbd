"""The whole audit of a cluster. Read this file first.

The looks at ledgers are in `auditor.run.looks`. Around them stands what concerns the whole cluster:
the listing, marks of ledgers that were not listed, the references of Pulsar's topics, bookies under
another name. A run works only during the hours that the operator allows (`--window`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.evidence.ids import Shard, cut_shards
from auditor.evidence.journal import LISTED, PROBLEMS, REFERENCES, StageResult
from auditor.evidence.schemas import LISTING
from auditor.findings.bookies import by_look
from auditor.findings.open_ledgers import blocked_open
from auditor.first_checker.spot_reads import Density, ListTests
from auditor.model.cluster import BookieRecord
from auditor.run.carried_reads import copies_read_before
from auditor.run.carrying import Carrying, arcs_in
from auditor.run.closing_looks import MarkLooks, Relisting, RenameSearch
from auditor.run.judging_rounds import SweepPlanner
from auditor.run.looks import Looks
from auditor.run.metadata_comparison import MetadataLook
from auditor.run.poison_evidence import keep_poison
from auditor.run.reference_looks import TOPICS_AT, ReferenceLooks
from auditor.run.request_counts import count_silent_parents
from auditor.run.scrub_reports import ScrubReports
from auditor.stages.selection import first_asked
from auditor.stages.stages import Request
from auditor.zookeeper.ledgers import Marks

CHOSEN = "due"
"""The stage that chooses the ledgers that a run with a period asks about."""
SCRUBBED = "scrubs"
"""The stage that asks for the reports of scrubs, before the ledgers are chosen that they name."""


@dataclass(slots=True)
class Audit(Looks):
    """The audit of one cluster.

    `shard_ledgers`: ledgers that go through the stages together. A killed run repeats at most one
    shard, and a request about the next, or at a later look the suspects of several.
    """

    relisting: Relisting
    mark_looks: MarkLooks
    reference_looks: ReferenceLooks
    metadata_look: MetadataLook
    rename_search: RenameSearch
    sweep_planner: SweepPlanner
    scrub_reports: ScrubReports
    carrying: Carrying | None
    """None if every listed ledger is asked about."""
    shard_ledgers: int

    def run(self, ledger_ids: Sequence[int] | None) -> list[BookieRecord]:
        """Look at every ledger once and at every suspect twice. Return every bookie at every look.

        Leaves the evidence and one verdict a ledger in the run's directory. `ledger_ids` limits the
        audit to the ledgers that an operator named. Stages that the journal has are not repeated.
        Raises StoreUnavailable, SparkJobFailed, OutputError, Interrupted.
        """
        run_once, references = self.journal.run_once, self.reference_looks
        self.hours.progress.stage("load")
        topics_at = run_once(REFERENCES, references.record_first).get(TOPICS_AT)
        shards = self.list_ledgers(ledger_ids)
        run_once("referenced ledgers", references.read_unlisted)
        run_once(SCRUBBED, self.scrub_reports.ask)
        self.take(shards)
        if self.carrying is not None:
            run_once("carried ledgers", self.carrying.write_ledgers)
        self.hours.await_open("second look")
        delay_ms, wait = self.waits_ms[0], self.hours.stop.wait
        run_once("marks again", self._look_at_marks_again)
        run_once("lists of topics", references.compare_lists)
        run_once("references again", references.look_again, delay_ms, wait, topics_at)
        run_once("listing again", self._relist)
        run_once("metadata of the earlier run", self.metadata_look.compare, wait)
        run_once("renames", self.rename_search.ask, self.bookies.silent())
        self.judgings.commit()
        if self.carrying is not None:
            chosen = run_once(CHOSEN, self.carrying.choose)
            run_once("carried verdicts", self.carrying.write_verdicts, chosen, self.bookies.seen)
        keep_poison(self.directory)
        return self.bookies.seen

    def list_ledgers(self, ledger_ids: Sequence[int] | None) -> list[Shard]:
        """Write the listing before anything is read, and return the shards to go through."""
        result = self.journal.run_once(LISTED, self._write_listing, ledger_ids)
        self.relisting.began_at_ms = result["began_at_ms"]
        if self.carrying is not None:
            self.hours.await_open("load")  # copies of carried ledgers are read
            self.journal.run_once(SCRUBBED, self.scrub_reports.ask)
            scrubbed = self.scrub_reports.ledgers()
            chosen = self.journal.run_once(CHOSEN, self.carrying.choose, scrubbed)
            self.sweep_planner.carried_arcs = arcs_in(chosen)
        listing = self.directory.read_table(first_asked(self.directory), LISTING)
        return cut_shards(listing["ledger_id"], result["shard_ledgers"])

    def _write_listing(self, ledger_ids: Sequence[int] | None) -> StageResult:
        self.relisting.start()
        problems = []
        if ledger_ids is None:
            listing = self.store.listing_partitions()
            problems = _count_problem(
                listing.unexpected_znodes,
                "znodes above the ledgers belong to no ledger of this layout",
            )
            # A run with a period asks about few ledgers, and seldom needs Spark for them.
            is_here = self.carrying is not None and self.carrying.base is not None
            if self.stages.list_ledgers(listing.partitions, is_here=is_here):
                count_silent_parents(self.directory, "evidence/listing", listing, self.store.counts)
            self.relisting.record_first()
            self.begin_reads()
        else:
            self.take_listing(ledger_ids)
        began_at_ms = self.relisting.began_at_ms
        return {
            "began_at_ms": began_at_ms,
            "shard_ledgers": self.shard_ledgers,
            PROBLEMS: problems,
        }

    def read_metadata(self, shard: Shard) -> StageResult:
        """Write the marks, then the metadata of every ledger of a shard. Nothing is judged yet."""
        marks = self.store.marks()
        self._reading(shard, marks).ask()
        if shard.number > 0:
            return {}
        self.mark_looks.record_first(marks)
        problems = _count_problem(
            marks.unexpected_znodes,
            "znodes among the under-replication marks mark nothing at their place, such as"
            f" {''.join(marks.malformed[:1])}",
        )
        unread = [problem for problem in (marks.problem, marks.lock_problem) if problem]
        return {PROBLEMS: [*problems, *unread]}

    def reading(self, shard: Shard) -> Request:
        """List the marks, and return the request for the metadata of a shard."""
        return self._reading(shard, self.store.marks())

    def _reading(self, shard: Shard, marks: Marks) -> Request:
        # If some marks cannot be listed, each ledger's own mark is read: unlisted is not unmarked.
        return self.stages.reading(1, shard, None if marks.problem else marks.by_ledger)

    def plan_tests(self, first: Shard, shards: int) -> ListTests | None:
        """Return how lists are tested. From here on, judge by terms that fit the number of entries.

        The metadata of the first of `shards` shards was read.
        """
        self.stages.terms = self.sweep_planner.terms_by(first, shards)
        reading = self.sweep_planner.about.reading
        densities = {bookie: Density(arc) for bookie, arc in reading.arcs.items()}
        if not densities:
            return None
        read = frozenset() if self.carrying is None else copies_read_before(self.directory)
        return ListTests(reading.starts, densities, already_read=read)

    def read_named(self, shards: Sequence[Shard]) -> None:
        """Read the entries that scrubs named on a bookie, still at the first look.

        It comes after the absences of all ledgers were confirmed: a read makes a bookie with
        DbLedgerStorage cache what follows in the log, even entries that its index has lost.
        """
        for shard in shards:
            named = self.scrub_reports.entries_of(shard)
            if named:
                self.hours.await_open("load")
                addresses = self.bookies.directory(1)
                stage = f"look 1 shard {shard.number}: entries that scrubs named"
                self.journal.run_once(stage, self.stages.read_named, addresses, shard, named)
                self.judge_again(shard, addresses)

    def take_further(self, shards: Sequence[Shard]) -> None:
        """Look again at suspects, and at bookies that were silent or would block a recovery."""
        self.on_asked(1)
        self.hours.progress.stage("second look")
        Looks.take_further(self, shards)

    def should_greet_again(self) -> bool:
        """Return whether a bookie was silent, or would block the recovery of an open ledger."""
        blocked = self.journal.run_once("look 1: open ledgers", self._count_blocked_open)
        return self.bookies.has_silent() or blocked["blocked"] > 0

    def on_asked(self, look: int) -> None:
        """Record how each bookie behaved at this look -> evidence/bookies."""
        self.bookies.record_greetings(look)

    def _count_blocked_open(self) -> StageResult:
        """Count the open ledgers whose recovery would be blocked, by the first look at the
        bookies.
        """
        looks = by_look(self.bookies.seen)
        found = blocked_open(self.directory, looks, self.bookies.maintenance)
        return {"blocked": len(found.ledgers)}

    def _look_at_marks_again(self) -> StageResult:
        problem = self.mark_looks.look_again(self.waits_ms[0], self.hours.stop.wait)
        return {PROBLEMS: [problem] if problem else []}

    def _relist(self) -> StageResult:
        problem = self.relisting.relist_if_dropped(self.waits_ms[0], self.hours.stop.wait)
        return {PROBLEMS: [problem] if problem else []}


def _count_problem(count: int, what: str) -> list[str]:
    return [f"{count} {what}"] if count else []
