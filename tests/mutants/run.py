"""Plant each bug of the table in a copy of the product, and show that the laws named for it fail.

    make mutants                                    # all of them
    python tests/mutants/run.py 'window'            # those whose line in the table has this word
    python tests/mutants/run.py --table             # all of them as a table

A mutant is caught if its laws pass on the product without it, and each of them fails with the bug,
by a check. An error of import or of set-up, a missing name, or a selection that takes too long does
not count. The work tree is never touched. Exits 1 unless every mutant is caught.

MUTANTS_TIME_FACTOR=3 in the environment allows three times CPU_SECONDS_MAX, for a slow machine.
"""

from __future__ import annotations

import argparse
import ast
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutants.table import MUTANTS, PRODUCT, Mutant

PROJECT = Path(__file__).resolve().parents[2]

CPU_SECONDS_MAX = 10.0
"""CPU seconds of one selection and its child processes, including the start of Python: a selection
is run after each edit.
"""
WALL_SECONDS_MAX = 600.0
"""Wall seconds after which a selection that waits for ever is ended. A busy machine needs many
times the CPU time.
"""

NO_CATCH = re.compile(
    r"(ImportError|ModuleNotFoundError|SyntaxError|NameError|UnboundLocalError|AttributeError|TypeError)\b"
)
"""Failures that only show that the bug does not fit where it was planted."""

TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)

PASSED, FAILED = 0, 1
"""Exit codes of pytest: all tests passed; some failed. Any other code says nothing about the tests
(interrupted, none found).
"""


