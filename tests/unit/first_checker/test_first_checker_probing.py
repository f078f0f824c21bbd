"""Which entries are probed on a bookie that cannot list, and what the probes prove."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from itertools import combinations

import pytest
from support.entry_by_entry import expected_on
from support.stories import LEDGER, NOW_MS

from auditor.first_checker.coverage import Coverage, coverage
from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.probing import (
    REASON_OF_READ,
    SEGMENT_ENDS_MAX,
    ProbePlan,
    missing_bound,
    plan_probes,
)
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerMetadata
from auditor.model.verdict import BookieLack, Probes, Unknown
from auditor.sandbox.cluster import ledger

PRESENT, NO_ENTRY, NO_LEDGER, CORRUPT = (
    ReadStatus.PRESENT,
    ReadStatus.NO_ENTRY,
    ReadStatus.NO_LEDGER,
    ReadStatus.CORRUPT,
)
PLAN = ProbePlan(LEDGER, 3, seed=11)
ONE = ledger("e1 w1 0:[b1] closed 99")


def shares(*spans: tuple[int, int]) -> list[EntrySet]:
    return [EntrySet.span(first, last) for first, last in spans]


def unsupported(*bookies: str) -> dict[str, Answer]:
    return {b: Answer(b, LEDGER, 1, NOW_MS, AnswerStatus.UNSUPPORTED) for b in bookies}


def probes_of(
    metadata: LedgerMetadata, bookie: str = "b1", plan: ProbePlan = PLAN
) -> tuple[int, ...]:
    """Return everything that is planned for the bookie."""
    return coverage(metadata, unsupported(bookie), {}, probing=plan).probed[bookie].planned.all


Reads = dict[tuple[str, int], EntryRead]


def reads_on(bookie: str, said: dict[int, ReadStatus], look: int = 1) -> Reads:
    return {
        (bookie, e): EntryRead(bookie, LEDGER, e, look, NOW_MS, status)
        for e, status in said.items()
    }


def judged(said: dict[int, ReadStatus], metadata: LedgerMetadata = ONE, **later: Reads) -> Coverage:
    """Judge a ledger of which b1 cannot list; its planned probes all read back unless `said`
    differs.
    """
    reads = reads_on("b1", {**dict.fromkeys(probes_of(metadata), PRESENT), **said})
    for more in later.values():
        reads |= more
    return coverage(metadata, unsupported("b1"), reads, probing=PLAN)


def absent(found: Coverage) -> set[int]:
    """Return every entry that is absent on some bookie."""
    return _entries(share.absent for one in found.extents for share in one.shares)


def unknown(found: Coverage) -> set[int]:
    """Return every entry that is unknown on some bookie."""
    return _entries(share.unknown for one in found.extents for share in one.shares)


def _entries(sets: Iterable[EntrySet]) -> set[int]:
    return {entry for one in sets for first, last in one.runs() for entry in range(first, last + 1)}


# What is probed


def test_the_ends_of_each_segment_are_probed_and_a_sample_of_the_rest() -> None:
    """The ends are the first and last entry expected of the bookie in each segment, so both sides
    of each ensemble change.
    """
    found = plan_probes(PLAN, "b1", shares((0, 9), (20, 29), (50, 50)))
    assert (0, 9, 20, 29, 50) == found.ends
    assert 3 == len(found.random) == len(set(found.random) - set(found.ends))
    assert all(0 <= e <= 9 or 20 <= e <= 29 for e in found.random)


def test_the_ends_are_those_of_the_bookies_own_stripe() -> None:
    """E=3 W=1: the second bookie's first entry is not that of the segment."""
    metadata = ledger("e3 w1 0:[b1 b2 b3] 10:[b1 b2 b4] closed 19")
    mine = sorted(expected_on(metadata)["b2"])
    assert {1, 7, 10, 19} == {
        mine[0],
        max(e for e in mine if e < 10),
        min(e for e in mine if e >= 10),
        mine[-1],
    }
    found = coverage(metadata, unsupported("b2"), {}, probing=PLAN).probed["b2"].planned
    assert (1, 7, 10, 19) == found.ends
    assert set(found.random) == set(mine) - {1, 7, 10, 19}


