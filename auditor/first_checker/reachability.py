"""The fourth check of BP-34: a silent bookie should not be registered, and the cluster should know.

Verified: registered bookies that were dialled answered at some look. Closed ledgers that name an
unregistered bookie are marked, or the cluster is marking them.

Not verified: why a bookie is silent; that somebody works on a marked ledger (its age is judged
elsewhere); bookies in planned maintenance, which are known to be down; whether a bookie that two
runs saw unregistered was back in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor.model.availability import NOT_DIALLED, Greeting
from auditor.model.bookie_facts import LostFacts, SilentFacts
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, LedgerId

LEDGERS_NAMED_MAX = 10
"""At most this many ledgers are named in the finding on a lost bookie. The others are counted."""

BookieLook = Mapping[BookieId, BookieRecord]


@dataclass(frozen=True, slots=True)
class Missed:
    """What a run knows of a bookie that is not registered, beside its records.

    It counts closed, non-empty ledgers that still name the bookie. `unmarked`: those that no look
    of at least two saw marked; `some` are the first of them. `marked_last`: those with a mark when
    they were last read. `marked_first`: those of `marked_last` that had a mark at the first look
    too. While the cluster is marking, `marked_last` is larger. A ledger whose mark was removed
    counts nowhere.
    """

    unmarked: int
    some: tuple[LedgerId, ...]
    marked_first: int = 0
    marked_last: int = 0
    since_ms: int | None = None
    """When it was first known to be unregistered, also from earlier runs; None: at the first
    look."""
    renamed_to: BookieId | None = None
    """The registered bookie that holds this bookie's entries, if there is one."""


def nobody_answered(looks: Sequence[BookieLook]) -> bool:
    """Return whether every registered bookie that was asked was silent or refused at every look.

    Then the fault lies with our network or our credentials. A bookie without a known address was
    not asked. False if no registered bookie was silent or refused.
    """
    greetings = {
        b.greeting
        for look in looks
        for b in look.values()
        if b.registration is not Registration.NONE
    }
    return bool(greetings & {Greeting.SILENT, Greeting.REFUSED}) and not greetings & {
        Greeting.ANSWERED,
        Greeting.UNSUPPORTED,
    }


def recovery_gap_ms(facts: ClusterFacts) -> int:
    """Return the least time between two looks at an unregistered bookie with a cookie, in ms.

    It is lostBookieRecoveryDelay and a session time-out: a slow restart must not alert anybody.
    """
    return (facts.lost_bookie_recovery_delay_s or 0) * 1000 + facts.session_timeout_ms


def judge_bookies(
    looks: Sequence[BookieLook],
    missed: Mapping[BookieId, Missed],
    facts: ClusterFacts,
    maintenance: frozenset[BookieId] = frozenset(),
) -> list[Finding]:
    """Return the findings on bookies after the last look, in order of bookie id.

    Needs at least two looks. Empty if no bookie answered. Bookies in `maintenance` get no finding.
    """
    if len(looks) < 2 or nobody_answered(looks):
        return []
    found = []
    for bookie in sorted(set().union(*looks) - maintenance):
        records = [look[bookie] for look in looks if bookie in look]
        if len(records) < 2:
            continue
        if all(_is_mute(record) for record in records):
            found.append(_silent(records, facts))
        if _is_missed(records, missed.get(bookie)) and not _why_withheld(
            records, missed[bookie], facts
        ):
            found.append(_lost_finding(records, missed[bookie], facts))
    return found


def withheld(
    looks: Sequence[BookieLook],
    missed: Mapping[BookieId, Missed],
    facts: ClusterFacts,
    maintenance: frozenset[BookieId] = frozenset(),
) -> list[str]:
    """Return a sentence for each lost bookie that is not accused, in order of bookie id.

    Bookies in `maintenance` are reported elsewhere.
    """
    found = []
    for bookie in sorted(missed.keys() - maintenance):
        records = [look[bookie] for look in looks if bookie in look]
        if _is_missed(records, missed[bookie]) and (
            why := _why_withheld(records, missed[bookie], facts)
        ):
            found.append(
                f"bookie {bookie} is not registered and some closed ledgers that name it are"
                f" unmarked: {why}"
            )
    return found