class Fate(StrEnum):
    """How a mutant ended."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    UNFIT = "UNFIT"
    """Unknown: it cannot be planted, or its tests cannot be run, fail without it, or fail by
    accident.
    """
    SLOW = "SLOW"


class Played(NamedTuple):
    """One run of a selection. `passed` and `failed` are its tests; `accident`: the first test that
    failed without a check.
    """

    code: int | None
    """The exit code; None if it took too long."""
    seconds: float
    """CPU seconds."""
    passed: frozenset[str]
    failed: frozenset[str]
    accident: str = ""


class Tried(NamedTuple):
    """The result for a mutant. `seconds` are those of the run that decided."""

    fate: Fate
    seconds: float
    why: str = ""


ALONE = (
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-p",
    "no:hypothesispytest",
    "-o",
    "addopts=",
    "-o",
    "junit_family=xunit1",
)
"""Options: nothing is cached, nothing runs in parallel, and Hypothesis is loaded only where it is
used, because that takes a second.
"""


@dataclass
class Bench:
    """A copy of the product in a directory of its own, and the selections that passed on it without
    a bug.
    """

    directory: Path
    cpu_seconds_max: float = CPU_SECONDS_MAX
    wall_seconds_max: float = WALL_SECONDS_MAX
    product: Path = PROJECT / PRODUCT
    sound: dict[tuple[str, ...], Tried | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        half_written = shutil.ignore_patterns(
            "*.pyc.*"
        )  # another Python may write them; it renames them when they are complete
        for copy in ("as_it_is", "planted"):
            shutil.copytree(self.product, self.directory / copy / PRODUCT, ignore=half_written)

    @contextmanager
    def with_bug(self, mutant: Mutant) -> Iterator[None]:
        """Put the bug into the copy during the block. Raises ValueError if it cannot be planted."""
        file, code = planted(mutant, self.directory / "as_it_is" / PRODUCT)
        right, wrong = (self.directory / copy / PRODUCT / file for copy in ("as_it_is", "planted"))
        wrong.write_text(code, encoding="utf-8")
        _forget_compiled(wrong)
        try:
            yield
        finally:
            shutil.copy2(right, wrong)
            _forget_compiled(wrong)

    def play(self, tests: Sequence[str]) -> Played:
        """Run these tests against the copy, in one process."""
        report = self.directory / "report.xml"
        report.unlink(missing_ok=True)
        command = (
            sys.executable,
            "-m",
            "pytest",
            *ALONE,
            "-q",
            "--tb=line",
            f"--junitxml={report}",
            *tests,
        )
        path = {"PYTHONPATH": str(self.directory / "planted"), "PYTHONSAFEPATH": "1"}
        code, seconds = run_limited(
            command, os.environ | path, self.cpu_seconds_max, self.wall_seconds_max
        )
        if code is None:
            return Played(None, seconds, frozenset(), frozenset())
        cases = ElementTree.parse(report).iter("testcase") if report.exists() else ()
        return _played(code, seconds, cases)


def run_limited(
    command: Sequence[str],
    environment: Mapping[str, str],
    cpu_seconds_max: float,
    wall_seconds_max: float,
) -> tuple[int | None, float]:
    """Run `command` in the project. Return its exit code, None where it took too long, and its CPU
    time in seconds.

    The CPU time includes child processes that it waited for.
    """
    cpu_seconds = math.ceil(cpu_seconds_max) + 1

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))

    before = _cpu_seconds_of_children()
    try:
        done = subprocess.run(
            command,
            cwd=PROJECT,
            env=environment,
            capture_output=True,
            timeout=wall_seconds_max,
            preexec_fn=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, _cpu_seconds_of_children() - before
    seconds = _cpu_seconds_of_children() - before
    return (done.returncode if seconds <= cpu_seconds_max else None), seconds


def _cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def planted(mutant: Mutant, product: Path) -> tuple[Path, str]:
    """Return the module of a product that gets the bug, relative to the product, and its code with
    it. Raises ValueError unless there is exactly one place for it.
    """
    prefix, _, name = mutant.where.partition(":")
    base = product.joinpath(*prefix.split("."))
    module = base.with_suffix(".py")
    homes = [
        path
        for path in ([module] if module.exists() else sorted(base.rglob("*.py")))
        if name in _names_in(path.read_text(encoding="utf-8"))
    ]
    if len(homes) != 1:
        raise ValueError(f"{mutant.name}: {mutant.where} is defined {len(homes)} times")
    (path,) = homes
    tree = ast.parse(path.read_text(encoding="utf-8"))
    change = _Change(mutant.old, mutant.new)
    change.visit(_definitions(tree.body)[name])
    if change.times != 1:
        raise ValueError(
            f"{mutant.name}: {mutant.old!r} stands {change.times} times in {mutant.where}: plant"
            " the same bug in the code as it is now"
        )
    return path.relative_to(product), ast.unparse(tree)


@cache
def _names_in(code: str) -> frozenset[str]:
    return frozenset(_definitions(ast.parse(code).body))


def _definitions(body: Iterable[ast.stmt], prefix: str = "") -> dict[str, ast.stmt]:
    """Return the functions, methods, classes and constants below a module or a class."""
    found: dict[str, ast.stmt] = {}
    for one in body:
        match one:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found[prefix + one.name] = one
            case ast.ClassDef():
                found |= {prefix + one.name: one} | _definitions(one.body, f"{prefix}{one.name}.")
            case ast.Assign(targets=[ast.Name(id)]) | ast.AnnAssign(target=ast.Name(id)):
                found[prefix + id] = one
    return found


class _Change(ast.NodeTransformer):
    """Replaces code wherever it stands, and counts the times."""

    def __init__(self, old: str, new: str) -> None:
        self.times = 0
        olds, self._new = ast.parse(old).body, ast.parse(new).body
        self._old = [ast.dump(one) for one in olds]
        if ast.dump(ast.parse(new)) == ast.dump(ast.parse(old)):
            raise ValueError(f"{old!r} is {new!r}")
        self._expression: tuple[str, ast.expr] | None = None
        match olds, self._new:
            case [ast.Expr(right)], [ast.Expr(wrong)]:
                self._expression = ast.dump(right), wrong

    def visit(self, node: ast.AST) -> ast.AST:
        if self._expression is not None:
            old, new = self._expression
            if isinstance(node, ast.expr) and ast.dump(node) == old:
                self.times += 1
                return new
        else:
            for _, body in ast.iter_fields(node):
                if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                    self._change_statements(body)
        return super().generic_visit(node)

    def _change_statements(self, body: list[ast.stmt]) -> None:
        written, size = [ast.dump(one) for one in body], len(self._old)
        places = [at for at in range(len(body)) if written[at : at + size] == self._old]
        self.times += len(places)
        for at in places[:1]:
            body[at : at + size] = self._new


@cache
def law_ids() -> dict[str, list[str]]:
    """Return pytest's ids of each test, by its name and by its module and name."""
    found: dict[str, list[str]] = {}
    for path in sorted((PROJECT / "tests").rglob("test_*.py")):
        for match in TEST.finditer(path.read_text(encoding="utf-8")):
            node_id = f"{path.relative_to(PROJECT).as_posix()}::{match[1]}"
            for name in (match[1], f"{path.stem}::{match[1]}"):
                found.setdefault(name, []).append(node_id)
    return found


def ids_of(mutant: Mutant) -> tuple[str, ...]:
    """Return pytest's ids of its laws. Raises ValueError for one that is not there, or twice."""
    for law in mutant.laws:
        if 1 != len(there := law_ids().get(law, [])):
            raise ValueError(f"{mutant.name}: {law} is there {len(there)} times: {there}")
    return tuple(law_ids()[law][0] for law in mutant.laws)


