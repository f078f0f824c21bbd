"""Types of the functions that render a finding, its facts and all looks as sentences for a
person.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from auditor.model.evidence import Look
from auditor.model.finding import Finding

TellLedger: TypeAlias = Callable[[Finding, Any, Sequence[Look]], str]
TellOther: TypeAlias = Callable[[Finding, Any], str]
"""For findings on a bookie or on the cluster. The second argument is the facts dataclass of the
kind."""
