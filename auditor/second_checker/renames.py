"""Find out, entry by entry, whether a gone bookie exists under another name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from auditor.model.availability import Answer, AnswerStatus, ReadStatus
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.second_checker.blocks import ENUMERATED_ENTRIES_MAX, Block
from auditor.second_checker.copies import written_to
from auditor.second_checker.entry_bits import positions_of
from auditor.second_checker.listed_groups import groups_of, listed_bits
from auditor.second_checker.schedule import Stretch, stretches

READS_MAX = 3
"""Entries that a list may lack, if each of them was read and is present."""


class Asked(NamedTuple):
    """What a registered bookie said of a ledger that names gone bookies.

    `reads`: how the read of each entry ended.
    """

    gone: frozenset[BookieId]
    answer: Answer
    reads: Mapping[EntryId, str]


def new_name(
    gone: BookieId, asked: Iterable[Asked], ledgers: Mapping[LedgerId, LedgerMetadata]
) -> tuple[BookieId | None, bool]:
    """Return the one bookie that holds all that the gone one should, and whether to give up.

    The bookie is None if none or several do. Giving up means that a ledger has more than
    ENUMERATED_ENTRIES_MAX entries to examine. `ledgers`: the newest metadata of every ledger that
    was asked about. Costs entries.
    """
    about = [one for one in asked if gone in one.gone and one.answer.ledger_id in ledgers]
    compared = {one.answer.ledger_id for one in about}
    parts = {
        ledger: [part for part in stretches(ledgers[ledger]) if gone in part.bookies]
        for ledger in compared
    }
    if any(
        sum(part.entry_count for part in of_it) > ENUMERATED_ENTRIES_MAX for of_it in parts.values()
    ):
        return None, True
    named = {
        bookie
        for ledger in compared
        for segment in ledgers[ledger].segments
        for bookie in segment.ensemble
    }
    holding: dict[BookieId, set[LedgerId]] = {}
    for one in about:
        if one.answer.bookie_id not in named and _holds(gone, one, parts[one.answer.ledger_id]):
            holding.setdefault(one.answer.bookie_id, set()).add(one.answer.ledger_id)
    found = [bookie for bookie, held in holding.items() if held == compared]
    return (found[0] if len(found) == 1 else None), False


def _holds(gone: BookieId, one: Asked, parts: Iterable[Stretch]) -> bool:
    """Return whether the asked bookie holds every entry of `gone`, as far as it was asked."""
    due, lacking = list[EntryId](), list[EntryId]()
    has_list, groups = one.answer.status is AnswerStatus.HELD, groups_of(one.answer)
    for part in parts:
        mine = written_to(Block(part, part.first, part.last))[gone].bits
        if has_list:
            mine ^= mine & listed_bits(groups, part.first, part.last)
            lacking += [part.first + at for at in positions_of(mine)[: READS_MAX + 1].tolist()]
        else:
            due += [part.first + at for at in positions_of(mine).tolist()]
    if not has_list:
        if one.answer.status is not AnswerStatus.UNSUPPORTED or not due:
            return False
        lacking = [due[at] for at in {0, len(due) // 2, len(due) - 1}]
    return len(lacking) <= READS_MAX and all(
        one.reads.get(entry) == ReadStatus.PRESENT.value for entry in lacking
    )
