"""`auditor doctor` checks what a run needs.

Each lister is asked for lists of ledgers that its bookie should hold. A lister that answers a
greeting may still be unable to list: it may be in doubt about its index, read another bookie's
directories, or run beside a bookie that does not serve.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from pyarrow import fs

from auditor.bookie.lane import LaneGate
from auditor.bookie.listers import (
    ONLY_SCRUBS,
    LaneWithLister,
    Listers,
    ask_scrubs,
    find_unknown_bookies,
    open_lane,
    read_listers,
)
from auditor.bookie.questions import ListQuestion
from auditor.clock import now_ms, rfc3339, utc_now
from auditor.config import BookieLimits, without_credentials
from auditor.context import EXIT_SOUND, EXIT_UNREACHABLE, Context
from auditor.credentials.checking import certificates_out_of_date
from auditor.errors import AuditorError, ConfigError, LocalFault, OutputError, SparkUnavailable
from auditor.evidence.local_files import restrict_new_files
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import place
from auditor.first_checker.schedule import expected_list, held_entries
from auditor.host_limits import host_limits
from auditor.java import find_java
from auditor.model.availability import LISTED_BY_LISTER, Answer, AnswerStatus, Greeting
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerState
from auditor.model.scrub import ScrubPass, ScrubReport
from auditor.report.layout import of, printable
from auditor.run.clock_check import clock_lag_ms
from auditor.run.mutes_file import read_mutes
from auditor.run.reference_looks import pulsar_of_run
from auditor.spark.installation import check_spark_version
from auditor.telemetry.metrics import try_pushgateway, try_textfile
from auditor.topology.locating import locate
from auditor.topology.sources import Source, sources_of
from auditor.wire.service_uri import parse as parse_uri
from auditor.witness.phrases import span
from auditor.zookeeper.metadata_store import MetadataStore, open_store

LEDGERS_READ_MAX = 1_000
"""Metadata of this many ledgers is read to find some of each bookie: the first that are listed."""
LEDGERS_TRIED_MAX = 3
"""At most this many ledgers are asked of one lister. A single list is enough."""


class ListerTrial(NamedTuple):
    """What a lister listed. `is_good` is None if no ledger was found to ask about."""

    bookie_id: BookieId
    where: str
    is_good: bool | None
    sentence: str


def try_listers(
    store: MetadataStore, bookies: Sequence[BookieRecord], listers: Listers, limits: BookieLimits
) -> list[ListerTrial]:
    """Return what each bookie's lister lists, if it should have one and its address is known.

    Costs at most LEDGERS_READ_MAX reads of znodes, and a few requests a bookie. Raises
    StoreUnavailable.
    """
    placed = {
        bookie.bookie_id: (bookie.host, bookie.port)
        for bookie in bookies
        if bookie.host is not None
        and bookie.port is not None
        and listers.address_of(bookie.bookie_id, bookie.host) is not None
    }
    if not placed:
        return []
    questions = find_questions(store, placed)
    return asyncio.run(_try_all(placed, questions, listers, limits))


def find_questions(
    store: MetadataStore, placed: Mapping[BookieId, object]
) -> dict[BookieId, list[ListQuestion]]:
    """Return, for each bookie, some closed ledgers of which it should hold entries, with these
    entries.
    """
    found: dict[BookieId, list[ListQuestion]] = {bookie: [] for bookie in placed}
    ids = islice(_listed_ids(store), LEDGERS_READ_MAX)
    for record in store.read_ledgers(ids, 1, now_ms, with_marks=False):
        metadata = record.metadata
        if metadata is None or metadata.state is not LedgerState.CLOSED:
            continue
        for bookie in {bookie for segment in metadata.segments for bookie in segment.ensemble}:
            wanted = found.get(bookie)
            if wanted is None or len(wanted) >= LEDGERS_TRIED_MAX:
                continue
            expected = expected_list(metadata, bookie)
            if expected:
                wanted.append(ListQuestion(record.ledger_id, expected_groups=expected))
    return found


def _listed_ids(store: MetadataStore) -> Iterator[int]:
    parents = chain.from_iterable(
        store.list_ids(partition) for partition in store.listing_partitions().partitions
    )
    return chain.from_iterable(parent.ledger_ids for parent in parents)


async def _try_all(
    placed: Mapping[BookieId, tuple[str, int]],
    questions: Mapping[BookieId, Sequence[ListQuestion]],
    listers: Listers,
    limits: BookieLimits,
) -> list[ListerTrial]:
    tried = (
        _try_one(bookie, placed[bookie], questions[bookie], listers, limits) for bookie in placed
    )
    return list(await asyncio.gather(*tried))


async def _try_one(
    bookie_id: BookieId,
    address: tuple[str, int],
    questions: Sequence[ListQuestion],
    listers: Listers,
    limits: BookieLimits,
) -> ListerTrial:
    at = listers.address_of(bookie_id, address[0])
    assert at is not None, bookie_id
    where = f"{at[0]}:{at[1]}"
    if not questions:
        why = (
            f"no closed ledger of it is among the first {LEDGERS_READ_MAX:,}: not asked for a list"
        )
        return ListerTrial(bookie_id, where, None, why)
    lane = open_lane(bookie_id, address, limits, 1, now_ms, listers)
    try:
        answers = await lane.lists(questions)
    finally:
        await lane.close()
    for question, answer in zip(questions, answers, strict=True):
        if answer.status is AnswerStatus.HELD and answer.detail.startswith(LISTED_BY_LISTER):
            return ListerTrial(bookie_id, where, True, _listed_words(question, answer))
    if isinstance(lane, LaneWithLister) and lane.only_scrubs:
        return ListerTrial(bookie_id, where, None, f"{ONLY_SCRUBS}: the bookie lists itself")
    first = answers[0]
    why = first.detail or first.status.value
    return ListerTrial(bookie_id, where, False, f"ledger {first.ledger_id} was not listed: {why}")


def _listed_words(question: ListQuestion, answer: Answer) -> str:
    expected = held_entries(question.expected_groups or b"")
    listed = held_entries(answer.groups) & expected
    return (
        f"it lists {listed.count():,} of the {expected.count():,} entries that the bookie should"
        f" hold of ledger {answer.ledger_id}"
    )


PACKAGES = (
    "pyspark",
    "pyarrow",
    "pandas",
    "protobuf",
    "kazoo",
    "prometheus-client",
    "structlog",
    "google-crc32c",
)
BOOKIES_SHOWN_MAX = 50
SENTENCE_CHARS_MAX = 2_000
"""At most this many characters of a check's sentence are printed."""
PROBLEMS_SHOWN_MAX = 5
"""At most this many problems with the topology have a line each."""


