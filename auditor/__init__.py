"""The BookKeeper cluster auditor: is every acknowledged entry where the metadata says it is?

`open_run` reads a finished run, `audit_ledger` audits one ledger: see docs/python.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auditor.api import FindingRecord, LedgerVerdict, Run, audit_ledger, open_run

__version__ = "0.1.0"

PYTHON_MIN = (3, 11)
"""The oldest Python. This module and `__main__` are read by older ones too, to say so."""

__all__ = ["FindingRecord", "LedgerVerdict", "Run", "__version__", "audit_ledger", "open_run"]


def __getattr__(name: str) -> Any:
    """Import the names for notebooks on first use: commands start faster without them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if problem := python_problem(sys.version_info):
        raise ImportError(problem)
    from auditor import api

    return getattr(api, name)


def python_problem(version: Sequence[Any]) -> str:
    """Return why a Python of this version cannot run the auditor, and what to do; "" if it can."""
    if tuple(version[:2]) >= PYTHON_MIN:
        return ""
    needed, found = (".".join(map(str, numbers)) for numbers in (PYTHON_MIN, version[:3]))
    return (
        f"the auditor needs Python {needed} or newer, and {sys.executable} is {found}: install it"
        " with another Python"
    )
