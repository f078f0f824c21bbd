"""A mute never hides a finding that is worse than the muted one, or another one."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from support.report_stories import finding

from auditor.model.finding import CATALOGUE, Kind
from auditor.summary.changes.mute_state import (
    AMONG,
    GROWS,
    RANGES_MAX,
    STAYS,
    State,
    state_of,
    why_outgrown,
)

KIND = Kind.ENTRY_BELOW_ACK_QUORUM


def loss(
    entries: list[list[int]],
    bookie: str = "b3",
    confirmed: int = 1,
    unknown: int = 0,
    **changes: Any,
) -> dict[str, Any]:
    """Entries of ledger 7 that a bookie lacks."""
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


def why(now: dict[str, Any], muted: dict[str, Any] = MUTED) -> str:
    return why_outgrown(Kind(muted["kind"]), state_of(muted), now)


def test_the_same_finding_stays_muted_and_so_does_a_better_one():
    """As bad as it was, or less: fewer entries, more copies."""
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
    """And the reason is a sentence."""
    assert says == why(now)


def test_of_a_finding_that_is_cut_only_its_equal_is_the_same():
    """With 20 ranges there may be more of them, which nobody can compare."""
    many = [[10 * n, 10 * n] for n in range(RANGES_MAX)]
    cut = loss(many, entries_total=500)
    assert "" == why(cut, cut)
    other = "its entries are not those that were muted"
    assert other == why(loss(many, entries_total=499), cut)
    assert other == why(loss([*many[1:], [900, 900]], entries_total=500), cut)
    assert other == why(cut, loss([[0, 1000]], entries_total=1001)), (
        "cut now, whole when it was muted"
    )


@pytest.mark.parametrize("kind", list(CATALOGUE), ids=str)
def test_each_fact_that_counts_is_one_of_its_kind_and_outgrows_the_mute(kind: Kind):
    """A misspelt fact would never count."""
    subject = 7 if CATALOGUE[kind].subject.value == "ledger" else "b1"
    one = finding(kind, subject)
    assert "" == why(one, one)
    for name in GROWS[kind]:
        worse = one | {"facts": one["facts"] | {name: (one["facts"][name] or 0) + 1}}
        assert name in why(worse, one)
    for name in STAYS[kind]:
        if kind is not Kind.METADATA_MALFORMED:
            assert name in one["facts"]
        assert name in why(one | {"facts": one["facts"] | {name: "another"}}, one)


@pytest.mark.parametrize("kind", list(AMONG), ids=str)
def test_what_a_finding_names_must_be_among_what_was_muted(kind: Kind):
    """As many ledgers, but another one: it is not the finding that somebody accepted. Fewer of them
    are.
    """
    name, total, keys = AMONG[kind]
    one = finding(kind, 7 if CATALOGUE[kind].subject.value == "ledger" else "b1")
    item = one["facts"][name][0]

    def naming(*numbers: int, count: int | None = None) -> dict[str, Any]:
        items = [item | {keys[0]: f"n{number}"} if keys else number for number in numbers]
        return one | {
            "facts": one["facts"] | {name: items, total: len(numbers) if count is None else count}
        }

    assert "" == why(naming(1, 2), naming(1, 2, 3))
    assert "which was not muted" in why(naming(1, 4), naming(1, 2))
    assert "" == why(naming(1, 2, count=50), naming(1, 2, count=50))
    assert "others than those" in why(naming(1, count=50), naming(1, 2, count=50)), (
        "some of them are not named"
    )


def test_every_kind_has_its_facts_that_count():
    """None is forgotten: its entries, copies and kind count in any case."""
    assert set(GROWS) == set(STAYS) == set(CATALOGUE)


def test_placement_is_of_its_ensemble():
    """An ensemble that was replaced is another violation."""
    one = finding(Kind.PLACEMENT_FAILED, 7)
    other = one | {"segment": one["segment"] | {"ensemble": ["b7", "b8", "b9"]}}
    assert "its ensemble is another one" == why(other, one)


@pytest.mark.parametrize("seed", range(5))
def test_a_mute_of_more_entries_never_applies_to_others(seed: int):
    """Against sets of entries: it applies only where each entry was muted."""
    draw = random.Random(seed)
    print("seed", seed)

    def ranges() -> list[list[int]]:
        cuts = sorted(draw.sample(range(60), 2 * draw.randint(1, 5)))
        return [[cuts[n], cuts[n + 1]] for n in range(0, len(cuts), 2)]

    def entries(some: list[list[int]]) -> set[int]:
        return {entry for first, last in some for entry in range(first, last + 1)}

    for _ in range(300):
        before, now = ranges(), ranges()
        if why(loss(now), loss(before)) == "":
            assert entries(now) <= entries(before)


def test_a_state_is_read_as_it_was_written():
    """From the file, whose numbers and ranges are checked."""
    state = state_of(MUTED)
    assert state == State.from_json(state.as_json())
    for wrong in (
        {"entries": [[3, 1]]},
        {"entries_total": "many"},
        {"missing_on": {"b": [[1]]}},
        {"stays": []},
        {"grows": {"a": "b"}},
    ):
        with pytest.raises((ValueError, TypeError)):
            State.from_json(state.as_json() | wrong)


def test_a_state_may_have_a_single_entry_and_a_kind_without_a_list_has_no_items():
    """A range of one entry is a range."""
    single = loss([[3, 3]])
    assert state_of(single) == State.from_json(state_of(single).as_json())
    assert ([], 0) == (state_of(single).among, state_of(single).among_total)


def test_a_copy_that_was_unknown_may_be_confirmed():
    """None was confirmed, one may have been there: now it is."""
    assert "" == why(loss([[0, 9]], confirmed=1), loss([[0, 9]], confirmed=0, unknown=1))


def test_a_fact_that_a_mute_does_not_have_was_not_there():
    """A state that was written before the fact was counted."""
    failing = finding(Kind.BOOKIE_FAILING_REQUESTS, "b1")
    failing["facts"] |= {"ledgers": 1, "some_ledgers": []}
    before = replace(state_of(failing), grows={})
    assert "ledgers is 1 now and was 0" == why_outgrown(
        Kind.BOOKIE_FAILING_REQUESTS, before, failing
    )
    unknown = failing | {"facts": failing["facts"] | {"ledgers": 0}}
    assert "" == why_outgrown(Kind.BOOKIE_FAILING_REQUESTS, before, unknown)


def test_entries_are_muted_in_any_ensemble():
    """A bookie that was replaced does not change which entries lack."""
    other = MUTED | {"segment": MUTED["segment"] | {"ensemble": ["b7", "b8", "b9"]}}
    assert "" == why(other)


@pytest.mark.parametrize("kind", [kind for kind, (_, _, keys) in AMONG.items() if keys], ids=str)
def test_what_a_finding_names_is_known_by_its_keys_alone(kind: Kind):
    """What else is said of it may change from run to run."""
    name, _, keys = AMONG[kind]
    one = finding(kind, 7 if CATALOGUE[kind].subject.value == "ledger" else "b1")
    changed = [{**item, "more": 1} for item in one["facts"][name]]
    state = state_of(one | {"facts": one["facts"] | {name: changed}})
    assert [[item[key] for key in keys] for item in changed] == state.among
    assert all(isinstance(value, str) for item in state.among for value in item)
