"""Whether a topic can be read: laws of a reader, and the same answers derived entry by entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stories import GRACE_MS, LEDGER, NOW_MS, Bookie, State, Story, drive

from auditor.model.availability import NO_COOKIE, AnswerStatus
from auditor.model.availability import Answer as ListAnswer
from auditor.model.evidence import LedgerEvidence, Look, PlacementRule, Policy
from auditor.model.facts import BeyondEndFacts, EndHeader, EntryFacts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import ENTRY_ID_MAX
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Mark,
    RecordStatus,
    Segment,
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
    schema_ledgers,
)
from auditor.model.verdict import BookieLack, Exempt, Standing, Unknown, Verdict
from auditor.pulsar.readability import (
    Answer,
    Condition,
    LedgerCondition,
    Reading,
    Seen,
    TopicReadability,
    doubt_unregistered,
    is_truncated,
    judge_topic,
)

TOPIC = TopicName("t", "", "n", "x")
ENTRIES = 6


def metadata(last: int | None, state: LedgerState = LedgerState.CLOSED) -> LedgerMetadata:
    return LedgerMetadata(3, state, 1, 1, 1, last, 0, (Segment(0, ("b1",)),))


def runs(entries: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return ascending entries as inclusive ranges."""
    found: list[tuple[int, int]] = []
    for entry in entries:
        if found and found[-1][1] == entry - 1:
            found[-1] = (found[-1][0], entry)
        else:
            found.append((entry, entry))
    return tuple(found)


def judged(
    ledger_id: int,
    lost: tuple[int, ...] = (),
    *,
    last: int = ENTRIES - 1,
    unknown: bool = False,
    total: int = 0,
) -> Seen:
    """Return a ledger and its verdict: `lost` entries have no copy, and an `unknown` ledger could
    not be judged.
    """
    entries = runs(lost)
    kind = Kind.ENTRY_WITHOUT_REPLICA
    findings = (
        (
            Finding(
                kind,
                EntryFacts(0, ("b1",)),
                ledger_id,
                entries=entries,
                entries_total=total or len(lost),
            ),
        )
        if lost
        else ()
    )
    standing = Standing.VIOLATED if lost else Standing.INDETERMINATE if unknown else Standing.SOUND
    unknowns = (Unknown.BOOKIE_SILENT,) if unknown else ()
    return LedgerRecord(ledger_id, 1, 0, RecordStatus.FOUND, metadata=metadata(last)), Verdict(
        ledger_id, standing, unknowns=unknowns, findings=findings
    )


def closed_short(ledger_id: int, last: int, confirmed: int) -> Seen:
    """Return a ledger that ends at `last`, although a header names `confirmed` as acknowledged."""
    record, verdict = judged(ledger_id, last=last)
    facts = BeyondEndFacts(last, 1, (), EndHeader("b1", confirmed + 1, confirmed, 0))
    short = Finding(
        Kind.LEDGER_CLOSED_SHORT,
        facts,
        ledger_id,
        entries=((last + 1, confirmed),),
        entries_total=confirmed - last,
    )
    return record, replace(verdict, standing=Standing.VIOLATED, findings=(short,))


def gone(ledger_id: int) -> Seen:
    verdict = Verdict(ledger_id, Standing.EXEMPT, Exempt.DELETED)
    return LedgerRecord(ledger_id, 1, 0, RecordStatus.GONE), verdict


def topic(*ledgers: DataLedger, cursor: Cursor | None = None) -> TopicRecord:
    subscriptions = (Subscription("s", cursor),) if cursor else ()
    return TopicRecord(TOPIC, 0, TopicStatus.FOUND, ManagedLedger(ledgers), subscriptions)


def closed(ledger_id: int, entries: int | None = ENTRIES) -> DataLedger:
    return DataLedger(ledger_id, entries)


def reading(record: TopicRecord, *seen: Seen) -> Reading:
    (found,) = judge_topic(record, {one[0].ledger_id: one for one in seen}).readings
    return found


