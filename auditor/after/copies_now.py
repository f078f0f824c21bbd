"""The copies of a stored run, brought up to date with what ZooKeeper says now.

The run says which copies were seen. ZooKeeper says which ledgers are new, deleted or changed since
then, which bookies are not registered or have a new cookie, and which replicas are marked as
missing. A copy that only the newer metadata promises was seen by nobody: it counts as there, and
its ledger is counted.

A closed ledger is read again only if its loss is possible. Each of its entries had some sure copies
in the run. As long as the missing bookies are fewer, and the run's metadata names none of them, an
entry keeps a sure copy, however its copies were moved since then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.after.copy_patterns import with_own_patterns
from auditor.after.margin import fewest_sure_copies
from auditor.after.promised_copies import LEDGER_COLUMNS, is_closed, promised_copies
from auditor.after.stored_copies import (
    Codes,
    Flags,
    Ints,
    StoredCopies,
    doubt_bookies,
    no_flags,
    pair_keys,
    places_of,
)
from auditor.evidence.ids import newest_rows
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import LEDGERS
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, Mark

NEVER_READ = -1
"""A czxid and version that no znode has."""
_STAMP = ["czxid", "znode_version"]
ZNODE_COLUMNS = ["ledger_id", "look", "status", "state", "last_entry_id", *_STAMP]
"""The columns of evidence/ledgers that say which znode was read."""
ZNODE_WORDS = ["status", "state"]
"""Those of them whose strings are better read as numbers of a dictionary."""


@dataclass(frozen=True, slots=True)
class StoredZnodes:
    """Every ledger of a run, by ascending id: the znode that was read last.

    is_settled: whether it was closed and is empty, or its copies are known. Then only its ensembles
    can change.
    """

    ledger_ids: Ints
    czxids: Ints
    versions: Ints
    is_settled: Flags


def stored_znodes(portions: Iterable[pa.Table], copies: StoredCopies) -> StoredZnodes:
    """Return the ledgers of evidence/ledgers. `copies` are those of the same run.

    `portions` have ZNODE_COLUMNS, each of greater ledger ids than the one before.
    """
    found = [_znodes_of(rows, copies) for rows in portions]
    return StoredZnodes(*map(np.concatenate, zip(*found, strict=True)))


def _znodes_of(ledgers: pa.Table, copies: StoredCopies) -> tuple[Ints, Ints, Ints, Flags]:
    newest = newest_rows(ledgers)
    ids = newest["ledger_id"].to_numpy()
    is_empty = pc.and_(is_closed(newest), pc.equal(newest["last_entry_id"], -1))
    _, is_settled = places_of(copies.ledger_ids, ids)
    is_settled |= pc.fill_null(is_empty, False).to_numpy()
    czxids, versions = (
        pc.fill_null(newest[name], NEVER_READ).to_numpy().astype(np.int64) for name in _STAMP
    )
    return ids, czxids, versions, is_settled


@dataclass(frozen=True, slots=True)
class Reading:
    """How many ledgers were listed now, and read again; how many are new, changed or deleted since
    the run.
    """

    listed: int
    read: int
    new: int
    changed: int
    deleted: int


@dataclass(frozen=True, slots=True)
class LedgersToRead:
    """The ledgers that must be read before the copies are known again.

    czxids and versions: of the znode that the run read, or NEVER_READ. new: how many of them the
    run does not know. deleted: ledgers of the run that are not listed any more.
    """

    ledger_ids: Ints
    czxids: Ints
    versions: Ints
    new: int
    deleted: Ints

    def counts(self, listed: int, changed: int) -> Reading:
        """Return the numbers. `listed` and `changed`: as in `Reading`."""
        return Reading(listed, len(self.ledger_ids), self.new, changed, len(self.deleted))

    def known(self) -> Iterator[tuple[LedgerId, int, int]]:
        """Yield each ledger with the czxid and version of its znode in the run."""
        columns = (self.ledger_ids, self.czxids, self.versions)
        yield from zip(*(column.tolist() for column in columns), strict=True)


def ledgers_to_read(
    copies: StoredCopies,
    znodes: StoredZnodes,
    listed: Ints,
    missing: Collection[BookieId],
    marked: Collection[LedgerId],
) -> LedgersToRead:
    """Return the ledgers of the listing that must be read again if `missing` bookies are missing.

    `listed` is ascending and distinct. It is every ledger that was not closed, is new or is marked,
    and each other one that may lose the last copy of an entry.
    """
    is_listed = np.isin(znodes.ledger_ids, listed, assume_unique=True)
    is_read = is_listed & ~znodes.is_settled
    is_read |= is_listed & np.isin(znodes.ledger_ids, np.array(sorted(marked), np.int64))
    exposed = copies.ledger_ids[_may_lose_an_entry(copies, missing)]
    is_read |= is_listed & np.isin(znodes.ledger_ids, exposed, assume_unique=True)
    new = np.setdiff1d(listed, znodes.ledger_ids, assume_unique=True)
    unknown = np.full(len(new), NEVER_READ)
    is_again = is_read & znodes.is_settled
    czxids = np.where(is_again, znodes.czxids, NEVER_READ)[is_read]
    return LedgersToRead(
        np.concatenate([znodes.ledger_ids[is_read], new]),
        np.concatenate([czxids, unknown]),
        np.concatenate([znodes.versions[is_read], unknown]),
        len(new),
        znodes.ledger_ids[~is_listed],
    )


def _may_lose_an_entry(copies: StoredCopies, missing: Collection[BookieId]) -> Flags:
    names_one = no_flags(copies.pattern_count)
    codes = _codes(copies, missing)
    for block in copies.segments:
        names_one[block.patterns[np.isin(block.ensembles, codes).any(axis=1)]] = True
    exposed: Flags = (fewest_sure_copies(copies) <= len(missing)) | names_one[copies.patterns]
    return exposed


def _codes(copies: StoredCopies, bookies: Collection[BookieId]) -> list[int]:
    return [code for code, bookie in enumerate(copies.bookies) if bookie in bookies]


Doubts: TypeAlias = Mapping[LedgerId, Set[BookieId]]
"""For some ledgers, the bookies whose copy is not sure."""


@dataclass(frozen=True, slots=True)
class CopiesNow:
    """The copies of closed ledgers as of now, and the ledgers that are not closed.

    changed: ledgers of the run whose metadata is another one now. unseen: closed ledgers with a
    copy that no run has seen, and that counts as there. doubted: of ledgers that were read now,
    the bookies with a newer cookie.
    """

    copies: StoredCopies
    in_use: Mapping[LedgerId, LedgerMetadata]
    changed: int
    unseen: int
    doubted: Doubts = field(default_factory=dict)


def bookies_with_new_cookies(
    before: Mapping[BookieId, BookieRecord], now: Mapping[BookieId, BookieRecord]
) -> dict[BookieId, int]:
    """Return the bookies whose cookie is another znode than `before`, with its czxid.

    Somebody deleted the cookie, as before a bookie is formatted. What the bookie held may be gone.
    """
    czxids = {
        bookie: (before[bookie].cookie_czxid, record.cookie_czxid)
        for bookie, record in now.items()
        if bookie in before
    }
    return {
        bookie: new
        for bookie, (old, new) in czxids.items()
        if old is not None and new is not None and old != new
    }


def copies_now(
    copies: StoredCopies,
    reading: LedgersToRead,
    batches: Iterable[Collection[LedgerRecord]],
    new_cookies: Mapping[BookieId, int] | None = None,
) -> CopiesNow:
    """Return the run's copies with the ledgers of `batches` as they are now.

    `batches` are the ledgers that changed, of those that were to be read. Memory is linear in them.
    `new_cookies` has the czxid of cookies that are newer than the run. A copy on such a bookie is
    not sure if its ledger was created before the cookie.
    """
    new_cookies = new_cookies or {}
    copies = doubt_bookies(copies, new_cookies)
    in_use: dict[LedgerId, LedgerMetadata] = {}
    doubted: dict[LedgerId, Set[BookieId]] = {}
    tables, unread = [_empty_rows()], 0
    for records in batches:
        tables.append(_rows_of(records))
        for record in records:
            metadata = record.metadata
            if older := _with_newer_cookies(record, new_cookies):
                doubted[record.ledger_id] = older
            if metadata is not None and metadata.state is not LedgerState.CLOSED:
                if _can_be_judged(metadata):
                    in_use[record.ledger_id] = metadata
                else:
                    unread += 1
    rows = pa.concat_tables(tables)
    read_ids = np.sort(rows["ledger_id"].to_numpy())
    changed = int(np.isin(read_ids, copies.ledger_ids).sum())
    fresh, unseen = _with_doubts_of(copies, promised_copies(rows))
    dropped = np.concatenate([reading.deleted, read_ids])
    merged = _merge(copies, dropped, fresh)
    merged = replace(_with_doubtful(merged, doubted), unread=merged.unread + unread)
    return CopiesNow(merged, in_use, changed, unseen, doubted)


def _with_newer_cookies(
    record: LedgerRecord, new_cookies: Mapping[BookieId, int]
) -> frozenset[BookieId]:
    if not new_cookies or record.metadata is None or record.stamp is None:
        return frozenset()
    named = {bookie for segment in record.metadata.segments for bookie in segment.ensemble}
    czxid = record.stamp.czxid
    return frozenset(b for b in named & new_cookies.keys() if czxid < new_cookies[b])


def doubts_in_use(now: CopiesNow, marks: Mapping[LedgerId, Mark]) -> Doubts:
    """Return the copies of ledgers in use that are not sure, by newer cookies and by marks.

    A mark that names no replica, or could not be read, makes all copies of its ledger doubtful.
    """
    found = {i: now.doubted[i] for i in now.doubted.keys() & now.in_use.keys()}
    for ledger_id in marks.keys() & now.in_use.keys():
        named = _missing_replicas(marks[ledger_id])
        if named is None:
            segments = now.in_use[ledger_id].segments
            named = {bookie for segment in segments for bookie in segment.ensemble}
        found[ledger_id] = found.get(ledger_id, frozenset()) | named
    return found


def _missing_replicas(mark: Mark) -> Set[BookieId] | None:
    """Return the bookies whose replica a mark names as missing; None if it may be any."""
    if mark.problem is not None or not mark.missing_replicas:
        return None
    return frozenset(mark.missing_replicas)


def _can_be_judged(metadata: LedgerMetadata) -> bool:
    """Return whether the metadata of a ledger that is not closed has ensembles and quorums."""
    sizes = {len(segment.ensemble) for segment in metadata.segments}
    quorums = 1 <= metadata.ack_quorum <= metadata.write_quorum <= metadata.ensemble_size
    return quorums and sizes == {metadata.ensemble_size}


def _empty_rows() -> pa.Table:
    return pa.schema([LEDGERS.field(name) for name in LEDGER_COLUMNS]).empty_table()


def _rows_of(records: Collection[LedgerRecord]) -> pa.Table:
    return pa.Table.from_batches([table(LEDGERS, map(ledger_row, records))]).select(LEDGER_COLUMNS)


def _with_doubts_of(copies: StoredCopies, fresh: StoredCopies) -> tuple[StoredCopies, int]:
    """Return newer copies with the doubts of the run, and how many ledgers have an unseen copy.

    Each ledger of `fresh` has a pattern of its own, which is its place. A copy that the run's
    metadata does not name was written by a replication worker from another copy. It counts as there
    if the ledger is new, or had a sure copy of each entry in the run.
    """
    doubtful, absent, named = _pairs(copies, fresh)
    poor = copies.ledger_ids[fewest_sure_copies(copies) == 0]
    is_poor = np.isin(fresh.ledger_ids, poor)
    unseen = no_flags(len(fresh.ledger_ids))
    blocks = []
    for block in fresh.segments:
        keys = pair_keys(fresh, block)
        is_unnamed = ~np.isin(keys, named)
        unseen[block.patterns[is_unnamed.any(axis=1)]] = True
        is_doubtful = np.isin(keys, doubtful) | (is_unnamed & is_poor[block.patterns][:, None])
        blocks.append(replace(block, doubtful=is_doubtful, absent=np.isin(keys, absent)))
    return replace(fresh, segments=tuple(blocks)), int(unseen.sum())


def _pairs(copies: StoredCopies, fresh: StoredCopies) -> tuple[Ints, Ints, Ints]:
    """Return the doubtful, the absent and all pairs of the run, for ledgers of `fresh`.

    A pair is the index of a ledger in `fresh` times its bookies, plus the code of a bookie there.
    """
    positions = {bookie: code for code, bookie in enumerate(fresh.bookies)}
    recoded = np.array([positions.get(bookie, -1) for bookie in copies.bookies], np.int64)
    found: tuple[list[Ints], list[Ints], list[Ints]] = ([], [], [])
    both = np.flatnonzero(np.isin(copies.ledger_ids, fresh.ledger_ids))
    ledgers = np.searchsorted(fresh.ledger_ids, copies.ledger_ids[both])
    for block in copies.segments:
        which, rows = block.rows_of(copies.patterns[both])
        codes = recoded[block.ensembles[rows]]
        keys = ledgers[which][:, None] * len(fresh.bookies) + codes
        everywhere = codes >= 0
        masks = (block.doubtful[rows], block.absent[rows], everywhere)
        for pairs, mask in zip(found, masks, strict=True):
            pairs.append(keys[mask & everywhere])
    doubtful, absent, named = (np.concatenate([np.zeros(0, np.int64), *keys]) for keys in found)
    return doubtful, absent, named


def _merge(copies: StoredCopies, dropped: Ints, fresh: StoredCopies) -> StoredCopies:
    """Return the copies without the dropped ledgers, and with those of `fresh`.

    `unread` is that of `fresh`: a ledger that the run could not read is always read again.
    """
    bookies = tuple(dict.fromkeys((*copies.bookies, *fresh.bookies)))
    is_kept = ~np.isin(copies.ledger_ids, np.concatenate([dropped, fresh.ledger_ids]))
    ids = np.concatenate([copies.ledger_ids[is_kept], fresh.ledger_ids])
    order = np.argsort(ids)

    def in_order(kept: Ints | Codes, added: Ints | Codes) -> Ints:
        merged: Ints = np.concatenate([kept[is_kept], added])[order]
        return merged

    codes = np.array([bookies.index(bookie) for bookie in fresh.bookies], np.int32)
    before = copies.pattern_count
    added = (
        replace(block, patterns=block.patterns + before, ensembles=codes[block.ensembles])
        for block in fresh.segments
    )
    return StoredCopies(
        ids[order],
        in_order(copies.patterns, fresh.patterns + np.int32(before)).astype(np.int32),
        bookies,
        (*copies.segments, *added),
        in_order(copies.ends, fresh.ends),
        in_order(copies.lengths, fresh.lengths),
        fresh.unread,
    )


def with_missing_bookies(copies: StoredCopies, missing: Collection[BookieId]) -> StoredCopies:
    """Return the copies with none on these bookies, which are not registered."""
    codes = _codes(copies, missing)
    blocks = []
    for block in copies.segments:
        is_missing = np.isin(block.ensembles, codes)
        blocks.append(
            replace(block, doubtful=block.doubtful | is_missing, absent=block.absent | is_missing)
        )
    return replace(copies, segments=tuple(blocks))


def with_marks(copies: StoredCopies, marks: Mapping[LedgerId, Mark]) -> StoredCopies:
    """Return the copies with each replica doubtful that a mark names as missing.

    A mark that names no replica, or could not be read, makes all copies of its ledger doubtful.
    """
    return _with_doubtful(copies, {i: _missing_replicas(mark) for i, mark in marks.items()})


def _with_doubtful(
    copies: StoredCopies, doubted: Mapping[LedgerId, Set[BookieId] | None]
) -> StoredCopies:
    """Return the copies with those on these bookies doubtful; None stands for all of a ledger."""
    if not doubted:
        return copies
    ids = np.array(sorted(doubted), np.int64)
    ids = ids[np.isin(ids, copies.ledger_ids)]
    copies = with_own_patterns(copies, ids)
    patterns = copies.patterns[np.searchsorted(copies.ledger_ids, ids)]
    codes = {bookie: code for code, bookie in enumerate(copies.bookies)}
    all_of = no_flags(copies.pattern_count)
    pairs = []
    for pattern, ledger_id in zip(patterns.tolist(), ids.tolist(), strict=True):
        bookies = doubted[ledger_id]
        all_of[pattern] = bookies is None
        known = (codes[bookie] for bookie in bookies or () if bookie in codes)
        pairs += [pattern * len(copies.bookies) + code for code in known]
    keys = np.array(pairs, np.int64)
    blocks = []
    for block in copies.segments:
        is_doubtful = np.isin(pair_keys(copies, block), keys) | all_of[block.patterns][:, None]
        blocks.append(replace(block, doubtful=block.doubtful | is_doubtful))
    return replace(copies, segments=tuple(blocks))
