"""`auditor rehearse` audits restored metadata against the living bookies."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from auditor.clock import now_ms, utc_now
from auditor.commands.endings import UNREACHABLE, end_without_verdict
from auditor.commands.ledger import asker_for
from auditor.config import ZooKeeperLimits
from auditor.config.access import ZooKeeperAccess
from auditor.config.operator_files import create_empty_directory
from auditor.context import EXIT_FINDINGS, EXIT_SOUND, EXIT_UNKNOWN, Context, new_run_id
from auditor.errors import ConfigError, StoreUnavailable
from auditor.host_limits import require_host_limits
from auditor.judging.judge import TooManyPoisoned
from auditor.model.identity import LedgerId
from auditor.model.verdict import Standing
from auditor.recovery.rehearsal_text import Rehearsal, rehearsal_json, rehearsal_text
from auditor.recovery.restored_metadata import CHANGES, Fate, compare
from auditor.recovery.zookeeper_data import (
    DAMAGED_ADVICE,
    ServedCopy,
    registered_bookies,
    serve_copy,
)
from auditor.report.layout import of, printable
from auditor.run.single_ledgers import audit_ledgers
from auditor.run.surroundings import check_admission, cluster_and_terms
from auditor.stop import Interrupted
from auditor.telemetry import log
from auditor.topology.sources import sources_of
from auditor.wire.service_uri import ServiceUri
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import MetadataStore, open_store

AUDITED_MAX = 1_000
"""Restored ledgers of each fate that are audited against the bookies: those with the highest
ids."""
AUDITED = (Fate.BACK, Fate.MOVED, Fate.CUT_SHORT, Fate.DIFFERENT)
"""The fates whose restored ledgers are audited: no run has judged their restored metadata."""
POLL_S = 1.0
"""How often a served copy looks for a signal, in seconds; it is woken by one at once."""


def rehearse(
    context: Context, data: Sequence[str], restored_uri: str | None, ids: str | None
) -> int:
    """Compare restored metadata with the living, print the result, and return the exit code.

    The restored metadata is in ZooKeeper's files `data`, or at `restored_uri`. `ids` is a directory
    for the ids of each fate. 0: every ledger is the same in both. 1: a restore would change some.
    3: none that could be compared, and some could not be. 5: a ZooKeeper or every bookie is
    unreachable. Raises ConfigError and Interrupted.
    """
    run_id = new_run_id(utc_now())
    log.bind_run(run_id)
    require_host_limits(None)
    try:
        with _restored(context, data, restored_uri) as (restored, notes):
            found = _rehearse(context, run_id, restored, notes, ids)
    except UNREACHABLE as error:
        return end_without_verdict(context, run_id, "UNREACHABLE", str(error))
    except TooManyPoisoned as error:
        return end_without_verdict(context, run_id, "AUDITOR_FAULT", str(error))
    comparison = found.comparison
    code = EXIT_UNKNOWN if comparison.amount(Fate.UNREAD).ledgers else EXIT_SOUND
    code = EXIT_FINDINGS if comparison.changed else code
    if context.settings.format == "json":
        context.say(json.dumps(rehearsal_json(found, code)) + "\n")
    else:
        context.say(rehearsal_text(found, code, context.screen))
    return code


def serve(context: Context, data: Sequence[str]) -> int:
    """Serve a copy of ZooKeeper's files until SIGTERM or SIGINT, with its bookies registered.

    The living metadata is not needed: any command can audit the copy against the bookies. Returns
    0, or 5 if the copy cannot be served. Raises ConfigError.
    """
    try:
        with _copy(context, data) as copy:
            uri = _uri_of_copy(context, copy)
            with _open_restored(uri, _limits_of_copy(context), is_copy=True) as store:
                bookies, root, layout = store.bookies(0, now_ms), store.root, store.layout
            with registered_bookies(copy, root, layout, bookies) as without:
                _say_served(context, uri, copy.notes, len(bookies), without)
                while True:
                    context.stop.wait(POLL_S)
    except UNREACHABLE as error:
        return end_without_verdict(context, "rehearse", "UNREACHABLE", str(error))
    except Interrupted:
        context.note("The copy has ended.")
        return EXIT_SOUND


def _say_served(
    context: Context, uri: ServiceUri, notes: Sequence[str], bookies: int, without: Sequence[str]
) -> None:
    address = uri.text_without_secrets
    if context.settings.format == "json":
        said = {
            "metadata_service_uri": address,
            "registered": bookies - len(without),
            "unregistered": list(without),
            "notes": list(notes),
        }
        context.say(json.dumps(said) + "\n")
        return
    lacking = [
        f"Bookie {printable(bookie)} has no known address: it stays unregistered."
        for bookie in without
    ]
    lines = (
        f"A copy of the restored metadata is served at {address}",
        *notes,
        f"{of(bookies - len(without), 'bookie')} of it registered there. Audit it with",
        f"  auditor run --metadata-service-uri {address} --output ./restored",
        *lacking,
        "Ctrl-C ends it. Give this address to no bookie and no broker: they would write to it.",
    )
    context.say("".join(f"{line}\n" for line in lines))


@contextmanager
def _copy(context: Context, data: Sequence[str]) -> Iterator[ServedCopy]:
    context.progress.stage("load the copy")
    with (
        tempfile.TemporaryDirectory(prefix="auditor-rehearse-") as scratch,
        serve_copy(
            [Path(name) for name in data], Path(scratch), on_wait=context.stop.check
        ) as copy,
    ):
        yield copy


def _uri_of_copy(context: Context, copy: ServedCopy) -> ServiceUri:
    """Return the address of the copy: the paths of the living cluster on another host."""
    uri = parse_uri(context.settings.metadata_service_uri or "")
    hint = uri.layout_hint or "null"
    text = f"zk+{hint}://{copy.connect_string}{uri.roots[0]}"
    return replace(uri, hosts=(copy.connect_string,), text_without_secrets=text)


def _limits_of_copy(context: Context) -> ZooKeeperLimits:
    limits = context.settings.zookeeper_limits(1)
    return replace(limits, access=ZooKeeperAccess(), zookeeper_reads_per_second=0)


@contextmanager
def _restored(
    context: Context, data: Sequence[str], restored_uri: str | None
) -> Iterator[tuple[MetadataStore, Sequence[str]]]:
    """Yield the restored metadata, and sentences on what it is."""
    with ExitStack() as stack:
        if restored_uri is not None:
            uri, limits = parse_uri(restored_uri), context.settings.zookeeper_limits(1)
            notes: Sequence[str] = ()
        else:
            copy = stack.enter_context(_copy(context, data))
            uri, limits, notes = _uri_of_copy(context, copy), _limits_of_copy(context), copy.notes
        yield stack.enter_context(_open_restored(uri, limits, is_copy=restored_uri is None)), notes


def _open_restored(uri: ServiceUri, limits: ZooKeeperLimits, *, is_copy: bool) -> MetadataStore:
    """Return the store. Raises ConfigError if a copy has no cluster, StoreUnavailable otherwise.

    From a snapshot that is not whole ZooKeeper loads nothing, and serves an empty tree.
    """
    try:
        return open_store(uri, limits)
    except StoreUnavailable as error:
        if not is_copy:
            raise
        raise ConfigError(
            f"the restored metadata cannot be used: {error}. If the path is right, the snapshot is"
            f" damaged or of another time. {DAMAGED_ADVICE}"
        ) from None


def _rehearse(
    context: Context, run_id: str, restored: MetadataStore, notes: Sequence[str], ids: str | None
) -> Rehearsal:
    settings = context.settings
    living_uri = parse_uri(settings.metadata_service_uri or "")
    with (
        open_store(living_uri, settings.zookeeper_limits(1)) as living,
        _FateFiles(Path(ids) if ids is not None else None) as files,
    ):
        _require_same_cluster(living, restored)
        context.progress.stage("compare ledgers")

        def on_fates(fates: Sequence[tuple[LedgerId, Fate]]) -> None:
            context.stop.check()
            context.progress.advance(len(fates))
            files.add(fates)

        comparison = compare(living, restored, now_ms, on_fates)
        audited = _audit(context, run_id, restored.with_bookies_of(living), files.newest)
        violated = sorted(i for counts in audited.values() for i in counts.violated)
        files.write("violated", violated)
        return Rehearsal(
            living=living.address.uri.text_without_secrets,
            restored=restored.address.uri.text_without_secrets,
            comparison=comparison,
            standings={fate: counts.standings for fate, counts in audited.items()},
            unaudited={
                fate: comparison.amount(fate).ledgers - counts.total
                for fate, counts in audited.items()
            },
            violated=violated,
            notes=notes,
            problems=[*living.problems, *restored.problems],
            ids_directory=ids or "",
        )


def _require_same_cluster(living: MetadataStore, restored: MetadataStore) -> None:
    """Raise ConfigError if the two are not states of one cluster, or one and the same state."""
    ours, theirs = living.cluster_facts(), restored.cluster_facts()
    if (ours.hosts, ours.root) == (theirs.hosts, theirs.root):
        raise ConfigError(
            "--restored-uri names the living cluster itself: give the address of the restored one"
        )
    if ours.instance_id != theirs.instance_id:
        raise ConfigError(
            f"the restored metadata is of cluster {theirs.instance_id}, the living is"
            f" {ours.instance_id}: every ledger would seem to be gone"
        )


@dataclass(frozen=True, slots=True)
class _Audited:
    """How restored ledgers of one fate stand, and which are violated."""

    standings: Mapping[str, int]
    violated: Sequence[LedgerId]

    @property
    def total(self) -> int:
        return sum(self.standings.values())


def _audit(
    context: Context,
    run_id: str,
    store: MetadataStore,
    newest: Mapping[Fate, Sequence[LedgerId]],
) -> dict[Fate, _Audited]:
    """Audit restored ledgers against the living bookies, with the judgement of a run."""
    wanted = {fate: newest[fate] for fate in AUDITED if newest.get(fate)}
    if not wanted:
        return {}
    context.progress.stage("ask bookies")
    sources = sources_of(context.settings)
    bookies = store.bookies(0, now_ms)
    check_admission(context.settings, bookies)
    facts, terms = cluster_and_terms(context, store, bookies, sources, run_id)
    asker = asker_for(context, store, None, facts)
    judged = audit_ledgers(asker, [i for ids in wanted.values() for i in ids], terms)
    standing = {evidence.ledger_id: step.verdict.standing for evidence, step in judged}
    return {
        fate: _Audited(
            Counter(standing[i].word for i in ids),
            [i for i in ids if standing[i] is Standing.VIOLATED],
        )
        for fate, ids in wanted.items()
    }


class _FateFiles:
    """Writes the ids of each fate to a file of its own, one a line, as --ledgers-from reads them.

    `newest` has the highest ids of the fates that are audited. Without a directory nothing is
    written.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._files: dict[str, TextIO] = {}
        self._stack = ExitStack()
        self.newest: dict[Fate, deque[LedgerId]] = {}

    def __enter__(self) -> _FateFiles:
        if self._directory is not None:
            why = ", so that no ids of two rehearsals are mixed"
            create_empty_directory(self._directory, "--ids", why=why)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, fates: Sequence[tuple[LedgerId, Fate]]) -> None:
        for ledger_id, fate in fates:
            if fate in CHANGES or fate is Fate.UNREAD:
                self.write(fate.value, (ledger_id,))
                self.newest.setdefault(fate, deque(maxlen=AUDITED_MAX)).append(ledger_id)

    def write(self, name: str, ids: Sequence[LedgerId]) -> None:
        """Append ids to the file of this name. Raises ConfigError if that fails."""
        if self._directory is None or not ids:
            return
        path = self._directory / f"{name}.txt"
        try:
            if name not in self._files:
                self._files[name] = self._stack.enter_context(path.open("w", encoding="ascii"))
            self._files[name].writelines(f"{i}\n" for i in ids)
        except OSError as error:
            raise ConfigError(f"--ids: {path} cannot be written: {error.strerror}") from None
