"""`auditor doctor` checks what a run needs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from auditor.bookie.lane_gate import LaneGate
from auditor.bookie.lane_with_lister import open_lane
from auditor.bookie.listers import Listers, read_listers, strangers_in
from auditor.clock import now_ms, utc_now
from auditor.commands.context import EXIT_SOUND, EXIT_UNREACHABLE, Context
from auditor.commands.lister_trials import try_listers
from auditor.credentials.checking import certificates_out_of_date
from auditor.errors import AuditorError, SparkUnavailable
from auditor.java import find_java
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.report.layout import printable
from auditor.spark.class_archive import archive_path
from auditor.spark.supported import check_spark_version
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import MetadataStore, open_store

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
LINE_CHARS_MAX = 2_000
"""Longest line about the cluster that is printed, in characters."""
GOOD, BAD = "ok     ", "MISSING"


def doctor(context: Context) -> int:
    """Check everything a run needs, print a line for each check, and return the exit code.

    Returns 5 if something that a run needs is missing or does not answer, else 0.
    """
    lines = [*_machine(), *_certificates(context), *_cluster(context)]
    for line in lines:
        context.say(line + "\n")
    return EXIT_UNREACHABLE if any(line.startswith(BAD) for line in lines) else EXIT_SOUND


def _machine() -> Iterator[str]:
    yield f"{GOOD} python    {sys.version.split()[0]} at {sys.executable}"
    for name in PACKAGES:
        try:
            found = version(name)
            if name == "pyspark":
                check_spark_version(found, "PySpark")
            yield f"{GOOD} package   {name} {found}"
        except SparkUnavailable as error:
            yield f"{BAD} package   {error}"
        except PackageNotFoundError:
            yield (
                f"{BAD} package   {name}: install the auditor with its dependencies (pip install"
                " bookkeeper-cluster-auditor)"
            )
    try:
        java = find_java()
        yield f"{GOOD} java      {java.version} from {java.source} ({java.path})"
        yield from (f"        not taken: {why}" for why in java.passed_over)
        archive = archive_path(java)
        state = (
            "there"
            if Path(archive).is_file()
            else "not made; Spark starts some seconds slower (make setup makes it)"
        )
        yield f"{GOOD} archive   class-data archive {state}: {archive}"
    except AuditorError as error:
        yield f"{BAD} java      {error}"


def _certificates(context: Context) -> Iterator[str]:
    """Yield a line for each certificate of ours that is not valid now. It may not be asked for."""
    settings = context.settings
    bookie, zookeeper = settings.bookie_limits().access, settings.zookeeper_limits(1).access
    for fault in certificates_out_of_date(bookie, zookeeper, utc_now()):
        yield printable(f"        tls       {fault}", LINE_CHARS_MAX)


def _cluster(context: Context) -> Iterator[str]:
    """Yield a line for each check of the cluster, with control characters escaped."""
    for line in _checks_of_cluster(context):
        yield printable(line, LINE_CHARS_MAX)


def _checks_of_cluster(context: Context) -> Iterator[str]:
    uri = context.settings.metadata_service_uri
    if not uri:
        yield (
            "        cluster   not looked at: give --metadata-service-uri to check ZooKeeper and"
            " the bookies too"
        )
        return
    settings = context.settings
    try:
        with open_store(parse_uri(uri), settings.zookeeper_limits(1)) as store:
            facts = store.cluster_facts()
            hosts, recovery = ", ".join(facts.hosts), _recovery(facts.replication_disabled)
            yield f"{GOOD} zookeeper {hosts}, root {facts.root}, layout {facts.layout}"
            yield f"        instance id {facts.instance_id or 'none'}; auto-recovery {recovery}"
            known = store.bookies(1, now_ms)
            listers = read_listers(settings.lister_port, settings.lister_map, facts.instance_id)
            for problem in strangers_in(listers, (one.bookie_id for one in known)):
                yield f"{BAD} listers   {problem}"
            if listers is not None:
                yield from _checks_of_listers(context, store, known, listers)
    except AuditorError as error:
        yield f"{BAD} zookeeper {error}"
        return
    registered = [one for one in known if one.registration is not Registration.NONE]
    yield from _checks_of_bookies(context, registered, listers)


def _checks_of_listers(
    context: Context, store: MetadataStore, known: list[BookieRecord], listers: Listers
) -> Iterator[str]:
    registered = [one for one in known if one.registration is not Registration.NONE]
    limits = context.settings.bookie_limits()
    for trial in try_listers(store, registered[:BOOKIES_SHOWN_MAX], listers, limits):
        word = {True: GOOD, False: BAD, None: "       "}[trial.is_good]
        yield f"{word} lister    {trial.where} of bookie {trial.bookie_id}: {trial.sentence}"


def _checks_of_bookies(
    context: Context, bookies: list[BookieRecord], listers: Listers | None
) -> Iterator[str]:
    greetings = asyncio.run(_greet_all(context, bookies[:BOOKIES_SHOWN_MAX], listers))
    for bookie, (greeting, detail) in zip(bookies, greetings, strict=False):
        word = GOOD if greeting is Greeting.ANSWERED else BAD
        why = f": {detail}" if detail else ""
        yield (
            f"{word} bookie    {bookie.bookie_id} ({bookie.registration.value})"
            f" {greeting.value}{why}"
        )
    if len(bookies) > BOOKIES_SHOWN_MAX:
        yield f"        and {len(bookies) - BOOKIES_SHOWN_MAX} more bookies, not asked"
    if not bookies:
        yield f"{BAD} bookies   none is registered"


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
