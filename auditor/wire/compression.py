"""Decompress what Pulsar compressed in a znode. Every size is bounded.

Sources: MetaStoreImpl, CompressionCodecProvider (Pulsar 4.0), the LZ4 block format.
"""

from __future__ import annotations

import zlib

from auditor.errors import MalformedMetadata
from auditor.wire.generated.managed_ledger_pb2 import CompressionHeader

UNCOMPRESSED_BYTES_MAX = 16 * 2**20
"""Largest value accepted: 16 times ZooKeeper's default limit for a znode. A parsed message takes up
to 40 times its bytes: a record of two bytes becomes an object.
"""
_LZ4_MATCH_MIN = 4
_LENGTH_GOES_ON = 255


def decompress(compression: int, data: bytes, size: int) -> bytes:
    """Return the `size` bytes that `data` holds in this CompressionType.

    Raises MalformedMetadata for damaged data, another size, a size beyond UNCOMPRESSED_BYTES_MAX,
    or an unknown type. Arrow is loaded for ZSTD and SNAPPY only.
    """
    if not 0 <= size <= UNCOMPRESSED_BYTES_MAX:
        raise MalformedMetadata(f"its uncompressed size of {size} bytes is out of range")
    if compression == CompressionHeader.NONE:
        out = data
    elif compression == CompressionHeader.LZ4:
        out = _lz4(data, size)
    elif compression == CompressionHeader.ZLIB:
        out = _zlib(data, size)
    elif compression == CompressionHeader.ZSTD:
        out = _arrow("zstd", data, size)
    else:
        assert compression == CompressionHeader.SNAPPY, compression
        out = _snappy(data, size)
    if len(out) != size:
        raise MalformedMetadata(f"its compressed data has {len(out)} bytes instead of {size}")
    return out


def _zlib(data: bytes, size: int) -> bytes:
    inflate = zlib.decompressobj()
    try:
        return inflate.decompress(data, size + 1)
    except zlib.error:
        raise MalformedMetadata("its compressed data is damaged (ZLIB)") from None


def _snappy(data: bytes, size: int) -> bytes:
    """Check the length at the start: Arrow fills what is missing with whatever memory held."""
    said = shift = 0
    for byte in data[:5]:
        said |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if said != size:
        raise MalformedMetadata(f"its compressed data has {said} bytes instead of {size}")
    return _arrow("snappy", data, size)


def _arrow(name: str, data: bytes, size: int) -> bytes:
    import pyarrow as pa  # a third of a second, which most commands must not pay

    if not size:
        return b""
    try:
        out: bytes = pa.Codec(name).decompress(data, size, asbytes=True)
        return out
    except (OSError, pa.ArrowException):
        raise MalformedMetadata(f"its compressed data is damaged ({name.upper()})") from None


def _lz4(data: bytes, size: int) -> bytes:
    """Decode a raw block. Arrow does not say how much a raw block holds."""
    out = bytearray()
    at = 0
    try:
        while True:
            token = data[at]
            count, at = _length(data, at + 1, token >> 4)
            if at + count > len(data) or len(out) + count > size:
                raise MalformedMetadata("its compressed data is damaged (LZ4)", at)
            out += data[at : at + count]
            at += count
            if at == len(data):
                break
            offset = data[at] | data[at + 1] << 8
            count, at = _length(data, at + 2, token & 15)
            _copy_match(out, offset, count + _LZ4_MATCH_MIN, size)
    except IndexError:
        raise MalformedMetadata("its compressed data ends too early (LZ4)", len(data)) from None
    return bytes(out)


def _length(data: bytes, at: int, count: int) -> tuple[int, int]:
    """Return a length whose first part is `count`, and where it ends."""
    if count == 15:
        while True:
            byte = data[at]
            at += 1
            count += byte
            if byte != _LENGTH_GOES_ON:
                break
    return count, at


def _copy_match(out: bytearray, offset: int, count: int, size: int) -> None:
    """Repeat `count` bytes from `offset` before the end, which may overlap what is written."""
    if not 0 < offset <= len(out) or len(out) + count > size:
        raise MalformedMetadata("its compressed data is damaged (LZ4)")
    start = len(out) - offset
    pattern = bytes(out[start : start + count])
    out += pattern * (count // len(pattern)) + pattern[: count % len(pattern)]
