"""The truth of each fact that a finding of the model's cluster may state, spelled out with sets and
loops.

Facts have the product's names and nesting; `rows.flat` brings both into one form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from support.model.rows import MINUTE_MS, CopyFacts
from support.model.state import (
    AWAY,
    BYTES,
    CLOSED,
    ENDLESS,
    GONE,
    GRACE_MINUTES,
    LACKS,
    LISTED,
    READ,
    SILENT,
    STUCK_MINUTES,
    UNREGISTERED,
    WRITABLE,
    WRONG_DIGEST,
    Copies,
    Ledger,
    Segment,
    worst_of,
)

if TYPE_CHECKING:
    from support.model.truth import Truth

Json = dict[str, object]

NONSENSE = b"BookieMetadataFormatVersion\t3\n\xff\xffno ledger at all"
"""Znode bytes that cannot be decoded."""
RACKS_MIN = 2
"""Racks that each write set must span, at most its size: BookKeeper's default."""
WRITE_SETS_SHOWN_MAX = 5


# Entries


def entries(truth: Truth, number: int, copies: list[Copies]) -> Json:
    """Return the facts of the worst entry, and of the search if entries have no copy."""
    worst = worst_of(copies)
    ledger = truth.ledgers[number]
    outside = [name for name in truth.listing(number) if name not in worst.bookies]
    return {
        "worst_entry": worst.entry,
        "write_set": worst.bookies,
        "listed_outside": sorted(
            name for name in outside if truth.bookies[name].has(number, worst.entry)
        ),
        "gone": sorted(
            {bookie for one in copies for bookie in one.bookies if one.words[bookie] == GONE}
        ),
        "at_tail": worst.confirmed >= ledger.ack_quorum and _is_at_tail(ledger, copies),
    } | _search(truth, number, [one for one in copies if one.possible == 0])


def _is_at_tail(ledger: Ledger, copies: list[Copies]) -> bool:
    """Return whether each bookie that lacks entries holds everything before them and some of the
    last segment.
    """
    if ledger.flaw == ENDLESS or any(len(one.bookies) < len(one.write_set) for one in copies):
        return False
    last = ledger.last_segment().first
    for bookie in {bookie for one in copies for bookie in one.absent_on}:
        mine = [one for one in copies if bookie in one.bookies]
        lacking = [one.entry for one in mine if bookie in one.absent_on]
        kept = [one.entry for one in mine if one.entry not in lacking and one.entry >= last]
        if any(one.words[bookie] not in (GONE, LACKS, LISTED, READ) for one in mine):
            return False
        if min(lacking) < last or not kept or max(kept) > min(lacking):
            return False
    return True


def _search(truth: Truth, number: int, lost: list[Copies]) -> Json:
    """Return where the entries without a copy were looked for: in the list of each other bookie, or
    by reading there.
    """
    scopes = _scopes(truth, number, lost)
    if not scopes:
        return {"search": None}
    named = {name for name in truth.bookies if truth.ledgers[number].names(name)}
    looked_for = _looked_for(truth, number, [one.entry for one in lost], scopes)
    words = {
        name: _words(truth, number, name, [e for e in scope if e in looked_for])
        for name, scope in scopes.items()
    }
    words = {name: said for name, said in words.items() if said}
    holders = {
        entry: {name for name, said in words.items() if said.get(entry) == "held"}
        for entry in looked_for
    }

    def of(word: str) -> list[str]:
        return [name for name, said in words.items() if word in said.values()]

    return {
        "search": {
            "entries": len(looked_for),
            "entries_found": sum(bool(on) for on in holders.values()),
            "entries_unnamed": sum(bool(on - named) for on in holders.values()),
            "entries_left": len(lost) - len(looked_for),
            "searched": [name for name, said in words.items() if "nothing" not in said.values()],
            "found_on": of("held"),
            "found_unnamed": [name for name in of("held") if name not in named],
            "corrupt_on": of("wrong"),
            "unheard": of("nothing"),
            "not_asked": [],
            "found_first": [
                min(e for e, on in holders.items() if name in on) for name in of("held")
            ],
        }
    }


