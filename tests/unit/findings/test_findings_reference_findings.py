"""What the written references show: a finding of both checkers, something unknown, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support.topics import closed

from auditor.evidence.rows import Row, ledger_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LEDGERS, LISTING, REFERENCES
from auditor.findings import reference_findings as reference_findings_module
from auditor.findings.reference_findings import ReferenceFindings, reference_findings
from auditor.model.cluster import ClusterFacts
from auditor.model.codec import encode
from auditor.model.evidence import Terms
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.model.topic import (
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    SchemaVersion,
    Subscription,
    TopicRecord,
    TopicStatus,
)
from auditor.pulsar.reference_rows import (
    listing_problem_row,
    namespace_row,
    partition_problem_row,
    partition_row,
    reference_rows,
)
from auditor.pulsar.topic_paths import parse_topic
from auditor.sandbox.stories import with_owner
from auditor.summary.about import About
from auditor.witness.next_commands import SAVES

NOW_MS, AGE_MS = 1_000_000, 100_000
FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
TERMS = Terms(NOW_MS, 1_000, 16, 5, orphan_age_ms=AGE_MS)
ABOUT = About("20260101T030000Z-000001", "2026-01-01T03:00:00Z", FACTS, TERMS, "warning", False)
WHOLE = LedgerMetadata(3, LedgerState.CLOSED, 3, 2, 2, 9, 100, (Segment(0, ("b1", "b2", "b3")),))
TOPIC = TopicRecord(
    parse_topic("public/default/t"), 5, TopicStatus.FOUND, ManagedLedger((closed(7),))
)


def ledger(ledger_id: int, metadata: LedgerMetadata | None, look: int = 1) -> LedgerRecord:
    """Return a ledger at one look; without metadata it is gone."""
    if metadata is None:
        return LedgerRecord(ledger_id, look, 1_000 * look, RecordStatus.GONE)
    return LedgerRecord(
        ledger_id, look, 1_000 * look, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata
    )


def unreadable_ledger(ledger_id: int, look: int = 1) -> LedgerRecord:
    """Return a ledger that could not be read."""
    return LedgerRecord(ledger_id, look, 1_000 * look, RecordStatus.UNREADABLE)


@dataclass
class Scene:
    """The tables of a run: topics at both looks, the listed `ledgers`, and the ledgers `read` for
    references.
    """

    run: Place
    first: tuple[TopicRecord, ...] = (TOPIC,)
    again: tuple[TopicRecord, ...] | None = None
    ledgers: tuple[LedgerRecord, ...] = ()
    read: tuple[LedgerRecord, ...] = ()
    problems: tuple[Row, ...] = field(default_factory=tuple)

    def write(self) -> None:
        """Write the tables, once."""
        again = self.first if self.again is None else self.again
        rows = [*self.problems, *(row for one in self.first for row in reference_rows(one, 1))]
        rows += [row for one in again for row in reference_rows(one, 2)]
        listed = [(one.ledger_id,) for one in self.ledgers if one.look == 1]
        for name, schema, table_rows in (
            ("listing", LISTING, listed),
            ("references", REFERENCES, rows),
            ("ledgers", LEDGERS, list(map(ledger_row, self.ledgers))),
            ("referenced_ledgers", LEDGERS, list(map(ledger_row, self.read))),
        ):
            self.run.write_table(f"evidence/{name}", table(schema, table_rows), "all")

    def find(self) -> tuple[ReferenceFindings, list[dict[str, Any]]]:
        """Write the tables, and return what is found."""
        self.write()
        result = reference_findings(self.run, ABOUT)
        return result, [found.as_json() for found in result.findings]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return a scene with a topic that references ledger 7 with ten entries. The ledger is gone at
    both looks.
    """
    return Scene(place(str(tmp_path)), read=(ledger(7, None), ledger(7, None, 2)))


def topic(**changes: Any) -> TopicRecord:
    """Return the topic with changes."""
    return replace(TOPIC, **changes)


def test_without_pulsar_nothing_is_found(tmp_path: Path) -> None:
    """The run has no table of references."""
    assert ReferenceFindings() == reference_findings(place(str(tmp_path)), ABOUT)


