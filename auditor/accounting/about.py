"""What is written about a run beside its tables, so that it can be judged again exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from auditor.errors import OutputError
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms


@dataclass(frozen=True, slots=True)
class About:
    """`run.json`: the cluster, the terms of judgement (with the judging time), and what the exit code depends on."""

    run_id: str
    started_at: str
    facts: ClusterFacts
    terms: Terms
    fail_on: str
    allow_empty: bool
    partial: bool = False
    """Only ledgers that an operator named (--ledgers-from)."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> About:
        """Raises OutputError for an object that no version of ours wrote."""
        try:
            facts = ClusterFacts(**{**value["facts"], "hosts": tuple(value["facts"]["hosts"])})
            return cls(
                value["run_id"],
                value["started_at"],
                facts,
                Terms(**value["terms"]),
                value["fail_on"],
                value["allow_empty"],
                value["partial"],
            )
        except (KeyError, TypeError) as error:
            raise OutputError(f"run.json was not written by this version of the auditor ({error})") from None