def _scopes(truth: Truth, number: int, lost: list[Copies]) -> dict[str, list[int]]:
    """Return the entries that each other bookie is asked about.

    It was registered when the audit began, or lists the ledger. A bookie that should hold some of
    the ledger is not gone.
    """
    begun, due = truth.around or truth, truth.due(truth.ledgers[number])
    registered = {n for n, one in begun.bookies.items() if one.registered != UNREGISTERED}
    found = (registered | truth.listing(number)) - {n for n in due if truth.is_forgotten(n)}
    scopes = {n: [one.entry for one in lost if n not in one.bookies] for n in sorted(found)}
    return {name: scope for name, scope in scopes.items() if scope}


def read_elsewhere(truth: Truth, number: int, lost: list[Copies]) -> frozenset[int]:
    """Return the entries without a copy that other bookies are read for."""
    scopes, entries = _scopes(truth, number, lost), [one.entry for one in lost]
    return frozenset(_read(truth, number, entries, scopes) if lost else ())


def _looked_for(
    truth: Truth, number: int, lost: list[int], scopes: dict[str, list[int]]
) -> list[int]:
    """Return all entries if each other bookie speaks for all of them; else the lowest, and those
    that some bookie was read for.
    """
    lists = truth.listing(number)
    speak = [
        name in lists
        or (truth.bookies[name].can_be_asked and number not in truth.bookies[name].holds)
        for name in scopes
    ]
    read = _read(truth, number, lost, scopes) | (truth.read_before & set(lost))
    return lost if all(speak) else sorted(read)


def _read(truth: Truth, number: int, lost: list[int], scopes: dict[str, list[int]]) -> set[int]:
    """Return the lowest entry, and those that bookies are read for.

    A bookie without a list is read for one entry, and for the others too where it knows the ledger.
    """
    lists = truth.listing(number)
    read = {lost[0]}
    for name, scope in scopes.items():
        one = truth.bookies[name]
        if name not in lists:
            read.update(scope if one.can_be_asked and number in one.holds else scope[:1])
    return read


def _words(truth: Truth, number: int, name: str, looked_for: list[int]) -> dict[int, str]:
    """Return what one bookie says of each entry."""
    one = truth.bookies[name]
    words = {}
    for entry in looked_for:
        if not one.can_be_asked:
            words[entry] = "nothing"
        elif not one.has(number, entry):
            words[entry] = "lacks"
        elif name in truth.listing(number) or one.can_read(number, entry):
            words[entry] = "held"
        else:
            words[entry] = "wrong"
    return words


def wrong_digests(wrong: list[Copies]) -> Json:
    """Return each bookie with the entries whose copy does not match its digest."""
    bookies = sorted(
        {bookie for one in wrong for bookie in one.bookies if one.words[bookie] == WRONG_DIGEST}
    )
    copies = [
        (bookie, tuple(one.entry for one in wrong if one.words.get(bookie) == WRONG_DIGEST))
        for bookie in bookies
    ]
    return {"worst_entry": wrong[0].entry, "write_set": wrong[0].bookies, "copies": copies}


def copy_counts(truth: Truth, number: int, copies: list[Copies]) -> CopyFacts | None:
    """Return how the promised copies are known. A bookie that occurs twice has one of two."""
    if not copies:
        return None
    words = [one.words[bookie] for one in copies for bookie in one.bookies]
    unread = sum(_unread(truth, truth.ledgers[number], copies, name) for name in truth.bookies)
    promised = sum(len(one.write_set) for one in copies)
    return CopyFacts(promised, words.count(LISTED), words.count(READ) - unread, unread)


def _unread(truth: Truth, ledger: Ledger, copies: list[Copies], bookie: str) -> int:
    """Return the copies on a bookie that cannot list for which only a sample of the others
    speaks.
    """
    mine = [one.entry for one in copies if one.words.get(bookie) == READ]
    if truth.sample is None:
        return 0
    segments = [[e for e in mine if ledger.segment_of(e) is one] for one in ledger.segments]
    ends = {end for entries in segments if entries for end in (entries[0], entries[-1])}
    return max(0, len(mine) - len(ends) - truth.sample)


# Marks


