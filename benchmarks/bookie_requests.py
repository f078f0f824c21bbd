"""Lists a second over one connection to one bookie: the product's lane beside the least a client
can do, in one run.

    .venv/bin/python -m benchmarks.bookie_requests HOST PORT --ledgers 0-19999 [--windows 64,256]
    [--repeats 3]

The bookie must hold the entries of each of these ledgers from 0 on. They are asked for as in a run:
in blocks, whose lists are compared. The floor sends requests that were encoded beforehand and only
counts the frames that come back: what the bookie, the network and the event loop cost with any
client. Both take turns against the
same bookie at the same window; the ratio is the median over the rounds, each round's two sides
measured one right after the other. The lane's rate limit is lifted, so do not aim this at a bookie
that has something else to do. Garbage is collected as seldom as in a run's workers.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from support.lanes import BlockingLane

from auditor.bookie.lane import AsyncLane, ListQuestion
from auditor.bookie.list_blocks import ListBlock
from auditor.config import BookieLimits
from auditor.judging.judge import GARBAGE_THRESHOLDS
from auditor.wire.entry_availability import groups_of
from auditor.wire.frames import encode_get_list
from benchmarks.targets import Target

RATIO_MIN = 0.8
AS_EXPECTED = "as expected"
FLOOR_PER_S_MIN = 20_000
"""Below this the bookie or the machine is what was measured, and the ratio says nothing."""
WINDOWS, REPEATS = (BookieLimits().bookie_inflight, 256), 9
"""The run's own window, which is judged, and one for comparison."""
LISTS_PER_ROUND = 40_000
"""A round is long beside the pauses of a busy machine: about half a second."""
WAIT_S = 120.0
"""How long one round of the floor may take."""


class CountingClient(asyncio.Protocol):
    """Sends `frames` with at most `window` unanswered, and counts answers without looking into
    them.
    """

    def __init__(self, frames: Sequence[bytes], window: int, done: asyncio.Future[None]) -> None:
        self._frames = frames
        self._window = window
        self._done = done
        self._sent = 0
        self._answered = 0
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        self._rest = data[self.count_frames(data) :]
        if self._answered == len(self._frames):
            self._done.set_result(None)
        else:
            self._send()

    def count_frames(self, data: bytes) -> int:
        """Count the whole frames at the beginning of `data`, and return where they end."""
        start, end = 0, len(data)
        while end - start >= 4:
            length = int.from_bytes(data[start : start + 4], "big")
            if end - start - 4 < length:
                break
            start += 4 + length
            self._answered += 1
        return start

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error or ConnectionError("the bookie closed the connection"))

    def _send(self) -> None:
        upto = min(len(self._frames), self._answered + self._window)
        if upto > self._sent:
            self._transport.write(b"".join(self._frames[self._sent : upto]))
            self._sent = upto


@dataclass(frozen=True)
class Measured:
    """Lists a second at one window, and lane over floor: medians. `answers` counts the lane's
    answers by status.
    """

    window: int
    floor_per_s: float
    lane_per_s: float
    ratio: float
    answers: dict[str, int]

    def __str__(self) -> str:
        rates = (
            f"floor {self.floor_per_s:9,.0f}/s   lane {self.lane_per_s:9,.0f}/s   ratio"
            f" {self.ratio:.2f}"
        )
        return f"window {self.window:4d}   {rates}   {self.answers}"


async def floor_round(host: str, port: int, ledger_ids: Sequence[int], window: int) -> float:
    """Lists a second of one round of the floor; encoding and connecting are not counted."""
    loop = asyncio.get_running_loop()
    frames = [encode_get_list(txn_id, ledger_id) for txn_id, ledger_id in enumerate(ledger_ids, 1)]
    done = loop.create_future()
    began = loop.time()
    transport, _ = await loop.create_connection(
        lambda: CountingClient(frames, window, done), host, port
    )
    async with asyncio.timeout(WAIT_S):
        await done
    rate = len(frames) / (loop.time() - began)
    transport.close()
    return rate


