"""Spark's Python daemon, with the modules every task needs imported before it forks: a worker costs
milliseconds, not a second.

The daemon is Spark's own (`pyspark.daemon`); only what is imported first differs. Used where this
program starts Spark itself.
"""

from __future__ import annotations

import gc
import os

# Native libraries that start threads when imported must not: a fork keeps only the thread that
# called it.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import pandas  # noqa: E402, F401
import pyarrow  # noqa: E402, F401
import pyspark.daemon  # noqa: E402
import pyspark.worker  # noqa: E402

import auditor.spark.lane_tasks  # noqa: E402
import auditor.spark.verdicts  # noqa: E402, F401

GARBAGE_THRESHOLDS = (50_000, 20, 50)
"""When a worker looks for reference cycles: our batches are tens of thousands of small values
without any, and looking for some after every 700 of them, as Python does unless told, took a third
of the time of judging.
"""

if __name__ == "__main__":
    gc.freeze()  # what is imported stays, and is not looked through again in each worker
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    pyspark.daemon.manager()
