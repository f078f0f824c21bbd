"""Restrict who may read the files of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restrict_new_files(mask: int) -> Iterator[None]:
    """Remove the permissions in `mask` from files that this process and its children make.

    Never adds one: what the process's own umask removes stays removed. The umask belongs to the
    process: the files of its other threads are restricted too while this lasts.
    """
    own = os.umask(mask)
    try:
        os.umask(own | mask)
        yield
    finally:
        os.umask(own)
