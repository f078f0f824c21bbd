"""Processes of tests move what they hold to large pages."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import pytest
from support import large_pages
from support.large_pages import LARGE_PAGE_BYTES, move_to_large_pages

PAGES = 8


def in_large_pages() -> int:
    """Return how many bytes of this process are in large pages."""
    said = re.search(r"AnonHugePages: +(\d+) kB", Path("/proc/self/smaps_rollup").read_text())
    return int(said[1]) * 1024 if said else 0


def has_large_pages() -> bool:
    """Return whether the kernel can move a process's memory: Linux 6.1 and newer."""
    version = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    return version >= (6, 1) and Path("/sys/kernel/mm/transparent_hugepage").is_dir()


def test_what_a_process_holds_is_moved_and_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child sees it too."""
    monkeypatch.setattr(large_pages, "HELD_BYTES_MIN", 0)
    held = bytearray(os.urandom(1024) * (PAGES * LARGE_PAGE_BYTES // 1024))
    copied, before = bytes(held[:1024]), in_large_pages()
    move_to_large_pages()
    assert held == copied * (len(held) // 1024)
    assert in_large_pages() - before >= (PAGES - 1) * LARGE_PAGE_BYTES or not has_large_pages()


def test_a_small_process_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It forks quickly, and moving takes time."""
    monkeypatch.setattr(large_pages, "HELD_BYTES_MIN", 2**60)
    held = bytearray(b"x" * PAGES * LARGE_PAGE_BYTES)
    before = in_large_pages()
    move_to_large_pages()
    assert in_large_pages() == before and held
