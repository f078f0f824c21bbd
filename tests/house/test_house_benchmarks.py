"""The benchmarks fit the code that they measure, though nobody runs them at each change."""

from __future__ import annotations

from importlib import import_module

import pytest
from support.places import ROOT

MODULES = sorted(
    path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__"
)


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_can_be_imported(name: str) -> None:
    """A name that a test's support package no longer has would only be noticed by `make bench`."""
    import_module(f"benchmarks.{name}")


def test_every_benchmark_is_run_by_the_whole() -> None:
    """Those with targets of their own are among what `python -m benchmarks` measures."""
    whole = (ROOT / "benchmarks" / "__main__.py").read_text()
    measured = [
        name
        for name in MODULES
        if "Target(" in (ROOT / "benchmarks" / f"{name}.py").read_text() and name != "targets"
    ]
    assert measured
    assert [] == [name for name in measured if f"{name}." not in whole]
