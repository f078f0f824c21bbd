"""The quick form of the model: histories on the sandbox, audited after each action by the engine without Spark.

Every failure prints the shortest history that fails and the command that replays it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.model import actions, history
from support.model.clusters import started
from support.model.history import Broken, Cluster, first_broken, told
from support.model.machine import run_machine
from support.model.plants import PLANTS, Plant
from support.model.truth import Truth

HISTORIES = 60
"""Of ten actions on average: half a minute."""
SEED = 34
"""The same histories at each run; `make soak` draws new ones."""
PLANTED_HISTORIES_MAX = 60
"""Histories in which a planted bug must show."""
SHRINKS_MAX = 60

SAID = {
    *("sound", "exempt", "indeterminate", "violated", "bookie_silent"),
    *("ENTRY_WITHOUT_REPLICA", "ENTRY_ONLY_OUTSIDE_ENSEMBLE", "ENTRY_BELOW_ACK_QUORUM", "ENTRY_BELOW_WRITE_QUORUM"),
    *("ENSEMBLE_DUPLICATE_BOOKIE", "UNDERREPLICATED_UNRECOVERABLE", "UNDERREPLICATED_BEYOND_GRACE"),
    *("METADATA_MALFORMED", "LEDGER_STUCK"),
}
"""All that the model can owe."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("model")) as cluster:
        yield cluster


@pytest.mark.timeout(900)  # Hypothesis shrinks a failure for up to five minutes
def test_after_each_action_every_property_holds(cluster: Cluster):
    """No false alarm, no miss, nothing untouched moves, the same evidence gives the same verdict, all ledgers are counted."""
    tally = run_machine(cluster, HISTORIES, SEED)
    assert set(actions.BY_NAME) == set(tally.actions), "every action happened"
    assert SAID == set(tally.said), "every word was said"


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_breaks_a_history(cluster: Cluster, plant: Plant, monkeypatch: pytest.MonkeyPatch):
    """The model bites; and the shortest history is told, with the command that replays it."""
    plant(monkeypatch)
    histories = (told(f"bite/{number}", 12, cluster.world.at_first) for number in range(PLANTED_HISTORIES_MAX))
    failure = first_broken(cluster.end, histories, SHRINKS_MAX)
    assert failure is not None, f"{PLANTED_HISTORIES_MAX} histories and no property broke"
    assert f"tests/model/replay.py '{'; '.join(failure.lines)}'" in str(failure)
    monkeypatch.undo()
    cluster.run(failure.lines)


def test_the_machine_tells_the_shortest_history(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    """What Hypothesis drew is shrunk to the actions that matter. Here a history fails that loses all of a ledger."""

    def lost_all(truth: Truth, *_: object) -> list[str]:
        written = [number for number, ledger in truth.ledgers.items() if ledger.written > 0]
        return [f"ledger {n} is lost" for n in written if not any(one.holds.get(n) for one in truth.bookies.values())]

    monkeypatch.setattr(Cluster, "judged", lambda self: {})
    monkeypatch.setattr(history, "broken", lost_all)
    with pytest.raises(Broken) as failure:
        run_machine(cluster, HISTORIES, SEED)
    assert ["create 1 e3 w2 a2 b1 b2 b3", "append 1 1", "close 1", "lose 1 0 b1 b2"] == failure.value.lines
