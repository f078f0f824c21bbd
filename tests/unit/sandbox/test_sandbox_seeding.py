"""In each story of the demo one fact is wrong, and its twin has that fact right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from kazoo.client import KazooClient
from support.raw_bookie import RawBookie, list_request, read_request, status_name

from auditor.model.finding import CATALOGUE, Family, Kind, Subject
from auditor.model.identity import LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerState
from auditor.model.verdict import Exempt
from auditor.sandbox import seeding
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.seeding import Story, demo_cluster, sound_ledgers
from auditor.wire import ledger_metadata, underreplication_mark, znode_paths
from auditor.wire.digest import BodyCheck, check_body
from auditor.wire.entry_availability import groups_of
from auditor.wire.znode_paths import LedgerLayout


class Demo:
    """The demo's cluster as ZooKeeper and the bookies show it, read by other code than the
    auditor's.
    """

    def __init__(self, cluster: SandboxCluster, stories: list[Story], zk: KazooClient) -> None:
        self.cluster, self.stories, self.zk = cluster, {story.kind: story for story in stories}, zk

    def metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        path = "/ledgers" + znode_paths.ledger_path(LedgerLayout.HIERARCHICAL, ledger_id)
        return ledger_metadata.decode(self.zk.get(path)[0])

    def is_marked(self, ledger_id: LedgerId) -> bool:
        return self.zk.exists("/ledgers" + znode_paths.mark_path(ledger_id)) is not None

    def registered(self, bookie_id: str) -> bool:
        return self.zk.exists(f"/ledgers/available/{bookie_id}") is not None

    def listens(self, bookie_id: str) -> bool:
        try:
            RawBookie(*self.cluster.address(bookie_id)).close()
        except ConnectionRefusedError:
            return False
        return True

    def held(self, bookie_id: str, ledger_id: LedgerId) -> set[int]:
        with RawBookie(*self.cluster.address(bookie_id)) as connection:
            answer = connection.ask(list_request(ledger_id, 1))
        assert status_name(answer.status) in ("EOK", "ENOLEDGER")
        payload = answer.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
        groups = groups_of(payload[64:])
        return {
            s + k
            for g in groups
            for s in range(g.first, g.last + 1, g.period or 1)
            for k in range(g.size)
        }

    def copies(self, ledger_id: LedgerId, last: int | None = None) -> dict[int, int]:
        """Return for each entry on how many distinct bookies of its write set it is. Bookies that
        are away hold nothing.
        """
        metadata = self.metadata(ledger_id)
        names = {name for segment in metadata.segments for name in segment.ensemble}
        held = {name: self.held(name, ledger_id) if self.listens(name) else set() for name in names}
        last = metadata.last_entry_id if last is None else last
        assert last is not None
        copies = {}
        for entry_id in range(last + 1):
            ensemble = [s.ensemble for s in metadata.segments if s.first_entry_id <= entry_id][-1]
            write_set = {
                ensemble[(entry_id + k) % len(ensemble)] for k in range(metadata.write_quorum)
            }
            copies[entry_id] = sum(entry_id in held[name] for name in write_set)
        return copies

    def is_whole(self, ledger_id: LedgerId) -> bool:
        metadata = self.metadata(ledger_id)
        return set(self.copies(ledger_id).values()) <= {
            metadata.write_quorum
        } and not self.is_marked(ledger_id)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with demo_cluster(tmp_path_factory.mktemp("demo")) as (cluster, stories):
        zk = KazooClient(cluster.zookeeper_hosts)
        zk.start(timeout=20)
        try:
            yield Demo(cluster, stories, zk)
        finally:
            zk.stop()
            zk.close()


def test_every_kind_of_the_catalogue_has_a_story(demo: Demo) -> None:
    """Each kind has one story and a twin, on a bookie or on a ledger as the catalogue says. Six
    kinds need more than a cluster.
    """
    without_story = {
        Kind.LEDGER_POPULATION_DROPPED: "takes two runs",
        Kind.VERIFICATION_OVERDUE: "takes two runs",
        Kind.CLOSED_METADATA_CHANGED: "takes two runs",
        Kind.LEDGER_DROPPED_FROM_TOPIC: "takes two runs",
        Kind.BOOKIE_DISK_SHRANK: "takes two runs",
        Kind.ENTRY_LOG_LOST: "takes a lister",
    }
    assert set(Kind) - without_story.keys() == set(demo.stories)
    assert seeding.story_kinds() == list(demo.stories)
    for kind, story in demo.stories.items():
        on = str if CATALOGUE[kind].subject is Subject.BOOKIE else LedgerId
        assert isinstance(story.ledger_or_bookie, on), kind
        assert isinstance(story.twin, on), kind
        assert story.ledger_or_bookie != story.twin


def test_kind_without_a_story_is_named(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeding fails with the name of the kind."""
    monkeypatch.delitem(seeding.STORY_WRITERS, Kind.ENTRY_BELOW_ACK_QUORUM)
    with pytest.raises(AssertionError, match="ENTRY_BELOW_ACK_QUORUM"):
        seeding.seed_stories(demo.cluster)


