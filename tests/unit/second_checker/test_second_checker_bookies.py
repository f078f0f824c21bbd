"""The second checker's findings on bookies: their state at the looks, and the state of their
ledgers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.availability import NOT_DIALLED, Greeting
from auditor.model.bookie_facts import FailingFacts, LostContentFacts, LostFacts, SilentFacts
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.second_checker.bookies import (
    Attendance,
    Lack,
    Losses,
    Refusal,
    Word,
    failing_facts,
    ledgers_answered,
    lost_content_facts,
    lost_facts,
    silent_facts,
)
from auditor.second_checker.lost_ledgers import NamingLedgers

CLUSTER = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, 20)
UP = BookieRecord(
    "b1", 1, 1_000, Registration.WRITABLE, "h", 3181, True, "", Greeting.ANSWERED, "fine"
)
UNMARKED = NamingLedgers(2, [4, 7], 1, 0)


def at_looks(
    *greetings: Greeting | None, name: str = "b1", cookie: bool = False
) -> list[BookieRecord]:
    """Return a bookie at looks 10 s apart; None: not registered."""
    where = {None: Registration.NONE}
    return [
        replace(
            UP, bookie_id=name, look=look, read_at_ms=look * 10_000,
            registration=where.get(greeting, Registration.WRITABLE),
            greeting=greeting or Greeting.UNREGISTERED, has_cookie=cookie,
        )
        for look, greeting in enumerate(greetings, 1)
    ]  # fmt: skip


OTHER = at_looks(Greeting.ANSWERED, Greeting.ANSWERED, name="b9")


def taken(*records: BookieRecord, away: str = "") -> Attendance:
    return Attendance.from_records([*OTHER, *records], frozenset(away.split()))


@pytest.mark.parametrize(
    ("greetings", "silent", "gone", "connected"),
    [
        ((Greeting.SILENT, Greeting.SILENT), True, False, False),
        ((Greeting.SILENT,), False, False, False),
        ((Greeting.SILENT, Greeting.ANSWERED), False, False, False),
        ((None, None), False, True, False),
        ((None,), False, False, False),
        ((None, Greeting.SILENT), False, False, False),
        ((Greeting.REFUSED, Greeting.UNSUPPORTED), False, False, True),
        ((Greeting.ANSWERED, None), False, False, False),
    ],
)
def test_a_bookie_is_accused_by_two_looks(
    greetings: tuple[Greeting | None, ...], silent: bool, gone: bool, connected: bool
) -> None:
    """The state must be the same at both; a bookie in planned maintenance is not accused."""
    for away in ("", "b1"):
        seen = taken(*at_looks(*greetings), away=away)
        accused = [
            "b1" in one
            for one in (seen.silent(), seen.unregistered_bookies(), seen.connected_bookies())
        ]
        assert [one and not away for one in (silent, gone, connected)] == accused


@pytest.mark.parametrize("looks", [(0,), (1,), (0, 1)])
def test_a_bookie_that_was_not_dialled_at_some_look_is_not_silent(looks: tuple[int, ...]) -> None:
    """No KDC gave us a ticket for it: nothing is known of it at that look."""
    records = at_looks(Greeting.SILENT, Greeting.SILENT)
    assert taken(*records).silent() == ["b1"]
    for look in looks:
        records[look] = replace(records[look], greeting_detail=f"{NOT_DIALLED}no KDC")
    assert taken(*records).silent() == []


def test_where_no_bookie_answered_none_is_accused() -> None:
    """Our network or our credentials are at fault."""
    seen = Attendance.from_records(at_looks(Greeting.SILENT, Greeting.SILENT), frozenset())
    assert not seen.is_anyone_serving() and [] == seen.silent()


def test_of_a_bookie_seen_twice_at_a_look_the_newer_reading_counts() -> None:
    """The order of the records does not matter."""
    first, second = at_looks(Greeting.SILENT, Greeting.SILENT)
    again = replace(second, read_at_ms=second.read_at_ms + 1, greeting=Greeting.ANSWERED)
    assert [] == taken(again, first, second).silent() == taken(first, second, again).silent()


def test_of_two_readings_at_the_same_time_the_later_record_counts() -> None:
    """The first checker, which sorts by time, does the same."""
    first, second = at_looks(Greeting.SILENT, Greeting.SILENT)
    answered = replace(second, greeting=Greeting.ANSWERED)
    assert ([], ["b1"]) == (
        taken(first, second, answered).silent(),
        taken(first, answered, second).silent(),
    )


def test_a_bookie_cannot_list_if_it_was_unable_at_any_look() -> None:
    """A bookie that was never seen was not unable."""
    seen = taken(*at_looks(Greeting.ANSWERED, Greeting.UNSUPPORTED))
    assert [True, False, False] == [seen.cannot_list(bookie) for bookie in ("b1", "b9", "nobody")]


def test_a_silent_bookie_is_reported_as_it_was_seen_last() -> None:
    """The finding has the number of looks, and what is set for the cluster."""
    seen = at_looks(Greeting.SILENT, Greeting.SILENT, Greeting.SILENT)
    last = replace(
        seen[2], registration=Registration.READONLY, host="i", greeting_detail="timed out"
    )
    assert SilentFacts("readonly", "i:3181", 3, "timed out", 20, False) == silent_facts(
        [*seen[:2], last], CLUSTER
    )


@pytest.mark.parametrize(
    ("cookie", "since_ms", "disabled", "ledgers", "gone_ms"),
    [
        (False, None, False, UNMARKED, 10_000),
        (False, 4_000, False, UNMARKED, 16_000),
        (False, 15_000, False, UNMARKED, 10_000),
        (True, -10_000, False, UNMARKED, 30_000),
        (True, -9_999, False, UNMARKED, None),
        (True, -10_000, True, UNMARKED, None),
        (False, None, True, UNMARKED, 10_000),
        (False, None, False, NamingLedgers(0, [], 1, 0), None),
        (False, None, False, NamingLedgers(2, [4, 7], 1, 1), None),
    ],
)
def test_a_bookie_is_lost_when_the_cluster_cannot_know(
    cookie: bool, since_ms: int | None, disabled: bool, ledgers: NamingLedgers, gone_ms: int | None
) -> None:
    """Some ledger is unmarked, none became marked, and the bookie will not come back: it has no
    cookie, or was away longer than delay and time-out."""
    cluster = replace(CLUSTER, replication_disabled=disabled)
    facts = lost_facts(at_looks(None, None, cookie=cookie), ledgers, cluster, since_ms)
    expected = (
        None
        if gone_ms is None
        else LostFacts(cookie, 2, (4, 7), 1, 1, 10_000, gone_ms, 20, disabled)
    )
    assert expected == facts


@pytest.mark.parametrize("delay_s", [None, 0])
def test_without_a_recovery_delay_a_bookie_may_return_until_its_session_ends(
    delay_s: int | None,
) -> None:
    """Only the last look counts, not those between."""
    cluster = replace(CLUSTER, lost_bookie_recovery_delay_s=delay_s, session_timeout_ms=20_000)
    seen = at_looks(None, None, None, cookie=True)
    assert LostFacts(True, 2, (4, 7), 1, 1, 20_000, 20_000, delay_s, False) == lost_facts(
        seen, UNMARKED, cluster, None
    )
    assert lost_facts(seen[:2], UNMARKED, cluster, None) is None


def test_a_ledger_counts_as_answered_by_its_last_list_or_by_any_read() -> None:
    """Each ledger counts once, however it was answered."""
    lists = [
        Word(1, 1, "held"),
        Word(1, 2, "silent"),
        Word(2, 1, "silent"),
        Word(2, 2, "no_such_ledger"),
        Word(3, 1, "held"),
    ]
    refused = [Word(ledger_id, 1, "refused") for ledger_id in (5, 6)]
    reads = [Word(3, 1, "present"), Word(4, 1, "no_entry"), *refused]
    assert (2, 3) == (ledgers_answered(lists, []), ledgers_answered(lists, reads))


@pytest.mark.parametrize(
    ("lost", "answered", "found"),
    [(2, 2, False), (3, 3, True), (3, 5, True), (3, 6, False), (4, 3, False)],
)
def test_a_bookie_lost_its_content_when_most_of_three_ledgers_or_more_lack_most(
    lost: int, answered: int, found: bool
) -> None:
    """A ledger that lacks exactly half does not count. A bookie that lacks more ledgers than it
    answered for went away."""
    losses = Losses()
    for ledger in range(lost):
        losses.add(Lack(ledger, 10, 6))
    losses.add(Lack(99, 10, 5))
    for was_probed in (False, True):
        facts = lost_content_facts(
            at_looks(Greeting.ANSWERED), losses, answered, was_probed=was_probed
        )
        of_them = LostContentFacts(
            "writable", "h:3181", answered, was_probed, lost, 6 * lost, 10 * lost,
            tuple(range(lost))
        )  # fmt: skip
        assert (of_them if found else None) == facts
    assert lost_content_facts(at_looks(None), losses, answered, was_probed=False) is None


@pytest.mark.parametrize(
    ("ledgers", "looks", "found"), [(3, 2, True), (2, 2, False), (3, 1, False)]
)
def test_a_bookie_fails_when_three_ledgers_were_refused_at_two_looks(
    ledgers: int, looks: int, found: bool
) -> None:
    """Errors are counted by name, the most frequent first; equally frequent ones by name."""
    refusals = [
        Refusal(ledger, look, detail, is_list)
        for ledger in range(ledgers)
        for look in range(looks)
        for detail, is_list in (
            ("EUA: no", True),
            ("EBAD", False),
            ("EIO: disk", False),
            ("EIO", False),
        )
    ]
    facts = failing_facts(at_looks(Greeting.ANSWERED, Greeting.ANSWERED), refusals)
    statuses = (("EIO", 12), ("EBAD", 6), ("EUA", 6))
    expected = FailingFacts("writable", "h:3181", 2, 3, (0, 1, 2), 6, 18, statuses)
    assert (expected if found else None) == facts
