"""The table of planted bugs (`make mutants`) fits the product, the tests and the documents; and its
runner can tell.
"""

from __future__ import annotations

import ast
import os
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from mutants.run import PROJECT, Bench, Fate, attempt, planted, run_limited, table
from mutants.table import GROUPS, MUTANTS, PRODUCT, Mutant

PAGE = PROJECT / "docs" / "testing.md"
MUTANTS_MIN = 25
OF_A_GROUP_MIN = 4

TESTS = (
    "tests/unit/first_checker/test_first_checker_worst.py::test_where_nothing_is_lost_nothing_is_worst",
)
"""A test that costs nothing, of a module whose bugs it mostly does not see."""


@cache
def names_in(path: Path) -> frozenset[str]:
    """The names of the test functions of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_each_bug_has_one_place_in_its_module_and_leaves_python_behind() -> None:
    """What is to be replaced stands there exactly once, and the module with the bug compiles."""
    misfits = []
    for one in MUTANTS:
        path = PROJECT / PRODUCT / one.file
        try:
            compile(planted(one, path.read_text(encoding="utf-8")), one.name, "exec")
        except (ValueError, SyntaxError) as error:
            misfits.append(str(error))
    assert [] == misfits


def test_each_bug_names_tests_that_are_there() -> None:
    """At least one, each in a module of its name."""
    named = [test for one in MUTANTS for test in one.tests]
    assert [] == [one.name for one in MUTANTS if not one.tests]
    assert [] == [
        test
        for test in named
        if test.partition("::")[2] not in names_in(PROJECT / test.partition("::")[0])
    ]


def test_no_bug_is_planted_twice() -> None:
    """Names are unique, and so is what each changes."""
    assert [] == [
        name
        for name, count in Counter((one.file, one.name) for one in MUTANTS).items()
        if count > 1
    ]
    assert [] == [
        what
        for what, count in Counter((one.file, one.old, one.new) for one in MUTANTS).items()
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


def test_the_table_in_the_documents_is_the_table() -> None:
    """`python tests/mutants/run.py --table` prints what docs/testing.md has."""
    assert "\n".join(table()) in PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A copy of the product of its own; that the tests pass on it as it is needs no showing."""
    made = Bench(tmp_path_factory.mktemp("mutants"), cpu_seconds_max=240)  # this is not about speed
    made.sound[TESTS] = None
    return made


@pytest.mark.parametrize(
    ("old", "new", "fate"),
    [
        (
            "    if not lost:\n        return None\n",
            "    if not lost:\n        return Worst(0, 0, 0)\n",
            Fate.CAUGHT,
        ),
        ("candidates.first())", "candidates.last())", Fate.SURVIVED),
        ("from typing import NamedTuple\n", "from typing import NamedTuples\n", Fate.UNFIT),
        (
            "    if not lost:\n        return None\n",
            "    if not lots:\n        return None\n",
            Fate.UNFIT,
        ),
        ("this stands nowhere", "", Fate.UNFIT),
    ],
    ids=["caught", "survivor", "no import", "no such name", "no place"],
)
def test_the_runner_tells_what_became_of_a_bug(
    bench: Bench, old: str, new: str, fate: Fate
) -> None:
    """A catch is a check that fails; what breaks the module otherwise is none, nor is what nothing
    notices.
    """
    mutant = Mutant("a bug", GROUPS[0], "first_checker/worst.py", old, new, TESTS)
    before = (PROJECT / PRODUCT / mutant.file).read_bytes()
    assert fate is attempt(bench, mutant).fate
    assert before == (PROJECT / PRODUCT / mutant.file).read_bytes()


def test_a_selection_that_fails_without_the_bug_catches_nothing(bench: Bench) -> None:
    """Neither does one that is not there."""
    nowhere = ("tests/unit/first_checker/test_first_checker_worst.py::test_that_is_not_there",)
    mutant = Mutant(
        "a bug",
        GROUPS[0],
        "first_checker/worst.py",
        "candidates.first())",
        "candidates.last())",
        nowhere,
    )
    assert Fate.UNFIT is attempt(bench, mutant).fate


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
