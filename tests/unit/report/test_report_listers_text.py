"""The first screen names listers that did not list, and those that are not believed."""

from __future__ import annotations

from support import report_stories as stories

from auditor.report.surroundings_text import lister_sentences


def test_a_lister_that_is_not_believed_is_named_with_the_reason() -> None:
    """Its lists no longer count, and the reader must know to which bookie it belongs."""
    summary = {
        "listers": {
            "not_believed": [{"bookie_id": "b1", "detail": "it lists entry 3"}],
            "silent": [],
        }
    }
    assert [
        "The lister of bookie b1 is not believed: it lists entry 3. No list of it counts from"
        " then on."
    ] == list(lister_sentences(stories.summary(**summary)))


def test_silent_listers_are_one_sentence() -> None:
    """The first is named with its reason, and the others are counted."""
    silent = [{"bookie_id": f"b{number}", "detail": "no connection"} for number in (1, 2, 3)]
    expected = (
        "No list came from the lister of bookie b1 (no connection), and 2 more: the bookie was"
        " asked as without one."
    )
    assert [expected] == list(lister_sentences(stories.summary(listers={"silent": silent})))


def test_an_entry_that_an_index_lost_is_said_with_what_to_do() -> None:
    """The sentence has the command and its danger, and says that the bytes exist."""
    one = {"bookie_id": "b2", "ledgers": 3, "some": [[7, 151], [8, 0]]}
    (sentence,) = lister_sentences(stories.summary(listers={"unindexed": [one]}))
    assert (
        "Bookie b2 sends entry 151 of ledger 7 (and entries of 2 ledgers more) although" in sentence
    )
    assert "the index lost it, the bytes exist" in sentence
    assert (
        "While the bookie is STOPPED, bookkeeper shell rebuild-db-ledger-locations-index"
        in sentence
    )
    assert "Never run that while the bookie is up" in sentence


def test_a_stored_run_without_the_field_has_no_sentence() -> None:
    """It was made by an earlier version, or by `auditor ledger`."""
    assert [] == list(lister_sentences(stories.summary()))


def test_what_a_lister_says_of_itself_cannot_write_to_the_terminal() -> None:
    """Anything may answer at its port. Its answer is made printable and short."""
    silent = [
        {"bookie_id": "b1", "detail": "it is the lister of bookie \x1b[2J\u202e" + "x" * 10_000}
    ]
    (sentence,) = lister_sentences(stories.summary(listers={"silent": silent}))
    assert sentence.isascii() and sentence.isprintable() and len(sentence) < 1_000
