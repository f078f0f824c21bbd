"""The key of each lane: an integer that Spark's hash partitioning puts into the lane's partition.

Keys are found by hashing integers as Spark does. Asking Spark for their hashes takes a job, which
costs half a second of a small audit. A test keeps the two hashes equal.
"""

from __future__ import annotations

KEYS_TRIED_PER_LANE = 60
"""Integers hashed for each lane. A given lane gets none of them with a probability of e^-60."""

SPARK_SEED = 42
"""The seed of Spark's Murmur3Hash expression, by which it partitions."""


def lane_keys(lanes: int) -> list[int]:
    """Return, for each lane, an integer that Spark's hash partitioning puts there."""
    keys: dict[int, int] = {}
    for key in range(lanes * KEYS_TRIED_PER_LANE):
        keys.setdefault(spark_hash(key) % lanes, key)
        if len(keys) == lanes:
            break
    assert len(keys) == lanes, f"no key found for {lanes - len(keys)} of {lanes} lanes"
    return [keys[lane] for lane in range(lanes)]


def spark_hash(key: int) -> int:
    """Return the result of Spark's `hash` of an int: 32 bits of Murmur3 (Murmur3_x86_32.hashInt),
    signed.
    """
    mixed = _times(_rotate(_times(key, 0xCC9E2D51), 15), 0x1B873593)
    word = (_times(_rotate(SPARK_SEED ^ mixed, 13), 5) + 0xE6546B64) & _WORD
    word ^= 4  # the length of an int, in bytes
    word = _times(word ^ word >> 16, 0x85EBCA6B)
    word = _times(word ^ word >> 13, 0xC2B2AE35)
    word ^= word >> 16
    return word - (word >> 31 << 32)


_WORD = 2**32 - 1


def _times(word: int, factor: int) -> int:
    return (word & _WORD) * factor & _WORD


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD
