"""Count the bytes that Python, NumPy and Arrow hold, whatever allocators keep of the process."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

_POOLS: list[pa.MemoryPool] = []
"""Those that counted. What was allocated from a pool must not outlive it."""


@contextmanager
def counted_memory() -> Iterator[Callable[[], int]]:
    """Yield a function that returns the most bytes that were held inside, beyond those before.

    The most of Python and NumPy and the most of Arrow are added, at whatever time each was.
    """
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    peaks: list[int] = []
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        yield lambda: sum(peaks)
    finally:
        peaks += [tracemalloc.get_traced_memory()[1], pool.max_memory()]
        tracemalloc.stop()
        pa.set_memory_pool(before)
