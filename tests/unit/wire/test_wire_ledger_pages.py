"""Pages of the ledgers in a lister's index, as a lister writes them and an audit reads them."""

from __future__ import annotations

import json

import pytest

from auditor.errors import MalformedAvailability
from auditor.wire.bookie_connection import BookieConnection
from auditor.wire.bookie_server import BookieInfo, RequestBuffer, decode_request, encode_info
from auditor.wire.frames import Status
from auditor.wire.ledger_pages import (
    LedgerPage,
    decode_page,
    decode_page_request,
    encode_page_request,
    merge_pages,
    with_page,
)
from auditor.wire.lister_fields import ListerIdentity

OURS = ListerIdentity("b1", "the-instance")


def answer_of(page: LedgerPage, identity: ListerIdentity = OURS) -> bytes:
    """Return the field of an answer after a whole exchange on the wire."""
    connection = BookieConnection(2**20)
    _, frame = connection.ask_info(encode_page_request(7))
    (body,) = RequestBuffer().feed(frame)
    request = decode_request(body)
    assert isinstance(request, BookieInfo) and 7 == decode_page_request(request.lister_field)
    assert request.total_disk_capacity and request.free_disk_space
    (answered,) = connection.receive(with_page(encode_info(request, Status.EOK), identity, page))
    return answered.extra  # type: ignore[union-attr]


@pytest.mark.parametrize("page", [LedgerPage((7, 9), 12), LedgerPage((), None)])
def test_a_page_arrives_as_it_was_sent(page: LedgerPage) -> None:
    """The request is a GET_BOOKIE_INFO, whose own fields a lister answers too."""
    assert page == decode_page(answer_of(page), OURS, 7)


def test_a_plain_greeting_asks_for_no_page() -> None:
    """Nor does a field of another version, or of another kind."""
    _, frame = BookieConnection(2**20).ask_info()
    (body,) = RequestBuffer().feed(frame)
    request = decode_request(body)
    assert isinstance(request, BookieInfo) and b"" == request.lister_field
    for field in (
        b"",
        b"[]",
        b"{",
        b'{"lister": 2, "ledgers_from": 1}',
        b'{"lister": 1, "ledgers_from": -1}',
    ):
        assert decode_page_request(field) is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"ledgers": [7, 7], "next": None}, "not in order"),
        ({"ledgers": [6], "next": None}, "not in order"),
        ({"ledgers": [8], "next": 8}, "not in order"),
        ({"ledgers": [True], "next": None}, "not in order"),
        ({"ledgers": ["8"], "next": None}, "not in order"),
        ({"ledgers": [], "next": 9}, "no ledger, and more behind it"),
        ({"ledgers": 7, "next": None}, "in another form"),
        ({}, "does not name its ledgers"),
    ],
)
def test_a_wrong_page_is_refused(words: dict[str, object], says: str) -> None:
    """A page that could make the reader loop or skip ledgers is no page."""
    identity = {"lister": 1, "bookie_id": "b1", "instance_id": "the-instance", "view_age_ms": 1}
    with pytest.raises(MalformedAvailability, match=says):
        decode_page(json.dumps(identity | words).encode(), OURS, 7)


def test_a_page_of_another_bookie_is_refused() -> None:
    """A map that mixes up two listers must not mix up what bookies hold."""
    field = answer_of(LedgerPage((8,), None), ListerIdentity("b2", "the-instance"))
    with pytest.raises(MalformedAvailability, match="lister of bookie b2"):
        decode_page(field, OURS, 7)
    with pytest.raises(MalformedAvailability, match="not a lister"):
        decode_page(b"", OURS, 7)


def test_pages_of_directories_are_shown_up_to_where_all_are_known() -> None:
    """A directory that has more cuts the page of the others, which are asked for again."""
    assert LedgerPage((1, 2, 3), 4) == merge_pages(
        [LedgerPage((1, 3), 4), LedgerPage((2, 5, 6), 8), LedgerPage((), None)]
    )
    assert LedgerPage((1, 2), None) == merge_pages([LedgerPage((2,), None), LedgerPage((1,), None)])
