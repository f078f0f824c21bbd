"""Spark's Python daemon with every module that tasks need imported before it forks.

A worker then costs milliseconds, not a second. The daemon is Spark's own (`pyspark.daemon`). It is
used if this program starts Spark itself.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

# Native libraries must not start threads when they are imported: a fork keeps only the thread that
# calls it.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

PYSPARK_ZIP = "pyspark.zip"
"""The name of PySpark's own modules as Spark puts them first in the path of its workers."""
WORKER_MEMORY_VARIABLE = "PYSPARK_EXECUTOR_MEMORY_MB"
"""Spark sets it where each worker limits its address space when it starts
(`spark.executor.pyspark.memory`). Arrow's default allocator then needs less: see `take_jemalloc`.
"""


def without_zip(path: list[str]) -> list[str]:
    """Return a module path without the zip of the PySpark that is installed in another entry.

    The zip has the same modules. To import them from there takes half as long again: they are
    compiled each time.
    """
    zips = [entry for entry in path if Path(entry).name == PYSPARK_ZIP]
    others = [entry for entry in path if entry not in zips]
    found = PathFinder.find_spec("pyspark", others)
    if found is None or found.origin is None:
        return path
    installed = Path(found.origin).resolve().parent
    return [
        entry
        for entry in path
        if entry not in zips or installed not in Path(entry).resolve().parents
    ]


sys.path[:] = without_zip(sys.path)

import pandas  # noqa: E402, F401
import pyarrow  # noqa: E402, F401
import pyspark.daemon  # noqa: E402
import pyspark.worker  # noqa: E402

import auditor.stages.asking  # noqa: E402
import auditor.stages.steps  # noqa: E402, F401
from auditor.host_limits import take_jemalloc  # noqa: E402
from auditor.judging.judge import GARBAGE_THRESHOLDS  # noqa: E402

if WORKER_MEMORY_VARIABLE not in os.environ:
    take_jemalloc()

# Each worker invalidates these caches before its first task. A zip's directory would then be read
# again, which takes 55 ms of each worker for that of PySpark.
sys.path_importer_cache.clear()

if __name__ == "__main__":
    gc.freeze()  # imported modules stay, and no worker needs to search them
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    pyspark.daemon.manager()
