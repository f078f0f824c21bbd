"""The BookKeeper cluster auditor: is every acknowledged entry where the metadata says it is?

`open_run` reads a finished run, `audit_ledger` audits one ledger: see docs/python.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auditor.api import FindingRecord, LedgerVerdict, Run, audit_ledger, open_run

__version__ = "0.1.0"

__all__ = ["FindingRecord", "LedgerVerdict", "Run", "__version__", "audit_ledger", "open_run"]


def __getattr__(name: str) -> Any:
    """Import what notebooks use when it is used: the commands start without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from auditor import api

    return getattr(api, name)
