"""Named timers of one conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Timers:
    """Timers by name. Exceptions of a timer go to `on_error`: an event loop would only log them."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self._on_error = on_error
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._handles

    def start(self, name: str, delay_s: float, act: Callable[[], None]) -> None:
        """Call `act` once in `delay_s` seconds.

        Needs a running event loop. No timer of this name may be running.
        """
        assert name not in self._handles, name

        def expire() -> None:
            del self._handles[name]
            try:
                act()
            except Exception as error:
                self._on_error(error)

        self._handles[name] = asyncio.get_running_loop().call_later(delay_s, expire)

    def cancel_all(self) -> None:
        """Stop every timer."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