def test_a_referenced_ledger_that_is_gone_at_both_looks_is_missing(scene: Scene) -> None:
    """The finding has the id, the topic, the role and position of the reference, and the recorded
    entries. The owner is that of the reference.
    """
    result, (found,) = scene.find()
    assert ("REFERENCED_LEDGER_MISSING", 7, None) == (
        found["kind"],
        found["ledger_id"],
        found["bookie_id"],
    )
    use = {
        "topic": "persistent://public/default/t",
        "role": "data",
        "name": "",
        "position": [7, 0],
        "shadow_source": None,
    }
    assert {
        "topics": 1, "uses": 1, "some_uses": [use], "entries": 10, "size_bytes": 1_000,
        "apart_ms": 1_000,
    } == found["facts"]  # fmt: skip
    assert ([[0, 9]], 10) == (found["entries"], found["entries_total"])
    owner = {
        "application": "pulsar",
        "component": "managed-ledger",
        "name": "public/default/persistent/t",
    }
    assert owner == found["owner"]
    assert result.is_complete and result.counts is not None
    assert (1, 0, 0, 1) == tuple(
        encode(result.counts)[name]
        for name in ("missing", "truncated", "unknown", "ledgers_referenced")
    )


NO_LOSS = {
    "trimmed at the second look": (TOPIC, topic(managed_ledger=ManagedLedger((closed(8),)))),
    "the topic is deleted at the second look": (
        TOPIC,
        TopicRecord(TOPIC.topic, 5, TopicStatus.MISSING),
    ),
    "in long-term storage": (
        (topic(managed_ledger=ManagedLedger((closed(7, offloaded=True),))),) * 2
    ),
    "deleted in BookKeeper on purpose": (
        (topic(managed_ledger=ManagedLedger((closed(7, offloaded=True, deleted=True),))),) * 2
    ),
    "offloaded between the looks": (
        TOPIC,
        topic(managed_ledger=ManagedLedger((closed(7, offloaded=True),))),
    ),
    "it was empty at the first look": (topic(managed_ledger=ManagedLedger((closed(7, 0),))), TOPIC),
    "it had no entries": (topic(managed_ledger=ManagedLedger((closed(7, 0),))),) * 2,
    "it is behind the end of a terminated topic": (
        (topic(managed_ledger=ManagedLedger((closed(6), DataLedger(7)), Position(6, 9))),) * 2
    ),
}


@pytest.mark.parametrize("name", NO_LOSS)
def test_an_absence_that_is_not_a_loss_is_not_a_finding(scene: Scene, name: str) -> None:
    """Nothing is unknown either."""
    first, again = NO_LOSS[name]
    scene.first, scene.again = (first,), (again,)
    result, found = scene.find()
    assert ([], True) == ([one for one in found if one["ledger_id"] == 7], result.is_complete)


