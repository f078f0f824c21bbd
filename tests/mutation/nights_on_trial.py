"""The law of the findings on bookies and on the cluster for the trial of mutants, in small parts.

It is the law of `tests/properties/test_properties_second_findings.py`, over fewer runs. Pytest does
not collect this file by itself; `try_mutants.py` names it.
"""

from __future__ import annotations

import pytest
from support.night_stories import night

PARTS, NIGHTS = 40, 10
"""Parts of the law, and the runs of each part."""


@pytest.mark.parametrize("part", range(PARTS))
def test_both_checkers_agree_on_bookies_and_the_cluster(part: int) -> None:
    """The evidence gives the same findings in both checkers."""
    for seed in range(part * NIGHTS, (part + 1) * NIGHTS):
        assert [] == night(seed).concluded().summary["findings_differ"], seed