def test_a_small_share_is_probed_whole() -> None:
    """The entries between the ends are sampled without replacement, until none is left."""
    for entries in (3, 4, 100):
        assert (0, 4, 1, 2, 3) == plan_probes(
            ProbePlan(LEDGER, entries, 0), "b1", shares((0, 4))
        ).all
    assert (7,) == plan_probes(PLAN, "b1", shares((7, 7))).all
    assert () == plan_probes(PLAN, "b1", []).all


def test_the_sample_is_the_same_for_whoever_judges_again() -> None:
    """Seed, ledger and bookie determine it, each of them. It stays the same: later versions replay
    stored runs.
    """
    wants = shares((0, 10**6))
    assert (171_917, 366_659, 630_351) == plan_probes(PLAN, "b1", wants).random
    others = (
        plan_probes(ProbePlan(LEDGER, 3, 12), "b1", wants),
        plan_probes(ProbePlan(LEDGER + 1, 3, 11), "b1", wants),
        plan_probes(PLAN, "b2", wants),
    )
    assert 4 == len({plan_probes(PLAN, "b1", wants).random, *(other.random for other in others)})


def test_each_choice_of_entries_is_as_likely() -> None:
    """Over many seeds each pair out of six is drawn about as often (chi square, 14 degrees of
    freedom, p = 0.0001).
    """
    pairs = list(combinations(range(1, 7), 2))
    drawn = Counter(
        plan_probes(ProbePlan(LEDGER, 2, seed), "b1", shares((0, 7))).random
        for seed in range(6_000)
    )
    assert set(pairs) == set(drawn)
    mean = 6_000 / len(pairs)
    assert sum((drawn[pair] - mean) ** 2 / mean for pair in pairs) < 42.6


def test_an_exabyte_of_entries_costs_no_more() -> None:
    """Stripes are never enumerated."""
    metadata = ledger(f"e5 w2 0:[b1 b2 b3 b4 b5] closed {2**62}")
    found = (
        coverage(metadata, unsupported("b3"), {}, probing=ProbePlan(LEDGER, 50, 1))
        .probed["b3"]
        .planned
    )
    assert 50 == len(set(found.random))
    assert all((2 - e) % 5 < 2 for e in found.all)


def test_ends_are_bounded_and_those_of_the_ledger_are_always_among_them() -> None:
    """Of thousands of segments a seeded choice of ends is probed; another seed gives another
    choice.
    """
    wants = shares(*((10 * n, 10 * n + 5) for n in range(3_000)))
    some, others = (plan_probes(ProbePlan(LEDGER, 3, seed), "b1", wants) for seed in (1, 2))
    ends = {end for want in wants for end in (want.first(), want.last())}
    assert SEGMENT_ENDS_MAX == len(some.ends) == len(set(some.ends))
    assert set(some.ends) <= ends
    assert (0, 29_995) == (some.ends[0], some.ends[-1])
    assert sorted(some.ends) == list(some.ends)
    assert some.ends != others.ends
    assert 3 == len(some.random)


def test_the_ends_chosen_of_many_are_those_of_one_bookie_and_one_ledger() -> None:
    """Another bookie, ledger or seed has others, so that together they cover more ensemble
    changes.
    """
    wants = shares(*((10 * n, 10 * n + 5) for n in range(3_000)))
    plans = (PLAN, ProbePlan(LEDGER + 1, 3, 11), ProbePlan(LEDGER, 3, 12))
    assert 4 == len(
        {
            plan_probes(PLAN, "b2", wants).ends,
            *(plan_probes(plan, "b1", wants).ends for plan in plans),
        }
    )


