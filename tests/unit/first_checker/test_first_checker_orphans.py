"""Whose a ledger is, and how old. The laws of the finding are in test_summary_reference_findings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.first_checker.orphans import KnownTopics, can_decide, created_ms, is_old, is_pulsars, topic_named_by
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus, ZnodeStamp
from auditor.model.topic import TopicName

PLAIN = LedgerMetadata(3, LedgerState.CLOSED, 1, 1, 1, 9, 100, ())


def of_pulsar(name: str, component: str = "managed-ledger") -> LedgerMetadata:
    custom = {"application": "pulsar", "component": component, "pulsar/managed-ledger": name}
    return replace(PLAIN, custom_metadata=tuple((key, value.encode()) for key, value in custom.items()))


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
    """As Pulsar writes it; another plugin's name is nobody's topic."""
    assert topic == topic_named_by(of_pulsar(name))
    assert topic_named_by(of_pulsar(name, "schema")) is None


def test_a_ledger_is_pulsars_by_its_custom_metadata_alone() -> None:
    """One whose metadata could not be read is nobody's."""
    assert [True, False, False] == [is_pulsars(of_pulsar("x")), is_pulsars(PLAIN), is_pulsars(None)]


def test_the_metadata_dates_a_ledger_else_its_znode() -> None:
    """A copied znode is younger than its ledger."""
    assert [7, 50] == [created_ms(record(replace(PLAIN, ctime_ms=7))), created_ms(record(PLAIN))]
    assert [False, True] == [is_old(record(PLAIN), 60, 10), is_old(record(PLAIN), 61, 10)]


@pytest.mark.parametrize(
    ("known", "decides"),
    [
        (KnownTopics({("t", "", "n")}, frozenset()), True),
        (KnownTopics({("t", "", "n")}, {("t", "", "n")}), False),
        (KnownTopics({("t", "", "n")}, frozenset(), is_blind=True), False),
        (KnownTopics({("t", "eu", "n")}, frozenset()), False),
    ],
)
def test_only_a_namespace_that_was_read_in_full_is_decided(known: KnownTopics, decides: bool) -> None:
    """And never the namespace of transactions."""
    assert decides is can_decide(record(of_pulsar("t/n/persistent/x")), known)
    system = KnownTopics({("pulsar", "", "system")}, frozenset())
    assert not can_decide(record(of_pulsar("pulsar/system/persistent/x")), system)
