"""Shards: ranges of ledger ids that a run goes through one by one."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from auditor.evidence import ids as shards_module
from auditor.evidence.ids import EVERYTHING, Shard, cut_shards
from auditor.model.identity import LEDGER_ID_MAX

SEED = 20260301


def listed(*ids: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(ids, pa.int64())])


@pytest.mark.parametrize("ids", [(), (5,), (0, LEDGER_ID_MAX)])
def test_few_ledgers_are_one_shard(ids: tuple[int, ...]):
    """No range at all is cut where one shard takes everything."""
    assert [EVERYTHING] == cut_shards(listed(*ids), 2)
    assert cut_shards(listed(*ids), 2)[0].is_all


def test_shards_are_nearly_equal_and_never_larger_than_allowed():
    """Seven ledgers, three a shard at most: 2, 2 and 3 of them, not 3, 3 and 1."""
    shards = cut_shards(listed(70, 10, 60, 20, 50, 30, 40), 3)
    assert [Shard(0, 0, 29), Shard(1, 30, 49), Shard(2, 50, LEDGER_ID_MAX)] == shards
    assert not any(shard.is_all for shard in shards)


def test_an_id_listed_twice_counts_once():
    """The listing may name a ledger twice; it goes through once."""
    assert [EVERYTHING] == cut_shards(listed(7, 7, 7, 8), 2)


def test_every_id_is_in_exactly_one_shard():
    """Also ids that are not listed, and those at the ends."""
    rng = random.Random(SEED)
    for _ in range(200):
        ids = [
            rng.choice([0, LEDGER_ID_MAX, rng.randrange(50), rng.randrange(LEDGER_ID_MAX)])
            for _ in range(rng.randrange(40))
        ]
        size = rng.randrange(1, 12)
        shards = cut_shards(listed(*ids), size)
        assert [0, *(one.last + 1 for one in shards[:-1])] == [one.first for one in shards], (
            f"seed {SEED}: {ids} by {size}"
        )
        assert LEDGER_ID_MAX == shards[-1].last
        within = [sum(one.first <= i <= one.last for i in set(ids)) for one in shards]
        assert len(set(ids)) == sum(within) and max(within) <= size, f"seed {SEED}: {ids} by {size}"
        assert list(range(len(shards))) == [one.number for one in shards]


def test_there_are_never_more_shards_than_the_bound(monkeypatch: pytest.MonkeyPatch):
    """Then they are larger than was asked for."""
    monkeypatch.setattr(shards_module, "SHARDS_MAX", 3)
    assert 3 == len(cut_shards(listed(*range(100)), 1))
