"""Pulsar's rack map: its JSON, and what is not."""

import json

import pytest

from auditor.wire.locations import (
    RACK_MAP_ENTRIES_MAX,
    RACK_MAP_PROBLEMS_MAX,
    RackMap,
    decode_rack_map,
    encode_rack_map,
)


def decoded(value: object) -> RackMap:
    return decode_rack_map(json.dumps(value).encode())


def test_each_bookie_has_the_rack_of_its_entry():
    """Whatever the group; hostname says nothing about the location."""
    written = {
        "default": {"10.0.0.1:3181": {"rack": "/rack0", "hostname": "bookie1.example.com"}},
        "second": {"bookie-2": {"rack": "/region/rack1", "hostname": None, "later": 1}},
    }
    assert RackMap({"10.0.0.1:3181": "/rack0", "bookie-2": "/region/rack1"}) == decoded(written)


@pytest.mark.parametrize(
    ("expected", "rack"),
    [
        ("/r", "r"),
        ("/region/r", "region/r"),
        ("/r", "/r/"),
        ("/r", " /r "),
        (None, ""),
        (None, "/"),
        (None, " "),
        (None, None),
    ],
)
def test_a_rack_gets_its_slash_and_none_is_unresolved(expected, rack):
    """As BookieRackAffinityMapping has it; a missing rack, an empty one and / are no location, and
    no problem.
    """
    assert RackMap({"b1": expected} if expected else {}) == decoded(
        {"default": {"b1": {"rack": rack}}}
    )
    assert RackMap() == decoded({"default": {"b1": {"hostname": "h"}}})


def test_of_two_groups_the_first_by_name_wins():
    """Pulsar asks its sorted groups in order; a rack that differs is reported."""
    found = decoded({"z": {"b1": {"rack": "/z"}}, "a": {"b1": {"rack": "/a"}}})
    assert {"b1": "/a"} == found.locations
    (problem,) = found.problems
    assert "'b1' at /a and, in group 'z', at /z" in problem
    assert () == decoded({"z": {"b1": {"rack": "/a"}}, "a": {"b1": {"rack": "/a"}}}).problems


@pytest.mark.parametrize("data", [b"", b" \n", b"{}", b'{"default": {}}', b'{"default": null}'])
def test_an_empty_map_is_no_problem(data):
    """Pulsar leaves such behind when the last rack is deleted."""
    assert RackMap() == decode_rack_map(data)


@pytest.mark.parametrize("data", [b"{", b"\xff\xfe", b"[" * 100_000, b"[1]", b"7", b'"x"', b"null"])
def test_what_is_no_map_is_one_sentence(data):
    """Never an exception."""
    found = decode_rack_map(data)
    assert {} == found.locations
    (problem,) = found.problems
    assert problem.startswith("the rack map is no") and problem.isprintable()


@pytest.mark.parametrize("name", ["1\ud800.0.1:3181", "b\n1", "b\x1b[31m"])
def test_a_bookie_that_cannot_be_written_down_is_a_problem_and_the_rest_counts(name):
    """JSON can have a lone surrogate, escaped or as bytes; no bookie has such an id, and no file of
    a run could hold it.
    """
    found = decoded(
        {"default": {name: {"rack": "/r"}, "b2": {"rack": f"/{name}"}, "b3": {"rack": "/r3"}}}
    )
    assert {"b3": "/r3"} == found.locations
    assert 2 == len(found.problems) and all(
        one.isascii() and one.isprintable() for one in found.problems
    )
    raw = b'{"default": {"1\xed\xa0\x80": {"rack": "/r"}, "b3": {"rack": "/r3"}}}'
    assert {"b3": "/r3"} == decode_rack_map(raw).locations


@pytest.mark.parametrize(
    "odd",
    [
        "/r",
        7,
        [],
        {"rack": 7},
        {"rack": ["/r"]},
        {"rack": "/a//b"},
        {"rack": "/a b"},
        {"rack": "/a\nb"},
    ],
)
def test_an_odd_entry_harms_no_other(odd):
    """It makes a sentence that names it, and the others count."""
    found = decoded({"default": {"b1\n": odd, "b2": {"rack": "/r2"}}, "other": [1]})
    assert {"b2": "/r2"} == found.locations
    about_entry, about_group = sorted(
        found.problems, key=lambda problem: problem.startswith("group")
    )
    assert "'b1\\n'" in about_entry and "'default'" in about_entry and about_entry.isprintable()
    assert "group 'other'" in about_group


def test_a_map_and_its_problems_have_an_end():
    """No more bookies than ENTRIES_MAX are taken, no more than PROBLEMS_MAX sentences said, and
    what was left out is said.
    """
    many = decoded(
        {"default": {f"b{n:06}": {"rack": "/r"} for n in range(RACK_MAP_ENTRIES_MAX + 5)}}
    )
    assert RACK_MAP_ENTRIES_MAX == len(many.locations) and "names more than" in many.problems[0]
    odd = decoded({"default": {f"b{n}": {"rack": 7} for n in range(RACK_MAP_PROBLEMS_MAX + 7)}})
    assert RACK_MAP_PROBLEMS_MAX + 1 == len(odd.problems) and "and 7 more" in odd.problems[-1]


def test_that_bookies_were_left_out_is_said_first():
    """Before what is said of those that were read."""
    many = decoded(
        {
            "default": {
                f"b{n:06}": {"rack": 7 if n == 0 else "/r"} for n in range(RACK_MAP_ENTRIES_MAX + 1)
            }
        }
    )
    assert [True, False] == ["names more than" in problem for problem in many.problems]


def test_as_many_problems_as_are_kept_are_all_said():
    """PROBLEMS_MAX of them, and nothing of more."""
    odd = decoded({"default": {f"b{n}": {"rack": 7} for n in range(RACK_MAP_PROBLEMS_MAX)}})
    assert RACK_MAP_PROBLEMS_MAX == len(odd.problems) and "more" not in odd.problems[-1]


def test_a_map_is_written_as_pulsar_writes_it():
    """Each bookie with its rack and a host name, in Pulsar's default group; without bookies there
    is no group.
    """
    assert {"default": {"b1": {"rack": "/r1", "hostname": ""}}} == json.loads(
        encode_rack_map({"b1": "/r1"})
    )
    assert {} == json.loads(encode_rack_map({}))


def test_a_written_map_reads_back():
    """`encode` is what tests and the demo write."""
    for locations in ({}, {"b1": "/r1", "127.0.0.1:3181": "/region/r2"}):
        assert RackMap(locations) == decode_rack_map(encode_rack_map(locations))
