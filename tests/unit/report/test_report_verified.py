"""What a report may say of copies that were verified, and of copies that are assumed from a
sample.
"""

from __future__ import annotations

from typing import Any

import pytest
from support import report_stories as stories

from auditor.model.codec import decode
from auditor.model.finding import Kind
from auditor.model.judged_ledger import JudgedLedger
from auditor.model.verdict import Exempt
from auditor.report.ledgers_text import render_ledgers
from auditor.report.outcome_text import (
    EXEMPT_WORDS,
    headline,
    sampled_words,
    verified_share_meaning,
    verified_share_words,
)
from auditor.report.text import render

ALL = {"expected": 40_000, "listed": 40_000, "read": 0, "assumed": 0}
SAMPLED = {"expected": 40_000, "listed": 0, "read": 600, "assumed": 39_400}
EACH_JUDGED = {"listed": 1000, "sound": 1000, "exempt": 0, "indeterminate": 0, "violated": 0}
MIXED = {"expected": 40_000, "listed": 20_000, "read": 600, "assumed": 19_400}


def flat(text: str) -> str:
    return " ".join(text.split())


def report(copies: dict[str, int] | None, **changes: Any) -> str:
    counted = stories.summary(copies=copies, verified_ratio=copies and verified(copies), **changes)
    return flat(render(counted, []))


def verified(copies: dict[str, int]) -> float | None:
    return (copies["listed"] + copies["read"]) / copies["expected"] if copies["expected"] else None


def test_every_entry_is_only_said_where_every_copy_was_listed_or_read() -> None:
    """A single copy that is assumed from a sample changes the sentence."""
    assert report(ALL).startswith(
        "SOUND: 990 ledgers have every acknowledged entry listed where the metadata says it is"
    )
    one_less = ALL | {"listed": 39_999, "assumed": 1}
    for copies in (one_less, SAMPLED, MIXED):
        assert "every acknowledged entry" not in report(copies)


def test_every_acknowledged_entry_is_not_said_beside_entries_beyond_the_end() -> None:
    """Whether these were acknowledged cannot be seen from outside, so they may be a loss."""
    found = [stories.finding(Kind.ENTRIES_BEYOND_END, 7)]
    text = report(ALL, findings=stories.counted(found))
    assert text.startswith(
        "SOUND: 990 ledgers have every entry up to the recorded end listed where the metadata says"
        " it is, in as many copies as was promised; whether entries beyond the end of 1 ledger were"
        " acknowledged is not known."
    )
    assert "every acknowledged entry" not in text and "nothing wrong" not in text


@pytest.mark.parametrize("partial", [True, False])
def test_a_run_of_named_ledgers_claims_nothing_of_others(partial: bool) -> None:
    """It names the same cluster as a whole run, and an operator may read only the first lines."""
    said = "Only the ledgers that were named were looked at."
    assert partial is (said in headline(stories.summary(copies=ALL, partial=partial)))


def test_nothing_wrong_is_not_said_of_what_a_mark_excuses() -> None:
    """Copies that a ledger within grace lacks were looked for and found missing."""
    exempt = {"marked_underreplicated": 1, "open": 9}
    marked = "nothing wrong was found beside what is marked under-replicated"
    assert f"promised; {marked}. 10 ledgers are exempt." in report(ALL, exempt=exempt)
    assert "promised; nothing wrong was found. 10 ledgers are exempt." in report(
        ALL, exempt={"marked_underreplicated": 0, "open": 10}
    )
    ledgers = {"listed": 10, "sound": 0, "exempt": 10, "indeterminate": 0, "violated": 0}
    assert f"SOUND: {marked}, and there was no other entry to judge: 10 ledgers are exempt" in (
        report(None, exempt=exempt, ledgers=ledgers)
    )


def test_nothing_wrong_is_not_said_of_a_mark_that_is_young() -> None:
    """This includes the mark of a ledger that is exempt for another reason, such as an open one."""
    marks = {"total": 1, "within_grace": 1, "beyond_grace": 0, "stale": 0, "without_ledger": 0}
    beside = "beside what is marked under-replicated"
    for within_grace in (1, 0):
        counted = stories.summary(
            copies=ALL, exempt={"open": 10}, marks=marks | {"within_grace": within_grace}
        )
        assert bool(within_grace) is (beside in headline(counted))


def test_a_sampled_cluster_is_reported_how_little_was_read() -> None:
    """The first sentence has the number of copies that were read, and says that the others are
    assumed.
    """
    said = (
        "SOUND: nothing wrong in the 600 of 40,000 copies that were read; the other 39,400 are"
        " assumed from a sample."
    )
    assert report(SAMPLED).startswith(said)
    mixed = (
        "SOUND: nothing wrong in the 20,600 of 40,000 copies that were listed or read; the other"
        " 19,400 are assumed"
    )
    assert report(MIXED).startswith(mixed)


@pytest.mark.parametrize(("outcome", "code"), [("VIOLATED", 1), ("INCOMPLETE", 3)])
def test_other_outcomes_say_what_rests_on_a_sample(outcome: str, code: int) -> None:
    """A reader must know that most copies were not looked at."""
    counts = EACH_JUDGED | {"sound": 997, "violated": 3}
    text = report(SAMPLED, outcome=outcome, exit_code=code, ledgers=counts)
    assert (
        "Only 600 of 40,000 copies in judged closed ledgers were read; 39,400 are assumed from a"
        " sample." in text.partition("cluster ")[0]
    )
    whole = report(ALL, outcome=outcome, exit_code=code, ledgers=counts)
    assert "assumed" not in whole.partition("cluster ")[0]


