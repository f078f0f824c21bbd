"""A lister beside a real DbLedgerStorage bookie: its rate, and what it costs the bookie.

    .venv/bin/python -m benchmarks.listers [--ledgers 10000] [--rounds 5]

Four ratios, the two sides of each measured one right after the other. *Bare* is the iterator of
the library that the lister reads with, over all keys of the same index in one go. The lists of the
lister are beside those of a SortedLedgerStorage bookie that holds the same entries, both asked by
the client that only counts frames (`bookie_requests`). Adds are sent to the bookie one by one,
while nobody lists and while its lister, with the default limits and the weight of its service, is
asked without pause; and while its lister scrubs, pass after pass.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
"""Adds of one side of a round: 20 of them are beyond the 99th percentile."""
PASS_TIMEOUT_S = 120.0
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
        with lister_command(*configuration, prepare=take_least_weight) as where:
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
    """Keys a second of one iterator over the index, opened as the lister opens it."""
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
    """The 99th percentile of adds while the bookie is listed beside that while it is not."""
    alone, listed = [], []
    add_p99_ms(cluster, ADD_LEDGER)  # nobody finds it cold
    for number in range(1, rounds + 1):
        alone.append(add_p99_ms(cluster, ADD_LEDGER + 2 * number))
        with asked_without_pause(where, ledgers):
            listed.append(add_p99_ms(cluster, ADD_LEDGER + 2 * number + 1))
    ratio = median(a / b for a, b in zip(listed, alone, strict=True))
    shown = [" ".join(f"{ms:6.2f}" for ms in side) for side in (alone, listed)]
    return Target(
        f"lister: the p99 of adds to its bookie is at most {ADD_RATIO_MAX:g} times as long while it"
        " lists",
        ratio <= ADD_RATIO_MAX,
        (f"median ratio {ratio:.2f}", f"alone  {shown[0]} ms", f"listed {shown[1]} ms"),
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
        with lister_command(*configuration, *scrubs, prepare=take_least_weight):
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


@contextmanager
def asked_without_pause(where: str, ledgers: int) -> Iterator[None]:
    """Another process asks the lister for all ledgers, over and over."""
    process = multiprocessing.get_context("spawn").Process(
        target=ask_for_ever, args=(*address(where), ledgers)
    )
    process.start()
    try:
        time.sleep(1)  # it imports for half a second
        yield
    finally:
        process.kill()
        process.join()


def ask_for_ever(host: str, port: int, ledgers: int) -> None:
    """Until it is killed."""
    while True:
        asyncio.run(floor_round(host, port, range(ledgers), WINDOW))


def address(where: str) -> tuple[str, int]:
    host, port = where.rsplit(":", 1)
    return host, int(port)


def per_s(rates: Sequence[float]) -> str:
    return " ".join(f"{rate:10,.0f}" for rate in rates)


if __name__ == "__main__":
    sys.exit(measure_rows(__doc__, targets, LEDGERS, ROUNDS))