class State(StrEnum):
    """The result of a check. A NOTE is neither good nor bad."""

    OK = "ok"
    MISSING = "missing"
    NOTE = "note"


_WORDS = {State.OK: "ok", State.MISSING: "MISSING", State.NOTE: ""}


class Check(NamedTuple):
    """One check: its subject, its result, and a sentence, with control characters escaped."""

    name: str
    state: State
    sentence: str

    def line(self) -> str:
        return f"{_WORDS[self.state]:<7} {self.name:<11} {self.sentence}"


def doctor(context: Context) -> int:
    """Check everything a run needs, print a line for each check, and return the exit code.

    Returns 5 if something that a run needs is missing or does not answer, else 0. Everything that
    was written as a test is removed.
    """
    checks = []
    for whole in _all_checks(context):
        check = whole._replace(sentence=printable(whole.sentence, SENTENCE_CHARS_MAX))
        checks.append(check)
        if context.settings.format == "text":
            context.say(f"{check.line()}\n")
    is_good = all(check.state is not State.MISSING for check in checks)
    code = EXIT_SOUND if is_good else EXIT_UNREACHABLE
    if context.settings.format == "json":
        rows = [{**check._asdict(), "state": check.state.value} for check in checks]
        context.say(json.dumps({"checks": rows, "exit_code": code}) + "\n")
    return code


def _all_checks(context: Context) -> Iterator[Check]:
    yield from _machine()
    yield from _host(context)
    yield from _certificates(context)
    yield _output(context)
    yield from _metrics(context)
    yield from _mutes(context)
    yield from _cluster(context)


