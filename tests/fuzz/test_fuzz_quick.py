"""The quick form of `make fuzz`: the found cases, the seeds, and some hundred inputs of each
target.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fuzz_runs
import pyarrow.parquet as pq
import pytest
from fuzz import MODULES
from hypothesis import HealthCheck, given, settings
from inputs import SORTS, apply_changes, count_lines, inputs, random_inputs
from tampered_tables import TABLE_BYTES_MAX, grow_column
from targets import FOUND, Target, try_input

from auditor.commands.replay import replay
from auditor.errors import ConfigError

TARGETS = [target for module in MODULES for target in importlib.import_module(module).TARGETS]
SEED = int(os.environ.get("FUZZ_SEED", "1"))
"""Printed with every failure; FUZZ_SEED draws other inputs, and `make fuzz` draws other ones each
time.
"""


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_nothing_is_raised_but_what_is_declared(target: Target):
    """Any bytes give a value, or a declared error with a text. Found cases come first."""
    print(f"FUZZ_SEED={SEED}")
    for data in target.found():
        _hold(target, data)
    for data in random_inputs(target, SEED, target.quick_examples):
        _hold(target, data)


def _hold(target: Target, data: bytes) -> None:
    try:
        try_input(target, data)
    except Exception as error:
        error.add_note(f"FUZZ_SEED={SEED}; the input: {data!r}")
        raise


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_seed_is_accepted(target: Target):
    """Fuzzing that begins with refused inputs never gets past the first check."""
    assert any(try_input(target, data) for data in target.seeds)


def test_compressed_values_stay_within_the_memory_of_their_target():
    """The largest that are accepted, zeros and records without a field, in a process of their own,
    with a memory that is measured.
    """
    target = next(target for target in TARGETS if target.name == "managed-ledger")
    code = """
import contextlib, resource
from auditor.errors import MalformedMetadata
from fuzz_znodes import bombs, read_managed_ledger
for bomb in bombs():
    with contextlib.suppress(MalformedMetadata):
        read_managed_ledger(bomb)
print(len(bombs()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    count, used_mib = map(int, done.stdout.split())
    assert (count, target.memory_mib_max > used_mib) == (9, True), used_mib


@pytest.mark.parametrize("is_null", [True, False])
def test_a_plan_makes_a_table_that_replay_refuses(tmp_path: Path, is_null: bool):
    """It is small on disk, and larger in memory than the bound that holds while we fuzz."""
    run = tmp_path / fuzz_runs.template().name
    shutil.copytree(fuzz_runs.template(), run)
    path = run / "evidence" / "answers" / "all.parquet"
    grow_column(pq.read_table(path), "detail", path, is_null=is_null)
    assert path.stat().st_size < TABLE_BYTES_MAX // 50
    with pytest.raises(ConfigError, match=f"more than {TABLE_BYTES_MAX} bytes in memory"):
        fuzz_runs.run_bounded(replay, run)


def test_an_error_that_is_not_declared_is_noticed():
    """The law catches another exception, and a declared one without a text."""

    def feed(data: bytes) -> None:
        if data == b"\x07":
            raise KeyError("x")
        if data == b"\x08":
            raise ValueError

    target = Target("planted", feed, [b"\x07"], (ValueError,))
    with pytest.raises(KeyError):
        try_input(target, b"\x07")
    with pytest.raises(AssertionError, match="says nothing"):
        try_input(target, b"\x08")
    assert try_input(target, b"")


def test_found_cases_belong_to_a_target():
    """The cases of a renamed target would never be tried again."""
    assert set() == {path.name for path in FOUND.iterdir() if path.is_dir()} - {
        target.name for target in TARGETS
    }


def test_lines_that_an_input_reaches_are_counted():
    """They guide Hypothesis without Atheris: a longer way through the product counts more."""
    lists = next(target for target in TARGETS if target.name == "entry-list")
    refused = count_lines(lambda: try_input(lists, b""))
    assert 0 < refused < count_lines(lambda: try_input(lists, lists.seeds[2]))


def test_hypothesis_draws_inputs_too():
    """The long form without Atheris: inputs of the strategy are read as well, and are no longer
    than the target allows.
    """
    lists = next(target for target in TARGETS if target.name == "entry-list")

    @settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(inputs(lists))
    def hold(data: bytes) -> None:
        assert len(data) <= lists.bytes_max
        try_input(lists, data)

    hold()


def test_changes_reach_every_length():
    """Insertion, replacement, removal, repetition and splicing, at both ends."""
    changed = [apply_changes(b"abcd", [(what, 0.5, b"XY")]) for what in SORTS]
    assert [b"abXYcd", b"abXY", b"ab", b"abcdcdcdcd", b"abXY"] == changed
