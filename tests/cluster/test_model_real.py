"""The model on real BookKeeper: the same actions, the same truth, and the same properties after
each action.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.model.clusters import started
from support.model.history import Cluster, draw_history

pytestmark = [pytest.mark.real, pytest.mark.long]

SEED = 34
STEPS = 8
"""Actions after the beginning: a bookie that is wiped, crashes or turns read-only takes seconds."""
LOSSES = (
    "create 1 e3 w2 a2 b1 b2 b3; append 1 9; ensemble 1 0 b4; append 1 5; close 1; cut 4 half; lose"
    " 1 4 b3; resume; stray 1 2 b4; mark 1; time 150; crash b3 gone; restart b3; corrupt 1 endless"
)
"""Actions that a random history may lack: an entry lost during a pause, the last copies on a bookie
that is not named, a mark too old.
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("model"), real=True) as cluster:
        yield cluster


def test_after_each_action_every_property_holds_on_real_bookies(cluster: Cluster):
    """There is no false alarm and no miss, on bookies with BookKeeper's own storage."""
    cluster.run(draw_history(SEED, STEPS, cluster.world.at_first))


def test_losses_on_real_bookies_are_what_the_model_says(cluster: Cluster):
    """Every kind of loss that the model knows is found, on bookies that were wiped and refilled."""
    cluster.run([line.strip() for line in LOSSES.split(";")])