def _ok(name: str, sentence: str) -> Check:
    return Check(name, State.OK, sentence)


def _missing(name: str, sentence: str) -> Check:
    return Check(name, State.MISSING, sentence)


def _note(name: str, sentence: str) -> Check:
    return Check(name, State.NOTE, sentence)


def _machine() -> Iterator[Check]:
    yield _ok("python", f"{sys.version.split()[0]} at {sys.executable}")
    for name in PACKAGES:
        try:
            found = version(name)
            if name == "pyspark":
                check_spark_version(found, "PySpark")
            yield _ok("package", f"{name} {found}")
        except SparkUnavailable as error:
            yield _missing("package", str(error))
        except PackageNotFoundError:
            yield _missing(
                "package",
                f"{name}: install the auditor with its dependencies (pip install"
                " bookkeeper-cluster-auditor)",
            )
    try:
        java = find_java()
        yield _ok("java", f"{java.version} from {java.source} ({java.path})")
        yield from (_note("java", f"not taken: {why}") for why in java.passed_over)
        from auditor.spark.class_archive import archive_path  # loads PySpark, if it is there

        archive = archive_path(java)
        state = (
            "there"
            if Path(archive).is_file()
            else "not made; Spark starts some seconds slower"
            " (python -m auditor.spark.class_archive makes it)"
        )
        yield _ok("archive", f"class-data archive {state}: {archive}")
    except AuditorError as error:
        yield _missing("java", str(error))


def _host(context: Context) -> Iterator[Check]:
    """Yield a check of each limit of this host that the smallest audit depends on."""
    try:
        root = place(context.settings.output)
        output = Path(root.path) if isinstance(root.files, fs.LocalFileSystem) else None
    except OutputError:
        output = None  # OUTPUT has a separate line
    for limit in host_limits(output):
        yield Check(limit.name, State.OK if limit.is_enough else State.MISSING, limit.sentence)


def _certificates(context: Context) -> Iterator[Check]:
    """Yield a note for each certificate of ours that is not valid now. Peers may not ask for it."""
    settings = context.settings
    bookie, zookeeper = settings.bookie_limits().access, settings.zookeeper_limits(1).access
    for fault in certificates_out_of_date(bookie, zookeeper, utc_now()):
        yield _note("tls", fault)


def _output(context: Context) -> Check:
    """Try what a run does with OUTPUT first: create it, lock it, write to it."""
    settings = context.settings
    try:
        output = Output(place(settings.output))
        with restrict_new_files(settings.output_umask):
            problem = output.try_out(context.stop.check)
    except OutputError as error:
        return _missing("output", str(error))
    limits = f"; {problem}" if problem else ""
    return _ok("output", f"{output.root.address} can be locked and written{limits}")


def _metrics(context: Context) -> Iterator[Check]:
    """Yield a check of each destination of metrics. Nothing is sent."""
    settings = context.settings
    if settings.metrics_textfile:
        problem = try_textfile(Path(settings.metrics_textfile))
        good = f"{settings.metrics_textfile} can be replaced"
        yield _missing("metrics", problem) if problem else _ok("metrics", good)
    if settings.pushgateway:
        problem = try_pushgateway(settings.pushgateway)
        good = f"the Pushgateway at {without_credentials(settings.pushgateway)} is ready"
        yield _missing("metrics", problem) if problem else _ok("metrics", good)


def _mutes(context: Context) -> Iterator[Check]:
    """Yield a check of the file of mutes, if it exists: a run that cannot read it mutes nothing."""
    try:
        mutes = read_mutes(context, Output(place(context.settings.output)))
    except OutputError:
        return  # OUTPUT has a separate line
    if mutes.problem:
        yield _missing("mutes", mutes.problem)
    elif mutes.mutes or context.settings.mutes:
        yield _ok("mutes", f"{of(len(mutes.mutes), 'finding')} muted")


