"""The Hypothesis state machine: it draws a history action by action, and Hypothesis shrinks a
failing one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar
from warnings import catch_warnings, filterwarnings

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, HypothesisDeprecationWarning
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from support.model import actions
from support.model.history import Broken, Cluster, first_broken

T = TypeVar("T")
Act = Callable[[Cluster, str], object]
"""What to do with an action: `Cluster.step`, or `Cluster.happen`."""

STEPS = 12
"""Maximum number of actions after the beginning of a history."""
QUICK_HISTORIES = 22
"""Histories of the quick form, of ten actions on average."""
QUICK_SEED = 36
"""A seed whose histories have many ledgers of each standing. Hypothesis draws others if other
modules are loaded. `make soak` draws new ones.
"""
ONE_ON_SPARK_OF = 20
"""One of this many histories also runs on Spark."""
FLEETING = "taken through the model again, this history breaks nothing"


class _Drawn:
    """A chooser whose choices Hypothesis records."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def pick(self, options: Sequence[T]) -> T:
        return options[self._data.draw(st.integers(0, len(options) - 1))]


class Tally:
    """Counts of what the histories of one test did: their actions one by one, each action and each
    word, and what was broken last.
    """

    def __init__(self) -> None:
        self.histories: list[list[str]] = []
        self.broken: Broken | None = None
        self.actions: Counter[str] = Counter()
        self.said: Counter[str] = Counter()


class ClusterMachine(RuleBasedStateMachine):
    """One history. `run_machine` sets `cluster`; all histories of a test share it, one after
    another.
    """

    cluster: ClassVar[Cluster]
    tally: ClassVar[Tally]
    act: ClassVar[Act]

    def __init__(self) -> None:
        super().__init__()
        self.cluster.begin()
        self.urn: list[actions.Action] = []

    @initialize(data=st.data())
    def beginning(self, data: st.DataObject) -> None:
        """Draw the swarm of this history, and some ledgers."""
        chooser = _Drawn(data)
        self.urn = actions.swarm(chooser)
        for line in actions.draw_beginning(chooser, self.cluster.world.at_first):
            self.cluster.happen(line)
        self.tally.histories.append(self.cluster.lines)

    @rule(data=st.data())
    def action(self, data: st.DataObject) -> None:
        """Apply one action, and check every property."""
        line = actions.draw(_Drawn(data), self.urn, self.cluster.truth)
        try:
            self.act(self.cluster, line)
        except Broken as broken:
            self.tally.broken = broken
            raise
        self.tally.actions[line.split()[0]] += 1
        for row in self.cluster.rows.values():
            self.tally.said.update(
                [row.standing, *row.unknowns, *(one.kind for one in row.findings)]
            )


def run_machine(
    cluster: Cluster, histories: int, run_seed: int, steps: int = STEPS, act: Act = Cluster.step
) -> Tally:
    """Run so many histories from a seed; the same seed draws the same ones.

    Raises Broken with the shortest failing history: Hypothesis finds the simplest words, and every
    action that is not needed is removed.
    """
    tally = Tally()

    class Machine(ClusterMachine):
        pass

    Machine.cluster, Machine.tally, Machine.act = cluster, tally, staticmethod(act)
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
        with catch_warnings():  # other threads draw at random meanwhile: ZooKeeper's client does
            filterwarnings("ignore", "Do not use the `random` module", HypothesisDeprecationWarning)
            run_state_machine_as_test(seed(run_seed)(Machine), settings=how)
    except (Broken, Flaky):
        if (seen := tally.broken) is None:
            raise
        short = first_broken(cluster.run, [seen.lines]) or Broken(
            seen.lines, [*seen.sentences, FLEETING], cluster.where
        )
        raise short from short.__cause__ or seen.__cause__
    return tally


def drawn(cluster: Cluster, histories: int, run_seed: int) -> list[list[str]]:
    """Return the histories that `run_machine` draws from this seed if all properties hold. Nothing
    is audited. A second or two.
    """
    return run_machine(cluster, histories, run_seed, act=Cluster.happen).histories


def those_on_spark(histories: Sequence[list[str]], of: int) -> list[list[str]]:
    """Return every twentieth of the first so many. Hypothesis begins more histories than these, and
    gives up repeated ones.
    """
    return list(histories[ONE_ON_SPARK_OF - 1 : of : ONE_ON_SPARK_OF])
