"""Processes of tests move what they hold to large pages."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from pathlib import Path

import pytest
from support import large_pages
from support.large_pages import LARGE_PAGE_BYTES, move_to_large_pages

PAGES = 8
COLLAPSE = 25
"""MADV_COLLAPSE of Linux."""


def in_large_pages() -> int:
    """Return how many bytes of this process are in large pages."""
    said = re.search(r"AnonHugePages: +(\d+) kB", Path("/proc/self/smaps_rollup").read_text())
    return int(said[1]) * 1024 if said else 0


def are_pages_moved() -> bool:
    """Return whether the kernel moves so many pages: Linux 6.1 and newer, if it has the room."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, (PAGES + 1) * LARGE_PAGE_BYTES, flags=private) as held:
        held.write(bytes(len(held)))
        start = ctypes.addressof(ctypes.c_char.from_buffer(held))
        first = -(-start // LARGE_PAGE_BYTES) * LARGE_PAGE_BYTES
        return advise(first, PAGES * LARGE_PAGE_BYTES, COLLAPSE) == 0


def test_what_a_process_holds_is_moved_and_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the kernel has large pages."""
    monkeypatch.setattr(large_pages, "HELD_BYTES_MIN", 0)
    held = bytearray(os.urandom(1024) * (PAGES * LARGE_PAGE_BYTES // 1024))
    copied, before = bytes(held[:1024]), in_large_pages()
    move_to_large_pages()
    assert held == copied * (len(held) // 1024)
    assert in_large_pages() - before >= (PAGES - 1) * LARGE_PAGE_BYTES or not are_pages_moved()


def test_a_small_process_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It forks quickly, and moving takes time."""
    monkeypatch.setattr(large_pages, "HELD_BYTES_MIN", 2**60)
    held = bytearray(b"x" * PAGES * LARGE_PAGE_BYTES)
    before = in_large_pages()
    move_to_large_pages()
    assert in_large_pages() == before and held
