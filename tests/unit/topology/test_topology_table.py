"""A table of locations: its lines, what matches a bookie, and what is refused."""

from ipaddress import ip_address

import pytest

from auditor.errors import ConfigError
from auditor.topology.location_table import (
    BAD_LINES_SHOWN_MAX,
    TABLE_BYTES_MAX,
    TABLE_LINES_MAX,
    Member,
    Places,
    parse_table,
    read_table,
)


def table(text: str) -> Places:
    places, bad = parse_table(text)
    assert [] == bad
    return places


def find_location(places: Places, member: Member, *addresses: str) -> tuple[str, str] | None:
    match = places.find(member, [ip_address(address) for address in addresses])
    return None if match is None else (match.location, match.matched_by)


TABLE = """\
# racks of the south hall

bookie-1                      /by-id      # arbitrary id
10.0.0.1:3181                 /by-port
10.0.0.1                      /by-host
Host.Example.COM              /by-name
host.example.com:3182         /by-name-and-port
10.0.0.0/24                   /net24/
10.0.0.0/8                    /net8
10.0.0.128/25                 /net25
0.0.0.0/0                     /net0
2001:db8::/32                 /net32
2001:db8:1::/48               /net48
2001:DB8::7                   /v6
[2001:db8::8]:3181            /v6-port
"""


@pytest.mark.parametrize(
    ("expected", "member"),
    [
        (("/by-id", "bookie id (line 3)"), Member("bookie-1", "10.0.0.1", 3181)),
        (("/by-port", "bookie id (line 4)"), Member("10.0.0.1:3181", "10.0.0.200", 3181)),
        (("/by-port", "address (line 4)"), Member("x", "10.0.0.1", 3181)),
        (("/by-host", "address (line 5)"), Member("x", "10.0.0.1", 3182)),
        (("/by-host", "address (line 5)"), Member("x", "10.0.0.1")),
        (("/by-name", "host name (line 6)"), Member("x", "host.example.com", 3181)),
        (("/by-name-and-port", "host name (line 7)"), Member("x", "host.example.com", 3182)),
        (("/net25", "network 10.0.0.128/25 (line 10)"), Member("x", "10.0.0.129", 1)),
        (("/net24", "network 10.0.0.0/24 (line 8)"), Member("x", "10.0.0.127", 1)),
        (("/net8", "network 10.0.0.0/8 (line 9)"), Member("x", "10.0.1.0", 1)),
        (("/net0", "network 0.0.0.0/0 (line 11)"), Member("x", "11.0.0.1", 1)),
        (("/net32", "network 2001:db8::/32 (line 12)"), Member("x", "2001:db8:2::1", 1)),
        (("/net48", "network 2001:db8:1::/48 (line 13)"), Member("x", "2001:db8:1::1", 1)),
        (("/v6", "address (line 14)"), Member("x", "2001:db8::7", 3181)),
        (("/v6-port", "address (line 15)"), Member("x", "2001:db8::8", 3181)),
        (None, Member("x", "2001:db9::1", 1)),
        (None, Member("x", "another.example.com", 3181)),
        (None, Member("x")),
    ],
)
def test_the_most_exact_line_wins(expected, member):
    """An id comes before a port, a port before a host, a host before a network, and a longer prefix
    before a shorter one, wherever the lines stand.
    """
    assert expected == find_location(table(TABLE), member)


def test_a_host_name_is_also_matched_by_its_addresses():
    """The name comes first, then an exact address, then a network of any of its addresses."""
    places = table(TABLE)
    assert places.needs_addresses() and not table("b1 /r\nhost /r").needs_addresses()
    assert ("/net25", "network 10.0.0.128/25 (line 10)") == find_location(
        places, Member("x", "other", 1), "11.0.0.1", "10.0.0.130"
    )
    assert ("/by-host", "address (line 5)") == find_location(
        places, Member("x", "other", 1), "10.0.0.130", "10.0.0.1"
    )
    assert ("/by-name", "host name (line 6)") == find_location(
        places, Member("x", "host.example.com", 1), "10.0.0.1"
    )


@pytest.mark.parametrize(
    "bookie_id",
    [
        "a;b<c=d>e?f@g",
        "[x]",
        "A\\B^C_d-e.f",
        "::",
        "bookie:one:two",
        "99999999999999999999:1",
        "x:0",
    ],
)
def test_ids_of_any_characters_match_as_they_are(bookie_id):
    """Each id that BookKeeper accepts may be in a table, and only the same id matches it."""
    places = table(f"{bookie_id} /r")
    assert ("/r", "bookie id (line 1)") == find_location(places, Member(bookie_id))
    assert None is find_location(places, Member(bookie_id + "x"))


def test_an_id_keeps_its_case_and_a_host_has_none():
    """Ids are compared as text, host names as names."""
    places = table("B1 /r")
    assert ("/r", "bookie id (line 1)") == find_location(places, Member("B1"))
    assert None is find_location(places, Member("b1"))
    assert ("/r", "host name (line 1)") == find_location(places, Member("x", "b1"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("b1", "1 words"),
        ("b1 /r1 /r2", "3 words"),
        ("b1 r1", "does not begin with /"),
        ("b1 /", "not a location"),
        ("b1 /a//b", "empty part"),
        ("10.0.0.1/24 /r", "write 10.0.0.0/24"),
        ("10.0.0.0/33 /r", "not a network"),
        ("host/24 /r", "not a network"),
        ("b{1} /r", "neither a bookie id nor a host"),
        ("readonly /r", "neither a bookie id nor a host"),
        ("fe80::1%eth0 /r", "neither a bookie id nor a host"),
        ("bücher /r", "neither a bookie id nor a host"),
        ("sound /other", "location /r in line 1, and /other here"),
        ("10.0.0.0/8 /other", "location /r in line 2, and /other here"),
        ("[2001:DB8:0::1]:1 /other", "location /r in line 3, and /other here"),
    ],
)
def test_each_bad_line_is_named_with_its_number(tmp_path, line, words):
    """The usage error names the file, the line and what is wrong. The sound lines are not used."""
    path = tmp_path / "racks"
    path.write_text(
        f"sound /r\n10.0.0.0/8 /r\n[2001:db8::1]:1 /r\n\n{line}\nalso /r\nb {line}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        read_table(path)
    message = str(caught.value)
    assert (
        str(path) in message
        and words in message
        and "line 5: " in message
        and "line 7: " in message
    )


def test_the_same_line_may_be_written_twice():
    """The address may have another form. The first line is the one that matches."""
    places = table("b1 /r\nb1 /r/\n2001:db8::1 /r\n2001:DB8:0::1 /r\n10.0.0.0/8 /n\n10.0.0.0/8 /n")
    assert ("/r", "bookie id (line 1)") == find_location(places, Member("b1"))


def test_a_table_is_read_within_bounds(tmp_path):
    """Bytes, lines and the number of bad lines named are bounded. A file that is missing or not
    text is refused.
    """
    path = tmp_path / "racks"
    for content, reason in (
        (b"x" * (TABLE_BYTES_MAX + 1), "is larger than"),
        (b"b1 /r\nb2 /\xff\n", r"is not UTF-8 text \(line 2\)"),
        (
            "".join(f"b{n} /r\n" for n in range(TABLE_LINES_MAX + 1)).encode(),
            "more than 20000 lines",
        ),
        (b"bad\n" * (BAD_LINES_SHOWN_MAX + 3), "and 3 lines more"),
    ):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=reason):
            read_table(path)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_table(tmp_path / "none")
