"""Which topic a ledger belongs to, and how old it is. The laws of the finding are in
test_findings_reference_findings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.findings.references import (
    KnownTopics,
    Orphans,
    SeenOrphan,
    can_decide,
    created_ms,
    is_old,
    is_pulsars,
    judge_orphans,
    topic_named_by,
)
from auditor.model.facts import OrphanedFacts, OrphansInNamespace, OrphansOfTopic
from auditor.model.finding import Finding, Kind
from auditor.model.identity import LedgerId
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
    TopicName,
    TopicRecord,
    TopicStatus,
)

KNOWN = KnownTopics({("t", "", "n")}, frozenset())
PLAIN = LedgerMetadata(3, LedgerState.CLOSED, 1, 1, 1, 9, 100, ())


def of_pulsar(name: str, component: str = "managed-ledger") -> LedgerMetadata:
    custom = {"application": "pulsar", "component": component, "pulsar/managed-ledger": name}
    return replace(
        PLAIN, custom_metadata=tuple((key, value.encode()) for key, value in custom.items())
    )


def record(metadata: LedgerMetadata) -> LedgerRecord:
    return LedgerRecord(1, 1, 100, RecordStatus.FOUND, ZnodeStamp(1, 0, 50), metadata)


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("t/n/persistent/a%2Fb+c", TopicName("t", "", "n", "a/b c")),
        ("t/eu/n/persistent/x", TopicName("t", "eu", "n", "x")),
        ("t/n/odd/x", None),
        ("t//persistent/x", None),
        ("x", None),
        ("", None),
    ],
)
def test_the_topic_of_a_ledger_is_read_from_its_name(name: str, topic: TopicName | None) -> None:
    """The name is read as Pulsar writes it; another plugin's name belongs to no topic."""
    assert topic == topic_named_by(of_pulsar(name))
    assert topic_named_by(of_pulsar(name, "schema")) is None


def test_a_ledger_is_pulsars_by_its_custom_metadata_alone() -> None:
    """A ledger without readable metadata belongs to nobody."""
    assert [True, False, False] == [is_pulsars(of_pulsar("x")), is_pulsars(PLAIN), is_pulsars(None)]


def test_the_metadata_dates_a_ledger_else_its_znode() -> None:
    """A copied znode is younger than its ledger."""
    assert [7, 50] == [created_ms(record(replace(PLAIN, ctime_ms=7))), created_ms(record(PLAIN))]
    assert [False, True] == [is_old(record(PLAIN), 60, 10), is_old(record(PLAIN), 61, 10)]


@pytest.mark.parametrize(
    ("known", "decides"),
    [
        (KNOWN, True),
        (KnownTopics({("t", "", "n")}, {("t", "", "n")}), False),
        (KnownTopics({("t", "", "n")}, frozenset(), is_blind=True), False),
        (KnownTopics({("t", "eu", "n")}, frozenset()), False),
    ],
)
def test_only_a_namespace_that_was_read_in_full_is_decided(
    known: KnownTopics, decides: bool
) -> None:
    """A namespace that was only partly read is undecided, and so is the namespace of
    transactions.
    """
    assert decides is can_decide(record(of_pulsar("t/n/persistent/x")), known)
    system = KnownTopics({("pulsar", "", "system")}, frozenset())
    assert not can_decide(record(of_pulsar("pulsar/system/persistent/x")), system)


@pytest.mark.parametrize("name", [b"t/n/persistent/a\xff", None])
def test_a_name_that_pulsar_did_not_write_raises_nothing(name: bytes | None) -> None:
    """Such a name stands for a topic that does not exist, or for none."""
    custom = (
        ("component", b"managed-ledger"),
        *([] if name is None else [("pulsar/managed-ledger", name)]),
    )
    topic = topic_named_by(replace(PLAIN, custom_metadata=custom))
    assert topic == (None if name is None else TopicName("t", "", "n", "a\ufffd"))


def test_a_ledger_that_could_not_be_read_has_no_topic_and_no_age() -> None:
    """Its znode dates it, if that was read; nothing else is decided."""
    shut = LedgerRecord(1, 1, 100, RecordStatus.UNREADABLE)
    assert [50, 0] == [created_ms(replace(shut, stamp=ZnodeStamp(1, 0, 50))), created_ms(shut)]
    assert not can_decide(shut, KNOWN) and not can_decide(record(PLAIN), KNOWN)


TOPIC = TopicRecord(
    TopicName("t", "", "n", "x"), 5, TopicStatus.FOUND, ManagedLedger((DataLedger(9),))
)
CURSOR = Cursor(3, None, (), 3)


def old(ledger_id: int, look: int, **changes: Any) -> LedgerRecord:
    """Return a ledger of the topic, created at 10 and read at 100 or 160."""
    made = replace(of_pulsar("t/n/persistent/x"), ctime_ms=10, **changes)
    return LedgerRecord(
        ledger_id, look, 40 + 60 * look, RecordStatus.FOUND, ZnodeStamp(1, 0, 50), made
    )