LOSSES = st.sets(st.integers(0, ENTRIES - 1))
AT = st.builds(Position, st.sampled_from([1, 2]), st.integers(-1, ENTRIES - 1))
SPANS = st.tuples(AT, AT).map(sorted).map(tuple)


@settings(max_examples=300)
@given(LOSSES, LOSSES, AT, st.lists(SPANS, max_size=3).map(tuple), st.booleans())
def test_the_first_loss_is_that_of_reading_entry_by_entry(
    lost_1, lost_2, position, acknowledged, is_newest
):
    """It is the first lost entry after the position that is not acknowledged, if any."""
    cursor = Cursor(None if is_newest else 9, position, acknowledged)
    lost = {Position(n, entry) for n, entries in ((1, lost_1), (2, lost_2)) for entry in entries}
    every = [Position(n, entry) for n in (1, 2) for entry in range(ENTRIES)]
    needed = [
        p
        for p in every
        if p > position and not any(lower < p <= upper for lower, upper in acknowledged)
    ]
    expected = next((p for p in needed if p in lost), None)
    seen = (judged(1, tuple(sorted(lost_1))), judged(2, tuple(sorted(lost_2))), judged(9))
    found = reading(topic(closed(1), closed(2), cursor=cursor), *seen)
    answer = (
        Answer.READABLE
        if expected is None
        else Answer.BLOCKED
        if is_newest
        else Answer.POSSIBLY_BLOCKED
    )
    assert Reading(Subscription("s", cursor), position, is_newest, answer, expected) == found


def test_a_ledger_that_is_not_judged_is_unknown_only_to_readers_that_need_it():
    """A reader that has acknowledged the whole ledger does not need it."""
    seen = judged(1, unknown=True), judged(2)
    for position, answer in (
        (Position(1, ENTRIES - 2), Answer.UNKNOWN),
        (Position(1, ENTRIES - 1), Answer.READABLE),
    ):
        assert (
            answer
            is reading(topic(closed(1), closed(2), cursor=Cursor(None, position)), *seen).answer
        )


def test_a_loss_counts_before_what_is_unknown():
    """The reader is blocked, whatever else is unknown."""
    found = reading(
        topic(closed(1), closed(2), cursor=Cursor(None, None)),
        judged(1, unknown=True),
        judged(2, (3,)),
    )
    assert (Answer.BLOCKED, Position(2, 3)) == (found.answer, found.first_loss)


def test_losses_that_are_not_all_named_leave_the_rest_unknown():
    """The ranges of a finding may be cut."""
    found = reading(topic(closed(1), cursor=Cursor(None, Position(1, 3))), judged(1, (2,), total=2))
    assert Answer.UNKNOWN is found.answer


@pytest.mark.parametrize(
    ("ledger", "seen", "condition", "lost"),
    [
        (closed(1), judged(1), Condition.NOTHING_LOST, ()),
        (closed(1), judged(1, (2,)), Condition.ENTRIES_LOST, ((2, 2),)),
        (closed(1), judged(1, last=3), Condition.TRUNCATED, ((4, 5),)),
        (closed(1), judged(1, (2,), last=3), Condition.TRUNCATED, ((2, 2), (4, 5))),
        (closed(1, 4), judged(1), Condition.NOTHING_LOST, ()),
        (closed(1, 4), closed_short(1, 3, 7), Condition.CLOSED_SHORT, ((4, 7),)),
        (closed(1), closed_short(1, 3, 7), Condition.TRUNCATED, ((4, 7),)),
        (closed(1), judged(1, last=4), Condition.TRUNCATED, ((5, 5),)),
        (closed(1, None), judged(1, last=3), Condition.NOTHING_LOST, ()),
        (closed(1, None), judged(1, last=-1), Condition.NOTHING_LOST, ()),
        (closed(1), judged(1, unknown=True), Condition.UNKNOWN, ()),
        (closed(1), gone(1), Condition.MISSING, ((0, 5),)),
        (closed(1, None), gone(1), Condition.MISSING, ((0, ENTRY_ID_MAX),)),
        (closed(1, 0), gone(1), Condition.NOTHING_LOST, ()),
    ],
)
def test_the_condition_of_a_ledger(ledger, seen, condition, lost):
    """Derived from its verdict, its metadata and the topic, with a newer ledger after it."""
    readable = judge_topic(topic(ledger, closed(2)), {1: seen, 2: judged(2)})
    found = readable.data[0][1]
    assert (1, condition, lost) == (found.ledger_id, found.condition, found.lost)
    assert (condition is Condition.TRUNCATED) is is_truncated(ledger, seen[0])


