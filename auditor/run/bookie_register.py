"""Keep track of the bookies over one run: their addresses and greetings, and how long to wait for
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.bookie.address_table import AddressTable
from auditor.bookie.exchange import Hurry
from auditor.bookie.listers import Listers
from auditor.clock import now_ms
from auditor.evidence.journal import Journal
from auditor.evidence.rows import bookie_records, bookie_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.run_tables import NewRows
from auditor.evidence.schemas import ANSWERS, BOOKIES, LEDGERS, READS
from auditor.findings.bookies import (
    BRIEF_ANSWERS,
    GREETINGS,
    IS_MARKED,
    MARK_KEY,
    UNHEARD_OR_GREETING,
    by_look,
    recovery_gap_ms,
    unmarked_rows,
    with_greetings,
)
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    WHILE_OTHERS_CAME,
    AnswerStatus,
    Greeting,
    ReadStatus,
)
from auditor.model.cluster import BookieRecord, ClusterFacts
from auditor.model.identity import BookieId
from auditor.stages.asking import Directory
from auditor.zookeeper.metadata_store import MetadataStore

LAST = 0
"""The number of a reading of bookies that follows the last look and belongs to none."""
GAP_MARGIN_MS = 1_000
"""Added to the time that must pass between two looks at a lost bookie: rounding must not make it
too short."""


@dataclass(slots=True)
class BookieRegister:
    """The bookies of a run, updated look by look.

    Call `directory` before the bookies are asked about a shard, and `record_greetings` after they
    were asked about all.
    """

    store: MetadataStore
    run: Place
    journal: Journal
    facts: ClusterFacts
    maintenance: frozenset[BookieId] = frozenset()
    """Bookies that are known to be down: the run does not wait for them."""
    search_reads_max: int = 0
    """Per run and bookie: at most this many reads of entries that belong elsewhere."""
    resumptions: int = 0
    """How often the run was resumed."""
    listers: Listers | None = None
    """Where the bookies' listers are; None if no lister is asked."""
    greets_all: bool = True
    """Whether bookies are greeted that no ledger names."""
    hurry: Hurry | None = None
    """How long bookies may take to list; None: the whole time-out of a request."""
    seen: list[BookieRecord] = field(default_factory=list)
    """Every bookie at every look that is over, with its greeting."""
    registered: list[BookieRecord] = field(default_factory=list)
    """The bookies as ZooKeeper has them at the current look."""
    _listed: set[BookieId] = field(default_factory=set)
    """Bookies that gave a list in this run, whatever they did later."""
    _unable: set[BookieId] = field(default_factory=set)
    """Bookies that showed in this run that they cannot list."""
    _unanswered: Counter[BookieId] = field(default_factory=Counter)
    """By bookie, the lists that it left unanswered while it answered other requests."""
    _silent: set[BookieId] = field(default_factory=set)
    """Bookies that were silent or refused in their newest conversation of this run."""
    _denied: dict[BookieId, str] = field(default_factory=dict)
    """By bookie, what it denied of its lister's lists in this run."""
    _searches: Counter[BookieId] = field(default_factory=Counter)
    """By bookie, the reads in this run of entries that belong elsewhere."""
    _new_answers: NewRows = field(init=False)
    _new_reads: NewRows = field(init=False)

    def __post_init__(self) -> None:
        self._new_answers = NewRows(self.run, "evidence/answers", ANSWERS)
        self._new_reads = NewRows(self.run, "evidence/reads", READS)

    def directory(self, look: int) -> Directory:
        """Return the addresses of the bookies now, which ones the cluster knows, and which can
        list.

        Whether a bookie can list is taken from this run so far.
        """
        if look != 1 or self._was_asked():
            self.store.sync()
        self.registered = self.store.bookies(look, now_ms)
        known = AddressTable.from_records(self.registered)
        self._note_abilities()
        listers = (
            None if self.listers is None else replace(self.listers, not_believed=dict(self._denied))
        )
        listed = frozenset(self._listed)
        unable = frozenset(self._unable) - listed
        return Directory(
            known.addresses,
            unable,
            known.cookies,
            listed,
            unanswered=dict(self._unanswered) if look == 1 else {},
            listers=listers,
            greets_all=self.greets_all,
            hurry=self.hurry,
        )

    def with_searches_left(self, directory: Directory) -> Directory:
        """Return the directory with, by bookie, the reads left of entries that belong elsewhere.

        The reads are counted from what is written: a resumed run continues the count. Costs reading
        three columns of the reads that were written since the last call, batch by batch.
        """
        for batch in self._new_reads.batches(["bookie_id", "is_search", "status"]):
            sent = batch.filter(
                pc.and_(
                    batch["is_search"], pc.not_equal(batch["status"], ReadStatus.NOT_ASKED.value)
                )
            )
            for row in pc.value_counts(sent["bookie_id"]).to_pylist():
                self._searches[row["values"]] += row["counts"]
        bound = self.search_reads_max
        left = {bookie: max(0, bound - self._searches[bookie]) for bookie in directory.addresses}
        return replace(directory, searches_left=left)

    def directory_behind(self) -> Directory:
        """Return the addresses of the bookies after the last look."""
        return self.directory(LAST)

    def record_greetings(self, look: int) -> None:
        """Record how each bookie was registered at this look and how it greeted us ->
        evidence/bookies.
        """

        def work() -> None:
            seen = with_greetings(self.registered, self._answer_statuses(look), look)
            self.run.write_table(
                "evidence/bookies",
                table(BOOKIES, [bookie_row(record) for record in seen]),
                f"look-{look:02}",
            )

        self.journal.run_once(f"look {look}: bookies", work)
        self.seen += bookie_records(
            self.run.read_table("evidence/bookies", BOOKIES, pc.field("look") == look)
        )

    def refresh_registrations(self) -> None:
        """Record which bookies came back before a resumed run continues -> evidence/bookies.

        Without this, a bookie that restarts twice, before the interruption and after, would look as
        if it had never come back.
        """

        def work() -> None:
            now = {
                record.bookie_id: record
                for record in self.store.bookies(0, now_ms)
                if record.is_registered
            }
            gone = [
                record
                for record in self._newest()
                if not record.is_registered and record.bookie_id in now
            ]
            back = [
                replace(
                    record, registration=now[record.bookie_id].registration, read_at_ms=now_ms()
                )
                for record in gone
            ]
            self.run.write_table(
                "evidence/bookies",
                table(BOOKIES, map(bookie_row, back)),
                f"back-{self.resumptions:03}",
            )
            self.seen += back

        if self.resumptions:
            self.journal.run_once(f"resumption {self.resumptions}: bookies that are back", work)

    def has_silent(self) -> bool:
        """Return whether a registered bookie must be asked again even if no ledger needs it."""
        return any(
            record.greeting is Greeting.SILENT and record.bookie_id not in self.maintenance
            for record in self.seen
        )

    def silent(self) -> frozenset[BookieId]:
        """Return the bookies that did not answer or refused at the last finished look."""
        return frozenset(
            record.bookie_id
            for record in self._newest()
            if record.greeting in (Greeting.SILENT, Greeting.REFUSED)
        )

    def silent_so_far(self) -> frozenset[BookieId]:
        """Return the bookies that were silent or refused when they were last asked.

        It is for the progress display: they may still answer in the current look.
        """
        self._note_abilities()
        return frozenset(self._silent)

    def with_lists(self) -> frozenset[BookieId]:
        """Return the bookies that gave a list themselves, and were not silent since.

        A list from a lister does not count: its bookie has DbLedgerStorage, which reads ahead, and
        then serves entries that its index has lost.
        """
        self._note_abilities()
        return frozenset(self._listed - self._silent)

    def pause_ms(self, look: int, delay_ms: int, longest_ms: int) -> int:
        """Return how long to wait before `look`: the delay, or longer if a bookie with a cookie is
        gone.

        That bookie may be restarting, and the cluster may know. If finding out would take longer
        than `longest_ms`, the run does not wait: a later run, which knows since when the bookie is
        gone, reports it. The run does not wait either while auto-recovery is disabled: then a
        bookie with a cookie is never reported (`findings.bookies.withheld` says why).
        """
        gap_ms = recovery_gap_ms(self.facts) + GAP_MARGIN_MS
        if (
            look > 2
            or gap_ms > longest_ms
            or self.facts.replication_disabled
            or not self._may_be_restarting(look - 1)
        ):
            return delay_ms
        return max(delay_ms, gap_ms)

    def _may_be_restarting(self, look: int) -> bool:
        gone = [
            record for record in self._newest() if record.has_cookie and not record.is_registered
        ]
        missing = {record.bookie_id for record in gone} - self.maintenance
        if not missing:
            return False
        unregistered = self._answer_statuses(look).filter(
            pc.field("status") == Greeting.UNREGISTERED.value
        )
        ledgers = self.run.scan("evidence/ledgers", LEDGERS).parts_with("mark")
        marks = ledgers.table(MARK_KEY, IS_MARKED & (pc.field("look") == look))
        # the cluster already misses a bookie that only marked ledgers name
        unregistered = unmarked_rows(unregistered.select(BRIEF_ANSWERS.names), marks)
        return not missing.isdisjoint(unregistered["bookie_id"].to_pylist())

    def _newest(self) -> list[BookieRecord]:
        """Return the bookies as of the last finished look; none if there is no bookie at all."""
        return [record for look in by_look(self.seen)[-1:] for record in look.values()]

    def _was_asked(self) -> bool:
        return self.run.has_table("evidence/answers")

    def _note_abilities(self) -> None:
        """Record which bookies the newly written answers show to be able, or unable, to list.

        Costs reading four columns of the answers that were written since the last call.
        """
        names = ["bookie_id", "status", "detail"]
        for batch in self._new_answers.batches(["ledger_id", *names], words=names):
            is_greeting = pc.is_null(batch["ledger_id"])
            greetings = batch.filter(is_greeting)
            for bookie, status, detail in _rows_in(greetings, names):
                if detail is not None and detail.startswith(LISTER_CONTRADICTED):
                    self._denied[bookie] = detail
                if status == Greeting.UNSUPPORTED.value:
                    self._unable.add(bookie)
            self._note_silence(greetings)
            # Most answers are alike but for the bookie.
            kinds = pa.Table.from_batches([batch.select(names)]).group_by(names)
            counts = kinds.aggregate([([], "count_all")])
            for bookie, status, detail, count in _rows_in(counts, [*names, "count_all"]):
                has_list = status == AnswerStatus.HELD.value and detail is not None
                if has_list and not detail.startswith(LISTED_BY_LISTER):
                    self._listed.add(bookie)
                is_overdue = (detail or "").endswith(WHILE_OTHERS_CAME)
                if is_overdue and status == AnswerStatus.TIMED_OUT.value:
                    self._unanswered[bookie] += count

    def _note_silence(self, greetings: pa.RecordBatch) -> None:
        """Record how the bookies of these rows behaved as a whole."""
        for bookie, status in zip(
            greetings["bookie_id"].to_pylist(), greetings["status"].to_pylist(), strict=True
        ):
            if status in (Greeting.SILENT.value, Greeting.REFUSED.value):
                self._silent.add(bookie)
            else:
                self._silent.discard(bookie)

    def _answer_statuses(self, look: int) -> pa.Table:
        """Return how the bookies of one look behaved, without reading what they hold."""
        return self.run.read_table(
            "evidence/answers", GREETINGS, (pc.field("look") == look) & UNHEARD_OR_GREETING
        )


def _rows_in(rows: pa.RecordBatch | pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the cells of the named columns, row by row."""
    return zip(*(rows[name].to_pylist() for name in names), strict=True)
