"""The chain of topology sources: which source is asked about a bookie, and whose answer counts."""

import socket
import sys
import threading
from ipaddress import ip_address

import pytest

from auditor.config import Layers, parse
from auditor.errors import ConfigError
from auditor.model.cluster import BookieRecord, Registration
from auditor.topology import locating
from auditor.topology.locating import PROBLEMS_MAX, Topology, addresses_of, locate, member_of
from auditor.topology.location_table import Located, Member
from auditor.topology.sources import Source, sources_of
from auditor.wire import locations

NONE = Registration.NONE


def bookie(
    bookie_id: str, host: str | None = None, port: int | None = None, **kw: object
) -> BookieRecord:
    registration = Registration.WRITABLE if host else NONE
    return BookieRecord(bookie_id, 0, 0, registration, host, port)


def sources(topology: str, **settings: str) -> list[Source]:
    return sources_of(parse(Layers(flags={"topology": topology, **settings})))


def nothing_there(path: str) -> None:
    return None


def no_names(names: object) -> dict[str, tuple]:
    raise AssertionError(f"nobody needs the addresses of {names}")


def locate_bookies(
    chain: list[Source],
    *bookies: BookieRecord,
    raw=nothing_there,
    resolve=no_names,
    root="/ledgers",
) -> Topology:
    return locate(chain, bookies, root, raw, resolve)


@pytest.fixture
def script(tmp_path):
    """Return a script that answers /script-<last part> for each address and appends its arguments
    to `calls`.
    """
    path = tmp_path / "topology.py"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(tmp_path / 'calls')!r}, 'a').write('"
        " '.join(sys.argv[1:]) + '\\n')\nprint(*('/script-' + a.split('.')[-1] for a in"
        " sys.argv[1:]))\n"
    )
    path.chmod(0o755)
    return path


def test_the_first_source_that_knows_a_bookie_has_it(tmp_path, script):
    """Sources are asked in the written order, each only about the bookies that are left. Each
    location has its source and what matched.
    """
    table = tmp_path / "racks"
    table.write_text("b1 /table\n10.0.0.2 /table\nb9 /table\n")
    znode = locations.encode_rack_map(
        {
            "b1": "/pulsar",
            "10.0.0.2:3181": "/pulsar",
            "10.0.0.3:3181": "pulsar",
            "b8": "/pulsar",
            "b9": "/pulsar",
        }
    )
    bookies = [
        bookie("b1", "10.0.0.1", 1),
        bookie("b2", "10.0.0.2", 2),
        bookie("b3", "10.0.0.3", 3),
        bookie("b4", "10.0.0.4", 4),
    ]
    asked = []
    found = locate_bookies(
        sources(f"{table},zookeeper,{script}"),
        *bookies,
        bookie("b5"),
        raw=lambda path: asked.append(path) or znode,
    )
    assert (
        Located("b1", "/table", str(table), "bookie id (line 1)"),
        Located("b2", "/table", str(table), "address (line 2)"),
        Located("b3", "/pulsar", "zookeeper /bookies", "address"),
        Located("b4", "/script-4", str(script), "address 10.0.0.4"),
        Located("b5"),
    ) == found.located
    assert ("b5",) == found.unplaced_bookies and () == found.problems and ["/bookies"] == asked
    assert ["", "10.0.0.4"] == (tmp_path / "calls").read_text().splitlines()
    named = {
        "b9": "/table",
        "b8": "/pulsar",
        "10.0.0.2": "/table",
        "10.0.0.2:3181": "/pulsar",
        "10.0.0.3:3181": "/pulsar",
    }
    assert {
        "b1": "/table",
        "b2": "/table",
        "b3": "/pulsar",
        "b4": "/script-4",
        **named,
    } == found.locations
    other_way = locate_bookies(sources(f"zookeeper,{table}"), *bookies, raw=lambda path: znode)
    assert ["/pulsar", "/pulsar", "/pulsar", None] == [one.location for one in other_way.located]
    assert "/pulsar" == other_way.locations["b9"]


