"""Copies that rest on a sample: bookies cannot list, and their ledgers are too large to be read
whole.

The model does not know which entries are drawn. Therefore nothing is lost in these histories, and
the counts are exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.falsehoods import FIRST, OF_SAMPLES, SECOND
from support.model import actions
from support.model.clusters import started
from support.model.history import Broken, Cluster, draw_history
from support.model.rows import CopyFacts

HARMLESS = frozenset(
    {
        *("create", "append", "ensemble", "close", "rereplicate", "mark", "unmark"),
        *("time", "lock", "cut", "resume", "again", "audit"),
    }
)
SEED = 34
HISTORIES = 4
STEPS = 12
SAMPLE = 1
"""Entries sampled, beside the first and the last of each segment that a bookie should hold."""
UNABLE = ("unlist b1", "unlist b2", "unlist b3", "unlist b4")
"""The beginning of each history."""
SAMPLED = "create 1 e3 w2 a2 b1 b2 b3; append 1 14; append 1 1; close 1; unlist b2; mark 1"
"""b2 should hold 10 entries of 15, and 3 are read."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("sampled"), sample=SAMPLE) as cluster:
        yield cluster


def test_the_counts_of_sampled_copies_are_true(cluster: Cluster):
    """They are true after each action of each history, and some copies are assumed."""
    assumed = 0
    for number in range(HISTORIES):
        seed = f"sampled/{SEED}/{number}"
        drawn = draw_history(seed, STEPS, cluster.world.at_first, HARMLESS)
        cluster.run([*UNABLE, *drawn])
        assumed += sum(row.copies.assumed for row in cluster.rows.values() if row.copies)
    assert assumed > 0


def test_a_sample_is_no_reason_to_call_a_mark_stale(cluster: Cluster):
    """The mark may stand for an entry that was not read."""
    cluster.run(actions.lines_of(SAMPLED))
    assert (CopyFacts(30, 20, 3, 7), False) == cluster.rows[1][-2:]


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_a_false_count_of_a_sample_contradicts_the_truth(
    cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
):
    """The false count is planted in both checkers."""
    OF_SAMPLES[name].plant(monkeypatch, FIRST, SECOND)
    with pytest.raises(Broken, match="copies: "):
        cluster.end(actions.lines_of(SAMPLED))
