"""An event loop in a separate thread: bookies answer while the caller does something else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

CALL_TIMEOUT_S = 30.0
"""How long one call into the loop may take."""

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for callers in other threads.

    It is a daemon thread, so it never keeps the process alive.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` in the loop and return its result.

        Raises what it raises, and TimeoutError after CALL_TIMEOUT_S.
        """
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(CALL_TIMEOUT_S)

    def stop(self) -> None:
        """Stop the loop and the thread. May be called again."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        if not self._thread.is_alive():
            self._loop.close()