def test_a_newest_ledger_without_metadata_and_without_entries_recorded_blocks_possibly():
    """It may never have held an entry."""
    judged = judge_topic(topic(closed(1, None)), {1: gone(1)})
    expected = LedgerCondition(1, Condition.NEWEST_MISSING, ((0, ENTRY_ID_MAX),))
    assert expected == judged.data[0][1]
    assert judged.start is not None
    assert (Answer.POSSIBLY_BLOCKED, Position(1, 0)) == (
        judged.start.answer,
        judged.start.first_loss,
    )


def test_a_loss_before_the_newest_ledger_blocks_for_certain():
    """A reader comes to it first."""
    judged = judge_topic(topic(closed(1), closed(2, None)), {1: gone(1), 2: gone(2)})
    assert judged.start is not None and Answer.BLOCKED is judged.start.answer


@pytest.mark.parametrize("state", [LedgerState.OPEN, LedgerState.IN_RECOVERY])
@pytest.mark.parametrize(
    ("answering", "condition", "answer"),
    [
        (frozenset({"b1", "b2"}), Condition.OPEN, Answer.READABLE),
        (frozenset({"b2"}), Condition.UNKNOWN, Answer.UNKNOWN),
        (frozenset(), Condition.UNKNOWN, Answer.UNKNOWN),
    ],
)
def test_a_ledger_that_is_not_closed_is_readable_where_it_can_be_recovered(
    state: LedgerState, answering: frozenset[str], condition: Condition, answer: Answer
):
    """Recovery needs, in each write set, fewer bookies away than the ack quorum. A broker that has
    it open needs none: it is not known.
    """
    segment = Segment(0, ("b1", "b2"))
    made = replace(metadata(-1, state), ensemble_size=2, write_quorum=2, segments=(segment,))
    record = LedgerRecord(1, 1, 0, RecordStatus.FOUND, metadata=made)
    seen = {1: (record, Verdict(1, Standing.EXEMPT, Exempt.OPEN))}
    judged = judge_topic(topic(closed(1, None)), seen, answering=answering)
    assert condition is judged.data[0][1].condition
    assert judged.start is not None and answer is judged.start.answer


def test_a_newest_ledger_that_was_closed_short_stops_a_reader():
    """The topic has no record of its newest ledger: the header of an entry beyond the end proves
    the loss.
    """
    record, verdict = judged(1, (5, 6, 7, 8), last=4)
    short = tuple(replace(one, kind=Kind.LEDGER_CLOSED_SHORT) for one in verdict.findings)
    seen = {1: (record, replace(verdict, findings=short))}
    found = judge_topic(topic(closed(1, None)), seen)
    assert (Condition.CLOSED_SHORT, ((5, 8),)) == (
        found.data[0][1].condition,
        found.data[0][1].lost,
    )
    assert found.start is not None and Answer.BLOCKED is found.start.answer


@pytest.mark.parametrize("state", [LedgerState.OPEN, LedgerState.IN_RECOVERY])
def test_a_ledger_that_is_not_closed_has_no_end_to_compare(state: LedgerState):
    """It is neither truncated nor judged."""
    record = LedgerRecord(1, 1, 0, RecordStatus.FOUND, metadata=metadata(-1, state))
    exempt = Exempt.OPEN if state is LedgerState.OPEN else Exempt.IN_RECOVERY
    seen = record, Verdict(1, Standing.EXEMPT, exempt)
    assert Condition.OPEN is judge_topic(topic(closed(1)), {1: seen}).data[0][1].condition


