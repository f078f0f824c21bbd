"""Listers of a real Pulsar's bookies in a storm: write buffers of 64 KiB, flushes, compaction of logs and of the index.

Brokers write the entries of a ledger in order. So a number that a list lacks below its highest is a false hole.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.listers import listers_of
from support.pulsar_stories import BRIEF, ORDERS, listed_entries, placed_entries, topic_of
from support.real_pulsar import BRIEFLY_KEPT, RealPulsar

from auditor.model.identity import LedgerId

pytestmark = [pytest.mark.real, pytest.mark.long]

STORM_S = float(os.environ.get("STORM_S", "180"))
"""How long, in seconds."""
SETTLED_S = 20.0
"""A ledger that has been closed for so long must be listed whole: two hundred flush intervals."""
MESSAGES = 2_000
"""Written by turns to the topic that is kept and to the one that is trimmed."""
NEWEST_LEDGERS = 30
"""Ledgers that are listed again and again, the newest ones, and as many drawn from the others by age."""
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
    """Bookies that flush and compact without pause."""
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
    """Write as fast as the broker takes it, half of it to be deleted at once."""
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
    """In minutes of flushes and compaction each list is whole up to its end, and whole once the ledger is older."""
    said: Counter[str] = Counter()
    seen_closed: dict[LedgerId, float] = {}
    pulsar.produce(topic_of("kept"), MESSAGES)
    with listers_of(pulsar.cluster, tmp_path) as map_file, storm(pulsar):
        listers = dict(line.split() for line in map_file.read_text().splitlines())
        ends = time.monotonic() + STORM_S
        while time.monotonic() < ends:
            for ledger_id in newest_and_older(pulsar, seen_closed):
                for bookie_id, expected in placed_entries(pulsar, ledger_id).items():
                    is_settled = time.monotonic() - seen_closed[ledger_id] > SETTLED_S
                    listed = listed_entries(listers[bookie_id], ledger_id)
                    said["doubt" if not listed else "whole" if listed == expected else "begun"] += 1
                    lacking = sorted(one for one in expected - listed if listed and (is_settled or one < max(listed)))
                    assert not lacking, f"{bookie_id} lists {len(listed)} of {ledger_id} and not {lacking[:20]}: {said}"
                    assert listed <= expected
    print(f"lists: {dict(said)}, ledgers: {len(seen_closed)}, {signs_of_storm(pulsar)}")
    assert said["whole"] > 1_000, said
    assert said["doubt"] < said["whole"], said
    flushed, first_log = signs_of_storm(pulsar)
    assert flushed > 100, "tables of the index that were ever written, on the bookie with the fewest"
    assert first_log > 0, "the first entry logs were compacted away"


def newest_and_older(pulsar: RealPulsar, seen_closed: dict[LedgerId, float]) -> list[LedgerId]:
    """The closed ledgers to list now; notes when each was first seen closed."""
    closed = [one.ledger_id for one in pulsar.data_ledgers(topic_of("kept"))[:-1]]
    for ledger_id in closed:
        seen_closed.setdefault(ledger_id, time.monotonic())
    return [*closed[-NEWEST_LEDGERS:], *closed[:: 1 + len(closed) // NEWEST_LEDGERS]]


def signs_of_storm(pulsar: RealPulsar) -> tuple[int, int]:
    """How many files the index of a bookie ever had, and its oldest entry log: the least of all bookies."""
    files, logs = [], []
    for bookie_id in pulsar.cluster.bookie_ids:
        current = pulsar.cluster.directory(bookie_id) / "ledgers" / "current"
        files.append(max(int(path.stem) for path in (current / "locations").glob("*.sst")))
        logs.append(min(int(path.stem, 16) for path in current.glob("*.log")))
    return min(files), min(logs)
