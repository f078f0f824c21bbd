"""What Pulsar compressed is read back exactly, and damage is noticed, never passed on."""

from __future__ import annotations

import contextlib
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import MalformedMetadata
from auditor.wire.compression import UNCOMPRESSED_BYTES_MAX, decompress

NONE, LZ4, ZLIB, ZSTD, SNAPPY = range(5)
PACK = {
    NONE: bytes,
    LZ4: lambda data: pa.Codec("lz4_raw").compress(data, asbytes=True),
    ZLIB: zlib.compress,
    ZSTD: lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    SNAPPY: lambda data: pa.Codec("snappy").compress(data, asbytes=True),
}
TEXTS = st.one_of(
    st.binary(max_size=400), st.builds(lambda part, times: part * times, st.binary(min_size=1, max_size=9), st.integers(1, 300))
)


@pytest.mark.parametrize("compression", PACK)
@given(data=TEXTS)
def test_what_was_compressed_comes_back(compression: int, data: bytes):
    """Each type that Pulsar writes; LZ4 as a raw block."""
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
