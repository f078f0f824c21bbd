"""The process that reads one directory's index: `python -m auditor.lister.reader_process`.

rocksdict holds Python's lock while it reads; each directory therefore has a process. It reads
requests from stdin and writes answers to stdout. It ends when stdin ends: it cannot outlive the
lister. A request is a big-endian int32 length and that many bytes of JSON. An answer has the same
form, followed by the lists.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from auditor.lister.index_view import IndexInDoubt, IndexView, NoWholeView
from auditor.lister.ledger_lists import AnswerTooLong, LedgerLists, ListLimits

IDLE_S = 30.0
"""After this long without a request, the view is closed: an open view keeps deleted files on
disk."""
REPLY_S = 0.05
"""After this long, no further ledger of a request is begun: the lister sends what is finished to
its client, and asks again for the other ledgers."""
REPLY_BYTES_MAX = 2**20
"""Once a reply has this many bytes, no further ledger of the request is begun. With the list that
exceeds it (`answer_bytes_max`) this bounds what a lister holds of one reply."""
NICENESS = 10
"""How much the reader yields to the bookie, with which it shares cores (nice(2))."""

_LENGTH = struct.Struct(">i")


def serve(lists: LedgerLists, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until they end. `requests` is unbuffered and has a file descriptor."""
    while True:
        if not select.select([requests], [], [], IDLE_S)[0]:
            lists.view.close()
            continue
        request = receive(requests)
        if request is None:
            return
        first = request.get("ledgers_from")
        answer = answer_bytes(lists, request["ledgers"]) if first is None else page(lists, first)
        answers.write(answer)
        answers.flush()


def answer_bytes(lists: LedgerLists, ledgers: list[int]) -> bytes:
    """Return the answer to one request: a head, and the lists of the first ledgers.

    The answer ends early when it has REPLY_BYTES_MAX or took REPLY_S; it has at least one ledger.
    If nothing may be said of a ledger, its size is -1 and it has a reason. Without a whole view
    this applies to every ledger: the view is tried only once. `missing` has the logs that a list
    leaves out, by the number of its ledger in the answer.
    """
    began, keys_before = lists.monotonic(), lists.keys_read
    sizes: list[int] = []
    reasons: list[str] = []
    missing: dict[int, list[tuple[Any, ...]]] = {}
    body = bytearray()
    for ledger_id in ledgers:
        try:
            found = lists.list_ledger(ledger_id)
        except NoWholeView as error:
            sizes += [-1] * (len(ledgers) - len(sizes))
            reasons.append(str(error))
            break
        except (IndexInDoubt, AnswerTooLong) as error:
            sizes.append(-1)
            reasons.append(f"ledger {ledger_id}: {error}")
        else:
            if found.missing_logs:
                missing[len(sizes)] = [
                    (log.path, log.entries, log.ranges) for log in found.missing_logs
                ]
            sizes.append(len(found.payload))
            body += found.payload
        if len(body) >= REPLY_BYTES_MAX or lists.monotonic() - began >= REPLY_S:
            break
    head = {
        "sizes": sizes,
        "reasons": reasons,
        "missing": missing,
        "keys": lists.keys_read - keys_before,
        "view_age_ms": _view_age_ms(lists),
    }
    return encode_message(head) + bytes(body)


def page(lists: LedgerLists, first: int) -> bytes:
    """Return the answer to a request for the ledgers from `first` on, in the form of one list.

    It is int64: where the next page begins, or -1, and then the ids.
    """
    keys_before = lists.keys_read
    sizes, reasons, body = [-1], [], b""
    try:
        found = lists.page(first)
    except IndexInDoubt as error:
        reasons.append(str(error))
    else:
        next_id = -1 if found.next_id is None else found.next_id
        body = struct.pack(f">{len(found.ids) + 1}q", next_id, *found.ids)
        sizes = [len(body)]
    head = {
        "sizes": sizes,
        "reasons": reasons,
        "missing": {},
        "keys": lists.keys_read - keys_before,
        "view_age_ms": _view_age_ms(lists),
    }
    return encode_message(head) + body


def _view_age_ms(lists: LedgerLists) -> int | None:
    seen_at = lists.view.seen_at
    return None if seen_at is None else int((lists.monotonic() - seen_at) * 1000)


def encode_message(message: dict[str, Any]) -> bytes:
    """Return the message as JSON behind its length."""
    data = json.dumps(message).encode()
    return _LENGTH.pack(len(data)) + data


class Readable(Protocol):
    """A stream from which bytes can be read, at most a given number at a time."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""


def receive(stream: Readable) -> dict[str, Any] | None:
    """Return the next message; None if the stream has ended, even in the middle of a message."""
    head = read_exactly(stream, _LENGTH.size)
    body = read_exactly(stream, _LENGTH.unpack(head)[0]) if head is not None else None
    return None if body is None else dict(json.loads(body))


def read_exactly(stream: Readable, size: int) -> bytes | None:
    """Return `size` bytes, or None if the stream ends before."""
    data = bytearray()
    while len(data) < size:
        piece = stream.read(size - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)


def main(requests: BinaryIO, answers: BinaryIO) -> None:
    """Read the first message, which says what to read, and serve. The parent handles signals."""
    os.nice(NICENESS)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a view keeps every table open
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    terms = receive(requests)
    if terms is None:
        return
    view = IndexView(Path(terms["locations"]), Path(terms["links"]))
    limits = ListLimits(
        terms["answer_bytes_max"], terms["keys_per_second"], terms["view_age_max_s"]
    )
    serve(LedgerLists(view, Path(terms["logs"]), limits), requests, answers)


if __name__ == "__main__":
    main(open(0, "rb", buffering=0), sys.stdout.buffer)  # noqa: SIM115 - ends with the process
