"""A finding as the file has it: its fields, their order, and the way back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.report_stories import finding

from auditor.model.finding import CATALOGUE, Kind
from auditor.model.finding_record import FIELDS, HISTORY_FIELDS, FindingRecord, Owner


@pytest.mark.parametrize("kind", list(CATALOGUE), ids=str)
def test_a_record_is_read_back_as_it_was_written(kind: Kind) -> None:
    """This holds for every kind, to the byte, and through JSON."""
    record = finding(kind, 7 if CATALOGUE[kind].subject.value == "ledger" else "b1")
    assert record == FindingRecord.from_line(record.line())
    assert record.line() == FindingRecord.from_line(record.line()).line()


def test_the_fields_stand_in_the_order_of_the_contract() -> None:
    """The history stands behind them, once the run was compared with an earlier one."""
    record = finding(Kind.ENTRY_WITHOUT_REPLICA, 7)
    assert [*FIELDS, *HISTORY_FIELDS] == list(record.as_json())
    assert [*FIELDS] == list(replace(record, history=None).as_json())


def test_a_line_has_no_blanks_between_its_fields() -> None:
    """A file of many findings is as small as JSON can be."""
    line = finding(Kind.ENTRY_WITHOUT_REPLICA, 7, entries=[[1, 2]]).line()
    assert line.startswith('{"id":"') and '"entries":[[1,2]],' in line


def test_a_number_that_json_does_not_have_is_not_written() -> None:
    """Other readers than Python's would refuse the line."""
    with pytest.raises(ValueError, match="JSON"):
        finding(Kind.ENTRY_WITHOUT_REPLICA, 7, facts={"share": float("nan")}).line()


def test_facts_that_another_version_wrote_are_kept() -> None:
    """This version reads those that it knows, and hands on the others as they are."""
    facts = {"worst_entry": 4, "not_known_yet": [{"a": 1}]}
    record = finding(Kind.ENTRY_WITHOUT_REPLICA, 7, facts=facts)
    assert (4, (), {}) == (
        record.facts.worst_entry,
        record.facts.write_set,
        record.facts.corrupt_copies,
    )
    assert facts == json.loads(record.line())["facts"]


def test_an_owner_may_be_known_in_part() -> None:
    """An earlier version may have written fewer parts."""
    assert Owner(name="x") == finding(Kind.LEDGER_STUCK, 7, owner={"name": "x"}).owner
    assert finding(Kind.LEDGER_STUCK, 7, owner=None).owner is None


def test_what_the_ranges_do_not_name_is_counted() -> None:
    """A finding has at most twenty ranges of its entries."""
    record = finding(Kind.ENTRY_WITHOUT_REPLICA, 7, entries=[[0, 9], [20, 20]], entries_total=15)
    assert 4 == record.entries_unnamed
    assert 0 == replace(record, entries_total=11).entries_unnamed
