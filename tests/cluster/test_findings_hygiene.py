"""Metadata that contradicts itself or the cluster, and ledgers that are never closed, from a real
ZooKeeper with real bookies.

They are on the shared cluster. The entries of each ledger are on its bookies except for those that
the story removes, which are found if it is clear which entries a segment has.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from itertools import count

import pytest
from support.audits import Outcome, audit_ledgers
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = pytest.mark.real

FIRST = 430_000
"""Ledger ids of this module on the shared cluster, far from those that its tests draw."""
"""A bookie that no cluster of these tests ever had."""
DAY_MS = 24 * 3600 * 1000
WRITTEN = 9
"""The last entry written, whatever the metadata says."""


@dataclass(frozen=True)
class BadMetadata:
    """Metadata with contradictions (`says`, as in the witness), its correct form, and what the
    bookies lack.

    `on_entries`: the finding of coverage beside it, with its entries.
    `is_short`: entries were written and acknowledged beyond its last one.
    """

    text: str
    twin: str
    says: tuple[str, ...]
    lose: dict[str, str] = field(default_factory=dict)
    on_entries: tuple[Kind, list[list[int]]] | None = None
    is_short: bool = False


CONTRADICTIONS = {
    "first segment not at 0": BadMetadata(
        "e3 w2 a2 5:[b1 b2 b3] closed 9",
        "e3 w2 a2 0:[b1 b2 b3] closed 9",
        ("the first segment starts at entry 5, not at 0",),
        {"b1": "6", "b2": "6-7"},
        (Kind.ENTRY_WITHOUT_REPLICA, [[6, 6]]),
    ),
    "segments out of order": BadMetadata(
        "e3 w2 a2 0:[b1 b2 b3] 8:[b1 b4 b3] 4:[b1 b2 b5] closed 9",
        "e3 w2 a2 0:[b1 b2 b3] 4:[b1 b4 b3] 8:[b1 b2 b5] closed 9",
        ("the segment at entry 4 comes after the one at entry 8",),
        {"b1": "2", "b3": "5"},
        (Kind.ENTRY_BELOW_ACK_QUORUM, [[2, 2]]),
    ),
    "one doubled segment": BadMetadata(
        "e3 w2 a2 0:[b1 b2 b3] 4:[b1 b4 b3] 4:[b1 b2 b5] 7:[b1 b2 b3] closed 9",
        "e3 w2 a2 0:[b1 b2 b3] 4:[b1 b4 b3] 6:[b1 b2 b5] 7:[b1 b2 b3] closed 9",
        ("the segment at entry 4 comes after the one at entry 4",),
        {"b2": "0 7"},
        (Kind.ENTRY_BELOW_ACK_QUORUM, [[0, 0], [7, 7]]),
    ),
    "an ensemble too short": BadMetadata(
        "e3 w2 a2 0:[b1 b2] 5:[b1 b2 b3] closed 9",
        "e3 w2 a2 0:[b1 b2 b4] 5:[b1 b2 b3] closed 9",
        ("the ensemble of the segment at entry 0 has 2 bookies, and the ensemble size is 3",),
        {"b1": "6"},
        (Kind.ENTRY_BELOW_ACK_QUORUM, [[6, 6]]),
    ),
    "an ensemble too long": BadMetadata(
        "e2 w2 a2 0:[b1 b2] 5:[b1 b2 b3] closed 9",
        "e2 w2 a2 0:[b1 b2] 5:[b1 b2] closed 9",
        ("the ensemble of the segment at entry 5 has 3 bookies, and the ensemble size is 2",),
        {"b2": "3"},
        (Kind.ENTRY_BELOW_ACK_QUORUM, [[3, 3]]),
    ),
    "write quorum beyond the ensemble": BadMetadata(
        "e2 w3 a2 0:[b1 b2] closed 9",
        "e2 w2 a2 0:[b1 b2] closed 9",
        ("the write quorum 3 is larger than the ensemble size 2",),
    ),
    "ack quorum beyond the write quorum": BadMetadata(
        "e3 w2 a3 0:[b1 b2 b3] closed 9",
        "e3 w2 a2 0:[b1 b2 b3] closed 9",
        ("the ack quorum 3 is larger than the write quorum 2",),
        {"b2": "3"},
        (Kind.ENTRY_BELOW_ACK_QUORUM, [[3, 3]]),
    ),
    "zero quorums": BadMetadata(
        "e3 w0 a0 0:[b1 b2 b3] closed 9",
        "e3 w1 a1 0:[b1 b2 b3] closed 9",
        ("a quorum is below one (ensemble size 3, write quorum 0, ack quorum 0)",),
    ),
    "no last entry": BadMetadata(
        "e3 w2 a1 0:[b1 b2 b3] 4:[b1 b2 b4] closed",
        "e3 w2 a1 0:[b1 b2 b3] 4:[b1 b2 b4] closed 9",
        ("the ledger is CLOSED and has no lastEntryId",),
        {"b2": "1 7"},
        (Kind.ENTRY_BELOW_WRITE_QUORUM, [[1, 1]]),
    ),
    "last segment beyond the last entry": BadMetadata(
        "e3 w2 a1 0:[b1 b2 b3] 20:[b1 b2 b4] closed 9",
        "e3 w2 a1 0:[b1 b2 b3] 10:[b1 b2 b4] closed 9",
        ("the last segment starts at entry 20, beyond lastEntryId 9",),
        {"b2": "4"},
        (Kind.ENTRY_BELOW_WRITE_QUORUM, [[4, 4]]),
        is_short=True,
    ),
    "several at once": BadMetadata(
        "e3 w2 a3 5:[b1 b2 b3] 9:[b1 b2] closed",
        "e3 w2 a2 0:[b1 b2 b3] 9:[b1 b2 b4] closed 9",
        (
            "the ack quorum 3 is larger than the write quorum 2",
            "the first segment starts at entry 5, not at 0",
            "the ensemble of the segment at entry 9 has 2 bookies, and the ensemble size is 3",
            "the ledger is CLOSED and has no lastEntryId",
        ),
    ),
}
_ids = count(FIRST)
IDS = {name: (next(_ids), next(_ids)) for name in CONTRADICTIONS}
"""Each ledger beside its twin."""
OPEN, OPEN_TWIN, RECOVERING, CLOSED_BESIDE, OLD_BUT_CLOSED = (next(_ids) for _ in range(5))


@pytest.fixture(scope="module")
def outcome(shared_cluster: RealCluster) -> Outcome:
    """Return the audit of all contradictions and their twins."""
    for name, contradictory in CONTRADICTIONS.items():
        ledger_id, twin = IDS[name]
        metadata = shared_cluster.ledger(contradictory.text)
        shared_cluster.add_ledger(ledger_id, metadata)
        shared_cluster.spread(ledger_id, metadata, contradictory.lose, WRITTEN)
        shared_cluster.place(twin, shared_cluster.ledger(contradictory.twin))
    return audit_ledgers(shared_cluster, [one for both in IDS.values() for one in both])


by_name = pytest.mark.parametrize("name", CONTRADICTIONS)


@by_name
def test_each_contradiction_names_both_sides(outcome: Outcome, name: str) -> None:
    """METADATA_MALFORMED is a warning, each contradiction names both sides, and the metadata was
    read twice alike.
    """
    (found,) = (one for one in outcome.of(IDS[name][0]) if one["family"] == "metadata")
    assert (Kind.METADATA_MALFORMED.value, "warning") == (found["kind"], found["severity"])
    clauses = (
        found["witness"]
        .split("contradicts itself: ")[1]
        .split(". Bookies were")[0]
        .split(". Metadata was")[0]
    )
    assert CONTRADICTIONS[name].says == tuple(clauses.split("; "))
    assert 1 == len({look["znode_version"] for look in found["looks"]})
    assert len(found["looks"]) >= 2


@by_name
def test_entries_are_judged_where_their_extents_are_clear(outcome: Outcome, name: str) -> None:
    """What is missing from a segment with a clear beginning and end is found beside the
    contradiction, and nothing else is.
    """
    expected = CONTRADICTIONS[name].on_entries
    short = [Kind.LEDGER_CLOSED_SHORT.value] if CONTRADICTIONS[name].is_short else []
    found = [one for one in outcome.of(IDS[name][0]) if one["family"] == "entry"]
    assert short == [one["kind"] for one in found[: len(short)]]
    assert ([] if expected is None else [(expected[0].value, expected[1])]) == [
        (one["kind"], one["entries"]) for one in found[len(short) :]
    ]
    assert ["violated"] == outcome.standings(IDS[name][0])


@by_name
def test_twin_makes_sense(outcome: Outcome, name: str) -> None:
    """The twin, without the contradiction and with every entry, is sound."""
    assert ["sound"] == outcome.standings(IDS[name][1])
    assert [] == outcome.of(IDS[name][1])


@pytest.fixture(scope="module")
def unclosed(shared_cluster: RealCluster) -> RealCluster:
    """Return ledgers: one open for sixty days by its metadata, one created just now, one in
    recovery since just now, and closed ones.
    """
    now_ms = int(time.time() * 1000)
    old = {"ctime_ms": now_ms - 60 * DAY_MS}
    texts = {
        OPEN: ("e3 w2 a2 0:[b1 b2 b3] open", old),
        OPEN_TWIN: ("e3 w2 a2 0:[b1 b2 b3] open", {"ctime_ms": now_ms}),
        RECOVERING: ("e3 w2 a2 0:[b1 b2 b3] in_recovery", old),
        CLOSED_BESIDE: ("e3 w2 a2 0:[b1 b2 b3] closed 9", {"ctime_ms": now_ms}),
        OLD_BUT_CLOSED: ("e3 w2 a2 0:[b1 b2 b3] closed 9", old),
    }
    for ledger_id, (text, made) in texts.items():
        shared_cluster.place(ledger_id, replace(shared_cluster.ledger(text), **made))
    return shared_cluster


ALL_UNCLOSED = (OPEN, OPEN_TWIN, RECOVERING, CLOSED_BESIDE, OLD_BUT_CLOSED)
EXPECTED = ["exempt: open", "exempt: open", "exempt: in_recovery", "sound", "sound"]
"""Their standings, stuck or not: a finding of severity info changes none."""


def test_open_for_long_is_stuck(unclosed: RealCluster) -> None:
    """It is open since its creation, by its own metadata: LEDGER_STUCK, info. A ledger in recovery
    counts from its last write.
    """
    outcome = audit_ledgers(unclosed, ALL_UNCLOSED)
    found = outcome.one(OPEN)
    assert (Kind.LEDGER_STUCK.value, "info", "metadata") == (
        found["kind"],
        found["severity"],
        found["family"],
    )
    for words in (
        "has been OPEN for 60 days",
        "its creation, by its own metadata",
        "--stuck-after is 30 days",
    ):
        assert words in found["witness"]
    assert [found] == outcome.findings
    assert EXPECTED == outcome.standings(*ALL_UNCLOSED)
    assert (0, 2) == (outcome.exit_code, len(found["looks"]))


def test_in_recovery_since_its_last_write_is_stuck(unclosed: RealCluster) -> None:
    """With a limit of a millisecond a ledger written before the audit is stuck, and a closed ledger
    never is.
    """
    outcome = audit_ledgers(unclosed, ALL_UNCLOSED, stuck_after="1ms")
    found = outcome.one(RECOVERING)
    for words in ("has been IN_RECOVERY for ", "the last write of its znode"):
        assert words in found["witness"]
    assert [OPEN, OPEN_TWIN, RECOVERING] == sorted(one["ledger_id"] for one in outcome.findings)
    assert {Kind.LEDGER_STUCK} == set(outcome.kinds)
    assert EXPECTED == outcome.standings(*ALL_UNCLOSED)


def test_nothing_is_stuck_where_nobody_asks(unclosed: RealCluster) -> None:
    """With 0 a ledger may be open for ever."""
    outcome = audit_ledgers(unclosed, ALL_UNCLOSED, stuck_after="0")
    assert [] == outcome.findings
    assert EXPECTED == outcome.standings(*ALL_UNCLOSED)
