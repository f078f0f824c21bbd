"""The whole audit of a cluster, as a Spark job. THE FILE TO READ.

Evidence first, judgement second: each stage writes one table and the next one reads what was written. Every ledger is looked
at once and every suspect at least twice (BP-34); nothing is reported before its metadata was read again behind the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from auditor.accounting.bookies import TOLD, UNHEARD_OR_GREETING, by_look, with_greetings
from auditor.clock import now_ms
from auditor.evidence.rows import bookie_row, table
from auditor.evidence.schemas import BOOKIES, READS
from auditor.judgement import Todo
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.report.progress import Progress
from auditor.report.run_directory import Place
from auditor.stop import StopRequest
from auditor.tables.lanes import Directory
from auditor.tables.stages import Stages
from auditor.tables.verdicts import STEPS
from auditor.verify.reachability import recovery_gap_ms
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(slots=True)
class Audit:
    """One audit as it goes. `waits_ms`: the second-look delay, and the longest wait for a bookie that may be restarting."""

    stages: Stages
    store: MetadataStore
    run: Place
    stop: StopRequest
    progress: Progress
    waits_ms: tuple[int, int]
    registered: list[BookieRecord] = field(default_factory=list)
    """The bookies as the metadata service has them at the present look."""
    bookies: list[BookieRecord] = field(default_factory=list)
    """Every bookie at every look that is over, with how it greeted us."""
    judgings: list[tuple[int, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Sentences on what was odd but did not stand in the way."""

    def listen(self, ledger_ids: Sequence[int] | None) -> None:
        """The listing, the marks, and then the metadata of every ledger: written, counted, not judged yet."""
        if ledger_ids is None:
            listing = self.store.listing_partitions()
            self._odd(listing.unexpected_znodes, "znodes above the ledgers belong to no ledger of this layout")
            self.stages.list_ledgers(listing.partitions)
        else:
            self.stages.take_listing(ledger_ids)
        self.run.write_table("evidence/reads", READS.empty_table(), "none")
        marks = self.store.marks()
        self._odd(marks.unexpected_znodes, "znodes among the under-replication marks mark nothing at their place")
        self.problems += [marks.problem] if marks.problem else []
        # Where a part of the marks may not be listed, each ledger's own is read with its metadata: unlisted is not unmarked.
        self.stages.read_ledgers(look=1, marks=None if marks.problem else marks.by_ledger)

    def first_look(self) -> None:
        """Every bookie about every closed ledger; what its list lacks is read there."""
        directory = self._directory(look=1)
        self.progress.stage("ask", len(directory.addresses))
        self.stages.ask_lists(1, directory)
        self._greeted(1)
        self.progress.stage("judge")
        self._judge(1, directory)

    def further_looks(self) -> None:
        """Suspects again, until each one's verdict may stand: the mark and the metadata first, then whoever must be asked."""
        look = 1
        while self._count(look, Todo.LOOK) or (look == 1 and self._someone_was_silent()):
            look += 1
            assert look <= self.stages.terms.looks_max + 2, "every ledger settles within the bound of `confirm.recheck`"
            if look == 2 or self._waits(look - 1):
                self.stop.wait(self._pause_ms(look) / 1000)
            directory = self._directory(look)
            self.stages.read_ledgers(look)
            self._step(look, None)
            if look == 2 or self._count(look, Todo.LISTS):
                self.stages.ask_lists(look, directory)
                self._step(look, (0, Todo.LISTS))
                self._greeted(look)
            self._read_what_is_lacking(look, directory)

    def commit(self) -> list[BookieRecord]:
        """One verdict a ledger, from whichever judging settled it."""
        self.stages.commit(self.judgings)
        rows = [bookie_row(record) for record in self.bookies]
        self.run.write_table("evidence/bookies", table(BOOKIES, rows), "bookies")
        self.run.remove("steps")
        return self.bookies

    def _odd(self, count: int, what: str) -> None:
        if count:
            self.problems.append(f"{count} {what}")

    def _judge(self, look: int, directory: Directory) -> None:
        self._step(look, None)
        self._read_what_is_lacking(look, directory)

    def _read_what_is_lacking(self, look: int, directory: Directory) -> None:
        """Confirming reads, and judging again with them, until no ledger wants another: each round makes at least one more of
        a ledger's reads, and each bookie is good for `confirming_reads_max` of them."""
        for _ in range(self.stages.terms.confirming_reads_max * len(directory.addresses) + 1):
            judging = self.judgings[-1][1]
            if not self._count(look, Todo.READS, judging):
                return
            self.stages.read_entries(look, judging, directory)
            self._step(look, (judging, Todo.READS))
        raise AssertionError("ledgers want more confirming reads than all bookies together are allowed")

    def _step(self, look: int, only: tuple[int, Todo] | None) -> None:
        """Judge once more, and remember which judging it was."""
        judging = self.judgings[-1][1] + 1 if self.judgings and self.judgings[-1][0] == look else 0
        self.stages.judge(look, judging, only)
        self.judgings.append((look, judging))

    def _count(self, look: int, todo: Todo, judging: int | None = None) -> int:
        wanted = [one for one in self.judgings if one[0] == look and judging in (None, one[1])]
        return sum(self.run.count(self.stages.steps_name(*one), STEPS, pc.field("todo") == todo.value) for one in wanted)

    def _waits(self, look: int) -> bool:
        """Whether an open ledger wants a second opinion, not just its metadata read once more."""
        wanted = [one for one in self.judgings if one[0] == look]
        waiting = (pc.field("todo") == Todo.LOOK.value) & pc.field("wait")
        return any(self.run.count(self.stages.steps_name(*one), STEPS, waiting) for one in wanted)

    def _pause_ms(self, look: int) -> int:
        """The delay, or longer where a bookie that has a cookie is gone: it may be restarting, and the cluster may know."""
        delay, longest = self.waits_ms
        restarting = any(
            r.registration is Registration.NONE and r.has_cookie and r.bookie_id in self._orphaned(look - 1)
            for r in by_look(self.bookies)[-1].values()
        )
        gap = recovery_gap_ms(self.stages.facts) + _GAP_MARGIN_MS
        if look > 2 or not restarting or gap > longest:
            return delay  # beyond the longest wait nothing is said of the bookie, and `withheld` says so
        return max(delay, gap)

    def _orphaned(self, look: int) -> set[str]:
        asked = self._answers(look)
        return set(asked.filter(pc.field("status") == Greeting.UNREGISTERED.value)["bookie_id"].to_pylist())

    def _answers(self, look: int) -> pa.Table:
        """How the bookies of one look behaved; what they hold stays where it is."""
        return self.run.read_table("evidence/answers", TOLD, (pc.field("look") == look) & UNHEARD_OR_GREETING)

    def _directory(self, look: int) -> Directory:
        """Where the bookies are now; those that cannot list were found out at an earlier look."""
        if look > 1:
            self.store.sync()
        self.registered = self.store.bookies(look, now_ms)
        addresses = {
            record.bookie_id: (record.host, record.port) if record.host is not None and record.port is not None else None
            for record in self.registered
            if record.registration is not Registration.NONE
        }
        unsupported = {record.bookie_id for record in self.bookies if record.greeting is Greeting.UNSUPPORTED}
        return Directory(addresses, frozenset(unsupported))

    def _greeted(self, look: int) -> None:
        """Keep how each bookie was registered and how it greeted us."""
        self.bookies += with_greetings(self.registered, self._answers(look), look)

    def _someone_was_silent(self) -> bool:
        return any(record.greeting is Greeting.SILENT for record in self.bookies)


_GAP_MARGIN_MS = 1_000
"""Beyond the gap two looks at a lost bookie must have, so that rounding does not undercut it."""


def audit(look: Audit, ledger_ids: Sequence[int] | None) -> list[BookieRecord]:
    """Look at every ledger once, and at every suspect twice. Leaves the evidence and one verdict a ledger in the run's
    directory; returns every bookie at every look. Raises StoreUnavailable, Interrupted, AccountingError."""
    look.progress.stage("load")
    look.listen(ledger_ids)
    look.first_look()
    look.progress.stage("second look")
    look.further_looks()
    return look.commit()