def _cluster(context: Context) -> Iterator[Check]:
    settings = context.settings
    sources: list[Source] = []
    try:
        sources = sources_of(settings)
    except ConfigError as error:
        yield _missing("topology", str(error))
    if not settings.metadata_service_uri:
        yield from _topology_alone(sources)
        yield _note(
            "cluster",
            "not looked at: give --metadata-service-uri to check ZooKeeper and the bookies too",
        )
        return
    try:
        uri = parse_uri(settings.metadata_service_uri)
        with open_store(uri, settings.zookeeper_limits(1)) as store:
            facts = store.cluster_facts()
            hosts, recovery = ", ".join(facts.hosts), _recovery(facts.replication_disabled)
            yield _ok("zookeeper", f"{hosts}, root {facts.root}, layout {facts.layout}")
            identity = facts.instance_id or "none"
            yield _note("zookeeper", f"instance id {identity}; auto-recovery {recovery}")
            known = store.bookies(1, now_ms)
            yield _clock(store, known)
            yield from _topology(sources, known, store)
            yield from _pulsar(context, store)
            listers = read_listers(settings.lister_port, settings.lister_map, facts.instance_id)
            for problem in find_unknown_bookies(listers, (bookie.bookie_id for bookie in known)):
                yield _missing("listers", problem)
            if listers is not None:
                yield from _checks_of_listers(context, store, known, listers)
    except AuditorError as error:
        yield _missing("zookeeper", str(error))
        return
    registered = [bookie for bookie in known if bookie.is_registered]
    yield from _checks_of_bookies(context, registered, listers)


def _clock(store: MetadataStore, known: list[BookieRecord]) -> Check:
    """Compare this host's clock with ZooKeeper's last write. A fast clock cannot be noticed."""
    try:
        lag_ms = clock_lag_ms(store.newest_write(bookie.bookie_id for bookie in known), now_ms())
    except LocalFault as error:
        return _missing("clock", str(error))
    if lag_ms:
        return _missing(
            "clock",
            f"the clock of this host lies at least {span(lag_ms)} behind ZooKeeper's, and ages"
            " would be unknown: set it, or that of ZooKeeper if it is ahead",
        )
    return _ok("clock", "no znode that was looked at is younger than now")


def _topology_alone(sources: list[Source]) -> Iterator[Check]:
    """Yield a check of each source of locations that can be tried without the cluster."""
    for source in sources:
        problems = source.problems
        yield from (_missing("topology", problem) for problem in problems[:PROBLEMS_SHOWN_MAX])
        if not problems:
            yield _note("topology", f"{source.name}: not asked where the bookies are")


def _topology(
    sources: list[Source], known: list[BookieRecord], store: MetadataStore
) -> Iterator[Check]:
    """Yield a line for each problem with the locations of bookies, or one line if all have one."""
    if not sources:
        return
    found = locate(sources, known, store.root, store.raw)
    problems = list(found.problems)
    if unplaced := found.unplaced_bookies:
        problems.append(
            f"{len(unplaced)} of {len(known)} bookies have no location, such as {unplaced[0]}:"
            " auditor topology shows all"
        )
    yield from (_missing("topology", problem) for problem in problems[:PROBLEMS_SHOWN_MAX])
    if len(problems) > PROBLEMS_SHOWN_MAX:
        yield _note("topology", f"and {len(problems) - PROBLEMS_SHOWN_MAX} more problems")
    if not problems:
        yield _ok("topology", f"each of {len(known)} bookies has a location")


def _pulsar(context: Context, store: MetadataStore) -> Iterator[Check]:
    """Yield a check of the topics that a run reads; nothing if there are none."""
    try:
        pulsar = pulsar_of_run(context, store)
    except AuditorError as error:
        yield _missing("pulsar", str(error))
        return
    if pulsar is None:
        return
    if pulsar.store is None:
        yield _missing("pulsar", pulsar.problem)
        return
    with pulsar.store as topics:
        yield _ok("pulsar", f"topics are read below {topics.prefix or '/'}")


