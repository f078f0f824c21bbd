"""Which ledgers a run with a period (`--within`) asks about, and which verdicts it carries over.

A verdict may be carried over only while nothing speaks for asking again (`DueFor`). Whole columns
are compared: no ledger becomes a Python value.

Each ledger has a place on a circle, by a hash of its id. The circle turns once in ROTATION_SHARE of
the period. A ledger is due when its place was passed since it was listed. Whatever the circle says,
no verdict is carried that would be older than the period at the next run, which is expected after
as long as the time since the base began.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from auditor.evidence.ids import Ids
from auditor.first_checker.placement import has_no_rule
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, newest_records
from auditor.model.evidence import Terms
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.mixing import mix
from auditor.summary.about import About

Flags: TypeAlias = npt.NDArray[np.bool_]
Times: TypeAlias = npt.NDArray[np.int64]
"""Milliseconds since 1970 UTC."""

ROTATION_SHARE = 7 / 8
"""The circle turns once in this share of the period. The rest is room for runs that come late: up
to an eighth of the period apart, no ledger becomes due by its age alone."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """When the lists of ledgers are due again. The run and the base began at these times.

    If the clock went back, the time since the base is negative, and every ledger is due by its age.
    """

    period_ms: int
    began_ms: int
    base_began_ms: int

    def is_old(self, listed_at_ms: Times) -> Flags:
        """Return which lists would be older than the period at the next run, or are from the
        future.
        """
        until_next = self.began_ms - self.base_began_ms
        age = self.began_ms - listed_at_ms
        old: Flags = (age + until_next > self.period_ms) | (age < 0) | (until_next <= 0)
        return old

    def is_passed(self, ids: Ids, listed_at_ms: Times) -> Flags:
        """Return which ledgers' places were passed since they were listed."""
        turn_ms = max(1, int(self.period_ms * ROTATION_SHARE))
        place = (hash_ids(ids) % np.uint64(turn_ms)).astype(np.int64)
        passed: Flags = (self.began_ms - place) // turn_ms > (listed_at_ms - place) // turn_ms
        return passed


def hash_ids(ids: Ids) -> npt.NDArray[np.uint64]:
    """Return 64 bits for each id, as SplitMix64 does: neighbours are spread evenly."""
    return mix(ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))


@dataclass(frozen=True, slots=True)
class Bookies:
    """The bookies whose ledgers may keep their verdicts.

    `fit`: registered at the address that they had when the base ended, and with the cookie that
    they had since it began; they answered it, and could send what they list. `doubted`: the base
    found something new on them, and its own lists alone count.
    """

    fit: frozenset[BookieId]
    doubted: frozenset[BookieId] = frozenset()

    @classmethod
    def of(
        cls,
        before: Sequence[BookieRecord],
        now: Iterable[BookieRecord],
        base: About,
        doubted: frozenset[BookieId] = frozenset(),
        unreadable: frozenset[BookieId] = frozenset(),
    ) -> Bookies:
        """Return the bookies by the records of the base (`before`) and of this run.

        `base` has the cookies before the base listed ledgers. `unreadable` are bookies that could
        not send what they list.
        """
        known = newest_records(before)
        directories: dict[BookieId, set[tuple[str, ...] | None]] = {}
        for one in before:
            directories.setdefault(one.bookie_id, set()).add(one.cookie_directories)
        fit = (
            one.bookie_id
            for one in now
            if is_fit(known.get(one.bookie_id), one)
            and one.bookie_id not in unreadable
            and base.cookie_czxids.get(one.bookie_id) == one.cookie_czxid
            and base.cookie_directories.get(one.bookie_id) == one.cookie_directories
            and directories[one.bookie_id] == {one.cookie_directories}
        )
        return cls(frozenset(fit), doubted)


def is_fit(before: BookieRecord | None, now: BookieRecord) -> bool:
    """Return whether a bookie is the one that the base knew, and answered it."""
    return (
        before is not None
        and before.greeting is Greeting.ANSWERED
        and before.is_registered
        and now.is_registered
        and not now.problem
        and now.cookie_czxid is not None
        and (before.host, before.port) == (now.host, now.port)
    )


def newly_doubted(findings: Iterable[FindingRecord]) -> frozenset[BookieId]:
    """Return the bookies of the findings that were new or worse in their run.

    Those of a known loss came into doubt in an earlier run.
    """
    found: set[BookieId] = set()
    for finding in findings:
        if finding.change in _KNOWN_BEFORE:
            continue
        found.update(finding.missing_on)
        if finding.bookie_id is not None:
            found.add(finding.bookie_id)
    return frozenset(found)


_KNOWN_BEFORE = ("still", "better")


def why_not_comparable(base: About, now: About) -> str:
    """Return why no verdict of a run may be carried over into this one; "" if some may.

    `now` must have what decides verdicts: the same version and the same terms, but for times, for
    what is drawn at random, and for which bookies are registered.
    """
    if base.partial:
        return "it audited named ledgers only"
    if base.auditor_version != now.auditor_version:
        return f"it is of version {base.auditor_version}"
    before, after = _decisive(base.terms), _decisive(now.terms)
    other = sorted(name for name, value in after.items() if before[name] != value)
    return f"it had other settings ({', '.join(other)})" if other else ""


def _decisive(terms: Terms) -> dict[str, object]:
    """Return the terms that decide verdicts by name. Locations count only under a policy."""
    around = terms.around
    located = () if has_no_rule(terms.placement) else (around.locations, around.areas)
    return {
        **{name: getattr(terms, name) for name in _DECISIVE},
        "locations": located,
    }


_DECISIVE = (
    *("confirming_reads_max", "looks_max", "placement", "probe_entries", "sound_sample"),
    *("spot_reads", "stranded_entries_max"),
)
"""Names of Terms."""
