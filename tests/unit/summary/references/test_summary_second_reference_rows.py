"""What the second checker takes of the rows of a topic."""

from __future__ import annotations

from auditor.second_checker.references import TopicRow
from auditor.summary.references.second_reference_rows import RowsOfTopic

TOPIC = "persistent://public/default/t"


def data(ledger_id: int, look: int = 1, entries: int | None = None) -> TopicRow:
    return TopicRow(TOPIC, look, "data", ledger_id=ledger_id, entries=entries)


def collect(*rows: TopicRow) -> RowsOfTopic:
    found = RowsOfTopic()
    for row in rows:
        found.add(row)
    return found


def test_the_newest_data_ledger_of_each_look_is_the_only_other_that_matters() -> None:
    """A topic may have a million ledgers: each is judged without the rows of all others."""
    whole = [TopicRow(TOPIC, 1, "topic", "found"), TopicRow(TOPIC, 1, "cursor", name="s")]
    again = [data(ledger, 2) for ledger in (5, 8, 9)]
    rows = collect(*whole, *(data(ledger) for ledger in (7, 9, 5, 8)), *again)
    assert {*whole, data(9), data(5), data(5, 2), data(9, 2)} == rows.about(5)
    assert {*whole, data(9), data(7), data(9, 2)} == rows.about(7)


def test_a_data_ledger_that_a_topic_names_twice_is_accepted() -> None:
    """Both rows are about it. The id alone says which ledger is the newest."""
    rows = [data(7), data(7, entries=10)]
    assert {*rows} == collect(*rows).about(7)
