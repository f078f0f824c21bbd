"""From coverage to the finding on entries: the strongest kind that is true of any, and the worst entry to show for it."""

from __future__ import annotations

from typing import NamedTuple

from auditor.model.finding import RANGES_MAX, Copies, Finding, FindingSegment, Kind
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.verify.coverage import Coverage, ExtentCoverage
from auditor.verify.entry_set import EMPTY, EntrySet
from auditor.verify.stranded import Elsewhere, named_by
from auditor.verify.worst import levels, worst_entry

Facts = tuple[tuple[str, str], ...]

HOLDERS_TOLD_MAX = 8
"""Holders outside the ensembles, and bookies that could not be asked there, named in a finding; the rest is counted."""


class Losses(NamedTuple):
    """What a ledger lost, extent by extent: level n - 1 holds the entries of which at least n promised copies cannot exist."""

    metadata: LedgerMetadata
    seen: Coverage
    levels: list[list[EntrySet]]

    @classmethod
    def of(cls, metadata: LedgerMetadata, seen: Coverage) -> Losses:
        return cls(metadata, seen, [_lost(one) for one in seen.extents])

    def beyond(self, copies_lost: int) -> list[EntrySet]:
        """For each extent the entries that lost at least so many copies."""
        return [level[copies_lost - 1] if len(level) >= copies_lost else EMPTY for level in self.levels]

    def without_replica(self) -> EntrySet:
        """The entries of which no promised copy can exist."""
        return EntrySet.joined(self.beyond(self.metadata.write_quorum))


def _lost(one: ExtentCoverage) -> list[EntrySet]:
    return levels([*one.surplus, *(share.absent for share in one.shares)])


def entry_findings(ledger_id: LedgerId, losses: Losses, elsewhere: Elsewhere, *, excused: bool) -> list[Finding]:
    """At most one: the strongest kind that is true of any entry. A mark within grace excuses all but a confirmed loss."""
    metadata = losses.metadata
    write, ack = metadata.write_quorum, min(metadata.ack_quorum, metadata.write_quorum)
    hit = losses.beyond(write)
    if any(hit):
        if _is_stranded(metadata, elsewhere):
            found = EntrySet.of_entries(elsewhere.looked_for)
            hit = [one & found for one in hit]
            return [_finding(Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE, ledger_id, losses, hit, elsewhere)]
        return [_finding(Kind.ENTRY_WITHOUT_REPLICA, ledger_id, losses, hit, elsewhere)]
    hit = losses.beyond(write - ack + 1)
    if any(hit) and not excused:
        return [_finding(Kind.ENTRY_BELOW_ACK_QUORUM, ledger_id, losses, hit)]
    if losses.seen.corrupt:
        return [_corrupt(ledger_id, losses)]
    hit = losses.beyond(1)
    return [_finding(Kind.ENTRY_BELOW_WRITE_QUORUM, ledger_id, losses, hit)] if any(hit) and not excused else []


def _is_stranded(metadata: LedgerMetadata, elsewhere: Elsewhere) -> bool:
    """Whether each entry looked for is alive on a bookie that no segment names, which will collect it."""
    named = named_by(metadata)
    return elsewhere.all_found and all(set(holders) - named for holders in elsewhere.holders.values())


def lost_for_good(ledger_id: LedgerId, losses: Losses, elsewhere: Elsewhere, mark_facts: Facts) -> Finding:
    """UNDERREPLICATED_UNRECOVERABLE of a marked ledger of which an entry has no copy."""
    hit = losses.beyond(losses.metadata.write_quorum)
    return _finding(Kind.UNDERREPLICATED_UNRECOVERABLE, ledger_id, losses, hit, elsewhere, mark_facts)


def _finding(
    kind: Kind,
    ledger_id: LedgerId,
    losses: Losses,
    hit: list[EntrySet],
    elsewhere: Elsewhere | None = None,
    more: Facts = (),
) -> Finding:
    metadata, seen = losses.metadata, losses.seen
    entries = EntrySet.joined(hit)
    ranked = [
        (worst, one.extent)
        for level, one in zip(losses.levels, seen.extents, strict=True)
        if (worst := worst_entry(level, (share.unknown for share in one.shares), metadata.write_quorum)) is not None
    ]
    worst, extent = min(ranked, key=lambda pair: pair[0])
    copies = Copies(metadata.write_quorum, metadata.ack_quorum, worst.confirmed, worst.possible - worst.confirmed)
    facts = (
        *_worst_facts(worst.entry_id, extent.segment.ensemble, metadata, seen),
        *_elsewhere_facts(losses, elsewhere),
        *more,
    )
    return Finding(
        kind,
        ledger_id=ledger_id,
        segment=FindingSegment.of(extent.segment, extent.last_entry_id),
        entries=entries.ranges(RANGES_MAX),
        entries_total=entries.count(),
        missing_on=_missing_on(seen),
        copies=copies,
        facts=facts,
    )


