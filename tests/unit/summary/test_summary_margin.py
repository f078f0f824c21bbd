"""What would be lost without some bookies: the arrays against every entry counted one by one."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from auditor.evidence.schemas import LEDGERS, VERDICTS
from auditor.summary.margin import SHOWN_IDS_MAX, copies_of_worst_entry, exposure_by_bookie, losses_without
from auditor.summary.stored_copies import LEDGER_COLUMNS, VERDICT_COLUMNS, StoredCopies, copies_of_run

BOOKIES = [f"b{n}" for n in range(1, 7)]


@dataclass
class Ledger:
    """A closed ledger: its segments as (first entry, ensemble), and what the run says of it."""

    id: int
    segments: list[tuple[int, list[str]]]
    last: int
    write_quorum: int = 2
    ack_quorum: int = 2
    state: str = "CLOSED"
    status: str = "found"
    unknowns: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    has_verdict: bool = True
    look: int = 1


def rows(schema: pa.Schema, names: list[str], cells: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(cells, schema=pa.schema([schema.field(name) for name in names]))


def stored(ledgers: list[Ledger], unheard: tuple[str, ...] = ()) -> StoredCopies:
    """The copies of a run that stored these ledgers, in no particular order."""
    metadata = [
        {
            "ledger_id": one.id,
            "look": one.look,
            "status": one.status,
            "state": one.state,
            "last_entry_id": one.last,
            "write_quorum": one.write_quorum,
            "ack_quorum": one.ack_quorum,
            "segments": [{"first_entry_id": first, "ensemble": ensemble} for first, ensemble in one.segments],
        }
        for one in ledgers
    ]
    verdicts = {
        one.id: {
            "ledger_id": one.id,
            "unknowns": one.unknowns,
            "lacks": [{"bookie_id": bookie, "expected": 9, "absent": 1} for bookie in one.lacks],
        }
        for one in ledgers
        if one.has_verdict
    }
    return copies_of_run(
        rows(LEDGERS, LEDGER_COLUMNS, metadata), rows(VERDICTS, VERDICT_COLUMNS, list(verdicts.values())), unheard
    )


def worst(ledger: Ledger, down: set[str], unheard: tuple[str, ...]) -> tuple[int, int]:
    """The fewest sure and the fewest possible copies of any entry, each entry counted by itself."""
    sure, possible = [], []
    ends = [first - 1 for first, _ in ledger.segments[1:]] + [ledger.last]
    for (first, ensemble), end in zip(ledger.segments, ends, strict=True):
        for entry in range(first, end + 1):
            held = {ensemble[(entry + n) % len(ensemble)] for n in range(ledger.write_quorum)}
            doubted = set(ledger.lacks)
            if not ledger.has_verdict or set(ledger.unknowns) - {"bookie_silent", "bookie_refused"}:
                doubted |= held
            elif ledger.unknowns:
                doubted |= set(unheard)
            possible.append(len(held - down))
            sure.append(len(held - down - doubted))
    return min(sure), min(possible)


def drawn(draw: random.Random, ledger_id: int) -> Ledger:
    """A ledger with ensemble changes, holes in ids, and every sort of doubt."""
    size = draw.randint(1, 4)
    firsts = sorted({0, *(draw.randrange(1, 9) for _ in range(draw.randrange(3)))})
    quorum = draw.randint(1, size)
    return Ledger(
        ledger_id,
        [(first, draw.choices(BOOKIES, k=size) if draw.random() < 0.2 else draw.sample(BOOKIES, size)) for first in firsts],
        firsts[-1] + draw.randrange(6),
        quorum,
        draw.randint(1, quorum),
        unknowns=draw.choice([[], [], [], ["bookie_silent"], ["bookie_refused"], ["answer_timeout"]]),
        lacks=draw.sample(BOOKIES, draw.choice([0, 0, 0, 1, 2])),
        has_verdict=draw.random() < 0.95,
    )


@pytest.mark.parametrize("seed", range(8))
def test_losses_are_those_of_every_entry_counted_by_itself(seed: int):
    """Sure and possible, of the last copy and of the ack quorum, for every set of bookies drawn."""
    draw = random.Random(seed)
    ledgers = [drawn(draw, n) for n in draw.sample(range(1000), 60)]
    unheard = tuple(draw.sample(BOOKIES, 1))
    copies = stored(ledgers, unheard)
    for _ in range(6):
        down = set(draw.sample(BOOKIES, draw.randint(0, 3)))
        found = losses_without(copies, down)
        now, then = ({one.id: worst(one, gone, unheard) for one in ledgers} for gone in (set(), down))
        in_order = [one for one in ledgers if now[one.id][0] > 0]
        with_ack = [one for one in in_order if now[one.id][0] >= one.ack_quorum]
        expected = (
            sum(then[one.id][1] == 0 for one in in_order),
            sum(then[one.id][0] == 0 < then[one.id][1] for one in in_order),
            sum(then[one.id][1] < one.ack_quorum for one in with_ack),
            sum(then[one.id][0] < one.ack_quorum <= then[one.id][1] for one in with_ack),
        )
        sorts = (found.no_copy, found.may_have_no_copy, found.below_ack, found.may_be_below_ack)
        assert expected == tuple(sort.ledgers for sort in sorts), f"seed {seed}, down {sorted(down)}"


@pytest.mark.parametrize("seed", range(8))
def test_each_bookie_alone_is_as_bad_as_losing_it(seed: int):
    """The table by bookie says of each what `--without` says of it, where nothing is doubtful."""
    draw = random.Random(seed)
    ledgers = [drawn(draw, n) for n in range(60)]
    for one in ledgers:
        one.unknowns, one.lacks, one.has_verdict = [], [], True
    copies = stored(ledgers)
    exposure = exposure_by_bookie(copies)
    for bookie in BOOKIES:
        found = losses_without(copies, {bookie})
        assert found.no_copy.ledgers == exposure.last_copy.get(bookie, 0), f"seed {seed}, {bookie}"
        assert found.below_ack.ledgers == exposure.ack_quorum.get(bookie, 0), f"seed {seed}, {bookie}"


@pytest.mark.parametrize("seed", range(4))
def test_ledgers_are_counted_by_the_copies_of_their_worst_entry(seed: int):
    """Each ledger once."""
    draw = random.Random(seed)
    ledgers = [drawn(draw, n) for n in range(60)]
    expected = Counter(worst(one, set(), ())[0] for one in ledgers)
    assert dict(expected) == copies_of_worst_entry(stored(ledgers)), f"seed {seed}"


def test_a_short_segment_counts_only_the_write_sets_it_uses():
    """One entry on b1 and b2: b3 may go, though the ensemble names it."""
    copies = stored([Ledger(1, [(0, ["b1", "b2", "b3"])], 0, write_quorum=2, ack_quorum=1)])
    assert 0 == losses_without(copies, {"b2", "b3"}).no_copy.ledgers
    assert 1 == losses_without(copies, {"b1", "b2"}).no_copy.ledgers


def test_the_newest_look_counts():
    """Auto-recovery moved the ledger between two looks."""
    before = Ledger(1, [(0, ["b1", "b2"])], 5)
    after = Ledger(1, [(0, ["b3", "b4"])], 5, look=2)
    copies = stored([after, before])
    assert (0, 1) == tuple(losses_without(copies, down).no_copy.ledgers for down in ({"b1", "b2"}, {"b3", "b4"}))


@pytest.mark.parametrize("change", [{"state": "OPEN"}, {"status": "gone"}, {"last": -1}, {"status": "malformed"}])
def test_only_closed_ledgers_with_entries_count(change: dict[str, object]):
    """An open one has a writer that replaces bookies; a gone one has nothing to lose."""
    ledger = Ledger(1, [(0, ["b1", "b2"])], 5)
    for name, value in change.items():
        setattr(ledger, name, value)
    assert 0 == len(stored([ledger]).ledger_ids)


def test_the_ids_of_a_loss_are_bounded():
    """The first ones, and the number of all."""
    copies = stored([Ledger(n, [(0, ["b1", "b2"])], 5) for n in range(SHOWN_IDS_MAX + 5)])
    lost = losses_without(copies, {"b1", "b2"}).no_copy
    assert (SHOWN_IDS_MAX + 5, tuple(range(SHOWN_IDS_MAX))) == (lost.ledgers, lost.ids)


def test_a_run_without_ledgers_has_nothing_to_lose():
    """Empty tables are no error."""
    copies = stored([])
    assert 0 == losses_without(copies, {"b1"}).no_copy.ledgers
    assert {} == exposure_by_bookie(copies).last_copy == copies_of_worst_entry(copies)
