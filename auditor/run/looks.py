"""The looks at ledgers: at every ledger once, at every suspect at least twice (BP-34).

Evidence first, judgement second: each stage writes one table, and the next stage reads it. Nothing
is reported before its metadata was read again after the evidence. The same tables let a killed run
resume: `journal.run_once` skips a stage that is written already.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise

from auditor.evidence.ids import Shard, first_of_each_group, join_shards
from auditor.evidence.journal import Journal, StageResult
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, READS, with_pace, with_read_counts
from auditor.first_checker.circle import Starts
from auditor.first_checker.spot_reads import Density, ListTests
from auditor.judging.settle import Todo, reading_rounds_max
from auditor.run.ahead import Ahead
from auditor.run.bookie_register import BookieRegister
from auditor.run.judging_rounds import DoubtSearch, Judgings
from auditor.run.open_hours import OpenHours
from auditor.stages.asking import Directory
from auditor.stages.stages import ListRequest, Request, Stages
from auditor.summary.due_copies import DUE_COLUMNS, due_by_bookie
from auditor.telemetry.progress import LedgersDone
from auditor.zookeeper.metadata_store import MetadataStore


def _part_of(shard: Shard) -> str:
    """Return how the stages of a shard are named at the first look."""
    return f"look 1 shard {shard.number}"


FIRSTS = "firsts"
"""The field of the journal with the places at which groups of shards begin."""


@dataclass(slots=True)
class Looks:
    """The looks of one audit, which leave its evidence and its judgings in `directory`.

    By themselves they are an audit of a few named ledgers: each ledger's mark is read with its
    metadata, and lists are tested at the ends of segments too. `auditor.run.pipeline.Audit` is the
    audit of a cluster. `waits_ms`: the second-look delay, and the longest wait for a bookie that
    may be restarting. `ahead` does what Spark may do ahead; None: nothing.
    """

    bookies: BookieRegister
    judgings: Judgings
    hours: OpenHours
    waits_ms: tuple[int, int]
    ahead: Ahead | None

    @property
    def stages(self) -> Stages:
        return self.judgings.stages

    @property
    def journal(self) -> Journal:
        return self.judgings.journal

    @property
    def directory(self) -> Place:
        return self.judgings.run

    @property
    def store(self) -> MetadataStore:
        return self.bookies.store

    def take(self, shards: Sequence[Shard]) -> None:
        """Look at the listed ledgers, shard by shard, until each has a verdict."""
        self.take_first(shards)
        self.read_named(shards)
        self.read_more_in_doubt(shards)
        if len(shards) > 1:
            self.stages.suspects.release()  # later looks join shards, and read few of their rows
        self.take_further(shards)
        self.stages.release()

    def take_listing(self, ids: Sequence[int]) -> None:
        """Write the ids of the ledgers to look at."""
        self.stages.take_listing(ids)
        self.begin_reads()

    def begin_reads(self) -> None:
        """Write the table of reads without rows: many an audit reads no entry."""
        columns = with_pace(with_read_counts(READS))
        self.directory.write_table("evidence/reads", columns.empty_table(), "none")

    def take_first(self, shards: Sequence[Shard]) -> None:
        """Ask every bookie about every closed ledger, test its lists by reads, and read what they
        lack.

        While this process works on a shard, Spark may be one stage ahead on the next one: it reads
        metadata while answers are written, and asks for lists while ledgers are judged. Nobody else
        talks to ZooKeeper or to a bookie meanwhile.
        """
        listed = self.stages.suspects.count_listed()
        tests: ListTests | None = None
        asked: tuple[Directory, ListRequest] | None = None
        with closing(self.ahead) if self.ahead is not None else nullcontext():
            for shard, following in pairwise([*shards, None]):
                assert shard is not None
                part = _part_of(shard)
                if asked is None:
                    self.hours.await_open("load")
                is_new = not self.journal.has(f"{part}: lists")
                done = LedgersDone(listed * shard.number // len(shards), listed)
                ledgers = done if is_new else None
                self.hours.progress.stage("load", ledgers=ledgers)
                self.journal.run_once(f"{part}: metadata", self.read_metadata, shard)
                if shard.number == 0:
                    tests = self.plan_tests(shard, len(shards))
                addresses, request = asked or (self.bookies.directory(1), None)
                self.hours.progress.stage("ask", len(addresses.addresses), ledgers)
                self.journal.run_once(
                    f"{part}: lists", self._ask_lists, shard, addresses, request, following
                )
                self.hours.progress.silent(self.bookies.silent_so_far())
                self._await_metadata(following, len(addresses.addresses), ledgers)
                if tests is not None:
                    self.journal.run_once(
                        f"{part}: spot reads", self._test, addresses, shard, tests
                    )
                asked = self._ask_ahead(following)
                self.hours.progress.stage("judge", ledgers=ledgers)
                self.judgings.judge(1, shard)
                if self.judgings.count_left_by_latest(Todo.EVIDENCE):
                    self.judgings.judge(1, shard, (self.judgings.latest, Todo.EVIDENCE))
                self._read_missing_entries(1, shard, addresses)

    def _ask_lists(
        self,
        shard: Shard,
        addresses: Directory,
        asked: ListRequest | None,
        following: Shard | None,
    ) -> None:
        """Ask for the lists of a shard, unless that was `asked` ahead, and write them. Meanwhile
        read the metadata of the `following` shard.
        """
        request = asked or self.stages.asking(1, addresses, shard)
        if asked is None:
            request.ask()
        elif self.ahead is not None:
            self.ahead.hand_over()
        self._read_ahead(following)
        request.write()

    def _read_ahead(self, shard: Shard | None) -> None:
        """Begin to read the metadata of a shard ahead, if that may be."""
        if shard is None or self.ahead is None or not self.stages.may_ask_ahead():
            return
        if self.hours.is_open() and not self.journal.has(f"{_part_of(shard)}: metadata"):
            self.ahead.begin(self.reading(shard))

    def _await_metadata(
        self, shard: Shard | None, bookies: int, ledgers: LedgersDone | None
    ) -> None:
        """Wait for the metadata of a shard if it is read ahead."""
        if shard is None or self.ahead is None or not self.ahead.is_at_work:
            return
        self.hours.progress.stage("load", ledgers=ledgers)
        self.journal.run_once(f"{_part_of(shard)}: metadata", self.ahead.hand_over)
        self.hours.progress.stage("ask", bookies, ledgers)

    def _ask_ahead(self, shard: Shard | None) -> tuple[Directory, ListRequest] | None:
        """Begin to ask for the lists of a shard ahead, if its metadata was read. Return whom it
        asks and what.

        A shard whose metadata was read has begun, and is finished even outside the window.
        """
        if shard is None or self.ahead is None or not self.stages.may_ask_ahead():
            return None
        part = _part_of(shard)
        if not self.journal.has(f"{part}: metadata") or self.journal.has(f"{part}: lists"):
            return None
        addresses = self.bookies.directory(1)
        request = self.stages.asking(1, addresses, shard)
        self.ahead.begin(request)
        return addresses, request

    def read_metadata(self, shard: Shard) -> StageResult:
        """Read the mark and the metadata of every ledger of a shard. Nothing is judged yet."""
        self.reading(shard).ask()
        return {}

    def reading(self, shard: Shard) -> Request:
        """Return the request for the mark and the metadata of every ledger of a shard."""
        return self.stages.reading(1, shard)

    def plan_tests(self, first: Shard, shards: int) -> ListTests | None:
        """Return how lists are tested, after the metadata of the first of `shards` shards was read.

        Ends of segments go first. None if no list is tested.
        """
        terms = self.stages.terms
        reads_max = terms.spot_reads
        if reads_max < 1:
            return None
        due = due_by_bookie(self.directory.stream("evidence/ledgers", LEDGERS, DUE_COLUMNS))
        densities = {
            bookie: Density.within(reads_max, share.copies, share.ends, ends_max=reads_max)
            for bookie, share in due.items()
        }
        return ListTests(Starts(terms.probe_seed), densities, of_lists=True)

    def read_named(self, shards: Sequence[Shard]) -> None:
        """Do nothing: a cluster's audit reads the entries that scrubs named."""

    def _test(self, addresses: Directory, shard: Shard, tests: ListTests) -> None:
        """Read some entries on each bookie that lists."""
        listing = self.bookies.with_lists()
        mine = {bookie: density for bookie, density in tests.bookies.items() if bookie in listing}
        if mine:
            self.stages.test_lists(addresses, shard, replace(tests, bookies=mine))

    def read_more_in_doubt(self, shards: Sequence[Shard]) -> None:
        """Read more of what bookies in doubt list, still at the first look.

        Doubt may arise in any shard, and concerns all ledgers of the bookie. Those that the first
        look had settled are judged again by what was read, and may become suspects.
        """
        search = DoubtSearch(self.directory, self.store, self.stages.terms)
        listing, judgings = self.bookies.with_lists(), self.judgings.tables(1)
        found = self.journal.run_once("look 1: doubt", search.densities, listing, judgings)
        tests = search.tests_of(found)
        if tests is None:
            return
        for shard in shards:
            self.hours.await_open("load")
            addresses = self.bookies.directory(1)
            part = f"look 1 shard {shard.number}: reads in doubt"
            self.journal.run_once(part, self.stages.test_lists, addresses, shard, tests)
            self.judge_again(shard, addresses)

    def judge_again(self, shard: Shard, addresses: Directory) -> None:
        """Judge the ledgers that the first look had settled and of which more was read since."""
        self.judgings.judge(1, shard, retested=True)
        self._read_missing_entries(1, shard, addresses)

    def take_further(self, shards: Sequence[Shard]) -> None:
        """Look at suspects again until each verdict may stand.

        The mark and the metadata come first, then the bookies that must be asked. Neighbouring
        shards with few suspects go together.
        """
        look, greets = 1, self.should_greet_again()
        while self.judgings.count_left(look, Todo.LOOK) or (look == 1 and greets):
            look += 1
            assert look <= self.stages.terms.looks_max + 2, "first_checker.recheck bounds the looks"
            is_greeting = look == 2 and greets
            waits = self.judgings.wants_second_opinion(look - 1) or is_greeting
            if not self.journal.has(f"look {look}: over"):
                # A resumed run refreshes too: a gone bookie may be back, and restarting now.
                self.bookies.refresh_registrations()
                if waits:
                    self._pause(self.bookies.pause_ms(look, *self.waits_ms) / 1000)
            suspects = self._joined(look, shards)
            shards = list(suspects)
            due = [one for one in shards if suspects[one] or self._greets(look, one)]
            asked = [self._look_again(look, shard) for shard in due]
            if any(asked):
                self.on_asked(look)
            self.journal.run_once(f"look {look}: over", dict)

    def should_greet_again(self) -> bool:
        """Return whether bookies are greeted at the second look even if no ledger needs it."""
        return False

    def on_asked(self, look: int) -> None:
        """Do nothing: a cluster's audit records how each bookie behaved at this look."""

    def _pause(self, seconds: float) -> None:
        self.hours.progress.pause(seconds)
        self.hours.stop.wait(seconds)

    def _joined(self, look: int, shards: Sequence[Shard]) -> dict[Shard, int]:
        """Return the shards of a later look, joined from those of the look before, each with the
        number of its suspects.

        Joined ones have at most as many suspects as this process may take. The journal keeps which
        are joined: a resumed run may have another limit, and stages have the names of their shards.
        """
        suspects = [self.judgings.count_left(look - 1, Todo.LOOK, shard) for shard in shards]
        firsts = [0]
        if len(shards) > 1:
            firsts = self.journal.run_once(f"look {look}: shards", self._group, suspects)[FIRSTS]
        ends = [*firsts[1:], len(shards)]
        counts = [sum(suspects[first:end]) for first, end in zip(firsts, ends, strict=True)]
        return dict(zip(join_shards(shards, firsts), counts, strict=True))

    def _group(self, suspects: Sequence[int]) -> StageResult:
        return {FIRSTS: first_of_each_group(suspects, self.stages.suspects_max)}

    def _greets(self, look: int, shard: Shard) -> bool:
        """Return whether every bookie is greeted again with this shard: once, at the second
        look.
        """
        return self.bookies.greets_all and look == 2 and shard.number == 0

    def _look_again(self, look: int, shard: Shard) -> bool:
        """Take a later look at the suspects of one shard. Return whether bookies were asked."""
        part = f"look {look} shard {shard.number}"
        self.hours.await_open("second look")
        addresses = self.bookies.directory(look)
        self.journal.run_once(f"{part}: metadata", self.stages.read_ledgers, look, shard)
        self.judgings.judge(look, shard)
        judging = self.judgings.latest
        asks = self._greets(look, shard) or self.judgings.count_left_by_latest(Todo.LISTS) > 0
        if asks:
            self.journal.run_once(
                f"{part}: lists", self.stages.ask_lists, look, addresses, shard, judging
            )
            self.hours.progress.silent(self.bookies.silent_so_far())
            self.judgings.judge(look, shard, (judging, Todo.LISTS))
        self._read_missing_entries(look, shard, addresses)
        return asks

    def _read_missing_entries(self, look: int, shard: Shard, addresses: Directory) -> None:
        """Read entries and judge with them, until no ledger of the shard needs another read at this
        look.
        """
        around = self.stages.terms.around  # in a resumed run, bookies may have gone meanwhile
        bookies = max(len(addresses.addresses), len(around.writable | around.readonly))
        rounds, rounds_max = 0, reading_rounds_max(self.stages.terms, bookies)
        while self.judgings.count_left_by_latest(Todo.READS):
            rounds += 1
            if self.ahead is not None:
                self.ahead.finish()  # bookies are asked by one stage at a time
            assert rounds <= rounds_max, "ledgers want more entries read than is allowed"
            judging = self.judgings.latest
            allowed = self.bookies.with_searches_left(addresses)
            stage = f"look {look}: reads of judging {judging}"
            self.journal.run_once(stage, self.stages.read_entries, look, judging, allowed)
            self.judgings.judge(look, shard, (judging, Todo.READS))
        self.stages.set_suspects_aside(look, shard)
