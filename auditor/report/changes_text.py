"""Says in one sentence what changed since the last run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def changes_words(changes: Mapping[str, Any] | None) -> str:
    """Return what changed since the last run; "" if the summary does not say."""
    return ""
