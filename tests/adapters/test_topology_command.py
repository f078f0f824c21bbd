"""`auditor topology` against a real ZooKeeper, as a shell sees it, and how audits use what it
found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import Done, command, command_here
from support.zookeeper_process import ZooKeeperProcess
from support.zookeeper_znodes import QUICK, Znodes, uri, znodes

from auditor.clock import now_ms
from auditor.config import Layers, parse
from auditor.run.surroundings import around
from auditor.topology.sources import sources_of
from auditor.wire import bookie_registration, locations
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import open_store

COOKIE = b'5\nbookieHost: "10.0.0.4:3181"\njournalDir: "/j"\nledgerDirs: "1\\t/l"\n'
NOWHERE = "zk://127.0.0.1:1/ledgers"


@pytest.fixture(scope="module")
def tree(server: ZooKeeperProcess) -> Iterator[Znodes]:
    """Yield a cluster in the chroot /pulsar: b1 is writable, b2 read-only, b3 has no address, and a
    further bookie is down with its cookie.
    """
    root = "/pulsar/ledgers"
    with znodes(server.hosts) as client:
        client.layout(root, LedgerLayout.HIERARCHICAL)
        client.put(f"{root}/available/b1", bookie_registration.encode("10.0.0.1", 3181))
        client.put(f"{root}/available/readonly/b2", bookie_registration.encode("10.0.0.2", 3181))
        client.put(f"{root}/available/b3", b"\xff")
        client.put(f"{root}/cookies/10.0.0.4:3181", COOKIE)
        client.put(
            "/pulsar/bookies",
            locations.encode_rack_map({"b1": "/r1", "10.0.0.2:3181": "r2", "10.0.0.9:3181": "/r9"}),
        )
        yield client


def topology(*arguments: str) -> Done:
    return command_here("topology", *arguments)


def test_each_bookie_has_a_row_with_where_its_location_is_from(
    server: ZooKeeperProcess, tree: Znodes, tmp_path: Path
) -> None:
    """The sources are table, rack map and script, in this order; exit 0 if all have a location; a
    location of another depth is marked.
    """
    table = tmp_path / "racks"
    table.write_text("b3 /region/r3\n")
    script = tmp_path / "script.sh"
    script.write_text('#!/bin/sh\nfor a in "$@"; do echo /script; done\n')
    script.chmod(0o755)
    flags = [
        "--metadata-service-uri",
        f"zk://{server.hosts}/pulsar/ledgers",
        "--topology",
        f"{table},zookeeper,{script}",
    ]
    done = topology(*flags)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert (
        "4 bookies, 4 with a location.\n" in done.stdout and "Without a location" not in done.stdout
    )
    rows = {
        line.split()[0]: line.split()[1:]
        for line in done.stdout.splitlines()
        if line.startswith("  ")
    }
    location, source, *matched = rows["10.0.0.4:3181"]
    assert ("/script", ["address", "10.0.0.4"]) == (location, matched) and str(script).endswith(
        source.removeprefix("...")
    )
    assert ["/r1", "zookeeper", "/pulsar/bookies", "bookie", "id"] == rows["b1"]
    assert ["/r2", "zookeeper", "/pulsar/bookies", "address"] == rows["b2"]
    assert ["/region/r3", "2", "parts"] == rows["b3"], "shown last among those of odd depth"
    as_json = json.loads(command("topology", *flags, "--format", "json").stdout)
    assert {
        "bookie_id": "b2",
        "registration": "readonly",
        "location": "/r2",
        "source": "zookeeper /pulsar/bookies",
        "matched_by": "address",
    } == as_json["bookies"][2]
    assert ([], 1, ["b3"], []) == tuple(
        as_json[key] for key in ("unresolved", "usual_depth", "of_odd_depth", "problems")
    )


def test_a_bookie_without_a_location_is_exit_3(server: ZooKeeperProcess, tree: Znodes) -> None:
    """It is named with its state. A cluster with Pulsar's form of the URI is read in the same
    way.
    """
    done = topology(
        "--metadata-service-uri",
        f"metadata-store:zk:{server.hosts}/pulsar",
        "--topology",
        "zookeeper",
    )
    assert 3 == done.returncode, done.stdout + done.stderr
    assert "4 bookies, 2 with a location." in done.stdout
    after = done.stdout.split("Without a location: 2 bookies.")[1]
    assert [["10.0.0.4:3181", "not", "registered"], ["b3", "writable"]] == [
        line.split() for line in after.splitlines()[1:3]
    ]


def test_no_bookie_and_no_rack_map(server: ZooKeeperProcess, tree: Znodes) -> None:
    """The output says that nothing is known: exit 3."""
    tree.layout("/bare/x/ledgers", LedgerLayout.HIERARCHICAL)
    done = topology(
        "--metadata-service-uri", f"zk://{server.hosts}/bare/x/ledgers", "--topology", "zookeeper"
    )
    assert 3 == done.returncode, done.stdout + done.stderr
    assert (
        "There is no bookie" in done.stdout
        and "no znode /bare/x/bookies and no /bookies" in done.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--metadata-service-uri", NOWHERE], "topology is not set: give --topology LIST"),
        (["--topology", "zookeeper"], "metadata_service_uri is not set"),
        (
            ["--metadata-service-uri", NOWHERE, "--topology", "/no/such"],
            "there is no file /no/such",
        ),
        (
            ["--metadata-service-uri", NOWHERE, "--topology", "{bad}"],
            "line 2: location 'r2' does not begin with /",
        ),
    ],
)
def test_what_makes_no_sense_is_exit_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    """Nothing is contacted."""
    (tmp_path / "bad").write_text("b1 /r1\nb2 r2\n")
    done = topology(*(word.format(bad=tmp_path / "bad") for word in arguments))
    assert (2, "") == (done.returncode, done.stdout) and words in done.stderr, done.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_nobody_at_the_address_is_exit_5(form: str) -> None:
    """As for every command."""
    done = topology(
        "--metadata-service-uri",
        NOWHERE,
        "--topology",
        "zookeeper",
        "--zookeeper-connect-timeout",
        "500ms",
        "--format",
        form,
    )
    assert 5 == done.returncode, done.stdout + done.stderr
    assert (
        "UNREACHABLE" in done.stdout
        and "127.0.0.1:1" in done.stdout
        and "Traceback" not in done.stderr
    )


def test_a_znode_outside_of_root_is_read_whole_or_not_at_all(
    server: ZooKeeperProcess, tree: Znodes
) -> None:
    """The result is its bytes, None, or None with a sentence if it may not be read."""
    tree.put("/elsewhere/shut", b"x", shut=True)
    with open_store(uri(server.hosts, "/pulsar/ledgers"), QUICK) as store:
        assert (
            locations.decode_rack_map(store.raw("/pulsar/bookies") or b"").locations["b1"] == "/r1"
        )
        assert None is store.raw("/elsewhere/none") and [] == store.problems
        assert None is store.raw("/elsewhere/shut")
        assert ["znode /elsewhere/shut may not be read"] == [
            problem.partition(" by")[0] for problem in store.problems
        ]


def test_what_surrounds_the_ledgers(server: ZooKeeperProcess, tree: Znodes) -> None:
    """Registrations; the assigned locations, also of bookies that are down or only in the map; and
    maintenance by rack.
    """
    settings = parse(Layers({"topology": "zookeeper", "maintenance": "/r2,10.0.0.4:3181,/r9"}))
    with open_store(uri(server.hosts, "/pulsar/ledgers"), QUICK) as store:
        facts, bookies = store.cluster_facts(), store.bookies(0, now_ms)
        found, problems = around(store, facts, bookies, sources_of(settings), settings)
    assert (frozenset({"b1", "b3"}), frozenset({"b2"})) == (found.writable, found.readonly)
    assert {
        "b1": "/r1",
        "b2": "/r2",
        "10.0.0.2:3181": "/r2",
        "10.0.0.9:3181": "/r9",
    } == found.locations
    assert {"b2", "10.0.0.2:3181", "10.0.0.9:3181", "10.0.0.4:3181"} == found.maintenance
    assert (None, False) == (found.auditor, found.replication_disabled)
    assert (
        "no source has a location for 10.0.0.4:3181 and 1 more: auditor topology shows all",
    ) == problems