def _forget_compiled(module: Path) -> None:
    """Delete compiled files: Python's cache takes two texts of one length, written within a second,
    for one.
    """
    for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*.pyc"):
        compiled.unlink()


def _played(code: int, seconds: float, cases: Iterable[ElementTree.Element]) -> Played:
    passed, failed, accident = set[str](), set[str](), ""
    for case in cases:
        # A test with parameters is selected by its name, and by that of each case.
        full = f"{case.get('file')}::{case.get('name')}"
        names = {full, full.partition("[")[0]}
        if (error := case.find("error")) is not None:
            accident = accident or f"{full}: {_first_line(error)}"
        elif (failure := case.find("failure")) is not None:
            failed |= names
            if NO_CATCH.match(failure.get("message", "")):
                accident = accident or f"{full}: {_first_line(failure)}"
        elif case.find("skipped") is None:
            passed |= names
    return Played(code, seconds, frozenset(passed), frozenset(failed), accident)


def _first_line(element: ElementTree.Element) -> str:
    return (element.get("message") or "").partition("\n")[0]


def attempt(bench: Bench, mutant: Mutant) -> Tried:
    """Run its laws without the bug (once for each selection), where they must pass, and with it,
    where they must fail.
    """
    try:
        tests = ids_of(mutant)
        if tests not in bench.sound:
            bench.sound[tests] = _unsound(bench.play(tests), tests)
        unsound = bench.sound[tests]
        if unsound is not None:
            return unsound
        with bench.with_bug(mutant):
            return _judged(bench.play(tests), tests)
    except ValueError as error:
        return Tried(Fate.UNFIT, 0.0, str(error))


def _unsound(played: Played, tests: Sequence[str]) -> Tried | None:
    """Return why a selection proves nothing on the product without the bug; None if it does."""
    if played.code is None:
        return Tried(Fate.SLOW, played.seconds, "without the bug")
    missing = [test for test in tests if test not in played.passed]
    if played.code != PASSED or missing:
        return Tried(
            Fate.UNFIT,
            played.seconds,
            f"without the bug pytest ends with {played.code}, not passed: {missing}",
        )
    return None


def _judged(played: Played, tests: Sequence[str]) -> Tried:
    if played.code is None:
        return Tried(Fate.SLOW, played.seconds, "with the bug")
    if played.code not in (PASSED, FAILED) or played.accident:
        return Tried(
            Fate.UNFIT, played.seconds, played.accident or f"pytest ends with {played.code}"
        )
    missed = [test for test in tests if test not in played.failed]
    if missed:
        return Tried(Fate.SURVIVED, played.seconds, f"passed by {', '.join(missed)}")
    return Tried(Fate.CAUGHT, played.seconds)


def table() -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| part | planted in | what is wrong | caught by |"
    yield "|---|---|---|---|"
    for one in MUTANTS:
        laws = ", ".join(f"`{law}`" for law in one.laws)
        yield f"| {one.group} | `{one.where}` | {one.name} | {laws} |"


def main(words: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description="Planted bugs, and the tests that catch them.")
    parser.add_argument(
        "--table", action="store_true", help="print the table in Markdown, run nothing"
    )
    parser.add_argument(
        "word", nargs="?", default="", help="only mutants whose group, place or name has this in it"
    )
    asked = parser.parse_args(words)
    if asked.table:
        print("\n".join(table()))
        return 0
    chosen = [
        one
        for one in MUTANTS
        if any(asked.word in text for text in (one.group, one.where, one.name))
    ]
    fates = Counter[Fate]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        bench = Bench(
            Path(directory), CPU_SECONDS_MAX * float(os.environ.get("MUTANTS_TIME_FACTOR", "1"))
        )
        for mutant in chosen:
            tried = attempt(bench, mutant)
            fates[tried.fate] += 1
            print(
                f"{tried.fate:8} {tried.seconds:5.1f} s  {mutant.group:14}  {mutant.name}",
                flush=True,
            )
            if tried.why:
                print(f"    {mutant.where}: {tried.why}", flush=True)
    others = "".join(
        f", {fates[fate]} {fate.lower()}" for fate in (Fate.UNFIT, Fate.SLOW) if fates[fate]
    )
    print(
        f"{len(chosen)} mutants, {fates[Fate.CAUGHT]} caught, {fates[Fate.SURVIVED]}"
        f" survived{others}"
    )
    return 0 if chosen and fates[Fate.CAUGHT] == len(chosen) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
