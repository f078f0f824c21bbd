"""The table of planted bugs (`make mutants`) fits the product and the tests; and its runner can
tell.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import Any

import pytest
from mutants.run import PROJECT, Bench, Fate, attempt, ids_of, planted, run_limited
from mutants.table import GROUPS, MUTANTS, PRODUCT, Mutant

MUTANTS_MIN = 25
OF_A_GROUP_MIN = 4

LAWS = ("test_where_nothing_is_lost_nothing_is_worst",)
"""A law that costs nothing, on a module whose bugs it mostly does not see."""
BUG = Mutant(
    "a bug",
    GROUPS[0],
    "first_checker:worst_entry",
    "candidates.first()",
    "candidates.last()",
    LAWS,
)


def test_each_bug_has_one_place_in_its_function_and_leaves_python_behind() -> None:
    """What is to be replaced stands there exactly once, and the module with the bug compiles."""
    misfits = []
    for one in MUTANTS:
        try:
            compile(planted(one, PROJECT / PRODUCT)[1], one.name, "exec")
        except (ValueError, SyntaxError) as error:
            misfits.append(str(error))
    assert [] == misfits


def test_each_bug_names_laws_that_are_there() -> None:
    """At least one, each the name of one test."""
    assert [] == [one.name for one in MUTANTS if not one.laws]
    assert all(ids_of(one) for one in MUTANTS)


def test_no_bug_is_planted_twice() -> None:
    """Names are unique, and so is what each changes."""
    assert [] == [
        name
        for name, count in Counter((one.where, one.name) for one in MUTANTS).items()
        if count > 1
    ]
    assert [] == [
        what
        for what, count in Counter((one.where, one.old, one.new) for one in MUTANTS).items()
        if count > 1
    ]


def test_there_are_bugs_in_every_part() -> None:
    """Schedule, coverage, codec, recheck, accounting, the second checker, facts and columns, a few
    each.
    """
    counts = Counter(one.group for one in MUTANTS)
    assert set(GROUPS) == counts.keys()
    assert all(counts[group] >= OF_A_GROUP_MIN for group in GROUPS), counts
    assert MUTANTS_MIN <= len(MUTANTS)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A copy of the product of its own; that the tests pass on it as it is needs no showing."""
    made = Bench(tmp_path_factory.mktemp("mutants"), cpu_seconds_max=240)  # this is not about speed
    made.sound[ids_of(BUG)] = None
    return made


RETURNS_NONE = "if not lost:\n    return None"


@pytest.mark.parametrize(
    ("change", "fate"),
    [
        ({"old": RETURNS_NONE, "new": "if not lost:\n    return Worst(0, 0, 0)"}, Fate.CAUGHT),
        ({}, Fate.SURVIVED),
        ({"old": RETURNS_NONE, "new": "if not lots:\n    return None"}, Fate.UNFIT),
        ({"old": "this_stands_nowhere", "new": "0"}, Fate.UNFIT),
        ({"new": BUG.old}, Fate.UNFIT),
        ({"where": "first_checker:no_such_function"}, Fate.UNFIT),
        ({"laws": ("test_that_is_not_there",)}, Fate.UNFIT),
    ],
    ids=["caught", "survivor", "no such name", "no place", "no bug", "no function", "no law"],
)
def test_the_runner_tells_what_became_of_a_bug(
    bench: Bench, change: dict[str, Any], fate: Fate
) -> None:
    """A catch is a check that fails; what breaks the module otherwise is none, nor is what nothing
    notices.
    """
    before = planted(BUG, PROJECT / PRODUCT)
    assert fate is attempt(bench, BUG._replace(**change)).fate
    assert before == planted(BUG, PROJECT / PRODUCT)


def test_a_selection_that_fails_without_the_bug_catches_nothing(bench: Bench) -> None:
    """Here another bug is in the product already."""
    other = BUG._replace(old=RETURNS_NONE, new="if not lost:\n    return Worst(0, 0, 0)")
    with bench.with_bug(other):
        tried = attempt(bench, BUG._replace(laws=LAWS * 2))
    assert Fate.UNFIT is tried.fate and tried.why.startswith("without the bug")


def test_a_bug_is_one_whatever_its_lines() -> None:
    """Code that is wrapped, or has comments, is the same code."""
    wrapped = BUG._replace(old=f"({BUG.old}  # as it is\n)")
    assert planted(BUG, PROJECT / PRODUCT) == planted(wrapped, PROJECT / PRODUCT)


BURN = "import time\nwhile time.process_time() < 1: pass\n"
"""A program that needs a second of CPU time."""


@pytest.mark.parametrize(
    ("program", "cpu_seconds_max", "wall_seconds_max", "code"),
    [
        (BURN, 60, 600, 0),
        (BURN, 0.5, 600, None),
        ("while True: pass", 0.5, 600, None),
        (
            f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])",
            0.5,
            600,
            None,
        ),
        ("import time; time.sleep(1)", 0.5, 600, 0),
        ("import time; time.sleep(600)", 60, 0.5, None),
    ],
    ids=["enough", "too long", "endless", "too long in a child", "waits", "waits for ever"],
)
def test_a_selection_is_limited_by_its_cpu_time(
    program: str, cpu_seconds_max: float, wall_seconds_max: float, code: int | None
) -> None:
    """A busy machine, which only makes it wait, does not make it slow; one that waits for ever is
    ended all the same.
    """
    command = (sys.executable, "-S", "-c", program)
    assert code == run_limited(command, os.environ, cpu_seconds_max, wall_seconds_max)[0]
