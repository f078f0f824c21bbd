"""What two looks at a referenced ledger prove. The laws of findings are in
test_findings_reference_findings.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.topics import NAME, TOPIC, closed

from auditor.findings.references import (
    NOTHING,
    OUTDATED,
    UNKNOWN_MISSING,
    UNKNOWN_SHORT,
    UNKNOWN_UNREAD,
    Judged,
    SeenReference,
    judge_reference,
    pair_uses,
)
from auditor.model.facts import (
    MissingLedgerFacts,
    NewestMissingFacts,
    TruncatedLedgerFacts,
    UseFacts,
)
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus, ZnodeStamp
from auditor.model.topic import (
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    Role,
    SchemaVersion,
    Subscription,
    TopicRecord,
)


def gone(look: int) -> LedgerRecord:
    return LedgerRecord(5, look, 1_000 * look, RecordStatus.GONE)


def test_what_a_missing_ledger_held_is_the_most_that_was_recorded() -> None:
    """The largest record of any topic counts; entries of a schema are not messages."""
    more = replace(
        TOPIC, topic=NAME._replace(local_name="y"), managed_ledger=ManagedLedger((closed(5, 12),))
    )
    uses = tuple(pair_uses(one, one)[5] for one in (TOPIC, more))
    finding = judge_reference(SeenReference(5, gone(1), gone(2), uses)).finding
    assert finding is not None and isinstance(finding.facts, MissingLedgerFacts)
    assert (((0, 11),), 12) == (finding.entries, finding.entries_total)
    assert (2, 4, 12, 1_200) == (
        finding.facts.topics,
        finding.facts.uses,
        finding.facts.entries,
        finding.facts.size_bytes,
    )


def test_a_ledger_that_nobody_uses_is_nothing() -> None:
    """A ledger that no topic uses has no finding, however gone it is."""
    assert NOTHING == judge_reference(SeenReference(5, gone(1), gone(2), ()))


def seen(
    first: LedgerRecord,
    again: LedgerRecord | None,
    topic: TopicRecord = TOPIC,
    later: TopicRecord | None = TOPIC,
    *,
    is_counted: bool = False,
) -> SeenReference:
    """Return ledger 5 with the one topic as both looks read it."""
    pair = pair_uses(topic, later).get(5)
    return SeenReference(5, first, again, () if pair is None else (pair,), is_counted)


def ending(last: int | None, look: int, state: LedgerState = LedgerState.CLOSED) -> LedgerRecord:
    metadata = LedgerMetadata(3, state, 1, 1, 1, last, 70, ())
    return LedgerRecord(5, look, 1_000 * look, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata)


def shut(look: int) -> LedgerRecord:
    return LedgerRecord(5, look, 1_000 * look, RecordStatus.UNREADABLE)


SHUT = replace(
    TOPIC, managed_ledger=ManagedLedger(), subscriptions=(), schemas=(), problems=("shut",)
)
NEWEST = replace(
    TOPIC, managed_ledger=ManagedLedger((DataLedger(5),)), subscriptions=(), schemas=()
)
OFFLOADED = replace(NEWEST, managed_ledger=ManagedLedger((closed(5, offloaded=True),)))
READ = replace(
    NEWEST,
    managed_ledger=ManagedLedger(),
    subscriptions=(Subscription("s", Cursor(5, Position(4, 2))),),
)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        # Missing at the first look.
        (seen(gone(1), None), UNKNOWN_MISSING),
        (seen(gone(1), shut(2)), UNKNOWN_MISSING),
        (seen(gone(1), ending(9, 2)), UNKNOWN_MISSING),
        (seen(gone(1), replace(gone(2), read_at_ms=1_999)), UNKNOWN_MISSING),
        (seen(gone(1), gone(2), later=SHUT), UNKNOWN_MISSING),
        (seen(gone(1), gone(2), later=replace(SHUT, problems=())), NOTHING),
        (seen(gone(1), None, later=replace(SHUT, problems=())), NOTHING),
        # Too short at the first look.
        (seen(ending(8, 1), None), UNKNOWN_SHORT),
        (seen(ending(8, 1), shut(2)), UNKNOWN_SHORT),
        (seen(ending(8, 1), gone(2)), UNKNOWN_SHORT),
        (seen(ending(8, 1), ending(7, 2)), UNKNOWN_SHORT),
        (seen(ending(8, 1), ending(None, 2, LedgerState.OPEN)), UNKNOWN_SHORT),
        (seen(ending(8, 1), replace(ending(8, 2), read_at_ms=1_999)), UNKNOWN_SHORT),
        (seen(ending(8, 1), ending(8, 2), later=SHUT), UNKNOWN_SHORT),
        (seen(ending(8, 1), ending(8, 2), later=replace(SHUT, problems=())), NOTHING),
        # An end that no closed ledger can have: its metadata is malformed.
        (seen(ending(-5, 1), ending(-5, 2)), UNKNOWN_SHORT),
        (seen(ending(-2, 1), ending(-2, 2), READ, READ), UNKNOWN_SHORT),
        # Long enough at the first look, or not closed.
        (seen(ending(9, 1), ending(9, 2)), NOTHING),
        (seen(ending(9, 1), ending(3, 2)), UNKNOWN_SHORT),
        (seen(ending(None, 1), ending(3, 2)), UNKNOWN_SHORT),
        (seen(ending(9, 1), None), UNKNOWN_UNREAD),
        (seen(ending(9, 1), gone(2)), UNKNOWN_MISSING),
        (seen(ending(9, 1), gone(2), later=replace(SHUT, problems=())), NOTHING),
        (seen(ending(9, 1), shut(2)), UNKNOWN_UNREAD),
        (seen(ending(9, 1), shut(2), is_counted=True), NOTHING),
        # Not read at the first look.
        (seen(shut(1), None), UNKNOWN_UNREAD),
        (seen(shut(1), gone(2)), UNKNOWN_MISSING),
        (seen(shut(1), shut(2)), UNKNOWN_UNREAD),
        (seen(shut(1), shut(2), is_counted=True), NOTHING),
        (seen(shut(1), ending(8, 2)), UNKNOWN_SHORT),
        (seen(shut(1), ending(8, 2), is_counted=True), UNKNOWN_SHORT),
        (seen(shut(1), ending(9, 2)), NOTHING),
        (seen(shut(1), ending(None, 2, LedgerState.OPEN)), NOTHING),
        # In long-term storage.
        (seen(ending(9, 1), None, OFFLOADED, OFFLOADED), NOTHING),
        (seen(ending(9, 1), gone(2), OFFLOADED, OFFLOADED), NOTHING),
        (seen(ending(9, 1), shut(2), OFFLOADED, OFFLOADED), NOTHING),
        (seen(shut(1), shut(2), OFFLOADED, OFFLOADED), NOTHING),
        (seen(gone(1), gone(2), OFFLOADED, OFFLOADED), NOTHING),
        # Used without a record of its entries: any number is enough.
        (seen(ending(-1, 1), ending(-1, 2), READ, READ), NOTHING),
        (seen(shut(1), ending(-1, 2), READ, READ), NOTHING),
    ],
)
def test_what_two_looks_show_of_a_ledger_without_a_finding(
    case: SeenReference, expected: Judged
) -> None:
    """The state is unknown if a loss is possible: topic 5 has ten entries there, and schemas up to
    entry 6.
    """
    assert expected == judge_reference(case)


COMPACTED = Subscription("c", Cursor(8, Position(4, 2), (), 5))


@pytest.mark.parametrize(
    ("subscriptions", "schemas", "expected"),
    [
        ((COMPACTED,), (), OUTDATED),
        ((COMPACTED, Subscription("d", Cursor(None, Position(4, 2), (), 5))), (), UNKNOWN_MISSING),
        ((COMPACTED, Subscription("d", Cursor(5, Position(4, 2)))), (), UNKNOWN_MISSING),
        ((COMPACTED,), (SchemaVersion(0, Position(5, 3)),), UNKNOWN_MISSING),
    ],
)
def test_only_compacted_ledgers_of_cursors_in_use_are_outdated(
    subscriptions: tuple[Subscription, ...], schemas: tuple[SchemaVersion, ...], expected: Judged
) -> None:
    """Any other use needs the ledger; a use of another copy does not count."""
    offloaded = ManagedLedger((closed(5, offloaded=True), closed(6)))
    topic = replace(TOPIC, managed_ledger=offloaded, subscriptions=subscriptions, schemas=schemas)
    assert expected == judge_reference(seen(gone(1), None, topic, topic))


def test_a_newest_ledger_without_a_record_is_a_finding_of_its_own() -> None:
    """It names the topic. What the ledger held is not known."""
    finding = judge_reference(seen(gone(1), gone(2), NEWEST, NEWEST)).finding
    use = UseFacts("persistent://t/n/x", Role.DATA, "", Position(5, 0))
    facts = NewestMissingFacts(1, 1, (use,), 1_000)
    assert Finding(Kind.NEWEST_LEDGER_MISSING, facts, ledger_id=5) == finding


def test_a_loss_that_is_proven_goes_before_the_newest_ledger() -> None:
    """One topic recorded entries in the ledger that is the newest of another."""
    pairs = tuple(pair_uses(one, one)[5] for one in (NEWEST, TOPIC))
    finding = judge_reference(SeenReference(5, gone(1), gone(2), pairs)).finding
    assert finding is not None and Kind.REFERENCED_LEDGER_MISSING is finding.kind


def test_the_newest_ledger_without_a_record_is_outdated_by_nothing() -> None:
    """It is not a compacted ledger; one that only the second look saw counts as well."""
    both = replace(NEWEST, subscriptions=(COMPACTED,))
    found = judge_reference(seen(gone(1), gone(2), both, both)).finding
    assert found is not None and Kind.NEWEST_LEDGER_MISSING is found.kind
    assert UNKNOWN_MISSING == judge_reference(
        seen(gone(1), gone(2), replace(READ, subscriptions=(COMPACTED,)), both)
    )


def test_an_older_ledger_without_a_record_is_missed() -> None:
    """A newer ledger follows, so it was in use; how much it held is unknown."""
    topic = replace(
        NEWEST, managed_ledger=ManagedLedger((DataLedger(5), DataLedger(6), DataLedger(7)))
    )
    finding = judge_reference(seen(gone(1), gone(2), topic, topic)).finding
    use = UseFacts("persistent://t/n/x", Role.DATA, "", Position(5, 0))
    facts = MissingLedgerFacts(1, 1, (use,), None, None, 1_000)
    assert Finding(Kind.REFERENCED_LEDGER_MISSING, facts, ledger_id=5) == finding


def test_a_truncated_ledger_tells_what_each_use_loses() -> None:
    """For two topics, in order: the first lost entry of messages, and the entry of a schema."""
    uses = (
        replace(
            TOPIC,
            topic=NAME._replace(local_name="y"),
            managed_ledger=ManagedLedger((closed(5, 12),)),
        ),
        TOPIC,
    )
    pairs = tuple(pair_uses(one, one)[5] for one in uses)
    finding = judge_reference(SeenReference(5, ending(5, 1), ending(5, 2), pairs)).finding
    lost_uses = [
        ("x", Role.DATA, 6),
        ("x", Role.SCHEMA, 6),
        ("y", Role.DATA, 6),
        ("y", Role.SCHEMA, 6),
    ]
    some = tuple(
        UseFacts(f"persistent://t/n/{name}", role, "", Position(5, entry))
        for name, role, entry in lost_uses
    )
    facts = TruncatedLedgerFacts(5, 12, 2, 4, some, 70, 1_200, 1_000)
    assert (
        Finding(Kind.LEDGER_TRUNCATED, facts, ledger_id=5, entries=((6, 11),), entries_total=6)
        == finding
    )


def test_a_truncated_ledger_of_schemas_has_no_recorded_bytes() -> None:
    """The topic records none."""
    topic = replace(TOPIC, managed_ledger=ManagedLedger(), schemas=TOPIC.schemas)
    finding = judge_reference(seen(ending(0, 1), ending(0, 2), topic, topic)).finding
    use = UseFacts("persistent://t/n/x", Role.SCHEMA, "", Position(5, 6))
    facts = TruncatedLedgerFacts(0, 7, 1, 1, (use,), 70, None, 1_000)
    assert (
        Finding(Kind.LEDGER_TRUNCATED, facts, ledger_id=5, entries=((1, 6),), entries_total=6)
        == finding
    )
