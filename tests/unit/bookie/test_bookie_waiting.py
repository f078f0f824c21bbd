"""In which order questions wait, and when a bookie is called unable to list."""

from __future__ import annotations

import pytest

from auditor.bookie.questions import Ask, ListingProof, ListQuestion


def test_a_question_begins_unasked() -> None:
    """Never sent, no trouble, no bytes, no outcome."""
    ask = Ask(ListQuestion(7))
    assert (0, 0.0, 0, 0, 0) == (
        ask.asked_at_ms,
        ask.sent_at,
        ask.requests,
        ask.losses,
        ask.received_bytes,
    )
    assert ("", False, None) == (ask.trouble, ask.unanswered, ask.outcome)


@pytest.mark.parametrize(
    ("asked", "listed", "no_such_ledger", "unanswered", "unable"),
    [
        (100, 0, 0, 3, True),
        (100, 0, 0, 2, False),
        (100, 1, 0, 99, False),
        (2, 0, 0, 2, True),
        (1, 0, 0, 1, True),
        (2, 0, 0, 1, False),
        (10, 0, 9, 1, True),
        (10, 0, 8, 1, False),
        (10, 0, 10, 0, False),
        (0, 0, 0, 0, False),
        (5, 0, 0, 0, False),
    ],
)
def test_three_held_ledgers_unanswered_or_all_of_them_and_not_one_listed(
    asked: int, listed: int, no_such_ledger: int, unanswered: int, unable: bool
) -> None:
    """A bookie is unable to list when none came, and three of what it may hold, or all, went
    unanswered.
    """
    proof = ListingProof()
    proof.asked, proof.listed, proof.no_such_ledger, proof.unanswered = (
        asked,
        listed,
        no_such_ledger,
        unanswered,
    )
    assert unable is proof.is_unable()


@pytest.mark.parametrize(("before", "unable"), [(0, False), (1, False), (2, True), (9, True)])
def test_lists_of_earlier_conversations_count(before: int, unable: bool) -> None:
    """They show nothing by themselves: a list of this conversation may still come."""
    proof = ListingProof(unanswered_before=before)
    assert not proof.is_unable()
    proof.more_follow = True
    proof.asked += 1
    assert not proof.is_unable()
    proof.unanswered += 1
    assert unable is proof.is_unable()
    proof.listed += 1
    assert not proof.is_unable()


@pytest.mark.parametrize(("unanswered", "unable"), [(0, False), (1, False), (2, False), (3, True)])
def test_all_of_a_few_show_nothing_while_more_follow(unanswered: int, unable: bool) -> None:
    """Where no more follow, one of one is enough."""
    proof = ListingProof()
    proof.asked = proof.unanswered = unanswered
    proof.more_follow = True
    assert unable is proof.is_unable()
    proof.more_follow = False
    assert (unanswered > 0) is proof.is_unable()