def _checks_of_listers(
    context: Context, store: MetadataStore, known: list[BookieRecord], listers: Listers
) -> Iterator[Check]:
    registered = [bookie for bookie in known if bookie.is_registered]
    limits = context.settings.bookie_limits()
    for trial in try_listers(store, registered[:BOOKIES_SHOWN_MAX], listers, limits):
        state = {True: State.OK, False: State.MISSING, None: State.NOTE}[trial.is_good]
        sentence = f"{trial.where} of bookie {trial.bookie_id}: {trial.sentence}"
        yield Check("lister", state, sentence)
    placed = {
        bookie.bookie_id: (bookie.host, bookie.port)
        for bookie in registered[:BOOKIES_SHOWN_MAX]
        if bookie.host is not None and bookie.port is not None
    }
    reports = asyncio.run(ask_scrubs(placed, listers, limits, now_ms))
    for bookie_id, report in sorted(reports.items()):
        yield _note("scrub", f"of bookie {bookie_id}: {scrub_words(report)}")


def scrub_words(report: ScrubReport) -> str:
    """Return what a scrub has read and found, as a phrase."""
    words = []
    if (last := report.finished) is not None and last.ended_at_ms is not None:
        began, ended = _time(last.began_at_ms), _time(last.ended_at_ms)
        words.append(f"the pass from {began} to {ended} read {_pass_words(last)}")
    if (now := report.current) is not None:
        share = f"{now.read_bytes:,} of {now.total_bytes:,} bytes"
        words.append(f"the pass since {_time(now.began_at_ms)} has read {share}")
    if not words:
        return "no pass has begun"
    if report.candidates:
        named = of(len(report.candidates), "entry", "entries")
        words.append(f"it names {named} for the next run to read")
    return "; ".join(words)


def _pass_words(last: ScrubPass) -> str:
    words = (
        f"{of(last.entries, 'entry', 'entries')} in {of(last.logs, 'log')}:"
        f" {last.verified:,} with a right digest, {last.failed:,} with a wrong one,"
        f" {last.unchecked:,} not checkable"
    )
    if last.damaged_logs:
        words += f"; {of(last.damaged_logs, 'log')} could not be read to the end"
    if last.unlisted:
        words += f"; {of(last.unlisted, 'directory', 'directories')} could not be listed to the end"
    return words


def _time(at_ms: int) -> str:
    return rfc3339(datetime.fromtimestamp(at_ms / 1000, UTC))


def _checks_of_bookies(
    context: Context, bookies: list[BookieRecord], listers: Listers | None
) -> Iterator[Check]:
    alone, beside = (host_limits(None, bookies=count)[0] for count in (0, len(bookies)))
    if alone.is_enough and beside != alone:
        yield Check(beside.name, State.NOTE if beside.is_enough else State.MISSING, beside.sentence)
    greetings = asyncio.run(_greet_all(context, bookies[:BOOKIES_SHOWN_MAX], listers))
    for bookie, (greeting, detail) in zip(bookies, greetings, strict=False):
        state = State.OK if greeting is Greeting.ANSWERED else State.MISSING
        why = f": {detail}" if detail else ""
        sentence = f"{bookie.bookie_id} ({bookie.registration.value}) {greeting.value}{why}"
        yield Check("bookie", state, sentence)
    if len(bookies) > BOOKIES_SHOWN_MAX:
        yield _note("bookies", f"{len(bookies) - BOOKIES_SHOWN_MAX} more were not asked")
    if not bookies:
        yield _missing("bookies", "none is registered")


def _recovery(disabled: bool) -> str:
    return "disabled" if disabled else "enabled"


async def _greet_all(
    context: Context, bookies: list[BookieRecord], listers: Listers | None
) -> list[tuple[Greeting, str]]:
    gate = LaneGate(len(bookies), has_listers=listers is not None)
    greeted = (_greet(context, bookie, listers, gate) for bookie in bookies)
    return list(await asyncio.gather(*greeted))


async def _greet(
    context: Context, bookie: BookieRecord, listers: Listers | None, gate: LaneGate
) -> tuple[Greeting, str]:
    if bookie.host is None or bookie.port is None:
        return Greeting.ADDRESS_UNKNOWN, bookie.problem
    address = bookie.host, bookie.port
    lane = open_lane(
        bookie.bookie_id, address, context.settings.bookie_limits(), 1, now_ms, listers
    )
    async with gate.hold(lane):
        try:
            return await lane.greet()
        finally:
            await lane.close()
