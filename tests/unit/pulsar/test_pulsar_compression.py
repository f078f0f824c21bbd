"""What Pulsar compressed is read back exactly, and damage is noticed, never passed on."""

from __future__ import annotations

import contextlib
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import MalformedMetadata
from auditor.pulsar.metadata import UNCOMPRESSED_BYTES_MAX, decompress

NONE, LZ4, ZLIB, ZSTD, SNAPPY = range(5)
PACK = {
    NONE: bytes,
    LZ4: lambda data: pa.Codec("lz4_raw").compress(data, asbytes=True),
    ZLIB: zlib.compress,
    ZSTD: lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    SNAPPY: lambda data: pa.Codec("snappy").compress(data, asbytes=True),
}
TEXTS = st.one_of(
    st.binary(max_size=400),
    st.builds(
        lambda part, times: part * times, st.binary(min_size=1, max_size=9), st.integers(1, 300)
    ),
)


@pytest.mark.parametrize("compression", PACK)
@given(data=TEXTS)
def test_what_was_compressed_comes_back(compression: int, data: bytes):
    """Each type that Pulsar writes; LZ4 as a raw block."""
    plain = decompress(compression, PACK[compression](data), len(data))
    assert (data, bytes) == (plain, type(plain))


@pytest.mark.parametrize("compression", PACK)
def test_large_values_with_distant_repetitions_come_back(compression: int):
    """Lengths and distances that take more than one byte."""
    part = b"".join(number.to_bytes(2, "big") for number in range(0, 60_000, 7))
    for data in (part + bytes(1_000) + part, bytes(128)):
        assert data == decompress(compression, PACK[compression](data), len(data))


@pytest.mark.parametrize("compression", PACK)
@pytest.mark.parametrize("more", [-1, 1, 1000])
def test_another_size_than_recorded_is_refused(compression: int, more: int):
    """Neither cut off nor filled up with what memory held."""
    data = b"a topic with some ledgers " * 100
    with pytest.raises(MalformedMetadata):
        decompress(compression, PACK[compression](data), len(data) + more)


@pytest.mark.parametrize("compression", PACK)
@pytest.mark.parametrize("size", [-1, UNCOMPRESSED_BYTES_MAX + 1])
def test_a_size_out_of_range_is_refused_before_memory_is_taken(compression: int, size: int):
    """A few bytes must not make the auditor allocate gigabytes."""
    with pytest.raises(MalformedMetadata, match="out of range"):
        decompress(compression, b"", size)


@pytest.mark.parametrize("compression", [LZ4, ZLIB, ZSTD, SNAPPY])
@given(data=st.binary(max_size=60), size=st.integers(0, 500))
def test_any_bytes_are_decoded_to_that_size_or_refused(compression: int, data: bytes, size: int):
    """Nothing else is raised, whatever was written."""
    with contextlib.suppress(MalformedMetadata):
        assert size == len(decompress(compression, data, size))


def test_a_block_that_ends_within_a_length_is_refused():
    """The block says that more bytes follow, and none do."""
    with pytest.raises(MalformedMetadata, match="ends too early"):
        decompress(LZ4, b"\xf0\xff", 300)


def test_a_match_may_overlap_what_it_writes_and_end_the_block():
    """One letter, repeated: a token, a literal, a distance of 1; then a sequence without
    literals.
    """
    assert b"aaaaa" == decompress(LZ4, b"\x10a\x01\x00\x00", 5)


@pytest.mark.parametrize(
    ("compression", "data", "size", "says"),
    [
        (LZ4, b"\x10a\x00\x00\x00", 5, r"damaged \(LZ4\)"),  # a distance of nothing
        (LZ4, b"\x10a\x02\x00\x00", 5, r"damaged \(LZ4\)"),  # before the beginning
        (LZ4, b"\x1fa\x01\x00\xff\xff\x00\x00", 5, r"damaged \(LZ4\)"),  # more than was said
        (LZ4, b"\x30ab", 5, r"damaged \(LZ4\)"),  # fewer literals than the token says
        (LZ4, b"\x30abc", 2, r"damaged \(LZ4\)"),  # more literals than was said
        (LZ4, b"", 0, "ends too early"),
        (SNAPPY, b"\x96\x81\x80\x80\x80\x01", 150, r"damaged \(SNAPPY\)"),
        (
            ZLIB,
            zlib.compress(bytes(100_000)),
            10,
            "has 11 bytes instead of 10",
        ),  # never unpacked beyond
        (NONE, b"", UNCOMPRESSED_BYTES_MAX, "has 0 bytes instead of"),
    ],
)
def test_damage_is_noticed_where_it_is(compression: int, data: bytes, size: int, says: str):
    """Before memory is taken for what it claims."""
    with pytest.raises(MalformedMetadata, match=says):
        decompress(compression, data, size)
