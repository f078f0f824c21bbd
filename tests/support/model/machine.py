"""The Hypothesis state machine: it draws a history action by action, and Hypothesis shrinks the one that fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from support.model import actions
from support.model.history import Broken, Cluster, first_broken

T = TypeVar("T")

STEPS = 12
"""Actions behind the beginning of a history, at most."""


class _Drawn:
    """A chooser whose every choice Hypothesis knows."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def pick(self, options: Sequence[T]) -> T:
        return options[self._data.draw(st.integers(0, len(options) - 1))]


class Tally:
    """What the histories of one test did: how many there were, and how often each action happened and each word was said."""

    def __init__(self) -> None:
        self.histories = 0
        self.actions: Counter[str] = Counter()
        self.said: Counter[str] = Counter()


class ClusterMachine(RuleBasedStateMachine):
    """One history. `cluster` is set by `run_machine`; all histories of a test share it, one after another."""

    cluster: ClassVar[Cluster]
    tally: ClassVar[Tally]

    def __init__(self) -> None:
        super().__init__()
        self.cluster.begin()
        self.urn: list[actions.Action] = []

    @initialize(data=st.data())
    def beginning(self, data: st.DataObject) -> None:
        """The swarm of this history, and some ledgers."""
        chooser = _Drawn(data)
        self.urn = actions.swarm(chooser)
        for line in actions.draw_beginning(chooser, self.cluster.world.at_first):
            self.cluster.happen(line)
        self.tally.histories += 1

    @rule(data=st.data())
    def action(self, data: st.DataObject) -> None:
        """One action, and every property."""
        line = actions.draw(_Drawn(data), self.urn, self.cluster.truth)
        self.cluster.step(line)
        self.tally.actions[line.split()[0]] += 1
        for row in self.cluster.rows.values():
            self.tally.said.update([row.standing, *row.unknowns, *(one.kind for one in row.findings)])


def run_machine(cluster: Cluster, histories: int, run_seed: int, steps: int = STEPS) -> Tally:
    """So many histories from a seed; the same seed draws the same ones. Raises Broken with the shortest history that fails:
    Hypothesis finds the simplest words, and every action that is not needed is left out of what it found."""
    tally = Tally()

    class Machine(ClusterMachine):
        pass

    Machine.cluster, Machine.tally = cluster, tally
    how = settings(
        max_examples=histories,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(run_seed)(Machine), settings=how)
    except Broken as failure:
        raise first_broken(cluster.run, [failure.lines]) or failure from None
    return tally
