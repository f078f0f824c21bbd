"""What probes say of a bookie that cannot list, entry by entry: the rule of the closed form, derived on its own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from auditor.model.availability import EntryRead
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerMetadata

HELD, ABSENT, UNKNOWN = "held", "absent", "unknown"

READ_REASON = {
    "silent": "bookie_silent",
    "unregistered": "bookie_silent",
    "timed_out": "answer_timeout",
    "refused": "bookie_refused",
    "invalid": "answer_invalid",
    "corrupt": "answer_invalid",
    "too_large": "answer_too_large",
    "address_unknown": "address_unknown",
    "not_asked": "bookie_silent",
}
_NOTHING_THERE = {"no_entry", "no_ledger"}


def segment_ends(metadata: LedgerMetadata, wanted: set[int]) -> set[int]:
    """The first and the last of the wanted entries in each segment."""
    firsts = [segment.first_entry_id for segment in metadata.segments]
    ends = set()
    for at, first in enumerate(firsts):
        mine = [e for e in wanted if e >= first and (at + 1 == len(firsts) or e < firsts[at + 1])]
        ends |= {min(mine), max(mine)} if mine else set()
    return ends


def probes_due(metadata: LedgerMetadata, bookie: str, wanted: set[int], ledger_id: int, terms: Terms) -> set[int]:
    """The entries that have to be read on a bookie that should hold these: ends, and a sample of the rest.

    For each of the highest positions among the rest, in turn, a position up to it is drawn by a hash; itself where that was
    drawn before. There are never too many ends in a story.
    """
    ends = segment_ends(metadata, wanted)
    rest = sorted(wanted - ends)
    drawn: set[int] = set()
    for top in range(max(0, len(rest) - terms.probe_entries), len(rest)):
        key = f"{terms.probe_seed}/{ledger_id}/{bookie}/entries/{top}".encode()
        at = int(hashlib.blake2b(key, digest_size=16).hexdigest(), 16) % (top + 1)
        drawn.add(at if at not in drawn else top)
    return ends | {rest[at] for at in drawn}


def by_probes(wanted: set[int], due: set[int], reads: Mapping[int, EntryRead]) -> tuple[dict[int, str], set[str]]:
    """(what each wanted entry is, the reasons for those that are unknown)."""
    mine = {e: read for e, read in reads.items() if e in wanted}
    spoken = [read for read in mine.values() if read.status.value in {"present", "corrupt", *_NOTHING_THERE}]
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
