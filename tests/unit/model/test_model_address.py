"""Hosts and addresses in bookie ids, and the locations that they have."""

from __future__ import annotations

import pytest

from auditor.model.cluster import Surroundings
from auditor.model.identity import location_in, split_host_port

AREAS = (
    {
        "10.0.0.7": "/host",
        "10.0.0.0/24": "/wide",
        "10.0.0.128/25": "/narrow",
        "bk.example": "/name",
    },
    {
        "10.0.0.0/8": "/later",
        "10.9.0.1": "/later-host",
        "2001:db8::/32": "/six",
        "0.0.0.0/0": "/all",
    },
)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (("host", None), "Host"),
        (("host", 3181), "host:3181"),
        (("10.0.0.1", 1), "10.0.0.1:1"),
        (("2001:db8::1", None), "2001:DB8:0::1"),
        (("2001:db8::1", None), "[2001:db8::1]"),
        (("2001:db8::1", 65535), "[2001:db8::1]:65535"),
        (("10.0.0.1", None), "::ffff:10.0.0.1"),
        (None, "host:0"),
        (None, "host:65536"),
        (None, "host:"),
        (None, ":1"),
        (None, "a:b:1"),
        (None, "host:٣"),
        (None, "a=b"),
        (None, "[host]:1"),
        (None, ""),
    ],
)
def test_host_and_port_of_a_text(expected, text):
    """A host is written in one form. Other text has no host."""
    assert expected == split_host_port(text)


@pytest.mark.parametrize(
    ("expected", "bookie_id"),
    [
        ("/host", "10.0.0.7:3181"),
        ("/wide", "10.0.0.8:3181"),
        ("/narrow", "10.0.0.200:3181"),
        ("/name", "BK.example:3181"),
        ("/later-host", "10.9.0.1:3181"),
        ("/later", "10.9.0.2:3181"),
        ("/six", "[2001:DB8:0::1]:3181"),
        ("/all", "192.168.0.1:3181"),
        (None, "[2001:db9::1]:3181"),
        (None, "other.example:3181"),
        (None, "10.0.0.7"),
        (None, "bookie-7"),
    ],
)
def test_the_host_in_an_id_leads_to_a_location(expected: str | None, bookie_id: str) -> None:
    """The first source with a match decides. In a source the host comes first, then the network
    with the longest prefix.
    """
    assert expected == location_in(AREAS, bookie_id)


def test_areas_locate_only_what_the_sources_were_not_asked_for() -> None:
    """For a registered bookie the sources were asked already, by the address that it registered."""
    around = Surroundings(
        frozenset({"10.0.0.1:1"}), frozenset({"10.0.0.2:1"}), {"10.0.0.3:1": "/own"}, areas=AREAS
    )
    ids = [f"10.0.0.{n}:1" for n in (1, 2, 3, 4)]
    assert [None, None, "/own", "/wide"] == [around.location_of(one) for one in ids]


@pytest.mark.parametrize("port", ["00000000199999", "9" * 5_000, "0", "65536", "²", "٣"])
def test_a_port_out_of_range_is_refused(port: str):
    """The value counts, not the number of digits: leading zeros are allowed."""
    assert split_host_port(f"bk1:{port}") is None
    assert ("bk1", 3181) == split_host_port("bk1:0003181")
