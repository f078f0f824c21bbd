"""The consent of a bookie, or of a lister, to START_TLS."""

from __future__ import annotations

from auditor.wire.bookie_server import OtherRequest, encode_frame, response_to
from auditor.wire.frames import Status


def encode_consent(request: OtherRequest) -> bytes:
    """Encode the response that agrees to START_TLS: with its sub-message, which has no field."""
    message = response_to(request, Status.EOK)
    message.startTLSResponse.SetInParent()
    return encode_frame(message)
