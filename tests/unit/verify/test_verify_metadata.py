"""Which metadata contradicts itself."""

import pytest

from auditor.sandbox.notation import ledger
from auditor.verify.metadata import contradictions, unknown_bookies


@pytest.mark.parametrize(
    "text",
    [
        "e3 w2 a2 0:[a b c] closed 9",
        "e3 w2 a1 0:[a b c] 4:[a b d] closed 9",
        "e3 w3 a3 0:[a b c] 10:[a b d] closed 9",  # nothing was written to the last segment
        "e3 w2 a2 0:[a b c] closed -1",
        "e3 w2 a2 0:[a a a] closed 9",  # doubles are no contradiction, they have a finding of their own
        "e1 w1 a1 0:[a] open",
        "e3 w2 a2 0:[a b c] 100:[a b d] open",  # Java writes -1 where the end is not known yet
        "e3 w2 a2 0:[a b c] 100:[a b d] in_recovery",
    ],
)
def test_metadata_that_makes_sense_has_no_contradiction(text: str) -> None:
    """Whatever BookKeeper itself writes is accepted."""
    assert () == contradictions(ledger(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("e3 w0 a0 0:[a b c] closed 9", "write quorum 0"),
        ("e3 w2 a0 0:[a b c] closed 9", "ack quorum 0"),
        ("e0 w0 a0 0:[] open", "ensemble size 0"),
        ("e3 w0 a1 0:[a b c] closed 9", "a quorum below one: ensemble size 3, write quorum 0, ack quorum 1"),
        ("e0 w1 a1 0:[] open", "a quorum below one: ensemble size 0, write quorum 1, ack quorum 1"),
        ("e3 w4 a2 0:[a b c] closed 9", "the write quorum 4 is larger than the ensemble size 3"),
        ("e3 w2 a3 0:[a b c] closed 9", "the ack quorum 3 is larger than the write quorum 2"),
        ("e3 w2 a2 closed 9", "no segment"),
        ("e3 w2 a2 open", "no segment"),
        ("e3 w2 a2 5:[a b c] closed 9", "begins at entry 5, not at 0"),
        ("e3 w2 a2 -1:[a b c] closed 9", "begins at entry -1"),
        ("e3 w2 a2 0:[a b c] 6:[a b d] 3:[a b c] closed 9", "entry 3 stands after the one at entry 6"),
        ("e3 w2 a2 0:[a b c] 6:[a b d] 6:[a b c] closed 9", "entry 6 stands after the one at entry 6"),
        ("e3 w2 a2 0:[a b c] 6:[a b] closed 9", "entry 6 has 2 bookies, the ensemble size is 3"),
        ("e3 w2 a2 0:[a b c] closed", "CLOSED and has no lastEntryId"),
        ("e3 w2 a2 0:[a b c] closed -2", "CLOSED with lastEntryId -2"),
        ("e3 w2 a2 0:[a b c] 11:[a b d] closed 9", "begins at entry 11, beyond lastEntryId 9"),
        ("e3 w2 a2 1:[a b c] open", "not at 0"),
    ],
)
def test_each_contradiction_is_told_with_both_sides(text: str, words: str) -> None:
    """One fault, one sentence at least, and it names the numbers that do not fit."""
    told = contradictions(ledger(text))
    assert any(words in one for one in told), told


def test_every_contradiction_is_told() -> None:
    """The first one found hides none of the others."""
    assert len(contradictions(ledger("e3 w4 a5 5:[a b] 4:[a b c] closed"))) == 6


def test_an_unknown_bookie_is_told_once_with_the_first_segment_that_names_it() -> None:
    """In the order of the segments; of bookies that nobody names, nothing."""
    metadata = ledger("e3 w2 a2 0:[a b c] 10:[a b d] 20:[a d c] closed 29")
    assert (
        "the segment at entry 0 names bookie c, which is neither registered nor known by a cookie",
        "the segment at entry 10 names bookie d, which is neither registered nor known by a cookie",
    ) == unknown_bookies(metadata, frozenset({"d", "c", "x"}))


@pytest.mark.parametrize(("unknown", "more"), [(10, ()), (12, ("so it is with 2 more bookies",))])
def test_ten_unknown_bookies_are_named_and_the_rest_is_counted(unknown: int, more: tuple[str, ...]) -> None:
    """A finding stays short however many there are."""
    names = [f"b{number}" for number in range(unknown)]
    told = unknown_bookies(ledger(f"e{unknown} w2 a2 0:[{' '.join(names)}] closed 9"), frozenset(names))
    assert (10, more) == (sum("names bookie" in one for one in told), told[10:])
