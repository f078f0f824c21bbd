"""Load Arrow without pandas, for commands that answer in about a second.

Arrow imports pandas when it first meets a value that might be one of pandas. That takes longer than
all other imports of a command. Commands that may start Spark keep pandas: PySpark uses both.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec


class _NoPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for pandas, and leave other modules to other finders."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)
        return None


def load_arrow_alone() -> None:
    """Import Arrow, which finds no pandas, unless this process has imported either already."""
    if {"pyarrow", "pandas"} & sys.modules.keys():
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow

        pyarrow.array([0])  # Arrow looks for pandas once, now
    finally:
        sys.meta_path.remove(finder)