@pytest.mark.parametrize("kind", [Kind.ENTRY_CORRUPT, Kind.METADATA_MALFORMED])
def test_damage_that_may_or_may_not_stop_a_reader_is_unknown(kind: Kind):
    """Another copy may be good, or another client may be able to read the metadata."""
    record, verdict = judged(1)
    finding = Finding(kind, EntryFacts(0, ("b1",)), 1)
    seen = record, replace(verdict, standing=Standing.VIOLATED, findings=(finding,))
    found = judge_topic(topic(closed(1)), {1: seen}).data[0][1]
    assert (Condition.UNKNOWN, True, kind.value) == (
        found.condition,
        found.is_unknown,
        found.detail,
    )


@pytest.mark.parametrize("seen", [gone(1), judged(1, (2,)), judged(1, last=3)])
def test_a_ledger_with_a_whole_copy_in_long_term_storage_is_no_loss(seen: Seen):
    """The fault of its copy in BookKeeper is mentioned."""
    ledger = DataLedger(1, ENTRIES, offloaded=True)
    readable = judge_topic(topic(ledger), {1: seen})
    assert readable.start is not None
    assert (1, Condition.OFFLOADED) == (
        readable.data[0][1].ledger_id,
        readable.data[0][1].condition,
    )
    assert Reading(None, None, True, Answer.READABLE) == readable.start
    assert readable.data[0][1].detail.startswith("its copy in BookKeeper: ")


def test_what_a_topic_no_longer_references_is_not_judged():
    """It was trimmed during the audit."""
    readable = judge_topic(topic(closed(1), closed(2)), {1: gone(1), 2: judged(2)}, frozenset({1}))
    assert [2] == [one.ledger_id for one in readable.conditions]


def test_a_ledger_that_was_deleted_on_purpose_is_not_asked_for():
    """It is only in long-term storage."""
    ledger = DataLedger(1, ENTRIES, offloaded=True, bookkeeper_deleted=True)
    assert ((ledger, LedgerCondition(1, Condition.OFFLOADED)),) == judge_topic(
        topic(ledger), {}
    ).data


def test_the_ledgers_of_cursors_and_schemas_are_judged_too():
    """They may be missing, damaged or trimmed meanwhile. They do not block a reader."""
    cursors = tuple(Subscription(f"s{n}", Cursor(n, None)) for n in (7, 8, 9))
    record = replace(topic(closed(1)), subscriptions=cursors)
    readable = judge_topic(
        record, {1: judged(1), 7: gone(7), 8: judged(8, (2,)), 9: gone(9)}, frozenset({9})
    )
    assert [
        LedgerCondition(7, Condition.MISSING),
        LedgerCondition(8, Condition.ENTRIES_LOST, ((2, 2),)),
    ] == [found for _, found in readable.others]
    assert {Answer.READABLE} == {one.answer for one in readable.readings}
    assert record is readable.record


def test_a_subscription_whose_position_is_not_known_has_no_answer():
    """And no first loss."""
    unread = Subscription("s", None, "why")
    (found,) = judge_topic(
        replace(topic(closed(1)), subscriptions=(unread,)), {1: judged(1, (2,))}
    ).readings
    assert Reading(unread, None, False, Answer.UNKNOWN) == found


def test_a_topic_without_ledgers_or_that_could_not_be_read_has_nothing_lost():
    """For an unreadable topic nothing is said at all."""
    empty = judge_topic(topic(), {})
    assert empty.start == Reading(None, None, True, Answer.READABLE)
    unread = TopicRecord(TOPIC, 0, TopicStatus.UNREADABLE, problems=("why",))
    assert TopicReadability(unread) == judge_topic(unread, {})


@pytest.mark.parametrize(
    ("end", "condition", "lost"),
    [
        (Position(2, 3), Condition.MISSING, ((0, 3),)),
        (Position(2, -1), Condition.NOTHING_LOST, ()),
        (Position(1, 5), Condition.NOTHING_LOST, ()),
    ],
)
def test_a_terminated_topic_has_recorded_the_end_of_its_newest_ledger(
    end: Position, condition: Condition, lost: object
):
    """The end is its terminated position: the broker records no entries for that ledger."""
    record = replace(topic(), managed_ledger=ManagedLedger((closed(1), closed(2, None)), end))
    found = judge_topic(record, {1: judged(1), 2: gone(2)}).data[1][1]
    assert (condition, lost) == (found.condition, found.lost)


