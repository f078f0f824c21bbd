"""Registrations and cookies: where a bookie is reached, and which cluster it belongs to."""

# The expected value comes first, which ruff calls Yoda.
from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auditor.errors import MalformedMetadata
from auditor.wire import bookie_registration
from auditor.wire.bookie_registration import Endpoint
from auditor.wire.generated.data_formats_pb2 import BookieServiceInfoFormat

WRITTEN = bytes.fromhex(
    "32230a06626f6f6b6965108db5011a093132372e302e302e31220a626f6f6b69652d727063"
)


def registration(*endpoints: dict[str, object]) -> bytes:
    """A registration with these endpoints, each a sound bookie endpoint but for what is given."""
    sound = {"id": "bookie", "host": "h", "port": 3181, "protocol": "bookie-rpc"}
    made = [BookieServiceInfoFormat.Endpoint(**(sound | changes)) for changes in endpoints]
    return BookieServiceInfoFormat(endpoints=made).SerializeToString()


def test_decodes_what_a_bookie_wrote() -> None:
    """A real registration says host and port, and that there is no TLS."""
    assert Endpoint("127.0.0.1", 23181, tls=False) == bookie_registration.decode("any-id", WRITTEN)


def test_encodes_byte_for_byte_as_a_bookie() -> None:
    """The bytes are the ones a real bookie registered itself with."""
    assert WRITTEN == bookie_registration.encode("127.0.0.1", 23181)


def test_encodes_tls_and_the_admin_endpoint() -> None:
    """`tls` is an extension of the bookie's endpoint; the admin endpoint has a port and a protocol
    of its own.
    """
    found = BookieServiceInfoFormat.FromString(
        bookie_registration.encode("h", 3181, tls=True, http_port=8080)
    )
    bookie = BookieServiceInfoFormat.Endpoint(
        id="bookie", host="h", port=3181, protocol="bookie-rpc", extensions=["tls"]
    )
    admin = BookieServiceInfoFormat.Endpoint(id="httpserver", host="h", port=8080, protocol="http")
    assert [bookie, admin] == list(found.endpoints)


@pytest.mark.parametrize("port", [1, 65_535])
def test_a_registered_port_is_any_port(port: int) -> None:
    """From the first to the last."""
    assert Endpoint("h", port) == bookie_registration.decode("b", registration({"port": port}))


def test_the_id_says_nothing_about_the_address() -> None:
    """BP-41: with registration data, host and port come from it, whatever the id looks like."""
    assert Endpoint("127.0.0.1", 23181) == bookie_registration.decode("10.9.9.9:3181", WRITTEN)


def test_the_admin_endpoint_is_passed_over() -> None:
    """Of several endpoints the one with protocol bookie-rpc counts, wherever it stands."""
    data = registration(
        {"id": "httpserver", "protocol": "http", "port": 8080},
        {"host": "right"},
        {"host": "second"},
    )
    assert Endpoint("right", 3181) == bookie_registration.decode("b", data)
    assert Endpoint("h", 3181) == bookie_registration.decode(
        "b", bookie_registration.encode("h", 3181, http_port=8080)
    )


def test_tls_is_an_extension_of_the_endpoint() -> None:
    """`tls` among the extensions says that START_TLS is understood; other extensions and an admin
    endpoint's say nothing.
    """
    assert bookie_registration.decode("b", registration({"extensions": ["other", "tls"]})).tls
    assert not bookie_registration.decode("b", registration({"extensions": ["other"]})).tls
    assert not bookie_registration.decode(
        "b", registration({"protocol": "http", "extensions": ["tls"]}, {})
    ).tls


@pytest.mark.parametrize(
    ("bookie_id", "expected"),
    [
        ("10.0.0.1:3181", Endpoint("10.0.0.1", 3181)),
        ("bookie-1.example.com:1", Endpoint("bookie-1.example.com", 1)),
        ("h:65535", Endpoint("h", 65535)),
        ("h:3181:rest", Endpoint("h", 3181)),
    ],
)
def test_without_data_the_id_is_host_and_port(bookie_id: str, expected: Endpoint) -> None:
    """Bookies before 4.12 register without data; their id is split at the colon, two parts
    count.
    """
    assert expected == bookie_registration.decode(bookie_id, b"")


