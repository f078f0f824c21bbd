"""Cut a bookie's bytes into frames: 4 bytes of length, big-endian, then that many bytes.

`frames` decodes what is in them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from google.protobuf.message import DecodeError

from auditor.errors import PeerProtocolError
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

LENGTH_BYTES = 4
"""The length in front of each frame does not count itself."""
HEAD_BYTES = 64
"""Bytes kept of a response that is too large: enough for its header and its ledger."""

_LENGTH = struct.Struct(">i")
_FOR_EVER = 2**63


class Oversized(NamedTuple):
    """A frame longer than the limit, or with a negative length.

    `length` is the announced length in bytes, without its own 4; `head` has at most the first
    HEAD_BYTES. A negative length means that an int32 overflowed, or that the peer is not a bookie:
    nothing behind it can be read.
    """

    length: int
    head: bytes

    def addressee(self) -> tuple[int, int]:
        """Return operation and transaction id from `head`. Raises PeerProtocolError."""
        try:
            if len(self.head) < 2 or self.head[0] != 0x0A or self.head[1] >= len(self.head) - 1:
                raise DecodeError
            header = pb.BKPacketHeader.FromString(self.head[2 : 2 + self.head[1]])
            if not header.IsInitialized():
                raise DecodeError
        except DecodeError:
            raise PeerProtocolError(
                f"a frame announces {self.length} bytes and does not begin as an answer does"
            ) from None
        return int(header.operation), int(header.txnId)


class FrameReader:
    """Split incoming bytes into frame bodies. A frame over `frame_bytes_max` becomes Oversized.

    The bytes of an oversized frame are skipped. Bytes of an unfinished frame wait in one buffer: at
    most one frame of `frame_bytes_max`, and what came with its end in the same piece. Each byte is
    copied a fixed number of times, however small the pieces are.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()
        self._needed = LENGTH_BYTES
        self._to_skip = 0

    @property
    def unfinished_bytes(self) -> int:
        """Bytes still missing of the frame that has begun; 0 between frames.

        Before its length (or an oversized frame's head) is complete, only the rest of that counts.
        """
        if self._to_skip:
            return self._to_skip
        return self._needed - len(self._buffer) if self._buffer else 0

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Return the frames that `data` completes, in order."""
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        frames: list[bytes | Oversized] = []
        start, length = self._split(data, frames)
        self._buffer += data[start:]
        self._needed = length
        return frames

    def _split(self, data: bytes, frames: list[bytes | Oversized]) -> tuple[int, int]:
        """Append complete frames; return where the unfinished one starts and what it needs next."""
        start, end = 0, len(data)
        while end - start >= LENGTH_BYTES:
            (length,) = _LENGTH.unpack_from(data, start)
            body = start + LENGTH_BYTES
            if 0 <= length <= self._frame_bytes_max:
                if end - body < length:
                    return start, LENGTH_BYTES + length
                frames.append(data[body : body + length])
                start = body + length
                continue
            head = max(0, min(length, HEAD_BYTES))
            if end - body < head:
                return start, LENGTH_BYTES + head
            frames.append(Oversized(length, data[body : body + head]))
            span = length if head else _FOR_EVER
            self._to_skip = max(0, span - (end - body))
            start = min(end, body + span)
        return start, LENGTH_BYTES