def test_the_newest_ledger_of_a_terminated_topic_can_be_truncated():
    """Its metadata ends before the terminated position."""
    record = replace(topic(), managed_ledger=ManagedLedger((closed(1, None),), Position(1, 5)))
    assert ((4, 5),) == judge_topic(record, {1: judged(1, last=3)}).data[0][1].lost


@pytest.mark.parametrize(("own", "condition"), [(8, Condition.UNKNOWN), (None, Condition.MISSING)])
def test_a_compacted_ledger_may_have_been_replaced_while_its_cursor_has_a_ledger(
    own: int | None, condition: Condition
):
    """The cursor's ledger then names the newer compacted ledger, and the older one was deleted on
    purpose.
    """
    record = topic(closed(1), cursor=Cursor(own, Position(1, 5), (), 9))
    readable = judge_topic(record, {1: judged(1), 8: judged(8), 9: gone(9)})
    found = next(one for _, one in readable.others if one.ledger_id == 9)
    is_unknown = condition is Condition.UNKNOWN
    detail = (
        "it has no metadata; a newer one may be named in the ledger of the cursor, which was"
        " not read"
    )
    assert found == LedgerCondition(
        9, condition, is_unknown=is_unknown, detail=detail if is_unknown else ""
    )


def test_the_ledger_of_a_schema_must_reach_to_its_position():
    """The entry existed when the position was recorded."""
    schemas = tuple(SchemaVersion(n, Position(9, entry)) for n, entry in enumerate((7, 2)))
    record = replace(topic(closed(1)), schemas=schemas)
    readable = judge_topic(record, {1: judged(1), 9: judged(9)})
    assert [(Condition.TRUNCATED, ((6, 7),))] == [
        (one.condition, one.lost) for _, one in readable.others
    ]
    assert is_truncated(schema_ledgers(record)[9], judged(9)[0])


def test_where_a_ledger_should_be_placed_is_no_matter_to_a_reader():
    """An unknown location says nothing about entries."""
    record, verdict = judged(1)
    unknown = replace(
        verdict, standing=Standing.INDETERMINATE, unknowns=(Unknown.TOPOLOGY_UNKNOWN,)
    )
    assert (
        Condition.NOTHING_LOST
        is judge_topic(topic(closed(1)), {1: (record, unknown)}).data[0][1].condition
    )


def test_a_marked_ledger_that_is_still_written_to_is_open():
    """It is exempt for its mark, but its entries were not judged to the end."""
    record = LedgerRecord(1, 1, 0, RecordStatus.FOUND, metadata=metadata(None, LedgerState.OPEN))
    seen = record, Verdict(1, Standing.EXEMPT, Exempt.MARKED_UNDERREPLICATED)
    assert Condition.OPEN is judge_topic(topic(closed(1, None)), {1: seen}).data[0][1].condition


STRIPED = LedgerMetadata(
    3, LedgerState.CLOSED, 3, 2, 2, ENTRIES - 1, 0, (Segment(0, ("b1", "b2", "b3")),)
)
"""Three bookies and two copies of each entry."""
MARKED = Verdict(1, Standing.EXEMPT, Exempt.MARKED_UNDERREPLICATED)


def answered(away: str, detail: str = "") -> Mapping[str, ListAnswer]:
    """Return an answer for each bookie; those that are `away` are not registered."""
    return {
        b: ListAnswer(
            b,
            1,
            1,
            0,
            AnswerStatus.UNREGISTERED if b in away.split() else AnswerStatus.HELD,
            detail=detail,
        )
        for b in ("b1", "b2", "b3")
    }


def look(answers: Mapping[str, ListAnswer], placed: LedgerMetadata | None = STRIPED) -> Look:
    status = RecordStatus.MALFORMED if placed is None else RecordStatus.FOUND
    return Look(LedgerRecord(1, 1, 0, status, metadata=placed), answers)


