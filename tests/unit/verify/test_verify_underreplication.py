"""How old a mark is."""

import pytest

from auditor.model.ledger import Mark
from auditor.verify.underreplication import age_ms, is_beyond_grace


@pytest.mark.parametrize(
    ("created_ms", "changed_ms", "wanted"),
    [
        (1_000, None, 9_000),
        (1_000, 6_000, 9_000),  # the mark's own time restarts when a replica is added
        (6_000, 1_000, 9_000),  # a mark that was written again keeps its own time
        (10_000, 10_000, 0),
        (12_000, None, 0),  # a clock that runs ahead makes no negative age
        (12_000, 11_000, 0),
        (0, None, 10_000),
        (9_000, 0, 10_000),  # a time of 0 is a time
    ],
)
def test_the_age_is_that_of_the_older_time_and_never_negative(created_ms: int, changed_ms: int | None, wanted: int) -> None:
    """Now minus the older of the znode's creation and the mark's ctime, at least 0."""
    assert wanted == age_ms(Mark(created_ms, changed_ms), 10_000)


@pytest.mark.parametrize(("now_ms", "wanted"), [(4_999, False), (5_000, False), (5_001, True)])
def test_exactly_at_its_grace_a_mark_is_acceptable(now_ms: int, wanted: bool) -> None:
    """Beyond means more than."""
    assert wanted == is_beyond_grace(Mark(0), now_ms, 5_000)


def test_without_grace_any_age_is_too_much_and_none_is_not() -> None:
    """A grace of 0 still accepts a mark of this very millisecond."""
    assert not is_beyond_grace(Mark(7), 7, 0)
    assert is_beyond_grace(Mark(7), 8, 0)
