"""What a summary has of listers, from the greetings of bookies."""

from __future__ import annotations

from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    LISTER_SILENT,
    Greeting,
)
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.codec import encode
from auditor.summary.assurance import BOOKIES_NAMED_MAX, listed_by_lister, listers_of


def bookie(
    bookie_id: str, detail: str, look: int = 1, greeting: Greeting = Greeting.ANSWERED
) -> BookieRecord:
    return BookieRecord(
        bookie_id, look, look, Registration.WRITABLE, "h", 1, True, "", greeting, detail
    )


LISTED = f"{LISTED_BY_LISTER}h:3182"


def test_a_bookie_that_was_listed_at_any_look_counts() -> None:
    """A later look may ask it about no ledger."""
    records = [
        bookie("b1", LISTED),
        bookie("b1", "its lister at h:3182 answers", 2),
        bookie("b2", ""),
    ]
    assert {"b1": "h:3182"} == listed_by_lister(records)
    assert {"listed": 1, "silent": [], "not_believed": [], "unindexed": []} == encode(
        listers_of(records)
    )


def test_a_lister_that_is_silent_at_the_last_look_is_named() -> None:
    """A lister that came back is not named."""
    silent = f"{LISTER_SILENT}h:3182: no connection"
    records = [
        bookie("b1", silent),
        bookie("b1", LISTED, 2),
        bookie("b2", LISTED),
        bookie("b2", silent, 2, Greeting.UNSUPPORTED),
    ]
    for ordered in (records, records[::-1]):
        assert [{"bookie_id": "b2", "detail": "h:3182: no connection"}] == encode(
            listers_of(ordered)
        )["silent"]


def test_a_lister_that_was_contradicted_at_any_look_is_named() -> None:
    """The detail says what its bookie denied."""
    records = [bookie("b1", f"{LISTER_CONTRADICTED}it lists entry 3"), bookie("b1", LISTED, 2)]
    assert [{"bookie_id": "b1", "detail": "it lists entry 3"}] == encode(listers_of(records))[
        "not_believed"
    ]


def test_the_number_of_listers_named_is_bounded() -> None:
    """BOOKIES_NAMED_MAX silent listers are named."""
    many = [bookie(f"b{number:02}", f"{LISTER_SILENT}x") for number in range(BOOKIES_NAMED_MAX + 5)]
    assert BOOKIES_NAMED_MAX == len(encode(listers_of(many))["silent"])
