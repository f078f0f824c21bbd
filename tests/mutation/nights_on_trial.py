"""The law of the findings on bookies and on the cluster for the trial of mutants, told in small
parts.

The same law as in `tests/properties/test_properties_second_findings.py`, over fewer runs. Not
collected by itself: `try_mutants.py` names this file.
"""

from __future__ import annotations

import pytest
from support.night_stories import night

PARTS, NIGHTS = 40, 10
"""Parts of the law, and the runs of each part."""


@pytest.mark.parametrize("part", range(PARTS))
def test_both_checkers_agree_on_bookies_and_the_cluster(part: int) -> None:
    """What is read from the evidence for the one gives the same findings as what is read for the
    other.
    """
    for seed in range(part * NIGHTS, (part + 1) * NIGHTS):
        assert [] == night(seed).concluded().summary["findings_differ"], seed
