"""Which bookies are dialled, and what is recorded for those that are not."""

from __future__ import annotations

from auditor.bookie.address_table import AddressTable
from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import BookieRecord, Registration

LIST, READ = ListQuestion(7), ReadQuestion(7, 3, None, None)


def record(bookie_id: str, *, has_cookie: bool) -> BookieRecord:
    return BookieRecord(bookie_id, 1, 0, Registration.NONE, has_cookie=has_cookie)


def details(table: AddressTable, bookie: str) -> list[str]:
    return [answer.detail for answer in table.undialled_answers(bookie, [LIST], 1, lambda: 0) or ()]


def test_the_bookies_known_by_cookie_are_those_that_have_one() -> None:
    """Where not a single one has, the cookies say nothing about anybody."""
    with_cookie, without = record("b1", has_cookie=True), record("b2", has_cookie=False)
    assert {"b1"} == AddressTable.from_records([with_cookie, without]).cookies
    assert AddressTable.from_records([without]).cookies is None
    assert AddressTable.from_records([]).cookies is None


def test_a_bookie_without_cookie_is_said_to_have_none_only_where_cookies_are_known() -> None:
    """A cluster without cookies does not have only decommissioned bookies."""
    assert [NO_COOKIE] == details(AddressTable({}, frozenset({"b1"})), "b2")
    assert [""] == details(AddressTable({}, frozenset({"b1"})), "b1")
    assert [""] == details(AddressTable({}, None), "b2")


def test_a_registered_bookie_whose_address_is_unreadable_is_not_gone() -> None:
    """It has a status of its own, without a word on cookies, for lists and reads alike."""
    table = AddressTable({"b1": None}, frozenset({"b2"}))
    (answer,) = table.undialled_answers("b1", [LIST], 2, lambda: 5) or ()
    (read,) = table.undialled_reads("b1", [READ], 2, lambda: 5) or ()
    assert Answer("b1", 7, 2, 5, AnswerStatus.ADDRESS_UNKNOWN) == answer
    assert EntryRead("b1", 7, 3, 2, 5, ReadStatus.ADDRESS_UNKNOWN) == read


def test_a_bookie_with_an_address_is_dialled() -> None:
    """Nothing is recorded for it, not even for no question; an unregistered one is recorded as
    such.
    """
    table = AddressTable.from_records(
        [
            BookieRecord("b1", 1, 0, Registration.READONLY, "h", 3181),
            BookieRecord("b2", 1, 0, Registration.NONE, "h", 3181),
        ]
    )
    assert (None, None) == (
        table.undialled_answers("b1", [], 1, int),
        table.undialled_reads("b1", [], 1, int),
    )
    assert ("h", 3181) == table.address_of("b1")
    assert [ReadStatus.UNREGISTERED] == [
        read.status for read in table.undialled_reads("b2", [READ], 1, int) or ()
    ]


def test_a_registration_without_port_is_no_address() -> None:
    """Host and port come together or not at all."""
    half = BookieRecord("b1", 1, 0, Registration.WRITABLE, "h", None)
    assert {"b1": None} == AddressTable.from_records([half]).addresses