def test_the_rack_map_is_beside_root_or_at_the_top():
    """The znode inside the chroot is read first. A cluster without a rack map has a problem in
    words, and no locations.
    """
    asked: list[str] = []
    found = locate_bookies(
        sources("zookeeper"), bookie("b1"), root="/pulsar/ledgers", raw=asked.append
    )
    assert ["/pulsar/bookies", "/bookies"] == asked
    assert (
        (
            "there is no rack map in ZooKeeper: no znode /pulsar/bookies and no /bookies that can"
            " be read"
        ),
    ) == found.problems
    assert ("b1",) == found.unplaced_bookies
    beside = locate_bookies(
        sources("zookeeper"),
        bookie("b1"),
        root="/a/b/ledgers",
        raw={"/a/b/bookies": b'{"g":{"b1":{"rack":"r"}}}'}.get,
    )
    assert (Located("b1", "/r", "zookeeper /a/b/bookies", "bookie id"),) == beside.located
    broken = locate_bookies(sources("zookeeper"), bookie("b1"), raw=lambda path: b"{")
    assert ("b1",) == broken.unplaced_bookies and broken.problems[0].startswith(
        "znode /bookies: the rack map is not JSON"
    )


def test_a_rack_of_one_port_is_that_of_its_host():
    """BookKeeper looks in Pulsar's map for hosts without ports. Another port matches too, unless
    the host has two racks.
    """
    znode = locations.encode_rack_map(
        {"h1:3181": "/r1", "h2:3181": "/r1", "h2:3182": "/r2", "[2001:db8::1]:3181": "/v6"}
    )
    found = locate_bookies(
        sources("zookeeper"),
        bookie("a", "h1", 9), bookie("b", "h2", 9), bookie("c", "h2", 3182),
        bookie("d", "2001:DB8:0::1", 9),
        raw=lambda path: znode, resolve=lambda names: {},
    )  # fmt: skip
    assert ["/r1", None, "/r2", "/v6"] == [one.location for one in found.located]


def test_a_host_name_is_looked_up_once_and_only_where_addresses_matter(tmp_path, script):
    """A table of ids and names needs no addresses. Networks need them, and a script is given
    addresses.
    """
    names, nets = tmp_path / "names", tmp_path / "nets"
    names.write_text("other /r\n")
    nets.write_text("10.0.1.0/24 /net\n")
    bookies = [
        bookie("b1", "Host-1", 1),
        bookie("b2", "host-2", 1),
        bookie("b3", "host-3", 1),
        bookie("b4", "10.0.0.9", 1),
    ]
    assert ("b1", "b2", "b3", "b4") == locate_bookies(
        sources(str(names)), *bookies
    ).unplaced_bookies
    known = {
        "host-1": (ip_address("10.0.0.1"), ip_address("10.0.1.1")),
        "host-2": (ip_address("10.0.0.2"),),
    }
    asked = []
    found = locate_bookies(
        sources(f"{nets},{script}"),
        *bookies,
        resolve=lambda names: asked.append(list(names)) or known,
    )
    assert [["host-1", "host-2", "host-3"]] == asked
    assert ["/net", "/script-2", None, "/script-9"] == [one.location for one in found.located]


def test_the_script_is_asked_for_so_many_addresses_at_once(tmp_path, script):
    """The number is networkTopologyScriptNumberArgs. Each address is asked for once, though several
    bookies have it; a bookie without an address is not.
    """
    bookies = [bookie(f"b{n}", f"10.0.0.{n % 5}", n) for n in range(10)]
    found = locate_bookies(
        sources(str(script), topology_script_args_max="2"), *bookies, bookie("down")
    )
    calls = (tmp_path / "calls").read_text().splitlines()
    assert ["", "10.0.0.0 10.0.0.1", "10.0.0.2 10.0.0.3", "10.0.0.4"] == calls
    assert ("down",) == found.unplaced_bookies
    assert [f"/script-{n % 5}" for n in range(10)] == [
        one.location for one in found.located if one.location
    ]


