"""The quick form of the model: histories on the sandbox, audited after each action by the engine without Spark.

Every failure prints the shortest history that fails and the command that replays it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from typing import cast

import pytest
from support.model import actions, history
from support.model.clusters import started
from support.model.engines import SparkFree
from support.model.history import Broken, Cluster, first_broken, told
from support.model.machine import run_machine
from support.model.plants import PLANTS, PLANTS_BETWEEN, Plant
from support.model.truth import Truth
from support.model.worlds import World

HISTORIES = 60
"""Of ten actions on average: half a minute."""
SEED = 34
"""The same histories at each run with the same Hypothesis; `make soak` draws new ones."""
PLANTED_HISTORIES_MAX = 60
"""Histories in which a planted bug must show."""
SHRINKS_MAX = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("model")) as cluster:
        yield cluster


@pytest.mark.timeout(900)  # Hypothesis shrinks a failure for up to five minutes
def test_after_each_action_every_property_holds(cluster: Cluster):
    """No false alarm, no miss, nothing untouched moves, the same evidence gives the same verdict, all ledgers are counted."""
    tally = run_machine(cluster, HISTORIES, SEED)
    assert {"sound", "exempt", "indeterminate", "violated"} <= tally.said.keys()
    assert "resume" in tally.actions
    assert len(actions.ACTIONS) - 3 <= len(tally.actions), f"hardly anything happened: {tally.actions}"


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_breaks_a_history(cluster: Cluster, plant: Plant, monkeypatch: pytest.MonkeyPatch):
    """The model bites; and the shortest history is told, with the command that replays it."""
    bites(cluster, plant, monkeypatch, (told(f"bite/{number}", 12, cluster.world.at_first) for number in count()))


@pytest.mark.parametrize("plant", PLANTS_BETWEEN, ids=lambda plant: plant.__name__)
def test_a_planted_bug_breaks_a_history_in_which_an_audit_goes_on(
    cluster: Cluster, plant: Plant, monkeypatch: pytest.MonkeyPatch
):
    """Only what changes while an audit stands still shows it."""
    drawn = (told(f"between/{number}", 24, cluster.world.at_first) for number in count())
    failure = bites(cluster, plant, monkeypatch, (lines for lines in drawn if "resume" in lines))
    assert "resume" in failure.lines


def bites(cluster: Cluster, plant: Plant, monkeypatch: pytest.MonkeyPatch, histories: Iterable[Sequence[str]]) -> Broken:
    """The shortest history that a planted bug breaks, and that holds without it."""
    plant(monkeypatch)
    failure = first_broken(cluster.end, islice(histories, PLANTED_HISTORIES_MAX), SHRINKS_MAX)
    assert failure is not None, f"{PLANTED_HISTORIES_MAX} histories and no property broke"
    assert f"tests/model/replay.py '{'; '.join(failure.lines)}'" in str(failure)
    monkeypatch.undo()
    cluster.run(failure.lines)
    return failure


class Nowhere:
    """A world in which nothing is."""

    at_first = property(lambda self: Truth.of())

    def become(self, truth: Truth) -> None:
        """Nobody will look."""


def test_the_machine_tells_the_shortest_history(monkeypatch: pytest.MonkeyPatch):
    """What Hypothesis drew is shrunk to the actions that matter. Here a history fails that loses all of a ledger."""

    def lost_all(truth: Truth, *_: object) -> list[str]:
        written = [number for number, ledger in truth.ledgers.items() if ledger.written > 0]
        return [f"ledger {n} is lost" for n in written if not any(one.holds.get(n) for one in truth.bookies.values())]

    monkeypatch.setattr(Cluster, "judged", lambda self: {})
    monkeypatch.setattr(Cluster, "gone_on_with", lambda self, cut: [])
    monkeypatch.setattr(history, "broken", lost_all)
    with pytest.raises(Broken) as failure:
        run_machine(Cluster(cast(World, Nowhere()), cast(SparkFree, None)), HISTORIES, SEED)
    create, append, loss = failure.value.lines
    assert ("create", "append 1 1") == (create.split()[0], append)
    assert loss.split()[0] in ("wipe", "lose", "stripe")