def lane_round(
    host: str, port: int, blocks: Sequence[ListBlock], window: int
) -> tuple[float, dict[str, int]]:
    """Lists a second of one round of the lane, and its answers: as expected, or by status."""
    limits = BookieLimits(bookie_requests_per_second=0, bookie_inflight=window)
    with BlockingLane(_lane(host, port, limits)) as lane:
        lane.greet()
        began = time.perf_counter()
        calls = [lane.list_block(block) for block in blocks]
        expected = sum(len(call.expected_answers().ledger_ids) for call in calls)
        others = [kept.answer for call in calls for kept in call.other_answers()]
        rate = (expected + len(others)) / (time.perf_counter() - began)
    statuses = Counter(answer.status.value for answer in others)
    return rate, {AS_EXPECTED: expected, **statuses}


def _lane(host: str, port: int, limits: BookieLimits) -> AsyncLane:
    return AsyncLane(
        f"{host}:{port}", host, port, limits, look=1, now_ms=lambda: int(time.time() * 1000)
    )


def whole_ledgers(host: str, port: int, ledger_ids: Sequence[int]) -> list[ListBlock]:
    """Return what to ask about ledgers of which the bookie holds every entry. It says which."""
    with BlockingLane(_lane(host, port, BookieLimits(bookie_requests_per_second=0))) as lane:
        lists = [groups_of(a.groups) for a in lane.lists([ListQuestion(i) for i in ledger_ids])]
    if any(len(groups) != 1 or groups[0].first != 0 for groups in lists):
        raise SystemExit("the bookie does not hold the entries of these ledgers from 0 on")
    ends = np.array([groups[0].size - 1 for groups in lists])
    return [ListBlock(np.array(ledger_ids), ends, 1, 1, 0, bytes(len(ends)))]


def _times(block: ListBlock, times: int) -> ListBlock:
    """Return the questions of a block so many times."""
    return replace(
        block,
        ledger_ids=np.tile(block.ledger_ids, times),
        last_entries=np.tile(block.last_entries, times),
        is_kept=block.is_kept * times,
    )


def compare(
    host: str, port: int, blocks: Sequence[ListBlock], windows: Sequence[int], repeats: int
) -> list[Measured]:
    """One Measured a window. The bookie is asked for every ledger once beforehand, so that nobody
    finds it cold.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    times = -(-LISTS_PER_ROUND // sum(map(len, blocks)))
    blocks = [_times(block, times) for block in blocks]
    asked: list[int] = np.concatenate([block.ledger_ids for block in blocks]).tolist()
    asyncio.run(floor_round(host, port, asked[: len(asked) // times], max(windows)))
    found = []
    for window in windows:
        floors, lanes = [], []
        answers: dict[str, int] = {}
        for _ in range(repeats):
            floors.append(asyncio.run(floor_round(host, port, asked, window)))
            rate, answers = lane_round(host, port, blocks, window)
            lanes.append(rate)
        ratio = median(lane / floor for lane, floor in zip(lanes, floors, strict=True))
        found.append(Measured(window, median(floors), median(lanes), ratio, answers))
    return found


def target(measured: Measured, others: Sequence[Measured] = ()) -> Target:
    """What is promised of the first of these figures; the others stand beside it."""
    return Target(
        f"bookie: the lane asks at {RATIO_MIN:g} of the floor's rate at least, same window, floor"
        f" above {FLOOR_PER_S_MIN:,}/s",
        measured.ratio >= RATIO_MIN
        and measured.floor_per_s > FLOOR_PER_S_MIN
        and set(measured.answers) == {AS_EXPECTED},
        (str(measured), *(f"{other}   (not judged)" for other in others)),
    )


def targets(host: str, port: int, blocks: Sequence[ListBlock]) -> list[Target]:
    """Judged at the run's own window; the bookie at `host`:`port` must hold what it should of each
    of these ledgers.
    """
    first, *others = compare(host, port, blocks, WINDOWS, REPEATS)
    return [target(first, others)]


def _range(text: str) -> range:
    first, last = text.split("-")
    return range(int(first), int(last) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--ledgers", type=_range, required=True, help="first-last, both asked")
    parser.add_argument(
        "--windows", default=",".join(map(str, WINDOWS)), help="requests in flight, comma separated"
    )
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, help="rounds of each, the median counts"
    )
    chosen = parser.parse_args()
    for measured in compare(
        chosen.host,
        chosen.port,
        whole_ledgers(chosen.host, chosen.port, chosen.ledgers),
        [int(w) for w in chosen.windows.split(",")],
        chosen.repeats,
    ):
        print(measured)


if __name__ == "__main__":
    main()
