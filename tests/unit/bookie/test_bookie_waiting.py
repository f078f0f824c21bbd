"""In which order questions wait, and when a bookie is called unable to list."""

from __future__ import annotations

import pytest

from auditor.bookie.answers import ListingProof, describe_unable
from auditor.bookie.questions import Ask, ListQuestion, Waiting


def test_the_last_try_is_first_in_line_and_alone() -> None:
    """Questions on their last try before those asked again, those before the fresh ones, each kind
    in its order.
    """
    fresh = [Ask(ListQuestion(n)) for n in range(4)]
    waiting = Waiting(fresh, retries_max=2)
    once, last = waiting.pop(), waiting.pop()
    once.losses, last.losses = 1, 2
    waiting.put_back(once)
    assert (False, 3) == (waiting.must_send_next_alone, len(waiting))
    waiting.put_back(last)
    assert waiting.must_send_next_alone
    assert [1, 0, 2, 3] == [waiting.pop().ledger_id for _ in range(4)]
    assert not waiting


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


def test_nothing_waits_behind_a_drain() -> None:
    """Neither a last try, nor one more, nor a fresh question."""
    waiting = Waiting([Ask(ListQuestion(n)) for n in range(3)], retries_max=1)
    again, last = waiting.pop(), waiting.pop()
    last.losses = 1
    waiting.put_back(again)
    waiting.put_back(last)
    assert 3 == len(waiting)
    waiting.drain()
    assert (0, False) == (len(waiting), waiting.must_send_next_alone)


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


def test_who_listed_before_can_list_however_much_goes_unanswered_now() -> None:
    """No list in the whole run makes a bookie unable, not none in one of its conversations."""
    proofs = [ListingProof(has_listed=has_listed) for has_listed in (False, True)]
    for proof in proofs:
        proof.asked = proof.unanswered = 10
    assert [True, False] == [proof.is_unable() for proof in proofs]


@pytest.mark.parametrize(
    ("given", "unable"),
    [({}, True), ({"losses_count": True}, True), ({"losses_count": False}, False)],
)
def test_lists_lost_with_their_connections_count_unless_it_is_said_not_to(
    given: dict[str, bool], unable: bool
) -> None:
    """And a proof begins with no list."""
    proof = ListingProof(**given)
    assert (0, 0, 0, 0) == (proof.listed, proof.asked, proof.unanswered, proof.lost)
    proof.asked = proof.unanswered = proof.lost = 3
    assert unable is proof.is_unable()


def test_a_bookie_cannot_list_by_what_it_answers_and_how_long_it_was_given() -> None:
    """Without a time where it was given the whole time-out."""
    texts = [
        describe_unable(3, waited_s).partition(" (asked for 3 ledgers)")[0]
        for waited_s in (None, 0.25)
    ]
    answered = "GET_BOOKIE_INFO is answered, GET_LIST_OF_ENTRIES_OF_LEDGER is not"
    assert [answered, f"{answered} within 250 ms"] == texts
