"""What a test needs of the machine and does not find there: it fails in CI, and elsewhere it is
skipped and counted at the end of the run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import pytest

REASONS_SHOWN_MAX = 20


def is_ci() -> bool:
    """Return whether nothing may be skipped: the environment has CI=true."""
    return os.environ.get("CI", "").lower() in ("true", "1")


def lack(problem: str) -> NoReturn:
    """Fail the test in CI, and skip it elsewhere. `problem` says what is missing and how to get it;
    tests that lack the same thing say the same.
    """
    if is_ci():
        pytest.fail(f"{problem} (CI must run this test)", pytrace=False)
    pytest.skip(problem)


def lines_about_skipped(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Return a line for each reason, with the number of tests that it kept from running, the most
    first.
    """
    counts = Counter(_reason(report) for report in reports)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    lines = [f"{count:>5}  {reason}" for reason, count in rows[:REASONS_SHOWN_MAX]]
    rest = rows[REASONS_SHOWN_MAX:]
    if rest:
        tests = sum(count for _, count in rest)
        lines.append(f"{tests:>5}  for {len(rest)} more reasons (pytest -rs shows them)")
    return lines


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return " ".join(str(reason).removeprefix("Skipped: ").split())