NOT_WHOLE = {Kind.UNDERREPLICATED_UNRECOVERABLE, Kind.LEDGER_STUCK, Kind.ENTRY_CORRUPT}
"""Kinds whose twins are marked, open, or on a bookie that cannot list: covered by tests of their
own.
"""
ON_LEDGERS = [kind for kind in seeding.story_kinds() if CATALOGUE[kind].subject is Subject.LEDGER]


@pytest.mark.parametrize("kind", [kind for kind in ON_LEDGERS if kind not in NOT_WHOLE])
def test_twins_of_ledgers_are_sound(demo: Demo, kind: Kind) -> None:
    """Every entry of a twin has all its copies, and the twin is not marked."""
    assert demo.is_whole(demo.stories[kind].twin)


@pytest.mark.parametrize(
    ("kind", "copies"),
    [
        (Kind.ENTRY_WITHOUT_REPLICA, {42: 0}),
        (Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE, {42: 0}),
        (Kind.UNDERREPLICATED_UNRECOVERABLE, {7: 0}),
        (Kind.PLACEMENT_FAILED, {}),
        (Kind.PLACEMENT_SOFT, {}),
        (Kind.ENTRY_BELOW_ACK_QUORUM, {1504: 1}),
        (Kind.ENTRY_BELOW_WRITE_QUORUM, dict.fromkeys(range(100, 200), 2)),
        (Kind.ENSEMBLE_DUPLICATE_BOOKIE, {}),
        (Kind.UNDERREPLICATED_BEYOND_GRACE, {}),
    ],
)
def test_stories_lack_the_copies_they_say(demo: Demo, kind: Kind, copies: dict[int, int]) -> None:
    """Exactly the entries of the story lack copies, exactly as many as given. Except for placement,
    its metadata is the twin's.
    """
    story = demo.stories[kind]
    metadata, twin = demo.metadata(story.ledger_or_bookie), demo.metadata(story.twin)
    short = {
        e: n for e, n in demo.copies(story.ledger_or_bookie).items() if n < metadata.write_quorum
    }
    assert copies == short
    if CATALOGUE[kind].family is not Family.PLACEMENT:
        assert replace(metadata, custom_metadata=()) == replace(twin, custom_metadata=())


def test_ack_quorum_story_is_below_ack_and_not_without_replica(demo: Demo) -> None:
    """Its worst entry has a copy, and fewer than the ack quorum."""
    metadata = demo.metadata(demo.stories[Kind.ENTRY_BELOW_ACK_QUORUM].ledger_or_bookie)
    assert (
        0
        < min(demo.copies(demo.stories[Kind.ENTRY_BELOW_ACK_QUORUM].ledger_or_bookie).values())
        < metadata.ack_quorum
    )
    write = demo.metadata(demo.stories[Kind.ENTRY_BELOW_WRITE_QUORUM].ledger_or_bookie)
    worst = min(demo.copies(demo.stories[Kind.ENTRY_BELOW_WRITE_QUORUM].ledger_or_bookie).values())
    assert write.ack_quorum <= worst < write.write_quorum


def test_duplicate_story_names_one_bookie_twice_and_is_short_of_nothing(demo: Demo) -> None:
    """Only the ensemble is wrong: entries whose write set is the same bookie twice do not exist."""
    story = demo.stories[Kind.ENSEMBLE_DUPLICATE_BOOKIE]
    (segment,), (twin,) = (
        demo.metadata(story.ledger_or_bookie).segments,
        demo.metadata(story.twin).segments,
    )
    assert (len(set(segment.ensemble)), len(set(twin.ensemble))) == (2, 3)


