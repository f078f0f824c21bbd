"""A process that writes an index of locations like a busy bookie, until its stdin ends.

`python -m support.index_writer DIRECTORY SEED`: batches of entries go to one ledger after another,
in order. Each line of stdout is "LEDGER ENTRIES" once that many of the ledger's first entries are
indexed. The write buffer is 64 KiB, so a flush comes every few batches. Now and then it deletes a
ledger that no test asks for and compacts the index, which removes tables while others read them.
"""

from __future__ import annotations

import random
import select
import struct
import sys
from pathlib import Path

from rocksdict import WriteBatch
from support.location_index import LocationIndex

FIRST, DOOMED = 7, 5
ENTRIES = 20_000
"""Entries of a ledger, after which the next ledger begins."""
BATCH_MAX = 400
PAUSE_S = 0.005
"""Pause between two batches, in seconds: a bookie does more than index, and the reader needs a
core.
"""
COMPACTED_EVERY = 50
"""Batches between two compactions."""


def key(ledger_id: int, entry: int) -> bytes:
    return struct.pack(">qq", ledger_id, entry)


def write(directory: Path, seeded: random.Random) -> None:
    """Write until stdin ends."""
    ledger_id, written, doomed = FIRST, 0, 0
    with LocationIndex(directory) as index:
        (index.logs / "0.log").touch()
        number = 0
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            number += 1
            size = seeded.randint(1, BATCH_MAX)
            batch = WriteBatch(raw_mode=True)
            for entry in range(size):
                batch.put(key(ledger_id, written + entry), struct.pack(">ii", 0, 1028))
                batch.put(key(DOOMED, doomed + entry), struct.pack(">ii", 0, 1028))
            index.write(batch)
            written, doomed = written + size, doomed + size
            print(ledger_id, written, flush=True)
            if written >= ENTRIES:
                ledger_id, written = ledger_id + 1, 0
            if number % COMPACTED_EVERY == 0:
                index.delete_and_compact(key(DOOMED, 0), key(DOOMED, doomed))


if __name__ == "__main__":
    write(Path(sys.argv[1]), random.Random(int(sys.argv[2])))
