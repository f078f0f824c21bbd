"""Which metadata contradicts itself."""

import pytest

from auditor.first_checker.metadata import contradictions
from auditor.model.facts import Contradiction, Contradicts
from auditor.sandbox.notation import ledger
from auditor.second_checker.facts import contradictions as found_again


@pytest.mark.parametrize(
    "text",
    [
        "e3 w2 a2 0:[a b c] closed 9",
        "e3 w2 a1 0:[a b c] 4:[a b d] closed 9",
        "e3 w3 a3 0:[a b c] 10:[a b d] closed 9",  # nothing was written to the last segment
        "e3 w2 a2 0:[a b c] closed -1",
        # doubles are no contradiction, they have a finding of their own
        "e3 w2 a2 0:[a a a] closed 9",
        "e1 w1 a1 0:[a] open",
        "e3 w2 a2 0:[a b c] 100:[a b d] open",  # Java writes -1 where the end is not known yet
        "e3 w2 a2 0:[a b c] 100:[a b d] in_recovery",
    ],
)
def test_metadata_that_makes_sense_has_no_contradiction(text: str) -> None:
    """Whatever BookKeeper itself writes is accepted."""
    assert () == contradictions(ledger(text))


@pytest.mark.parametrize(
    ("text", "what", "numbers"),
    [
        ("e3 w0 a0 0:[a b c] closed 9", Contradicts.QUORUM_BELOW_ONE, (3, 0, 0)),
        ("e3 w2 a0 0:[a b c] closed 9", Contradicts.QUORUM_BELOW_ONE, (3, 2, 0)),
        ("e0 w0 a0 0:[] open", Contradicts.QUORUM_BELOW_ONE, (0, 0, 0)),
        ("e3 w0 a1 0:[a b c] closed 9", Contradicts.QUORUM_BELOW_ONE, (3, 0, 1)),
        ("e0 w1 a1 0:[] open", Contradicts.QUORUM_BELOW_ONE, (0, 1, 1)),
        ("e3 w4 a2 0:[a b c] closed 9", Contradicts.WRITE_QUORUM_ABOVE_ENSEMBLE, (4, 3)),
        ("e3 w2 a3 0:[a b c] closed 9", Contradicts.ACK_QUORUM_ABOVE_WRITE, (3, 2)),
        ("e3 w2 a2 closed 9", Contradicts.NO_SEGMENT, ()),
        ("e3 w2 a2 open", Contradicts.NO_SEGMENT, ()),
        ("e3 w2 a2 5:[a b c] closed 9", Contradicts.FIRST_SEGMENT_NOT_AT_ZERO, (5,)),
        ("e3 w2 a2 -1:[a b c] closed 9", Contradicts.FIRST_SEGMENT_NOT_AT_ZERO, (-1,)),
        (
            "e3 w2 a2 0:[a b c] 6:[a b d] 3:[a b c] closed 9",
            Contradicts.SEGMENTS_OUT_OF_ORDER,
            (3, 6),
        ),
        (
            "e3 w2 a2 0:[a b c] 6:[a b d] 6:[a b c] closed 9",
            Contradicts.SEGMENTS_OUT_OF_ORDER,
            (6, 6),
        ),
        ("e3 w2 a2 0:[a b c] 6:[a b] closed 9", Contradicts.WRONG_ENSEMBLE_SIZE, (6, 2, 3)),
        ("e3 w2 a2 0:[a b c] closed", Contradicts.NO_LAST_ENTRY, ()),
        ("e3 w2 a2 0:[a b c] closed -2", Contradicts.LAST_ENTRY_BELOW_MINUS_ONE, (-2,)),
        ("e3 w2 a2 0:[a b c] 11:[a b d] closed 9", Contradicts.SEGMENT_BEYOND_LAST_ENTRY, (11, 9)),
        ("e3 w2 a2 1:[a b c] open", Contradicts.FIRST_SEGMENT_NOT_AT_ZERO, (1,)),
    ],
)
def test_each_contradiction_comes_with_its_numbers(
    text: str, what: Contradicts, numbers: tuple[int, ...]
) -> None:
    """One fault, and the numbers that do not fit; the second checker finds the same ones."""
    found = contradictions(ledger(text))
    assert Contradiction(what, numbers) in found
    assert sorted(found, key=repr) == sorted(found_again(ledger(text)), key=repr)


def test_every_contradiction_is_found() -> None:
    """The first one hides none of the others."""
    assert len(contradictions(ledger("e3 w4 a5 5:[a b] 4:[a b c] closed"))) == 6