def test_old_mark_is_old_by_its_field_alone(demo: Demo) -> None:
    """ZooKeeper dates the znode today; the mark's own ctime is ten days back."""
    story = demo.stories[Kind.UNDERREPLICATED_BEYOND_GRACE]
    data, stat = demo.zk.get("/ledgers" + znode_paths.mark_path(story.ledger_or_bookie))
    mark = underreplication_mark.decode(data, stat.created)
    assert mark.changed_ms is not None
    assert stat.ctime - mark.changed_ms >= 10 * 24 * 3600 * 1000


def test_silent_bookie_is_registered_and_its_twin_listens(demo: Demo) -> None:
    """Both are registered, and only the twin listens."""
    story = demo.stories[Kind.BOOKIE_SILENT_YET_REGISTERED]
    bookie_ids = story.ledger_or_bookie, story.twin
    for bookie_id, listens, ledger_id in zip(
        bookie_ids, (False, True), story.ledger_ids, strict=True
    ):
        assert (True, listens) == (demo.registered(bookie_id), demo.listens(bookie_id))
        assert bookie_id in demo.metadata(ledger_id).segments[0].ensemble


def test_lost_bookies_differ_in_the_mark_alone(demo: Demo) -> None:
    """Neither is registered, has a cookie or listens. The ledgers of both are closed and not empty,
    and only the twin's is marked.
    """
    story = demo.stories[Kind.BOOKIE_LOST_UNNOTICED]
    bookie_ids = story.ledger_or_bookie, story.twin
    for bookie_id, marked, ledger_id in zip(
        bookie_ids, (False, True), story.ledger_ids, strict=True
    ):
        metadata = demo.metadata(ledger_id)
        assert not demo.registered(bookie_id)
        assert not demo.listens(bookie_id)
        assert demo.zk.exists(f"/ledgers/cookies/{bookie_id}") is None
        assert bookie_id in metadata.segments[0].ensemble
        assert (LedgerState.CLOSED, 49, marked) == (
            metadata.state,
            metadata.last_entry_id,
            demo.is_marked(ledger_id),
        )


def test_a_stranded_entry_is_on_a_bookie_that_its_ledger_does_not_name(demo: Demo) -> None:
    """b4 holds the entry, and holds nothing of the twin."""
    story = demo.stories[Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE]
    assert "b4" not in demo.metadata(story.ledger_or_bookie).segments[0].ensemble
    assert ({42}, set()) == (demo.held("b4", story.ledger_or_bookie), demo.held("b4", story.twin))


def test_entries_beyond_the_end_are_on_their_whole_write_sets(demo: Demo) -> None:
    """The ledger and its twin have the same entries on bookies. The metadata of one ends before the
    last of them.
    """
    for kind, last in ((Kind.ENTRIES_BEYOND_END, 50), (Kind.LEDGER_CLOSED_SHORT, 59)):
        story = demo.stories[kind]
        assert [49, last] == [demo.metadata(one).last_entry_id for one in story.ledger_ids]
        for one in story.ledger_ids:
            assert dict.fromkeys(range(last + 1), 2) == demo.copies(one, last)


def test_an_unrecoverable_ledger_and_its_twin_are_both_marked(demo: Demo) -> None:
    """They differ in the lost entry alone."""
    story = demo.stories[Kind.UNDERREPLICATED_UNRECOVERABLE]
    assert [True, True] == [demo.is_marked(story.ledger_or_bookie), demo.is_marked(story.twin)]
    assert {2} == set(demo.copies(story.twin).values())


def test_stuck_ledgers_differ_in_when_they_were_made(demo: Demo) -> None:
    """Both are open. By its own metadata, one of them is sixty days older."""
    story = demo.stories[Kind.LEDGER_STUCK]
    old, new = demo.metadata(story.ledger_or_bookie), demo.metadata(story.twin)
    assert (LedgerState.OPEN, LedgerState.OPEN) == (old.state, new.state)
    assert new.ctime_ms - old.ctime_ms == 60 * 24 * 3600 * 1000


def test_a_corrupt_copy_is_sent_with_the_wrong_digest_and_its_twin_with_the_right_one(
    demo: Demo,
) -> None:
    """Both are read over the wire from the bookie that cannot list."""
    story = demo.stories[Kind.ENTRY_CORRUPT]
    checks = []
    for ledger_id in (story.ledger_or_bookie, story.twin):
        with RawBookie(*demo.cluster.address("b12")) as connection:
            body = connection.ask(read_request(ledger_id, 0, 1)).readResponse.body
        checks.append(check_body(body, ledger_id, 0, demo.metadata(ledger_id).digest_type, b""))
    assert [BodyCheck.WRONG_DIGEST, BodyCheck.OK] == checks