COMPACTED = Subscription("__compaction", Cursor(9, Position(7, 9), compacted_ledger_id=7))
UNKNOWN = {
    "the topic is not read again": ((TOPIC, None), None),
    "the topic cannot be read again": (
        (TOPIC, TopicRecord(TOPIC.topic, 5, TopicStatus.UNREADABLE, problems=("shut",))),
        None,
    ),
    "the ledger is not read again": ((TOPIC, TOPIC), (ledger(7, None),)),
    "the ledger cannot be read again": (
        (TOPIC, TOPIC),
        (ledger(7, None), LedgerRecord(7, 2, 200, RecordStatus.UNREADABLE)),
    ),
    "the ledger is there at the second look": (
        (TOPIC, TOPIC),
        (ledger(7, None), ledger(7, WHOLE, 2)),
    ),
    "the looks are too close": (
        (TOPIC, TOPIC),
        (ledger(7, None), replace(ledger(7, None, 2), read_at_ms=1_999)),
    ),
    "the ledger could not be read at first": (
        (TOPIC, TOPIC),
        (unreadable_ledger(7), ledger(7, None, 2)),
    ),
    "the ledger could not be read at all": (
        (TOPIC, TOPIC),
        (unreadable_ledger(7), unreadable_ledger(7, 2)),
    ),
    "it could not be read at first and is cut short": (
        (topic(managed_ledger=ManagedLedger((closed(7, 11),))),) * 2,
        (unreadable_ledger(7), ledger(7, WHOLE, 2)),
    ),
    "it could not be read and was not read again": ((TOPIC, TOPIC), (unreadable_ledger(7),)),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_two_looks_do_not_show_is_unknown(scene: Scene, name: str) -> None:
    """There is no finding, the run is not complete, and a sentence says why."""
    (first, again), read = UNKNOWN[name]
    scene.first, scene.again = (first,), () if again is None else (again,)
    scene.read = scene.read if read is None else read
    result, found = scene.find()
    assert ([], False) == (found, result.is_complete)
    assert result.counts is not None and 1 == encode(result.counts)["unknown"]
    assert any(" is not known" in sentence for sentence in result.withheld)


@pytest.mark.parametrize(
    "status", [one for one in RecordStatus if one not in (RecordStatus.FOUND, RecordStatus.GONE)]
)
def test_a_referenced_ledger_that_cannot_be_read_is_not_known_to_be_there(
    scene: Scene, status: RecordStatus
) -> None:
    """It is unknown for each status with which the read failed."""
    scene.read = tuple(replace(unreadable_ledger(7, look), status=status) for look in (1, 2))
    result, found = scene.find()
    assert ([], False) == (found, result.is_complete)
    assert result.counts is not None and 1 == encode(result.counts)["unknown"]


def test_a_listed_ledger_that_vanishes_after_it_could_not_be_read_is_unknown(scene: Scene) -> None:
    """Its verdict says that it was deleted, but the topic still references it."""
    scene.ledgers, scene.read = (
        (unreadable_ledger(7), ledger(7, None, 2)),
        (replace(ledger(7, None, 2), read_at_ms=3_000),),
    )
    result, found = scene.find()
    assert ([], False) == (found, result.is_complete)


def test_a_listed_ledger_that_vanishes_during_the_run_is_unknown(scene: Scene) -> None:
    """The topic still references it."""
    scene.ledgers, scene.read = (
        (ledger(7, WHOLE), ledger(7, None, 2)),
        (replace(ledger(7, None, 2), read_at_ms=3_000),),
    )
    result, found = scene.find()
    assert ([], False) == (found, result.is_complete)


def test_a_ledger_that_is_trimmed_during_the_run_is_not_a_loss(scene: Scene) -> None:
    """Its reference was removed with it."""
    scene.again = (topic(managed_ledger=ManagedLedger((closed(8),))),)
    scene.ledgers, scene.read = (ledger(7, WHOLE), ledger(7, None, 2)), (ledger(7, None, 2),)
    result, found = scene.find()
    assert ([], True) == (found, result.is_complete)


def test_what_its_verdict_counts_as_unknown_is_not_counted_twice(scene: Scene) -> None:
    """A listed ledger that could not be read at any look has a verdict with that reason."""
    scene.ledgers, scene.read = (
        (unreadable_ledger(7), unreadable_ledger(7, 2)),
        (unreadable_ledger(7, 2),),
    )
    result, found = scene.find()
    assert ([], True) == (found, result.is_complete)


def test_a_ledger_that_could_be_read_in_the_end_is_sound(scene: Scene) -> None:
    """It has all entries that the topic recorded."""
    scene.read = (unreadable_ledger(7), ledger(7, WHOLE, 2))
    result, found = scene.find()
    assert ([], True) == (found, result.is_complete)


def test_a_compacted_ledger_of_a_cursor_in_use_is_outdated(scene: Scene) -> None:
    """Each compaction leaves such a reference behind: it does not make the run incomplete, and a
    sentence counts it.
    """
    scene.first = (topic(managed_ledger=ManagedLedger(), subscriptions=(COMPACTED,)),)
    result, found = scene.find()
    assert ([], True) == (found, result.is_complete)
    assert result.counts is not None and (0, 1) == (
        encode(result.counts)["unknown"],
        encode(result.counts)["outdated"],
    )
    assert any(
        sentence.startswith("1 compacted ledger (such as 7)") for sentence in result.withheld
    )


def test_two_looks_that_are_too_close_show_no_truncation(scene: Scene) -> None:
    """Whether the ledger is truncated is unknown."""
    scene.first = (topic(managed_ledger=ManagedLedger((closed(7, 11),))),)
    scene.ledgers, scene.read = (
        (ledger(7, WHOLE),),
        (replace(ledger(7, WHOLE, 2), read_at_ms=1_999),),
    )
    result, found = scene.find()
    assert ([], False) == (found, result.is_complete)


def test_what_is_too_much_to_judge_is_unknown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first SUSPECTS_MAX ledgers are judged, the others counted, and a sentence gives the
    bound.
    """
    monkeypatch.setattr(reference_findings_module, "SUSPECTS_MAX", 1)
    scene.first = (topic(managed_ledger=ManagedLedger((closed(7), closed(8), closed(9)))),)
    scene.read = (ledger(7, None), ledger(7, None, 2), ledger(8, None), ledger(9, None))
    result, (found,) = scene.find()
    assert result.counts is not None and (7, 2, False) == (
        found["ledger_id"],
        encode(result.counts)["unknown"],
        result.is_complete,
    )
    assert any(
        one.startswith("2 more ledgers") and one.endswith("judges the first 1")
        for one in result.withheld
    )


def test_the_newest_ledger_of_a_terminated_topic_has_its_end(scene: Scene) -> None:
    """The terminated position says how many entries it had. Its absence is therefore a loss."""
    scene.first = (topic(managed_ledger=ManagedLedger((DataLedger(7),), Position(7, 9))),)
    _, (found,) = scene.find()
    assert ("REFERENCED_LEDGER_MISSING", 10) == (found["kind"], found["facts"]["entries"])


@pytest.mark.parametrize(
    ("role", "name", "position", "changes"),
    [
        ("cursor", "s", [6, 3], {"subscriptions": (Subscription("s", Cursor(7, Position(6, 3))),)}),
        ("schema", "", [7, 4], {"schemas": (SchemaVersion(0, Position(7, 1)), SchemaVersion(1,
        Position(7, 4)))}),
        ("compacted", "c", [6, 3], {"subscriptions": (Subscription("c", Cursor(None, Position(6, 3),
        (), 7)),)}),
    ],
)  # fmt: skip
def test_every_role_may_lose_its_ledger(
    scene: Scene, role: str, name: str, position: list[int], changes: dict[str, Any]
) -> None:
    """The finding has the position that is left, or the lost one."""
    scene.first = (topic(managed_ledger=ManagedLedger(), **changes),)
    _, (found,) = scene.find()
    (use,) = found["facts"]["some_uses"]
    assert (role, name, position) == (use["role"], use["name"], use["position"])
    assert found["facts"]["entries"] is None


def test_each_topic_that_references_a_missing_ledger_is_counted(scene: Scene) -> None:
    """The first twenty are named, in order."""
    scene.first = tuple(topic(topic=parse_topic(f"public/default/t{n:02}")) for n in range(25))
    _, (found,) = scene.find()
    named = [use["topic"] for use in found["facts"]["some_uses"]]
    assert (25, 25, 20) == (found["facts"]["topics"], found["facts"]["uses"], len(named))
    assert sorted(named) == named


def test_the_source_of_a_shadow_topic_comes_first_and_is_saved_first(scene: Scene) -> None:
    """The list that names the ledger is in its znode. The shadow's name is the lower one."""
    source, shadow = parse_topic("public/default/source"), parse_topic("public/default/a-shadow")
    of_shadow = ManagedLedger((closed(7),), shadow_source=source)
    scene.first = (
        topic(topic=shadow, managed_ledger=of_shadow),
        topic(topic=parse_topic("public/default/b-shadow"), managed_ledger=of_shadow),
        topic(topic=source),
    )
    _, (found,) = scene.find()
    assert [(str(source), None), (str(shadow), str(source))] == [
        (use["topic"], use["shadow_source"]) for use in found["facts"]["some_uses"][:2]
    ]
    assert (
        f"is referenced by {source} for its messages; {shadow} as the shadow of {source}"
        in (found["witness"])
    )
    saved = [one.split()[-1] for one in found["next"] if one.startswith(SAVES)]
    path = "/managed-ledgers/public/default/persistent/"
    assert [path + "source", path + "a-shadow"] == [one for one in saved if one.startswith(path)]


def test_a_shadow_topic_alone_has_its_source_saved(scene: Scene) -> None:
    """The source itself could not be read."""
    of_shadow = ManagedLedger((closed(7),), shadow_source=parse_topic("public/default/source"))
    scene.first = (topic(managed_ledger=of_shadow),)
    _, (found,) = scene.find()
    saved = [one.split("/")[-1] for one in found["next"] if one.startswith(SAVES)]
    assert ["source", "t"] == saved[-2:]


def test_a_ledger_that_ends_before_what_the_topic_recorded_is_truncated(scene: Scene) -> None:
    """Both looks see the same end. The finding has the range of lacking entries."""
    scene.first = (topic(managed_ledger=ManagedLedger((closed(7, 11),))),)
    scene.ledgers, scene.read = (ledger(7, WHOLE),), (ledger(7, WHOLE, 2),)
    result, (found,) = scene.find()
    assert ("LEDGER_TRUNCATED", 7, [[10, 10]], 1) == tuple(
        found[name] for name in ("kind", "ledger_id", "entries", "entries_total")
    )
    assert (9, 11, 100, 1_100) == tuple(
        found["facts"][name] for name in ("last_entry_id", "entries", "length_bytes", "size_bytes")
    )
    assert [[7, 10]] == [use["position"] for use in found["facts"]["some_uses"]]
    assert result.is_complete


@pytest.mark.parametrize("entries", [9, 10])
def test_a_ledger_with_all_that_was_recorded_is_not_truncated(scene: Scene, entries: int) -> None:
    """The id of the last entry is one less than the number of entries."""
    scene.first = (topic(managed_ledger=ManagedLedger((closed(7, entries),))),)
    scene.ledgers, scene.read = (ledger(7, WHOLE),), ()
    result, found = scene.find()
    assert ([], True) == (found, result.is_complete)


@pytest.mark.parametrize(
    "again", [replace(WHOLE, last_entry_id=11), replace(WHOLE, last_entry_id=4), None]
)
def test_an_end_that_moves_is_unknown(scene: Scene, again: LedgerMetadata | None) -> None:
    """A ledger that is gone at the second look is unknown too."""
    scene.first = (topic(managed_ledger=ManagedLedger((closed(7, 12),))),)
    scene.ledgers, scene.read = (ledger(7, WHOLE),), (ledger(7, again, 2),)
    result, found = scene.find()
    assert ([], False) == (found, result.is_complete)


def old(ledger_id: int, topic_name: str = "t", look: int = 1, **changes: Any) -> LedgerRecord:
    """Return a ledger of a topic that was created long ago."""
    return ledger(ledger_id, replace(with_owner(WHOLE, topic_name), ctime_ms=1, **changes), look)


def test_an_old_ledger_that_its_topic_does_not_name_is_an_orphan(scene: Scene) -> None:
    """All orphans are one finding on the cluster. Its bytes are those of the closed ones."""
    scene.first = (topic(managed_ledger=ManagedLedger((closed(1),))),)
    opened = {"state": LedgerState.OPEN, "last_entry_id": None, "length": 0}
    scene.ledgers = (ledger(1, WHOLE), old(2), old(3, **opened), old(4, look=1))
    scene.read = (old(2, look=2), old(3, look=2, **opened), ledger(4, None, 2))
    result, (found,) = scene.find()
    assert ("LEDGER_ORPHANED", None, "info") == (
        found["kind"],
        found["ledger_id"],
        found["severity"],
    )
    assert {
        "ledgers": 2, "some_ledgers": [2, 3], "length_bytes": 100, "stored_bytes": 200,
        "without_length": 1, "namespaces": 1,
        "some_namespaces": [
            {
                "namespace": "public/default", "ledgers": 2, "stored_bytes": 200,
                "is_deleted": False,
            }
        ],
        "topics": 1,
        "some_topics": [{"topic": str(TOPIC.topic), "ledgers": 2, "stored_bytes": 200}],
        "bookies": 3,
        "some_bookies": [
            {"bookie_id": bookie, "ledgers": 2, "estimated_bytes": 67}
            for bookie in ("b1", "b2", "b3")
        ],
        "oldest_age_ms": NOW_MS - 1,
        "orphan_age_ms": AGE_MS, "undecided": 0, "apart_ms": 1_000,
    } == found["facts"]  # fmt: skip
    assert (2, 3) == result.orphaned
    assert result.is_complete


@pytest.mark.parametrize(
    ("first", "again", "is_found"),
    [
        (("t/other",), ("t/other",), True),
        (("t/other", "public/default"), ("t/other", "public/default"), True),
        (("t/other",), ("t/other", "public/default"), True),
        (("t/other",), (), False),
        ((), ("t/other",), False),
    ],
    ids=["deleted", "without topics", "made again", "not listed again", "not listed"],
)
def test_what_a_namespace_without_topics_left_is_orphaned(
    scene: Scene, first: tuple[str, ...], again: tuple[str, ...], is_found: bool
) -> None:
    """It must be known at both looks which namespaces exist."""
    scene.first, scene.again = (), (TopicRecord(TOPIC.topic, 5, TopicStatus.MISSING),)
    scene.problems = tuple(
        namespace_row(name, look, 5)
        for look, names in enumerate((first, again), start=1)
        for name in names
    )
    scene.ledgers, scene.read = (old(2),), (old(2, look=2),)
    result, found = scene.find()
    assert is_found == (["LEDGER_ORPHANED"] == [one["kind"] for one in found])
    assert result.counts is not None
    expected = (1, 0) if is_found else (0, 1)
    assert expected == (result.counts.orphaned, result.counts.orphaned_unknown)
    if is_found:
        (where,) = found[0]["facts"]["some_namespaces"]
        assert ("public/default" not in {*first, *again}) == where["is_deleted"]


def test_orphans_are_counted_at_the_time_at_which_all_were_seen(scene: Scene) -> None:
    """The first look ended with the last of them, the second began with the first. Each look counts
    them.
    """
    scene.first = (topic(managed_ledger=ManagedLedger((closed(1),))),)
    scene.ledgers = (
        ledger(1, WHOLE),
        replace(old(2), read_at_ms=1_000),
        replace(old(3), read_at_ms=2_000),
    )
    scene.read = (
        replace(old(2, look=2), read_at_ms=9_000),
        replace(old(3, look=2), read_at_ms=8_000),
    )
    _, (found,) = scene.find()
    said = {"references": "2 unreferenced"}
    assert [("1970-01-01T00:00:02.000Z", said), ("1970-01-01T00:00:08.000Z", said)] == [
        (one["at"], one["answers"]) for one in found["looks"]
    ]


def test_undecided_ledgers_are_counted_in_a_sentence(scene: Scene) -> None:
    """They are undecided because they were not read again."""
    scene.first = (topic(managed_ledger=ManagedLedger((closed(1),))),)
    scene.ledgers, scene.read = (
        (ledger(1, WHOLE), old(2), old(3), old(4), old(5)),
        (old(4, look=2),),
    )
    result, (found,) = scene.find()
    assert (1, 3) == (found["facts"]["ledgers"], found["facts"]["undecided"])
    assert ["3 ledgers of Pulsar without a known reference"] == [
        one.partition(" are ")[0] for one in result.withheld
    ]


NOT_ORPHANS: dict[str, tuple[dict[str, Any], int]] = {
    "it is young": (
        {"ledgers": (ledger(2, replace(with_owner(WHOLE, "t"), ctime_ms=NOW_MS - AGE_MS)),)},
        0,
    ),
    "it is not of Pulsar": ({"ledgers": (ledger(2, replace(WHOLE, ctime_ms=1)),)}, 0),
    "its topic names it again": (
        {"again": (topic(managed_ledger=ManagedLedger((closed(1), closed(2)))),)},
        0,
    ),
    "it is another ledger by now": (
        {"read": (replace(old(2, look=2), stamp=ZnodeStamp(9, 0, 0)),)},
        0,
    ),
    "it is not read again": ({"read": ()}, 1),
    "it cannot be read again": ({"read": (LedgerRecord(2, 2, 200, RecordStatus.UNREADABLE),)}, 1),
    "its topic is not read again": ({"again": ()}, 1),
    "its topic cannot be read again": ({"again": (topic(problems=("a cursor is shut",)),)}, 1),
    "its namespace has a topic that cannot be read": (
        {
            "first": (
                TOPIC,
                TopicRecord(
                    parse_topic("public/default/u"), 5, TopicStatus.UNREADABLE, problems=("shut",)
                ),
            )
        },
        1,
    ),
    "another topic of its namespace cannot be read again": (
        {
            "first": (TOPIC, topic(topic=parse_topic("public/default/u"))),
            "again": (TOPIC, topic(topic=parse_topic("public/default/u"), problems=("shut",))),
        },
        1,
    ),
    "its topic is at no look": ({"first": (topic(topic=parse_topic("public/default/u")),)}, 1),
    "topics could not all be listed": ({"problems": (listing_problem_row(1, 5, "shut"),)}, 1),
    "its namespace has no topic": ({"first": (topic(topic=parse_topic("public/other/t")),)}, 1),
}


@pytest.mark.parametrize("name", NOT_ORPHANS)
def test_a_doubt_counts_against_an_orphan(scene: Scene, name: str) -> None:
    """A ledger that may be needed is counted as unknown."""
    changes, unknown = NOT_ORPHANS[name]
    scene.first, scene.ledgers, scene.read = (
        (topic(managed_ledger=ManagedLedger((closed(1),))),),
        (old(2),),
        (old(2, look=2),),
    )
    for key, value in changes.items():
        setattr(scene, key, value)
    scene.ledgers = (ledger(1, WHOLE), ledger(7, WHOLE), *scene.ledgers)
    result, found = scene.find()
    assert result.counts is not None
    assert ([], unknown, 0) == (
        found,
        encode(result.counts)["orphaned_unknown"],
        encode(result.counts)["orphaned"],
    )


@pytest.mark.parametrize("component", ["schema", "compacted-ledger", "delayed-index-bucket"])
def test_ledgers_that_may_be_named_elsewhere_are_undecided(scene: Scene, component: str) -> None:
    """Not all references to ledgers of schemas, compaction and delayed delivery are decoded."""
    scene.first = (topic(managed_ledger=ManagedLedger((closed(1),))),)
    custom = (
        ("application", b"pulsar"),
        ("component", component.encode()),
        ("pulsar/managed-ledger", b"public/default/persistent/t"),
    )
    scene.ledgers = (
        ledger(1, WHOLE),
        ledger(2, replace(WHOLE, ctime_ms=1, custom_metadata=custom)),
    )
    scene.read = ()
    result, found = scene.find()
    assert (
        [] == found and result.counts is not None and 1 == encode(result.counts)["orphaned_unknown"]
    )


def test_what_could_not_be_read_is_counted_and_makes_the_run_incomplete(scene: Scene) -> None:
    """Topics are counted, not ledgers. The sentences have the reason `reference_unreadable`."""
    scene.first = (topic(managed_ledger=ManagedLedger(), problems=("a cursor is shut",)),)
    scene.problems, scene.read = (listing_problem_row(1, 5, "shut"),), ()
    result, found = scene.find()
    assert ([], False) == (found, result.is_complete)
    assert result.counts is not None and (1, 1) == (
        encode(result.counts)["unreadable"],
        encode(result.counts)["not_listed"],
    )
    assert any("of 1 topic something" in sentence for sentence in result.withheld)
    assert 2 == sum("reference_unreadable" in sentence for sentence in result.withheld)


def test_partitions_without_a_znode_are_named_once(scene: Scene) -> None:
    """Both looks see them. The namespaces in which some may be missed are named too. The run stays
    complete.
    """
    lone = [parse_topic(f"public/default/p-partition-{n}") for n in (1, 0)]
    scene.first, scene.read = (), ()
    scene.problems = tuple(
        row
        for look in (1, 2)
        for row in (
            *(partition_row(one, look, 5) for one in lone),
            *(partition_problem_row(look, 5, "shut", f"public/{name}") for name in "ba"),
        )
    )
    result, found = scene.find()
    assert ([], True) == (found, result.is_complete)
    assert result.counts is not None and 2 == encode(result.counts)["partitions_without_znode"]
    in_doubt, named = result.withheld
    assert in_doubt.partition(" could ")[0].endswith("of 2 namespaces (such as public/a, public/b)")
    assert named.startswith(
        "2 partitions of partitioned topics (such as persistent://public/default/p-partition-0,"
        " persistent://public/default/p-partition-1)"
    )


def test_a_cluster_without_topics_has_only_zero_counts(scene: Scene) -> None:
    """The table of references may have no file at all."""
    scene.first, scene.read = (), ()
    scene.write()
    for file in Path(scene.run.path).glob("evidence/references/*"):
        file.unlink()
    result = reference_findings(scene.run, ABOUT)
    assert ((), (), True) == (result.findings, result.withheld, result.is_complete)
    counts = encode(result.counts)
    assert ({}, None) == (counts.pop("unread"), counts.pop("orphaned_growth"))
    assert {0} == set(counts.values())


def test_what_was_looked_at_is_counted_at_the_first_look(scene: Scene) -> None:
    """Topics that were found, their cursors, the schemas of different positions, and their ledgers
    are counted.
    """
    used = {
        "subscriptions": (
            Subscription("s", Cursor(3, Position(1, 0))),
            Subscription("u", Cursor(None, Position(1, 0))),
        )
    }
    schemas = (
        SchemaVersion(0, Position(4, 1)),
        SchemaVersion(1, Position(4, 1)),
        SchemaVersion(2, Position(4, 2)),
    )
    more = topic(
        topic=parse_topic("public/default/u"),
        managed_ledger=ManagedLedger((closed(1),)),
        schemas=schemas,
    )
    scene.first = (topic(managed_ledger=ManagedLedger((closed(1), closed(2))), **used), more)
    scene.first += (
        TopicRecord(
            parse_topic("public/default/v"), 5, TopicStatus.UNREADABLE, problems=("shut", "too")
        ),
    )
    scene.problems = (listing_problem_row(1, 5, "shut"), listing_problem_row(2, 5, "shut"))
    scene.ledgers, scene.read = tuple(ledger(n, WHOLE) for n in (1, 2, 3, 4)), ()
    result, found = scene.find()
    assert [] == found
    assert {
        "topics": 2, "cursors": 2, "schemas": 2, "ledgers_referenced": 4, "missing": 0,
        "truncated": 0, "dropped": 0, "positions_beyond": 0, "orphaned": 0,
        "unreadable": 1, "not_listed": 2, "unknown": 0, "outdated": 0, "orphaned_unknown": 0,
        "partitions_without_znode": 0,
        "orphaned_bytes": 0, "orphaned_without_length": 0, "orphaned_growth": None,
        "newest_missing": 0,
        "unread": {},
    } == encode(result.counts)  # fmt: skip


def test_each_suspect_is_judged_by_the_topics_that_name_it(scene: Scene) -> None:
    """There are several of each sort, in several topics. Findings and named ids ascend."""

    def topic_named(name: str, *ledgers: DataLedger, **more: Any) -> TopicRecord:
        return topic(
            topic=parse_topic(f"public/default/{name}"),
            managed_ledger=ManagedLedger(ledgers),
            **more,
        )

    scene.first = (
        topic_named("a", closed(7), closed(9)),
        topic_named("b", closed(8)),
        topic_named("c", DataLedger(10)),
        topic_named("d", DataLedger(11)),
        topic_named(
            "e",
            subscriptions=tuple(
                Subscription(str(n), replace(COMPACTED.cursor, compacted_ledger_id=n))
                for n in (12, 13)
            ),
        ),
    )
    scene.again = (*scene.first[:1], topic_named("b"), *scene.first[2:])
    scene.read = tuple(ledger(n, None, look) for n in range(7, 14) for look in (1, 2))
    result, found = scene.find()
    assert [7, 9, 10, 11] == [one["ledger_id"] for one in found]
    assert result.counts is not None
    names = ("missing", "newest_missing", "unknown", "outdated")
    assert (2, 2, 0, 2) == tuple(encode(result.counts)[name] for name in names)
    (outdated,) = result.withheld
    assert outdated.startswith("2 compacted ledgers (such as 12, 13)")


def test_a_finding_stands_if_a_later_ledger_is_sound(scene: Scene) -> None:
    """Ledger 10 is sound. It comes after a missing, a newest missing and an outdated ledger."""
    in_use = topic(
        topic=parse_topic("public/default/e"),
        managed_ledger=ManagedLedger(),
        subscriptions=(COMPACTED,),
    )
    unsure = topic(
        topic=parse_topic("public/default/u"), managed_ledger=ManagedLedger((DataLedger(8),))
    )
    compacted = replace(
        in_use, subscriptions=(Subscription("c", Cursor(2, Position(1, 1), (), 9)),)
    )
    scene.first = (topic(managed_ledger=ManagedLedger((closed(7), closed(10)))), unsure, compacted)
    scene.read = (
        *scene.read,
        *(ledger(n, None, look) for n in (8, 9) for look in (1, 2)),
        unreadable_ledger(10),
        ledger(10, WHOLE, 2),
    )
    scene.ledgers = (ledger(2, WHOLE),)
    result, found = scene.find()
    assert [7, 8] == [one["ledger_id"] for one in found]
    assert result.counts is not None
    names = ("missing", "newest_missing", "unknown", "outdated")
    assert (1, 1, 0, 1) == tuple(encode(result.counts)[name] for name in names)


def test_each_look_at_a_ledger_is_reported(scene: Scene) -> None:
    """The finding has the time of both looks."""
    _, (found,) = scene.find()
    assert ["1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z"] == [
        one["at"] for one in found["looks"]
    ]


def test_the_owner_of_a_truncated_ledger_is_what_its_metadata_says(scene: Scene) -> None:
    """The owner by the reference is used only if the metadata names none."""
    scene.first = (topic(managed_ledger=ManagedLedger((closed(7, 11),))),)
    own = with_owner(WHOLE, "mine")
    scene.ledgers, scene.read = (ledger(7, own),), (ledger(7, own, 2),)
    _, (found,) = scene.find()
    assert "public/default/persistent/mine" == found["owner"]["name"]


def test_the_owner_of_a_lost_cursor_names_the_subscription(scene: Scene) -> None:
    """It has the form in which Pulsar writes it."""
    scene.first = (
        topic(
            managed_ledger=ManagedLedger(),
            subscriptions=(Subscription("s", Cursor(7, Position(6, 3))),),
        ),
    )
    _, (found,) = scene.find()
    assert "public/default/persistent/t cursor s" == found["owner"]["name"]