def _missing_on(seen: Coverage) -> tuple[tuple[BookieId, tuple[tuple[EntryId, EntryId], ...]], ...]:
    absent: dict[BookieId, list[EntrySet]] = {}
    for one in seen.extents:
        for share in one.shares:
            absent.setdefault(share.bookie_id, []).append(share.absent)
    return tuple((bookie, EntrySet.joined(sets).ranges(RANGES_MAX)) for bookie, sets in absent.items() if any(sets))


def _worst_facts(entry: EntryId, ensemble: tuple[str, ...], metadata: LedgerMetadata, seen: Coverage) -> Facts:
    """The worst entry, its write set, and bookies of the ledger outside the write set that hold it all the same."""
    size = metadata.ensemble_size
    write_set = list(dict.fromkeys(ensemble[(entry + w) % size] for w in range(metadata.write_quorum)))
    beside = [b for b, held in seen.held.items() if b not in write_set and entry in held]
    return (("worst_entry", str(entry)), ("write_set", " ".join(write_set)), ("held_outside_write_set", " ".join(beside)))


def _elsewhere_facts(losses: Losses, elsewhere: Elsewhere | None) -> Facts:
    """What came of looking for entries without a copy on bookies that should hold none of the ledger."""
    if elsewhere is None or not elsewhere.looked_for:
        return ()
    named = named_by(losses.metadata)
    holders = sorted({bookie for held_by in elsewhere.holders.values() for bookie in held_by})
    rest = losses.without_replica().count() - len(elsewhere.looked_for)
    return (
        ("looked_for", str(len(elsewhere.looked_for))),
        ("alive", str(len(elsewhere.holders))),
        ("holders", " ".join(holders[:HOLDERS_TOLD_MAX])),
        ("holders_total", str(len(holders))),
        ("holders_named", " ".join([bookie for bookie in holders if bookie in named][:HOLDERS_TOLD_MAX])),
        ("holders_named_total", str(sum(bookie in named for bookie in holders))),
        ("not_looked_for", str(rest)),
        ("unheard", " ".join(elsewhere.unheard[:HOLDERS_TOLD_MAX])),
        ("unheard_total", str(len(elsewhere.unheard))),
    )


def _corrupt(ledger_id: LedgerId, losses: Losses) -> Finding:
    """ENTRY_CORRUPT: entries whose stored copy on some bookie does not match its digest, read at two looks."""
    metadata, seen = losses.metadata, losses.seen
    bad = EntrySet.of_entries(sorted({entry for _, entry in seen.corrupt}))
    entry = bad.first()
    one = next(one for one in seen.extents if one.extent.first_entry_id <= entry <= one.extent.last_entry_id)
    mine = [share for share in one.shares if entry in share.expected]
    unknown = sum(entry in share.unknown for share in mine)
    confirmed = sum(entry not in share.unknown and entry not in share.absent for share in mine)
    on: dict[BookieId, list[EntryId]] = {}
    for bookie, at in sorted(seen.corrupt):
        on.setdefault(bookie, []).append(at)
    told = tuple(("corrupt_on", f"{b} {' '.join(map(str, entries[:RANGES_MAX]))}") for b, entries in on.items())
    return Finding(
        Kind.ENTRY_CORRUPT,
        ledger_id=ledger_id,
        segment=FindingSegment.of(one.extent.segment, one.extent.last_entry_id),
        entries=bad.ranges(RANGES_MAX),
        entries_total=bad.count(),
        missing_on=_missing_on(seen),
        copies=Copies(metadata.write_quorum, metadata.ack_quorum, confirmed, unknown),
        facts=(*_worst_facts(entry, one.extent.segment.ensemble, metadata, seen), *told),
    )
