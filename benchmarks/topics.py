"""What the references of Pulsar's topics add to a whole run: CPU seconds and memory, on as many
topics as wanted.

    .venv/bin/python -m benchmarks.topics --topics 100000

The cluster is that of `scale`. Each topic has two ledgers and a subscription, in 100 namespaces. Of
each 1,000 topics one is gone, hence its ledgers are orphans, and one references a ledger that does
not exist. The same cluster is audited with `--pulsar off`, and then with its topics.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from auditor.clock import now_ms
from auditor.evidence import findings_file
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerMetadata
from auditor.model.topic import Cursor, DataLedger, ManagedLedger, Position, TopicName
from auditor.pulsar.metadata import encode_cursor, encode_managed_ledger
from auditor.pulsar.topic_paths import MANAGED_LEDGERS, topic_path
from auditor.wire import ledger_metadata, znode_paths
from benchmarks.arithmetic_cluster import (
    LAYOUT,
    PAYLOAD_BYTES,
    ROOT,
    arithmetic_cluster,
    last_entry_of,
    metadata_of,
)
from benchmarks.scale import FAULTS_SHOWN, Audited, audit, by_process, peaks, stage_times
from benchmarks.targets import Target
from benchmarks.whole_run import ensure_class_archive

TOPICS = 20_000
LEDGERS_A_TOPIC, NAMESPACES = 2, 100
PROBLEM_EVERY, GONE_AT, MISSING_AT = 1_000, 400, 900
"""Of this many topics, the one at GONE_AT is gone, the one at MISSING_AT lacks a ledger."""
AGE_MS = 30 * 24 * 3_600_000
"""Age of each ledger: an orphan is older than a week."""
CPU_US_MAX = 500.0
DRIVER_BYTES_MAX, TOPIC_BYTES_MAX = 32 * 2**20, 2_000
"""What the topics may take of the driver's memory: all of them, and each one more."""


def topic_of(number: int) -> TopicName:
    return TopicName("tenant", "", f"namespace-{number % NAMESPACES:02}", f"topic-{number}")


def is_gone(number: int) -> bool:
    return number % PROBLEM_EVERY == GONE_AT


def ledgers_of(number: int) -> range:
    return range(LEDGERS_A_TOPIC * number, LEDGERS_A_TOPIC * (number + 1))


def missing_ledger_of(number: int, topics: int) -> int | None:
    """Return the ledger of the subscription, which does not exist; None for most topics."""
    if number % PROBLEM_EVERY != MISSING_AT:
        return None
    return LEDGERS_A_TOPIC * topics + number


def znodes(topics: int, now: int) -> Iterator[tuple[str, bytes]]:
    """Yield the znodes of all ledgers, and those of the topics that are there."""
    created_ms = now - AGE_MS
    for number in range(topics):
        owner = topic_path(topic_of(number)).removeprefix(f"{MANAGED_LEDGERS}/")
        for ledger_id in ledgers_of(number):
            metadata = _owned(metadata_of(ledger_id), owner, created_ms)
            path = ROOT + znode_paths.ledger_path(LAYOUT, ledger_id)
            yield path, ledger_metadata.encode(metadata)
    for number in range(topics):
        if not is_gone(number):
            path = topic_path(topic_of(number))
            yield path, encode_managed_ledger(_managed(number, created_ms))
            last = ledgers_of(number)[-1]
            position = Position(last, last_entry_of(last))
            cursor = Cursor(missing_ledger_of(number, topics), position)
            yield f"{path}/subscription", encode_cursor(cursor)


def _owned(metadata: LedgerMetadata, owner: str, created_ms: int) -> LedgerMetadata:
    custom = {
        "application": "pulsar",
        "component": "managed-ledger",
        "pulsar/managed-ledger": owner,
    }
    pairs = tuple((key, value.encode()) for key, value in custom.items())
    return replace(metadata, custom_metadata=pairs, ctime_ms=created_ms)


def _managed(number: int, created_ms: int) -> ManagedLedger:
    """Return a topic's record: its newest ledger has no number of entries yet."""
    *closed, newest = ledgers_of(number)
    ledgers = []
    for ledger_id in closed:
        entries = last_entry_of(ledger_id) + 1
        ledgers.append(DataLedger(ledger_id, entries, PAYLOAD_BYTES * entries, created_ms))
    return ManagedLedger((*ledgers, DataLedger(newest)))


def _faults(audited: Audited, topics: int) -> Iterator[str]:
    """Yield how verdicts and references differ from what is right."""
    yield from audited.faults
    numbers = range(topics)
    orphaned = [i for number in numbers if is_gone(number) for i in ledgers_of(number)]
    missing = [i for number in numbers if (i := missing_ledger_of(number, topics)) is not None]
    listed = audited.directory.read_text("references/orphaned.txt") or ""
    if [int(line) for line in listed.split()] != orphaned:
        yield f"{len(listed.split()):,} orphans, not the right {len(orphaned):,}"
    findings = findings_file.parse(
        (audited.directory.read_text("findings.jsonl") or "").splitlines()
    )
    accused = sorted(
        finding.ledger_id
        for finding in findings
        if finding.kind is Kind.REFERENCED_LEDGER_MISSING and finding.ledger_id is not None
    )
    if accused != missing:
        yield f"{len(accused):,} missing ledgers, not the right {len(missing):,}"
    there = topics - sum(map(is_gone, numbers))
    counts = audited.summary["references"]
    if (counts["topics"], counts["unknown"]) != (there, 0):
        yield f"references of {there:,} topics: {counts}"


def targets(scratch: Path, topics: int) -> Iterator[Target]:
    """Audit the cluster without its topics and with them."""
    ledgers = LEDGERS_A_TOPIC * topics
    seed = znodes(topics, now_ms())
    with arithmetic_cluster(scratch / "cluster", ledgers, znodes=seed) as cluster:
        without = audit(cluster, scratch / "without", ledgers, flags=("--pulsar", "off"))
        audited = audit(cluster, scratch / "with", ledgers)
    faults = tuple(islice(_faults(audited, topics), FAULTS_SHOWN))
    yield Target(
        f"exactly the orphans and the missing ledgers of {topics:,} topics are found, and the"
        f" damaged ones of {ledgers:,} ledgers",
        not faults,
        faults or (f"{audited.summary['references']['orphaned']:,} orphans",),
    )
    before, after = without.used, audited.used
    took = (
        f"{name:8} {one.used.wall_s:7.1f} s, {by_process(one.used.cpus_s, '{:.1f} CPU s')};"
        f" {stage_times(one)}"
        for name, one in (("without", without), ("with", audited))
    )
    each_us = (after.cpu_s - before.cpu_s) / topics * 1e6
    yield Target(
        f"a topic costs at most {CPU_US_MAX:g} CPU us",
        each_us <= CPU_US_MAX,
        (
            f"{each_us:.0f} CPU us",
            *took,
        ),
    )
    more = after.peaks_bytes["driver"] - before.peaks_bytes["driver"]
    yield Target(
        f"topics take at most {DRIVER_BYTES_MAX / 2**20:g} MiB of the driver's memory, and"
        f" {TOPIC_BYTES_MAX:,} bytes each",
        more <= DRIVER_BYTES_MAX + TOPIC_BYTES_MAX * topics,
        (f"{more / 2**20:,.0f} MiB", *(peaks(one.used) for one in (without, audited))),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=TOPICS)
    chosen = parser.parse_args(arguments)
    ensure_class_archive()
    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for target in targets(Path(scratch), chosen.topics):
            print(target, flush=True)
            missed += not target.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
