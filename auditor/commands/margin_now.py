"""`auditor margin --now`: read ZooKeeper again, and answer whether bookies can be stopped now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from typing import TypeAlias

import numpy as np

from auditor.after.copies_now import (
    CopiesNow,
    Doubts,
    LedgersToRead,
    StoredZnodes,
    bookies_with_new_cookies,
    copies_now,
    doubts_in_use,
    ledgers_to_read,
)
from auditor.after.going_together import propose
from auditor.after.margin_now import (
    Harm,
    NowAnswer,
    Purpose,
    StateNow,
    Word,
    available_copies,
    count_unlocated,
    harm_of,
    largest_ensemble,
    loss_of,
    missing_bookies,
    repair_now,
)
from auditor.after.margin_now_text import is_basis_weak, now_json, now_text
from auditor.after.margin_of_run import StoredRun, margin_basis, read_znodes
from auditor.after.repairing import MarkedLedgers, marks_since, read_marked
from auditor.after.stored_copies import Ints, StoredCopies
from auditor.clock import now_ms, rfc3339, utc_now
from auditor.commands.endings import end_without_verdict
from auditor.commands.stored_run import refuse_damaged_run
from auditor.config.access import BookieAccess
from auditor.context import EXIT_FINDINGS, EXIT_SOUND, EXIT_UNKNOWN, Context
from auditor.credentials.checking import check_credentials
from auditor.errors import ConfigError, StoreUnavailable
from auditor.evidence.ids import distinct_numbers
from auditor.evidence.run_directory import place
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerRecord
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.ledgers import Marks
from auditor.zookeeper.metadata_store import MetadataStore, open_store

LOOK = 1
"""The look of what is read here. Each ledger is read once at a time."""
RECORDS_PER_BATCH = 10_000
"""Ledgers that are decoded at a time; then only their columns are kept."""
READINGS_MAX = 3
"""Times that ledgers are read, if bookies leave meanwhile. After that the answer is not known."""
BOOKIES_LEFT = "Bookies left while the ledgers were read: ask again"
NO_BOOKIE = "No bookie is registered"
BookiesMeant: TypeAlias = Callable[[StoredRun, str], list[BookieId]]
"""Returns the bookies that a name stands for."""

EXIT_CODES = {Word.GO: EXIT_SOUND, Word.NO_GO: EXIT_FINDINGS, Word.NOT_KNOWN: EXIT_UNKNOWN}


def margin_now(
    context: Context,
    run_dir: str,
    named: Sequence[str],
    purpose: Purpose,
    together_max: int | None,
    *,
    run: StoredRun,
    bookies_meant: BookiesMeant,
) -> int:
    """Print whether the named bookies can be stopped now, and return the exit code.

    With `together_max`, others that can go with them are added, up to this number in all. 0: GO.
    1: NO GO. 3: not known. 5: ZooKeeper is unreachable. Raises ConfigError if a name is unknown, or
    if the run is of another cluster.
    """
    settings = context.settings
    limits = settings.zookeeper_limits(1)
    check_credentials(BookieAccess(), limits.access)
    with refuse_damaged_run(context, run_dir):
        marked = read_marked(place(run_dir))
        znodes = read_znodes(place(run_dir), run.copies)
    uri = settings.metadata_service_uri or run.about.facts.metadata_service_uri
    try:
        with open_store(parse_uri(uri), limits) as store:
            context.progress.stage("read ledgers")
            gate = _Gate(context, store, run, znodes, marked, purpose)
            bookies = gate.find_bookies(named, bookies_meant)
            seen, answer = gate.answer(named, bookies, together_max)
            for problem in store.problems:
                context.note(problem)
    except StoreUnavailable as error:
        return end_without_verdict(context, run.summary.run_id, "UNREACHABLE", str(error))
    finally:
        context.progress.close()
    basis = margin_basis(seen, settings.evidence_age_max_ms / 1000)
    code = EXIT_CODES[answer.word(is_basis_weak(basis))]
    if settings.format == "json":
        context.say(json.dumps(now_json(basis, answer, code)) + "\n")
    else:
        context.say(now_text(basis, answer, code, context.screen))
    return code


@dataclass(frozen=True, slots=True)
class _Seen:
    """The cluster as it was read for the loss of some bookies.

    run: with the copies as they are now. available: those on bookies that are registered. doubted:
    copies of ledgers in use that are not sure.
    """

    run: StoredRun
    purpose: Purpose
    state: StateNow
    now: CopiesNow
    reading: LedgersToRead
    missing: frozenset[BookieId]
    available: StoredCopies
    doubted: Doubts
    new_cookies: tuple[BookieId, ...]
    locations: Mapping[BookieId, str]
    harms: dict[frozenset[BookieId], Harm] = field(default_factory=dict)
    """What was computed already, by the bookies that are lost."""

    def harm(self, bookies: frozenset[BookieId]) -> Harm:
        """Return what the loss of these bookies would do."""
        if bookies not in self.harms:
            self.harms[bookies] = self._harm(bookies)
        return self.harms[bookies]

    def _harm(self, bookies: frozenset[BookieId]) -> Harm:
        loss = loss_of(bookies, self.purpose, self.missing, self.state.writable())
        run = self.run
        return harm_of(
            self.available,
            self.now.in_use,
            self.doubted,
            run.bookies,
            self.locations,
            loss,
            self.purpose,
        )

    def can_go(self, bookies: frozenset[BookieId]) -> bool:
        """Return whether the loss of these bookies would harm no ledger."""
        harm = self.harm(bookies)
        return not harm.is_sure and not harm.is_possible

    def propose(self, asked: frozenset[BookieId], together_max: int) -> tuple[BookieId, ...]:
        """Return bookies that can go together with `asked`."""
        others = sorted(self.state.registered() - asked)
        return propose(
            others,
            self.locations,
            together_max - len(asked),
            lambda chosen: self.can_go(asked | chosen),
        )

    def least_harmful(self) -> frozenset[BookieId]:
        """Return the registered bookie whose loss alone harms least; empty without any."""

        def rank(bookie: BookieId) -> tuple[bool, bool, BookieId]:
            harm = self.harm(frozenset({bookie}))
            return harm.is_sure, harm.is_possible, bookie

        return frozenset(sorted(self.state.registered(), key=rank)[:1])


class _Gate:
    """Reads the cluster of a stored run. The listing and the marks are read once, before the
    ledgers: a replication worker removes a mark after it wrote the metadata.
    """

    def __init__(
        self,
        context: Context,
        store: MetadataStore,
        run: StoredRun,
        znodes: StoredZnodes,
        marked: MarkedLedgers,
        purpose: Purpose,
    ) -> None:
        self._context, self._store, self._run = context, store, run
        self._znodes, self._marked_then, self._purpose = znodes, marked, purpose
        _refuse_other_cluster(store, run)
        store.sync()
        marks = store.marks()
        self._listed = _list_ledgers(context, store)
        self._marks = _of_listed(marks, self._listed)
        self._state = _read_state(store, self._marks)

    def find_bookies(self, named: Sequence[str], meant: BookiesMeant) -> frozenset[BookieId]:
        """Return the bookies that the names stand for."""
        run = replace(self._run, bookies={**self._state.bookies, **self._run.bookies})
        return frozenset(bookie for name in named for bookie in meant(run, name))

    def answer(
        self, named: Sequence[str], asked: frozenset[BookieId], together_max: int | None
    ) -> tuple[StoredRun, NowAnswer]:
        """Return the run with its copies as they are now, and the answer."""
        bookies, seen = asked, self._read(asked, asked)
        if together_max is not None and (not asked or seen.can_go(asked)):
            chosen = seen.propose(asked, together_max)
            if chosen:
                seen = self._read(asked | frozenset(chosen), asked)
                while chosen and not seen.can_go(asked | frozenset(chosen)):
                    chosen = chosen[:-1]
            if not chosen and not asked:
                # What stood in the way when the run looked may be repaired since: read all of it.
                seen = self._read(seen.state.registered(), asked)
                chosen = seen.propose(asked, together_max)
            bookies = asked | frozenset(chosen)
        judged = bookies or seen.least_harmful()  # each was tried: nothing is computed anew
        return seen.run, self._answer(seen, named, bookies, judged, together_max)

    def _answer(
        self,
        seen: _Seen,
        named: Sequence[str],
        bookies: frozenset[BookieId],
        judged: frozenset[BookieId],
        together_max: int | None,
    ) -> NowAnswer:
        state, now, reading = seen.state, seen.now, seen.reading
        if not judged:
            state = replace(state, problem=state.problem or NO_BOOKIE)
        since_s = (utc_now() - self._run.started).total_seconds()
        marked = MarkedLedgers(self._listed, np.array(sorted(state.marks), np.int64))
        since = marks_since(self._run.summary.run_id, since_s, self._marked_then, marked)
        is_location = any(name.startswith("/") for name in named)
        return NowAnswer(
            named=tuple(named),
            bookies=tuple(sorted(bookies)),
            purpose=self._purpose,
            state=state,
            loss=loss_of(judged, self._purpose, seen.missing, state.writable()),
            harm=seen.harm(judged),
            reading=reading.counts(len(self._listed), now.changed),
            in_use=len(now.in_use),
            unseen=now.unseen,
            repair=repair_now(since, now, state),
            together_max=together_max,
            unlocated=count_unlocated(state, now, self._run.about.terms.around.location_of)
            if is_location
            else 0,
            new_cookies=seen.new_cookies,
            largest_ensemble=largest_ensemble(now),
        )

    def _read(self, bookies: frozenset[BookieId], asked: frozenset[BookieId]) -> _Seen:
        """Read what the loss of `bookies` depends on, until no more bookies leave meanwhile."""
        run, state = self._run, self._state
        missing = missing_bookies(state, run.copies, {})
        for _ in range(READINGS_MAX):
            new_cookies = bookies_with_new_cookies(run.bookies, state.bookies)
            reading = ledgers_to_read(
                run.copies,
                self._znodes,
                self._listed,
                missing | bookies | new_cookies.keys(),
                state.marks.keys(),
            )
            batches = _read_batches(self._context, self._store, reading)
            now = copies_now(run.copies, reading, batches, new_cookies)
            state = _read_state(self._store, self._marks)
            before, missing = missing, missing_bookies(state, now.copies, now.in_use)
            if missing <= before:
                break
        else:
            state = replace(state, problem=state.problem or BOOKIES_LEFT)
        lost = missing if self._purpose is Purpose.RESTART else missing - asked
        run_now = replace(run, copies=now.copies)
        return _Seen(
            run_now,
            self._purpose,
            state,
            now,
            reading,
            missing,
            available_copies(now, state, lost),
            doubts_in_use(now, state.marks),
            tuple(sorted(new_cookies)),
            run_now.locations(),
        )


def _refuse_other_cluster(store: MetadataStore, run: StoredRun) -> None:
    facts, of_run = store.cluster_facts(), run.about.facts
    if not facts.is_of(of_run.instance_id, of_run.root, of_run.hosts):
        raise ConfigError(
            f"run {run.summary.run_id} is of another cluster than"
            f" {facts.metadata_service_uri}: give --metadata-service-uri, or another run"
        )


def _of_listed(marks: Marks, listed: Ints) -> Marks:
    """Return the marks of ledgers that exist: a run counts no others in its ledgers."""
    exists = np.isin(np.array(list(marks.by_ledger), np.int64), listed)
    kept = compress(marks.by_ledger.items(), exists)
    return replace(marks, by_ledger=dict(kept))


def _read_state(store: MetadataStore, marks: Marks) -> StateNow:
    store.sync()
    bookies = {record.bookie_id: record for record in store.bookies(LOOK, now_ms)}
    is_off = store.cluster_facts().replication_disabled
    return StateNow(rfc3339(utc_now()), bookies, marks.by_ledger, is_off, marks.problem)


def _list_ledgers(context: Context, store: MetadataStore) -> Ints:
    parts = [np.zeros(0, np.int64)]
    for partition in store.listing_partitions().partitions:
        for parent in store.list_ids(partition):
            parts.append(np.array(parent.ledger_ids, np.int64))
            context.stop.check()
    return distinct_numbers(np.concatenate(parts))


def _read_batches(
    context: Context, store: MetadataStore, reading: LedgersToRead
) -> Iterator[list[LedgerRecord]]:
    changed = store.read_changed(reading.known(), LOOK, now_ms)
    while records := list(islice(changed, RECORDS_PER_BATCH)):
        context.stop.check()
        context.progress.advance(len(records))
        yield records