def test_a_call_that_fails_leaves_its_bookies_to_the_next_source(tmp_path):
    """Each failed call is one problem, and the other calls count. A malformed location is a problem
    of its address.
    """
    path = tmp_path / "topology"
    path.write_text(
        '#!/bin/sh\ncase "$1" in *.1) exit 7;; *.2) echo rack;; *.3) echo /;; "") ;; *) echo /ok;;'
        " esac\n"
    )
    path.chmod(0o755)
    table = tmp_path / "racks"
    table.write_text("b1 /table\n")
    found = locate_bookies(
        sources(f"{path},{table}", topology_script_args_max="1"),
        *(bookie(f"b{n}", f"10.0.0.{n}", 1) for n in (1, 2, 3, 4)),
    )
    assert ["/table", None, None, "/ok"] == [one.location for one in found.located]
    failed, wrong = found.problems
    assert f"{path}, asked for 10.0.0.1, ended with exit code 7" in failed
    assert "has 'rack' for 10.0.0.2, which does not begin with /" in wrong


def test_the_number_of_problems_is_bounded(tmp_path):
    """A script may be wrong about any number of bookies."""
    path = tmp_path / "topology"
    path.write_text('#!/bin/sh\nfor a in "$@"; do echo rack; done\n')
    path.chmod(0o755)
    found = locate_bookies(
        sources(str(path)), *(bookie(f"b{n}", f"10.0.0.{n}", 1) for n in range(PROBLEMS_MAX + 9))
    )
    assert PROBLEMS_MAX + 1 == len(found.problems) and "and 9 problems more" in found.problems[-1]


@pytest.mark.parametrize(
    ("expected", "record"),
    [
        (Member("b1", "host", 3181), bookie("b1", "HOST", 3181)),
        (Member("b1:1", "2001:db8::1", 3181), bookie("b1:1", "2001:DB8::0:1", 3181)),
        (Member("host:3181", "host", 3181), bookie("host:3181")),
        (Member("[2001:db8::1]:3181", "2001:db8::1", 3181), bookie("[2001:db8::1]:3181")),
        (Member("bookie-1"), bookie("bookie-1")),
        (Member("10.0.0.1"), bookie("10.0.0.1")),
        (Member("a:b:1"), bookie("a:b:1")),
    ],
)
def test_what_a_bookie_is_looked_for_by(expected, record):
    """It is the registered address. An id is taken for an address only if nothing is registered and
    the id is host:port.
    """
    assert expected == member_of(record)


def test_a_bookie_that_is_down_keeps_its_location(tmp_path):
    """It is found by its id, or by the address in its id."""
    table = tmp_path / "racks"
    table.write_text("b1 /r1\n10.0.0.0/24 /r2\n")
    found = locate_bookies(
        sources(str(table)), bookie("b1"), bookie("10.0.0.7:3181"), bookie("10.0.0.7")
    )
    assert [("10.0.0.7", None), ("10.0.0.7:3181", "/r2"), ("b1", "/r1")] == [
        (o.bookie_id, o.location) for o in found.located
    ]


def test_bookies_that_only_ledgers_name_are_located_by_host_and_network(tmp_path):
    """No source is asked about them. The hosts and networks of tables and rack maps are kept for
    them.
    """
    table = tmp_path / "racks"
    table.write_text("10.0.0.0/24 /r2\nBk.example /r3\n10.0.0.7:3182 /r4\n")
    znode = locations.encode_rack_map(
        {"10.0.1.3:3181": "/m1", "10.0.1.4:1": "/m1", "10.0.1.4:2": "/m2"}
    )
    areas = locate_bookies(sources(f"{table},zookeeper"), raw=lambda path: znode).areas
    assert ({"bk.example": "/r3", "10.0.0.0/24": "/r2"}, {"10.0.1.3": "/m1"}) == areas


