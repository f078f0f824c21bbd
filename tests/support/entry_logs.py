"""Entry logs and index files as bookies write them, for tests of the scrub."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from support.raw_bookie import entry_body

from auditor.model.ledger import DigestType
from auditor.wire.entry_log import LOG_HEADER_BYTES, encode_record

Entry = tuple[int, int]
_LEDGERS_MAP = struct.Struct(">qqiqq")


def log_header(ledgers_map_at: int = 0, ledgers: int = 0) -> bytes:
    """Return the header of a log."""
    return struct.pack(">4siqi", b"BKLO", 1, ledgers_map_at, ledgers).ljust(LOG_HEADER_BYTES, b"\0")


def write_log(
    path: Path,
    entries: Iterable[Entry],
    digest: DigestType = DigestType.CRC32C,
    *,
    is_closed: bool = False,
) -> dict[Entry, int]:
    """Write a log with these entries, and return the position of each body. A closed log ends with
    a map of its ledgers.
    """
    data, places = bytearray(log_header()), {}
    for ledger, entry in entries:
        places[ledger, entry] = len(data) + 4
        data += encode_record(entry_body(ledger, entry, digest, b""))
    if is_closed:
        data[:LOG_HEADER_BYTES] = log_header(len(data), 1)
        data += encode_record(_LEDGERS_MAP.pack(-1, -2, 1, 7, len(data)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return places


def write_index(current: Path, ledger: int, places: Mapping[int, tuple[int, int]]) -> None:
    """Write the index file of a ledger: the log and the position of each of its entries."""
    cells = bytearray(8 * (max(places) + 1))
    for entry, place in places.items():
        struct.pack_into(">II", cells, 8 * entry, *place)
    path = current / f"{ledger >> 8 & 255:x}" / f"{ledger & 255:x}" / f"{ledger:x}.idx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"BKLE".ljust(1_024, b"\0") + cells)


def flip_bit(path: Path, *bytes_at: int) -> None:
    """Flip the lowest bit of each of these bytes."""
    data = bytearray(path.read_bytes())
    for at in bytes_at:
        data[at] ^= 1
    path.write_bytes(data)
