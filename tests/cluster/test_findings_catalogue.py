"""The kinds of the catalogue, provoked on real bookies beside a twin that differs in one fact.

One cluster and one audit, with a policy of racks: b1 to b4 run, b3 and b4 share a rack, b5 is
killed and still registered, b6 and b7 have lost registration and cookie, and only b7's ledger is
marked. Kinds that need another cluster are provoked elsewhere: `ELSEWHERE` says where, and a test
checks it.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.audits import FIRST_LOOK_ON_SPARK, Outcome, accounted, audit, audit_ledgers, replay_run
from support.printed_commands import harm_of
from support.quick_forms import few_or_all
from support.real_cluster import RealCluster

from auditor.model.finding import CATALOGUE, Kind, Subject
from auditor.model.finding_record import HISTORY_FIELDS
from auditor.wire import ledger_metadata

pytestmark = pytest.mark.real
WAYS = [
    pytest.param({}, id="in process"),
    pytest.param(FIRST_LOOK_ON_SPARK, id="on Spark", marks=[pytest.mark.spark, pytest.mark.long]),
]
"""Whether the driver takes the first look, or Spark, as in a large cluster."""

BOOKIES = 7
SILENT, LOST, LOST_AND_MARKED = "b5", "b6", "b7"
DAY_MS = 24 * 3600 * 1000
TEN_DAYS_AGO_MS = 10 * DAY_MS
SIXTY_DAYS_AGO_MS = 60 * DAY_MS
RACKS = {
    "b1": "/r1",
    "b2": "/r2",
    "b3": "/r3",
    "b4": "/r3",
    SILENT: "/r5",
    LOST: "/r6",
    LOST_AND_MARKED: "/r7",
}
"""Only the story on placement has a write set of just b3 and b4."""
STRANDED_ON = "b4"
WORKER = "worker-7.example.com"
"""The holder of the lock of the marked ledger that cannot be replicated."""
ELSEWHERE = {
    Kind.ENTRY_CORRUPT: (
        "test_findings_probed.py::test_a_wrong_digest_is_read_at_two_looks_before_it_accuses"
    ),
    Kind.ENTRY_UNAVAILABLE: (
        "test_findings_unavailable.py::test_a_mark_does_not_excuse_that_the_only_bookie_is_down"
    ),
    Kind.RECOVERY_BLOCKED: (
        "test_findings_recovery.py::test_a_recovery_without_enough_bookies_is_found"
    ),
    Kind.PLACEMENT_SOFT: "test_findings_placement.py::test_zones_softly",
    Kind.BOOKIE_LOST_CONTENT: (
        "test_findings_bookies.py::test_a_bookie_that_lost_its_content_is_found"
    ),
    Kind.ENTRY_LOG_LOST: (
        "test_findings_entry_log_lost.py::test_a_lost_entry_log_is_found_on_its_bookie_and_nothing_else_is"
    ),
    Kind.BOOKIE_UNREADABLE_ENTRIES: (
        "test_findings_spot_reads.py::test_bookies_that_list_and_cannot_send_are_found"
    ),
    Kind.BOOKIE_DISK_SHRANK: (
        "test_findings_cookies.py::test_a_cookie_that_names_fewer_directories_is_found"
    ),
    Kind.COOKIE_OF_ANOTHER_INSTANCE: (
        "test_findings_cookies.py::test_a_cookie_of_another_instance_is_found"
    ),
    Kind.BOOKIE_FAILING_REQUESTS: (
        "test_findings_failing_bookie.py::test_a_bookie_whose_every_answer_is_an_error_is_found"
    ),
    Kind.LEDGER_POPULATION_DROPPED: (
        "test_findings_population.py::test_ledgers_that_vanished_are_found_and_a_few_are_not"
    ),
    Kind.VERIFICATION_OVERDUE: (
        "test_findings_verification.py::test_what_was_not_read_within_the_period_is_overdue"
    ),
    **dict.fromkeys(
        (Kind.LEDGER_DROPPED_FROM_TOPIC, Kind.POSITION_BEYOND_END),
        "test_findings_between_nights.py::test_a_topic_that_lost_a_ledger_and_a_position_beyond_the_end_are_found",
    ),
    Kind.CLOSED_METADATA_CHANGED: (
        "test_findings_between_nights.py::test_a_lower_end_is_found_and_a_replicated_ledger_is_not"
    ),
    Kind.MARK_WITHOUT_LEDGER: "test_findings_marks.py::test_the_mark_of_a_deleted_ledger_is_found",
    **dict.fromkeys(
        (Kind.REFERENCED_LEDGER_MISSING, Kind.LEDGER_TRUNCATED, Kind.LEDGER_ORPHANED),
        "test_findings_references.py::test_a_deleted_ledger_a_truncated_one_and_an_orphan_are_found",
    ),
    Kind.NEWEST_LEDGER_MISSING: (
        "test_findings_references.py::test_a_newest_ledger_that_was_deleted_is_found_by_its_topic"
    ),
}
"""Kinds that need another cluster, another policy or a second run, and the test here that provokes
each.
"""

HERE = Path(__file__).parent
COLLECT_REAL = ("--collect-only", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "-m", "real")
COLLECT_TIMEOUT_S = 120
CUT_BYTES = 3
"""Bytes removed from the end of the undecodable metadata: in the middle of its last field."""


@dataclass(frozen=True)
class Provoked:
    """A ledger that has a finding of `kind`, beside `number + 1` that has none; `finding` is the
    expected one.

    `asked`: the looks at which its bookies are asked before it is reported; one is enough for what
    only metadata shows.
    """

    kind: Kind
    number: int
    text: str
    twin: str
    finding: dict[str, Any]
    witness: tuple[str, ...]
    lose: dict[str, str] = field(default_factory=dict)
    standing: str = "violated"
    twin_standing: str = "sound"
    asked: int = 2
    members: frozenset[str] = frozenset()

    @property
    def asks(self) -> set[str]:
        """The bookies that hold it: those of its segment, if the finding has one."""
        return set(self.members or self.finding["segment"]["ensemble"])


STRIPED = "e3 w2 a2 0:[b1 b2 b3] closed 99"
TWO_SEGMENTS = "e4 w3 a2 0:[b1 b2 b3 b4] 1200:[b2 b1 b3 b4] closed 1999"
MIRRORED = "e3 w3 a2 0:[b2 b3 b4] closed 499"

STORIES = [
    Provoked(
        Kind.ENTRY_WITHOUT_REPLICA,
        100,
        STRIPED,
        STRIPED,
        {
            "severity": "critical",
            "family": "entry",
            "segment": {"first_entry_id": 0, "last_entry_id": 99, "ensemble": ["b1", "b2", "b3"]},
            "entries": [[42, 42]],
            "entries_total": 1,
            "missing_on": {"b1": [[42, 42]], "b2": [[42, 42]]},
            "copies": {"write_quorum": 2, "ack_quorum": 2, "confirmed": 0, "unknown": 0},
        },
        (
            "Entry 42 of ledger 100 belongs on b1 and b2",
            "b1 does not list it",
            "READ_ENTRY: ENOENTRY",
            "0 of 2 copies",
        ),
        {"b1": "42", "b2": "42"},
    ),
    Provoked(
        Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE,
        105,
        STRIPED,
        STRIPED,
        {
            "severity": "critical",
            "family": "entry",
            "segment": {"first_entry_id": 0, "last_entry_id": 99, "ensemble": ["b1", "b2", "b3"]},
            "entries": [[42, 42]],
            "entries_total": 1,
            "missing_on": {"b1": [[42, 42]], "b2": [[42, 42]]},
            "copies": {"write_quorum": 2, "ack_quorum": 2, "confirmed": 0, "unknown": 0},
        },
        (
            "Entry 42 of ledger 105",
            f"No segment of the ledger names {STRANDED_ON}",
            "Garbage collection",
        ),
        {"b1": "42", "b2": "42"},
    ),
    Provoked(
        Kind.ENTRY_BELOW_ACK_QUORUM,
        110,
        TWO_SEGMENTS,
        TWO_SEGMENTS,
        {
            "severity": "critical",
            "family": "entry",
            "segment": {
                "first_entry_id": 1200,
                "last_entry_id": 1999,
                "ensemble": ["b2", "b1", "b3", "b4"],
            },
            "entries": [[1504, 1504]],
            "entries_total": 1,
            "missing_on": {"b2": [[1504, 1504]], "b1": [[1504, 1504]]},
            "copies": {"write_quorum": 3, "ack_quorum": 2, "confirmed": 1, "unknown": 0},
        },
        (
            "Entry 1504",
            "segment 1200-1999",
            "belongs on b2, b1 and b3",
            "b3 lists it",
            "1 of 3 copies",
        ),
        {"b1": "1504", "b2": "1504"},
    ),
    Provoked(
        Kind.ENTRY_BELOW_WRITE_QUORUM,
        120,
        MIRRORED,
        MIRRORED,
        {
            "severity": "warning",
            "family": "entry",
            "segment": {"first_entry_id": 0, "last_entry_id": 499, "ensemble": ["b2", "b3", "b4"]},
            "entries": [[100, 199]],
            "entries_total": 100,
            "missing_on": {"b3": [[100, 199]]},
            "copies": {"write_quorum": 3, "ack_quorum": 2, "confirmed": 2, "unknown": 0},
        },
        (
            "b2 lists it",
            "b3 does not list it",
            "b4 lists it",
            "2 of 3 copies",
            "100 entries",
            "100-199",
        ),
        {"b3": "100-199"},
    ),
    Provoked(
        Kind.ENSEMBLE_DUPLICATE_BOOKIE,
        130,
        "e3 w2 a2 0:[b1 b2 b1] closed 1",
        "e3 w2 a2 0:[b1 b2 b3] closed 1",
        {
            "severity": "warning",
            "family": "placement",
            "segment": {"first_entry_id": 0, "last_entry_id": 1, "ensemble": ["b1", "b2", "b1"]},
        },
        ("names b1 at positions 0 and 2",),
        asked=1,
    ),
    Provoked(
        Kind.PLACEMENT_FAILED,
        135,
        "e3 w2 a2 0:[b1 b3 b4] closed 49",
        "e3 w2 a2 0:[b1 b3 b2] closed 49",
        {
            "severity": "warning",
            "family": "placement",
            "segment": {"first_entry_id": 0, "last_entry_id": 49, "ensemble": ["b1", "b3", "b4"]},
        },
        (
            "rack-aware policy",
            "from position 1 (b3 at /r3, b4 at /r3) has 1 rack (/r3) and needs 2",
        ),
        asked=1,
    ),
    Provoked(
        Kind.UNDERREPLICATED_BEYOND_GRACE,
        140,
        "e3 w2 a2 0:[b1 b2 b3] closed 49",
        "e3 w2 a2 0:[b1 b2 b3] closed 49",
        {"severity": "warning", "family": "mark", "segment": None},
        (
            "Ledger 140",
            "The mark names b3 as missing.",
            "Up to 3 days is acceptable",
            "no auto-recovery auditor is elected",
        ),
        twin_standing="exempt: marked_underreplicated",
        asked=1,
        members=frozenset({"b1", "b2", "b3"}),
    ),
    Provoked(
        Kind.UNDERREPLICATED_UNRECOVERABLE,
        145,
        "e3 w2 a2 0:[b1 b2 b4] closed 49",
        "e3 w2 a2 0:[b1 b2 b4] closed 49",
        {
            "severity": "critical",
            "family": "mark",
            "segment": {"first_entry_id": 0, "last_entry_id": 49, "ensemble": ["b1", "b2", "b4"]},
            "entries": [[7, 7]],
            "entries_total": 1,
            "missing_on": {"b2": [[7, 7]], "b4": [[7, 7]]},
            "copies": {"write_quorum": 2, "ack_quorum": 2, "confirmed": 0, "unknown": 0},
        },
        (
            "Entry 7 of ledger 145 belongs on b2 and b4",
            "marked under-replicated",
            "which is where replication reads",
            WORKER,
        ),
        {"b2": "7", "b4": "7"},
        twin_standing="exempt: marked_underreplicated",
    ),
    Provoked(
        Kind.METADATA_MALFORMED,
        150,
        "e3 w2 a2 0:[b2 b1 b4] closed",
        "e3 w2 a2 0:[b2 b1 b4] closed 49",
        {"severity": "warning", "family": "metadata", "segment": None},
        ("the ledger is CLOSED and has no lastEntryId",),
        asked=0,
    ),
    Provoked(
        Kind.METADATA_MALFORMED,
        160,
        "undecodable",
        "e3 w2 a2 0:[b1 b2 b4] closed 9",
        {"severity": "warning", "family": "metadata", "segment": None},
        ("SHA-256 of the bytes", "cannot be decoded: at byte"),
        asked=0,
    ),
    Provoked(
        Kind.LEDGER_STUCK,
        165,
        "e3 w2 a2 0:[b1 b2 b3] open",
        "e3 w2 a2 0:[b1 b2 b3] open",
        {"severity": "info", "family": "metadata", "segment": None},
        ("Ledger 165 has been OPEN for 60 days", "--stuck-after is 30 days"),
        standing="exempt: open",
        twin_standing="exempt: open",
        asked=0,
    ),
    Provoked(
        Kind.LEDGER_CLOSED_SHORT,
        185,
        "e3 w2 a2 0:[b1 b2 b3] closed 9",
        "e3 w2 a2 0:[b1 b2 b3] closed 19",
        {
            "severity": "critical",
            "family": "entry",
            "segment": None,
            "entries": [[10, 18]],
            "entries_total": 9,
        },
        (
            "ends at entry 9",
            "entry 18 was acknowledged (lastAddConfirmed 18)",
            "The end cuts off 9 acknowledged entries: 10-18.",
        ),
        members=frozenset({"b1", "b2", "b3"}),
    ),
    Provoked(
        Kind.ENTRIES_BEYOND_END,
        190,
        "e3 w2 a2 0:[b1 b2 b3] closed 9",
        "e3 w2 a2 0:[b1 b2 b3] closed 10",
        {
            "severity": "info",
            "family": "metadata",
            "segment": None,
            "entries": [[10, 10]],
            "entries_total": 1,
        },
        ("ends at entry 9", "lastAddConfirmed 9", "in flight when the ledger was closed"),
        standing="sound",
        members=frozenset({"b1", "b2", "b3"}),
        asked=1,
    ),
]
ON_SILENT, ON_ANSWERING, ON_LOST, ON_LOST_AND_MARKED = 170, 171, 180, 181
"""The ledgers that name the bookies with findings, each beside its twin."""
SOUND_BESIDE = (200, 201)
PROVEN_DESPITE_SILENCE, BELOW_DESPITE_SILENCE = 210, 211


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield a cluster with every story, and with the ledgers on bookies that are silent or lost."""
    with RealCluster(tmp_path_factory.mktemp("catalogue"), bookies=BOOKIES) as cluster:
        for story in STORIES:
            _tell(cluster, story)
        for ledger_id, ensemble in ((200, "b2 b4 b1"), (201, "b3 b2 b1")):
            cluster.place(ledger_id, cluster.ledger(f"e3 w2 a2 0:[{ensemble}] closed 19"))
        silent_member = cluster.ledger(f"e3 w2 a2 0:[b1 b2 {SILENT}] closed 9")
        cluster.place(ON_SILENT, silent_member)
        cluster.place(PROVEN_DESPITE_SILENCE, silent_member, {"b1": "3", "b2": "3"})
        cluster.place(BELOW_DESPITE_SILENCE, silent_member, {"b2": "4"})
        cluster.place(ON_ANSWERING, cluster.ledger("e3 w2 a2 0:[b1 b2 b4] closed 9"))
        for ledger_id, lost in ((ON_LOST, LOST), (ON_LOST_AND_MARKED, LOST_AND_MARKED)):
            cluster.place(ledger_id, cluster.ledger(f"e3 w2 a2 0:[b1 {lost} b3] closed 9"))
        cluster.mark(ON_LOST_AND_MARKED, [LOST_AND_MARKED])
        cluster.stop_bookie(SILENT)
        for lost in (LOST, LOST_AND_MARKED):
            cluster.lose_bookie(lost)
        yield cluster


