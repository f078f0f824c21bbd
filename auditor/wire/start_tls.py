"""The consent of a bookie, or of a lister, to START_TLS."""

from __future__ import annotations

import struct

from auditor.wire.frames import Status
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb


def encode_consent(txn_id: int) -> bytes:
    """Encode the response that agrees to START_TLS: with its sub-message, which has no field."""
    message = pb.Response()
    header = message.header
    header.version, header.operation, header.txnId = pb.VERSION_THREE, pb.START_TLS, txn_id
    message.status = int(Status.EOK)  # type: ignore[assignment]
    message.startTLSResponse.SetInParent()
    body = message.SerializeToString()
    return struct.pack(">i", len(body)) + body
