"""The Hypothesis state machine: it draws a history action by action, and Hypothesis shrinks the one
that fails.
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
"""What becomes of an action: `Cluster.step`, or `Cluster.happen`."""

STEPS = 12
"""Actions behind the beginning of a history, at most."""
QUICK_HISTORIES = 40
"""Of the quick form, of ten actions on average: half a minute."""
QUICK_SEED = 36
"""Chosen for histories with many ledgers of each standing: Hypothesis draws others where other
modules are loaded. `make soak` draws new ones.
"""
ONE_ON_SPARK_OF = 20
"""One history of so many goes through Spark too."""
FLEETING = "taken through the model again, this history breaks nothing"


class _Drawn:
    """A chooser whose every choice Hypothesis knows."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def pick(self, options: Sequence[T]) -> T:
        return options[self._data.draw(st.integers(0, len(options) - 1))]


class Tally:
    """What the histories of one test did: their actions one by one, how often each happened and
    each word was said, and what was broken last.
    """

    def __init__(self) -> None:
        self.histories: list[list[str]] = []
        self.broken: Broken | None = None
        self.actions: Counter[str] = Counter()
        self.said: Counter[str] = Counter()


class ClusterMachine(RuleBasedStateMachine):
    """One history. `cluster` is set by `run_machine`; all histories of a test share it, one after
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
        """The swarm of this history, and some ledgers."""
        chooser = _Drawn(data)
        self.urn = actions.swarm(chooser)
        for line in actions.draw_beginning(chooser, self.cluster.world.at_first):
            self.cluster.happen(line)
        self.tally.histories.append(self.cluster.lines)

    @rule(data=st.data())
    def action(self, data: st.DataObject) -> None:
        """One action, and every property."""
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
    """So many histories from a seed; the same seed draws the same ones. Raises Broken with the
    shortest history that fails: Hypothesis finds the simplest words, and every action that is not
    needed is left out of what it found.
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
        with (
            catch_warnings()
        ):  # of other threads that draw by chance meanwhile: ZooKeeper's client does
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
    """The histories that `run_machine` draws from this seed, where they all hold; nothing is
    audited. A second or two.
    """
    return run_machine(cluster, histories, run_seed, act=Cluster.happen).histories


def those_on_spark(histories: Sequence[list[str]], of: int) -> list[list[str]]:
    """Every twentieth of the first so many. Hypothesis begins some more: it gives up those that it
    had before.
    """
    return list(histories[ONE_ON_SPARK_OF - 1 : of : ONE_ON_SPARK_OF])
