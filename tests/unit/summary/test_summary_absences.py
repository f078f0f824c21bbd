"""The time since which bookies have not been registered, kept from run to run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from auditor.model.cluster import BookieRecord, Registration
from auditor.summary.previous_run import (
    UNREGISTERED_MAX,
    absences_json,
    since_from,
    unregistered_json,
    unregistered_since,
)

NONE, WRITABLE = Registration.NONE, Registration.WRITABLE


def look(at_ms: int, **bookies: Registration) -> Mapping[str, BookieRecord]:
    return {
        name: BookieRecord(name, 0, at_ms, registration) for name, registration in bookies.items()
    }


@pytest.mark.parametrize(
    ("registrations", "before", "since"),
    [
        ((NONE, NONE), {}, {"b1": 10}),
        ((NONE, NONE), {"b1": 3}, {"b1": 3}),
        ((NONE, NONE), {"b2": 3}, {"b1": 10}),
        ((NONE, NONE), {"b1": 11}, {"b1": 10}),
        ((WRITABLE, NONE), {"b1": 3}, {"b1": 20}),
        ((NONE, WRITABLE), {"b1": 3}, {}),
        ((WRITABLE, WRITABLE), {"b1": 3}, {}),
        ((NONE, WRITABLE, NONE), {"b1": 3}, {"b1": 30}),
    ],
)
def test_the_time_goes_on_over_runs_until_the_bookie_registers(
    registrations: tuple[Registration, ...], before: dict[str, int], since: dict[str, int]
):
    """If the bookie was registered at a look of this run, the time begins with the first look after
    it. A time in the future is ignored.
    """
    looks = [look(10 * at, b1=one) for at, one in enumerate(registrations, start=1)]
    assert since == unregistered_since(looks, before)


def test_a_bookie_that_only_ledgers_know_is_remembered():
    """It has a record only at the looks at which a ledger names it."""
    assert {"b1": 10} == unregistered_since([look(10, b1=NONE), look(20, b2=WRITABLE)], {})


def test_what_one_run_writes_the_next_one_reads():
    """Times are exact to the millisecond, and bookies are sorted by id."""
    since = {"b2": 1_700_000_000_123, "b1": 0}
    as_json = unregistered_json(since)
    assert [("b1", "1970-01-01T00:00:00.000Z"), ("b2", "2023-11-14T22:13:20.123Z")] == [
        tuple(row.values()) for row in as_json
    ]
    assert since == since_from(as_json)


@pytest.mark.parametrize(
    "damaged",
    [None, 7, "x", [7], [{}], [{"bookie_id": "b", "since": "x"}], [{"bookie_id": "b", "since": 1}]],
)
def test_what_is_damaged_is_not_remembered(damaged: object):
    """The time of such a bookie begins with this run."""
    assert {} == since_from(damaged)


def test_the_number_of_bookies_in_the_summary_is_bounded():
    """The bookies that have been unregistered longest are kept."""
    since = {f"b{n}": n for n in range(UNREGISTERED_MAX + 5)}
    as_json = unregistered_json(since)
    assert UNREGISTERED_MAX == len(as_json)
    assert f"b{UNREGISTERED_MAX}" not in {row["bookie_id"] for row in as_json}


def test_a_damaged_row_hides_no_other():
    """Each row is read by itself."""
    assert {"b2": 1_000} == since_from(
        [{"bookie_id": "b1"}, {"bookie_id": "b2", "since": "1970-01-01T00:00:01.000Z"}]
    )


def test_the_fields_of_the_summary_have_their_names():
    """One field has the unregistered bookies, the other those that were probably renamed."""
    renamed = [{"bookie_id": "b2"}]
    since = [{"bookie_id": "b1", "since": "1970-01-01T00:00:00.000Z"}]
    assert {"bookies_unregistered": since, "bookies_renamed": renamed} == absences_json(
        {"b1": 0}, renamed
    )