def test_behind_a_script_nobody_is_located_by_network(tmp_path, script):
    """The script comes before the second table, and its answer for these bookies is unknown."""
    (tmp_path / "one").write_text("10.0.0.0/24 /r1\n")
    (tmp_path / "two").write_text("10.0.0.0/8 /r2\n")
    chain = sources(f"{tmp_path / 'one'},{script},{tmp_path / 'two'}")
    assert ({"10.0.0.0/24": "/r1"},) == locate_bookies(chain).areas


def test_depths_that_differ_are_shown():
    """The most frequent depth is the usual one; of two equally frequent depths, the smaller."""
    deep, flat = Located("a", "/x/y", "s", "m"), Located("b", "/x", "s", "m")
    assert (None, ()) == (Topology().usual_depth, Topology((Located("c"),)).of_odd_depth)
    assert (1, (deep,)) == (
        Topology((deep, flat)).usual_depth,
        Topology((deep, flat, Located("c"))).of_odd_depth,
    )
    assert (2, (flat,)) == (
        Topology((deep, deep, flat)).usual_depth,
        Topology((deep, deep, flat)).of_odd_depth,
    )


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ("{0}/none", "there is no file {0}/none"),
        ("{0}", "there is no file {0}"),
        ("zookeeper,{0}/none", "--topology {0}/none"),
        ("script:{0}/plain", "{0}/plain is not executable: chmod +x"),
        ("script:{0}/none", "there is no file {0}/none"),
        ("{0}/plain", "line 1: 3 words"),
        ("file:{0}/program", "is a script"),
        ("{0}/program", "cannot be started"),
    ],
)
def test_a_file_that_cannot_be_a_source_is_a_usage_error(tmp_path, topology, words):
    """The file is missing, not executable, not a table or not a program. The error names it."""
    (tmp_path / "plain").write_text("no such table\n")
    (tmp_path / "program").write_text("#!/no/such/interpreter\n")
    (tmp_path / "program").chmod(0o755)
    with pytest.raises(ConfigError) as caught:
        sources(topology.format(tmp_path))
    assert words.format(tmp_path) in str(caught.value)


def test_a_file_may_be_said_to_be_what_it_is(tmp_path, script):
    """All files of a file system may be executable, and a table may be called zookeeper."""
    table = tmp_path / "zookeeper"
    table.write_text("b1 /r\n")
    table.chmod(0o755)
    assert "/r" == locate_bookies(sources(f"file:{table}"), bookie("b1")).locations["b1"]
    assert {"b1": "/script-1"} == locate_bookies(
        sources(f"script:{script}"), bookie("b1", "10.0.0.1", 1)
    ).locations


def test_addresses_of_this_machine():
    """A name that resolves has addresses, any other name has none. Neither raises."""
    found = addresses_of(["localhost", "no such host", "x" * 300, ""])
    assert ip_address("127.0.0.1") in found["localhost"] or ip_address("::1") in found["localhost"]
    assert all(() == found[name] for name in ("no such host", "x" * 300))


def test_a_resolver_that_does_not_answer_holds_nobody(monkeypatch):
    """Addresses that are known by the time limit count. Other names are not in the result."""
    hanging, asked = threading.Event(), []

    def getaddrinfo(name: str, *_: object, **__: object) -> list[tuple]:
        asked.append(name)
        if name != "quick":
            hanging.wait()
        return [(socket.AF_INET, 0, 0, "", ("10.0.0.1", 0))]

    monkeypatch.setattr(locating.socket, "getaddrinfo", getaddrinfo)
    try:
        found = addresses_of(["quick", *(f"slow-{n}" for n in range(50))], within_s=1.0)
        assert {"quick": (ip_address("10.0.0.1"),)} == found
    finally:
        hanging.set()
    assert len(asked) <= locating.RESOLVERS + 1