@pytest.mark.parametrize(
    ("away", "lacks", "gone_for_good", "is_unknown"),
    [
        ("", "", False, False),
        ("b1", "", False, False),
        ("b1 b3", "", False, True),
        ("b1 b2", "", False, True),
        ("b1", "b2", False, True),
        ("", "b1 b2", False, False),
        ("b1 b2", "", True, False),
    ],
)
def test_entries_that_only_unregistered_bookies_may_have_are_unknown(
    away: str, lacks: str, gone_for_good: bool, is_unknown: bool
):
    """A mark excuses these bookies, but no client can read from them."""
    answers = answered(away, NO_COOKIE if gone_for_good else "")
    lacking = tuple(BookieLack(b, 4, 1) for b in lacks.split())
    assert ((Unknown.BOOKIE_SILENT,) if is_unknown else ()) == doubt_unregistered(
        LedgerEvidence(1, (look(answers),)), replace(MARKED, lacks=lacking)
    ).unknowns


@pytest.mark.parametrize("detail", ["", NO_COOKIE])
@pytest.mark.parametrize(("away", "is_unknown"), [("", False), ("b1", False), ("b1 b3", True)])
def test_a_marked_ledger_is_not_known_to_be_empty_while_an_ack_quorum_is_away(
    away: str, detail: str, is_unknown: bool
):
    """Its end may have cut off what these bookies acknowledged, whether or not they come back."""
    empty = replace(STRIPED, last_entry_id=-1, length=0)
    looks = (look(answered(away, detail), empty),)
    assert ((Unknown.BOOKIE_SILENT,) if is_unknown else ()) == doubt_unregistered(
        LedgerEvidence(1, looks), MARKED
    ).unknowns


@pytest.mark.parametrize(
    ("looks", "verdict"),
    [
        ((look(answered("b1 b2")),), Verdict(1, Standing.SOUND)),
        ((look(answered("b1 b2")),), replace(MARKED, unknowns=(Unknown.ANSWER_TIMEOUT,))),
        ((look({}),), MARKED),
        ((look(answered("b1 b2")), look({}, None)), MARKED),
    ],
    ids=["without a mark", "unknown already", "nobody was asked", "metadata spoiled meanwhile"],
)
def test_only_a_marked_ledger_whose_answers_gave_no_reason_is_doubted(
    looks: tuple[Look, ...], verdict: Verdict
):
    """Another verdict stands as it is, with the reasons it has."""
    assert verdict == doubt_unregistered(LedgerEvidence(1, looks), verdict)


def test_an_unknown_location_does_not_hide_that_only_unregistered_bookies_may_have_entries():
    """A mark beyond its grace does not excuse placement, so the verdict may have that reason, which
    alone is no matter to a reader.
    """
    entries = frozenset(range(ENTRIES))
    bookies = {
        "b1": Bookie(answer=AnswerStatus.UNREGISTERED),
        "b2": Bookie(answer=AnswerStatus.UNREGISTERED),
        "b3": Bookie(frozenset(e for e in entries if (2 - e) % 3 < 2)),
    }
    state = State(STRIPED, bookies, mark=Mark(NOW_MS - 2 * GRACE_MS))
    rule = {"placement": PlacementRule(Policy.RACK)}
    driven = drive(Story("marked for too long", (state,), more_terms=rule))
    verdict = driven.step.verdict
    assert (Exempt.MARKED_UNDERREPLICATED, (Unknown.TOPOLOGY_UNKNOWN,)) == (
        verdict.exempt,
        verdict.unknowns,
    )
    doubted = doubt_unregistered(driven.evidence, verdict)
    assert (Unknown.BOOKIE_SILENT, Unknown.TOPOLOGY_UNKNOWN) == doubted.unknowns
    seen = driven.evidence.looks[-1].record, doubted
    found = judge_topic(topic(closed(LEDGER)), {LEDGER: seen}).data[0][1]
    assert (Condition.ENTRIES_UNAVAILABLE, True, "bookie_silent") == (
        found.condition,
        found.is_unknown,
        found.detail,
    )
