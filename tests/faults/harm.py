"""The harms that a proxy can do, the frames that a fault selects, and the log of all frames."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from faults.frames import Said

if TYPE_CHECKING:
    from faults.proxy import Connection


class Harm(StrEnum):
    """What is done to a frame."""

    DELAY = "delay"
    """The frame waits for `delay_s`, and so do the later ones, as on a network that lost a
    packet.
    """
    DROP = "drop"
    RESET = "reset"
    """The connection ends with RST on both sides instead of the frame."""
    TRUNCATE = "truncate"
    """A part of the frame is sent, then the connection is closed."""
    CORRUPT = "corrupt"
    """One byte of `part` is changed."""
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    """The frame is sent after the next one of its direction. If no other comes, no harm was done,
    and the next frame that fits is tried.
    """
    HALF_OPEN = "half_open"
    """From this frame on nothing passes in either direction of its connection, and neither side is
    notified.
    """
    CALL = "call"
    """No harm: the frame is forwarded when `call`, in a thread of its own, has returned."""


SWALLOWED = (Harm.DROP, Harm.RESET, Harm.TRUNCATE, Harm.HALF_OPEN)
"""Harms after which the frame is of no use to the receiver."""


@dataclass(frozen=True)
class Fault:
    """A harm, and the frames it is done to: all conditions must hold. `frame` counts those that
    fit, from 0; `count` None: for ever.

    `connection` counts the connections of the proxy, from 0; None: any. `path`: bytes that a
    ZooKeeper request must contain. `part`: "length" (the 4 bytes before the frame), "head" (its
    first 8 bytes), "rest" (all others).
    """

    harm: Harm
    reply: bool = True
    operation: str = ""
    ledger_id: int | None = None
    path: bytes = b""
    connection: int | None = None
    frame: int = 0
    count: int | None = 1
    delay_s: float = 0.3
    part: str = "head"
    call: Callable[[Connection], object] | None = field(default=None, compare=False)

    def fits(self, said: Said, *, reply: bool, connection: int) -> bool:
        """Return whether the fault counts this frame."""
        if reply is not self.reply or self.connection not in (None, connection):
            return False
        if said.operation in ("connect", "ping") and self.operation != said.operation:
            return False
        wanted = self.operation in ("", said.operation) and self.ledger_id in (None, said.ledger_id)
        return wanted and self.path in said.about


@dataclass(frozen=True)
class Passed:
    """One frame as the proxy saw it; `number` is over all proxies of a log. `fate`: "passed", or
    the harm done to it.

    `sent`: what the receiver may have got instead; None: nothing it could take for an answer.
    """

    number: int
    proxy: str
    connection: int
    reply: bool
    said: Said
    sent: Said | None
    fate: str


class Log:
    """The frames that all proxies saw, in one order, and moments that a test marks in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[Passed | str] = []
        self.healed: set[int] = set()
        """Epochs that begin without the earlier faults."""
        self.errors: list[BaseException] = []
        """What a `call` raised. Then the intended harm was not done."""

    def add(
        self, proxy: str, connection: int, said: Said, sent: Said | None, fate: str, *, reply: bool
    ) -> Passed:
        with self._lock:
            one = Passed(len(self._seen), proxy, connection, reply, said, sent, fate)
            self._seen.append(one)
        return one

    def unharmed(self, one: Passed) -> None:
        """Record that this frame was not harmed after all."""
        with self._lock:
            self._seen[one.number] = replace(one, fate="passed")

    def mark(self, moment: str, *, heals: bool = False) -> None:
        """Begin a new epoch; `heals`: the faults so far are over."""
        with self._lock:
            self._seen.append(moment)
            if heals:
                self.healed.add(sum(isinstance(one, str) for one in self._seen))

    def epochs(self) -> list[list[Passed]]:
        """Return the frames between the marks, in the order in which they were seen."""
        with self._lock:
            seen = list(self._seen)
        found: list[list[Passed]] = [[]]
        for one in seen:
            if isinstance(one, str):
                found.append([])
            else:
                found[-1].append(one)
        return found

    def harmed(self) -> list[Passed]:
        """Return the frames that were harmed."""
        return [one for epoch in self.epochs() for one in epoch if one.fate != "passed"]
