"""The answer to START_TLS by which a bookie or a lister agrees."""

from __future__ import annotations

from auditor.wire.bookie_server import OtherRequest, encode_consent
from auditor.wire.frames import Operation, Status
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb


def test_the_consent_has_its_sub_message_and_echoes_the_request() -> None:
    """BookKeeper's client waits for a START_TLS response with that transaction id."""
    frame = encode_consent(OtherRequest(42, Operation.START_TLS))
    message = pb.Response()
    message.ParseFromString(frame[4:])
    assert len(frame) - 4 == int.from_bytes(frame[:4], "big")
    assert (42, Operation.START_TLS, Status.EOK, True) == (
        message.header.txnId,
        message.header.operation,
        message.status,
        message.HasField("startTLSResponse"),
    )