def mark(truth: Truth, number: int, copies: list[Copies]) -> Json:
    """Return how old the mark is, and why it stands."""
    ledger = truth.ledgers[number]
    assert ledger.marked_at is not None
    return {
        "age_ms": (truth.now - ledger.marked_at) * MINUTE_MS,
        "grace_ms": GRACE_MINUTES * MINUTE_MS,
        "missing_replicas": [],
        "problem": "",
        "lock_holder": ledger.locked_by,
        "state": None if ledger.flaw == BYTES else ledger.state,
        "why": list(_why(truth, number, copies)),
    }


def _why(truth: Truth, number: int, copies: list[Copies]) -> Iterator[str]:
    ledger = truth.ledgers[number]
    if any(one.possible == 0 for one in copies):
        yield "no_copy"
    elif any(set(one.words.values()) <= {LACKS, GONE, AWAY, SILENT} for one in copies):
        yield "no_copy_in_reach"
    around = truth.around or truth
    if around.replication_disabled:
        yield "replication_disabled"
    if not around.auditor:
        yield "no_auditor"
    writable = {name for name, one in around.bookies.items() if one.registered == WRITABLE}
    in_need = [
        ledger.segment_of(one.entry) for one in copies if one.confirmed < ledger.write_quorum
    ]
    if any(not writable - set(segment.ensemble) for segment in in_need):
        yield "no_spare_bookie"
    if ledger.locked_by is not None:
        yield "locked"
    if is_shown_empty(truth, number):
        yield "empty_ledger"
    if is_stale(truth, number, copies):
        yield "stale"


def is_stale(truth: Truth, number: int, copies: list[Copies]) -> bool:
    """Return whether each entry of the ledger was found to have each of its copies."""
    ledger, counts = truth.ledgers[number], copy_counts(truth, number, copies)
    if ledger.flaw or counts is None or counts.assumed:
        return False
    return len(copies) == ledger.written and all(
        one.confirmed == ledger.write_quorum for one in copies
    )


# Metadata


def malformed(ledger: Ledger) -> Json:
    """Return the defect of the znode."""
    if ledger.flaw == BYTES:
        return {"length_bytes": len(NONSENSE), "sha256": sha256(NONSENSE).hexdigest()}
    return {
        "contradictions": [{"what": "no_last_entry", "numbers": []}],
        "total": 1,
        "beyond_end": None,
    }


def stuck(truth: Truth, ledger: Ledger) -> Json:
    """Return how long the ledger has been open, by its metadata; the test wrote the znode
    itself.
    """
    age_ms, limit_ms = (truth.now - ledger.made_at) * MINUTE_MS, STUCK_MINUTES * MINUTE_MS
    return {
        "state": ledger.state,
        "by_metadata": True,
        "age_ms": age_ms,
        "stuck_after_ms": limit_ms,
    }


END_READS_MAX = 3
"""Entries above the end that an audit reads on one bookie, one below the other."""


@dataclass
class Above:
    """What an audit finds above the end of a ledger. `held`: what each bookie lists or sends;
    `header`: (last acknowledged entry, bookie, entry, length), the best that it reads.
    """

    held: dict[str, set[int]]
    listing: set[str]
    header: tuple[int, str, int, int] | None

    def is_cut_off(self, ledger: Ledger) -> bool:
        """Return whether the header names an entry above the end as acknowledged."""
        return self.header is not None and self.header[0] >= ledger.written

    def facts(self, ledger: Ledger) -> Json:
        held = [
            {
                "bookie_id": name,
                "ranges": _ranges(self.held[name]),
                "entries": len(self.held[name]),
                "is_listed": name in self.listing,
            }
            for name in sorted(self.held)
        ]
        names = ("last_confirmed", "bookie_id", "entry_id", "length_bytes")
        header = None if self.header is None else dict(zip(names, self.header, strict=True))
        return {
            "last_entry_id": ledger.written - 1,
            "ack_quorum": ledger.ack_quorum,
            "held_on": held,
            "header": header,
        }


def above_end(truth: Truth, number: int) -> Above:
    """Return what lies above the end of a closed ledger, as far as bookies list or send it."""
    ledger = truth.ledgers[number]
    found = Above({}, set(), None)
    if ledger.state != CLOSED or ledger.flaw:
        return found
    listing = truth.listing(number)
    found.listing = listing
    headers = []
    for name in sorted(truth.asked(ledger)):
        one = truth.bookies[name]
        if not one.can_be_asked:
            continue
        mine = sorted(one.holds.get(number, ()), reverse=True)
        above = [entry for entry in mine if entry >= ledger.written]
        sent = list(_sent_above(truth, number, name, above, is_listed=name in listing))
        headers += [(entry - 1, name, entry, 8 * (entry + 1)) for entry in sent]
        held = set(above) if name in listing else set(sent)
        if held:
            found.held[name] = held
    # The best is the one with the highest entry; of equal ones that of the first bookie.
    found.header = max(headers, key=lambda one: one[0], default=None)
    return found