def test_the_ends_chosen_are_the_same_for_whoever_judges_again() -> None:
    """Two of 130 ends are left out, always the same ones: later versions replay stored runs."""
    wants = shares(*((10 * n, 10 * n + 5) for n in range(65)))
    ends = {end for want in wants for end in (want.first(), want.last())}
    assert {550, 605} == ends - set(plan_probes(PLAN, "b1", wants).ends)


def test_one_entry_is_sampled_where_one_is_allowed() -> None:
    """One sampled entry is the smallest sample."""
    assert ProbePlan(LEDGER, 1, 0) == ProbePlan.of(Terms(NOW_MS, 0, 16, 5, probe_entries=1), LEDGER)


def test_nothing_is_probed_where_the_terms_say_so() -> None:
    """With probe_entries 0 the bookie stays unknown."""
    assert ProbePlan.of(Terms(NOW_MS, 0, 16, 5), LEDGER) is None
    assert ProbePlan(LEDGER, 4, 9) == ProbePlan.of(
        Terms(NOW_MS, 0, 16, 5, probe_entries=4, probe_seed=9), LEDGER
    )
    found = coverage(ONE, unsupported("b1"), {})
    assert ((Unknown.BOOKIE_UNSUPPORTED,), None, {}) == (found.unknowns, found.probes, found.probed)


# What the probes prove


def test_before_its_probes_are_made_a_bookie_is_unknown() -> None:
    """This also holds if all probes but one are made: the ledger is never sound before."""
    assert (set(range(100)), (Unknown.BOOKIE_UNSUPPORTED,)) == (
        unknown(found := coverage(ONE, unsupported("b1"), {}, probing=PLAN)),
        found.unknowns,
    )
    *made, last = probes_of(ONE)
    reads = reads_on("b1", dict.fromkeys(made, PRESENT))
    found = coverage(ONE, unsupported("b1"), reads, probing=PLAN)
    assert (set(range(100)) - set(made), (Unknown.BOOKIE_UNSUPPORTED,)) == (
        unknown(found),
        found.unknowns,
    )
    assert last in unknown(found)


def test_when_every_probe_is_there_nothing_is_absent_and_nothing_unknown() -> None:
    """The rest is assumed to be held; the verdict has how much was read."""
    found = judged({})
    assert (set(), set(), ()) == (absent(found), unknown(found), found.unknowns)
    assert Probes(read=5, random=3) == found.probes
    assert () == found.lacks


def test_an_unknown_ledger_is_proof_for_all_of_it() -> None:
    """One ENOLEDGER without a contrary word makes every entry absent, whatever else failed or was
    not asked yet.
    """
    for said in (
        {0: NO_LEDGER, 99: ReadStatus.TIMED_OUT},
        dict.fromkeys(probes_of(ONE), NO_LEDGER),
    ):
        found = coverage(ONE, unsupported("b1"), reads_on("b1", said), probing=PLAN)
        assert (set(range(100)), set(), ()) == (absent(found), unknown(found), found.unknowns)
    assert (BookieLack("b1", 100, 100),) == found.lacks


def test_an_entry_that_is_not_there_is_absent_and_the_rest_is_not() -> None:
    """ENOENTRY is about one entry."""
    found = judged({99: NO_ENTRY})
    assert ({99}, set(), ()) == (absent(found), unknown(found), found.unknowns)
    assert (BookieLack("b1", 100, 1),) == found.lacks
    assert Probes(5, 3) == found.probes
    assert (99,) == found.read_absent


@pytest.mark.parametrize("status", sorted(REASON_OF_READ))
def test_a_probe_that_failed_leaves_that_entry_unknown(status: ReadStatus) -> None:
    """The entry is unknown for the read's reason. A corrupt copy was answered, but is not a
    copy.
    """
    found = judged({0: status})
    assert ({0}, set(), (REASON_OF_READ[status],)) == (
        unknown(found),
        absent(found),
        found.unknowns,
    )
    assert Probes(5 if status is CORRUPT else 4, 3) == found.probes
    assert ((("b1", 0),) if status is CORRUPT else ()) == found.corrupt


