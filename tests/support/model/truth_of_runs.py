"""The truth of what a whole run says of bookies, marks and copies, beside the verdicts on ledgers.

Facts have the product's names. The `Truth` says which bookies are silent or gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from support.model.rows import MINUTE_MS, CopyFacts, age_minutes
from support.model.state import GRACE_MINUTES, Bookie, Ledger
from support.model.truth import Truth

Json = dict[str, Any]

RENAME_LEDGERS_MAX = 3
"""Ledgers that are compared for one gone bookie: those with the lowest ids."""
MARKS_NAMED_MAX = 20
LEDGERS_NAMED_MAX = 10


def wrong_facts_of_run(truth: Truth, findings: Iterable[Json]) -> Iterator[str]:
    """Yield each false fact on a bookie or on the cluster, as a sentence."""
    for found in findings:
        for name, says, is_so in _compared(truth, found):
            if says != is_so:
                yield (
                    f"a false fact on {found['bookie_id'] or 'the cluster'}: {name} is {says}, and"
                    f" in truth {is_so}"
                )


def wrong_marks(truth: Truth, findings: Iterable[Json], counts: Mapping[str, int]) -> Iterator[str]:
    """Yield each false alarm or miss of marks without a ledger, and each false count of marks, as
    a sentence.
    """
    old = old_marks_without_ledger(truth)
    if bool(old) != any(one["kind"] == "MARK_WITHOUT_LEDGER" for one in findings):
        yield (
            f"{'a miss' if old else 'a false alarm'}: MARK_WITHOUT_LEDGER, where these are such"
            f" marks: {sorted(old)}"
        )
    owed = mark_counts(truth)
    for name in sorted(owed.keys() | counts.keys()):
        if counts.get(name) != owed.get(name):
            yield (
                f"a false count of marks: {name} is {counts.get(name)}, and in truth"
                f" {owed.get(name)}"
            )


def _compared(truth: Truth, found: Json) -> Iterator[tuple[str, object, object]]:
    """Yield (name, value in a finding, true value) of each fact that the model knows."""
    kind, facts = found["kind"], dict(found["facts"])
    if kind == "BOOKIE_LOST_UNNOTICED":
        owed = lost(truth, found["bookie_id"])
    elif kind == "BOOKIE_SILENT_YET_REGISTERED":
        owed = silent(truth, found["bookie_id"])
    elif kind == "BOOKIE_FAILING_REQUESTS":
        owed = failing(truth, found["bookie_id"])
        refused = facts["lists_refused"] + facts["reads_refused"]
        facts["statuses"] = [[status, count - refused] for status, count in facts["statuses"]]
        facts["lists_a_look"] = facts["lists_refused"] / facts["looks"]
    elif kind == "MARK_WITHOUT_LEDGER":
        owed = marks_without_ledger(truth)
        facts["oldest_age_minutes"] = age_minutes(facts.pop("oldest_age_ms"))
    else:
        return
    yield from ((name, facts[name], owed[name]) for name in sorted(facts.keys() & owed.keys()))


def wrong_summary(truth: Truth, summary: Json) -> Iterator[str]:
    """Yield each false statement of a summary on renamed bookies and on verified copies, as a
    sentence.
    """
    for name, is_so in {"bookies_renamed": bookies_renamed(truth), **verified(truth)}.items():
        if summary[name] != is_so:
            yield f"a false claim of the summary: {name} is {summary[name]}, and in truth {is_so}"


# Bookies


def lost(truth: Truth, bookie: str) -> Json:
    """Return the facts of BOOKIE_LOST_UNNOTICED: how many ledgers that need it are unmarked, and
    how many are marked. Nothing changes meanwhile.
    """
    needing = truth.needing(bookie)
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
        "renamed_to": renamed_to(truth, bookie),
    }


def silent(truth: Truth, bookie: str) -> Json:
    """Return the facts of BOOKIE_SILENT_YET_REGISTERED."""
    return {
        "registration": truth.bookies[bookie].registered,
        "lost_bookie_recovery_delay_s": truth.lost_bookie_recovery_delay_s,
        "replication_disabled": truth.replication_disabled,
    }


def failing(truth: Truth, bookie: str) -> Json:
    """Return the facts of BOOKIE_FAILING_REQUESTS. `statuses` lacks the requests that
    `lists_refused` and `reads_refused` count.
    """
    needing = truth.needing(bookie)
    return {
        "registration": truth.bookies[bookie].registered,
        "ledgers": len(needing),
        "some_ledgers": needing[:LEDGERS_NAMED_MAX],
        "lists_a_look": len(needing),
        "statuses": [["EUA", 0]],
    }


def bookies_renamed(truth: Truth) -> list[Json]:
    """Return every gone bookie that exists under another name, and the ledgers that show it."""
    names = [(name, renamed_to(truth, name)) for name in sorted(truth.bookies)]
    return [
        {"bookie_id": name, "renamed_to": other, "ledgers": compared(truth, name)}
        for name, other in names
        if other is not None
    ]


def compared(truth: Truth, bookie: str) -> list[int]:
    """Return the ledgers by which a gone bookie is compared with others: the lowest that need
    it.
    """
    return truth.needing(bookie)[:RENAME_LEDGERS_MAX]


def renamed_to(truth: Truth, bookie: str) -> str | None:
    """Return the only registered bookie that none of the compared ledgers names and that holds
    everything a gone one should; None if there is no such bookie.
    """
    if not truth.is_forgotten(bookie):
        return None
    numbers = compared(truth, bookie)
    holders = [
        name
        for name, one in truth.bookies.items()
        if one.can_be_asked
        and not any(truth.ledgers[number].names(name) for number in numbers)
        and all(
            _seems_to_hold(one, number, _share(truth.ledgers[number], bookie)) for number in numbers
        )
    ]
    return holders[0] if len(holders) == 1 and numbers else None


def _seems_to_hold(bookie: Bookie, number: int, share: list[int]) -> bool:
    """Return whether its list names these entries. A bookie that cannot list is read for the first,
    the middle and the last.
    """
    if bookie.lists:
        return all(bookie.has(number, entry) for entry in share)
    read = (share[0], share[len(share) // 2], share[-1])
    return all(bookie.can_read(number, entry) for entry in read)


def _share(ledger: Ledger, bookie: str) -> list[int]:
    return [
        e for e in ledger.judged_entries() if bookie in ledger.write_set(ledger.segment_of(e), e)
    ]


# Copies


def verified(truth: Truth) -> Json:
    """Return how the copies of all sound or violated ledgers are known, and the verified share."""
    rows = [truth.owed(number) for number in truth.listed()]
    counted = [row.copies for row in rows if row.copies and row.standing in ("sound", "violated")]
    total = CopyFacts(*map(sum, zip(*counted, strict=True))) if counted else CopyFacts(0, 0, 0)
    found = total.listed + total.read
    ratio = found * 10**6 // total.expected / 10**6 if total.expected else None
    return {"copies": total._asdict(), "verified_ratio": ratio}


# Marks


def old_marks_without_ledger(truth: Truth) -> dict[int, int]:
    """Return the age in minutes of each mark beyond the grace whose ledger has no metadata."""
    ages = {
        n: truth.now - one.marked_at
        for n, one in truth.ledgers.items()
        if one.deleted and one.marked_at is not None
    }
    return {number: age for number, age in ages.items() if age > GRACE_MINUTES}


def marks_without_ledger(truth: Truth) -> Json:
    """Return the facts of MARK_WITHOUT_LEDGER: one finding for all of them."""
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
    """Return the marks by age, and, at any age, those without a ledger and those with nothing to
    replicate.
    """
    marked = {number: one for number, one in truth.ledgers.items() if one.marked_at is not None}
    beyond = [
        n
        for n, one in marked.items()
        if one.marked_at is not None and truth.now - one.marked_at > GRACE_MINUTES
    ]
    return {
        "total": len(marked),
        "within_grace": len(marked) - len(beyond),
        "beyond_grace": len(beyond),
        "stale": sum(truth.owed(number).is_mark_stale for number in marked),
        "without_ledger": sum(one.deleted for one in marked.values()),
    }
