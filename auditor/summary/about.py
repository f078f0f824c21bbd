"""run.json: what is needed beside a run's tables to judge the run again in exactly the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from auditor import __version__
from auditor.errors import OutputError
from auditor.first_checker.circle import Arc
from auditor.model.cluster import ClusterFacts, Surroundings
from auditor.model.evidence import LastPopulation, PlacementRule, Policy, Sweep, Terms
from auditor.model.identity import BookieId
from auditor.summary.reading_plan import BookieReads, ReadArc, ReadingPlan, UnansweredPlace


@dataclass(frozen=True, slots=True)
class RunBase:
    """The earlier run whose verdicts a run with a period may carry over, and when it began.

    `run_id` is None if there is none: `problem` says why, as the end of a sentence.
    """

    run_id: str | None = None
    began_ms: int = 0
    problem: str = ""


NO_BASE = RunBase()


@dataclass(frozen=True, slots=True)
class About:
    """`run.json`: the cluster, the terms of judgement (with the judging time), and what the exit
    code depends on.
    """

    run_id: str
    started_at: str
    facts: ClusterFacts
    terms: Terms
    fail_on: str
    allow_empty: bool
    partial: bool = False
    """Whether the run is limited to ledgers that an operator named (--ledgers-from)."""
    previous_population: LastPopulation | None = None
    """The earlier number of ledgers that this run's number is compared with.

    None in a partial run, and if there was no earlier run."""
    auditor_version: str = __version__
    """The version of the auditor that began the run."""
    waits_ms: tuple[int, int] = (0, 0)
    """The second-look delay, and the longest wait for a bookie that may be restarting, in ms."""
    unregistered_since_ms: Mapping[BookieId, int] = field(default_factory=dict)
    """Since when each bookie is not registered, in ms, as the last whole run recorded it."""
    resumed_at: tuple[str, ...] = ()
    """When the run was resumed, oldest first."""
    reading: ReadingPlan = field(default_factory=ReadingPlan)
    """Which copies are read on bookies that list."""
    within_ms: int = 0
    """The period of --within: verdicts may be carried over that are younger. 0: every listed ledger
    is asked about."""
    base: RunBase = field(default_factory=lambda: NO_BASE)
    """The run whose verdicts may be carried over."""
    cookie_czxids: Mapping[BookieId, int] = field(default_factory=dict)
    """The transaction that created each bookie's cookie, as it was before the run listed ledgers.
    Bookies whose cookie could not be read are left out."""
    cookie_directories: Mapping[BookieId, tuple[str, ...] | None] = field(default_factory=dict)
    """The ledger directories in the same cookies; None for a cookie that does not say them."""

    def as_json(self) -> dict[str, Any]:
        """Return the run as a JSON object, which `from_json` reads.

        The result is deterministic: sets become sorted lists, and locations are sorted by key. A
        run without a period has no field on it, nor has a cluster without cookies.
        """
        stored = asdict(replace(self, reading=ReadingPlan()))
        if not self.within_ms:
            del stored["within_ms"], stored["base"]
        if not self.cookie_czxids:
            del stored["cookie_czxids"], stored["cookie_directories"]
        return {
            **stored,
            "reading": _reading_as_json(self.reading),
            "terms": {**asdict(self.terms), "around": _around_as_json(self.terms.around)},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> About:
        """Return what `as_json` wrote. Raises OutputError for anything else."""
        try:
            facts = ClusterFacts(**{**value["facts"], "hosts": tuple(value["facts"]["hosts"])})
            return cls(
                value["run_id"],
                value["started_at"],
                facts,
                _terms(value["terms"]),
                value["fail_on"],
                value["allow_empty"],
                value["partial"],
                _population(value["previous_population"]),
                value["auditor_version"],
                _pair(value["waits_ms"]),
                {str(b): int(at) for b, at in value["unregistered_since_ms"].items()},
                tuple(value["resumed_at"]),
                _reading(value["reading"]),
                value.get("within_ms", 0),
                RunBase(**value["base"]) if "base" in value else NO_BASE,
                {str(b): int(czxid) for b, czxid in value.get("cookie_czxids", {}).items()},
                _directories(value.get("cookie_directories") or {}),
            )
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise OutputError(
                f"run.json was not written by this version of the auditor ({error})"
            ) from None


def _directories(
    value: Mapping[str, Sequence[str] | None],
) -> dict[BookieId, tuple[str, ...] | None]:
    """Return the directories by bookie. A bundle with pseudonyms has none."""
    return {bookie: None if some is None else tuple(some) for bookie, some in value.items()}


def _pair(value: Sequence[int]) -> tuple[int, int]:
    one, other = value
    return one, other


def _population(value: Mapping[str, Any] | None) -> LastPopulation | None:
    return (
        None
        if value is None
        else LastPopulation(**{**value, "low_listed": tuple(value["low_listed"])})
    )


def _terms(value: Mapping[str, Any]) -> Terms:
    parts = {"placement": _placement(value["placement"]), "around": _around(value["around"])}
    return Terms(**{**value, **parts, "sweep": Sweep(**value["sweep"])})


def _placement(value: Mapping[str, Any]) -> PlacementRule:
    rule = PlacementRule(**value)
    return replace(rule, policy=Policy(rule.policy))


_SETS = ("writable", "readonly", "maintenance")
"""The fields of Surroundings that are sets here and sorted lists in JSON."""


def _around_as_json(around: Surroundings) -> dict[str, Any]:
    fields = asdict(around)
    return {
        **fields,
        **{name: sorted(fields[name]) for name in _SETS},
        "locations": dict(sorted(around.locations.items())),
        "areas": [dict(sorted(area.items())) for area in around.areas],
    }


def _around(value: Mapping[str, Any]) -> Surroundings:
    sets = {name: frozenset(value[name]) for name in _SETS}
    return Surroundings(**{**value, **sets, "areas": tuple(value["areas"])})


def _reading_as_json(plan: ReadingPlan) -> dict[str, Any]:
    return {
        "seed": plan.seed,
        "way": plan.way,
        "began_at_ms": plan.began_at_ms,
        "period_ms": plan.period_ms,
        "bytes_per_second": plan.bytes_per_second,
        "requests_per_second": plan.requests_per_second,
        "before": {
            bookie: [
                reads.since_ms,
                [[*one.arc, one.at_ms] for one in reads.arcs],
                [list(one) for one in reads.unanswered],
                reads.last_ms,
            ]
            for bookie, reads in sorted(plan.before.items())
        },
        "copies": dict(sorted(plan.copies.items())),
        "arcs": {bookie: list(arc) for bookie, arc in sorted(plan.arcs.items())},
    }


def _reading(value: Mapping[str, Any]) -> ReadingPlan:
    before = {
        bookie: BookieReads(
            since,
            tuple(ReadArc(Arc(first, length), at_ms) for first, length, at_ms in arcs),
            tuple(UnansweredPlace(*one) for one in unanswered),
            *last,
        )
        for bookie, (since, arcs, unanswered, *last) in value["before"].items()
    }
    arcs = {bookie: Arc(first, length) for bookie, (first, length) in value["arcs"].items()}
    return ReadingPlan(**{**value, "before": before, "arcs": arcs})
