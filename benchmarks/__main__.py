"""Measure every promised speed, print it as MET or MISSED, and exit 1 if any was missed.

.venv/bin/python -m benchmarks [--long]

Takes some 30 minutes on two free cores; `--long` adds the row of 100,000 ledgers, and ten
more. Each part says what it measures before it begins.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from support.real_cluster import RealCluster

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import LEDGERS
from auditor.judging.clear_columns import ClearColumns
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.stages.blocks import list_blocks
from benchmarks import (
    bookie_requests,
    counted_answers,
    damaged_run,
    driver_memory,
    due_run,
    foreground,
    judging,
    listers,
    metadata_load,
    scale,
    second_checker,
    single_ledger,
    spot_reads,
    stored_run,
    topics,
    warm_run,
    whole_run,
)
from benchmarks.seeding import metadata_of, seed
from benchmarks.targets import Target


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--long",
        action="store_true",
        help=f"audit {whole_run.MANY_LEDGERS:,} ledgers too: ten minutes more",
    )
    options = parser.parse_args(arguments)
    _announce("metadata from ZooKeeper, judging, both checkers: three minutes")
    found = [
        *_said(metadata_load.targets()),
        *_said(judging.targets()),
        *_said(second_checker.targets()),
    ]
    _announce("the driver's memory: two minutes")
    found += _said([driver_memory.target()])
    ledgers, bookies = stored_run.LEDGERS_DEFAULT, stored_run.BOOKIES_DEFAULT
    _announce(f"two stored runs of {ledgers:,} ledgers: two minutes")
    with tempfile.TemporaryDirectory() as directory:
        found += _said(stored_run.targets(Path(directory), ledgers, bookies))
    _announce("single ledgers, a damaged cluster, warm audits: three minutes")
    whole_run.ensure_class_archive()
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        _announce(f"judging {counted_answers.LEDGERS_DEFAULT:,} ledgers on Spark: two minutes")
        found += _said(
            counted_answers.targets(
                scratch / "counts",
                counted_answers.LEDGERS_DEFAULT,
                counted_answers.ROUNDS_DEFAULT,
            )
        )
        found += _said(
            [single_ledger.target(scratch / "single"), damaged_run.target(scratch / "damage")]
        )
        found += _said([warm_run.target(scratch / "warm")])
        _announce(
            f"a lister of {listers.LEDGERS:,} ledgers of {listers.ENTRIES} entries: two minutes"
        )
        found += _said(listers.targets(scratch / "listers"))
        _announce("adds and reads beside an audit, on two clusters: twelve minutes")
        found += _said(foreground.targets(scratch / "foreground"))
        _announce(
            f"{whole_run.BOOKIES} bookies, {whole_run.LEDGERS:,} ledgers, beside BookKeeper's"
            " checks: three minutes"
        )
        with whole_run.start_cluster(scratch, whole_run.LEDGERS) as cluster:
            seed(cluster, whole_run.LEDGERS)
            found += _said(_bookie_requests(cluster))
            found += _said(
                [whole_run.compare(cluster, scratch, whole_run.LEDGERS, whole_run.ROUNDS)]
            )
            _announce("the same cluster, with and without spot reads: three minutes")
            found += _said(
                [spot_reads.compare(cluster, scratch, whole_run.LEDGERS, spot_reads.ROUNDS)]
            )
        if options.long:
            _announce(f"{scale.LEDGERS:,} ledgers whose damage is known: two minutes")
            found += _said(scale.targets(scratch / "scale", scale.LEDGERS))
            _announce("a run with a period on as many ledgers, behind a whole one: two minutes")
            found += _said(due_run.targets(scratch / "due", scale.LEDGERS))
            _announce(f"{topics.TOPICS:,} topics and their ledgers: two minutes")
            found += _said(topics.targets(scratch / "topics", topics.TOPICS))
            _announce(f"the same with {whole_run.MANY_LEDGERS:,} ledgers: half an hour")
            many = scratch / "many"
            with whole_run.start_cluster(many, whole_run.MANY_LEDGERS) as cluster:
                seed(cluster, whole_run.MANY_LEDGERS)
                found += _said(
                    [whole_run.compare(cluster, many, whole_run.MANY_LEDGERS, whole_run.ROUNDS)]
                )
    missed = sum(not target.met for target in found)
    print(f"benchmarks: {len(found) - missed} of {len(found)} met")
    return 1 if missed else 0


def _bookie_requests(cluster: RealCluster) -> list[Target]:
    """The first bookie, asked for the ledgers whose ensemble names it, as in a run."""
    bookie, ids = cluster.bookie_ids[0], range(whole_run.LEDGERS)
    stamp = ZnodeStamp(0, 0, 0, 0)
    records = [
        LedgerRecord(i, 1, 0, RecordStatus.FOUND, stamp, metadata_of(i, cluster.bookie_ids))
        for i in ids
    ]
    rows = pa.Table.from_batches([table(LEDGERS, map(ledger_row, records))])
    made = list_blocks(ClearColumns.of(rows), Terms(0, 0, 0, 0))
    host, port = cluster.address(bookie)
    return bookie_requests.targets(host, port, [block for name, block in made if name == bookie])


def _announce(what: str) -> None:
    """Say on stderr what is measured next, and how long that takes on two free cores."""
    print(f"{what} ...", file=sys.stderr, flush=True)


def _said(targets: Iterable[Target]) -> list[Target]:
    """The same, each printed as soon as it is known."""
    said = []
    for target in targets:
        print(target, flush=True)
        said.append(target)
    return said


if __name__ == "__main__":
    sys.exit(main())
