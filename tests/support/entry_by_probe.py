"""What probes show about a bookie that cannot list, entry by entry: the rule of the closed form,
derived independently.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping

from auditor.model.availability import EntryRead
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerMetadata

HELD, ABSENT, UNKNOWN = "held", "absent", "unknown"

ENDS_MAX = 128
"""Ends of segments that are read on one bookie (docs/decisions/0014)."""

READ_REASON = {
    "silent": "bookie_silent",
    "unregistered": "bookie_silent",
    "timed_out": "answer_timeout",
    "refused": "bookie_refused",
    "failed": "bookie_refused",
    "invalid": "answer_invalid",
    "corrupt": "answer_invalid",
    "too_large": "answer_too_large",
    "address_unknown": "address_unknown",
    "auditor_limited": "auditor_limited",
    "not_asked": "bookie_silent",
}
_NOTHING_THERE = {"no_entry", "no_ledger"}


def segment_ends(metadata: LedgerMetadata, wanted: set[int]) -> set[int]:
    """Return the first and the last of the wanted entries in each segment."""
    firsts = [segment.first_entry_id for segment in metadata.segments]
    shares: dict[int, list[int]] = {}
    for entry in sorted(wanted):
        shares.setdefault(bisect_right(firsts, entry), []).append(entry)
    return {end for mine in shares.values() for end in (mine[0], mine[-1])}


def probes_due(
    metadata: LedgerMetadata, bookie: str, wanted: set[int], ledger_id: int, terms: Terms
) -> set[int]:
    """Return the entries to read on a bookie that should hold these: segment ends, entries by rank,
    and a sample of the rest.

    Of more than ENDS_MAX ends the outer two are read, and a sample of those between them.
    """
    ends, key = segment_ends(metadata, wanted), f"{terms.probe_seed}/{ledger_id}/{bookie}"
    if len(ends) > ENDS_MAX:
        low, *inner, high = sorted(ends)
        ends = {low, high} | _drawn(f"{key}/ends", inner, ENDS_MAX - 2)
    surely = ends | _by_rank(
        f"{terms.sweep.seed}/{ledger_id}/{bookie}/sweep", sorted(wanted), terms
    )
    return surely | _drawn(f"{key}/entries", sorted(wanted - surely), terms.probe_entries)


def _by_rank(key: str, entries: list[int], terms: Terms) -> set[int]:
    """Return every step-th entry. A hash and the turn choose where it begins; the turn's bits count
    from the other end.
    """
    step, turn = terms.sweep.step, terms.sweep.turn
    if not step:
        return set()
    bits = [turn >> n & 1 for n in range(step.bit_length() - 1)]
    offset = sum(bit << n for n, bit in enumerate(reversed(bits)))
    start = int(hashlib.blake2b(key.encode(), digest_size=8).hexdigest(), 16)
    return {entry for rank, entry in enumerate(entries) if (rank - start - offset) % step == 0}


def _drawn(key: str, entries: list[int], count: int) -> set[int]:
    """Draw, by a hash, a position up to each of the highest `count` positions in turn; take the
    position itself if the drawn one was drawn before.
    """
    drawn: set[int] = set()
    for top in range(max(0, len(entries) - count), len(entries)):
        at = int(hashlib.blake2b(f"{key}/{top}".encode(), digest_size=16).hexdigest(), 16) % (
            top + 1
        )
        drawn.add(at if at not in drawn else top)
    return {entries[at] for at in drawn}


def by_probes(
    wanted: set[int], due: set[int], reads: Mapping[int, EntryRead]
) -> tuple[dict[int, str], set[str]]:
    """Return what is known of each wanted entry, and the reasons for those that are unknown."""
    mine = {e: read for e, read in reads.items() if e in wanted}
    spoken = [
        read
        for read in mine.values()
        if read.status.value in {"present", "corrupt", *_NOTHING_THERE}
    ]
    latest = [read.status.value for read in spoken if read.look == max(one.look for one in spoken)]
    if "no_ledger" in latest and "present" not in latest and "corrupt" not in latest:
        return dict.fromkeys(wanted, ABSENT), set()
    is_complete = due <= mine.keys()
    shown = {e: HELD for e, read in mine.items() if read.status.value == "present"}
    shown |= {e: ABSENT for e, read in mine.items() if read.status.value in _NOTHING_THERE}
    rest = HELD if is_complete and shown else UNKNOWN
    words = {e: shown.get(e, UNKNOWN if e in mine else rest) for e in wanted}
    why = {READ_REASON[read.status.value] for e, read in mine.items() if e not in shown}
    return words, why | (set() if is_complete else {"bookie_unsupported"})
