"""Witnesses of the bookie family: what a person can check by hand."""

from __future__ import annotations

from auditor.confirm.tell_bookies import TELL
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.finding import Kind
from auditor.verify.content import Content, judge_content


def told(content: Content) -> str:
    looks = [{"b7": BookieRecord("b7", look, 0, Registration.READONLY, "h", 3181)} for look in (1, 2)]
    (found,) = judge_content(looks, {"b7": content})
    return TELL[Kind.BOOKIE_LOST_CONTENT](found, dict(found.facts))


def test_lost_content_is_told_with_its_counts():
    """Where the bookie is, for how many ledgers it answered, which it lacks, how many entries of them."""
    expected = (
        "Let bookie b7 be registered as readonly at h:3181, and asked about ledgers that the metadata puts on it; then it "
        "answered for 4 of them, and of 3 (5, 6, 9) it lacks more than half of what it should hold, 29 of 30 entries; so it "
        "said at two looks. It is up, and what it should hold is not there."
    )
    assert expected == told(Content(4, 3, 30, 29, (5, 6, 9)))


def test_of_many_ledgers_a_few_are_named():
    """The rest is counted."""
    assert "of 40000 (0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 39990 more) it lacks" in told(
        Content(41_000, 40_000, 9, 9, tuple(range(10)))
    )


def test_a_bookie_that_cannot_list_is_told_as_probed():
    """Entries were read there, which a person would have to do as well."""
    assert "puts on it, by reading entries, for it cannot list them; then" in told(Content(3, 3, 9, 9, (1, 2, 3), True))
