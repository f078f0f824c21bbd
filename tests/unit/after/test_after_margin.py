"""What would be lost without some bookies: the arrays agree with counting each entry by itself."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from auditor.after.confirmed_copies import (
    ANSWER_COLUMNS,
    VERDICT_COLUMNS,
    confirmed_copies,
    ledgers_in_doubt,
    with_doubts,
)
from auditor.after.copy_patterns import join_portions
from auditor.after.margin import (
    SHOWN_IDS_MAX,
    copies_of_worst_entry,
    exposure_by_bookie,
    ledgers_in_order,
    losses_without,
)
from auditor.after.promised_copies import LEDGER_COLUMNS, promised_copies
from auditor.after.stored_copies import StoredCopies, bytes_on, count_by_bookie
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import ANSWERS, LEDGERS, VERDICTS
from auditor.first_checker.metadata import contradictions
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
)

BOOKIES = [f"b{n}" for n in range(1, 7)]
DRAWN_LEDGERS = 400


@dataclass
class Ledger:
    """A closed ledger: its segments as (first entry, ensemble), and what the run has of it.

    `answers` has the status of bookies that did not list. `lacks` has the entries that a bookie
    surely lacks. `unexplained` counts copies that are not confirmed, though their bookies listed.
    """

    id: int
    segments: list[tuple[int, list[str]]]
    last: int
    write_quorum: int = 2
    ack_quorum: int = 2
    state: str = "CLOSED"
    status: str = "found"
    unknowns: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    lacks: dict[str, set[int]] = field(default_factory=dict)
    unexplained: int = 0
    has_verdict: bool = True
    has_counts: bool = True
    look: int = 1

    def write_sets(self) -> dict[int, list[str]]:
        """Return the write set of each entry, as the metadata has it."""
        ends = [first - 1 for first, _ in self.segments[1:]] + [self.last]
        return {
            entry: [ensemble[(entry + n) % len(ensemble)] for n in range(self.write_quorum)]
            for (first, ensemble), end in zip(self.segments, ends, strict=True)
            for entry in range(first, end + 1)
        }

    def verdict(self) -> dict[str, object]:
        """Return the row of VERDICTS, with copies counted one by one."""
        sets = self.write_sets()
        wanted = {bookie: {e for e, held in sets.items() if bookie in held} for bookie in BOOKIES}
        lacks = {
            bookie: wanted[bookie] & missing
            for bookie, missing in self.lacks.items()
            if wanted[bookie] & missing
        }
        listed = sum(len(wanted[b] - lacks.get(b, set())) for b in BOOKIES if b not in self.answers)
        counts = {
            "copies_expected": len(sets) * self.write_quorum,
            "copies_listed": max(0, listed - self.unexplained),
        }
        return {
            "ledger_id": self.id,
            "unknowns": self.unknowns,
            "lacks": [
                {"bookie_id": b, "expected": len(wanted[b]), "absent": len(lack)}
                for b, lack in lacks.items()
            ],
            **({**counts, "copies_read": 0, "copies_assumed": 0} if self.has_counts else {}),
        }


def rows(schema: pa.Schema, names: list[str], cells: list[dict[str, object]]) -> pa.Table:
    cells = [dict.fromkeys(names) | row for row in cells]
    return pa.Table.from_pylist(cells, schema=pa.schema([schema.field(name) for name in names]))


def metadata_rows(ledgers: list[Ledger]) -> list[dict[str, object]]:
    """Return the rows of LEDGERS."""
    return [
        {
            "ledger_id": one.id,
            "look": one.look,
            "status": one.status,
            "state": one.state,
            "last_entry_id": one.last,
            "ensemble_size": len(one.segments[0][1]),
            "write_quorum": one.write_quorum,
            "ack_quorum": one.ack_quorum,
            "segments": [
                {"first_entry_id": first, "ensemble": ensemble} for first, ensemble in one.segments
            ],
        }
        for one in ledgers
    ]


def store_copies(
    ledgers: list[Ledger], older: list[dict[str, object]] | None = None
) -> StoredCopies:
    """Return the copies of a run that stored these ledgers. `older` are more rows of answers.

    They are read in two portions.
    """
    verdicts = rows(
        VERDICTS,
        VERDICT_COLUMNS,
        list({one.id: one.verdict() for one in ledgers if one.has_verdict}.values()),
    )
    said: list[dict[str, object]] = [
        {
            "ledger_id": one.id,
            "bookie_id": bookie,
            "look": 2,
            "status": one.answers.get(bookie, "held"),
        }
        for one in ledgers
        for bookie in {bookie for _, ensemble in one.segments for bookie in ensemble}
    ]
    answers = rows(ANSWERS, ANSWER_COLUMNS, [*said, *(older or [])])
    answers = answers.filter(pc.is_in(answers["ledger_id"], ledgers_in_doubt(verdicts)))
    metadata = rows(LEDGERS, LEDGER_COLUMNS, metadata_rows(ledgers))
    middle = sum(one.id for one in ledgers) // max(1, len(ledgers))
    portions = [
        [one.filter(compare(one["ledger_id"], middle)) for one in (metadata, verdicts, answers)]
        for compare in (pc.less_equal, pc.greater)
    ]
    return join_portions(confirmed_copies(*one) for one in portions)


def expected_harms(ledger: Ledger, down: set[str]) -> list[bool]:
    """Return whether each loss happens, in the order of Losses, by looking at each entry."""
    sets = ledger.write_sets()
    wanted = {bookie: {e for e, held in sets.items() if bookie in held} for bookie in BOOKIES}
    nothing = {b for b in BOOKIES if wanted[b] and wanted[b] <= ledger.lacks.get(b, set())}
    doubted = {b for b in BOOKIES if b in ledger.answers or wanted[b] & ledger.lacks.get(b, set())}
    if not ledger.has_verdict or not ledger.has_counts or "checkers_disagree" in ledger.unknowns:
        doubted, nothing = set(BOOKIES), set()
    found = [False] * 4
    for held in ({*write_set} - nothing for write_set in sets.values()):
        if held & down:
            possible, sure = len(held - down), len(held - down - doubted)
            now = (possible == 0, sure == 0, possible < ledger.ack_quorum, sure < ledger.ack_quorum)
            found = [one or other for one, other in zip(found, now, strict=True)]
    no_copy, may_no_copy, below, may_below = found
    return [no_copy, may_no_copy and not no_copy, below, may_below and not below]


def draw_ledger(draw: random.Random, ledger_id: int) -> Ledger:
    """Return a random ledger with ensemble changes and every sort of doubt."""
    size = draw.randint(1, 4)
    firsts = sorted({0, *(draw.randrange(1, 9) for _ in range(draw.randrange(3)))})
    quorum = draw.randint(1, size)
    last = firsts[-1] + draw.randrange(6)
    silent = draw.sample(BOOKIES, draw.choice([0, 0, 0, 1, 2]))
    lacking = [b for b in draw.sample(BOOKIES, draw.choice([0, 0, 0, 1, 2])) if b not in silent]
    return Ledger(
        ledger_id,
        [
            (
                first,
                (
                    draw.choices(BOOKIES, k=size)
                    if draw.random() < 0.2
                    else draw.sample(BOOKIES, size)
                ),
            )
            for first in firsts
        ],
        last,
        quorum,
        draw.randint(1, quorum),
        unknowns=draw.choice([[], [], [], ["topology_unknown"], ["checkers_disagree"]]),
        answers={
            bookie: draw.choice(["silent", "refused", "unregistered", "unsupported"])
            for bookie in silent
        },
        lacks={
            b: set(range(last + 1)) if draw.random() < 0.5 else {draw.randrange(last + 1)}
            for b in lacking
        },
        has_verdict=draw.random() < 0.95,
        has_counts=draw.random() < 0.95,
    )


@pytest.mark.parametrize("seed", range(8))
def test_losses_are_those_of_every_entry_counted_by_itself(seed: int):
    """Sure and possible losses of the last copy and of the ack quorum agree, for sets of bookies
    drawn at random.
    """
    draw = random.Random(seed)
    ledgers = [draw_ledger(draw, n) for n in draw.sample(range(1000), 60)]
    copies = store_copies(ledgers)
    for _ in range(6):
        down = set(draw.sample(BOOKIES, draw.randint(0, 3)))
        found = losses_without(copies, down)
        harms = [expected_harms(one, down) for one in ledgers]
        expected = tuple(sum(harm[sort] for harm in harms) for sort in range(4))
        sorts = (found.no_copy, found.may_have_no_copy, found.below_ack, found.may_be_below_ack)
        assert expected == tuple(sort.ledgers for sort in sorts), (
            f"seed {seed}, down {sorted(down)}"
        )


@pytest.mark.parametrize("seed", range(8))
def test_each_bookie_alone_is_as_bad_as_losing_it(seed: int):
    """The table by bookie has the numbers that `--without` gives for that bookie, doubtful copies
    included.
    """
    draw = random.Random(seed)
    copies = store_copies([draw_ledger(draw, n) for n in range(60)])
    exposure = exposure_by_bookie(copies)
    for bookie in BOOKIES:
        found = losses_without(copies, {bookie})
        for name in ("no_copy", "may_have_no_copy", "below_ack", "may_be_below_ack"):
            assert getattr(found, name).ledgers == getattr(exposure, name).get(bookie, 0), (
                f"seed {seed}, {bookie}, {name}"
            )


@pytest.mark.parametrize("seed", range(4))
def test_ledgers_are_counted_by_the_copies_of_their_worst_entry(seed: int):
    """Each ledger counts once, by its entry with the fewest copies."""
    draw = random.Random(seed)
    ledgers = [draw_ledger(draw, n) for n in range(60)]
    for one in ledgers:
        one.unknowns, one.answers, one.lacks, one.has_verdict, one.has_counts = (
            [],
            {},
            {},
            True,
            True,
        )
    expected = Counter(min(len(set(held)) for held in one.write_sets().values()) for one in ledgers)
    assert dict(expected) == copies_of_worst_entry(store_copies(ledgers)), f"seed {seed}"


def harms(ledger: Ledger, *down: str) -> tuple[int, int]:
    """Return how many ledgers surely have an entry without a copy when `down` are lost, and how
    many may.
    """
    found = losses_without(store_copies([ledger]), down)
    return found.no_copy.ledgers, found.may_have_no_copy.ledgers


def test_a_ledger_that_was_not_judged_still_counts():
    """No bookie answered. If both are lost, no copy is left; if one is lost, the other may have
    none.
    """
    ledger = Ledger(
        1,
        [(0, ["b1", "b2"])],
        9,
        unknowns=["bookie_silent"],
        answers={"b1": "silent", "b2": "silent"},
    )
    assert ((1, 0), (0, 1), (0, 0)) == (
        harms(ledger, "b1", "b2"),
        harms(ledger, "b1"),
        harms(ledger, "b3"),
    )


def test_an_unknown_topology_doubts_no_copy():
    """The reason concerns placement alone."""
    ledger = Ledger(1, [(0, ["b1", "b2"])], 9, unknowns=["topology_unknown"])
    assert ((0, 0), (1, 0)) == (harms(ledger, "b1"), harms(ledger, "b1", "b2"))


def test_the_dead_bookie_of_a_marked_ledger_has_no_sure_copy():
    """A mark within grace excuses the ledger, and its verdict has no reason."""
    ledger = Ledger(1, [(0, ["b1", "b2"])], 9, answers={"b2": "unregistered"})
    assert (0, 1) == harms(ledger, "b1")


def test_a_marked_ledger_that_nobody_was_asked_about_is_doubtful():
    """Its verdict has no counts of copies."""
    assert (0, 1) == harms(Ledger(1, [(0, ["b1", "b2"])], 9, has_counts=False), "b1")


def test_a_bookie_that_refuses_one_ledger_has_no_sure_copy_of_it():
    """The bookie answers requests about other ledgers."""
    ledger = Ledger(
        1, [(0, ["b1", "b2"])], 9, unknowns=["bookie_refused"], answers={"b2": "refused"}
    )
    assert ((0, 1), (0, 0)) == (harms(ledger, "b1"), harms(ledger, "b2"))


def test_a_bookie_that_lacks_everything_leaves_no_possible_copy():
    """It answered that it has no entry: the other bookie has the last copy."""
    assert (1, 0) == harms(Ledger(1, [(0, ["b1", "b2"])], 9, lacks={"b2": set(range(10))}), "b1")


def test_copies_that_nothing_explains_make_all_doubtful():
    """A bookie listed an entry whose digest is wrong, for example, and any copy may be that one."""
    ledger = Ledger(1, [(0, ["b1", "b2", "b3"])], 9, 3, unknowns=["answer_invalid"], unexplained=1)
    assert ((0, 1), (0, 1)) == (harms(ledger, "b1"), harms(ledger, "b1", "b2"))


def test_the_newest_answer_of_a_bookie_counts():
    """b1 was silent at first and listed at the second look; b2 listed at first and was silent
    then.
    """
    ledger = Ledger(1, [(0, ["b1", "b2"])], 9, answers={"b2": "timed_out"})
    older: list[dict[str, object]] = [
        {"ledger_id": 1, "bookie_id": "b1", "look": 1, "status": "silent"},
        {"ledger_id": 1, "bookie_id": "b2", "look": 1, "status": "held"},
    ]
    copies = store_copies([ledger], older)
    assert [0, 1] == [
        losses_without(copies, {bookie}).may_have_no_copy.ledgers for bookie in ("b2", "b1")
    ]


def test_a_bookie_that_cannot_list_is_doubtful_only_if_nothing_else_explains_the_gap():
    """b3 was silent, and only its copies are unconfirmed: the entries read on b2 stand for its
    copies.
    """
    ledger = Ledger(1, [(0, ["b1", "b2", "b3"])], 9, 3, answers={"b3": "silent"})
    (row,) = ({"ledger_id": 1, "bookie_id": "b2", "look": 3, "status": "unsupported"},)
    copies = store_copies([ledger], [row])
    assert 0 == losses_without(copies, {"b1", "b3"}).may_have_no_copy.ledgers
    unprobed = store_copies(
        [Ledger(1, [(0, ["b1", "b2", "b3"])], 9, 3, answers={"b2": "unsupported", "b3": "silent"})]
    )
    assert 1 == losses_without(unprobed, {"b1", "b3"}).may_have_no_copy.ledgers


def test_a_short_segment_counts_only_the_write_sets_it_uses():
    """The only entry is on b1 and b2. b3 has no copy, though the ensemble names it."""
    copies = store_copies([Ledger(1, [(0, ["b1", "b2", "b3"])], 0, write_quorum=2, ack_quorum=1)])
    assert 0 == losses_without(copies, {"b2", "b3"}).no_copy.ledgers
    assert 1 == losses_without(copies, {"b1", "b2"}).no_copy.ledgers


def test_the_newest_look_counts():
    """Auto-recovery moved all three ledgers between two looks. Each counts once."""
    moved = [Ledger(n, [(0, ["b3", "b4"])], 5, look=2) for n in (1, 2, 3)]
    copies = store_copies([*moved, *(Ledger(n, [(0, ["b1", "b2"])], 5) for n in (2, 3, 1))])
    assert [1, 2, 3] == copies.ledger_ids.tolist()
    assert (0, 3) == tuple(
        losses_without(copies, down).no_copy.ledgers for down in ({"b1", "b2"}, {"b3", "b4"})
    )


@pytest.mark.parametrize(
    "change",
    [
        {"state": "OPEN"},
        {"status": "gone"},
        {"last": -1},
        {"status": "malformed"},
        {"status": "gone", "state": None},
    ],
)
def test_only_closed_ledgers_with_entries_count(change: dict[str, object]):
    """The writer of an open ledger replaces lost bookies, and a deleted ledger has nothing to
    lose.
    """
    ledger = Ledger(1, [(0, ["b1", "b2"])], 5)
    for name, value in change.items():
        setattr(ledger, name, value)
    assert 0 == len(store_copies([ledger]).ledger_ids)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 0),
        ({"state": "OPEN", "last": None}, 0),
        ({"status": "gone", "state": None, "last": None}, 0),
        ({"last": -1}, 0),
        ({"status": "malformed", "state": None, "last": None}, 1),
        ({"status": "unreadable", "state": None, "last": None}, 1),
        ({"status": "not_authorised", "state": None, "last": None}, 1),
        ({"last": None}, 1),
        ({"last": -2}, 1),
    ],
)
def test_a_ledger_is_unread_where_its_metadata_does_not_say_what_it_would_lose(
    change: dict[str, object], expected: int
):
    """It could not be read or decoded at the last look, or is closed without a valid last entry."""
    first = metadata_rows([Ledger(1, [(0, ["b1", "b2"])], 5)])
    last = [one | {"look": 2, **_columns(change)} for one in first]
    copies = promised_copies(rows(LEDGERS, LEDGER_COLUMNS, [*last, *first]))
    assert (expected, 0 if change else 1) == (copies.unread, len(copies.ledger_ids))


def _columns(change: dict[str, object]) -> dict[str, object]:
    return {"last_entry_id" if name == "last" else name: value for name, value in change.items()}


def test_the_ids_of_a_loss_are_bounded():
    """The first SHOWN_IDS_MAX are named, and all are counted."""
    copies = store_copies([Ledger(n, [(0, ["b1", "b2"])], 5) for n in range(SHOWN_IDS_MAX + 5)])
    lost = losses_without(copies, {"b1", "b2"}).no_copy
    assert (SHOWN_IDS_MAX + 5, tuple(range(SHOWN_IDS_MAX))) == (lost.ledgers, lost.ids)


def test_metadata_that_contradicts_itself_promises_nothing_that_could_be_counted():
    """The ledger is unread, and the next one is judged as if it were alone."""
    odd = Ledger(1, [(0, ["b1", "b2"])], 5, write_quorum=3)
    sound = Ledger(2, [(0, ["b1", "b2"]), (4, ["b2", "b3"])], 5)
    copies = store_copies([odd, sound])
    assert (1, [2]) == (copies.unread, copies.ledger_ids.tolist())
    assert {2: 1} == copies_of_worst_entry(copies)
    assert [True] == ledgers_in_order(copies).tolist()


def test_what_contradicts_itself_is_what_the_first_checker_says_does():
    """Of closed ledgers with drawn numbers, in one table, each with a contradiction is unread, and
    no other.
    """
    draw = random.Random(5)
    drawn = {number: closed_metadata(draw) for number in range(DRAWN_LEDGERS)}
    drawn[DRAWN_LEDGERS - 1] = replace(drawn[DRAWN_LEDGERS - 1], segments=())
    records = [
        LedgerRecord(number, 1, 0, RecordStatus.FOUND, metadata=one)
        for number, one in drawn.items()
    ]
    stored = pa.Table.from_batches(table(LEDGERS, [ledger_row(record)]) for record in records)
    sound = [number for number, one in drawn.items() if not contradictions(one)]
    assert DRAWN_LEDGERS // 10 < len(sound) < DRAWN_LEDGERS - DRAWN_LEDGERS // 10
    copies = promised_copies(stored.select(LEDGER_COLUMNS))
    assert DRAWN_LEDGERS - len(sound) == copies.unread
    with_entries = [number for number in sound if (drawn[number].last_entry_id or 0) >= 0]
    assert with_entries == copies.ledger_ids.tolist()


def closed_metadata(draw: random.Random) -> LedgerMetadata:
    """Return metadata of a closed ledger, of which each number is right more often than wrong."""
    size = draw.choice([0, 2, 3, 3, 3])
    write = draw.choice([size, size, size - 1, size + 1])
    firsts = [draw.choice([0, 0, 0, 0, 1]), *draw.sample([0, 2, 4, 6, 8], draw.choice([0, 1, 2]))]
    if draw.random() < 0.8:
        firsts.sort()
    sizes = [draw.choice([size] * 9 + [2]) for _ in firsts]
    return LedgerMetadata(
        format_version=3,
        state=LedgerState.CLOSED,
        ensemble_size=size,
        write_quorum=write,
        ack_quorum=draw.choice([write, write, write - 1, write + 1]),
        last_entry_id=draw.choice([None, -2, -1, 5, 8, 9, 9, 9]),
        length=0,
        segments=tuple(
            Segment(first, tuple(BOOKIES[:count]))
            for first, count in zip(firsts, sizes, strict=True)
        )[draw.choice([0] * 9 + [9]) :],
    )


def test_promised_copies_are_counted_by_position_and_none_is_doubted():
    """`begun` counts the write sets that begin at each position of the ensemble. The ledgers have
    ensembles of two sizes.
    """
    ledgers = [
        Ledger(1, [(0, ["b4", "b5", "b6"]), (1, ["b1", "b2", "b3"])], 10),
        Ledger(2, [(0, ["b4", "b1"]), (3, ["b4", "b2"])], 3),
    ]
    copies = promised_copies(rows(LEDGERS, LEDGER_COLUMNS, metadata_rows(ledgers)))
    begun = [block.begun(copies.ends[block.patterns]).tolist() for block in copies.segments]
    assert [[[2, 1], [0, 1]], [[1, 0, 0], [3, 4, 3]]] == begun
    assert not any(block.doubtful.any() or block.absent.any() for block in copies.segments)


@pytest.mark.parametrize("seed", range(3))
def test_ledgers_that_share_a_pattern_lose_what_each_of_them_loses(seed: int):
    """There are far fewer patterns than ledgers. Those of one segment without doubts share them."""
    draw = random.Random(seed)
    ledgers = [draw_ledger(draw, number) for number in range(DRAWN_LEDGERS)]
    shared = store_copies(ledgers)
    tables = (
        rows(LEDGERS, LEDGER_COLUMNS, metadata_rows(ledgers)),
        rows(VERDICTS, VERDICT_COLUMNS, [one.verdict() for one in ledgers if one.has_verdict]),
    )
    said = [
        {
            "ledger_id": one.id,
            "bookie_id": bookie,
            "look": 2,
            "status": one.answers.get(bookie, "held"),
        }
        for one in ledgers
        for bookie in BOOKIES
    ]
    own = with_doubts(promised_copies(tables[0]), tables[1], rows(ANSWERS, ANSWER_COLUMNS, said))
    assert own.ledger_ids.tolist() == shared.ledger_ids.tolist()
    assert own.pattern_count == len(own.ledger_ids) > shared.pattern_count
    for down in ([], ["b1"], ["b1", "b2"], BOOKIES[:4]):
        assert losses_without(own, down) == losses_without(shared, down)
    assert exposure_by_bookie(own) == exposure_by_bookie(shared)
    assert copies_of_worst_entry(own) == copies_of_worst_entry(shared)
    assert count_by_bookie(own) == count_by_bookie(shared)
    assert [bytes_on(own, {b}) for b in BOOKIES] == [bytes_on(shared, {b}) for b in BOOKIES]


def test_patterns_are_shared_by_ledgers_with_the_same_doubts_alone():
    """Ledgers 1 to 4 have the same ensemble. b1 did not answer of 3, and b2 lacks all of 4."""
    ensemble = [(0, ["b1", "b2"])]
    ledgers = [
        Ledger(1, ensemble, 9),
        Ledger(2, ensemble, 5),
        Ledger(3, ensemble, 9, answers={"b1": "silent"}),
        Ledger(4, ensemble, 9, lacks={"b2": set(range(10))}),
    ]
    copies = store_copies(ledgers)
    assert [[1, 2], [3], [4]] == [
        copies.ledger_ids[copies.patterns == number].tolist() for number in range(3)
    ]
    lost = losses_without(copies, {"b2"})
    assert ((), (3,)) == (lost.no_copy.ids, lost.may_have_no_copy.ids)


@pytest.mark.parametrize("seed", range(3))
def test_copies_are_counted_by_bookie_as_one_by_one(seed: int):
    """A bookie that lacks an entry of a ledger, or gave no valid answer, has no sure copy of it."""
    draw = random.Random(seed)
    print("seed", seed)
    ledgers = [draw_ledger(draw, number) for number in range(40)]
    ledgers = [replace(one, unexplained=0, has_verdict=True, has_counts=True) for one in ledgers]
    ledgers = [one for one in ledgers if not one.unknowns and one.state == "CLOSED"]
    promised, confirmed = Counter[str](), Counter[str]()
    for ledger in ledgers:
        for write_set in ledger.write_sets().values():
            promised.update(set(write_set))
        for bookie in BOOKIES:
            held = {e for e, bookies in ledger.write_sets().items() if bookie in bookies}
            if bookie not in ledger.answers and not held & ledger.lacks.get(bookie, set()):
                confirmed[bookie] += len(held)
    counted = count_by_bookie(store_copies(ledgers))
    assert {b: (promised[b], confirmed[b]) for b in counted} == counted
    assert sum(promised.values()) > sum(confirmed.values()) > 0


def test_a_ledger_is_in_order_where_each_entry_has_a_sure_copy():
    """One sure copy is enough. A doubtful or lacking copy does not count."""
    silent = {"b1": "silent", "b2": "silent"}
    ledgers = [
        Ledger(1, [(0, ["b1", "b2"])], 5, answers={"b1": "silent"}),
        Ledger(2, [(0, ["b1", "b2"])], 5, answers=silent),
        Ledger(3, [(0, ["b1", "b2"])], 5, lacks={"b1": set(range(6)), "b2": set(range(6))}),
        Ledger(4, [(0, ["b1", "b2"])], 5),
    ]
    assert [True, False, False, True] == ledgers_in_order(store_copies(ledgers)).tolist()


def test_bookies_without_a_loss_are_left_out():
    """Ledger 2 survives the loss of b2 or of b3. Only b1 is exposed."""
    exposure = exposure_by_bookie(
        store_copies([Ledger(1, [(0, ["b1"])], 5, 1, 1), Ledger(2, [(0, ["b2", "b3"])], 5, 2, 1)])
    )
    assert ({"b1": 1}, {"b1": 1}) == (exposure.no_copy, exposure.below_ack)


def test_a_cluster_of_one_bookie_loses_everything_with_it():
    """A doubt about one ledger does not affect the others."""
    ledgers = [
        Ledger(n, [(0, ["b1"])], 5, 1, 1, answers={"b1": "silent"} if n == 2 else {})
        for n in (1, 2, 3)
    ]
    copies = store_copies(ledgers)
    assert {"b1": 3} == exposure_by_bookie(copies).no_copy
    assert [True, False, True] == ledgers_in_order(copies).tolist()


def test_what_explains_a_part_of_the_gap_leaves_the_others_in_doubt():
    """b2 was silent, and one more copy is not confirmed: it may be on b1 or on b3."""
    ledger = Ledger(1, [(0, ["b1", "b2", "b3"])], 9, 3, answers={"b2": "silent"}, unexplained=1)
    assert (0, 1) == harms(ledger, "b3")


def test_answers_for_other_ledgers_and_bookies_doubt_no_copy():
    """The silence of a bookie counts only for closed ledgers that name it."""
    opened = Ledger(
        2, [(0, ["b5", "b6"])], 5, state="OPEN", answers={"b5": "silent"}, lacks={"b6": {1}}
    )
    gap = Ledger(1, [(0, ["b1", "b2", "b3"])], 9, 3, answers={"b3": "silent"}, lacks={})
    older: list[dict[str, object]] = [
        {"ledger_id": 1, "bookie_id": "b6", "look": 3, "status": "silent"},
        {"ledger_id": 2, "bookie_id": "b2", "look": 3, "status": "silent"},
    ]
    copies = store_copies([gap, opened], older)
    assert 0 == losses_without(copies, {"b1", "b3"}).may_have_no_copy.ledgers
    assert {} == exposure_by_bookie(copies).may_have_no_copy


def test_a_run_without_ledgers_has_nothing_to_lose():
    """Empty tables are not an error."""
    copies = store_copies([])
    assert 0 == losses_without(copies, {"b1"}).no_copy.ledgers
    assert {} == exposure_by_bookie(copies).no_copy == copies_of_worst_entry(copies)
