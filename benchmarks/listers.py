"""A lister beside a real DbLedgerStorage bookie: its rate, and what it costs the bookie.

    .venv/bin/python -m benchmarks.listers [--ledgers 10000] [--rounds 5]

Four ratios, the two sides of each measured one right after the other. *Bare* is the iterator of
the library that the lister reads with, over all keys of the same index in one go, in a process as
nice as the lister's reader. The lists of the lister are beside those of a SortedLedgerStorage
bookie that holds the same entries, both asked by the client that only counts frames
(`bookie_requests`). Adds are sent to the bookie at the same times of each slice of a few seconds:
while nobody lists, and while its lister, with the default limits and the weight of its service, is
asked without pause, slice by slice in turn. A last row sends them one by one while its lister
scrubs, pass after pass.

On a machine that does other work, `chrt --rr 2` before the command keeps that work out of the
figures: bookies and clients then have real-time priority 2, a lister beside adds and its client 1.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import chain
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median, quantiles

from support.listers import await_listed, lister_command
from support.raw_bookie import (
    ADDS_INFLIGHT_MAX,
    RawBookie,
    add_request,
    entry_body,
    master_key,
)
from support.real_cluster import RealCluster

from auditor.config import BookieLimits
from auditor.lister.bookie_configuration import read_configuration
from auditor.lister.index_view import IndexView
from auditor.lister.ledger_lists import BURST_S
from auditor.lister.reader_process import NICENESS
from auditor.lister.scrub import ScrubTerms
from auditor.lister.scrub_process import read_report
from benchmarks.bookie_requests import floor_round
from benchmarks.foreground import take_least_weight
from benchmarks.targets import Target, measure_rows

LEDGERS, ENTRIES, ROUNDS = 10_000, 100, 5
LONG_LEDGERS, LONG_ENTRIES, LONG_FIRST = 40, 10_000, 20_000_000
"""The ledgers whose keys are counted beside the bare iterator: a seek and a request each weigh
little, as on clusters with ledgers of usual length.
"""
LONG = range(LONG_FIRST, LONG_FIRST + LONG_LEDGERS)
BARE_RATIO_MIN = SORTED_RATIO_MIN = 0.5
ADD_RATIO_MAX = 1.2
ADDS = 2_000
"""Adds of one side of a round beside a scrub: 20 of them are beyond the 99th percentile."""
ADDS_PER_S = 150
"""Adds that are due in a second of a slice, whatever the bookie does: half of what it takes from
this client on two free cores."""
SLICE_S, SLICES = 2.0, 6
"""Length of a slice in seconds, and slices of each side in a round: 1,800 adds, 18 of them beyond
the 99th percentile."""
SETTLE_S = BURST_S + 0.2
"""Before each slice, in seconds: the lists that a lister makes at once after a pause are made, or
the last lists that were asked for are."""
LEDGERS_ASKED = 500
"""Lists that are asked for before the client looks whether it should go on."""
PASS_TIMEOUT_S = START_TIMEOUT_S = 120.0
ADD_LEDGER = 10_000_000
"""The ledger of the adds; each round has one of its own behind it."""
WINDOW = BookieLimits().bookie_inflight
DB, SORTED = "b1", "b2"


def targets(scratch: Path, ledgers: int = LEDGERS, rounds: int = ROUNDS) -> Iterator[Target]:
    """Measure on a cluster of two bookies that hold the same; some minutes, most of them to
    write.
    """
    storages = ["DbLedgerStorage", "SortedLedgerStorage"]
    with RealCluster(scratch / "cluster", bookies=2, storage=storages) as cluster:
        for bookie in (DB, SORTED):
            store(cluster, bookie, range(ledgers), ENTRIES)
        store(cluster, DB, LONG, LONG_ENTRIES)
        configuration = ("--bookkeeper-conf", str(cluster.directory(DB) / "bookie.conf"))
        with lister_command(*configuration, "--lister-keys-per-second", "0") as where:
            await_listed(where, ledgers - 1)
            await_listed(where, LONG[-1])
            yield compare_bare(cluster, scratch, where, rounds)
            yield compare_sorted(cluster, where, ledgers, rounds)
        with lister_command(*configuration, prepare=stand_back) as where:
            yield compare_adds(cluster, where, ledgers, rounds)
        yield compare_scrubbed(cluster, configuration, scratch / "scrub", rounds)


def store(cluster: RealCluster, bookie: str, ledgers: range, entries: int) -> None:
    """Add all entries, some of them at a time unanswered."""
    key = master_key()
    with cluster.connect(bookie) as connection:
        waiting = 0
        for ledger_id in ledgers:
            for start in range(0, entries, ENTRIES):
                if waiting + ENTRIES > ADDS_INFLIGHT_MAX:
                    for _ in range(waiting):
                        assert connection.receive().status == 0, "an entry was not added"
                    waiting = 0
                connection.send(*add_requests(connection, ledger_id, start, key))
                waiting += ENTRIES
        for _ in range(waiting):
            assert connection.receive().status == 0, "an entry was not added"


def add_requests(connection: RawBookie, ledger_id: int, start: int, key: bytes) -> Iterator[bytes]:
    """ENTRIES adds, from entry `start` on."""
    for entry in range(start, start + ENTRIES):
        body = entry_body(ledger_id, entry)
        yield add_request(ledger_id, entry, body, key, connection.next_txn_id())


def listed_per_s(where: tuple[str, int], ledgers: range) -> float:
    """Ledgers listed a second, each once."""
    return asyncio.run(floor_round(*where, ledgers, WINDOW))


def bare_per_s(locations: Path, links: Path) -> float:
    """Keys a second of one iterator over the index, opened as the lister opens it.

    A process that is as nice as the lister's reader iterates: other work on the machine leaves
    both the same share.
    """
    with ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), initializer=os.nice, initargs=(NICENESS,)
    ) as process:
        return process.submit(iterate, locations, links).result()


def iterate(locations: Path, links: Path) -> float:
    """Keys a second of one iterator, in this process."""
    links.mkdir(parents=True, exist_ok=True)
    view = IndexView(locations, links)
    view.refresh()
    began, keys = time.perf_counter(), 0
    iterator = view._db.iter()
    iterator.seek_to_first()
    while iterator.valid():
        iterator.key()
        keys += 1
        iterator.next()
    rate = keys / (time.perf_counter() - began)
    view.close()
    return rate


def compare_bare(cluster: RealCluster, scratch: Path, where: str, rounds: int) -> Target:
    """Keys that the lister lists beside keys that the library iterates."""
    locations = cluster.directory(DB) / "ledgers" / "current" / "locations"
    bare, listed = [], []
    for _ in range(rounds):
        bare.append(bare_per_s(locations, scratch / "links"))
        listed.append(LONG_ENTRIES * listed_per_s(address(where), LONG))
    ratio = median(a / b for a, b in zip(listed, bare, strict=True))
    return Target(
        f"lister: lists at {BARE_RATIO_MIN:g} of the rate of a bare iterator at least",
        ratio >= BARE_RATIO_MIN,
        (
            f"{LONG_LEDGERS} ledgers of {LONG_ENTRIES:,} entries, median ratio {ratio:.2f}",
            f"bare  {per_s(bare)} keys/s",
            f"lists {per_s(listed)} keys/s",
        ),
    )


def compare_sorted(cluster: RealCluster, where: str, ledgers: int, rounds: int) -> Target:
    """Ledgers that the lister lists beside those that a SortedLedgerStorage bookie lists."""
    listed_per_s(cluster.address(SORTED), range(ledgers))  # nobody finds it cold
    bookie, lister = [], []
    for _ in range(rounds):
        bookie.append(listed_per_s(cluster.address(SORTED), range(ledgers)))
        lister.append(listed_per_s(address(where), range(ledgers)))
    ratio = median(a / b for a, b in zip(lister, bookie, strict=True))
    return Target(
        f"lister: lists at {SORTED_RATIO_MIN:g} of the rate of a SortedLedgerStorage bookie at"
        " least",
        ratio >= SORTED_RATIO_MIN,
        (
            f"{ledgers:,} ledgers of {ENTRIES} entries, median ratio {ratio:.2f}",
            f"bookie {per_s(bookie)} ledgers/s",
            f"lister {per_s(lister)} ledgers/s",
        ),
    )


def compare_adds(cluster: RealCluster, where: str, ledgers: int, rounds: int) -> Target:
    """The 99th percentile of adds while the bookie is listed beside that while it is not.

    How far the slices without lists are from each other shows what the machine alone does.
    """
    p99s: dict[str, list[float]] = {"alone": [], "listed": [], "first": [], "second": []}
    add_p99_ms(cluster, ADD_LEDGER)  # nobody finds it cold
    with asking(where, ledgers) as (is_wanted, lists):
        for number in range(rounds):
            alone, listed = list[list[float]](), list[list[float]]()
            for part in range(SLICES):
                ledger_id = ADD_LEDGER + 1 + 2 * (number * SLICES + part)
                alone.append(due_adds_ms(cluster, ledger_id))
                is_wanted.set()
                listed.append(due_adds_ms(cluster, ledger_id + 1))
                is_wanted.clear()
            p99s["alone"].append(p99_of(alone))
            p99s["listed"].append(p99_of(listed))
            p99s["first"].append(p99_of(alone[::2]))
            p99s["second"].append(p99_of(alone[1::2]))
    ratios = [a / b for a, b in zip(p99s["listed"], p99s["alone"], strict=True)]
    noise = [a / b for a, b in zip(p99s["first"], p99s["second"], strict=True)]
    ratio, asked_s = median(ratios), rounds * SLICES * (SETTLE_S + SLICE_S)
    shown = [" ".join(f"{ms:6.2f}" for ms in p99s[side]) for side in ("alone", "listed")]
    return Target(
        f"lister: the p99 of adds to its bookie is at most {ADD_RATIO_MAX:g} times as long while it"
        " lists",
        ratio <= ADD_RATIO_MAX,
        (
            (
                f"median ratio {ratio:.2f}, {min(ratios):.2f} to {max(ratios):.2f}; {ADDS_PER_S}"
                " adds a second"
            ),
            f"half of the slices alone beside the other half: {min(noise):.2f} to {max(noise):.2f}",
            f"{lists.value / asked_s:,.0f} lists a second meanwhile",
            f"alone  {shown[0]} ms",
            f"listed {shown[1]} ms",
        ),
    )


def compare_scrubbed(
    cluster: RealCluster, configuration: Sequence[str], scratch: Path, rounds: int
) -> Target:
    """The 99th percentile of adds while the bookie's logs are scrubbed beside that while they are
    not. Passes follow each other, with the default limits.
    """
    configured = read_configuration(Path(configuration[-1]))
    key = ScrubTerms(DB, configured, True, scratch, scratch, 0, 0).key
    alone, scrubbed = [], []
    for number in range(1, rounds + 1):
        ledger_id = ADD_LEDGER + 1_000 + 2 * number
        alone.append(add_p99_ms(cluster, ledger_id))
        scrubs = ("--scrub", str(scratch), "--scrub-every", "0")
        with lister_command(*configuration, *scrubs, prepare=stand_back):
            await_pass(scratch, key)
            scrubbed.append(add_p99_ms(cluster, ledger_id + 1))
    report = read_report(scratch, key)
    assert report is not None, "the scrub read nothing"
    read = sum(one.read_bytes for one in report.passes())
    ratio = median(a / b for a, b in zip(scrubbed, alone, strict=True))
    shown = [" ".join(f"{ms:6.2f}" for ms in side) for side in (alone, scrubbed)]
    return Target(
        f"lister: the p99 of adds to its bookie is at most {ADD_RATIO_MAX:g} times as long while it"
        " scrubs",
        ratio <= ADD_RATIO_MAX,
        (
            f"median ratio {ratio:.2f}, {read / 2**20:,.0f} MiB in the last two passes",
            f"alone    {shown[0]} ms",
            f"scrubbed {shown[1]} ms",
        ),
    )


def await_pass(scratch: Path, key: Sequence[str]) -> None:
    """Wait until the scrub goes on with a pass or began one: a new process imports for a while."""
    began = time.time()
    while (report := read_report(scratch, key)) is None or report.written_at_ms < began * 1_000:
        assert time.time() - began < PASS_TIMEOUT_S, "the scrub writes no report"
        time.sleep(0.1)


def add_p99_ms(cluster: RealCluster, ledger_id: int) -> float:
    """The 99th percentile of the times of adds, one after another."""
    key, times = master_key(), []
    with cluster.connect(DB) as connection:
        for entry in range(ADDS):
            request = add_request(
                ledger_id, entry, entry_body(ledger_id, entry), key, connection.next_txn_id()
            )
            began = time.perf_counter()
            assert connection.ask(request).status == 0, "an entry was not added"
            times.append(1_000 * (time.perf_counter() - began))
    return quantiles(times, n=100)[98]


def due_adds_ms(cluster: RealCluster, ledger_id: int) -> list[float]:
    """The times of the adds of a slice, each from when it was due."""
    key, times = master_key(), []
    time.sleep(SETTLE_S)
    with cluster.connect(DB) as connection:
        began = time.perf_counter()
        for entry in range(round(SLICE_S * ADDS_PER_S)):
            body = entry_body(ledger_id, entry)
            request = add_request(ledger_id, entry, body, key, connection.next_txn_id())
            due = began + entry / ADDS_PER_S
            time.sleep(max(0.0, due - time.perf_counter()))
            assert connection.ask(request).status == 0, "an entry was not added"
            times.append(1_000 * (time.perf_counter() - due))
    return times


def p99_of(slices: Sequence[Sequence[float]]) -> float:
    """The 99th percentile of the times of several slices."""
    return quantiles(chain.from_iterable(slices), n=100)[98]


@contextmanager
def asking(where: str, ledgers: int) -> Iterator[tuple[Event, Synchronized[int]]]:
    """Another process asks the lister for all ledgers, over and over, while the event is set, and
    counts the lists.
    """
    context = multiprocessing.get_context("spawn")
    is_wanted, has_begun, lists = context.Event(), context.Event(), context.Value("q", 0)
    process = context.Process(
        target=ask_while_wanted, args=(*address(where), ledgers, is_wanted, has_begun, lists)
    )
    process.start()
    try:
        assert has_begun.wait(START_TIMEOUT_S), "the client of the lister did not begin"
        yield is_wanted, lists
    finally:
        process.kill()
        process.join()


def ask_while_wanted(
    host: str,
    port: int,
    ledgers: int,
    is_wanted: Event,
    has_begun: Event,
    lists: Synchronized[int],
) -> None:
    """Until it is killed."""
    lower_real_time_priority()
    has_begun.set()
    while True:
        for first in range(0, ledgers, LEDGERS_ASKED):
            is_wanted.wait()
            asked = range(first, min(ledgers, first + LEDGERS_ASKED))
            asyncio.run(floor_round(host, port, asked, WINDOW))
            with lists:
                lists.value += len(asked)


def stand_back() -> None:
    """Give this process the least weight, and less than the bookie's real-time priority."""
    take_least_weight()
    lower_real_time_priority()


def lower_real_time_priority() -> None:
    """Take priority 1 if this process has a real-time priority."""
    if os.sched_getscheduler(0) == os.SCHED_RR:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def address(where: str) -> tuple[str, int]:
    host, port = where.rsplit(":", 1)
    return host, int(port)


def per_s(rates: Sequence[float]) -> str:
    return " ".join(f"{rate:10,.0f}" for rate in rates)


if __name__ == "__main__":
    sys.exit(measure_rows(__doc__, targets, LEDGERS, ROUNDS))
