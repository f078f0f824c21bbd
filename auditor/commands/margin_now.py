"""`auditor margin --now`: read ZooKeeper again, and answer whether bookies can be stopped now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

import numpy as np

from auditor.after.copies_now import LedgersToRead, copies_now, ledgers_to_read
from auditor.after.margin_now import (
    NowAnswer,
    Purpose,
    StateNow,
    Word,
    available_copies,
    harm_of,
    loss_of,
    missing_bookies,
)
from auditor.after.margin_now_text import is_basis_weak, now_json, now_text
from auditor.after.margin_of_run import StoredRun, margin_basis
from auditor.after.stored_copies import Ints
from auditor.clock import now_ms, rfc3339, utc_now
from auditor.commands.endings import end_without_verdict
from auditor.config.access import BookieAccess
from auditor.context import EXIT_FINDINGS, EXIT_SOUND, EXIT_UNKNOWN, Context
from auditor.credentials.checking import check_credentials
from auditor.errors import ConfigError, StoreUnavailable
from auditor.evidence.ids import distinct_numbers
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
BookiesMeant: TypeAlias = Callable[[StoredRun, str], list[BookieId]]
"""Returns the bookies that a name stands for."""

EXIT_CODES = {Word.GO: EXIT_SOUND, Word.NO_GO: EXIT_FINDINGS, Word.NOT_KNOWN: EXIT_UNKNOWN}


def margin_now(
    context: Context,
    run: StoredRun,
    named: Sequence[str],
    purpose: Purpose,
    bookies_meant: BookiesMeant,
) -> int:
    """Print whether the named bookies can be stopped now, and return the exit code.

    0: GO. 1: NO GO. 3: not known. 5: ZooKeeper is unreachable. Raises ConfigError if a name is
    unknown, or if the run is of another cluster.
    """
    settings = context.settings
    limits = settings.zookeeper_limits(1)
    check_credentials(BookieAccess(), limits.access)
    uri = settings.metadata_service_uri or run.about.facts.metadata_service_uri
    try:
        with open_store(parse_uri(uri), limits) as store:
            context.progress.stage("read ledgers")
            run, answer = _answer(context, store, run, named, purpose, bookies_meant)
            for problem in store.problems:
                context.note(problem)
    except StoreUnavailable as error:
        return end_without_verdict(context, run.summary.run_id, "UNREACHABLE", str(error))
    finally:
        context.progress.close()
    basis = margin_basis(run, settings.evidence_age_max_ms / 1000)
    code = EXIT_CODES[answer.word(is_basis_weak(basis))]
    if settings.format == "json":
        context.say(json.dumps(now_json(basis, answer, code)) + "\n")
    else:
        context.say(now_text(basis, answer, code, context.screen))
    return code


def _answer(
    context: Context,
    store: MetadataStore,
    run: StoredRun,
    named: Sequence[str],
    purpose: Purpose,
    bookies_meant: BookiesMeant,
) -> tuple[StoredRun, NowAnswer]:
    """Return the run with its copies as they are now, and the answer to --without."""
    _refuse_other_cluster(store, run)
    store.sync()
    marks = store.marks()  # before the ledgers: a worker removes a mark after it wrote the metadata
    state = _read_state(store, marks)
    run = replace(run, bookies={**run.bookies, **state.bookies})
    bookies = frozenset(bookie for name in named for bookie in bookies_meant(run, name))
    missing = missing_bookies(state, run.copies, {})
    listed = _list_ledgers(context, store)
    for _ in range(READINGS_MAX):
        reading = ledgers_to_read(
            run.copies, run.znodes, listed, missing | bookies, marks.by_ledger.keys()
        )
        now = copies_now(run.copies, reading, _read_batches(context, store, reading))
        state = _read_state(store, marks)
        before, missing = missing, missing_bookies(state, now.copies, now.in_use)
        if missing <= before:
            break
    else:
        state = replace(state, problem=state.problem or BOOKIES_LEFT)
    run = replace(run, copies=now.copies)
    loss = loss_of(bookies, purpose, missing, state.writable())
    is_location = any(name.startswith("/") for name in named)
    return run, NowAnswer(
        named=tuple(named),
        bookies=tuple(sorted(bookies)),
        purpose=purpose,
        state=state,
        loss=loss,
        harm=harm_of(available_copies(now, state, loss.missing), now.in_use, loss, purpose),
        reading=reading.counts(len(listed), now.changed),
        in_use=len(now.in_use),
        unseen=now.unseen,
        unlocated=run.count_unlocated() if is_location else 0,
    )


def _refuse_other_cluster(store: MetadataStore, run: StoredRun) -> None:
    facts, of_run = store.cluster_facts(), run.about.facts
    if not facts.is_of(of_run.instance_id, of_run.root, of_run.hosts):
        raise ConfigError(
            f"run {run.summary.run_id} is of another cluster than"
            f" {facts.metadata_service_uri}: give --metadata-service-uri, or another run"
        )


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
