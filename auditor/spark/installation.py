"""How Spark was installed and started, as far as that is known without loading it."""

from __future__ import annotations

import os
import re

from auditor.errors import SparkUnavailable

SPARK_MAJOR = 4
"""The supported major version. 3.5 lacks interfaces that every stage uses; 5 was not tried."""


def check_spark_version(version: str, what: str) -> None:
    """Raise SparkUnavailable unless `version` is a supported one of Spark.

    `what` names where it comes from, as the subject of the sentence: `PySpark`, `the Spark in
    SPARK_HOME`.
    """
    major = version.partition(".")[0]
    if major == str(SPARK_MAJOR):
        return
    raise SparkUnavailable(
        f"{what} is version {version}, and the auditor runs on Spark {SPARK_MAJOR} alone: install"
        f" 'pyspark>={SPARK_MAJOR},<{SPARK_MAJOR + 1}', or let SPARK_HOME and spark-submit be those"
        f" of a Spark {SPARK_MAJOR}"
    )


def is_submitted() -> bool:
    """Return whether spark-submit started this process and chose the master."""
    return "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ


def is_local_master(master: str | None) -> bool:
    """Return whether a master URL means that this machine's one JVM runs every task.

    `local-cluster[...]` starts workers with JVMs of their own: that is a cluster.
    """
    return _LOCAL_MASTER.fullmatch(master or "") is not None


_LOCAL_MASTER = re.compile(r"local(\[(\d+|\*)(\s*,\s*\d+\s*)?\])?")