def not_dialled(looks: Sequence[BookieLook]) -> list[str]:
    """Return a sentence if bookies without a finding were not dialled at the last look.

    The sentence names the first of them and the reason: its length does not depend on their number.
    """
    newest = [looks[-1][bookie] for bookie in sorted(looks[-1])] if looks else []
    found = [record for record in newest if _was_not_dialled(record)]
    if not found:
        return []
    first = found[0]
    named = f"bookie {first.bookie_id} was" if len(found) == 1 else f"{len(found)} bookies were"
    return [
        f"{named} asked nothing at the last look, and says nothing about itself"
        f" ({first.bookie_id}: {first.greeting_detail})"
    ]


def _was_not_dialled(record: BookieRecord) -> bool:
    """Return whether we did not dial the bookie because no KDC gave us a ticket."""
    return record.greeting is Greeting.SILENT and record.greeting_detail.startswith(NOT_DIALLED)


def _is_mute(record: BookieRecord) -> bool:
    """Return whether a registered bookie was silent when it was dialled."""
    return (
        record.registration is not Registration.NONE
        and record.greeting is Greeting.SILENT
        and not _was_not_dialled(record)
    )


def _is_missed(records: Sequence[BookieRecord], missed: Missed | None) -> bool:
    """Return whether the bookie was unregistered at every look, and unmarked ledgers name it.

    One look is not enough: it takes at least two.
    """
    gone = len(records) > 1 and all(record.registration is Registration.NONE for record in records)
    return gone and missed is not None and missed.unmarked > 0


def _why_withheld(records: Sequence[BookieRecord], missed: Missed, facts: ClusterFacts) -> str:
    """Return why the cluster may still know of the bookie, or "" if nothing says so."""
    has_cookie = any(record.has_cookie for record in records)
    if missed.marked_last > missed.marked_first:
        named = missed.marked_last + missed.unmarked
        return (
            f"replication is being arranged: {missed.marked_last} of {named} ledgers are marked,"
            f" {missed.marked_first} of them were at the first look"
        )
    if has_cookie and facts.replication_disabled:
        return (
            "it has a cookie and auto-recovery is disabled, as during an upgrade: it is reported"
            " when auto-recovery is enabled and the bookie is still not registered"
        )
    if has_cookie and _unregistered_for_ms(records, missed) < recovery_gap_ms(facts):
        return (
            "it has a cookie and may be restarting. It is reported once it has not been registered"
            f" for {recovery_gap_ms(facts) // 1000} s (lostBookieRecoveryDelay and a session"
            " time-out). So far it is known to be unregistered for"
            f" {_unregistered_for_ms(records, missed) // 1000} s; whole runs remember since when,"
            " and --lost-bookie-wait-max bounds how long one run waits"
        )
    return ""


def _unregistered_for_ms(records: Sequence[BookieRecord], missed: Missed) -> int:
    """Return for how long the bookie is known to be unregistered, up to the last look."""
    first = records[0].read_at_ms
    since = first if missed.since_ms is None else min(missed.since_ms, first)
    return records[-1].read_at_ms - since


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


def _lost_finding(
    records: Sequence[BookieRecord], missed: Missed, cluster: ClusterFacts
) -> Finding:
    last = records[-1]
    facts = LostFacts(
        has_cookie=last.has_cookie,
        unmarked_ledgers=missed.unmarked,
        some_ledgers=missed.some[:LEDGERS_NAMED_MAX],
        marked_ledgers_first=missed.marked_first,
        marked_ledgers_last=missed.marked_last,
        apart_ms=last.read_at_ms - records[0].read_at_ms,
        unregistered_ms=_unregistered_for_ms(records, missed),
        lost_bookie_recovery_delay_s=cluster.lost_bookie_recovery_delay_s,
        replication_disabled=cluster.replication_disabled,
        renamed_to=missed.renamed_to,
    )
    return Finding(Kind.BOOKIE_LOST_UNNOTICED, facts, bookie_id=last.bookie_id)
