"""The truth of what a whole run says of bookies and marks, beside the verdicts on ledgers.

Facts have the names of the product's. The `Truth` says which bookies are silent or gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from support.model.rows import AGE_STEP_MINUTES, MINUTE_MS
from support.model.state import GRACE_MINUTES, Ledger
from support.model.truth import Truth

Json = dict[str, Any]

RENAME_LEDGERS_MAX = 3
"""Ledgers that are compared for one bookie that is gone."""
MARKS_NAMED_MAX = 20
LEDGERS_NAMED_MAX = 10


def wrong_facts_of_run(truth: Truth, findings: Iterable[Json]) -> Iterator[str]:
    """Each false fact on a bookie or on the cluster, as a sentence."""
    for found in findings:
        for name, says, is_so in _compared(truth, found):
            if says != is_so:
                yield f"a false fact on {found['bookie_id'] or 'the cluster'}: {name} is {says}, and in truth {is_so}"


def wrong_marks(truth: Truth, findings: Iterable[Json], counts: Mapping[str, int]) -> Iterator[str]:
    """No false alarm and no miss of marks without a ledger, and no false count of marks; a sentence where it is not so."""
    old = old_marks_without_ledger(truth)
    if bool(old) != any(one["kind"] == "MARK_WITHOUT_LEDGER" for one in findings):
        yield f"{'a miss' if old else 'a false alarm'}: MARK_WITHOUT_LEDGER, where these are such marks: {sorted(old)}"
    owed = mark_counts(truth)
    for name in sorted(owed.keys() | counts.keys()):
        if counts.get(name) != owed.get(name):
            yield f"a false count of marks: {name} is {counts.get(name)}, and in truth {owed.get(name)}"


def _compared(truth: Truth, found: Json) -> Iterator[tuple[str, object, object]]:
    """(name, what a finding says, what is so) of each fact that the model knows."""
    kind, facts = found["kind"], dict(found["facts"])
    if kind == "BOOKIE_LOST_UNNOTICED":
        owed = lost(truth, found["bookie_id"])
    elif kind == "BOOKIE_SILENT_YET_REGISTERED":
        owed = silent(truth, found["bookie_id"])
    elif kind == "MARK_WITHOUT_LEDGER":
        owed = marks_without_ledger(truth)
        minutes = facts.pop("oldest_age_ms") // MINUTE_MS
        facts["oldest_age_minutes"] = minutes // AGE_STEP_MINUTES * AGE_STEP_MINUTES
    else:
        return
    yield from ((name, facts[name], owed[name]) for name in sorted(facts.keys() & owed.keys()))


# Bookies


def lost(truth: Truth, bookie: str) -> Json:
    """BOOKIE_LOST_UNNOTICED: how many ledgers that need it are unmarked, and how many are marked. Nothing changes meanwhile."""
    needing = [number for number in truth.listed() if bookie in truth.needed_by(number)]
    unmarked = [number for number in needing if truth.ledgers[number].marked_at is None]
    marked = len(needing) - len(unmarked)
    return {
        "has_cookie": truth.bookies[bookie].cookie,
        "unmarked_ledgers": len(unmarked),
        "some_ledgers": sorted(unmarked)[:LEDGERS_NAMED_MAX],
        "marked_ledgers_first": marked,
        "marked_ledgers_last": marked,
        "lost_bookie_recovery_delay_s": truth.lost_bookie_recovery_delay_s,
        "replication_disabled": truth.replication_disabled,
    } | ({"renamed_to": renamed_to(truth, bookie)} if len(needing) <= RENAME_LEDGERS_MAX else {})


def silent(truth: Truth, bookie: str) -> Json:
    """BOOKIE_SILENT_YET_REGISTERED."""
    return {
        "registration": truth.bookies[bookie].registered,
        "lost_bookie_recovery_delay_s": truth.lost_bookie_recovery_delay_s,
        "replication_disabled": truth.replication_disabled,
    }


def renamed_to(truth: Truth, bookie: str) -> str | None:
    """The registered bookie that none of the ledgers names and that holds all that a gone one should; None unless it is one.

    Of more ledgers than are compared it is not said which these are: the model knows nothing then.
    """
    if not truth.is_forgotten(bookie):
        return None
    needing = [number for number in truth.listed() if bookie in truth.needed_by(number)]
    holders = [
        name
        for name, one in truth.bookies.items()
        if one.can_be_asked
        and not any(truth.ledgers[number].names(name) for number in needing)
        and all(one.can_read(number, entry) for number in needing for entry in _share(truth.ledgers[number], bookie))
    ]
    return holders[0] if len(holders) == 1 and needing else None


def _share(ledger: Ledger, bookie: str) -> list[int]:
    return [e for e in ledger.judged_entries() if bookie in ledger.write_set(ledger.segment_of(e), e)]


# Marks


def old_marks_without_ledger(truth: Truth) -> dict[int, int]:
    """The age in minutes of each mark beyond the grace whose ledger has no metadata."""
    ages = {n: truth.now - one.marked_at for n, one in truth.ledgers.items() if one.deleted and one.marked_at is not None}
    return {number: age for number, age in ages.items() if age > GRACE_MINUTES}


def marks_without_ledger(truth: Truth) -> Json:
    """MARK_WITHOUT_LEDGER: one finding for all of them."""
    old = old_marks_without_ledger(truth)
    oldest_first = sorted(old, key=lambda number: (-old[number], number))
    return {
        "marks": len(old),
        "some_ledgers": oldest_first[:MARKS_NAMED_MAX],
        "oldest_age_minutes": max(old.values(), default=0),
        "grace_ms": GRACE_MINUTES * MINUTE_MS,
        "replication_disabled": truth.replication_disabled,
    }


def mark_counts(truth: Truth) -> dict[str, int]:
    """The marks by age; and beside them, at any age, those without a ledger and those with nothing to replicate."""
    marked = {number: one for number, one in truth.ledgers.items() if one.marked_at is not None}
    beyond = [n for n, one in marked.items() if one.marked_at is not None and truth.now - one.marked_at > GRACE_MINUTES]
    return {
        "total": len(marked),
        "within_grace": len(marked) - len(beyond),
        "beyond_grace": len(beyond),
        "stale": sum(truth.owed(number).is_mark_stale for number in marked),
        "without_ledger": sum(one.deleted for one in marked.values()),
    }
