"""Start a cluster for audits by a test or a replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.model.engines import SparkFree
from support.model.history import Cluster
from support.model.state import BOOKIES
from support.model.worlds import Real, Sandbox
from support.real_cluster import RealCluster

from auditor.sandbox.cluster import SandboxCluster

REAL_BOOKIES = BOOKIES[:4]
"""Bookies of the real form: one JVM each."""


@contextmanager
def started(workdir: Path, *, real: bool = False, sample: int | None = None) -> Iterator[Cluster]:
    """Yield an empty cluster, and a session for its audits. The sandbox takes 2 s, real BookKeeper
    5 to 10.

    `sample`: entries sampled on a sandbox bookie that cannot list; None: all are read.
    """
    if real:
        with (
            RealCluster(workdir, len(REAL_BOOKIES)) as bookkeeper,
            SparkFree(bookkeeper.metadata_service_uri) as auditor,
        ):
            yield Cluster(Real(bookkeeper, REAL_BOOKIES), auditor, "--real ")
    else:
        with (
            SandboxCluster(workdir, len(BOOKIES), named=True) as sandbox,
            SparkFree(sandbox.metadata_service_uri, sample) as auditor,
        ):
            yield Cluster(Sandbox(sandbox), auditor, sample=sample)
