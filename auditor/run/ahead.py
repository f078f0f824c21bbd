"""Let Spark work on the next shard while this process works on the one before.

There is one thread, and at most one request at a time: reading the metadata of the next shard, or
asking for its lists. The main thread prepares each request, records it in the journal, and does all
the rest. The caller sees to it that nobody else talks meanwhile to those whom the request asks.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread, current_thread

from auditor.evidence.journal import Journal
from auditor.stages.stages import Request
from auditor.stop import StopRequest

POLL_S = 0.1
"""How often the main thread checks for a signal while it waits for a request."""
ENDS_S = 25.0
"""How long a request that nobody waits for may take to end. Spark has ten seconds to cancel its
job, and ten more to end its thread."""


@dataclass(slots=True)
class Ahead:
    """One request that is made in a thread. `tick` gets the finished tasks of its job while the
    main thread waits for it.
    """

    stop: StopRequest
    journal: Journal
    tick: Callable[[int], None]
    _at_work: tuple[Thread, Future[None]] | None = None
    _ticks: int = 0

    @property
    def is_at_work(self) -> bool:
        """Whether a request was begun and not handed over."""
        return self._at_work is not None

    def begin(self, request: Request) -> None:
        """Begin to make a request. Until it is handed over, no stage owns the files that it
        writes.
        """
        assert self._at_work is None, "at most one request is ahead"
        outcome: Future[None] = Future()

        def work() -> None:
            try:
                request.ask()
                outcome.set_result(None)
            except BaseException as error:  # raised again in the main thread
                outcome.set_exception(error)

        self.journal.apart, self._ticks = request.table, 0
        thread = Thread(target=work, name="auditor-ahead", daemon=True)
        self._at_work = thread, outcome
        thread.start()

    def finish(self) -> None:
        """Wait for the request, if there is one. Raises what it raised, or Interrupted."""
        if self._at_work is None:
            return
        thread, outcome = self._at_work
        is_alive = True
        while is_alive:
            thread.join(POLL_S)
            is_alive = thread.is_alive()
            self.stop.check()
            self.tick(self._ticks)
        outcome.result()

    def hand_over(self) -> None:
        """Wait for the request. Its files belong to the stage that calls this."""
        self.finish()
        self._at_work, self.journal.apart = None, ""

    def count(self, finished: int) -> None:
        """Pass on the finished tasks of a job, or keep those of the request until it is awaited."""
        if self._at_work is not None and self._at_work[0] is current_thread():
            self._ticks = finished
        else:
            self.tick(finished)

    def close(self) -> None:
        """End the request if one is at work: something else failed, and nobody waits for it."""
        if self._at_work is not None:
            thread, _ = self._at_work
            self.stop.abandon(thread)
            if thread.ident is not None:  # this host let it start
                thread.join(ENDS_S)
            self._at_work = None