def test_the_verified_share_stands_beside_the_coverage() -> None:
    """`coverage 100 %` alone reads as if everything had been verified."""
    some, every = report(SAMPLED, ledgers=EACH_JUDGED), report(ALL, ledgers=EACH_JUDGED)
    assert "verified 1.50 % of the copies were listed or read (600 of 40,000)" in some
    assert "verified 100 % of the copies were listed or read (40,000 of 40,000)" in every
    assert "verified" not in report({"expected": 0, "listed": 0, "read": 0, "assumed": 0})


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({}, ""),
        ({"sound": 999, "exempt": 1}, " in judged closed ledgers"),
        ({"sound": 999, "indeterminate": 1}, " in judged closed ledgers"),
        ({"sound": 999, "violated": 1}, " in judged closed ledgers"),
    ],
)
def test_where_some_ledgers_do_not_count_it_says_which_do(
    changed: dict[str, int], where: str
) -> None:
    """Copies in indeterminate, open and exempt ledgers are not among the "100 %". A violated ledger
    may be open.
    """
    counted = stories.summary(
        copies=SAMPLED, verified_ratio=verified(SAMPLED), ledgers=EACH_JUDGED | changed
    )
    assert f"1.50 % of 40,000 copies{where} read, 39,400 assumed" in verified_share_words(counted)
    assert f"Only 600 of 40,000 copies{where} were read; " in sampled_words(counted)
    assert f"of the copies{where} were listed or read (600 of 40,000)" == (
        verified_share_meaning(counted, counted.copies)
    )


def test_copies_that_a_bookie_in_doubt_lists_are_not_called_unlisted() -> None:
    """They were listed, and are not verified: no sentence says that all others were not listed."""
    counted = stories.summary(
        copies=SAMPLED | {"listed": 5, "assumed": 19_395},
        verified_ratio=0.015125,
        ledgers=EACH_JUDGED | {"sound": 999, "violated": 1},
        doubt={"bookies": 1, "some_bookies": ["b1"], "copies": 20_000},
    )
    assert "Only 605 of 40,000 copies in judged closed ledgers were verified; " in (
        sampled_words(counted)
    )
    assert (
        "of the copies in judged closed ledgers were verified (605 of 40,000), 5 by lists alone"
        == (verified_share_meaning(counted, counted.copies))
    )
    assert (
        "1.51 % of 40,000 copies in judged closed ledgers, 5 by lists alone, 19,395 assumed from a"
        " sample, 20,000 in doubt"
    ) == verified_share_words(counted)


def test_a_summary_without_these_counts_claims_nothing() -> None:
    """A run of an older version does not say what was verified."""
    text = report(None)
    assert "every acknowledged entry" not in text and "verified" not in text


def one_ledger(standing: str, state: str, last: int | None, **more: Any) -> dict[str, Any]:
    metadata = {
        "state": state, "format_version": 3, "ensemble_size": 3, "write_quorum": 3, "ack_quorum": 2,
        "last_entry_id": last,
        "segments": [{"first_entry_id": 0, "ensemble": stories.BOOKIES[:3]}],
    }  # fmt: skip
    return {"ledger_id": 7, "standing": standing, "metadata": metadata} | more


def single(ledger: dict[str, Any], **changes: Any) -> str:
    shown = decode(JudgedLedger, ledger)
    return flat(render_ledgers(stories.summary(**changes), [shown], [], second_look_delay_s=1.0))


@pytest.mark.parametrize("state", ["OPEN", "IN_RECOVERY"])
@pytest.mark.parametrize("last", [-1, None, 5])
def test_the_end_of_a_ledger_that_is_not_closed_is_not_known_yet(
    state: str, last: int | None
) -> None:
    """BookKeeper writes lastEntryId -1 while a ledger is open: a person must not delete it for
    having no entry.
    """
    text = single(one_ledger("exempt", state, last, exempt=state.lower()))
    assert f"{state}, last entry not known yet," in text and "no entry" not in text


@pytest.mark.parametrize(
    ("last", "words"), [(-1, "CLOSED, lastEntryId -1,"), (4, "CLOSED, last entry 4,")]
)
def test_the_end_of_a_closed_ledger_is_a_fact(last: int, words: str) -> None:
    """Only a closed ledger is said to have no entry."""
    assert words in single(one_ledger("sound", "CLOSED", last))


def test_a_mark_beyond_grace_is_not_called_within_it() -> None:
    """The reason is printed for violated ledgers too. Its words say nothing of the mark's age."""
    violated = one_ledger("violated", "CLOSED", 9, exempt="marked_underreplicated")
    assert "marked under-replicated" in single(violated) and "within grace" not in single(violated)
    assert "grace" not in EXEMPT_WORDS[Exempt.MARKED_UNDERREPLICATED]


def test_single_ledgers_say_what_was_verified() -> None:
    """The copies are counted for all of them, and for each."""
    copies = {"expected": 300, "listed": 100, "read": 9, "assumed": 191}
    text = single(
        one_ledger("sound", "CLOSED", 99, copies=copies),
        copies=copies,
        verified_ratio=109 / 300,
        ledgers=dict.fromkeys(EACH_JUDGED, 0) | {"listed": 1, "sound": 1},
    )
    only = "Only 109 of 300 copies were listed or read"
    assert f"{only}; 191 are assumed from a sample." in text
    assert "copies 109 of 300 verified (100 listed, 9 read), 191 assumed from a sample" in text