def _sent_above(
    truth: Truth, number: int, name: str, above: list[int], *, is_listed: bool
) -> Iterator[int]:
    """Yield the entry above the end that a bookie sends when it is read for the highest.

    If its digest is wrong, the next lower ones are read. A bookie that mixes entries up sends the
    entry behind the highest one that it holds, if the request names none.
    """
    one = truth.bookies[name]
    mine = one.holds.get(number, set())
    if not is_listed and number in one.mixed_up:
        if mine and max(mine) + 1 >= truth.ledgers[number].written:
            yield max(mine) + 1
        return
    if not above or number in one.mixed_up:
        return
    tries = above[:END_READS_MAX]
    if not is_listed:
        lower = range(above[0] - 1, truth.ledgers[number].written - 1, -1)
        tries = [above[0], *lower[:END_READS_MAX]]
    for entry in tries:
        if entry in mine and not one.is_wrong(number, entry):
            yield entry
            return


def unheard_of_empty(truth: Truth, number: int) -> dict[str, str]:
    """Return the bookies that do not say whether they hold an entry of a ledger that is closed
    without entries, with the reason; "" where a mark explains it.
    """
    ledger = truth.ledgers[number]
    if ledger.state != CLOSED or ledger.flaw or ledger.written:
        return {}
    unheard = {}
    for name in truth.asked(ledger):
        one = truth.bookies[name]
        if one.registered == UNREGISTERED:
            unheard[name] = "" if ledger.marked_at is not None else "bookie_silent"
        elif not one.listens:
            unheard[name] = "bookie_silent"
        elif one.refuses:
            unheard[name] = "bookie_refused"
    return unheard


def is_shown_empty(truth: Truth, number: int) -> bool:
    """Return whether the ledger is closed without entries, and its bookies show it."""
    ledger = truth.ledgers[number]
    if ledger.state != CLOSED or ledger.flaw or ledger.written:
        return False
    is_heard = len(unheard_of_empty(truth, number)) < ledger.ack_quorum
    return is_heard and not above_end(truth, number).held


def _ranges(entries: set[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for entry in sorted(entries):
        if found and found[-1][1] == entry - 1:
            found[-1][1] = entry
        else:
            found.append([entry, entry])
    return found


# Ensembles


def duplicate(segment: Segment) -> Json:
    """Return each bookie that occurs more than once, with its positions."""
    at = {
        name: tuple(p for p, one in enumerate(segment.ensemble) if one == name)
        for name in segment.ensemble
    }
    return {
        "positions": [(name, positions) for name, positions in at.items() if len(positions) > 1]
    }


def placement(truth: Truth, ledger: Ledger, segment: Segment) -> Json | None:
    """Return the write sets of a segment that span too few racks; None if there are none."""
    size, quorum = ledger.ensemble_size, ledger.write_quorum
    needs = min(quorum, RACKS_MIN)
    starts = range(size) if quorum < size else range(1)
    shown: list[Json] = []
    for start in starts:
        members = [segment.ensemble[(start + step) % size] for step in range(quorum)]
        racks = [truth.racks[name] for name in members]
        if len(set(racks)) < needs:
            why = f"has {len(set(racks))} rack ({racks[0]}) and needs {needs}"
            shown.append({"position": start, "members": members, "locations": racks, "why": why})
    if not shown:
        return None
    return {
        "policy": "rack",
        "java_mode": False,
        "parameters": [
            ("minNumRacksPerWriteQuorum", str(RACKS_MIN)),
            ("enforceMinNumRacksPerWriteQuorum", "false"),
        ],
        "write_sets": len(starts),
        "deciding": len(shown),
        "shown": shown[:WRITE_SETS_SHOWN_MAX],
        "without_location": [],
        "recorded_policy": "",
    }
