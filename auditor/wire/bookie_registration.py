"""Decode a bookie's registration znode (BookieServiceInfoFormat), and its cookie."""

from __future__ import annotations

import re
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from auditor.errors import MalformedMetadata
from auditor.model.identity import BookieId
from auditor.wire import protobuf_forms
from auditor.wire.generated.data_formats_pb2 import BookieServiceInfoFormat

BOOKIE_PROTOCOL = "bookie-rpc"
BOOKIE_ENDPOINT_ID = "bookie"
HTTP_PROTOCOL = "http"
HTTP_ENDPOINT_ID = "httpserver"
TLS_EXTENSION = "tls"
PORT_MAX = 65_535
_LEGACY_PORT = re.compile(r"[0-9]{1,5}")
_IPV6_COLONS_MIN = 3
_ENDPOINTS = BookieServiceInfoFormat.DESCRIPTOR.fields_by_name["endpoints"].number


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a bookie takes requests.

    `tls`: it understands START_TLS. The connection still begins in clear text.
    """

    host: str
    port: int
    tls: bool = False


def decode(bookie_id: BookieId, data: bytes) -> Endpoint:
    """Return the endpoint at which `bookie_id` takes requests, from its registration znode.

    A bookie older than 4.12 registers with no bytes: its id is `host:port` (BookieSocketAddress
    splits it at `:`, so IPv6 is impossible). Otherwise the first endpoint with protocol bookie-rpc
    counts; the id says nothing about the address (BP-41). Raises `MalformedMetadata`.
    """
    if not data:
        return _legacy(bookie_id)
    message = _parse(data)
    for endpoint in message.endpoints:
        if endpoint.protocol == BOOKIE_PROTOCOL:
            # protobuf returns a string that is not UTF-8 as bytes.
            if (
                not isinstance(endpoint.host, str)
                or not endpoint.host
                or not 1 <= endpoint.port <= PORT_MAX
            ):
                raise MalformedMetadata(
                    f"the {BOOKIE_PROTOCOL} endpoint of {bookie_id} has no usable host and port"
                )
            return Endpoint(endpoint.host, endpoint.port, TLS_EXTENSION in endpoint.extensions)
    raise MalformedMetadata(
        f"the registration of {bookie_id} has no {BOOKIE_PROTOCOL} endpoint", len(data)
    )


def encode(host: str, port: int, *, tls: bool = False, http_port: int | None = None) -> bytes:
    """Return the registration of a bookie of 4.12 or later; `http_port` adds its admin endpoint."""
    message = BookieServiceInfoFormat()
    extensions = [TLS_EXTENSION] if tls else []
    message.endpoints.add(
        id=BOOKIE_ENDPOINT_ID, port=port, host=host, protocol=BOOKIE_PROTOCOL, extensions=extensions
    )
    if http_port is not None:
        message.endpoints.add(
            id=HTTP_ENDPOINT_ID, port=http_port, host=host, protocol=HTTP_PROTOCOL
        )
    return message.SerializeToString()


def _legacy(bookie_id: BookieId) -> Endpoint:
    host, *rest = bookie_id.split(":")
    port = int(rest[0]) if rest and _LEGACY_PORT.fullmatch(rest[0]) else 0
    if not host or not 1 <= port <= PORT_MAX or len(rest) >= _IPV6_COLONS_MIN:
        raise MalformedMetadata(
            f"{bookie_id} registered without an address, and its id is not host:port"
        )
    return Endpoint(host, port)


def _parse(data: bytes) -> BookieServiceInfoFormat:
    try:
        message = BookieServiceInfoFormat.FromString(data)
    except (DecodeError, UnicodeDecodeError):  # the second if protobuf has no C extension
        raise MalformedMetadata("the registration is not protobuf", _break_in(data)) from None
    problem = protobuf_forms.missing_fields_error(message, len(data))
    if problem is not None:
        raise problem
    return message


def _break_in(data: bytes) -> int:
    try:
        for field in protobuf_forms.fields(data, 0, len(data)):
            if field.is_bytes and field.number == _ENDPOINTS:
                for _ in protobuf_forms.fields(data, field.start, field.end):
                    pass
    except protobuf_forms.NotProtobufError as error:
        return error.offset
    return 0
