"""Bad input of every kind in one cluster: each costs its own ledger its verdict, with a clear word,
and no other ledger.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from support.audits import FIRST_LOOK_ON_SPARK, Outcome, audit
from support.zookeeper_znodes import Znodes, znodes

from auditor.model.finding import Kind
from auditor.sandbox.bookie import Bookie, LedgerFault, Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire import bookie_server as wire
from auditor.wire import underreplication_mark
from auditor.wire.frames import Status

pytestmark = pytest.mark.spark

TEN = "e1 w1 a1 0:[{}] closed 9"
"""A ledger of ten entries on one bookie, whose answer decides."""
FRAME_BYTES_MAX = 64 * 2**20
GROUPS_MAX = 100_000


def payload(
    *groups: tuple[int, int, int, int],
    version: int = 0,
    count: int | None = None,
    reserved: bytes = b"",
) -> bytes:
    """Return a list as bytes: header and groups (first, last, size, period)."""
    header = struct.pack(">ii56s", version, len(groups) if count is None else count, reserved)
    return header + b"".join(struct.pack(">qqii", *group) for group in groups)


RUN = (0, 0, 10, 0)
INVALID = {
    "no byte": b"",
    "shorter than the header": bytes(63),
    "a newer version": payload(RUN, version=1),
    "a negative version": payload(RUN, version=-1),
    "a negative number of groups": payload(count=-1),
    "fewer groups than announced": payload(RUN, count=2),
    "more groups than announced": payload(RUN, RUN, count=1),
    "a byte too many": payload(RUN) + b"\0",
    "more groups than we accept": payload(*((2 * n, 2 * n, 1, 0) for n in range(GROUPS_MAX + 1))),
    "an entry below 0": payload((-4, -4, 14, 0)),
    "an end before its start": payload((5, 0, 1, 1)),
    "a run of nothing": payload((0, 0, 0, 0)),
    "a run of less than nothing": payload((0, 0, -3, 0)),
    "a negative period": payload((0, 6, 1, -3)),
    "no period and two starts": payload((0, 5, 5, 0)),
    "an end that no period reaches": payload((0, 5, 5, 3)),
    "runs longer than their period": payload((0, 4, 6, 2)),
    "entries beyond the last id": payload((2**63 - 1, 2**63 - 1, 2, 0)),
    "groups in descending order": payload((5, 5, 5, 0), (0, 0, 5, 0)),
    "groups that overlap": payload((0, 0, 6, 0), (4, 4, 6, 0)),
    "interleaved groups": payload((0, 8, 1, 2), (1, 9, 1, 2)),
}
"""Lists that break a rule of the encoding: they never prove that an entry is missing."""
TOLERATED = {
    "reserved bytes in use": payload(RUN, reserved=b"\1" * 56),
    "a period for one run": payload((0, 0, 10, 20)),
    "a period as long as its runs": payload((0, 5, 5, 5)),
    "entries beyond the last one": payload((0, 0, 1000, 0)),
}
"""Lists that are unusual but unambiguous."""
CONTROLS = range(900, 930)
"""Sound ledgers between all the others, on the same bookies."""


class Lies:
    """Makes a sandbox bookie answer lists of some ledgers with given bytes."""

    def __init__(self, bookie: Bookie) -> None:
        self.payloads: dict[int, bytes] = {}
        self.other_ledger: set[int] = set()
        honest = bookie._list

        def lie(request: wire.ListEntries) -> bytes | None:
            if request.ledger_id in self.other_ledger:
                return wire.encode_list(
                    replace(request, ledger_id=request.ledger_id + 1), Status.EOK, payload(RUN)
                )
            if request.ledger_id in self.payloads:
                bookie.asked[request.ledger_id] += 1
                return wire.encode_list(request, Status.EOK, self.payloads[request.ledger_id])
            return honest(request)

        bookie._list = lie  # type: ignore[method-assign]


class Audited(NamedTuple):
    """The one audit of all this, with the expected result and the name of each ledger."""

    cluster: SandboxCluster
    outcome: Outcome
    expected: dict[int, str]
    names: dict[int, str]


class Story:
    """Writes ledgers with their expected results."""

    def __init__(self, cluster: SandboxCluster, client: Znodes) -> None:
        self.cluster, self.client = cluster, client
        self.expected: dict[int, str] = {}
        self.names: dict[int, str] = {}
        self._next = 1

    def ledger(
        self, name: str, expected: str, text: str, lose: dict[str, str] | None = None, **place: Any
    ) -> int:
        ledger_id = self._next
        self._next += 2
        self.cluster.place(ledger_id, self.cluster.ledger(text), lose, **place)
        self.expected[ledger_id], self.names[ledger_id] = expected, name
        return ledger_id

    def path(self, ledger_id: int) -> str:
        return self.cluster._seeder.ledger_path(ledger_id)


def lists(story: Story, lies: Lies) -> None:
    for name, data in INVALID.items():
        lies.payloads[story.ledger(name, "indeterminate: answer_invalid", TEN.format("b1"))] = data
    for name, data in TOLERATED.items():
        lies.payloads[story.ledger(name, "sound", TEN.format("b1"))] = data
    huge = story.ledger(
        "a frame beyond the limit", "indeterminate: answer_too_large", TEN.format("b1")
    )
    lies.payloads[huge] = bytes(FRAME_BYTES_MAX + 64)
    lies.other_ledger.add(
        story.ledger(
            "an answer about another ledger", "indeterminate: answer_invalid", TEN.format("b2")
        )
    )
    for fault, expected in (
        (LedgerFault.WRONG_IDS, "indeterminate: answer_invalid"),
        (LedgerFault.WRONG_DIGEST, "violated: answer_invalid"),
    ):
        read = story.ledger(f"a read with {fault}", expected, TEN.format("b1"))
        lies.payloads[read] = payload((0, 0, 9, 0))
        story.cluster.fault("b1", read, fault)
    for fault, expected in (
        (LedgerFault.EIO, "violated: bookie_refused"),
        (LedgerFault.UNKNOWN_LEDGER_STATE, "violated: bookie_refused"),
        (LedgerFault.LIST_CUT_SHORT, "indeterminate: answer_invalid"),
        (LedgerFault.NEVER_ANSWERED, "indeterminate: answer_timeout"),
        (LedgerFault.LAST_ENTRY_UNLISTED, "sound"),
    ):
        story.cluster.fault(
            "b1", story.ledger(f"the fault {fault}", expected, TEN.format("b1")), fault
        )


def bookies(story: Story) -> None:
    """Prepare the bookies: b3 cannot list, b4 refuses, b5 is a half-open socket, b6 disconnects in
    the middle, b7 has no address, b8 does not exist.
    """
    cluster = story.cluster
    for name, bookie, expected in (
        ("cannot list", "b3", "bookie_unsupported"),
        ("refuses", "b4", "bookie_refused"),
        ("says nothing", "b5", "bookie_silent"),
        ("hangs up in the middle", "b6", "bookie_silent"),
        ("cannot be found", "b7", "address_unknown"),
        ("does not listen", "b8", "bookie_silent"),
    ):
        for _ in range(4):
            story.ledger(f"a bookie that {name}", f"indeterminate: {expected}", TEN.format(bookie))
    cluster.bookie("b4").behaviour.refuses = True
    cluster.bookie("b5").behaviour.silent = True
    cluster.bookie("b6").behaviour.closes_mid_answer = True
    cluster.register("b7", b"\xff\xfe no registration")
    cluster.stop_bookie("b8")
    story.client.put(f"{cluster.root}/available/not a bookie", b"\0\1\2")


def metadata(story: Story) -> int:
    """Write the metadata; return the ledger that is to be deleted before the second look."""
    cluster, client = story.cluster, story.client
    for name, data in (
        ("garbage", b"\x00\xffgarbage"),
        ("no bytes", b""),
        ("cut short", b"BookieMetadataFormatVersion\t3\n\x0f"),
    ):
        cluster.set_raw(story.ledger(f"metadata: {name}", "violated", TEN.format("b1")), data)
    newer = story.ledger(
        "metadata: a newer format", "indeterminate: metadata_unreadable", TEN.format("b1")
    )
    cluster.set_raw(newer, b"BookieMetadataFormatVersion\t4\n{}")
    shut = story.ledger(
        "metadata: not ours to read", "indeterminate: metadata_unreadable", TEN.format("b1")
    )
    client.put(story.path(shut), b"", shut=True)
    story.ledger("closed without an end", "violated", "e1 w1 a1 0:[b1] closed", written=9)
    story.ledger("a segment behind the end", "violated", "e1 w1 a1 0:[b1] 50:[b2] closed 9")
    story.ledger("an ensemble of the wrong size", "violated", "e3 w2 a2 0:[b1 b2] closed -1")
    marked = story.ledger("a mark of garbage", "violated", TEN.format("b1"), {"b1": "3"})
    client.put(cluster._seeder.mark_path(marked), b"\xff{not a mark")
    strayed = story.ledger("a mark in the wrong place", "sound", TEN.format("b1"))
    client.put(
        f"{cluster.root}/underreplication/ledgers/ffff/ffff/ffff/ffff/urL{strayed:010d}",
        underreplication_mark.encode([], 0),
    )
    client.put(f"{cluster.root}/underreplication/ledgers/0000/junk", b"")
    client.put(f"{cluster.root}/00/0000/Lxyz", b"no ledger")
    return story.ledger("deleted while we look", "exempt: deleted", TEN.format("b1"), {"b1": "4"})


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    """Yield one audit of a cluster with all of this."""
    storages = [Storage.DB if n == 3 else Storage.SORTED for n in range(1, 9)]
    with (
        SandboxCluster(tmp_path_factory.mktemp("bad"), 8, storage=storages) as cluster,
        znodes(cluster.zookeeper_hosts) as client,
    ):
        story = Story(cluster, client)
        lies = Lies(cluster.bookie("b1"))
        lists(story, lies)
        story_b2 = Lies(cluster.bookie("b2"))
        story_b2.other_ledger |= lies.other_ledger
        bookies(story)
        doomed = metadata(story)
        for ledger_id in CONTROLS:
            cluster.place(ledger_id, cluster.ledger("e2 w2 a2 0:[b1 b2] closed 99"))
            story.expected[ledger_id], story.names[ledger_id] = "sound", "a control"
        outcome = audit(
            cluster,
            tmp_path_factory.mktemp("bad-output"),
            between=lambda pause: cluster.delete_ledger(doomed) if pause == 1 else None,
            frame_bytes_max="64MiB",
            list_groups_max=str(GROUPS_MAX),
            rpc_timeout="3s",
            probe_entries="0",
            **FIRST_LOOK_ON_SPARK,
        )
        yield Audited(cluster, outcome, story.expected, story.names)


def test_each_ledger_comes_to_what_its_fault_says(audited: Audited):
    """Undecodable input is unknown with its reason, unusual input is judged, and the controls stay
    sound.
    """
    ids = sorted(audited.expected)
    found = dict(zip(ids, audited.outcome.standings(*ids), strict=True))
    wrong = {
        audited.names[i]: (audited.expected[i], found[i])
        for i in ids
        if audited.expected[i] != found[i]
    }
    assert {} == wrong


def test_every_ledger_is_accounted_for(audited: Audited):
    """No fault costs another ledger its verdict."""
    assert len(audited.expected) == audited.outcome.summary["ledgers"]["listed"]
    assert set(audited.expected) == set(audited.outcome.verdicts)
    assert 1 == audited.outcome.exit_code


def test_what_cannot_be_understood_accuses_nobody_of_missing_entries(audited: Audited):
    """With broken metadata, silent bookies and wrong digests, only the marked ledger that lost an
    entry is accused. Entries beyond the last one are a remark, unless their headers prove more, as
    behind a segment that the end cut off. Entries that their only bookie fails to read are
    unavailable. A spot read may have drawn a copy with a wrong digest, which is a finding on its
    bookie.
    """
    expected = {
        Kind.ENTRIES_BEYOND_END,
        Kind.LEDGER_CLOSED_SHORT,
        Kind.ENTRY_UNAVAILABLE,
        Kind.METADATA_MALFORMED,
        Kind.BOOKIE_SILENT_YET_REGISTERED,
        Kind.BOOKIE_FAILING_REQUESTS,
        Kind.ENTRY_CORRUPT,
    }
    by_chance = {Kind.BOOKIE_UNREADABLE_ENTRIES}
    found = set(audited.outcome.kinds) - by_chance
    assert {*expected, Kind.UNDERREPLICATED_UNRECOVERABLE} == found
    assert ["a mark of garbage"] == [
        audited.names[one["ledger_id"]] for one in audited.outcome.findings if one["missing_on"]
    ]


def rows(audited: Audited, table: str) -> list[dict[str, Any]]:
    assert audited.outcome.run_dir is not None
    return (
        ds.dataset(audited.outcome.run_dir / "evidence" / table, format="parquet")
        .to_table()
        .to_pylist()
    )


def test_each_answer_that_is_none_says_why(audited: Audited):
    """Every row without a valid answer carries a sentence."""
    silent_by_nature = {"held", "no_such_ledger", "unregistered", "address_unknown", "answered"}
    mute = [
        row
        for row in rows(audited, "answers")
        if row["status"] not in silent_by_nature and not row["detail"]
    ]
    assert [] == [(audited.names.get(row["ledger_id"]), row["status"]) for row in mute]


def test_an_unreadable_ledger_says_why(audited: Audited):
    """NoAuth says what to do, a newer format says to update."""
    by_name = {
        audited.names[row["ledger_id"]]: row for row in rows(audited, "ledgers") if row["look"] == 1
    }
    assert "give it read permission" in by_name["metadata: not ours to read"]["detail"]
    assert "not_authorised" == by_name["metadata: not ours to read"]["status"]
    assert "update the auditor" in by_name["metadata: a newer format"]["detail"]


def test_a_bookie_that_cannot_list_is_found_out_once(audited: Audited):
    """It is asked at one look only: no time-out is paid again."""
    b3 = audited.cluster.id_of("b3")
    ledgers = [i for i, name in audited.names.items() if name == "a bookie that cannot list"]
    assert dict.fromkeys(ledgers, 1) == {
        i: min(1, audited.cluster.bookie("b3").asked[i]) for i in ledgers
    }
    asked = {
        row["look"]
        for row in rows(audited, "answers")
        if row["bookie_id"] == b3 and row["requests"] and row["ledger_id"]
    }
    assert 1 == len(asked), f"asked at looks {asked}"


def test_bookies_are_greeted_for_what_they_are(audited: Audited):
    """The summary counts each by what it did."""
    expected = {"registered": 9, "answered": 2, "silent": 3, "refused": 1, "unsupported": 1}
    assert expected == {key: audited.outcome.summary["bookies"][key] for key in expected}


def test_the_deleted_ledger_left_no_finding(audited: Audited):
    """What was found at the first look is dropped."""
    (doomed,) = (i for i, name in audited.names.items() if name == "deleted while we look")
    assert [] == audited.outcome.of(doomed)


def test_wrong_txn_ids_are_no_answers(spark: SparkSession, tmp_path: Path):
    """A bookie that only answers other requests has said nothing, and the other bookie's ledgers
    are judged.
    """
    with SandboxCluster(tmp_path / "cluster", 2) as cluster:
        cluster.place(1, cluster.ledger(TEN.format("b1")))
        cluster.place(2, cluster.ledger(TEN.format("b2")))
        honest = cluster.bookie("b1").answer

        def strange(request: Any) -> bytes | None:
            return honest(replace(request, txn_id=request.txn_id + 1_000_003))

        cluster.bookie("b1").answer = strange  # type: ignore[method-assign]
        outcome = audit(cluster, tmp_path, rpc_timeout="20s", **FIRST_LOOK_ON_SPARK)
    assert ["indeterminate: bookie_silent", "sound"] == outcome.standings(1, 2)
    assert [Kind.BOOKIE_SILENT_YET_REGISTERED] == outcome.kinds
