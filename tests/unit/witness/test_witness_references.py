"""Witnesses of findings on references: who needs the ledger, and what both looks saw."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.findings_by_kind import EXAMPLES, USE, finding_of

from auditor.model.facts import (
    MissingLedgerFacts,
    NewestMissingFacts,
    OrphanedFacts,
    OrphansInNamespace,
    OrphansOnBookie,
    TruncatedLedgerFacts,
)
from auditor.model.finding import Kind
from auditor.model.topic import Position, Role, TopicName
from auditor.witness.pulsar_commands import Use, owner_by_use, pulsar_ledger
from auditor.witness.references import TELL, loss_effect


def witness_of(kind: Kind, **changes: object) -> str:
    facts = EXAMPLES[{
        Kind.REFERENCED_LEDGER_MISSING: MissingLedgerFacts,
        Kind.NEWEST_LEDGER_MISSING: NewestMissingFacts,
        Kind.LEDGER_TRUNCATED: TruncatedLedgerFacts,
        Kind.LEDGER_ORPHANED: OrphanedFacts,
    }[kind]]  # fmt: skip
    facts = replace(facts, **changes)
    return TELL[kind](finding_of(kind, facts), facts)


def test_a_missing_ledger_is_reported_with_its_topic() -> None:
    """The witness has its use, that BookKeeper does not know it, when that was seen, and what it
    held.
    """
    assert (
        witness_of(Kind.REFERENCED_LEDGER_MISSING)
        == "Ledger 7 is referenced by persistent://public/default/t for its messages. It has no"
        " metadata (NONODE after a sync): BookKeeper does not know it. Both were so at two"
        " looks, 5 min apart; each time the reference was read first. The topic recorded 100"
        " entries in it (4000 bytes). A reader that comes to it stops there."
    )


def test_the_position_that_is_left_to_a_subscription_is_reported() -> None:
    """The position is given for a cursor whose ledger is missing. If no entries were recorded, none
    are mentioned.
    """
    use = USE.__class__(USE.topic, Role.CURSOR, "late", Position(6, 3))
    said = witness_of(
        Kind.REFERENCED_LEDGER_MISSING, some_uses=(use,), entries=None, size_bytes=None
    )
    assert "for the cursor of subscription late." in said
    assert said.endswith(
        "ZooKeeper has position 6:3 for subscription late. A broker that loads the topic falls back"
        " to the position in ZooKeeper, and delivers again what was acknowledged since."
    )
    assert "recorded" not in said


@pytest.mark.parametrize("role", Role)
def test_each_role_has_its_own_effect(role: Role) -> None:
    """What readers get without the ledger differs from role to role."""
    effects = [loss_effect(one, "s") for one in Role if one is not role]
    assert loss_effect(role, "s") not in effects


def test_the_cursor_of_the_compactor_names_the_compacted_ledger() -> None:
    """Without it the compacted messages are lost, and no acknowledgement."""
    said = loss_effect(Role.CURSOR, "__compaction")
    assert "compacted topic get only" in said and "acknowledged" not in said


def test_a_missing_newest_ledger_is_reported_with_what_the_next_load_does() -> None:
    """It is not said that messages are lost: the ledger may have been empty."""
    said = witness_of(Kind.NEWEST_LEDGER_MISSING)
    assert said.startswith(
        "Ledger 7 is the newest ledger of persistent://public/default/t for its messages."
    )
    assert "drops the ledger from the topic's list" in said
    assert "an empty ledger leaves the same" in said


def test_uses_beyond_the_first_are_counted() -> None:
    """Three are named."""
    uses = tuple(replace(USE, topic=f"persistent://t/n/{name}") for name in "abcd")
    assert "t/n/c for its messages; and 7 more." in witness_of(
        Kind.REFERENCED_LEDGER_MISSING, some_uses=uses, uses=10
    )


def test_a_truncated_ledger_is_reported_with_what_is_cut_off() -> None:
    """The witness has the end of the metadata and the number of entries cut off, also if the
    metadata has no entry.
    """
    assert (
        "By that record it has at least 100 entries. Its metadata is CLOSED and ends at entry 89:"
        " 10 entries are cut off." in witness_of(Kind.LEDGER_TRUNCATED)
    )
    assert "says that it has no entry: 100 entries are cut off" in witness_of(
        Kind.LEDGER_TRUNCATED, last_entry_id=-1
    )
    assert "1 entry is cut off" in witness_of(Kind.LEDGER_TRUNCATED, last_entry_id=98)


def test_orphans_are_reported_with_what_may_be_wrong() -> None:
    """The witness has their number, age and size, what is unknown, and that another Pulsar may need
    them.
    """
    assert (
        witness_of(Kind.LEDGER_ORPHANED)
        == "2 ledgers (70, 71) were written by Pulsar more than 7 days ago, and no topic referenced"
        " them, nor did the topic that they name when it was read again. The looks were 5 min"
        " apart; the oldest ledger is 60 days old. Closed among them: 1, with 5000 bytes before"
        " replication and 10000 in all copies. By namespace, with the bytes of closed ledgers in"
        " all copies: public/default 2 (10000 bytes). By topic, likewise:"
        " persistent://public/default/orders 2 (10000 bytes). Bytes by bookie, estimated: b1 5000,"
        " b2 5000. 3 more ledgers of Pulsar have no known reference; it is not known whether"
        " something needs them."
        " If another Pulsar shares these bookies, the ledgers may be its own."
    )


def test_a_namespace_that_does_not_exist_is_said_to() -> None:
    """The namespaces beyond the first are counted."""
    some = tuple(OrphansInNamespace(f"t/{name}", 1, 7, name == "a") for name in "abcd")
    said = witness_of(Kind.LEDGER_ORPHANED, some_namespaces=some, namespaces=9)
    assert (
        "copies: t/a 1 (7 bytes, and the namespace does not exist), t/b 1 (7 bytes), t/c 1 (7"
        " bytes), and 6 more."
    ) in said


def test_bookies_of_orphans_without_bytes_are_not_named() -> None:
    """An orphan that is not closed names bookies, and how much they hold is unknown."""
    some = (OrphansOnBookie("b1", 1, 0),)
    said = witness_of(Kind.LEDGER_ORPHANED, some_bookies=some, bookies=1)
    assert "by bookie" not in said


def test_an_owner_by_its_use_names_the_topic_that_uses_it() -> None:
    """The name is in Pulsar's own form for each role. Commands find the topic in it."""
    topic = TopicName("t", "", "n", "a b/c")
    found = {role: pulsar_ledger(owner_by_use(topic, role, "s")) for role in Role}
    assert {str(topic)} == {one.topic for one in found.values() if one is not None}
    assert {
        Role.DATA: Use.MESSAGES, Role.CURSOR: Use.CURSOR, Role.SCHEMA: Use.SCHEMA,
        Role.COMPACTED: Use.COMPACTED, Role.DELAYED: Use.DELAYED,
    } == {role: one.use for role, one in found.items() if one is not None}  # fmt: skip
