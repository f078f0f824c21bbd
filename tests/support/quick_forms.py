"""What `make test` runs of a test that takes long: some of its seeds, some of its planted bugs.

`make test-long` has all seeds, and `make mutants` the other bugs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def one_in(many: int, planted: Iterable[T]) -> list[Any]:
    """Return the parameters of a test that plants one bug after another. The first, and one in
    `many` after it, are quick; the others have the marker `plants`.
    """
    return [
        pytest.param(bug, marks=[pytest.mark.plants] if number % many else [])
        for number, bug in enumerate(planted)
    ]


def few_or_all(few: int, every: int) -> list[Any]:
    """Return how many seeds a test takes: few, or every one where it is `long`."""
    return [pytest.param(few, id="few"), pytest.param(every, id="all", marks=pytest.mark.long)]
