"""A mute hides neither a worse finding nor another finding than the muted one."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from support.report_stories import changed, finding

from auditor.after.mutes import AMONG, GROWS, RANGES_MAX, STAYS, State, state_of, why_outgrown
from auditor.model.codec import encode
from auditor.model.finding import CATALOGUE, Kind
from auditor.model.finding_record import FindingRecord

KIND = Kind.ENTRY_BELOW_ACK_QUORUM


def loss(
    entries: list[list[int]],
    bookie: str = "b3",
    confirmed: int = 1,
    unknown: int = 0,
    **changes: Any,
) -> FindingRecord:
    """Return a finding: these entries of ledger 7 are missing on a bookie."""
    copies = {"write_quorum": 3, "ack_quorum": 2, "confirmed": confirmed, "unknown": unknown}
    total = sum(last - first + 1 for first, last in entries)
    given = {
        "entries": entries,
        "entries_total": total,
        "missing_on": {bookie: entries},
        "copies": copies,
    } | changes
    return finding(KIND, 7, **given)


MUTED = loss([[0, 9], [20, 29]], unknown=1)


def why(now: FindingRecord, muted: FindingRecord = MUTED) -> str:
    return why_outgrown(muted.kind, state_of(muted), now)


def test_the_same_finding_stays_muted_and_so_does_a_better_one():
    """Fewer entries or more copies are better."""
    for now in (MUTED, loss([[2, 4]], unknown=1), loss([[20, 29]], confirmed=2)):
        assert "" == why(now)


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (loss([[0, 9], [20, 30]], unknown=1), "it has 21 entries now and had 20"),
        (loss([[0, 9], [30, 39]], unknown=1), "it has entries that were not muted"),
        (loss([[5, 12]], unknown=1), "it has entries that were not muted"),
        (loss([[0, 9]], bookie="b4", unknown=1), "b4 lacks entries that it did not lack"),
        (loss([[0, 9]], confirmed=0, unknown=2), "an entry has 0 confirmed copies now and had 1"),
        (loss([[0, 9]], confirmed=1), "an entry has at most 1 copies now and had 2"),
        (loss([[0, 9]], copies=None), "its copies were not counted alike"),
        (
            finding(Kind.ENTRY_WITHOUT_REPLICA, 7),
            "it is ENTRY_WITHOUT_REPLICA now and was ENTRY_BELOW_ACK_QUORUM",
        ),
        (
            finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7),
            "it is ENTRY_BELOW_WRITE_QUORUM now and was ENTRY_BELOW_ACK_QUORUM",
        ),
    ],
)
def test_what_is_worse_or_another_one_outgrows_its_mute(now: dict[str, Any], says: str):
    """A sentence says what has changed."""
    assert says == why(now)


def test_a_finding_with_cut_ranges_is_muted_only_while_it_is_equal():
    """A finding stores RANGES_MAX ranges. The ranges that were cut off cannot be compared."""
    many = [[10 * n, 10 * n] for n in range(RANGES_MAX)]
    cut = loss(many, entries_total=500)
    assert "" == why(cut, cut)
    other = "its entries are not those that were muted"
    assert other == why(loss(many, entries_total=499), cut)
    assert other == why(loss([*many[1:], [900, 900]], entries_total=500), cut)
    assert other == why(cut, loss([[0, 1000]], entries_total=1001)), (
        "the ranges are cut now and were complete when it was muted"
    )


@pytest.mark.parametrize("kind", list(CATALOGUE), ids=str)
def test_each_fact_that_counts_is_one_of_its_kind_and_outgrows_the_mute(kind: Kind):
    """A misspelt name of a fact would never outgrow a mute."""
    subject = 7 if CATALOGUE[kind].subject.value == "ledger" else "b1"
    one = finding(kind, subject)
    assert "" == why(one, one)
    for name in GROWS[kind]:
        worse = changed(one, facts=one.facts.values | {name: (one.facts.values[name] or 0) + 1})
        assert name in why(worse, one)
    for name in STAYS[kind]:
        if kind is not Kind.METADATA_MALFORMED:
            assert name in one.facts.values
        assert name in why(changed(one, facts=one.facts.values | {name: "another"}), one)


@pytest.mark.parametrize("kind", list(AMONG), ids=str)
def test_what_a_finding_names_must_be_among_what_was_muted(kind: Kind):
    """A finding that names an item that was not muted is another one. Fewer items stay muted."""
    name, total, keys = AMONG[kind]
    one = finding(kind, 7 if CATALOGUE[kind].subject.value == "ledger" else "b1")
    item = one.facts.values[name][0]

    def with_items(*numbers: int, count: int | None = None) -> FindingRecord:
        items = [item | {keys[0]: f"n{number}"} if keys else number for number in numbers]
        counted = {name: items, total: len(numbers) if count is None else count}
        return changed(one, facts=one.facts.values | counted)

    assert "" == why(with_items(1, 2), with_items(1, 2, 3))
    assert "which was not muted" in why(with_items(1, 4), with_items(1, 2))
    assert "" == why(with_items(1, 2, count=50), with_items(1, 2, count=50))
    assert "others than those" in why(with_items(1, count=50), with_items(1, 2, count=50)), (
        "a finding that names only some of its items must be equal"
    )


def test_every_kind_has_its_facts_that_count():
    """Each kind in the catalogue is in both tables of facts."""
    assert set(GROWS) == set(STAYS) == set(CATALOGUE)


def test_a_mute_of_placement_is_for_its_ensemble():
    """Another ensemble that fails placement is another violation."""
    one = finding(Kind.PLACEMENT_FAILED, 7)
    other = changed(one, segment=one.fields["segment"] | {"ensemble": ["b7", "b8", "b9"]})
    assert "its ensemble is another one" == why(other, one)


@pytest.mark.parametrize("seed", range(5))
def test_a_mute_applies_only_to_entries_that_were_muted(seed: int):
    """Random ranges are compared with sets of their entries."""
    draw, applied = random.Random(seed), 0

    def ranges() -> list[list[int]]:
        cuts = sorted(draw.sample(range(60), 2 * draw.randint(1, 5)))
        return [[cuts[n], cuts[n + 1]] for n in range(0, len(cuts), 2)]

    def entries(some: list[list[int]]) -> set[int]:
        return {entry for first, last in some for entry in range(first, last + 1)}

    for _ in range(300):
        before, now = ranges(), ranges()
        if why(loss(now), loss(before)) == "":
            applied += 1
            assert entries(now) <= entries(before), f"seed {seed}"
    assert applied, f"seed {seed}: no mute applied"


def test_a_state_is_read_as_it_was_written():
    """Numbers and ranges that are wrong in the file are refused."""
    state = state_of(MUTED)
    assert state == State.from_json(encode(state))
    for wrong in (
        {"entries": [[3, 1]]},
        {"entries_total": "many"},
        {"missing_on": {"b": [[1]]}},
        {"stays": []},
        {"grows": {"a": "b"}},
    ):
        with pytest.raises((ValueError, TypeError)):
            State.from_json(encode(state) | wrong)


def test_a_state_may_have_a_single_entry_and_a_kind_without_a_list_has_no_items():
    """A range may begin and end with the same entry."""
    single = loss([[3, 3]])
    assert state_of(single) == State.from_json(encode(state_of(single)))
    assert ((), 0) == (state_of(single).among, state_of(single).among_total)


def test_a_copy_that_was_unknown_may_be_confirmed():
    """A finding with one unknown copy stays muted when that copy is confirmed."""
    assert "" == why(loss([[0, 9]], confirmed=1), loss([[0, 9]], confirmed=0, unknown=1))


def test_a_fact_that_a_mute_does_not_have_was_not_there():
    """The mute may have been written before the fact existed. Such a fact counts as 0."""
    failing = finding(Kind.BOOKIE_FAILING_REQUESTS, "b1")
    some = {"ledgers": 1, "some_ledgers": []}
    failing = changed(failing, facts=failing.facts.values | some)
    before = replace(state_of(failing), grows={})
    assert "ledgers is 1 now and was 0" == why_outgrown(
        Kind.BOOKIE_FAILING_REQUESTS, before, failing
    )
    unknown = changed(failing, facts=failing.facts.values | {"ledgers": 0})
    assert "" == why_outgrown(Kind.BOOKIE_FAILING_REQUESTS, before, unknown)


def test_entries_are_muted_in_any_ensemble():
    """The same entries are lost after a bookie of the ensemble was replaced."""
    other = changed(MUTED, segment=MUTED.fields["segment"] | {"ensemble": ["b7", "b8", "b9"]})
    assert "" == why(other)


@pytest.mark.parametrize("kind", [kind for kind, (_, _, keys) in AMONG.items() if keys], ids=str)
def test_what_a_finding_names_is_known_by_its_keys_alone(kind: Kind):
    """Other fields of an item may change from run to run."""
    name, _, keys = AMONG[kind]
    one = finding(kind, 7 if CATALOGUE[kind].subject.value == "ledger" else "b1")
    items = [{**item, "more": 1} for item in one.facts.values[name]]
    state = state_of(changed(one, facts=one.facts.values | {name: items}))
    assert [[item[key] for key in keys] for item in items] == list(state.among)
    assert all(isinstance(value, str) for item in state.among for value in item)