@pytest.mark.parametrize("status", sorted(REASON_OF_READ))
def test_when_no_probe_was_conclusive_the_whole_bookie_is_unknown(status: ReadStatus) -> None:
    """Nothing is assumed of a bookie that returned no entry."""
    found = judged(dict.fromkeys(probes_of(ONE), status))
    assert (set(range(100)), set(), (REASON_OF_READ[status],)) == (
        unknown(found),
        absent(found),
        found.unknowns,
    )


def test_the_newest_look_decides_what_enoledger_speaks_of() -> None:
    """A copy that was restored since is there. A ledger that was lost since is gone, whatever was
    read before.
    """
    back = judged({}, later=reads_on("b1", {50: NO_LEDGER}, look=0))
    assert {50} == absent(back)
    lost = judged(
        {50: PRESENT}, later=reads_on("b1", dict.fromkeys(probes_of(ONE), NO_LEDGER), look=2)
    )
    assert set(range(100)) == absent(lost)
    torn = judged({0: NO_LEDGER})
    assert {0} == absent(torn), "both at one look: each speaks of its own entry"


def test_reads_of_entries_that_the_bookie_need_not_hold_say_nothing() -> None:
    """A read outside the bookie's stripe proves neither presence nor absence of what should be
    there.
    """
    metadata = ledger("e2 w1 0:[b1 b2] closed 9")
    reads = reads_on("b1", {1: NO_LEDGER, 3: CORRUPT})
    found = coverage(metadata, unsupported("b1"), reads, probing=PLAN)
    assert (set(), (), ()) == (absent(found), found.corrupt, found.read_absent)
    assert Probes(0, 0) == found.probes


def test_bookies_that_list_are_not_probed() -> None:
    """Only a bookie that said that it cannot list is probed; a silent one stays silent."""
    metadata = ledger("e3 w3 0:[b1 b2 b3] closed 9")
    said = {**unsupported("b1"), "b2": Answer("b2", LEDGER, 1, NOW_MS, AnswerStatus.NO_SUCH_LEDGER)}
    found = coverage(metadata, said, {}, probing=PLAN)
    assert {"b1"} == set(found.probed)
    assert (
        Unknown.BOOKIE_SILENT,
        Unknown.BOOKIE_UNSUPPORTED,
        Unknown.ANSWER_TIMEOUT,
    ) == found.unknowns


def test_a_bookie_that_should_hold_nothing_is_not_probed() -> None:
    """A bookie that should hold nothing has no entry to read."""
    assert (
        {}
        == coverage(
            ledger("e3 w1 0:[b1 b2 b3] closed 1"), unsupported("b3"), {}, probing=PLAN
        ).probed
    )


# The bound


@pytest.mark.parametrize(("probes", "bound"), [(0, 1.0), (1, 1.0), (3, 1.0), (6, 0.5), (300, 0.01)])
def test_the_bound_is_three_in_n_and_never_more_than_all(probes: int, bound: float) -> None:
    """The rule of three; without a probe nothing is known."""
    assert math.isclose(bound, missing_bound(probes))


def test_a_loss_larger_than_the_bound_is_nearly_always_noticed() -> None:
    """Of bookies that lost a share of missing_bound(n) at random, fewer than one in twenty return
    all n probes.
    """
    draw = random.Random(20_260_101)
    unnoticed = 0
    for seed in range(2_000):
        lost = set(draw.sample(range(1, 599), round(598 * missing_bound(30))))
        unnoticed += not lost & set(
            plan_probes(ProbePlan(LEDGER, 30, seed), "b1", shares((0, 599))).random
        )
    assert unnoticed / 2_000 < 0.05
