"""The time since which bookies have not been registered, kept from run to run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from auditor.model.cluster import BookieRecord, Registration
from auditor.model.summary import UnregisteredBookie
from auditor.summary.previous_run import (
    UNREGISTERED_MAX,
    longest_unregistered,
    since_from,
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
    bookies = longest_unregistered(since)
    assert [("b1", "1970-01-01T00:00:00.000Z"), ("b2", "2023-11-14T22:13:20.123Z")] == [
        (one.bookie_id, one.since) for one in bookies
    ]
    assert since == since_from(bookies)


def test_the_number_of_bookies_in_the_summary_is_bounded():
    """The bookies that have been unregistered longest are kept."""
    since = {f"b{n}": n for n in range(UNREGISTERED_MAX + 5)}
    bookies = longest_unregistered(since)
    assert UNREGISTERED_MAX == len(bookies)
    assert f"b{UNREGISTERED_MAX}" not in {one.bookie_id for one in bookies}


@pytest.mark.parametrize("since", ["x", "", "9999999-01-01T00:00:00Z"])
def test_a_time_that_is_none_hides_no_other(since: str):
    """The time of such a bookie begins with this run."""
    others = UnregisteredBookie("b2", "1970-01-01T00:00:01.000Z")
    assert {"b2": 1_000} == since_from([UnregisteredBookie("b1", since), others])
