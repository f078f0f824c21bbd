"""What the loss of bookies would do to ledgers that are not closed: to their writers and readers.

A writer replaces a bookie that fails by a writable one outside of the ensemble. Without such a
bookie BookKeeper's client gives the ledger up, unless its `delayEnsembleChange` is set and an ack
quorum of each write set can still be written.

An acknowledged entry of such a ledger has at least as many copies as the ack quorum. Which of its
write set have them is not known. Each bookie that is lost may have been one of them, and so may
each whose copy is not sure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from auditor.after.margin import SHOWN_IDS_MAX, Sort
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata, Segment


@dataclass(frozen=True, slots=True)
class Loss:
    """The bookies that would be lost, and what is left.

    asked: what the question is about. missing: not registered already. writable: registered as
    writable, with those of `asked`.
    """

    asked: frozenset[BookieId]
    missing: frozenset[BookieId]
    writable: frozenset[BookieId]

    @property
    def down(self) -> frozenset[BookieId]:
        """All bookies that would be lost."""
        return self.asked | self.missing

    @property
    def left(self) -> frozenset[BookieId]:
        """The writable bookies that would be left."""
        return self.writable - self.asked


@dataclass(frozen=True, slots=True)
class HarmInUse:
    """Ledgers in use that the loss would harm. A ledger counts once, for the worst that applies.

    no_copy: some acknowledged entry would have no copy. not_writable: no ack quorum and no bookie
    to replace the lost ones. may_have_no_copy: an acknowledged entry may have had copies only on
    lost bookies. may_not_be_writable: an ack quorum would be left, and no bookie to replace the
    lost ones.
    """

    no_copy: Sort
    not_writable: Sort
    may_have_no_copy: Sort
    may_not_be_writable: Sort

    @property
    def is_sure(self) -> bool:
        """Whether some ledger would surely be harmed."""
        return bool(self.no_copy.ledgers or self.not_writable.ledgers)

    @property
    def is_possible(self) -> bool:
        """Whether harm to some ledger is not ruled out."""
        return bool(self.may_have_no_copy.ledgers or self.may_not_be_writable.ledgers)


_SORTS = ("no_copy", "not_writable", "may_have_no_copy", "may_not_be_writable")


def harm_in_use(
    ledgers: Mapping[LedgerId, LedgerMetadata],
    loss: Loss,
    doubted: Mapping[LedgerId, Set[BookieId]],
) -> HarmInUse:
    """Return the ledgers in use that the loss would harm.

    `doubted` has, for some of them, the bookies whose copy is not sure. A ledger that names none of
    the lost bookies counts only if they had to replace others there.
    """
    found: dict[str, list[LedgerId]] = {name: [] for name in _SORTS}
    for ledger_id, metadata in ledgers.items():
        harms = set(_harms(metadata, loss, doubted.get(ledger_id, frozenset())))
        worst = next((name for name in _SORTS if name in harms), None)
        if worst is not None:
            found[worst].append(ledger_id)
    return HarmInUse(*(_sort(found[name]) for name in _SORTS))


def _sort(ids: list[LedgerId]) -> Sort:
    return Sort(len(ids), tuple(sorted(ids)[:SHOWN_IDS_MAX]))


def _harms(metadata: LedgerMetadata, loss: Loss, doubted: Set[BookieId]) -> Iterator[str]:
    if not metadata.segments:
        return
    current = metadata.segments[-1].ensemble
    is_lacking = _lacks_replacements(current, loss.left)
    is_named = not loss.asked.isdisjoint(current)
    if is_lacking and (is_named or not _lacks_replacements(current, loss.writable)):
        is_quorum_left = all(
            sum(current[place] in loss.left for place in places) >= metadata.ack_quorum
            for places in _write_sets(metadata, current)
        )
        yield "may_not_be_writable" if is_quorum_left else "not_writable"
    yield from _harms_to_readers(metadata, loss, doubted)


def _lacks_replacements(ensemble: tuple[BookieId, ...], writable: Set[BookieId]) -> bool:
    """Return whether the writer cannot replace each bookie of the ensemble that is not writable."""
    needed = sum(bookie not in writable for bookie in ensemble)
    return needed > len(writable - set(ensemble))


def _write_sets(
    metadata: LedgerMetadata, ensemble: tuple[BookieId, ...]
) -> Iterator[frozenset[int]]:
    """Yield the places of each write set, by the place at which it begins."""
    size = len(ensemble)
    for start in range(size):
        yield frozenset((start + place) % size for place in range(metadata.write_quorum))


def _harms_to_readers(
    metadata: LedgerMetadata, loss: Loss, doubted: Set[BookieId]
) -> Iterator[str]:
    ends = [segment.first_entry_id for segment in metadata.segments[1:]]
    for segment, end in zip(metadata.segments, [*ends, None], strict=True):
        if loss.asked.isdisjoint(segment.ensemble):
            continue
        used = _used_places(segment, end)
        for start, places in enumerate(_write_sets(metadata, segment.ensemble)):
            names = {segment.ensemble[place] for place in places}
            if start not in used or loss.asked.isdisjoint(names):
                continue
            if end is not None and names <= loss.down:
                yield "no_copy"
            elif len(names & (loss.down | doubted)) >= metadata.ack_quorum:
                yield "may_have_no_copy"


def _used_places(segment: Segment, end: EntryId | None) -> set[int]:
    """Return the places at which a write set of the segment begins. `end` is exclusive.

    The end of the last segment is not known: it may use every place.
    """
    size, first = len(segment.ensemble), segment.first_entry_id
    count = size if end is None else min(end - first, size)
    return {entry % size for entry in range(first, first + count)}