def test_the_bookie_without_content_answers_and_has_nothing_of_its_ledgers(demo: Demo) -> None:
    """Its twin lacks one of the same number of ledgers."""
    story = demo.stories[Kind.BOOKIE_LOST_CONTENT]
    half = len(story.ledger_ids) // 2
    held = [
        len(demo.held(bookie, i))
        for i, bookie in zip(story.ledger_ids, ["b10"] * half + ["b11"] * half, strict=True)
    ]
    assert [0] * half + [0] + [50] * (half - 1) == held


def test_the_failing_bookie_answers_every_question_with_an_error_status(demo: Demo) -> None:
    """It is registered, and answers lists and reads with EIO. Its twin does that for one of the
    same number of ledgers.
    """
    story = demo.stories[Kind.BOOKIE_FAILING_REQUESTS]
    half = len(story.ledger_ids) // 2
    said = []
    for ledger_id, bookie in zip(story.ledger_ids, ["b13"] * half + ["b14"] * half, strict=True):
        assert demo.registered(bookie) and bookie in demo.metadata(ledger_id).segments[0].ensemble
        with RawBookie(*demo.cluster.address(bookie)) as connection:
            listed = connection.ask(list_request(ledger_id, 1)).status
            read = connection.ask(read_request(ledger_id, 1, 2)).status
        said.append((status_name(listed), status_name(read)))
    assert [("EIO", "EIO")] * (half + 1) + [("EOK", "EOK")] * (half - 1) == said


def test_malformed_metadata_is_closed_without_an_end(demo: Demo) -> None:
    """The metadata can be decoded and contradicts itself. Every entry has its copies all the
    same.
    """
    story = demo.stories[Kind.METADATA_MALFORMED]
    metadata = demo.metadata(story.ledger_or_bookie)
    assert (metadata.state, metadata.last_entry_id) == (LedgerState.CLOSED, None)
    assert set(demo.copies(story.ledger_or_bookie, last=49).values()) == {2}


def test_exempt_ledgers_are_there_for_each_reason(demo: Demo) -> None:
    """Open, in recovery, empty, and one that lacks copies and is marked: all reasons but
    `deleted`.
    """
    first = seeding.EXEMPT_LEDGER_FIRST
    states = [demo.metadata(first + n).state for n in range(4)]
    assert states == [
        LedgerState.OPEN,
        LedgerState.IN_RECOVERY,
        LedgerState.CLOSED,
        LedgerState.CLOSED,
    ]
    assert demo.metadata(first + 2).last_entry_id == -1
    assert demo.is_marked(first + 3)
    assert min(demo.copies(first + 3).values()) == 1
    assert len(Exempt) == 4 + 1


def test_sound_ledgers_are_sound(demo: Demo) -> None:
    """Each ledger of up to 1,500 entries has every copy, and no ledger names a bookie that is
    away.
    """
    for ledger_id, text in sound_ledgers(seeding.SOUND_LEDGERS):
        metadata = demo.metadata(ledger_id)
        assert {b for s in metadata.segments for b in s.ensemble} <= {
            "b1",
            "b2",
            "b3",
            "b4",
            "b5",
        }, text
        if metadata.last_entry_id < 1_500:
            assert demo.is_whole(ledger_id), f"ledger {ledger_id}: {text}"


def test_sound_ledgers_are_varied() -> None:
    """They have every ensemble size up to 5, one to three segments, all formats, and ids on both
    sides of 2**31 - 1. They are the same every time.
    """
    ledgers = dict(sound_ledgers(200))
    assert dict(sound_ledgers(200)) == ledgers
    assert len(ledgers) == 200
    assert {text.split()[0] for text in ledgers.values()} == {"e1", "e2", "e3", "e4", "e5"}
    assert {text.count("[") for text in ledgers.values()} == {1, 2, 3}
    assert {word for text in ledgers.values() for word in text.split() if word[0] == "v"} == {
        "v1",
        "v2",
    }
    assert {2**31 - 2, 2**31 - 1, 2**31} <= set(ledgers)
