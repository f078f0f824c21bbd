"""The second checker's finding on ledgers of Pulsar that nothing references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import unquote_plus

from auditor.model.identity import LedgerId
from auditor.model.reference_facts import OrphanedFacts
from auditor.second_checker.references import AGAIN, CLOSED, FIRST, GONE, LedgerLook, TopicRow

ORPHANS_TOLD = 20
"""Ledgers that the finding names."""
_WITH_LEDGERS = frozenset({"data", "cursor", "compacted", "schema"})


class UnreferencedLedger(NamedTuple):
    """A ledger without a reference at the first look, and the looks at its znode."""

    ledger_id: LedgerId
    looks: Mapping[int, LedgerLook]


class Topics(NamedTuple):
    """What is known of topics as a whole.

    `read` has the namespaces with at least one topic, `unread` those of which something could not
    be read. `all_listed` is False if topics may have been missed. `lone` has the names of
    partitions that exist by Pulsar's word and have no znode.
    """

    read: frozenset[str]
    unread: frozenset[str]
    all_listed: bool
    lone: frozenset[str] = frozenset()


def orphaned_facts(
    ledgers: Iterable[UnreferencedLedger],
    topics: Topics,
    rows_again: Mapping[str, Iterable[TopicRow]],
    now_ms: int,
    orphan_age_ms: int,
) -> OrphanedFacts | None:
    """Return the facts of the finding, None if no ledger is an orphan.

    `rows_again` has, by topic, its rows of the second look.
    """
    lonely: dict[LedgerId, LedgerLook] = {}
    apart: list[int] = []
    undecided = 0
    for one in ledgers:
        first = one.looks[FIRST]
        if (
            first.custom.get("application") != b"pulsar"
            or now_ms - (first.created_ms or 0) <= orphan_age_ms
        ):
            continue
        is_orphan = _is_orphan(one, topics, rows_again)
        if is_orphan is None:
            undecided += 1
        elif is_orphan:
            lonely[one.ledger_id] = first
            apart.append(one.looks[AGAIN].read_at_ms - first.read_at_ms)
    if not lonely:
        return None
    lengths = [look.length_bytes or 0 for look in lonely.values() if look.state == CLOSED]
    return OrphanedFacts(
        len(lonely),
        tuple(sorted(lonely)[:ORPHANS_TOLD]),
        sum(lengths),
        len(lonely) - len(lengths),
        now_ms - min(look.created_ms or 0 for look in lonely.values()),
        orphan_age_ms,
        undecided,
        min(apart),
    )


def _is_orphan(
    one: UnreferencedLedger, topics: Topics, rows_again: Mapping[str, Iterable[TopicRow]]
) -> bool | None:
    """Return whether nothing needs the ledger and it is still there; None where that is not
    known.
    """
    custom = one.looks[FIRST].custom
    namespace, _, encoded = (
        custom.get("pulsar/managed-ledger", b"")
        .decode("utf-8", "replace")
        .rpartition("/persistent/")
    )
    if custom.get("component") != b"managed-ledger" or "/" in encoded or not topics.all_listed:
        return None
    if namespace not in topics.read or namespace in topics.unread or namespace == "pulsar/system":
        return None
    topic = f"persistent://{namespace}/{unquote_plus(encoded)}"
    rows = list(rows_again.get(topic, ()))
    if AGAIN not in one.looks or not rows or topic in topics.lone:
        return None
    if any(row.row == "problem" or row.status == "unreadable" for row in rows):
        return None
    again = one.looks[AGAIN]
    if again.status == GONE:
        return False
    if again.czxid is None:
        return None
    named = any(row.row in _WITH_LEDGERS and one.ledger_id == row.ledger_id for row in rows)
    return not named and again.czxid == one.looks[FIRST].czxid
