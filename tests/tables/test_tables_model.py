"""The model's histories through a whole run on Spark: row for row what the engine without Spark says, and what is true."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.model.clusters import started
from support.model.history import told
from support.model.spark import through_spark

pytestmark = [pytest.mark.spark, pytest.mark.long]

SEED = 34
HISTORIES = 3
"""One for twenty of the quick form (tests/model)."""
STEPS = 16
"""Actions behind the beginning of each."""


def test_a_run_says_what_the_single_engine_says(spark: object, tmp_path: Path):
    """Standing, exemption, reasons, findings with their entries, bookies and copies; and what it says of bookies is true."""
    with started(tmp_path / "cluster") as cluster:
        for number in range(HISTORIES):
            through_spark(cluster, told(f"{SEED}/{number}", STEPS, cluster.world.at_first), tmp_path)
