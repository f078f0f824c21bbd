"""Ledgers that end with entry 9 or without entries, and what their bookies say above the end: both
checkers are tried on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from support.stories import LEDGER, groups

from auditor.model.availability import HIGHEST_STORED, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.facts import BeyondEndFacts, EndHeader, HeldBeyondEnd
from auditor.model.finding import Ranges
from auditor.model.ledger import LedgerMetadata, LedgerState
from auditor.sandbox.cluster import ledger

WHOLE = ledger("e3 w2 a2 0:[b1 b2 b3] closed 9")
EMPTY = ledger("e3 w2 a2 0:[b1 b2 b3] closed -1")
WITHOUT_END = (
    replace(WHOLE, state=LedgerState.OPEN),
    replace(WHOLE, last_entry_id=None),
    replace(WHOLE, segments=()),
)
"""Ledgers whose end is not known, or about which nobody is asked."""

CANNOT_LIST = None
"""Stands for a bookie that answers and cannot list."""


@dataclass(frozen=True, slots=True)
class End:
    """What bookies list and send of a ledger, and what lies above its end.

    `sent` has (bookie, entry asked for) -> a read's status, or the entry that came, its
    lastAddConfirmed (None: not proven) and its length. `cut_off`: the entries of
    LEDGER_CLOSED_SHORT, None where ENTRIES_BEYOND_END is owed. Reads are of the first look, and so
    are lists, but for those of the bookies in `listed_again`: these are of the second.
    """

    lists: Mapping[str, set[int] | None]
    sent: Mapping[tuple[str, int], ReadStatus | tuple[int, int | None, int]] = field(
        default_factory=dict
    )
    entries: Ranges = ()
    held: tuple[tuple[str, Ranges, bool], ...] = ()
    header: EndHeader | None = None
    cut_off: Ranges | None = None
    metadata: LedgerMetadata = WHOLE
    listed_again: frozenset[str] = frozenset()

    @property
    def answers(self) -> dict[str, Answer]:
        return {
            b: Answer(b, LEDGER, 1, 0, AnswerStatus.UNSUPPORTED)
            if held is CANNOT_LIST
            else Answer(b, LEDGER, 1 + (b in self.listed_again), 0, AnswerStatus.HELD, groups(held))
            for b, held in self.lists.items()
        }

    @property
    def reads(self) -> dict[tuple[str, int], EntryRead]:
        return {copy: read_of(copy, said) for copy, said in self.sent.items()}

    @property
    def facts(self) -> BeyondEndFacts | None:
        if not self.held and self.header is None:
            return None
        last = self.metadata.last_entry_id
        assert last is not None
        held_on = tuple(
            HeldBeyondEnd(b, ranges, sum(z - a + 1 for a, z in ranges), is_listed)
            for b, ranges, is_listed in self.held
        )
        return BeyondEndFacts(last, self.metadata.ack_quorum, held_on, self.header)


def read_of(copy: tuple[str, int], said: ReadStatus | tuple[int, int | None, int]) -> EntryRead:
    """Return a read of `copy` (bookie, entry asked for): as `End.sent` has it."""
    bookie, asked = copy
    if isinstance(said, ReadStatus):
        return EntryRead(bookie, LEDGER, asked, 1, 0, said)
    entry, confirmed, length = said
    return EntryRead(
        bookie,
        LEDGER,
        asked,
        1,
        0,
        ReadStatus.PRESENT,
        stored_entry_id=entry if asked == HIGHEST_STORED else None,
        last_confirmed=confirmed,
        length_bytes=None if confirmed is None else length,
    )


ENDS = {
    "nothing lies above the end": End({"b1": {0, 2, 3, 9}, "b2": {9}, "b3": {1, 2, 8}}),
    "one bookie lists an entry, and nothing was read": End(
        {"b1": {9}, "b2": {9, 10}, "b3": set()},
        entries=((10, 10),),
        held=(("b2", ((10, 10),), True),),
    ),
    "several list entries, and each bookie is named": End(
        {"b1": {*range(13)}, "b2": {12, 13, 14}, "b3": {3, 4, 20, 21}},
        entries=((10, 14), (20, 21)),
        held=(
            ("b1", ((10, 12),), True),
            ("b2", ((12, 14),), True),
            ("b3", ((20, 21),), True),
        ),
    ),
    "a header names the end itself: nothing is proven": End(
        {"b1": {9}, "b2": {9, 10}, "b3": {10}},
        {("b2", 10): (10, 9, 88)},
        ((10, 10),),
        (("b2", ((10, 10),), True), ("b3", ((10, 10),), True)),
        EndHeader("b2", 10, 9, 88),
    ),
    "a header names an entry above the end": End(
        {"b1": {9}, "b2": {9, 10}, "b3": {10, 11, 14}},
        {("b2", 10): (10, 9, 88), ("b3", 14): (14, 12, 120)},
        ((10, 11), (14, 14)),
        (("b2", ((10, 10),), True), ("b3", ((10, 11), (14, 14)), True)),
        EndHeader("b3", 14, 12, 120),
        ((10, 12),),
    ),
    "two headers name the same entry: the first bookie is named": End(
        {"b1": {11}, "b2": {12}, "b3": set()},
        {("b2", 12): (12, 10, 104), ("b1", 11): (11, 10, 96)},
        ((11, 12),),
        (("b1", ((11, 11),), True), ("b2", ((12, 12),), True)),
        EndHeader("b1", 11, 10, 96),
        ((10, 10),),
    ),
    "a list of a later look lacks what was read: the header proves it all the same": End(
        {"b1": {9}, "b2": {9}, "b3": set()},
        {("b1", 12): (12, 10, 104)},
        header=EndHeader("b1", 12, 10, 104),
        cut_off=((10, 10),),
        listed_again=frozenset({"b1"}),
    ),
    "a list of a later look lacks what was read, and the header proves nothing": End(
        {"b1": {9}, "b2": {9}, "b3": set()},
        {("b1", 10): (10, 9, 88)},
        listed_again=frozenset({"b1"}),
    ),
    "of equal headers that counts which no later list overtook": End(
        {"b1": {9}, "b2": {12}, "b3": set()},
        {("b1", 12): (12, 10, 104), ("b2", 12): (12, 10, 104)},
        ((12, 12),),
        (("b2", ((12, 12),), True),),
        EndHeader("b2", 12, 10, 104),
        ((10, 10),),
        listed_again=frozenset({"b1"}),
    ),
    "no digest proves the header": End(
        {"b1": {9}, "b2": {12}, "b3": set()},
        {("b2", 12): (12, None, 0)},
        ((12, 12),),
        (("b2", ((12, 12),), True),),
    ),
    "a listed entry that cannot be read is not there": End(
        {"b1": {9}, "b2": {12}, "b3": {11}},
        {("b2", 12): ReadStatus.NO_ENTRY, ("b3", 11): ReadStatus.NO_LEDGER},
    ),
    "a corrupt copy proves nothing, and is listed all the same": End(
        {"b1": {9}, "b2": {12}, "b3": set()},
        {("b2", 12): ReadStatus.CORRUPT},
        ((12, 12),),
        (("b2", ((12, 12),), True),),
    ),
    "a bookie that cannot list sends its highest entry": End(
        {"b1": CANNOT_LIST, "b2": CANNOT_LIST, "b3": CANNOT_LIST},
        {
            ("b1", HIGHEST_STORED): (15, 14, 128),
            ("b2", HIGHEST_STORED): (9, 8, 80),
            ("b3", HIGHEST_STORED): ReadStatus.NO_LEDGER,
        },
        ((15, 15),),
        (("b1", ((15, 15),), False),),
        EndHeader("b1", 15, 14, 128),
        ((10, 14),),
    ),
    "a closed ledger without entries has one": End(
        {"b1": set(), "b2": {0}, "b3": CANNOT_LIST},
        {("b2", 0): (0, -1, 8), ("b3", HIGHEST_STORED): (4, 3, 40)},
        ((0, 0), (4, 4)),
        (("b2", ((0, 0),), True), ("b3", ((4, 4),), False)),
        EndHeader("b3", 4, 3, 40),
        ((0, 3),),
        EMPTY,
    ),
    "an end below -1 cuts off from entry 0 on": End(
        {"b1": {0, 1, 2}, "b2": set(), "b3": set()},
        {("b1", 2): (2, 1, 24)},
        ((0, 2),),
        (("b1", ((0, 2),), True),),
        EndHeader("b1", 2, 1, 24),
        ((0, 1),),
        replace(EMPTY, last_entry_id=-3),
    ),
    "a header names no entry, and the end is below -1: nothing is proven": End(
        {"b1": {0, 1, 2}, "b2": set(), "b3": set()},
        {("b1", 2): (2, -1, 24)},
        ((0, 2),),
        (("b1", ((0, 2),), True),),
        EndHeader("b1", 2, -1, 24),
        metadata=replace(EMPTY, last_entry_id=-3),
    ),
}
"""What lies above the end of a ledger, by what is the matter."""
