"""Which referenced ledgers leave it unknown whether a topic lost something.

Reads rows one by one, as they were written. What is proven is in `references`; here is what two
looks could neither prove nor rule out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from auditor.model.identity import LedgerId
from auditor.second_checker.references import (
    AGAIN,
    CLOSED,
    FIRST,
    FOUND,
    GONE,
    LedgerLook,
    Need,
    TopicRow,
    needs_of,
    reference_facts,
)


class Doubt(StrEnum):
    """Why nothing is known of a reference. OUTDATED: it may be that of an earlier compaction."""

    UNKNOWN = "unknown"
    OUTDATED = "outdated"


class _UseTwice(NamedTuple):
    """One use of the ledger: its need at the first look, and what the second look says of it.

    `again` is None if the second look shows no need. `may_be_hidden`: it could not read the use.
    """

    first: Need
    again: Need | None
    may_be_hidden: bool


def doubt_about(
    ledger: LedgerId,
    rows: Iterable[TopicRow],
    looks: Mapping[int, LedgerLook],
    *,
    is_said_elsewhere: bool,
) -> Doubt | None:
    """Return why it is unknown whether topics lost something in the ledger; None if it is known.

    `rows` are all rows, at both looks, of the topics that name the ledger at the first look.
    `looks` has the first look at the ledger, and the second if it was taken. `is_said_elsewhere`:
    the verdict of the ledger says that its metadata could not be read.
    """
    kept = list(rows)
    if reference_facts(ledger, kept, looks) is not None:
        return None
    by_topic: dict[str, dict[int, list[TopicRow]]] = {}
    for row in kept:
        by_topic.setdefault(row.topic, {}).setdefault(row.look, []).append(row)
    uses = [use for topic in by_topic.values() for use in _uses(ledger, topic)]
    if not _may_lose(uses, looks[FIRST], looks.get(AGAIN), is_said_elsewhere=is_said_elsewhere):
        return None
    needs = [
        (key[0], need)
        for topic in by_topic.values()
        for of_look in topic.values()
        for key, need in needs_of(ledger, of_look).items()
    ]
    if all(role == "compacted" and not need.proves_loss for role, need in needs):
        return Doubt.OUTDATED
    return Doubt.UNKNOWN


def _uses(ledger: LedgerId, topic: Mapping[int, list[TopicRow]]) -> Iterable[_UseTwice]:
    """Yield what one topic needs of the ledger at the first look, with the same at the second."""
    again = topic.get(AGAIN)
    later = {} if again is None else needs_of(ledger, again)
    named = {(row.row, row.name or "") for row in again or () if row.ledger_id == ledger}
    for key, need in needs_of(ledger, topic[FIRST]).items():
        is_hidden = key not in named and (
            again is None or any(row.row == "problem" for row in again)
        )
        yield _UseTwice(need, later.get(key), is_hidden)


def _may_lose(
    uses: Iterable[_UseTwice],
    first: LedgerLook,
    again: LedgerLook | None,
    *,
    is_said_elsewhere: bool,
) -> bool:
    """Return whether some use may have lost something, by what the looks saw of the ledger."""
    kept = list(uses)
    if first.status == GONE:
        return _is_any_open(kept, lambda _: True)
    end = _end_of(first)
    if end is not None and end >= -1 and _is_any_open(kept, _needs_more_than(end)):
        return True
    if again is None or again.status == GONE:
        return _is_any_open(kept, lambda _: True)
    if again.status != FOUND:
        return not is_said_elsewhere and _is_any_open(kept, lambda _: True)
    end = _end_of(again)
    return end is not None and _is_any_open(kept, _needs_more_than(end))


def _is_any_open(uses: Iterable[_UseTwice], loses: Callable[[Need], bool]) -> bool:
    """Return whether a use that loses at the first look also loses at the second, or was unread."""
    return any(
        loses(use.first) and (use.may_be_hidden or (use.again is not None and loses(use.again)))
        for use in uses
    )


def _needs_more_than(end: int) -> Callable[[Need], bool]:
    return lambda need: max(need.entries, 0) > end + 1


def _end_of(look: LedgerLook) -> int | None:
    """Return the last entry of a closed ledger, None if it is not closed or does not say."""
    return look.last_entry_id if look.status == FOUND and look.state == CLOSED else None
