"""The copies of a run, brought up to date: reading less gives the answer of reading everything."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from auditor.after.confirmed_copies import VERDICT_COLUMNS, confirmed_copies
from auditor.after.copies_now import (
    NEVER_READ,
    ZNODE_COLUMNS,
    CopiesNow,
    LedgersToRead,
    StoredZnodes,
    bookies_with_new_cookies,
    copies_now,
    doubts_in_use,
    ledgers_to_read,
    stored_znodes,
    with_marks,
    with_missing_bookies,
)
from auditor.after.margin import losses_without
from auditor.after.promised_copies import LEDGER_COLUMNS
from auditor.after.stored_copies import StoredCopies
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import ANSWERS, LEDGERS, VERDICTS
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Mark,
    RecordStatus,
    Segment,
    ZnodeStamp,
)

BOOKIES = [f"b{number}" for number in range(1, 8)]
SEEDS = range(40)
LEDGERS_DRAWN = 25


def record(
    ledger_id: int,
    *ensembles: tuple[int, list[str]],
    last: int = 9,
    write_quorum: int | None = None,
    state: LedgerState = LedgerState.CLOSED,
    version: int = 0,
) -> LedgerRecord:
    size = len(ensembles[0][1])
    metadata = LedgerMetadata(
        format_version=3,
        state=state,
        ensemble_size=size,
        write_quorum=write_quorum or size,
        ack_quorum=1,
        last_entry_id=last if state is LedgerState.CLOSED else None,
        length=0,
        segments=tuple(Segment(first, tuple(names)) for first, names in ensembles),
    )
    stamp = ZnodeStamp(100 + ledger_id, version, 0)
    return LedgerRecord(ledger_id, 1, 0, RecordStatus.FOUND, stamp, metadata)


@dataclass
class Run:
    """A stored run of these ledgers: each copy was listed, except what `lacking` has by ledger: so
    many copies, for which no bookie is to blame.
    """

    records: list[LedgerRecord]
    lacking: Mapping[int, int]

    def stored(self) -> tuple[StoredCopies, StoredZnodes]:
        rows = pa.Table.from_batches([table(LEDGERS, map(ledger_row, self.records))])
        verdicts = [
            dict.fromkeys(VERDICT_COLUMNS)
            | {"ledger_id": one.ledger_id, "unknowns": [], "lacks": []}
            | {"copies_expected": 40, "copies_listed": 40 - self.lacking.get(one.ledger_id, 0)}
            | {"copies_read": 0, "copies_assumed": 0}
            for one in self.records
        ]
        schema = pa.schema([VERDICTS.field(name) for name in VERDICT_COLUMNS])
        copies = confirmed_copies(
            rows.select(LEDGER_COLUMNS),
            pa.Table.from_pylist(verdicts, schema=schema),
            ANSWERS.empty_table(),
        )
        return copies, stored_znodes([rows.select(ZNODE_COLUMNS)], copies)


def read(reading: LedgersToRead, now: Mapping[int, LedgerRecord]) -> Iterable[list[LedgerRecord]]:
    """Return what ZooKeeper answers: the ledgers whose znode is not the known one."""
    changed = []
    for ledger_id, czxid, version in reading.known():
        there = now.get(ledger_id, LedgerRecord(ledger_id, 1, 0, RecordStatus.GONE))
        stamp = there.stamp
        if stamp is None or (stamp.czxid, stamp.version) != (czxid, version):
            changed.append(there)
    return [changed[:3], changed[3:]]


def ask(
    run: Run,
    now: Mapping[int, LedgerRecord],
    missing: Iterable[str],
    marked: Iterable[int] = (),
    *,
    reads_all: bool = False,
) -> CopiesNow:
    copies, znodes = run.stored()
    listed = np.array(sorted(now), np.int64)
    reading = ledgers_to_read(copies, znodes, listed, set(missing), set(marked))
    if reads_all:
        never = np.full(len(listed), NEVER_READ)
        reading = LedgersToRead(listed, never, never, 0, reading.deleted)
    return copies_now(copies, reading, read(reading, now))


def draw_ledger(draw: random.Random, ledger_id: int) -> LedgerRecord:
    size = draw.choice([1, 2, 3])
    firsts = [0, *sorted(draw.sample(range(1, 10), draw.choice([0, 0, 1])))]
    ensembles = [(first, draw.sample(BOOKIES, size)) for first in firsts]
    state = draw.choice([LedgerState.CLOSED] * 5 + [LedgerState.OPEN])
    write_quorum = draw.randint(1, size)
    return record(ledger_id, *ensembles, write_quorum=write_quorum, state=state)


def move_copies(draw: random.Random, before: LedgerRecord) -> LedgerRecord:
    """Return the ledger after replication workers replaced some of its bookies."""
    assert before.metadata is not None
    ensembles = []
    for segment in before.metadata.segments:
        ensemble = list(segment.ensemble)
        for place in range(len(ensemble)):
            others = [bookie for bookie in BOOKIES if bookie not in ensemble]
            if draw.random() < 0.5:
                ensemble[place] = draw.choice(others)
        ensembles.append((segment.first_entry_id, ensemble))
    return record(
        before.ledger_id,
        *ensembles,
        write_quorum=before.metadata.write_quorum,
        state=before.metadata.state,
        version=1,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_reading_less_finds_the_same_ledgers_without_a_copy(seed: int):
    """Ledgers were moved, deleted and created since the run; some were not in order. The ledgers
    that are not read again cannot lose an entry.
    """
    print("seed", seed)
    draw = random.Random(seed)
    before = {n: draw_ledger(draw, n) for n in range(LEDGERS_DRAWN)}
    run = Run(list(before.values()), {n: 1 for n in before if draw.random() < 0.1})
    now = {n: one for n, one in before.items() if draw.random() < 0.9}
    moved = [n for n in now if draw.random() < 0.5]
    now |= {n: move_copies(draw, before[n]) for n in moved}
    now |= {n: draw_ledger(draw, n) for n in range(100, 103)}
    marks = {
        n: Mark(0, missing_replicas=tuple(draw.sample(BOOKIES, draw.choice([0, 1, 2]))))
        for n in now
        if draw.random() < 0.2
    }
    down = set(draw.sample(BOOKIES, draw.choice([0, 1, 2])))
    asked = set(draw.sample(BOOKIES, draw.choice([1, 1, 2])))
    few, everything = (
        losses_without(with_missing_bookies(with_marks(found.copies, marks), down - asked), asked)
        for found in (
            ask(run, now, down | asked, marks),
            ask(run, now, down | asked, marks, reads_all=True),
        )
    )
    assert everything.no_copy == few.no_copy
    assert everything.may_have_no_copy == few.may_have_no_copy


def test_one_bookie_costs_the_ledgers_that_name_it():
    """Of the others an entry keeps a sure copy, wherever one of its copies was moved. A closed
    ledger without entries has nothing to lose.
    """
    ledgers = [record(n, (0, ["b1", "b2"] if n < 3 else ["b2", "b3"])) for n in range(10)]
    copies, znodes = Run([*ledgers, record(10, (0, ["b1", "b2"]), last=-1)], {}).stored()
    listed = np.arange(11)
    assert [0, 1, 2] == ledgers_to_read(copies, znodes, listed, {"b1"}, ()).ledger_ids.tolist()
    assert 10 == len(ledgers_to_read(copies, znodes, listed, {"b1", "b7"}, ()).ledger_ids)


def test_a_ledger_that_was_not_in_order_is_read_and_its_new_copies_are_not_sure():
    """The worker that wrote the copy on b3 may have had no copy of an entry to write."""
    run = Run([record(1, (0, ["b1", "b2"]))], {1: 1})
    copies, znodes = run.stored()
    assert [1] == ledgers_to_read(copies, znodes, np.array([1]), (), ()).ledger_ids.tolist()
    moved = {1: record(1, (0, ["b3", "b2"]), version=1)}
    lost = losses_without(ask(run, moved, {"b2"}).copies, {"b2"})
    assert (0, 1) == (lost.no_copy.ledgers, lost.may_have_no_copy.ledgers)


def test_a_new_copy_of_a_ledger_in_order_counts_and_is_named():
    """`unseen` counts the ledger once, and not a ledger that only got a newer version."""
    run = Run([record(1, (0, ["b1", "b2"])), record(2, (0, ["b1", "b2"]))], {})
    moved = {
        1: record(1, (0, ["b1", "b3"]), version=1),
        2: record(2, (0, ["b1", "b2"]), version=1),
    }
    now = ask(run, moved, {"b1"})
    assert (2, 1) == (now.changed, now.unseen)
    assert 0 == losses_without(now.copies, {"b1"}).may_have_no_copy.ledgers


def test_a_mark_doubts_the_replicas_it_names_and_all_if_it_names_none():
    """A mark that cannot be read may name any replica."""
    copies, _ = Run([record(n, (0, ["b1", "b2"])) for n in (1, 2, 3)], {}).stored()
    marks = {
        1: Mark(0, missing_replicas=("b2", "elsewhere")),
        2: Mark(0),
        3: Mark(0, missing_replicas=("b1",), problem="garbled"),
        9: Mark(0, missing_replicas=("b1",)),
    }
    marked = with_marks(copies, marks)
    without_b1, without_b2 = (losses_without(marked, {b}).may_have_no_copy for b in ("b1", "b2"))
    assert ((1, 2, 3), (2, 3)) == (without_b1.ids, without_b2.ids)


def test_a_copy_from_before_a_new_cookie_is_not_sure():
    """The czxid of ledger n is 100 + n, and b1's new cookie has 105. Ledger 1 is of the run and is
    not read again, 2 moved to b1, 3 and 9 are new, 4 and 10 are in use.
    """
    run = Run([record(1, (0, ["b1", "b2"])), record(2, (0, ["b3", "b2"]))], {})
    now = {
        1: record(1, (0, ["b1", "b2"])),
        2: record(2, (0, ["b1", "b2"]), version=1),
        3: record(3, (0, ["b1", "b2"])),
        9: record(9, (0, ["b1", "b2"])),
        4: record(4, (0, ["b1", "b2"]), state=LedgerState.OPEN),
        10: record(10, (0, ["b1", "b2"]), state=LedgerState.OPEN),
    }
    copies, znodes = run.stored()
    listed = np.array(sorted(now))
    reading = ledgers_to_read(copies, znodes, listed, {"b1", "b2"}, ())
    found = copies_now(copies, reading, read(reading, now), {"b1": 105})
    assert (1, 2, 3) == losses_without(found.copies, {"b2"}).may_have_no_copy.ids
    assert {4: {"b1"}} == doubts_in_use(found, {})
    marks = {10: Mark(0), 4: Mark(0, missing_replicas=("b2",)), 3: Mark(0)}
    assert {4: {"b1", "b2"}, 10: {"b1", "b2"}} == doubts_in_use(found, marks)


def test_only_a_cookie_that_was_known_can_be_new():
    """Evidence of an earlier version says nothing of cookies, and b4 is new altogether."""
    before = {"b1": 5, "b2": 5, "b3": None}
    now = {"b1": 5, "b2": 9, "b3": 9, "b4": 9}
    records = (
        {
            bookie: BookieRecord(bookie, 1, 0, Registration.WRITABLE, cookie_czxid=czxid)
            for bookie, czxid in czxids.items()
        }
        for czxids in (before, now)
    )
    assert {"b2": 9} == bookies_with_new_cookies(*records)


@pytest.mark.parametrize("write_quorum", [1, 3])
def test_a_ledger_in_use_that_contradicts_itself_is_unread(write_quorum: int):
    """An entry cannot be on three of two bookies."""
    opened = record(1, (0, ["b1", "b2"]), state=LedgerState.OPEN, write_quorum=write_quorum)
    now = ask(Run([], {}), {1: opened}, {"b1"})
    is_unread = write_quorum == 3
    assert (int(is_unread), not is_unread) == (now.copies.unread, 1 in now.in_use)


def test_ledgers_that_are_not_closed_are_kept_apart():
    """They have no last entry yet, and a deleted ledger is in neither."""
    run = Run([record(1, (0, ["b1"]), state=LedgerState.OPEN), record(2, (0, ["b2"]))], {})
    now = ask(run, {1: record(1, (0, ["b1"]), state=LedgerState.IN_RECOVERY, version=1)}, {"b1"})
    assert ([1], []) == (list(now.in_use), now.copies.ledger_ids.tolist())
