"""What is said of a bookie that is not registered."""

from __future__ import annotations

from auditor.model.availability import NO_COOKIE
from auditor.model.cluster import BookieRecord, Registration
from auditor.zookeeper.registrations import known_by_cookie, unregistered_detail


def record(bookie_id: str, *, has_cookie: bool) -> BookieRecord:
    return BookieRecord(bookie_id, 1, 0, Registration.NONE, has_cookie=has_cookie)


def test_the_bookies_known_by_cookie_are_those_that_have_one() -> None:
    """Where not a single one has, the cookies say nothing about anybody."""
    with_cookie, without = record("b1", has_cookie=True), record("b2", has_cookie=False)
    assert {"b1"} == known_by_cookie([with_cookie, without])
    assert known_by_cookie([without]) is None
    assert known_by_cookie([]) is None


def test_a_bookie_without_cookie_is_said_to_have_none_only_where_cookies_are_known() -> None:
    """A cluster without cookies does not have only decommissioned bookies."""
    assert NO_COOKIE == unregistered_detail("b2", frozenset({"b1"}))
    assert "" == unregistered_detail("b1", frozenset({"b1"}))
    assert "" == unregistered_detail("b2", None)