def _tell(cluster: RealCluster, story: Provoked) -> None:
    """Write the story's ledger and its twin, and do what their text cannot express."""
    twin = cluster.ledger(story.twin)
    cluster.place(story.number + 1, twin)
    if story.text == "undecodable":
        cluster.spread(story.number, twin)
        cluster.set_raw(story.number, ledger_metadata.encode(twin, password=b"")[:-CUT_BYTES])
        return
    metadata = cluster.ledger(story.text)
    cluster.place(story.number, metadata, story.lose, written=twin.last_entry_id)
    now_ms = int(time.time() * 1000)
    if story.kind is Kind.UNDERREPLICATED_BEYOND_GRACE:
        cluster.mark(story.number, ["b3"], now_ms - TEN_DAYS_AGO_MS)
        cluster.mark(story.number + 1, ["b3"], now_ms)
    elif story.kind is Kind.UNDERREPLICATED_UNRECOVERABLE:
        for ledger_id in (story.number, story.number + 1):
            cluster.mark(ledger_id, ["b2"], now_ms)
        cluster.lock(story.number, WORKER)
    elif story.kind is Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE:
        cluster.hold(STRANDED_ON, story.number, "42")
    elif story.kind is Kind.LEDGER_STUCK:
        cluster.add_ledger(story.number, replace(metadata, ctime_ms=now_ms - SIXTY_DAYS_AGO_MS))


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the settings of placement: racks by a table file."""
    table = tmp_path_factory.mktemp("topology") / "racks.txt"
    table.write_text("".join(f"{bookie} {rack}\n" for bookie, rack in RACKS.items()))
    return {"placement_policy": "rack", "topology": str(table)}


@pytest.fixture(scope="module", params=WAYS)
def outcome(
    request: pytest.FixtureRequest,
    cluster: RealCluster,
    racks: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Outcome:
    """Return the one audit of all stories."""
    if request.param:
        request.getfixturevalue("spark")
    return accounted(audit(cluster, tmp_path_factory.mktemp("audit"), **racks, **request.param))


@pytest.fixture(scope="module")
def single(cluster: RealCluster, racks: dict[str, str], outcome: Outcome) -> Outcome:
    """Return `auditor ledger` on every ledger of the cluster, after the audit."""
    return audit_ledgers(cluster, sorted(outcome.verdicts), **racks)


by_kind = pytest.mark.parametrize(
    "story", STORIES, ids=lambda story: f"{story.kind.value}-{story.number}"
)


def test_every_kind_of_the_catalogue_is_provoked(outcome: Outcome) -> None:
    """These stories and those of other modules provoke the whole catalogue."""
    on_bookies = {Kind.BOOKIE_SILENT_YET_REGISTERED, Kind.BOOKIE_LOST_UNNOTICED}
    here = {story.kind for story in STORIES} | on_bookies
    assert here == set(outcome.kinds)
    assert set(CATALOGUE) == here | set(ELSEWHERE)
    assert set() == here & set(ELSEWHERE)


@pytest.fixture(scope="module")
def collected() -> str:
    """Return the tests on real bookies that pytest collects in the modules of ELSEWHERE."""
    modules = sorted({where.partition("::")[0] for where in ELSEWHERE.values()})
    command = [sys.executable, "-m", "pytest", *COLLECT_REAL, *modules]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=COLLECT_TIMEOUT_S, cwd=HERE, check=True
    ).stdout


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_what_is_provoked_elsewhere_is_provoked_there(kind: Kind, collected: str) -> None:
    """The named test runs on real bookies, and fails unless it finds that kind."""
    module, _, name = ELSEWHERE[kind].partition("::")
    tree = ast.parse((HERE / module).read_text())
    (test,) = (one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == name)
    assert kind.name in kinds_found(test)
    assert f"{module}::{name}" in collected


def kinds_found(test: ast.FunctionDef) -> set[str]:
    """Return the names of the kinds that `test` asserts something to be equal to."""
    asserted = [node.test for node in ast.walk(test) if isinstance(node, ast.Assert)]
    equal = [
        one for one in asserted if isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Eq)
    ]
    named = [node for one in equal for node in ast.walk(one) if isinstance(node, ast.Attribute)]
    return {node.attr for node in named if ast.unparse(node.value) == "Kind"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("assert Kind.ENTRY_CORRUPT.value == one['kind']", {"ENTRY_CORRUPT"}),
        ("assert {Kind.ENTRY_CORRUPT} == kinds", {"ENTRY_CORRUPT"}),
        ("assert Kind.ENTRY_CORRUPT not in kinds", set()),
        ("'Kind.ENTRY_CORRUPT'", set()),
        ("names = [name for name in CASES if name.kind is Kind.ENTRY_CORRUPT]", set()),
    ],
)
def test_naming_a_kind_is_not_finding_it(line: str, found: set[str]) -> None:
    """Only a comparison for equality in an assertion counts, not a mention."""
    (test,) = ast.parse(f"def test_it():\n    {line}").body
    assert isinstance(test, ast.FunctionDef)
    assert found == kinds_found(test)


@by_kind
def test_kind_is_found_for_what_it_is(outcome: Outcome, story: Provoked) -> None:
    """There is one finding, with the entries, bookies and copies that were taken from the ledger,
    and the right standing.
    """
    found = outcome.one(story.number)
    nothing = {"entries": [], "entries_total": 0, "missing_on": {}, "copies": None}
    expected = {
        "kind": story.kind.value,
        "ledger_id": story.number,
        "bookie_id": None,
        **nothing,
        **story.finding,
    }
    assert expected == {key: found[key] for key in expected}
    assert outcome.standings(story.number) == [story.standing]
    missing = [words for words in story.witness if words not in found["witness"]]
    assert missing == [], found["witness"]


@by_kind
def test_twin_has_no_finding(outcome: Outcome, story: Provoked) -> None:
    """The twin, which differs in one fact, is sound."""
    assert outcome.standings(story.number + 1) == [story.twin_standing]
    assert outcome.of(story.number + 1) == []


@by_kind
def test_no_accusation_on_one_look(outcome: Outcome, story: Provoked) -> None:
    """There are at least two looks, oldest first, the last without questions; bookies that could
    contribute were asked twice.
    """
    looks = outcome.one(story.number)["looks"]
    assert len(looks) >= 2
    assert [look["at"] for look in looks] == sorted(look["at"] for look in looks)
    assert len({look["znode_version"] for look in looks}) == 1
    expected = [story.asks] * story.asked if story.asked else [set()]
    assert [*expected, set()] == [set(look["answers"]) for look in looks]
    assert {"held"} >= {said for look in looks for said in look["answers"].values()}


def test_silent_bookie_is_found_and_its_ledger_unknown(outcome: Outcome) -> None:
    """It is registered and silent at every look: a warning on the bookie; its ledger cannot be
    judged, and the twin's bookie answers.
    """
    found = outcome.one(SILENT)
    assert (Kind.BOOKIE_SILENT_YET_REGISTERED.value, "warning", "bookie") == (
        found["kind"],
        found["severity"],
        found["family"],
    )
    assert (None, None, []) == (found["ledger_id"], found["segment"], found["entries"])
    assert len(found["looks"]) >= 2
    assert {json.dumps({SILENT: "silent"})} == {
        json.dumps(look["answers"]) for look in found["looks"]
    }
    assert f"Bookie {SILENT} is registered as writable at 127.0.0.1:" in found["witness"]
    assert ["indeterminate: bookie_silent", "sound"] == outcome.standings(ON_SILENT, ON_ANSWERING)


def test_lost_bookie_is_found_while_its_ledgers_are_unmarked(outcome: Outcome) -> None:
    """It is neither registered nor marked: critical. If the ledger is marked, the cluster knows,
    and there is no finding.
    """
    found = outcome.one(LOST)
    assert (Kind.BOOKIE_LOST_UNNOTICED.value, "critical", "bookie") == (
        found["kind"],
        found["severity"],
        found["family"],
    )
    assert len(found["looks"]) >= 2
    assert {json.dumps({LOST: "unregistered"})} == {
        json.dumps(look["answers"]) for look in found["looks"]
    }
    for words in (
        "is not registered",
        "1 closed ledger names it",
        f"({ON_LOST})",
        "not marked",
        "has no cookie",
    ):
        assert words in found["witness"]
    assert [] == outcome.of(LOST_AND_MARKED)
    assert outcome.standings(ON_LOST, ON_LOST_AND_MARKED) == [
        "violated",
        "exempt: marked_underreplicated",
    ]


def test_what_a_gone_bookie_should_hold_is_absent(outcome: Outcome) -> None:
    """The ledger names a bookie without registration and cookie: its entries have one copy of two.
    There is no contradiction, and within grace a mark excuses it.
    """
    found = outcome.one(ON_LOST)
    assert Kind.ENTRY_BELOW_ACK_QUORUM.value == found["kind"]
    assert [LOST] == found["facts"]["gone"]
    assert f"{LOST} is gone: it has neither a registration nor a cookie." in found["witness"]
    assert [] == outcome.of(ON_LOST_AND_MARKED)


def test_silence_stands_beside_proof(outcome: Outcome) -> None:
    """What the answering bookies prove is found although a third one is silent; silence counts
    neither as a copy nor as an absence.
    """
    lost, below = outcome.one(PROVEN_DESPITE_SILENCE), outcome.one(BELOW_DESPITE_SILENCE)
    assert (Kind.ENTRY_WITHOUT_REPLICA.value, [[3, 3]]) == (lost["kind"], lost["entries"])
    assert (Kind.ENTRY_BELOW_ACK_QUORUM.value, [[4, 4]]) == (below["kind"], below["entries"])
    assert {"write_quorum": 2, "ack_quorum": 2, "confirmed": 0, "unknown": 1} == below["copies"]
    expected = ["violated: bookie_silent"] * 2
    assert expected == outcome.standings(PROVEN_DESPITE_SILENCE, BELOW_DESPITE_SILENCE)


def test_nothing_else_is_found(outcome: Outcome) -> None:
    """Apart from the stories no ledger and no bookie has a finding, and every listed ledger is
    accounted for.
    """
    ledgers = {story.number for story in STORIES} | {
        PROVEN_DESPITE_SILENCE,
        BELOW_DESPITE_SILENCE,
        ON_LOST,
    }
    assert sorted(ledgers) == sorted(
        found["ledger_id"] for found in outcome.findings if found["ledger_id"] is not None
    )
    assert [LOST, SILENT] == sorted(
        (f["bookie_id"] for f in outcome.findings if f["bookie_id"] is not None), reverse=True
    )
    assert outcome.standings(*SOUND_BESIDE) == ["sound", "sound"]
    assert outcome.summary["ledgers"] == {
        "listed": 34,
        "sound": 14,
        "exempt": 5,
        "indeterminate": 1,
        "violated": 14,
    }


def test_exit_code_and_outcome(outcome: Outcome) -> None:
    """Findings take precedence over unknown ledgers: exit 1, VIOLATED, not complete."""
    assert (1, "VIOLATED", False) == (
        outcome.exit_code,
        outcome.summary["outcome"],
        outcome.summary["complete"],
    )


def test_bookies_are_counted(outcome: Outcome) -> None:
    """Registered, silent and named bookies are counted; the lost ones are named and not
    registered.
    """
    bookies = outcome.summary["bookies"]
    assert {"registered": 5, "readonly": 0, "named_by_ledgers": 7, "answered": 4, "silent": 1} == {
        key: bookies[key]
        for key in ("registered", "readonly", "named_by_ledgers", "answered", "silent")
    }


def test_single_ledgers_get_the_same_verdicts(outcome: Outcome, single: Outcome) -> None:
    """`auditor ledger` gives every ledger the verdict of the run: standing, reasons, and findings
    apart from the times of looks and what a run adds from other runs.
    """
    left_out = {"looks", "witness", "age_ms", *HISTORY_FIELDS}

    def without_times(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_times(one) for key, one in value.items() if key not in left_out}
        return value

    ids = sorted(outcome.verdicts)
    assert outcome.standings(*ids) == single.standings(*ids)
    for ledger_id in ids:
        assert [without_times(found) for found in outcome.of(ledger_id)] == [
            without_times(found) for found in single.of(ledger_id)
        ]
    assert outcome.exit_code == single.exit_code


def test_single_ledgers_withhold_findings_on_bookies_and_say_so(
    cluster: RealCluster, single: Outcome
) -> None:
    """`auditor ledger` gives no finding on a bookie, and its report says that they are withheld."""
    assert {Subject.LEDGER} == {CATALOGUE[kind].subject for kind in single.kinds}
    said = audit_ledgers(cluster, [ON_SILENT], format="text")
    assert "ithheld" in said.stdout
    assert said.last_line.startswith("auditor: INCOMPLETE run=")
    assert 3 == said.exit_code


def test_one_answer_less_changes_one_verdict(outcome: Outcome, tmp_path: Path) -> None:
    """Without one bookie's answer exactly that ledger's verdict changes."""
    assert outcome.run_dir is not None
    less = tmp_path / "less"
    shutil.copytree(outcome.run_dir, less)
    ledger_id, bookie = SOUND_BESIDE[0], "b4"
    answers = ds.dataset(less / "evidence" / "answers", format="parquet").to_table()
    gone = (ds.field("ledger_id") == ledger_id) & (ds.field("bookie_id") == bookie)
    kept = answers.filter(~gone | ds.field("ledger_id").is_null())
    assert answers.num_rows - 1 == kept.num_rows
    shutil.rmtree(less / "evidence" / "answers")
    (less / "evidence" / "answers").mkdir()
    pq.write_table(kept, less / "evidence" / "answers" / "answers.parquet")
    summary = json.loads((less / "summary.json").read_text())
    (less / "summary.json").write_text(json.dumps({**summary, "stored": None}))

    again = replay_run(less)

    assert [ledger_id] == [
        one for one, verdict in outcome.verdicts.items() if again.verdicts[one] != verdict
    ]
    assert again.standings(ledger_id) == ["indeterminate: bookie_silent"]


@pytest.mark.parametrize("of_each", few_or_all(1, 100))
def test_what_findings_say_to_save_and_to_look_at_changes_nothing(
    cluster: RealCluster, outcome: Outcome, tmp_path: Path, of_each: int
) -> None:
    """The commands are run on the damage that they are printed for, the worst of each kind; every
    znode and what each bookie has stay the same. A few: one command of each sort.
    """
    first_of_each = list({one["kind"]: one for one in reversed(outcome.findings)}.values())
    assert [] == harm_of(cluster, first_of_each, tmp_path, of_each)
