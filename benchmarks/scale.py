"""A whole run on as many ledgers as wanted, beside the floor: a raw client that reads the same
znodes and asks for the same lists, and only counts what comes.

    .venv/bin/python -m benchmarks.scale --ledgers 1000000 [--keep DIR] [--workers 2]
    .venv/bin/python -m benchmarks.scale --ledgers 40000 --divide 1,2,4 [--service-us 500]

The cluster is a real ZooKeeper, and 40 bookies that answer from arithmetic in one compiled process
(`arithmetic_cluster`). One ledger in 1,000 is damaged in one of five ways, so that the right answer
is known. The floor is one Python process. Its rates say what the servers give at least. A second
one decodes each answer, which every correct client in Python has to do.
`--keep` keeps ZooKeeper's data in a directory: 2 GB for ten million ledgers, which take 4.2 GB of
ZooKeeper's memory.

With `--workers` the audit runs on a Spark standalone cluster of so many workers on this machine.
`--divide` runs it on clusters of so many executors in turn, with one task each, and prints
what each run took. There each bookie takes a time of its own for an answer: waiting is divided by
more executors even where they share two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from support.standalone_spark import StandaloneSpark, standalone_spark
from support.zookeeper_znodes import uri

from auditor.config import BookieLimits, ZooKeeperLimits
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import VERDICTS
from auditor.model.verdict import Standing
from auditor.wire import znode_paths
from auditor.wire.frames import Status, decode_response, encode_get_list
from auditor.zookeeper.reading import read_many
from auditor.zookeeper.session import connect
from benchmarks import PROJECT, processes
from benchmarks.arithmetic_cluster import (
    BOOKIES,
    COPIES,
    DAMAGED_EVERY,
    DAMAGES,
    LAYOUT,
    ROOT,
    ArithmeticCluster,
    Counted,
    arithmetic_cluster,
    damage_of,
)
from benchmarks.bookie_requests import CountingClient
from benchmarks.targets import Target
from benchmarks.whole_run import ensure_class_archive

LEDGERS = 100_000
RATIO_MAX = 4.0
DRIVER_BYTES_MAX = 2**30
EVIDENCE_BYTES_MAX = 40
RUN_TIMEOUT_S = 7_200
FAULTS_SHOWN = 10
CORES, WORKER_MEMORY = 2, "1600m"
"""What each worker of a Spark standalone cluster has."""
SERVICE_US = 500
"""How long a bookie takes for an answer with `--divide`: it gives as many a second as the auditor
asks for by default.
"""
PROCESSES = ("driver", "java", "python")
BOOKIES_AT_ONCE = 8
"""Bookies that the floor asks in parallel."""
KINDS = {
    DAMAGES[0]: "ENTRY_BELOW_WRITE_QUORUM",
    DAMAGES[1]: "ENTRY_BELOW_WRITE_QUORUM",
    DAMAGES[2]: "ENTRY_BELOW_WRITE_QUORUM",
    DAMAGES[3]: "ENTRY_WITHOUT_REPLICA",
    DAMAGES[4]: "ENTRY_BELOW_ACK_QUORUM",
}
"""The kind of the findings of each damage."""


@dataclass(frozen=True, slots=True)
class Floor:
    """What a raw client took: seconds on the clock and of its processor."""

    znodes_s: float
    lists_s: float
    cpu_s: float

    @property
    def wall_s(self) -> float:
        return self.znodes_s + self.lists_s


class ListRequests(Sequence[bytes]):
    """The encoded list requests for a bookie, for each ledger whose ensemble names it, in order of
    their ids. Each is encoded when it is taken.
    """

    def __init__(self, bookie: int, ledgers: int) -> None:
        self._firsts = sorted((bookie - position) % BOOKIES for position in range(COPIES))
        self._size = sum(len(range(first, ledgers, BOOKIES)) for first in self._firsts)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...

    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self._encode(number) for number in range(*at.indices(self._size))]
        return self._encode(range(self._size)[at])

    def _encode(self, number: int) -> bytes:
        turn, position = divmod(number, COPIES)
        return encode_get_list(number + 1, BOOKIES * turn + self._firsts[position])


class DecodingClient(CountingClient):
    """Decodes each answer too, and raises ValueError for a status that no list has."""

    def count_frames(self, data: bytes) -> int:
        end, start = super().count_frames(data), 0
        while start < end:
            body = start + 4
            start = body + int.from_bytes(data[start:body], "big")
            response = decode_response(data[body:start])
            if response.status not in (Status.EOK, Status.ENOLEDGER):
                raise ValueError(f"a list request was answered with {response}")
        return end


def measure_floor(
    cluster: ArithmeticCluster, ledgers: int, client: type[CountingClient] = CountingClient
) -> Floor:
    """Read the znode of each ledger by multiRead, and ask each bookie for each of its lists."""
    cpu = time.process_time()
    began = time.monotonic()
    paths = (znode_paths.ledger_path(LAYOUT, ledger_id) for ledger_id in range(ledgers))
    limits = ZooKeeperLimits(zookeeper_reads_per_second=0)
    with connect(uri(cluster.zookeeper_hosts, ROOT), limits) as session:
        read = sum(1 for znode in read_many(session, (ROOT + path for path in paths)) if znode.data)
    assert read == ledgers, f"{read} of {ledgers} znodes were read"
    znodes_s = time.monotonic() - began
    asyncio.run(_ask_all(cluster, ledgers, client))
    return Floor(znodes_s, time.monotonic() - began - znodes_s, time.process_time() - cpu)


async def _ask_all(cluster: ArithmeticCluster, ledgers: int, client: type[CountingClient]) -> None:
    for first in range(0, BOOKIES, BOOKIES_AT_ONCE):
        group = range(first, min(first + BOOKIES_AT_ONCE, BOOKIES))
        await asyncio.gather(
            *(
                _ask(cluster.ports[bookie], ListRequests(bookie, ledgers), client)
                for bookie in group
            )
        )


async def _ask(port: int, requests: Sequence[bytes], client: type[CountingClient]) -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    transport, _ = await loop.create_connection(
        lambda: client(requests, BookieLimits().bookie_inflight, done), "127.0.0.1", port
    )
    await done
    transport.close()


@dataclass(frozen=True, slots=True)
class Audited:
    """One `auditor run`: what it used and found, and what it asked the bookies."""

    used: processes.Used
    directory: Place
    summary: dict[str, Any]
    faults: tuple[str, ...]
    """How its verdicts differ from the right ones: the first FAULTS_SHOWN."""
    evidence_bytes: int
    asked: Counted


def audit(
    cluster: ArithmeticCluster,
    output: Path,
    ledgers: int,
    spark: StandaloneSpark | None = None,
    flags: Sequence[str] = (),
) -> Audited:
    """Run the auditor without limits on its rate, and compare its verdicts with the damage.

    `flags` are further words of its command.
    """
    before = cluster.counted()
    command = [sys.executable, "-m", "auditor", "run", "--quiet", "--second-look-delay", "0s"]
    where = ["--metadata-service-uri", cluster.metadata_service_uri, "--output", str(output)]
    lifted = ["--bookie-requests-per-second", "0", "--zookeeper-reads-per-second", "0"]
    on = ["--spark-master", spark.master, "--ledgers-in-process-max", "0"] if spark else []
    executors = spark.worker_pids if spark else ()
    used = processes.run(
        [*command, *where, *lifted, *on, *flags], PROJECT, RUN_TIMEOUT_S, executors
    )
    if used.code != 1:
        raise RuntimeError(f"auditor run ended with {used.code}: {used.said[-3000:]}")
    name = json.loads((output / "latest.json").read_text())["run"]
    run = place(str(output)) / name
    evidence = sum(
        size for name, size in run.file_sizes("evidence").items() if name.endswith(".parquet")
    )
    summary = json.loads((output / name / "summary.json").read_text())
    asked = Counted(*(after - one for after, one in zip(cluster.counted(), before, strict=True)))
    return Audited(
        used, run, summary, tuple(islice(_faults(run, ledgers), FAULTS_SHOWN)), evidence, asked
    )


def _faults(run: Place, ledgers: int) -> Iterator[str]:
    """Yield how the verdicts differ from what is right."""
    verdicts = np.zeros(ledgers, np.uint8)
    for batch in run.stream("verdicts", VERDICTS, ["ledger_id", "standing", "findings"]):
        ids = batch["ledger_id"].to_numpy()
        outside = (ids < 0) | (ids >= ledgers)
        yield from (f"a verdict on ledger {ledger_id}" for ledger_id in ids[outside])
        np.add.at(verdicts, ids[~outside], 1)
        has_findings = pc.fill_null(pc.greater(pc.list_value_length(batch["findings"]), 0), False)
        is_sound = pc.equal(batch["standing"], Standing.SOUND.word)
        is_healthy = pc.and_(is_sound, pc.invert(has_findings)).to_numpy(zero_copy_only=False)
        is_healthy &= (ids + 1) % DAMAGED_EVERY != 0
        for row in batch.filter(pa.array(~is_healthy)).to_pylist():
            damage = damage_of(row["ledger_id"])
            kinds = {json.loads(one)["kind"] for one in row["findings"] or ()}
            is_right = (
                damage is not None
                and row["standing"] == Standing.VIOLATED.word
                and kinds == {KINDS[damage]}
            )
            if not is_right:
                yield f"ledger {row['ledger_id']} ({damage}): {row['standing']} {sorted(kinds)}"
    if not (verdicts == 1).all():
        yield (
            f"{np.count_nonzero(verdicts == 0):,} of {ledgers:,} ledgers without a verdict,"
            f" {np.count_nonzero(verdicts > 1):,} with more than one"
        )


def targets(
    scratch: Path, ledgers: int, kept: Path | None = None, workers: int = 0
) -> Iterator[Target]:
    """Measure the floor, the floor that decodes each answer, and one whole run, cold.

    ZooKeeper's data is `kept`, or in the directory `scratch` like all else. The run has a Spark of
    its own, or one of so many workers.
    """
    with ExitStack() as stack:
        cluster = stack.enter_context(arithmetic_cluster(kept or scratch / "cluster", ledgers))
        floor = measure_floor(cluster, ledgers)
        decoding = measure_floor(cluster, ledgers, DecodingClient)
        spark = None
        if workers:
            (scratch / "spark").mkdir()
            standalone = standalone_spark(scratch / "spark", workers, CORES, WORKER_MEMORY)
            spark = stack.enter_context(standalone)
        audited = audit(cluster, scratch / "audits", ledgers, spark)
    used, pairs = audited.used, ledgers * COPIES
    damaged = ledgers // DAMAGED_EVERY
    yield Target(
        f"exactly the {damaged:,} damaged ones of {ledgers:,} ledgers are accused, of the right"
        " kind",
        not audited.faults,
        audited.faults or (f"by {audited.asked.lists:,} lists, {audited.asked.reads:,} reads",),
    )
    ratio = used.wall_s / floor.wall_s
    yield Target(
        f"a whole run over {ledgers:,} ledgers takes at most {RATIO_MAX:g} times its floor",
        ratio <= RATIO_MAX,
        (
            f"ratio {ratio:.1f} on the clock, {used.cpu_s / floor.cpu_s:.1f} in CPU seconds",
            f"ratio {used.wall_s / decoding.wall_s:.1f} on the clock,"
            f" {used.cpu_s / decoding.cpu_s:.1f} in CPU seconds, to a floor that decodes answers",
            f"auditor run  {used.wall_s:7.1f} s, {used.cpu_s:7.1f} CPU s; {stage_times(audited)}",
            f"             {by_process(used.cpus_s, '{:.1f} CPU s')}",
            _floor_line("floor", floor, ledgers),
            _floor_line("that decodes", decoding, ledgers),
            f"a ledger: {_of_each(used, ledgers)}",
        ),
    )
    driver = used.peaks_bytes["driver"]
    yield Target(
        f"the driver takes at most {DRIVER_BYTES_MAX / 2**20:,.0f} MiB",
        driver <= DRIVER_BYTES_MAX,
        (peaks(used) + " at most in one process",),
    )
    each = audited.evidence_bytes / pairs
    yield Target(
        f"evidence takes at most {EVIDENCE_BYTES_MAX} bytes a ledger and copy",
        each <= EVIDENCE_BYTES_MAX,
        (f"{each:.1f} bytes, {audited.evidence_bytes / 2**20:,.1f} MiB",),
    )


def _floor_line(name: str, floor: Floor, ledgers: int) -> str:
    znodes, lists = ledgers / floor.znodes_s, ledgers * COPIES / floor.lists_s
    return (
        f"{name:12} {floor.wall_s:7.1f} s, {floor.cpu_s:7.1f} CPU s;"
        f" {znodes:,.0f} znodes/s, {lists:,.0f} lists/s;"
        f" a ledger: {_of_each(floor, ledgers)}"
    )


def _of_each(total: Floor | processes.Used, ledgers: int) -> str:
    each, cpu = total.wall_s / ledgers * 1e6, total.cpu_s / ledgers * 1e6
    return f"{each:.1f} us, {cpu:.1f} CPU us"


def divide(
    scratch: Path, ledgers: int, kept: Path | None, counts: Sequence[int], service_us: int
) -> Iterator[str]:
    """Yield what a run takes on so many executors, for each of the counts."""
    with arithmetic_cluster(kept or scratch / "cluster", ledgers, service_us=service_us) as cluster:
        for count in counts:
            home = scratch / f"executors-{count}"
            home.mkdir()
            with standalone_spark(home, count, 1, WORKER_MEMORY) as spark:
                audited = audit(cluster, home / "audits", ledgers, spark)
            used = audited.used
            yield "\n".join(
                (
                    f"{count} executors: {used.wall_s:.1f} s; {stage_times(audited)}",
                    f"          {by_process(used.cpus_s, '{:.1f} CPU s')}",
                    f"          {peaks(used)} at most in one process",
                    *(f"          WRONG: {fault}" for fault in audited.faults),
                )
            )


def stage_times(audited: Audited) -> str:
    return ", ".join(f"{name} {s:.1f}" for name, s in audited.summary["duration_s"].items())


def by_process(figures: Mapping[str, float], form: str) -> str:
    names = (*PROCESSES, *(f"executor {name}" for name in PROCESSES))
    return ", ".join(f"{name} {form.format(figures[name])}" for name in names if name in figures)


def peaks(used: processes.Used) -> str:
    return by_process({name: size // 2**20 for name, size in used.peaks_bytes.items()}, "{:,} MiB")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ledgers", type=int, default=LEDGERS)
    parser.add_argument("--keep", type=Path, help="keep ZooKeeper's data in this directory")
    parser.add_argument("--workers", type=int, default=0, help="run on a Spark of so many workers")
    parser.add_argument("--divide", help="run on Sparks of so many executors, such as 1,2,4")
    parser.add_argument("--service-us", type=int, default=SERVICE_US)
    chosen = parser.parse_args(arguments)
    ensure_class_archive()
    missed = 0
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        if chosen.divide:
            counts = [int(count) for count in chosen.divide.split(",")]
            for line in divide(scratch, chosen.ledgers, chosen.keep, counts, chosen.service_us):
                print(line, flush=True)
                missed += "WRONG" in line
            return 1 if missed else 0
        for target in targets(scratch, chosen.ledgers, chosen.keep, chosen.workers):
            print(target, flush=True)
            missed += not target.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
