"""What tells a finding: a function of it, its facts and every look taken, giving sentences a person can check by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from auditor.model.evidence import Look
from auditor.model.finding import Finding

Facts: TypeAlias = Mapping[str, str]
TellLedger: TypeAlias = Callable[[Finding, Facts, Sequence[Look]], str]
TellOther: TypeAlias = Callable[[Finding, Facts], str]
"""For findings on a bookie or on the cluster."""
