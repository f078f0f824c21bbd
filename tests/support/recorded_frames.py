"""Conversations with real bookies, recorded byte for byte, so that a run without Java also tests
against what BookKeeper says.

    .venv/bin/python tests/cluster/record_frames.py    # writes tests/cluster/recorded/*.json anew

There is one file for each storage. A recording is deterministic: fixed ledger ids, entries and
txnIds. Only disk sizes differ from one machine to the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.bookie_contract import BookieUnderTest
from support.raw_bookie import RawBookie, frame, info_request, list_request, read_request, request

from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

RECORDED = Path(__file__).resolve().parents[1] / "cluster" / "recorded"
BOOKKEEPER = "4.17.2"
LEDGER_ID = 600_000
HELD: dict[int, tuple[tuple[int, int], ...]] = {
    0: ((0, 9),),
    1: ((0, 1), (3, 4), (6, 7), (9, 9)),
    2: ((1200, 1202), (1205, 1999)),
    3: ((0, 0),),
    4: ((0, 1024),),
    5: ((7, 7), (900_000, 900_001)),
}
"""The entries of the bookie, by ledger (an offset to LEDGER_ID). Ids are low: for a list a real
bookie reads an index page for every 1024 ids up to the highest one, which takes minutes at 2**40.
"""
EMPTY, UNKNOWN = 6, 7


@dataclass(frozen=True)
class Exchange:
    """One request frame and the body of its answer, as sent over the wire."""

    name: str
    request: bytes
    answer: bytes


def seed(bookie: BookieUnderTest) -> None:
    """Put the recorded entries on the bookie."""
    for number, runs in HELD.items():
        bookie.hold(LEDGER_ID + number, *runs)
    bookie.know_empty(LEDGER_ID + EMPTY)


def requests() -> dict[str, bytes]:
    """Return the requests by name: everything the auditor asks, and its refusals."""
    messages: dict[str, Callable[[int], pb.Request]] = {}
    for number in (*HELD, EMPTY, UNKNOWN):
        messages[f"list ledger +{number}"] = lambda txn_id, number=number: list_request(
            LEDGER_ID + number, txn_id
        )
    for number, entry_id in (
        (0, 0),
        (0, 9),
        (0, 10),
        (1, 2),
        (2, -1),
        (3, 0),
        (4, 1024),
        (5, 900_000),
        (EMPTY, -1),
        (UNKNOWN, 0),
    ):
        messages[f"read ledger +{number} entry {entry_id}"] = (
            lambda txn_id, number=number, entry_id=entry_id: read_request(
                LEDGER_ID + number, entry_id, txn_id
            )
        )
    for mask in range(4):
        messages[f"bookie info {mask}"] = lambda txn_id, mask=mask: info_request(mask, txn_id)
    messages["authenticate"] = _authenticate
    messages["start TLS"] = _start_tls
    messages["list in version 2"] = _list_in_version_2
    messages["batch read"] = lambda txn_id: request("BATCH_READ_ENTRY", txn_id)
    messages["txnId of 64 bits"] = lambda txn_id: info_request(0, 2**64 - txn_id)
    return {
        name: frame(make(txn_id)) for txn_id, (name, make) in enumerate(messages.items(), start=1)
    }


def ask(bookie: BookieUnderTest, frames: dict[str, bytes]) -> list[Exchange]:
    """Send each frame and read its answer, one at a time on one connection."""
    exchanges = []
    with RawBookie(bookie.host, bookie.port) as connection:
        for name, sent in frames.items():
            connection.send_bytes(sent)
            exchanges.append(Exchange(name, sent, connection.receive_body()))
    return exchanges


def write(kind: str, exchanges: list[Exchange]) -> Path:
    """Write a recording, `sorted` or `interleaved`."""
    RECORDED.mkdir(exist_ok=True)
    path = RECORDED / f"{kind}.json"
    rows = [
        {"name": one.name, "request": one.request.hex(), "answer": one.answer.hex()}
        for one in exchanges
    ]
    path.write_text(json.dumps({"bookkeeper": BOOKKEEPER, "exchanges": rows}, indent=1) + "\n")
    return path


def read(kind: str) -> list[Exchange]:
    """Return the recording of one storage."""
    rows = json.loads((RECORDED / f"{kind}.json").read_text())["exchanges"]
    return [
        Exchange(row["name"], bytes.fromhex(row["request"]), bytes.fromhex(row["answer"]))
        for row in rows
    ]


def _authenticate(txn_id: int) -> pb.Request:
    message = request("AUTH", txn_id)
    message.authRequest.authPluginName, message.authRequest.payload = "sasl", b"token"
    return message


def _start_tls(txn_id: int) -> pb.Request:
    message = request("START_TLS", txn_id)
    message.startTLSRequest.SetInParent()
    return message


def _list_in_version_2(txn_id: int) -> pb.Request:
    message = list_request(LEDGER_ID, txn_id)
    message.header.version = pb.VERSION_TWO
    return message
