"""Measure the house: how much there is to read, and how far a reader goes down.

    .venv/bin/python tests/support/house_figures.py

- lines of `auditor/` without generated code, its modules without `__init__`, lines of `tests/`
- files on the way from `auditor run` to a verdict: those of the walk that ARCHITECTURE.md begins
  with
- uses of JSON without types outside the modules that read or write a file
  (`tests/house/test_house_json.py`)
- calls from `settle` down to the arithmetic of entries (`first_checker/entry_set.py`), the deepest
  in the first STORIES stories of one ledger (`support.stories`). Comprehensions count.

One line each. Takes some seconds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT), str(PROJECT / "tests")]

from house.test_house_json import EDGES, PRODUCT, untyped  # noqa: E402
from support.stories import drive, tell  # noqa: E402

from auditor.first_checker import entry_set  # noqa: E402
from auditor.judging.settle import settle  # noqa: E402

STORIES = 200
WALK = re.compile(r"^\d\. \[(auditor/\S+\.py)\]", re.M)


def count_lines(files: Iterable[Path]) -> int:
    """Return the lines of some files."""
    return sum(len(file.read_text().splitlines()) for file in files)


def deepest_call() -> int:
    """Return the most calls from `settle` to a function of `entry_set`, itself included."""
    deepest = 0

    def on_call(frame: FrameType, event: str, _: object) -> None:
        nonlocal deepest
        if event != "call" or frame.f_code.co_filename != entry_set.__file__:
            return
        depth, at = 0, frame.f_back
        while at is not None and at.f_code is not settle.__code__:
            is_arithmetic = at.f_code.co_filename == entry_set.__file__
            depth, at = 0 if is_arithmetic else depth + 1, at.f_back
        if at is not None:
            deepest = max(deepest, depth + 1)

    sys.setprofile(on_call)
    try:
        for seed in range(STORIES):
            drive(tell(seed))
    finally:
        sys.setprofile(None)
    return deepest


def main() -> None:
    """Print the figures."""
    product = [file for file in PRODUCT.rglob("*.py") if "generated" not in file.parts]
    modules = [file for file in product if file.name != "__init__.py"]
    walk = WALK.findall((PROJECT / "ARCHITECTURE.md").read_text())
    inside = [file for file in modules if str(file.relative_to(PRODUCT)) not in EDGES]
    found = sum(len(list(untyped(file.read_text()))) for file in inside)
    for what, number in (
        ("lines in auditor/", count_lines(product)),
        ("modules", len(modules)),
        ("lines in tests/", count_lines((PROJECT / "tests").rglob("*.py"))),
        ("files from `auditor run` to a verdict", len(walk)),
        ("uses of JSON without types outside codecs", found),
        ("calls from settle to the arithmetic", deepest_call()),
    ):
        print(f"{number:>8,}  {what}")


if __name__ == "__main__":
    main()
