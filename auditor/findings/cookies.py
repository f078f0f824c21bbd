"""Bookies whose cookie names another instance of the cluster.

When a bookie starts, it compares its cookie in ZooKeeper, those on its disks and the cluster's
INSTANCEID. It does not start if they differ (org.apache.bookkeeper.bookie.Cookie). Verified: each
look that read the cookie found another instance id than the cluster's. Not verified: what the
cookies on the bookie's disks say. A cookie without an instance id, as old releases write it, and
one that cannot be read are not judged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from auditor.model.cluster import BookieLook, BookieRecord, ClusterFacts
from auditor.model.facts import ForeignCookieFacts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId


def judge_cookies(
    looks: Sequence[BookieLook], facts: ClusterFacts, away: Collection[BookieId] = ()
) -> list[Finding]:
    """Return the findings on cookies of another instance, in order of bookie id.

    `away` are bookies in planned maintenance, which get none.
    """
    if facts.instance_id is None:
        return []
    by_bookie: dict[BookieId, list[BookieRecord]] = {}
    for look in looks:
        for bookie, record in look.items():
            by_bookie.setdefault(bookie, []).append(record)
    return [
        _foreign_cookie(records, facts.instance_id)
        for bookie, records in sorted(by_bookie.items())
        if bookie not in away and _is_foreign(records, facts.instance_id)
    ]


def _is_foreign(records: Sequence[BookieRecord], instance_id: str) -> bool:
    """Return whether each cookie that was read names another instance, the last one included."""
    named = {record.cookie_instance_id for record in records} - {None}
    return records[-1].cookie_instance_id is not None and instance_id not in named


def _foreign_cookie(records: Sequence[BookieRecord], instance_id: str) -> Finding:
    last = records[-1]
    facts = ForeignCookieFacts(
        registration=last.registration.value,
        cookie_instance_id=str(last.cookie_instance_id),
        instance_id=instance_id,
        cookie_created_ms=last.cookie_created_ms,
        looks=len(records),
    )
    return Finding(Kind.COOKIE_OF_ANOTHER_INSTANCE, facts, bookie_id=last.bookie_id)