@pytest.mark.parametrize(
    "bookie_id",
    [
        "bookie-1",
        "h:",
        ":3181",
        "h:0",
        "h:65536",
        "h:x",
        "h:+1",
        "2001:db8::1:3181",
        "1:2:3:4:5",
        "1:2:3:4",
    ],
)
def test_without_data_an_id_that_is_no_address_is_malformed(bookie_id: str) -> None:
    """No port, no host, IPv6: nothing to dial, and the error names the bookie."""
    with pytest.raises(MalformedMetadata, match="registered without an address") as error:
        bookie_registration.decode(bookie_id, b"")
    assert error.value.reason.startswith(bookie_id)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            BookieServiceInfoFormat(properties={"a": "b"}).SerializeToString(),
            "of b has no bookie-rpc endpoint",
        ),
        (registration({"protocol": "http"}), "of b has no bookie-rpc endpoint"),
        (registration({"port": 0}), "no usable host and port"),
        (registration({"port": -1}), "no usable host and port"),
        (registration({"port": 65536}), "no usable host and port"),
        (registration({"host": ""}), "no usable host and port"),
        (
            bytes.fromhex("3216 0a0162 10ed18 1a02ff41 220a626f6f6b69652d727063"),
            "no usable host and port",
        ),  # not UTF-8
        (WRITTEN[:-1], "not protobuf"),
        (b"\xff\xff", "not protobuf"),
        (
            bytes.fromhex("3202 1001"),
            r"endpoints\[0\]\.id, endpoints\[0\]\.host, endpoints\[0\]\.protocol",
        ),
    ],
)
def test_a_registration_without_an_address_is_malformed(data: bytes, reason: str) -> None:
    """What has no usable bookie endpoint is malformed, and says why."""
    with pytest.raises(MalformedMetadata, match=reason):
        bookie_registration.decode("b", data)


def test_missing_fields_are_missed_at_the_end() -> None:
    """Where the bytes end without them."""
    with pytest.raises(MalformedMetadata, match="required fields are missing") as error:
        bookie_registration.decode("b", bytes.fromhex("3202 1001"))
    assert 4 == error.value.offset


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        ("3203 0a0562", 2),  # a field that ends behind its endpoint
        ("7a01ff 3203 0a0562", 5),  # what is no endpoint is not looked into
        ("3001 3203 0a0562", 4),  # nor is a number where an endpoint should be
        ("3a00 0b14", 0),  # a group with the end of another: no one byte is wrong
        ("00", 0),
    ],
)
def test_the_offset_points_at_the_broken_field(data: str, offset: int) -> None:
    """Also into an endpoint: where the field begins that protobuf cannot read."""
    with pytest.raises(MalformedMetadata, match="not protobuf") as error:
        bookie_registration.decode("b", bytes.fromhex(data))
    assert offset == error.value.offset


def registrations() -> st.SearchStrategy[bytes]:
    """Any bytes, and endpoints with any host and port: bytes alone never make an endpoint that can
    be read.
    """
    hosts, ports = st.text(max_size=4), st.integers(-2, 70_000)
    made = st.builds(lambda host, port: registration({"host": host, "port": port}), hosts, ports)
    return st.one_of(
        st.binary(max_size=80), made, st.builds(bytes.__add__, made, st.binary(max_size=4))
    )


@settings(deadline=None, print_blob=True)
@given(registrations())
@example(WRITTEN)
@example(registration({"port": 0}))
@example(registration({"port": 65_536}))
@example(registration({"host": ""}))
def test_arbitrary_registrations_raise_only_malformed(data: bytes) -> None:
    """Whatever a registration znode holds: an endpoint that can be dialled, or
    MalformedMetadata.
    """
    try:
        endpoint = bookie_registration.decode("b", data)
    except MalformedMetadata as error:
        assert 0 <= error.offset <= len(data)
    else:
        assert endpoint.host
        assert 1 <= endpoint.port <= 65535
