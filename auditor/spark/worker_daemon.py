"""Spark's Python daemon with every module that tasks need imported before it forks.

A worker then costs milliseconds, not a second. The daemon is Spark's own (`pyspark.daemon`). It is
used if this program starts Spark itself.
"""

from __future__ import annotations

import gc
import os

# Native libraries must not start threads when they are imported: a fork keeps only the thread that
# calls it.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import pandas  # noqa: E402, F401
import pyarrow  # noqa: E402, F401
import pyspark.daemon  # noqa: E402
import pyspark.worker  # noqa: E402

import auditor.stages.asking  # noqa: E402
import auditor.stages.steps  # noqa: E402, F401

GARBAGE_THRESHOLDS = (50_000, 20, 50)
"""How many objects a worker allocates before Python looks for reference cycles. Batches have tens
of thousands of small values without cycles. Python's default of 700 took a third of the time of
judging."""

if __name__ == "__main__":
    gc.freeze()  # imported modules stay, and no worker needs to search them
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    pyspark.daemon.manager()