AGAIN = old(3, 2)


def judged(
    topic: TopicRecord | None = TOPIC, again: LedgerRecord | None = AGAIN, undecided: int = 0
) -> Orphans:
    """Return the findings on ledger 3 as given, and on two certain orphans, 5 and 4."""
    sure = [
        SeenOrphan(old(5, 1), old(5, 2), TOPIC),
        SeenOrphan(old(4, 1), replace(old(4, 2), read_at_ms=140), TOPIC),
    ]
    return judge_orphans([SeenOrphan(old(3, 1), again, topic), *sure], 1_000, 100, undecided)


def expected_orphans(ids: tuple[LedgerId, ...], undecided: int) -> Orphans:
    """Return the expected finding on closed ledgers of 100 bytes."""
    held = 100 * len(ids)
    where = (OrphansInNamespace("t/n", len(ids), held, False),)
    whose = (OrphansOfTopic("persistent://t/n/x", len(ids), held),)
    counts = (len(ids), ids, held, held, 0, 990, 100, 1, where, 1, whose, 0, (), undecided, 40)
    facts = OrphanedFacts(*counts)
    return Orphans(Finding(Kind.LEDGER_ORPHANED, facts), ids, undecided)


def test_orphans_are_one_finding_with_the_oldest_age_and_the_shortest_time_between_looks() -> None:
    """Ids ascend; ledgers that were undecided before are added."""
    assert expected_orphans((3, 4, 5), 0) == judged()
    assert expected_orphans((4, 5), 8) == judged(None, undecided=7)
    assert expected_orphans((3, 4, 5), 7) == judged(undecided=7)
    assert Orphans(None, (), 0) == judge_orphans([], 1_000, 100)


@pytest.mark.parametrize(
    "changes",
    [
        {"managed_ledger": ManagedLedger((DataLedger(3, bookkeeper_deleted=True), DataLedger(9)))},
        {"subscriptions": (Subscription("s", replace(CURSOR, compacted_ledger_id=None)),)},
        {"subscriptions": (Subscription("s", replace(CURSOR, ledger_id=None)),)},
        {
            "managed_ledger": None,
            "subscriptions": (Subscription("s", CURSOR), Subscription("shut", None)),
        },
        {"schemas": (SchemaVersion(0, Position(3, 1)),)},
    ],
)
def test_a_reference_of_any_role_saves_a_ledger(changes: dict[str, Any]) -> None:
    """This includes a ledger that was deleted in BookKeeper on purpose: its deletion is under
    way.
    """
    assert expected_orphans((4, 5), 0) == judged(replace(TOPIC, **changes))


@pytest.mark.parametrize(
    ("again", "topic", "undecided"),
    [
        (None, TOPIC, 1),
        (AGAIN, None, 1),
        (AGAIN, replace(TOPIC, status=TopicStatus.UNREADABLE), 1),
        (AGAIN, replace(TOPIC, problems=("shut",)), 1),
        (LedgerRecord(3, 2, 160, RecordStatus.UNREADABLE), TOPIC, 1),
        (LedgerRecord(3, 2, 160, RecordStatus.GONE), TOPIC, 0),
        (replace(AGAIN, stamp=ZnodeStamp(2, 0, 50)), TOPIC, 0),
    ],
)
def test_what_the_second_look_does_not_confirm_is_no_orphan(
    again: LedgerRecord | None, topic: TopicRecord | None, undecided: int
) -> None:
    """It is undecided if a part could not be read; a deleted or recreated ledger is decided."""
    assert expected_orphans((4, 5), undecided) == judged(topic, again)


def test_a_topic_that_is_gone_names_nothing() -> None:
    """The ledger of a deleted topic was left behind."""
    assert expected_orphans((3, 4, 5), 0) == judged(
        TopicRecord(TOPIC.topic, 5, TopicStatus.MISSING)
    )


def test_the_bytes_of_orphans_are_spread_over_the_bookies_of_their_segments() -> None:
    """By the entries of each segment and the write quorum. One that is not closed names its bookies
    and has no bytes.
    """
    segments = (Segment(0, ("b1", "b2", "b3")), Segment(6, ("b1", "b4", "b3")))
    sizes = {"ensemble_size": 3, "write_quorum": 2, "segments": segments}
    opened = SeenOrphan(old(6, 1, **sizes, state=LedgerState.OPEN), old(6, 2), TOPIC)
    closed = SeenOrphan(old(7, 1, **sizes), old(7, 2), TOPIC)
    empty = SeenOrphan(old(8, 1, **sizes, last_entry_id=-1, length=0), old(8, 2), TOPIC)
    found = judge_orphans([opened, closed, empty], 1_000, 100).finding
    assert found is not None and isinstance(found.facts, OrphanedFacts)
    assert (200, 4) == (found.facts.stored_bytes, found.facts.bookies)
    assert {"b1": 67, "b3": 67, "b2": 40, "b4": 27} == {
        bookie.bookie_id: bookie.estimated_bytes for bookie in found.facts.some_bookies
    }
    assert {3} == {bookie.ledgers for bookie in found.facts.some_bookies}


