"""Listers of a real Pulsar's bookies under stress: write buffers of 64 KiB, flushes, compaction of
logs and of the index.

Brokers write the entries of a ledger in order. A number below the highest one that a list lacks is
therefore a false hole.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.listers import listers_of
from support.pulsar_stories import BRIEF, ORDERS, listed_entries, placed_entries, topic_of
from support.real_pulsar import BRIEFLY_KEPT, RealPulsar

from auditor.model.identity import BookieId, EntryId, LedgerId

STORM_S = float(os.environ.get("STORM_S", "180"))
"""How long the stress lasts, in seconds."""
MORE_S = 1_200
"""How long everything else may take, in seconds: the start of all servers, and the time until the
counts below are reached.
"""
pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(STORM_S + MORE_S)]
WHOLE_MIN, FLUSHED_MIN = 1_000, 100
"""The stress lasts until this many lists were complete and the index of each bookie had this many
files, however slow the machine is.
"""
MESSAGES = 2_000
"""Written alternately to the topic that is kept and to the one that is trimmed."""
NEWEST_LEDGERS = 30
"""Ledgers that are listed again and again: the newest ones, and as many of the others, drawn by
age.
"""
ROCKSDB = """[Version]
  rocksdb_version=7.10.2
  options_file_version=1.1
[DBOptions]
  create_if_missing=true
[CFOptions "default"]
  write_buffer_size=65536
  level0_file_num_compaction_trigger=2
[TableOptions/BlockBasedTable "default"]
  format_version=2
"""
BOOKIE_SETTINGS = {
    "flushInterval": 100,
    "logSizeLimit": 2**20,
    "entryLogFilePreallocationEnabled": "false",
    "gcWaitTime": 2_000,
    "minorCompactionInterval": 3,
    "minorCompactionThreshold": 0.6,
    "majorCompactionInterval": 10,
    "majorCompactionThreshold": 0.9,
    "entryLocationCompactionInterval": 5,
}


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPulsar]:
    """Yield bookies that flush and compact without pause."""
    workdir = tmp_path_factory.mktemp("storm")
    options = workdir / "rocksdb.conf"
    options.write_text(ROCKSDB)
    settings = {**BOOKIE_SETTINGS, "entryLocationRocksdbConf": options}
    with RealPulsar(workdir, {"managedLedgerMaxEntriesPerLedger": 500}, settings) as pulsar:
        pulsar.create_namespace(ORDERS)
        pulsar.create_namespace(BRIEF, BRIEFLY_KEPT)
        yield pulsar


@contextmanager
def storm(pulsar: RealPulsar) -> Iterator[None]:
    """Write as fast as the broker accepts it; half of it is deleted at once."""
    stop, failed = threading.Event(), []

    def blow() -> None:
        try:
            while not stop.is_set():
                pulsar.produce(topic_of("kept"), MESSAGES)
                pulsar.produce(topic_of("trimmed", BRIEF), MESSAGES, 1_000)
        except BaseException as error:
            failed.append(error)

    wind = threading.Thread(target=blow, name="storm")
    wind.start()
    try:
        yield
    finally:
        stop.set()
        wind.join()
    assert not failed, failed


def test_no_list_has_a_false_hole(pulsar: RealPulsar, tmp_path: Path) -> None:
    """During minutes of flushes and compaction each list is complete up to its end, and complete
    once a later ledger is.
    """
    said: Counter[str] = Counter()
    whole_up_to: dict[BookieId, LedgerId] = {}
    pulsar.produce(topic_of("kept"), MESSAGES)
    with listers_of(pulsar.cluster, tmp_path) as map_file, storm(pulsar):
        listers = dict(line.split() for line in map_file.read_text().splitlines())
        began = time.monotonic()
        try:
            while (
                time.monotonic() < began + STORM_S
                or said["whole"] < WHOLE_MIN
                or not is_storm(pulsar)
            ):
                list_once(pulsar, listers, said, whole_up_to)
        finally:
            print(
                f"{time.monotonic() - began:.0f} s; lists: {dict(said)}; files of the index and"
                f" oldest entry log, at least: {signs_of_storm(pulsar)}"
            )
    assert said["doubt"] < said["whole"], said


def list_once(
    pulsar: RealPulsar,
    listers: Mapping[BookieId, str],
    said: Counter[str],
    whole_up_to: dict[BookieId, LedgerId],
) -> None:
    """List some ledgers at each of their bookies. `said` counts the lists; `whole_up_to` has the
    newest ledger that each bookie listed in full.
    """
    for ledger_id in newest_and_older(pulsar):
        for bookie_id, expected in placed_entries(pulsar, ledger_id).items():
            is_settled = ledger_id < whole_up_to.get(bookie_id, -1)
            listed = listed_entries(listers[bookie_id], ledger_id)
            said[word_of(listed, expected)] += 1
            lacking = [] if listed is None else holes(listed, expected, is_settled)
            assert not lacking, (
                f"{bookie_id} does not list {lacking[:20]} of ledger {ledger_id}; {said}"
            )
            if listed == expected:
                whole_up_to[bookie_id] = max(ledger_id, whole_up_to.get(bookie_id, -1))


def holes(listed: set[EntryId], expected: set[EntryId], is_settled: bool) -> list[EntryId]:
    """Return the entries that a list wrongly lacks, and those that it wrongly has.

    A bookie flushes ledgers in the order of their ids: if a later one is complete, this one is
    `settled`.
    """
    end = None if is_settled else max(listed, default=-1)
    return sorted(
        {one for one in expected - listed if end is None or one < end} | (listed - expected)
    )


def word_of(listed: set[EntryId] | None, expected: set[EntryId]) -> str:
    """Return the word under which a list is counted."""
    if listed is None:
        return "doubt"
    return "whole" if listed == expected else "begun"


def newest_and_older(pulsar: RealPulsar) -> list[LedgerId]:
    """Return the closed ledgers to list now."""
    closed = [one.ledger_id for one in pulsar.data_ledgers(topic_of("kept"))[:-1]]
    return [*closed[-NEWEST_LEDGERS:], *closed[:: 1 + len(closed) // NEWEST_LEDGERS]]


def is_storm(pulsar: RealPulsar) -> bool:
    """Return whether each bookie has flushed its index often, and compacted its first entry log
    away.
    """
    files, oldest_log = signs_of_storm(pulsar)
    return files >= FLUSHED_MIN and oldest_log > 0


def signs_of_storm(pulsar: RealPulsar) -> tuple[int, int]:
    """Return how many files the index of a bookie ever had, and its oldest entry log: the minimum
    over all bookies.
    """
    files, logs = [], []
    for bookie_id in pulsar.cluster.bookie_ids:
        current = pulsar.cluster.directory(bookie_id) / "ledgers" / "current"
        files.append(
            max((int(path.stem) for path in (current / "locations").glob("*.sst")), default=0)
        )
        logs.append(min((int(path.stem, 16) for path in current.glob("*.log")), default=0))
    return min(files), min(logs)
