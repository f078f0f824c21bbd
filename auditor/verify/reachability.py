"""The fourth check of BP-34: a bookie that does not answer should not be registered, and the cluster should know of it.

Verified: registered bookies answered at some look; unregistered bookies that closed ledgers still name have those ledgers
marked. Not verified: why a bookie is silent; that a marked ledger is being worked on (its age is judged elsewhere); bookies in
planned maintenance, which are known to be down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.facts import LostFacts, SilentFacts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, LedgerId

LEDGERS_NAMED_MAX = 10
"""Ledgers named in the finding on a lost bookie; the rest is counted."""

BookieLook = Mapping[BookieId, BookieRecord]


@dataclass(frozen=True, slots=True)
class Orphans:
    """Closed, non-empty ledgers that name a bookie and were unmarked at every look: how many, and a few of them."""

    count: int
    some: tuple[LedgerId, ...]


def nobody_answered(looks: Sequence[BookieLook]) -> bool:
    """Whether every registered bookie that was asked was silent or refused at every look: our network or our credentials,
    not theirs. A bookie without a known address was not asked."""
    greetings = {b.greeting for look in looks for b in look.values() if b.registration is not Registration.NONE}
    return bool(greetings & {Greeting.SILENT, Greeting.REFUSED}) and not greetings & {Greeting.ANSWERED, Greeting.UNSUPPORTED}


def recovery_gap_ms(facts: ClusterFacts) -> int:
    """How far apart two looks at an unregistered bookie that has a cookie must lie, so that a slow restart is no page."""
    return (facts.lost_bookie_recovery_delay_s or 0) * 1000 + facts.session_timeout_ms


def judge_bookies(
    looks: Sequence[BookieLook],
    orphans: Mapping[BookieId, Orphans],
    facts: ClusterFacts,
    maintenance: frozenset[BookieId] = frozenset(),
) -> list[Finding]:
    """Findings on bookies after the last look, in order of bookie id. Needs two looks at least; none if nobody answered, none
    on bookies in `maintenance`."""
    if len(looks) < 2 or nobody_answered(looks):
        return []
    found = []
    for bookie in sorted(set().union(*looks) - maintenance):
        records = [look[bookie] for look in looks if bookie in look]
        if len(records) < 2:
            continue
        if all(r.registration is not Registration.NONE and r.greeting is Greeting.SILENT for r in records):
            found.append(_silent(records, facts))
        gone = all(r.registration is Registration.NONE for r in records)
        if gone and bookie in orphans and _gap_is_wide_enough(records, facts):
            found.append(_lost(records, orphans[bookie], facts))
    return found


def withheld(
    looks: Sequence[BookieLook],
    orphans: Mapping[BookieId, Orphans],
    facts: ClusterFacts,
    maintenance: frozenset[BookieId] = frozenset(),
) -> list[str]:
    """Sentences on bookies that are gone and not accused, because the looks lay too close together to tell a slow restart;
    bookies in `maintenance` are told elsewhere."""
    found = []
    for bookie in sorted(orphans.keys() - maintenance):
        records = [look[bookie] for look in looks if bookie in look]
        gone = all(record.registration is Registration.NONE for record in records)
        if len(records) > 1 and gone and not _gap_is_wide_enough(records, facts):
            found.append(
                f"bookie {bookie} is not registered and {orphans[bookie].count} closed ledgers that name it are unmarked, but "
                "it has a cookie and may be restarting: to tell, the looks must lie "
                f"{recovery_gap_ms(facts) // 1000} s apart (lostBookieRecoveryDelay and a session time-out; "
                "--lost-bookie-wait-max bounds the wait)"
            )
    return found


def _gap_is_wide_enough(records: Sequence[BookieRecord], facts: ClusterFacts) -> bool:
    if not any(record.has_cookie for record in records):
        return True
    return records[-1].read_at_ms - records[0].read_at_ms >= recovery_gap_ms(facts)


def _silent(records: Sequence[BookieRecord], cluster: ClusterFacts) -> Finding:
    last = records[-1]
    facts = SilentFacts(
        registration=last.registration.value,
        address=f"{last.host}:{last.port}",
        looks=len(records),
        detail=last.greeting_detail,
        lost_bookie_recovery_delay_s=cluster.lost_bookie_recovery_delay_s,
        replication_disabled=cluster.replication_disabled,
    )
    return Finding(Kind.BOOKIE_SILENT_YET_REGISTERED, facts, bookie_id=last.bookie_id)


def _lost(records: Sequence[BookieRecord], orphans: Orphans, cluster: ClusterFacts) -> Finding:
    last = records[-1]
    facts = LostFacts(
        has_cookie=last.has_cookie,
        unmarked_ledgers=orphans.count,
        some_ledgers=orphans.some[:LEDGERS_NAMED_MAX],
        apart_ms=last.read_at_ms - records[0].read_at_ms,
        lost_bookie_recovery_delay_s=cluster.lost_bookie_recovery_delay_s,
        replication_disabled=cluster.replication_disabled,
    )
    return Finding(Kind.BOOKIE_LOST_UNNOTICED, facts, bookie_id=last.bookie_id)