def test_the_shares_of_many_orphans_add_up_to_the_byte() -> None:
    """Thirds and sevenths of a byte are not lost one by one: b1 has a copy of every entry."""
    segments = (Segment(0, ("b1", "b2", "b3")), Segment(2, ("b1", "b4", "b3")))
    sizes = {"ensemble_size": 3, "write_quorum": 3, "segments": segments}
    orphans = [
        SeenOrphan(one, replace(one, look=2), TOPIC)
        for one in (old(n, 1, **sizes, last_entry_id=6, length=n % 5) for n in range(101, 3_101))
    ]
    found = judge_orphans(orphans, 1_000, 100).finding
    assert found is not None and isinstance(found.facts, OrphanedFacts)
    shares = {one.bookie_id: one.estimated_bytes for one in found.facts.some_bookies}
    total = 600 * (0 + 1 + 2 + 3 + 4)
    assert {
        "b1": total,
        "b3": total,
        "b2": round(total * 2 / 7),
        "b4": round(total * 5 / 7),
    } == shares


def test_the_length_of_ledgers_that_are_not_closed_is_not_known() -> None:
    """They are counted separately, and so is one whose first look had no stamp."""
    opened = SeenOrphan(old(6, 1, state=LedgerState.OPEN), old(6, 2), TOPIC)
    unstamped = SeenOrphan(replace(old(7, 1), stamp=None), old(7, 2), TOPIC)
    where = (OrphansInNamespace("t/n", 1, 0, False),)
    whose = (OrphansOfTopic("persistent://t/n/x", 1, 0),)
    facts = OrphanedFacts(1, (6,), 0, 0, 1, 990, 100, 1, where, 1, whose, 0, (), 1, 60)
    assert Orphans(Finding(Kind.LEDGER_ORPHANED, facts), (6,), 1) == judge_orphans(
        [opened, unstamped], 1_000, 100
    )


@pytest.mark.parametrize(
    ("known", "is_decided"),
    [
        (KnownTopics(frozenset(), frozenset()), False),
        (KnownTopics(frozenset(), frozenset(), present={"t/other"}), True),
        (KnownTopics(frozenset(), frozenset(), present={"t/n"}), True),
        (KnownTopics(frozenset(), frozenset(), True, present={"t/other"}), False),
        (KnownTopics(frozenset(), {("t", "", "n")}, present={"t/other"}), False),
    ],
    ids=["unknown", "deleted", "without topics", "topics not listed", "doubtful"],
)
def test_a_namespace_that_is_deleted_or_has_no_topic_is_decided(
    known: KnownTopics, is_decided: bool
) -> None:
    """Only if it is known which namespaces exist, and all topics were listed."""
    assert is_decided == can_decide(record(of_pulsar("t/n/persistent/x")), known)


@pytest.mark.parametrize(("present", "is_decided"), [({"t/eu"}, False), ({"t/us"}, True)])
def test_of_a_namespace_with_a_cluster_only_the_cluster_is_known(
    present: set[str], is_decided: bool
) -> None:
    """Without that it does not exist either."""
    known = KnownTopics(frozenset(), frozenset(), present=present)
    assert is_decided == can_decide(record(of_pulsar("t/eu/n/persistent/x")), known)


def test_orphans_are_counted_by_namespace_with_the_bytes_of_all_copies() -> None:
    """Those with the most bytes come first, and it is said which namespace does not exist."""
    gone = TopicRecord(TopicName("t", "", "gone", "x"), 5, TopicStatus.MISSING)
    two_copies = replace(of_pulsar("t/gone/persistent/x"), ctime_ms=10, write_quorum=2)
    seen = [
        SeenOrphan(old(5, 1), old(5, 2), TOPIC),
        SeenOrphan(
            replace(old(6, 1), metadata=two_copies), replace(old(6, 2), metadata=two_copies), gone
        ),
    ]
    known = KnownTopics({("t", "", "n")}, frozenset(), present={"t/n"})
    finding = judge_orphans(seen, 1_000, 100, known=known).finding
    assert finding is not None and isinstance(finding.facts, OrphanedFacts)
    assert (
        OrphansInNamespace("t/gone", 1, 200, True),
        OrphansInNamespace("t/n", 1, 100, False),
    ) == finding.facts.some_namespaces
    assert (200, 300, 2) == (
        finding.facts.length_bytes,
        finding.facts.stored_bytes,
        finding.facts.namespaces,
    )
