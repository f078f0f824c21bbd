"""The second checker's sets of entries, as one word for each entry."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.model.availability import Answer, AnswerStatus, EntryRead
from auditor.second_checker.blocks import BitCounts, all_bits
from auditor.second_checker.holdings import ABSENT, HELD, UNKNOWN, list_testimony, usable_lists
from auditor.second_checker.holdings import Testimony as Said


def words_of(said: Said, low: int, high: int) -> list[int]:
    """Return HELD, ABSENT or UNKNOWN for each entry of [low, high]. Fails if an entry has two
    words, or if one lies beyond.
    """
    everything = all_bits(high - low + 1)
    held, unknown, absent = said.holding(everything, low, high)
    assert held + unknown + absent == held | unknown | absent == everything
    return [
        HELD if held >> at & 1 else UNKNOWN if unknown >> at & 1 else ABSENT
        for at in range(high - low + 1)
    ]


def list_testimony_of(
    answer: Answer, ensemble_size: int, highest: int, reads: Mapping[int, EntryRead]
) -> Said:
    """Return what an answer with a list and some reads establish."""
    groups = usable_lists({answer.bookie_id: answer}, ensemble_size).get(answer.bookie_id)
    return list_testimony(groups, answer.status is AnswerStatus.HELD, highest, reads)


def numbers_of(counts: BitCounts) -> list[int]:
    """Return the number of each entry."""
    return [counts.at(at) for at in range(counts.everything.bit_length())]


def bits_of(entries: set[int] | list[int]) -> int:
    """Return the set of these entries, of a block that begins with entry 0."""
    return sum(1 << entry for entry in set(entries))
