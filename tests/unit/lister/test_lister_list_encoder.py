"""Lists encoded while their runs come in."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import nullcontext

import pytest

from auditor.lister import ledger_lists
from auditor.lister.ledger_lists import AnswerTooLong, ListEncoder
from auditor.model.availability import SequenceGroup
from auditor.wire.entry_availability import (
    GROUP_BYTES,
    HEADER_BYTES,
    canonical,
    decode,
    encode_runs,
    groups_of,
)

BYTES_MAX = 2**26
GROUPS_MAX = 10**7
SEED = 7


def encoded(runs: list[tuple[int, int]], portion: int) -> bytes:
    """What becomes of the runs when they come in portions."""
    encoder = ListEncoder(BYTES_MAX)
    for start in range(0, len(runs), portion):
        encoder.add_runs(runs[start : start + portion])
    return encoder.payload()


def random_runs(count: int, seed: int) -> list[tuple[int, int]]:
    """Ascending runs, some of them in progressions."""
    draw, at, runs = random.Random(seed), 0, []
    while len(runs) < count:
        step, size = draw.randint(2, 9), draw.randint(1, 3)
        for _ in range(draw.choice((1, 1, 2, 7, 40))):
            runs.append((at, size))
            at += size + step
    return runs


@pytest.mark.parametrize("portion", [1, 3, 1000])
def test_a_list_is_encoded_as_bookies_do(portion: int) -> None:
    """One group a run, in the order of the entries."""
    print("seed", SEED)
    runs = random_runs(500, SEED)
    assert encode_runs(runs) == encoded(runs, portion)


@pytest.mark.parametrize("portion", [1, 2, 3, 50, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_a_long_list_has_the_same_entries_in_periodic_groups(
    seed: int, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is cut while it comes in. It decodes to the canonical form of its runs."""
    print("seed", seed)
    monkeypatch.setattr(ledger_lists, "RUNS_MAX", 20)
    runs = random_runs(400, seed)
    payload = encoded(runs, portion)
    expected = canonical(groups_of(encode_runs(runs)[HEADER_BYTES:]))
    assert expected == decode(payload, GROUPS_MAX).groups
    assert len(payload) < len(encode_runs(runs))


def test_an_empty_list_is_a_header() -> None:
    """64 zero bytes, as a bookie sends for an empty ledger."""
    assert bytes(64) == ListEncoder(BYTES_MAX).payload()


def test_striped_entries_cost_their_groups_however_many_they_are() -> None:
    """Half a million runs of two: once they are too many for a list of runs, a few groups are held,
    and one is sent.
    """
    runs, portion = 500_000, ledger_lists.PENDING_MAX
    encoder = ListEncoder(BYTES_MAX)
    held = []
    for start in range(0, runs, portion):
        encoder.add_runs([(3 * number, 2) for number in range(start, min(runs, start + portion))])
        held.append(len(encoder.payload()))
    assert [(0, 3 * (runs - 1), 2, 3)] == list(groups_of(encoder.payload()[HEADER_BYTES:]))
    few = HEADER_BYTES + 4 * GROUP_BYTES
    assert all(size <= few for size in held[ledger_lists.RUNS_MAX // portion + 1 :])


def test_a_list_over_the_bound_is_refused() -> None:
    """Before more than one portion of runs beyond it is held."""
    encoder = ListEncoder(HEADER_BYTES + 10 * GROUP_BYTES)
    encoder.add_runs([(2 * number, 1) for number in range(10)])
    with pytest.raises(AnswerTooLong):
        encoder.add_runs([(20, 1)])


@pytest.mark.parametrize(("runs", "groups"), [(20, 20), (21, 1)])
def test_a_list_has_periodic_groups_from_one_run_too_many_on(
    runs: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the bound each run is a group, as bookies send it."""
    monkeypatch.setattr(ledger_lists, "RUNS_MAX", 20)
    payload = encoded([(3 * number, 2) for number in range(runs)], 7)
    assert HEADER_BYTES + groups * GROUP_BYTES == len(payload)


def test_the_bound_counts_every_group_of_a_long_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that may still change too: not one more than the bytes allow, and not one less."""
    monkeypatch.setattr(ledger_lists, "RUNS_MAX", 8)
    runs = [(number * number, 1) for number in range(2, 40)]
    size = len(encoded(runs, 5))
    for bytes_max, is_refused in ((size, False), (size - 1, True)):
        encoder = ListEncoder(bytes_max)
        for start in range(0, 35, 5):
            encoder.add_runs(runs[start : start + 5])
        with pytest.raises(AnswerTooLong) if is_refused else nullcontext():
            encoder.add_runs(runs[35:])


def test_what_is_final_is_not_packed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each portion costs its own runs and a few groups, however long the list is by then."""
    monkeypatch.setattr(ledger_lists, "RUNS_MAX", 20)
    given: list[int] = []
    whole = ledger_lists.canonical

    def watched(groups: Iterable[SequenceGroup]) -> bytes:
        kept = list(groups)
        given.append(len(kept))
        return whole(kept)

    monkeypatch.setattr(ledger_lists, "canonical", watched)
    encoded([(number * number, 1) for number in range(2, 300)], 5)
    assert (25, 9) == (given[0], max(given[1:]))
